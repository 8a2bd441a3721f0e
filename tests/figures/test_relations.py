import numpy as np
import pytest
from matplotlib.figure import Figure

from cooptions.cli.main import main
from cooptions.envs.scenarios import make_env
from cooptions.envs.team import Team
from cooptions.plots.maps import mark_teammates, sweep, teammates_label

MPE = """
from jaxmarl import make
from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.types import Feature
spread = make("MPE_simple_spread_v3")
x, y = Feature.continuous("x", -2.0, 2.0), Feature.continuous("y", -2.0, 2.0)
env = FromJaxMARL(
    spread,
    features=(x, y),
    factorise=lambda state: state.p_pos[: spread.num_agents].clip(-2.0, 2.0),
    ends_by_time_limit=True,
)
"""


DISCOVER = [
    *("--walk.transitions", "2000", "--representation.steps", "5"),
    *("--laplacian.num-landmarks", "10", "--laplacian.num-eigenfunctions", "2"),
]
OPTIONS = [
    *("--options.learner.steps", "640", "--options.learner.batch", "4", "--options.learner.capacity", "640"),
    *("--options.num-starts", "8", "--options.max-steps", "3"),
    *("--learning.learner.steps", "320", "--learning.learner.num-envs", "4", "--learning.learner.rollout", "5"),
    *(
        "--learning.learner.batch",
        "4",
        "--learning.learner.capacity",
        "80",
        "--learning.learner.network.hidden",
        "8",
        "8",
    ),
    *("--learning.evaluations", "2", "--learning.episodes", "3"),
]


@pytest.mark.parametrize(
    ("command", "scenario"),
    [
        pytest.param("discover", "my_figure_env:env", marks=pytest.mark.slow),
        pytest.param("run", "probe-truncated", marks=pytest.mark.slow),
        pytest.param("discover", "overcooked-forced_coord", marks=pytest.mark.slow),
    ],
)
def test_runs_on_any_kind_of_features_end_in_their_pictures(command, scenario, tmp_path, monkeypatch):
    """Continuous features, a single feature, categorical features."""
    (tmp_path / "my_figure_env.py").write_text(MPE)
    monkeypatch.syspath_prepend(tmp_path)
    extra = OPTIONS if command == "run" else []
    main([command, scenario, "--out", str(tmp_path / "run"), *DISCOVER, *extra])
    for name in ("relations", "options", "learning") if command == "run" else ("relations",):
        assert (tmp_path / f"run/figures/{name}.png").stat().st_size > 3000


def test_teammates_are_marked_with_their_numbers():
    ax = Figure().subplots()
    mark_teammates(ax, np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]), range(2, 5))
    assert [(text.get_text(), text.get_position()) for text in ax.texts] == [("2,4", (2.0, 1.0)), ("3", (0.0, 0.0))]
    assert teammates_label(4, 0).get_label() == "teammates 2, 3, 4, held while agent 1 moves"
    assert teammates_label(2, 1).get_label() == "teammate 1, held while agent 2 moves"


def test_sweep_moves_one_agent_and_no_other():
    team = Team.of(make_env("grid-3x4-2p"))
    maps = sweep(team, lambda states: states.ravel(), np.array([[1.0, 2.0]]), agent=1)
    assert maps.shape == (4, 3, 4)
    assert (maps[:2] == np.array([1.0, 2.0])[:, None, None]).all()
    assert np.array_equal(maps[2], np.repeat(np.arange(3.0)[:, None], 4, axis=1))
