"""Count how often random play is paid when the team's coin draws joint options.

    python -m experiments.random_play lbf-15x15-4p-3f lbf-15x15-3p-5f --pairs runs/sets/15x15-2p --out FILE

Agents act uniformly. At a step at which an agent is free, the coin comes up with a small chance, as in training. The
rows are no options, the hand-made ones of the whole team, hand-made calls, and calls of the first options of `--pairs`,
an option set for two agents.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, advance, start, uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.files import write_json
from cooptions.learners.acting import leading_option
from cooptions.learners.exploration import draw_together, follow
from cooptions.options.base import OPTION_SOURCES
from cooptions.options.macro import MacroEnv
from cooptions.options.sharing.storage import load_option_set
from cooptions.runs.directory import provenance

NUM_ENVS = 1000


@dataclass(frozen=True)
class Arguments:
    """Count paid steps of random play."""

    scenarios: tyro.conf.Positional[tuple[str, ...]]
    out: Path
    """The result file, in JSON."""
    pairs: Path | None = None
    """An option set for two agents, to be followed as calls."""
    chance: float = 0.02
    steps: int = 2_000_000
    seed: int = 0


def tasks(env: AbstractEnv, pairs: Path | None) -> Iterator[tuple[str, AbstractEnv]]:
    """The environment without options, and with each kind."""
    yield "none", env
    for source in ("handmade", "rally"):
        yield source, MacroEnv(env, OPTION_SOURCES[source](env), foresight=False)
    if pairs is not None:
        found = load_option_set(pairs, env)
        for num in (1, 2):
            names = " and ".join(option.name for option in found.options[:num])
            yield f"calls of {names}", MacroEnv(env, found.first(num), foresight=False, placing="calls")


def play(task: AbstractEnv, chance: float, steps: int, *, key: PRNGKeyArray) -> dict[str, float]:
    """The paid steps per million, and the share of agents' steps that an option led."""
    paid, led = _play(task, chance, steps // NUM_ENVS, key=key)
    return {
        "paid steps per million": round(1e6 * float(paid) / steps, 1),
        "share of steps under options": round(float(led), 3),
    }


@eqx.filter_jit
def _play(
    task: AbstractEnv, chance: float, length: int, *, key: PRNGKeyArray
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    act = with_options(chance) if task.num_options else alone

    def step(runners: Runners, key: PRNGKeyArray) -> tuple[Runners, tuple[Array, Array]]:
        action_key, env_key = jax.random.split(key)
        outcome, runners = advance(task, runners, act(task, runners, key=action_key), key=env_key)
        return runners, ((outcome.timestep.reward > 0).sum(), (leading_option(outcome.timestep) >= 0).mean())

    begun = start(task, NUM_ENVS, key=jax.random.fold_in(key, 0))
    paid, led = jax.lax.scan(step, begun, jax.random.split(key, length))[1]
    return paid.sum().astype(jnp.float32), led.mean()


def alone(task: AbstractEnv, runners: Runners, *, key: PRNGKeyArray) -> Array:
    """A random primitive of every agent."""
    primitive = jnp.arange(task.num_actions) < task.num_actions - task.num_options
    return uniform_action(runners.timestep.action_mask & primitive, key=key)


def with_options(chance: float) -> Callable[..., Array]:
    """A random primitive of every agent that follows no option and draws none."""

    def act(task: AbstractEnv, runners: Runners, *, key: PRNGKeyArray) -> Array:
        own_key, draw_key = jax.random.split(key)
        own = alone(task, runners, key=own_key)
        return follow(runners.timestep, draw_together(runners.timestep, own, chance, key=draw_key))

    return act


def main(arguments: Arguments) -> None:
    measure = partial(play, chance=arguments.chance, steps=arguments.steps, key=jax.random.key(arguments.seed))
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for scenario in arguments.scenarios:
        for name, task in tasks(make_env(scenario), arguments.pairs):
            rows.setdefault(name, {})[scenario] = measure(task)
            print(scenario, name, rows[name][scenario], flush=True)
            write_json(arguments.out, {"rows": rows, "chance": arguments.chance, **provenance()})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
