"""Take the pictures of docs/guides/playground.md: three runs in Chromium, in the sizes of a desktop and a phone.

python -m experiments.playground_pictures runs/grid runs/foraging runs/kitchen
"""

import io
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from cooptions.playground.library import Library
from cooptions.playground.server import make_app

OUT = Path(__file__).parents[1] / "docs" / "pictures" / "playground"
NAMES = ("grid", "foraging", "kitchen")
DEVICES = {"desktop": ((1180, 840), "light"), "phone": ((390, 844), "dark")}
TIMEOUT = 300_000


def main(paths: list[Path]) -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    app = make_app(Library.of(paths), "token")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    threading.Thread(target=lambda: server.run(sockets=[sock]), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for device, ((width, height), scheme) in DEVICES.items():
            for subject, name in enumerate(NAMES):
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.set_default_timeout(TIMEOUT)
                page.goto(f"http://127.0.0.1:{sock.getsockname()[1]}/token/")
                page.wait_for_selector("body[data-ready]", state="attached")
                if subject:
                    page.select_option("#subject", str(subject))
                    page.wait_for_selector("#whole[aria-busy]")
                    page.wait_for_selector("#whole:not([aria-busy])")
                _views(page, f"{name}-{{}}-{device}.png")
                page.close()
        browser.close()


def _views(page: Page, name: str) -> None:
    _save(page, name.format("map"))
    page.click("#tab-options")
    page.click("#play")
    page.wait_for_selector("#charts figure")
    page.click("#first")
    for _ in range(3):
        if page.locator("#forward").is_enabled():
            page.click("#forward")
    _save(page, name.format("options"))
    if page.locator("#tab-team").is_enabled():
        page.fill("#seed", "3")
        page.click("#restart")
        page.click("#tab-team")
        page.wait_for_selector("#timeline svg")
        for _ in range(4):
            page.click("#forward")
        _save(page, name.format("team"))


def _save(page: Page, name: str) -> None:
    page.wait_for_timeout(900)
    shot = Image.open(io.BytesIO(page.screenshot(full_page=page.viewport_size["width"] < 500)))
    shot.convert("RGB").save(OUT / name, optimize=True)
    print(OUT / name, (OUT / name).stat().st_size)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
