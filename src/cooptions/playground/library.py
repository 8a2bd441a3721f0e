"""What the page can show: the seeds of the named runs and option sets, and nothing else on the disk."""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from cooptions.envs.base import AbstractEnv
from cooptions.envs.scenarios import make_env
from cooptions.envs.subteam import env_for
from cooptions.envs.wrapper import innermost
from cooptions.errors import ArtifactError, CooptionsError, require
from cooptions.options.base import AbstractOptions
from cooptions.options.sharing.hub import is_hub_name
from cooptions.options.sharing.storage import DESCRIPTION, SETS, load_option_set
from cooptions.playground.board import Board
from cooptions.playground.lens import Lens
from cooptions.playground.scene import Scene
from cooptions.runs.config import config_of_run
from cooptions.runs.directory import read_run
from cooptions.runs.run import Run, given_options
from cooptions.runs.team import team_of_run

RUNS = Path("runs")
"""The folder in which runs are looked for if none is named."""


@runtime_checkable
class Subject(Protocol):
    """Something that can be opened as a scene."""

    def open(self) -> Scene: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class SeedOfRun:
    """One seed of a run, which may be incomplete."""

    path: Path
    seed: int
    """The seed's index, counted from 0."""
    trust: bool = False

    def open(self) -> Scene:
        """Load what the run has. Nothing is locked, made or written.

        A page shows one team. If the whole team has learned with options of some of its agents, it is the whole team.
        """
        run = _read(self.path, self.trust)
        team = team_of_run(run, self.seed) if run.has("learning") else None
        env = run.config.option_env if team is None else run.config.env
        board, fits = Board.of(env), env.num_agents == run.config.option_env.num_agents
        lens = None
        if run.has("spectrum") and run.has("representation") and fits:
            lens = Lens(run.found.seed(self.seed % run.config.discovering.seeds), board)
        return Scene(env, board, lens, self._options(run) if fits else None, team)

    def describe(self) -> dict[str, Any]:
        config = _read(self.path, self.trust).config
        method = type(config.representation).__name__.lower()
        return {"name": self.path.name, "scenario": config.scenario, "method": method, "seed": config.seed + self.seed}

    def _options(self, run: Run) -> AbstractOptions | None:
        if run.has("options"):
            seed = self.seed % run.config.discovering.seeds
            return jax.tree.map(lambda leaf: leaf[seed], run.options)
        macro = run.config.learning.macro
        given = run.has("learning") and macro is not None and macro.option_set
        return given_options(macro.option_set, run.config.option_env) if given and macro is not None else None


@dataclass(frozen=True)
class SharedSet:
    """An option set, in an environment that it fits."""

    path: Path
    scenario: str

    def open(self) -> Scene:
        env: AbstractEnv = make_env(self.scenario)
        options = load_option_set(self.path, env)
        env = env_for(innermost(env), options.view.team)
        return Scene(env, Board.of(env), None, options, None)

    def describe(self) -> dict[str, Any]:
        return {"name": self.path.name, "scenario": self.scenario, "method": "option set", "seed": None}


@dataclass
class Library:
    """Scenes by index. Each is opened when it is first requested."""

    subjects: tuple[Subject, ...]
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Allows one computation at a time, because a single one keeps two cores busy."""
    opened: dict[int, Scene] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[Path], *, scenario: str = "", trust: bool = False) -> "Library":
        subjects = [subject for path in paths for subject in _subjects(path, scenario, trust)]
        return cls(tuple(subjects))

    def describe(self) -> list[dict[str, Any]]:
        return [subject.describe() for subject in self.subjects]

    def scene(self, index: int) -> Scene:
        """The scene with this index, opened and compiled."""
        require(0 <= index < len(self.subjects), f"subject: there are 0 to {len(self.subjects) - 1}, not {index}")
        if index not in self.opened:
            scene = self.subjects[index].open()
            scene.warm_up()
            self.opened[index] = scene
        return self.opened[index]

    def prepare(self) -> None:
        """Compile what the first scene needs to play an option, so that the first play is faster."""
        scene = self.opened.get(0)
        with contextlib.suppress(CooptionsError):
            if scene is not None and scene.options is not None:
                scene.play(np.asarray(scene.start(0)["states"], np.float32), 0, 0)


def newest_run(folder: Path = RUNS) -> Path:
    """The run in a folder that changed last."""
    found = [path.parent for path in folder.glob("*/manifest.json") if (path.parent / "config.json").exists()]
    if not found:
        raise ArtifactError(f"play: no run in {folder}/; name one, or make one: `cooptions run quick`")
    return max(found, key=lambda path: (path / "manifest.json").stat().st_mtime)


def _read(path: Path, trust: bool) -> Run:
    directory = read_run(path)
    return Run(config_of_run(directory, trust=trust), directory)


def _subjects(path: Path, scenario: str, trust: bool) -> list[Subject]:
    if is_hub_name(path) or (path / DESCRIPTION).exists():
        return [_shared(path, scenario)]
    run = _read(path, trust)
    known = [stage for stage in ("spectrum", "options", "learning") if run.has(stage)]
    require(bool(known), f"{path}: nothing was discovered here yet; `cooptions discover` does it")
    seeds = run.config.seeds if run.has("learning") else run.config.discovering.seeds
    return [SeedOfRun(path, seed, trust) for seed in range(seeds)]


def _shared(path: Path, scenario: str) -> Subject:
    """An option set. One inside its run is shown with the results of that run."""
    run = path.resolve().parent.parent
    if not scenario and path.resolve().parent.name == SETS and (run / "config.json").exists():
        first = config_of_run(read_run(run)).seed
        return SeedOfRun(run, int(path.resolve().name.removeprefix("seed-")) - first)
    require(bool(scenario), f"{path}: say which scenario its options are played in: --scenario NAME")
    return SharedSet(path, scenario)
