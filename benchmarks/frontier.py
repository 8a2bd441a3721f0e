"""How far a team of cooks that acts at random gets from where learning teams stay: both pots cooked, nobody serving.

python -m benchmarks.frontier --options none wander runs/frontier/option_sets/seed-5 > results/learning/frontier.json

The option set is made by
cooptions discover overcooked-counter_circuit --method hit --seed 5 --seeds 1 --out runs/frontier
cooptions options runs/frontier
"""

import json
import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro
from jaxtyping import Array, Bool, PRNGKeyArray

from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.rollout import Runners, start
from cooptions.envs.scenarios import make_env
from cooptions.learners.exploration import ChoiceConfig, choose
from cooptions.options.macro import MacroConfig, MacroEnv
from cooptions.runs.directory import provenance
from cooptions.runs.stages import given_options

with quiet_import():
    from jaxmarl.environments.overcooked.common import OBJECT_TO_INDEX
    from jaxmarl.environments.overcooked.overcooked import BASE_REW_SHAPING_PARAMS, POT_READY_STATUS

SOUP = BASE_REW_SHAPING_PARAMS["SOUP_PICKUP_REWARD"]


@dataclass(frozen=True)
class Arguments:
    """Count the episodes in which a team takes a plate, takes a soup, delivers it."""

    scenario: str = "overcooked-counter_circuit"
    options: tuple[str, ...] = ("none", "wander")
    """What the team draws from besides primitives: nothing, `wander`, or the directory of an option set."""
    shares: tuple[float, ...] = (0.02, 0.1)
    """How many of the decisions are an option (`choice.option_share`)."""
    episodes: int = 768
    steps: int = 300
    """About as many as a team has left when both pots are cooked."""


def cooked(runners: Runners) -> Runners:
    """The same kitchens, a soup ready in every pot."""

    def ready(maze: Array) -> Array:
        is_pot = maze[..., 0] == OBJECT_TO_INDEX["pot"]
        return maze.at[..., 2].set(jnp.where(is_pot, POT_READY_STATUS, maze[..., 2]).astype(maze.dtype))

    return eqx.tree_at(lambda runners: runners.state.inner.inner.maze_map, runners, replace_fn=ready)


@partial(jax.jit, static_argnames=("choice", "num", "steps"))
def play(
    env: MacroEnv, choice: ChoiceConfig, num: int, steps: int, *, key: PRNGKeyArray
) -> dict[str, Bool[Array, "time env"]]:
    """What happened at each step of so many episodes."""
    start_key, play_key = jax.random.split(key)
    values = jnp.zeros((num, env.num_agents, env.num_primitives))

    def step(now: Runners, key: PRNGKeyArray) -> tuple[Runners, dict[str, Array]]:
        action_key, env_key = jax.random.split(key)
        action = choose(choice, values, now.timestep, jnp.float32(1.0), key=action_key)
        then = Runners(*jax.vmap(env.step)(now.state, action, jax.random.split(env_key, num)))
        hint = then.timestep.shaped_reward
        return then, {
            "plate": (hint > 0) & (hint < SOUP),
            "soup": hint >= SOUP,
            "delivery": then.timestep.reward > 0,
            "led": now.state.active >= 0,
        }

    return jax.lax.scan(step, cooked(start(env, num, key=start_key)), jax.random.split(play_key, steps))[1]


def wilson(count: int, number: int) -> list[float]:
    """A share with its 95% interval, in percent."""
    z, share = 1.96, count / number
    middle, width = share + z**2 / (2 * number), z * math.sqrt((share * (1 - share) + z**2 / (4 * number)) / number)
    scale = 100 / (1 + z**2 / number)
    return [round(100 * share, 1), round(scale * (middle - width), 1), round(scale * (middle + width), 1)]


def row(name: str, share: float, arguments: Arguments) -> dict[str, Any]:
    inner = make_env(arguments.scenario)
    options = given_options("wander" if name == "none" else name, inner)  # none are drawn where the share is 0
    env, choice = MacroConfig().around(inner, options, foresight=False), ChoiceConfig(option_share=share)
    seen = play(env, choice, arguments.episodes, arguments.steps, key=jax.random.key(0))
    counts = {event: int(seen[event].any(axis=0).sum()) for event in ("plate", "soup", "delivery")}
    return {
        "options": name,
        "option_share": share,
        "led": round(float(seen["led"].mean()), 3),
        "episodes": arguments.episodes,
        "percent_of_episodes": {event: wilson(count, arguments.episodes) for event, count in counts.items()},
    }


def main(arguments: Arguments) -> None:
    rows = []
    for name in arguments.options:
        for share in (0.0,) if name == "none" else arguments.shares:
            rows.append(row(name, share, arguments))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(
        json.dumps({"scenario": arguments.scenario, "steps": arguments.steps, "rows": rows, **provenance()}, indent=1)
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments))
