"""How long an update takes without options, with options of the whole team, and with options of pairs on every pair.

    python -m benchmarks.subteam_speed grid-10x10-8p,task=meet --json

The learner is that of the scenario's preset. Its options explore and have no values, so that a step asks those alone
that lead somebody. They have random weights, which cost the same as trained ones. A share of the agents' steps is led
(`led`): it differs, as pairs run side by side. All contestants run in one process, in turn; ratios are to none.
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


def small_team(scenario: str, num_agents: int) -> AbstractEnv:
    """The same environment for fewer agents."""
    return replace(make_env(scenario), num_agents=num_agents)  # pyright: ignore[reportArgumentType]


class Contestant:
    """A team that has begun to learn, exploring as at the start of training."""

    def __init__(self, task: AbstractEnv, config: LearnerConfig) -> None:
        learner = config.build()
        self.task, self.led = task, 0.0
        self.step: Callable[..., Any] = jax.jit(lambda state, task, key: learner.step(state, task, key=key))
        self.state = jax.jit(lambda task: learner.init(task, key=jax.random.key(0)))(task)

    def update(self, number: int, count: int) -> float:
        """The seconds of an update, over `count` of them."""
        begun, led = time.perf_counter(), []
        for i in range(count):
            self.state, metrics = self.step(self.state, self.task, jax.random.key(number + i))
            led.append(metrics["led"])
        jax.block_until_ready(self.state)
        self.led = float(jnp.stack(led).mean())
        return (time.perf_counter() - begun) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--options", type=int, default=10)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--updates", type=int, default=20, help="updates in one timing")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    env = make_env(arguments.scenario)
    config = preset(arguments.scenario).learning.learner
    whole = MacroEnv(env, random_options(env, "relation", arguments.options), foresight=False)
    small = small_team(arguments.scenario, arguments.members)
    placed = MacroEnv(env, random_options(small, "relation", arguments.options), foresight=False)
    names = "no options", f"{whole.num_options} of the team", f"{placed.num_options} placed"
    each = {name: Contestant(task, config) for name, task in zip(names, (env, whole, placed), strict=True)}
    seconds: dict[str, list[float]] = {name: [] for name in each}
    for contestant in each.values():
        contestant.update(0, 100)  # compiles, and goes past what is not learned from yet
    for repeat in range(arguments.repeats):
        for name, contestant in each.items():
            seconds[name].append(contestant.update(1000 * (repeat + 1), arguments.updates))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    result = {
        "scenario": arguments.scenario,
        "num_envs": config.num_envs,
        "rollout": config.rollout,
        "updates": arguments.updates,
        "repeats": arguments.repeats,
        "ms_per_update": {name: round(1e3 * median, 3) for name, median in medians.items()},
        "least_ms_per_update": {name: round(1e3 * min(times), 3) for name, times in seconds.items()},
        "ratio": {name: round(median / medians["no options"], 3) for name, median in medians.items()},
        "least_ratio": {name: round(min(times) / min(seconds["no options"]), 3) for name, times in seconds.items()},
        "led": {name: round(contestant.led, 3) for name, contestant in each.items()},
        "made_by": provenance(),
    }
    print(json.dumps(result, indent=None if arguments.json else 1))


if __name__ == "__main__":
    main()
