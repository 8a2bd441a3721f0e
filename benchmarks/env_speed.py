"""Time our Level-Based Foraging with auto-reset against stock Jumanji's with auto-reset, in one process.

python -m benchmarks.env_speed --json
"""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import tyro
from jumanji.environments.routing.lbf import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator
from jumanji.wrappers import AutoResetWrapper

from cooptions.envs.lbf import Foraging
from cooptions.envs.lbf.rules import RuleSet
from cooptions.envs.rollout import Runners, advance, start, uniform_action
from cooptions.runs.directory import provenance

Carry = Any


@dataclass(frozen=True)
class Arguments:
    """Time one step of a batch of environments, in microseconds."""

    scenario: tuple[int, int, int] = (15, 4, 3)
    """Grid size, agents, apples."""
    rules: RuleSet = "paper"
    """The rules of our contestants. Stock Jumanji has its own."""
    num_envs: tuple[int, ...] = (32, 1024)
    steps: int = 1000
    """The number of steps in one timed call."""
    repeats: int = 7
    """The number of timed calls per contestant, in alternation. The median is reported."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object at the end."""


def ours(env: Foraging, num_envs: int) -> tuple[Callable[[Carry], Carry], Carry]:
    """Random play with resets at the end of episodes."""

    def step(carry: Carry) -> Carry:
        runners, key, total = carry
        key, action_key, step_key = jax.random.split(key, 3)
        action = uniform_action(runners.timestep.action_mask, key=action_key)
        outcome, runners = advance(env, runners, action, key=step_key)
        return runners, key, total + _use(outcome.timestep)

    return step, (start(env, num_envs, key=jax.random.key(0)), jax.random.key(1), jnp.float32(0))


def step_only(env: Foraging, num_envs: int) -> tuple[Callable[[Carry], Carry], Carry]:
    """Random play that never resets."""

    def step(carry: Carry) -> Carry:
        runners, key, total = carry
        key, action_key, step_key = jax.random.split(key, 3)
        action = uniform_action(runners.timestep.action_mask, key=action_key)
        runners = Runners(*jax.vmap(env.step)(runners.state, action, jax.random.split(step_key, num_envs)))
        return runners, key, total + _use(runners.timestep)

    return step, (start(env, num_envs, key=jax.random.key(0)), jax.random.key(1), jnp.float32(0))


def reset_only(env: Foraging, num_envs: int) -> tuple[Callable[[Carry], Carry], Carry]:
    """Resets only."""

    def step(carry: Carry) -> Carry:
        runners, key, total = carry
        key, reset_key = jax.random.split(key)
        return start(env, num_envs, key=reset_key), key, total + _use(runners.timestep)

    return step, (start(env, num_envs, key=jax.random.key(0)), jax.random.key(1), jnp.float32(0))


def stock(env: LevelBasedForaging, num_envs: int) -> tuple[Callable[[Carry], Carry], Carry]:
    """Stock Jumanji in its own auto-reset wrapper."""
    wrapped = AutoResetWrapper(env)
    state, timestep = jax.vmap(wrapped.reset)(jax.random.split(jax.random.key(0), num_envs))

    def step(carry: Carry) -> Carry:
        state, timestep, key, total = carry
        key, action_key = jax.random.split(key)
        action = uniform_action(timestep.observation.action_mask, key=action_key)
        state, timestep = jax.vmap(wrapped.step)(state, action)
        return state, timestep, key, total + _use(timestep)

    return step, (state, timestep, jax.random.key(1), jnp.float32(0))


def _use(tree: Any) -> jax.Array:
    """Sum all outputs, so that the compiler removes none."""
    return sum((leaf.sum().astype(jnp.float32) for leaf in jax.tree.leaves(tree)), jnp.float32(0))


def main(arguments: Arguments) -> dict[str, Any]:
    grid_size, num_agents, num_apples = arguments.scenario
    env = Foraging(grid_size, num_agents, num_apples, arguments.rules)
    jumanji = LevelBasedForaging(
        generator=RandomGenerator(grid_size, num_agents, num_apples, fov=grid_size, force_coop=True)
    )
    rows = []
    for num_envs in arguments.num_envs:
        contestants = {
            "ours": ours(env, num_envs),
            "stock": stock(jumanji, num_envs),
            "step": step_only(env, num_envs),
            "reset": reset_only(env, num_envs),
        }
        micros = time_in_turns(contestants, arguments.steps, arguments.repeats)
        speedup = micros["stock"] / micros["ours"]
        rows.append({"num_envs": num_envs, "speedup": round(speedup, 2), **{f"{k}_us": v for k, v in micros.items()}})
        print(rows[-1])
    return {"scenario": list(arguments.scenario), "rules": arguments.rules, "rows": rows, **provenance()}


def time_in_turns(
    contestants: dict[str, tuple[Callable[[Carry], Carry], Carry]], steps: int, repeats: int
) -> dict[str, float]:
    """The median microseconds per step. Each repeat times every contestant once, so that noise affects all equally."""
    programs = {
        name: jax.jit(lambda carry, step=step: jax.lax.scan(lambda c, _: (step(c), None), carry, length=steps)[0])
        for name, (step, _) in contestants.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(repeats + 1):
        for name, program in programs.items():
            begun = time.perf_counter()
            jax.block_until_ready(program(contestants[name][1]))
            if repeat > 0:  # the first one compiles
                seconds[name].append(time.perf_counter() - begun)
    return {name: round(statistics.median(values) / steps * 1e6, 1) for name, values in seconds.items()}


if __name__ == "__main__":
    given = tyro.cli(Arguments)
    result = main(given)
    if given.json:
        print(json.dumps(result))
