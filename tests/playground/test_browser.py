"""The page in a real Chromium: what a visitor does, and what they see."""

import re
import shutil
import socket
import threading
import time

import numpy as np
import pytest
import uvicorn
from playground_scenes import FORAGING, GRID, KITCHEN

from cooptions.playground.export import export
from cooptions.playground.server import make_app

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: `apt-get install chromium` brings one")

SECONDS = 60
TOKEN = "a-token"


@pytest.fixture(scope="module")
def address(library):
    """The page of the library, served on a free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app(library, TOKEN), log_level="warning", access_log=False))
        thread = threading.Thread(target=lambda: server.run(sockets=[sock]), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/{TOKEN}/"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser():
    sync_api.expect.set_options(timeout=SECONDS * 1000)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Opens pages, and fails where one has anything to complain of."""
    complaints, pages = [], []

    def visit(address, subject=0, width=1180, dark=False):
        page = browser.new_page(viewport={"width": width, "height": 840}, color_scheme="dark" if dark else "light")
        page.set_default_timeout(SECONDS * 1000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.wait_for_selector("body[data-ready]", state="attached")
        if subject:
            page.select_option("#subject", str(subject))
            sync_api.expect(page.locator("#thumbnails canvas").first).to_be_visible()
            page.wait_for_selector("#whole:not([aria-busy])")
            page.wait_for_timeout(100)
        pages.append(page)
        return page

    yield visit
    for page in pages:
        page.close()
    assert complaints == []


def colours(page):
    return page.locator(".hot").evaluate_all("cells => cells.map(cell => cell.getAttribute('fill'))")


def places(page):
    return page.locator(".agent").evaluate_all("agents => agents.map(agent => agent.getAttribute('aria-label'))")


def looks(page):
    return int(page.locator("body").get_attribute("data-looks"))


def settled(page, before):
    """Wait for an answer to what was just done."""
    sync_api.expect(page.locator("body")).not_to_have_attribute("data-looks", str(before))
    page.wait_for_timeout(80)


def drag(page, agent, row, column, rows):
    board = page.locator("svg.board").bounding_box()
    start = page.locator(f".agent[data-agent='{agent}'] .disc").bounding_box()
    cell = board["height"] / rows
    left = board["x"] + (board["width"] - cell * rows) / 2
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(left + (column + 0.5) * cell, board["y"] + (row + 0.5) * cell, steps=4)
    page.mouse.up()


@pytest.mark.parametrize("width", [1180, 390])
def test_a_drag_moves_the_agent_and_changes_the_map(address, visit, width):
    page = visit(address, GRID, width=width)
    before, count = colours(page), looks(page)
    drag(page, 1, 0, 5, rows=6)
    settled(page, count)
    assert places(page)[1].startswith("Agent 2, x 0, y 5")
    assert colours(page) != before
    assert page.locator("#board-title").inner_text() == "e1 as agent 2 moves"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_keyboard_does_it_too_and_says_so(address, visit):
    page = visit(address, GRID)
    page.locator(".agent[data-agent='0']").focus()
    before, count = places(page)[0], looks(page)
    page.keyboard.press("ArrowDown" if "x 0" in before else "ArrowUp")
    settled(page, count)
    after = places(page)[0]
    assert after != before
    sync_api.expect(page.locator("#live")).to_contain_text(after.partition(". Arrow")[0].partition(",")[2].strip())
    sync_api.expect(page.locator("#live")).to_contain_text("e1 is")


def test_agents_stay_off_each_other_and_off_apples(address, visit):
    page = visit(address, FORAGING)
    other = [int(number) for number in re.findall(r"[xy] (\d+)", places(page)[1])]
    before = places(page)[0]
    drag(page, 0, *other, rows=6)
    page.wait_for_timeout(200)
    assert [int(number) for number in re.findall(r"[xy] (\d+)", places(page)[0])] != other or before == places(page)[0]
    assert page.locator("#alert").is_hidden()


def test_play_moves_the_agents_and_steps_go_both_ways(address, visit):
    page = visit(address, GRID)
    page.click("#tab-options")
    for option in range(4):
        page.click(f"[data-option='{option}']")
        before = places(page)
        page.click("#play")
        sync_api.expect(page.locator("#step-text")).to_have_text(re.compile(r"/ [1-9]|ends at once"))
        if page.locator("#last").is_enabled():
            page.click("#last")
        if places(page) != before:
            break
    assert places(page) != before
    page.click("#first")
    assert places(page) == before
    page.click("#forward")
    sync_api.expect(page.locator("#step-text")).to_have_text(re.compile(r"^1 / "))
    assert page.locator("#charts figure").count() == 2


def test_a_learned_team_is_watched_step_by_step(address, visit):
    page = visit(address, FORAGING)
    page.click("#tab-team")
    page.wait_for_selector("#timeline svg")
    page.click("#forward")
    sync_api.expect(page.locator("#step-text")).to_have_text(re.compile(r"^1 / \d+"))
    assert page.locator("#episode-text").inner_text().startswith("Reward so far")
    page.click("#back")
    sync_api.expect(page.locator("#step-text")).to_have_text(re.compile(r"^0 / "))


@pytest.mark.slow
def test_a_cook_turns_and_carries(address, visit):
    page = visit(address, KITCHEN)
    count = looks(page)
    page.get_by_label("inventory of agent 1").select_option("onion")
    settled(page, count)
    assert "inventory onion" in places(page)[0]
    assert page.locator(".agent[data-agent='0'] .held").get_attribute("hidden") is None


def test_every_control_has_a_name_and_tabs_have_arrows(address, visit):
    page = visit(address, GRID)
    for control in page.locator("button, select, input, [role=button]").all():
        if control.is_visible():
            label = control.evaluate("c => c.getAttribute('aria-label') || c.innerText || c.labels?.[0]?.innerText")
            assert label, control.evaluate("c => c.outerHTML")
    page.locator("#tab-map").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tab-options").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("kind", ["sums", "joint"])
def test_an_exported_page_answers_as_the_server_does(kind, library, joint_scene, visit, tmp_path):
    scene = {"sums": library.scene(FORAGING), "joint": joint_scene}[kind]
    told = export(scene, library.describe()[0], tmp_path / "page.html")
    assert f'"kind":"{kind}"' in (tmp_path / "page.html").read_text()
    assert "Options play from these starts only" in told[1]
    page = visit((tmp_path / "page.html").as_uri())
    count = looks(page)
    page.locator(".agent[data-agent='0']").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    settled(page, count)
    states = np.array([[float(n) for n in re.findall(r"[xy] (\d+)", place)] for place in places(page)], np.float32)
    shown = [float(each.replace("−", "-")) for each in page.locator(".thumbnail small").all_inner_texts()]
    np.testing.assert_allclose(shown, scene.look(states, 0)["values"], atol=0.08)
    page.click("#tab-options")
    page.click("#play")
    sync_api.expect(page.locator("#step-text")).to_have_text(re.compile(r"/ [1-9]|ends at once"))
