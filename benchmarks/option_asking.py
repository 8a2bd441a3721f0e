"""Time the evaluation of option policies, for as many steps as an update collects.

    python -m benchmarks.option_asking overcooked-counter_circuit --json

Either each environment executes one option (`led`), or every step evaluates all options, as for intra-option learning
(`foresight`). Options have random weights, which cost the same. All contestants alternate in one process.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.sight import Sight, View
from cooptions.options.train import eigenoptions, option_set, recipe
from cooptions.runs.directory import provenance
from cooptions.runs.presets import preset


def random_options(env: AbstractEnv, sight: Sight, num_options: int) -> OptionSet:
    """Options of the default recipe with untrained networks."""
    config = replace(recipe("ours", env), sight=sight)
    init = partial(init_policies, env, View.of(env, sight), config.learner.network, env.num_actions)
    network = jax.vmap(lambda key: init(key=key))(jax.random.split(jax.random.key(0), num_options))
    return option_set(config, network, eigenoptions(env.num_agents, num_options // 2), env)


def contestant(env: AbstractEnv, options: OptionSet, num_envs: int, num_steps: int, led: bool) -> Callable[[], Any]:
    """A function that evaluates options in a batch of environments, once for each step of an update."""
    begun = start(env, num_envs, key=jax.random.key(1))
    seen = jax.vmap(env.agent_states)(begun.state), begun.timestep.observation, begun.timestep.action_mask
    option = jnp.broadcast_to(jnp.arange(num_envs)[:, None] % options.num_options, (num_envs, env.num_agents))

    @jax.jit
    def ask(options: OptionSet, option: jax.Array, seen: tuple[jax.Array, ...]) -> jax.Array:
        def step(total: jax.Array, time: jax.Array) -> tuple[jax.Array, None]:
            states, shown = (array + (0 * total.sum()).astype(array.dtype) for array in seen[:2])  # new at every step
            if led:
                actions = jax.vmap(options.actions_of)((option + time) % options.num_options, states, shown, seen[2])
            else:
                actions = jax.vmap(options.actions)(states, shown, seen[2])
            return total + actions.astype(jnp.float32).mean(), None

        return jax.lax.scan(step, jnp.zeros(1), jnp.arange(num_steps))[0]

    return lambda: jax.block_until_ready(ask(options, option, seen))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--options", type=int, nargs="+", default=[20, 40])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    env, learner = make_env(arguments.scenario), preset(arguments.scenario).learning.learner
    each = {
        f"{sight}, {number} options, {'led' if led else 'foresight'}": contestant(
            env, random_options(env, sight, number), learner.num_envs, learner.rollout, led
        )
        for sight in get_args(Sight)
        for number in arguments.options
        for led in (True, False)
    }
    seconds: dict[str, list[float]] = {name: [] for name in each}
    for ask in each.values():
        ask()  # compiles
    for _ in range(arguments.repeats):
        for name, ask in each.items():
            begun = time.perf_counter()
            ask()
            seconds[name].append(time.perf_counter() - begun)
    result = {
        "scenario": arguments.scenario,
        "num_envs": learner.num_envs,
        "rollout": learner.rollout,
        "ms_per_update": {name: round(1e3 * statistics.median(each), 3) for name, each in seconds.items()},
        "least_ms_per_update": {name: round(1e3 * min(each), 3) for name, each in seconds.items()},
        "made_by": provenance(),
    }
    print(json.dumps(result, indent=None if arguments.json else 1))


if __name__ == "__main__":
    main()
