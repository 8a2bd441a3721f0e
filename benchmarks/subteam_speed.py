"""How long an update takes without options, with options of the whole team, and with options of pairs on every pair.

    python -m benchmarks.subteam_speed grid-10x10-8p,task=meet --json

The learner is that of the scenario's preset, and the roll-out of an update is timed by itself as well. Options explore
and have no values, so that a step asks those alone that lead somebody. They have random weights, which cost the same as
trained ones. The share of the agents' steps that options lead differs (`led`), as pairs run side by side. All
contestants run in one process, in turn; ratios are to none.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.option_asking import random_options
from cooptions.envs.base import AbstractEnv
from cooptions.envs.scenarios import make_env
from cooptions.learners.base import LearnerConfig
from cooptions.options.macro import MacroEnv
from cooptions.runs.directory import provenance
from cooptions.runs.presets import preset
from cooptions.training.memory import stage_bytes


def small_team(scenario: str, num_agents: int) -> AbstractEnv:
    """The same environment for fewer agents."""
    return replace(make_env(scenario), num_agents=num_agents)  # pyright: ignore[reportArgumentType]


class Contestant:
    """A team that has begun to learn, exploring as at the start of training."""

    def __init__(self, task: AbstractEnv, config: LearnerConfig) -> None:
        learner = config.build()
        self.task, self.led = task, 0.0
        self.parts: dict[str, Callable[..., Any]] = {
            "update": jax.jit(lambda state, task, key: learner.step(state, task, key=key)),
            "rollout": jax.jit(lambda state, task, key: learner.collect(state, task, key=key)),
        }
        self.state = jax.jit(lambda task: learner.init(task, key=jax.random.key(0)))(task)

    def seconds(self, part: str, number: int, count: int) -> float:
        """The seconds of an update, or of its roll-out, over `count` of them."""
        begun, led = time.perf_counter(), []
        for i in range(count):
            self.state, metrics = self.parts[part](self.state, self.task, jax.random.key(number + i))
            led.append(metrics["led"])
        jax.block_until_ready(self.state)
        self.led = float(jnp.stack(led).mean())
        return (time.perf_counter() - begun) / count


def timings(each: dict[str, Contestant], part: str, count: int, repeats: int) -> dict[str, dict[str, float]]:
    """The milliseconds of all contestants, timed in turn, and their ratios to the first of them."""
    seconds: dict[str, list[float]] = {name: [] for name in each}
    for contestant in each.values():
        contestant.seconds(part, 0, 1)  # compiles
    for repeat in range(repeats):
        for name, contestant in each.items():
            seconds[name].append(contestant.seconds(part, 1000 * (repeat + 1), count))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    least = {name: min(times) for name, times in seconds.items()}
    told = {"median": medians, "least": least}
    in_ms = {f"{name}_ms": {each: round(1e3 * x, 2) for each, x in values.items()} for name, values in told.items()}
    ratios = {
        f"{name}_ratio": {each: round(x / next(iter(values.values())), 3) for each, x in values.items()}
        for name, values in told.items()
    }
    return in_ms | ratios


def megabytes(task: AbstractEnv, config: LearnerConfig) -> float:
    """The memory that training one seed is estimated to need."""
    one_seed = jax.tree.map(lambda leaf: leaf[None], task)
    return stage_bytes(config.build(), one_seed, jax.random.split(jax.random.key(0), 1)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--options", type=int, default=10)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3, help="updates in one timing")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    env = make_env(arguments.scenario)
    config = preset(arguments.scenario).learning.learner
    whole = MacroEnv(env, random_options(env, "relation", arguments.options), foresight=False)
    small = small_team(arguments.scenario, arguments.members)
    placed = MacroEnv(env, random_options(small, "relation", arguments.options), foresight=False)
    names = "no options", f"{whole.num_options} of the team", f"{placed.num_options} placed"
    tasks = dict(zip(names, (env, whole, placed), strict=True))
    each = {name: Contestant(task, config) for name, task in tasks.items()}
    parts = {
        f"{part}_times": timings(each, part, arguments.updates, arguments.repeats) for part in ("update", "rollout")
    }
    result = {
        "scenario": arguments.scenario,
        "num_envs": config.num_envs,
        "rollout": config.rollout,
        "updates": arguments.updates,
        "repeats": arguments.repeats,
        **parts,
        "estimated_megabytes": {name: round(megabytes(task, config), 1) for name, task in tasks.items()},
        "led": {name: round(contestant.led, 3) for name, contestant in each.items()},
        "made_by": provenance(),
    }
    print(json.dumps(result, indent=None if arguments.json else 1))


if __name__ == "__main__":
    main()
