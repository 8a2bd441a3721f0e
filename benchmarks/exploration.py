"""How often a team that only explores is paid, with hand-made options among what it draws and without.

python -m benchmarks.exploration > results/learning/exploration.json
"""

import json
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import tyro
from jaxtyping import Array, PRNGKeyArray

from cooptions.envs.rollout import Runners, advance, start
from cooptions.envs.scenarios import make_env
from cooptions.learners.acting import leading_option
from cooptions.learners.exploration import ChoiceConfig, choose
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroConfig, MacroEnv
from cooptions.runs.directory import provenance


@dataclass(frozen=True)
class Arguments:
    """Count the steps at which a team that acts at random is paid."""

    scenarios: tuple[str, ...] = (
        "lbf-15x15-4p-3f",
        "lbf-15x15-3p-5f",
        "lbf-15x15-4p-3f,rules=jumanji",
        "lbf-10x10-3p-3f",
        "grid-15x15-4p,task=meet",
    )
    shares: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2)
    """How many of the decisions are an option (`choice.option_share`)."""
    num_envs: int = 512
    steps: int = 2000


@partial(jax.jit, static_argnums=(0, 2, 3))
def count(env: MacroEnv, begun: Runners, choice: ChoiceConfig, steps: int) -> tuple[Array, Array]:
    """Paid steps, and the share of steps that an option led."""
    num = begun.timestep.last.shape[0]
    values = jnp.zeros((num, env.num_agents, env.num_primitives))

    def step(runners: Runners, key: PRNGKeyArray) -> tuple[Runners, tuple[Array, Array]]:
        action_key, env_key = jax.random.split(key)
        action = choose(choice, values, runners.timestep, jnp.float32(1.0), key=action_key)
        outcome, onward = advance(env, runners, action, key=env_key)
        return onward, ((outcome.timestep.reward > 0).sum(), (leading_option(outcome.timestep) >= 0).mean())

    _, (paid, led) = jax.lax.scan(step, begun, jax.random.split(jax.random.key(1), steps))
    return paid.sum(), led.mean()


def row(scenario: str, share: float, arguments: Arguments) -> dict[str, Any]:
    inner = make_env(scenario)
    env = MacroConfig().around(inner, handmade_options(inner), foresight=False)
    begun = start(env, arguments.num_envs, key=jax.random.key(0))
    paid, led = count(env, begun, ChoiceConfig(option_share=share), arguments.steps)
    million_steps = arguments.num_envs * arguments.steps / 1e6
    return {
        "scenario": scenario,
        "option_share": share,
        "paid_steps": int(paid),
        "per_million_steps": round(int(paid) / million_steps, 1),
        "led": round(float(led), 3),
    }


def main(arguments: Arguments) -> None:
    rows = []
    for scenario in arguments.scenarios:
        for share in arguments.shares:
            rows.append(row(scenario, share, arguments))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"rows": rows, **provenance()}, indent=1))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
