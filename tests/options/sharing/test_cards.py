"""The card of an option set: true statements, and matching pictures."""

import io
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from cooptions.envs.overcooked import Overcooked
from cooptions.envs.scenarios import make_env
from cooptions.options.sharing import pictures
from cooptions.options.sharing.cards import addressed, card_files, card_markdown
from cooptions.options.sharing.pictures import card_pictures
from cooptions.options.sharing.sealed import SAFE_NAME
from cooptions.options.sharing.storage import load_option_set, save_option_set

KEY = jax.random.key(0)
MADE = {"command": "cooptions options quick", "versions": {"jax": "0.10", "numpy": "2.4"}, "commit": "abc123"}


def value(states):
    return jnp.stack([states[0, 0] - 2.0, states[:, 1].sum() / 4])


@pytest.fixture(scope="module")
def drawn(tiny_env, tiny_set, tiny_starts):
    return card_pictures(tiny_env, tiny_set, tiny_starts, value=value, key=KEY)


def test_file_names_are_safe_everywhere_and_differ():
    names = ["+e1", "-e1", "same x", "same-x", "Same X", "π", "../../x", "a" * 200, "+", ""]
    files = card_files(names)
    assert list(files) == names
    assert (files["+e1"], files["-e1"], files["same x"]) == ("e1-plus.png", "e1-minus.png", "same-x.png")
    assert len({file.lower() for file in files.values()}) == len(names)
    assert all(SAFE_NAME.fullmatch(file) and "/" not in file for file in files.values())


def test_every_option_has_a_picture_of_what_it_climbs_and_does(tiny_env, tiny_set, drawn):
    assert list(drawn) == ["e1-plus.png", "e1-minus.png", "e2-plus.png", "e2-minus.png"]
    assert len(set(drawn.values())) == 4
    for content in drawn.values():
        image = matplotlib.image.imread(io.BytesIO(content), format="png")
        assert min(image.shape[:2]) > 200
        assert image[..., :3].std() > 0.05  # not blank


def test_maps_show_the_options_eigenfunction_and_sign(tiny_env, tiny_set, tiny_starts, monkeypatch):
    calls = []

    def record(env, values, panel, *, others, titles):
        calls.append((values, panel, others, titles))
        return Figure()

    monkeypatch.setattr(pictures, "plot_card", record)
    card_pictures(tiny_env, tiny_set, tiny_starts, value=value, key=KEY)
    assert [titles[0] for *_, titles in calls] == [f"{o.name}: one agent moves" for o in tiny_set.options]
    rows = np.broadcast_to(np.arange(5.0)[:, None] - 2, (5, 5))
    assert np.allclose(calls[0][0], rows)
    for up, down in (calls[:2], calls[2:]):
        assert np.allclose(up[0], -down[0])
    starts = jax.vmap(tiny_env.agent_states)(tiny_starts.state)
    for _, panel, others, _ in calls:
        assert np.array_equal(panel.agent_states[0, 1:], others)  # the roll-out starts from the state of the map
        assert any(np.array_equal(panel.agent_states[0], joint) for joint in starts)
        apart = np.abs(np.diff(panel.agent_states[-1], axis=0))[0]
        assert np.allclose(panel.z, apart)


def test_the_start_drawn_is_a_typical_one(tiny_env):
    joint = np.zeros((5, 2, 2), np.float32)
    joint[:, 1] = [[0, 4], [4, 0], [2, 2], [4, 4], [0, 0]]
    assert pictures._typical(tiny_env, jnp.asarray(joint)) == 2


def test_maps_are_left_out_where_there_is_no_plane_or_no_eigenfunction(tiny_env, tiny_set, tiny_starts, monkeypatch):
    assert pictures._has_plane(tiny_env)
    assert not pictures._has_plane(Overcooked("forced_coord"))
    monkeypatch.setattr(pictures, "plot_card", lambda *args, **kwargs: pytest.fail("a map was drawn"))
    assert len(card_pictures(tiny_env, tiny_set, tiny_starts, key=KEY)) == 4


def test_the_card_is_complete(tiny_env, tiny_reports):
    page = card_markdown(tiny_env, tiny_reports, MADE, pictures={"e1-plus.png"}, scenario="grid-5x5-2p")
    assert page.startswith("---\nlibrary_name: cooptions\nlicense: mit\ntags:\n")
    assert "\n---\n\n# 4 joint options for grid-5x5-2p\n" in page
    for text in ("`cooptions options quick`", "jax 0.10, numpy 2.4", "`abc123`", "Grid(height=5", "x (coordinate)"):
        assert text in page
    assert page.count("| +e1 |") == 1
    assert "### +e1: brings x together, leaves y" in page
    assert "0.20 [0.15, 0.25]; with random play 1.00 [0.90, 1.10]" in page
    assert re.findall(r"!\[.*?\]\((.*?)\)", page) == ["cards/e1-plus.png"]


def test_the_card_lists_the_rules_in_effect():
    page = card_markdown(make_env("lbf-3s-8x8-2p-2f"), (), MADE)
    assert "\nIts rules: sight 3, reach corner, coop all, knows_place False, flag sees, mask reach.\n" in page
    assert "Its rules" not in card_markdown(make_env("grid-5x5-2p"), (), MADE)


def test_a_card_without_reports_or_with_unmeasured_numbers(tiny_env, tiny_reports):
    assert "| --- |" not in card_markdown(tiny_env, (), {})
    unmeasured = tuple(replace(feature, ratio=None, random_ratio=None) for feature in tiny_reports[0].features)
    page = card_markdown(tiny_env, [replace(tiny_reports[0], features=unmeasured, mean_gain=None)], MADE)
    assert "x: no two agents differed in it at the start, at the end by 0.40" in page
    assert "None" not in page


@pytest.mark.parametrize("scenario", ["grid-5x5-2p", ""])
def test_the_code_on_the_card_runs(scenario, tmp_path, tiny_env, tiny_set, tiny_reports, drawn):
    path = tmp_path / "set"
    save_option_set(path, tiny_set, tiny_env, tiny_reports, provenance=MADE, pictures=drawn, scenario=scenario)
    page = (path / "README.md").read_text()
    links = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert links == [f"cards/{name}" for name in drawn]
    assert all((path / link).read_bytes() == drawn[link.removeprefix("cards/")] for link in links)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code.replace("path/to/this/directory", str(path)), names)
    assert names["task"].num_actions == tiny_env.num_actions + 4
    assert names["task"].options.options == load_option_set(path, tiny_env).options


def test_a_card_names_its_current_location():
    page = 'license: none\n    load("path/to/this/directory")\n'
    moved = addressed(f"---\nlibrary_name: cooptions\nlicense: mit\n---\n{page}", "hf://a/b", "cc-by-4.0")
    assert moved == '---\nlibrary_name: cooptions\nlicense: cc-by-4.0\n---\nlicense: none\n    load("hf://a/b")\n'
    earlier = addressed(page, "hf://a/b")
    assert earlier.startswith("---\nlibrary_name: cooptions\nlicense: mit\ntags:\n- cooptions\n")
    assert earlier.endswith('license: none\n    load("hf://a/b")\n')
