"""The roll-out figure draws every move once, at its position."""

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.quiver import Quiver

from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.plots import colours
from cooptions.plots.panels import APART, FERMAT_RADIUS, Panel
from cooptions.plots.rollouts import draw_map, plot_card, plot_rollouts


def saved(canvas: Figure) -> int:
    """The size of the figure as PNG; drawing it must raise no warning."""
    content = io.BytesIO()
    canvas.savefig(content, format="png", bbox_inches="tight", dpi=50)
    return len(content.getvalue())


def walk(env, steps=6, *, length=4, fermat=True):
    """The first agent moves along the first feature, the others stand still. States after `length` are padding."""
    states = np.zeros((steps + 1, env.num_agents, len(env.features)), np.float32)
    states[:, 0, 0] = 1 + np.minimum(np.arange(steps + 1) // 2, 2)
    states[length + 1 :] = 9.0
    z = np.arange(len(env.features), dtype=np.float32)
    names = tuple(feature.name for feature in env.features)
    return Panel(states, length, z, names, np.full(len(env.features), 1.0, np.float32) if fermat else None)


def quivers(ax) -> list[Any]:
    return [child for child in ax.get_children() if isinstance(child, Quiver)]


def circles(ax) -> list[Any]:
    return [child for child in ax.patches if isinstance(child, Circle)]


def test_one_arrow_for_each_move():
    env = make_env("grid-5x6-3p")
    panel = walk(env)
    canvas = plot_rollouts(env, [[panel, panel]], ["a", "b"], row_titles=["start"])
    ax = canvas.axes[0]
    arrows = quivers(ax)
    assert [arrow.U.size for arrow in arrows] == [2, 0, 0], "4 real steps, of which two move"
    assert np.allclose(arrows[0].V, 1.0), "x is the row: the walk goes down"
    assert np.allclose(arrows[0].U, 0.0)
    alphas = arrows[0].get_facecolor()[:, 3]
    assert alphas[0] < alphas[1] <= 1.0, "time shows as alpha"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert saved(canvas) > 3000


def test_start_final_and_fermat_circles():
    env = make_env("grid-5x6-3p")
    ax = plot_rollouts(env, [[walk(env)]], ["a"]).axes[0]
    first = to_rgb(tuple(part / 255 for part in colours.agent_colour(0)))
    start = next(circle for circle in circles(ax) if to_rgb(circle.get_edgecolor()) == first)
    final = next(circle for circle in circles(ax) if to_rgb(circle.get_facecolor()) == first)
    assert to_rgb(start.get_facecolor()) == (1.0, 1.0, 1.0)
    assert np.abs(np.array(start.center) - (0, 1)).max() <= APART
    assert np.abs(np.array(final.center) - (0, 3)).max() <= APART, "the last real state, not the padding"
    fermat = [circle for circle in circles(ax) if circle.radius == FERMAT_RADIUS]
    assert all(circle.center == pytest.approx((1.0, 1.0)) for circle in fermat)
    assert fermat[0].get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    names = ["agent 1", "agent 2", "agent 3", "start", "final state", "Fermat state"]
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == names
    bare = plot_rollouts(env, [[walk(env, fermat=False)]], ["a"]).axes[0]
    assert len(circles(ax)) == len(circles(bare)) + len(fermat)


def test_kitchens_have_the_right_orientation():
    env = make_env("overcooked-counter_circuit")
    canvas = plot_rollouts(env, [[walk(env)]], ["a"])
    arrow = quivers(canvas.axes[0])[0]
    assert np.allclose(arrow.U, 1.0), "x is the column: the walk goes right"
    assert np.allclose(arrow.V, 0.0)
    assert np.diff(canvas.axes[0].get_xlim())[0] == pytest.approx(8, abs=0.5)
    assert saved(canvas) > 3000


def test_type_1_has_stripes():
    lines = [
        len(plot_rollouts(env, [[walk(env)]], ["a"]).axes[0].lines)
        for env in (make_env("grid-5x6-2p"), make_env("grid-5x6-2p,types=12"))
    ]
    assert lines[0] == 0 < lines[1]


def test_bars_share_one_scale():
    env = make_env("grid-5x6-2p")
    low, high = walk(env), dataclasses.replace(walk(env), z=np.array([3.0, 8.0]), z_names=("x", "long-name"))
    left, right = (ax.child_axes[0] for ax in plot_rollouts(env, [[low, high]], ["a", "b"]).axes)
    assert left.get_ylim() == right.get_ylim()
    assert [bar.get_height() for bar in right.containers[0]] == [3.0, 8.0]
    assert [label.get_text() for label in left.get_xticklabels()] == ["x", "y"]


@pytest.mark.parametrize("scenario", ["overcooked-forced_coord", "probe-truncated"])
def test_without_two_coordinates_features_over_time(scenario):
    env = make_env(scenario)
    canvas = plot_rollouts(env, [[walk(env)]], ["a"])
    strips = canvas.axes[0].child_axes
    assert len(strips) == len(env.features) + 1, "one a feature, and the bars"
    assert len(strips[0].lines[0].get_xydata()) == 5
    assert saved(canvas) > 3000


@pytest.mark.parametrize(
    ("scenario", "shape"),
    [("grid-5x6-2p,map=door", (5, 6)), ("overcooked-counter_circuit", (8, 5)), ("probe-truncated", (6, 1))],
)
def test_cards(scenario, shape):
    """Maps are over the first two features, and drawn in the orientation of the floor."""
    env = make_env(scenario)
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    panel = walk(env)
    canvas = plot_card(env, values, panel, others=panel.path[0, 1:], titles=("map", "walk"))
    assert saved(canvas) > 3000
    assert canvas.legends[0].get_texts()[-1].get_text().startswith("teammate")


def test_map_of_a_kitchen_is_turned_and_walls_are_left_out():
    env = make_env("overcooked-counter_circuit")
    values = np.arange(40, dtype=float).reshape(8, 5)
    image = draw_map(Figure().subplots(), env, values, np.zeros((0, 4)))
    shown = image.get_array()
    assert shown.shape == (5, 8)
    assert shown[1, 3] == values[3, 1]
    assert np.ma.getmaskarray(shown)[0].all(), "counters"


def test_errors_name_what_to_fix():
    env = make_env("grid-5x6-2p")
    panel = walk(env)
    with pytest.raises(ConfigError, match="column_titles"):
        plot_rollouts(env, [[panel]], ["a", "b"])
    with pytest.raises(ConfigError, match="row_titles"):
        plot_rollouts(env, [[panel]], ["a"], row_titles=["a", "b"])
    with pytest.raises(ConfigError, match="Panel.length"):
        plot_rollouts(env, [[dataclasses.replace(panel, length=7)]], ["a"])
    with pytest.raises(ConfigError, match="Panel.z_names"):
        plot_rollouts(env, [[dataclasses.replace(panel, z_names=("x",))]], ["a"])
    with pytest.raises(ConfigError, match="Panel.agent_states"):
        plot_rollouts(make_env("grid-5x6-3p"), [[panel]], ["a"])
    with pytest.raises(ConfigError, match="values"):
        plot_card(
            make_env("overcooked-counter_circuit"), np.zeros((5, 8)), walk(make_env("overcooked-counter_circuit"))
        )
