"""Run JaxMARL's own training scripts, unmodified, on one of our tasks.

    python -m benchmarks.jaxmarl_script TASK SCRIPT [OVERRIDE ...]

TASK is a scenario name, or `module:attribute` for your own task, for example one with joint options. SCRIPT is a file
of JaxMARL's `baselines`. The overrides are for Hydra, which configures it. One of them must be `ENV_NAME=cooptions`, or
`alg.ENV_NAME=cooptions` for the Q-learning scripts.

The scripts call `jaxmarl.make` with the name of an environment, and JaxMARL has no registry. So `make` is wrapped: for
the name `cooptions` it returns the task. A recorder replaces `wandb`, so that nothing leaves the machine; it writes the
log to `jaxmarl-log.jsonl`. The last line is a JSON object with the mean returns and those of random play. The
Q-learning scripts log only with `WANDB_MODE=offline`.
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
"""The names of the mean return in the scripts' logs, in order of preference: of a greedy team, or while exploring."""


class Shape(tuple[int, ...]):
    """A shape that is also a number, because the masked IPPO scripts expect Hanabi's shape, which is a number."""

    def __index__(self) -> int:
        return math.prod(self)


class Task(ToJaxMARL):
    """The exported task, with a shape of observations that all scripts accept."""

    def observation_space(self, agent: str = "agent_0") -> Box:
        space = super().observation_space(agent)
        return Box(space.low, space.high, Shape(space.shape), space.dtype)


@dataclass
class Recorder:
    """Records a script's log instead of `wandb`."""

    path: Path
    entries: list[dict[str, float]] = field(default_factory=list)

    def log(self, entry: dict[str, Any]) -> None:
        """Record the mean of every entry."""
        means = {name: float(np.mean(value)) for name, value in entry.items() if not isinstance(value, dict)}
        self.entries.append(means)
        with self.path.open("a") as file:
            file.write(json.dumps(means) + "\n")

    def module(self) -> ModuleType:
        """A module with the functions of `wandb` that the scripts use."""
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
    """The environment of a scenario name, or of `module:attribute`, which may be a function that makes it."""
    if ":" not in name:
        return make_env(name)
    found = import_outside("task", name)
    env = found if isinstance(found, AbstractEnv) else found()
    require(isinstance(env, AbstractEnv), f"task: {name!r} is a {type(env).__name__}, not an AbstractEnv")
    return env


def offering(task: AbstractEnv, make: Callable[..., Any]) -> Callable[..., Any]:
    """`jaxmarl.make`, extended by the name `cooptions`."""
    return lambda name, **fields: Task(task) if name == NAME else make(name, **fields)


@contextlib.contextmanager
def in_the_place_of(name: str, module: ModuleType) -> Iterator[None]:
    """Replace an imported module with another one."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


def run(task: AbstractEnv, script: Path, overrides: list[str], log: Path) -> Recorder:
    """Run a script as its main program, on the task."""
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
