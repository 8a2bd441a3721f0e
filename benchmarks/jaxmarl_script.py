"""JaxMARL's own training scripts, unmodified, on a task of ours.

    python -m benchmarks.jaxmarl_script TASK SCRIPT [OVERRIDE ...]

TASK is a scenario name, or `module:attribute` for a task of your own, such as one with joint options. SCRIPT is a file
of JaxMARL's `baselines`; the overrides are for Hydra, with which it is configured. One of them must say
`ENV_NAME=cooptions`, for the Q-learning scripts `alg.ENV_NAME=cooptions`.

The scripts ask `jaxmarl.make` for an environment by name, and JaxMARL has no way to register one. So `make` is wrapped
before the script is run: under the name `cooptions` it gives the task. In the place of `wandb` stands a recorder:
nothing leaves the machine. What the script logs goes to `jaxmarl-log.jsonl`. At the end one line of JSON has the mean
returns, beside those of random play. The Q-learning scripts log only with `WANDB_MODE=offline`.
"""

import contextlib
import json
import math
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import jax
import jaxmarl
import numpy as np
from jaxmarl.environments.spaces import Box

from benchmarks.random_play import report
from cooptions.envs.adapters.to_jaxmarl import ToJaxMARL
from cooptions.envs.base import AbstractEnv
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError, CooptionsError, require
from cooptions.parts import import_outside

NAME = "cooptions"
LOG = "jaxmarl-log.jsonl"
PACKAGES = ("jaxmarl", "flax", "flashbax", "distrax", "hydra-core")
RETURNS = ("test_returned_episode_returns", "test_returned_episode_returns_agent_0", "returns")
"""Under what names the scripts log the mean return, best first: of a greedy team, or of the one that explores."""


class Shape(tuple[int, ...]):
    """A shape that is also a number: Hanabi, for which the masked IPPO scripts are written, has one as its shape."""

    def __index__(self) -> int:
        return math.prod(self)


class Task(ToJaxMARL):
    """A task whose observations have a shape that all scripts can read."""

    def observation_space(self, agent: str = "agent_0") -> Box:
        space = super().observation_space(agent)
        return Box(space.low, space.high, Shape(space.shape), space.dtype)


@dataclass
class Recorder:
    """What a script logs, in the place of `wandb`."""

    path: Path
    entries: list[dict[str, float]] = field(default_factory=list)

    def log(self, entry: dict[str, Any]) -> None:
        """Keep the mean of every entry."""
        means = {name: float(np.mean(value)) for name, value in entry.items() if not isinstance(value, dict)}
        self.entries.append(means)
        with self.path.open("a") as file:
            file.write(json.dumps(means) + "\n")

    def module(self) -> ModuleType:
        """A module with what the scripts use of `wandb`."""
        made: Any = ModuleType("wandb")
        made.init, made.finish, made.log = (lambda **_: None), (lambda: None), self.log
        return made

    def returns(self) -> list[float]:
        """The mean returns over training."""
        for name in RETURNS:
            values = [entry[name] for entry in self.entries if math.isfinite(entry.get(name, math.nan))]
            if values:
                return values
        raise ConfigError("the script logged no returns; the Q-learning scripts do with WANDB_MODE=offline")


def find_task(name: str) -> AbstractEnv:
    """A scenario, or what `module:attribute` names: an environment, or a function that makes one."""
    if ":" not in name:
        return make_env(name)
    found = import_outside("task", name)
    env = found if isinstance(found, AbstractEnv) else found()
    require(isinstance(env, AbstractEnv), f"task: {name!r} is a {type(env).__name__}, not an AbstractEnv")
    return env


def offering(task: AbstractEnv, make: Callable[..., Any]) -> Callable[..., Any]:
    """`jaxmarl.make` with one name more."""
    return lambda name, **fields: Task(task) if name == NAME else make(name, **fields)


@contextlib.contextmanager
def in_the_place_of(name: str, module: ModuleType) -> Iterator[None]:
    """Let a module be imported under the name of another."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


def run(task: AbstractEnv, script: Path, overrides: list[str], log: Path) -> Recorder:
    """Run a script as its author would, on the task."""
    require(script.is_file(), f"script: {script} is missing; clone github.com/FLAIROx/JaxMARL and name a file of its")
    log.unlink(missing_ok=True)
    recorder = Recorder(log)
    with (
        patch.object(jaxmarl, "make", offering(task, jaxmarl.make)),
        in_the_place_of("wandb", recorder.module()),
        patch.object(sys, "argv", [str(script), *overrides]),
    ):
        runpy.run_path(str(script), run_name="__main__")
        jax.effects_barrier()
    return recorder


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit("usage: python -m benchmarks.jaxmarl_script TASK SCRIPT [OVERRIDE ...]")
    name, script, *overrides = sys.argv[1:]
    begun = time.perf_counter()
    try:
        task = find_task(name)
        returns = run(task, Path(script), overrides, Path(LOG)).returns()
    except CooptionsError as error:
        sys.exit(f"error: {error}")
    print(json.dumps(report(task, returns, time.perf_counter() - begun, PACKAGES)))


if __name__ == "__main__":
    main()
