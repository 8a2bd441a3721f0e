"""Count why learned teams do not eat apples: they never see them, never gather around them, or never load together.

    python -m experiments.foraging_failures runs/iql runs/mappo --out results/findings/foraging-failures.json

Each team of each run plays whole episodes with its evaluation policy. An apple is *seen* once any agent has had it in
sight, *reached* once agents with a sufficient sum of levels are within reach at the same time, and *eaten* once they
load it together.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.lbf import Foraging
from cooptions.envs.rollout import start
from cooptions.envs.wrapper import innermost, innermost_state
from cooptions.errors import require
from cooptions.files import write_json
from cooptions.learners.base import AbstractLearner
from cooptions.runs.directory import provenance
from cooptions.runs.run import Run
from cooptions.runs.team import LearnedTeam, team_of_run

STAGES = ("seen", "reached", "eaten")


class Firsts(eqx.Module):
    """The step at which each apple was first seen, reached and eaten; the time limit if it never was."""

    seen: Int[Array, "*batch apple"]
    reached: Int[Array, "*batch apple"]
    eaten: Int[Array, "*batch apple"]

    def at(self, time: Int[Array, ""], now: tuple[Bool[Array, "*batch apple"], ...]) -> "Firsts":
        """The first steps after time step `time`, at which these apples were seen, reached and eaten."""
        steps = (self.seen, self.reached, self.eaten)
        return Firsts(*(jnp.where(each, jnp.minimum(step, time), step) for step, each in zip(steps, now, strict=True)))


@dataclass(frozen=True)
class Arguments:
    """The runs whose teams play, and the number of episodes."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    out: Path
    episodes: int = 512
    """The number of episodes per team."""
    trust: bool = False


def apples_now(env: Foraging, state: Any) -> tuple[Bool[Array, " apple"], ...]:
    """For each apple, whether an agent sees it, whether enough agents are within reach, and whether it is eaten."""
    levels = jnp.sum(env.reachable(state) * state.level[:, None], axis=0)
    enough = (levels >= state.apple_level) & ~state.eaten
    return env.visible(state).any(axis=0), enough, state.eaten


@partial(jax.jit, static_argnums=(2, 3))
def play(task: AbstractEnv, policy: Any, learner: AbstractLearner, episodes: int, *, key: PRNGKeyArray) -> Firsts:
    """The first steps of every apple, in a batch of episodes of one team."""
    env = innermost(task)
    assert isinstance(env, Foraging)
    look = jax.vmap(lambda state: apples_now(env, innermost_state(task, state)))
    begun = start(task, episodes, key=key)
    never = jnp.full((episodes, env.num_apples), env.time_limit)
    carry = begun, jnp.zeros(episodes, bool), learner.init_memory(task, episodes), Firsts(never, never, never)

    def step(carry: Any, time: Int[Array, ""]) -> tuple[Any, None]:
        runners, over, memory, firsts = carry
        firsts = firsts.at(time, tuple(each & ~over[:, None] for each in look(runners.state)))
        action_key, env_key = jax.random.split(jax.random.fold_in(key, time))
        first = jnp.full(episodes, time == 0)
        memory, action = learner.act(policy, memory, runners.timestep, first, key=action_key)
        onward = type(runners)(*jax.vmap(task.step)(runners.state, action, jax.random.split(env_key, episodes)))
        eaten = look(onward.state)[2] & ~over[:, None]
        firsts = firsts.at(time, (jnp.zeros_like(eaten), jnp.zeros_like(eaten), eaten))
        return (onward, over | onward.timestep.last, memory, firsts), None

    return jax.lax.scan(step, carry, jnp.arange(env.time_limit))[0][3]


def failures(firsts: Firsts, time_limit: int) -> dict[str, float]:
    """The outcomes of apples in percent, and the mean steps between the stages of eaten apples."""
    seen, reached, eaten = (np.asarray(each) for each in (firsts.seen, firsts.reached, firsts.eaten))
    done = eaten < time_limit
    shares = {
        "eaten": done,
        "never seen": ~done & (seen == time_limit),
        "seen, never reached by enough": ~done & (seen < time_limit) & (reached == time_limit),
        "reached, never loaded together": ~done & (reached < time_limit),
    }
    steps = {
        "steps until seen": seen[done],
        "steps from seen to reached": (reached - seen)[done],
        "steps from reached to eaten": (eaten - reached)[done],
    }
    percent = {name: 100 * float(each.mean()) for name, each in shares.items()}
    return percent | {name: float(each.mean()) if done.any() else float("nan") for name, each in steps.items()}


def of_team(team: LearnedTeam, episodes: int, seed: int) -> dict[str, float]:
    """The failures of one team."""
    env = innermost(team.env)
    require(isinstance(env, Foraging), f"{type(env).__name__}: only foraging teams have apples")
    firsts = play(team.env, team.policy, team.config.build(), episodes, key=jax.random.key(10_000 + seed))
    return failures(firsts, env.time_limit)  # pyright: ignore[reportAttributeAccessIssue]


def main(arguments: Arguments) -> None:
    rows = {}
    for path in arguments.runs:
        with Run.reopen(path, trust=arguments.trust) as run:
            config = run.config
            teams = [of_team(team_of_run(run, seed), arguments.episodes, seed) for seed in range(config.seeds)]
        name = f"{config.scenario} {config.learning.name} {config.learning.learner.steps:,} steps"
        rows[name] = {column: [round(team[column], 2) for team in teams] for column in teams[0]}
        print(name, json.dumps({column: round(float(np.mean(values)), 1) for column, values in rows[name].items()}))
    write_json(arguments.out, {"rows": rows, "episodes": arguments.episodes, **provenance()})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
