"""A part of each kind from one file outside the package, used by name on the command line."""

import sys
from dataclasses import replace

import pytest

from cooptions.cli.main import main
from cooptions.errors import ArtifactError
from cooptions.figures.draw import draw
from cooptions.runs.run import Run

PARTS = '''
from dataclasses import dataclass

from matplotlib.figure import Figure

from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.raw import RawJoint
from cooptions.envs.grid import Grid
from cooptions.figures.base import AbstractFigure
from cooptions.learners.q_learning import QConfig
from cooptions.options.handmade import handmade_options


@dataclass(frozen=True)
class Mine(RawJoint):
    """A representation."""

    scale: float = 1.0


@dataclass(frozen=True)
class Slow(Nystrom):
    """A Laplacian."""


@dataclass(frozen=True)
class Learner(QConfig):
    """A learner."""

    steps: int = 100_000
    num_envs: int = 4
    batch: int = 4
    capacity: int = 80
    learning_starts: int = 40


def gather(env):
    """An option source."""
    return handmade_options(env, ("gather",))


class Picture(AbstractFigure):
    """A figure."""

    needs = ("walk",)

    def plot(self, run):
        canvas = Figure()
        canvas.suptitle(f"{len(run.walk.states)} seeds")
        return canvas


def env():
    return Grid(3, 3, 2, task="meet", time_limit=10)
'''


@pytest.fixture
def parts(tmp_path, monkeypatch):
    (tmp_path / "toy_parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("toy_parts", None)


def test_a_representation_a_laplacian_an_environment_and_a_figure(parts):
    flags = ["--walk.transitions", "400", "--walk.num-envs", "10", "--laplacian.num-landmarks", "10"]
    which = ["--representation", "toy_parts:Mine", "--laplacian", "toy_parts:Slow", "--representation.scale", "2"]
    main(["discover", "toy_parts:env", *which, *flags, "--laplacian.num-eigenfunctions", "2", "--out", "run"])
    with Run.reopen(parts / "run", trust=True) as run:
        assert type(run.config.representation).__name__ == "Mine"
        assert run.config.representation.scale == 2.0
        assert type(run.config.laplacian).__name__ == "Slow"
        assert run.found.eigenvalues.shape == (1, 2)
        assert all(path.stat().st_size > 500 for path in draw("toy_parts:Picture", run))


def test_code_named_in_a_directory_is_not_imported_without_trust(parts):
    flags = ["--walk.transitions", "100", "--walk.num-envs", "10"]
    main(["walk", "toy_parts:env", *flags, "--out", "run"])
    sys.modules.pop("toy_parts")
    (parts / "toy_parts.py").write_text("raise SystemExit('it was run')")
    with pytest.raises(ArtifactError, match="toy_parts:env"), Run.reopen(parts / "run"):
        pass
    assert "toy_parts" not in sys.modules


def test_a_learner_and_an_option_source(parts):
    flags = ["--learning.evaluations", "2", "--learning.episodes", "3", "--learning.learner.steps", "320"]
    main(["train", "toy_parts:env", "--method", "toy_parts:Learner+toy_parts:gather", *flags, "--out", "run"])
    with Run.reopen(parts / "run", trust=True) as run:
        learning = run.config.learning
        assert (learning.name, learning.learner.batch) == ("toy_parts:Learner+toy_parts:gather", 4)
        assert [option.name for option in run.task.options.options] == ["gather"]
        assert run.learning[1].shape[:2] == (1, 2)
        assert replace(learning.learner, batch=8).batch == 8
