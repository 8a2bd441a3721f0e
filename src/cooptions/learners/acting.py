"""A team that acts in many environments at once, again and again: what learners collect comes from here."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, start, tick
from cooptions.training.loop import Metrics
from cooptions.types import TimeStep

Kept = TypeVar("Kept")
Note = TypeVar("Note")
Memory = Float[Array, "env agent memory"]


class Acting(eqx.Module):
    """A team in the midst of its episodes; `first` marks those that have just begun."""

    runners: Runners
    first: Bool[Array, " env"]
    memory: Memory

    @classmethod
    def begin(cls, env: AbstractEnv, memory: Memory, *, key: PRNGKeyArray) -> "Acting":
        """Fresh episodes, one for each environment that `memory` is of."""
        num_envs = memory.shape[0]
        return cls(start(env, num_envs, key=key), jnp.ones(num_envs, bool), memory)

    @property
    def timestep(self) -> TimeStep:
        return self.runners.timestep


class Step(eqx.Module):
    """Where the team was, what it did, and where that led."""

    before: TimeStep
    first: Bool[Array, " env"]
    action: Int[Array, "env agent"]
    after: TimeStep


Decide = Callable[[Memory, TimeStep, Bool[Array, " env"], PRNGKeyArray], tuple[Memory, Int[Array, "env agent"], Note]]
"""What a team does, given its memory, what it sees, and where an episode begins; and a note on why."""


def act(
    env: AbstractEnv,
    team: Acting,
    length: int,
    decide: Decide[Note],
    keep: Callable[[Step, Note], Kept],
    *,
    key: PRNGKeyArray,
) -> tuple[Acting, Kept, Metrics]:
    """Let a team act for `length` ticks: how it stands then, what was kept of each tick, and how its episodes went.

    The metric `led` is the share of all agents' steps that an option led.
    """

    @jax.named_scope("act")
    def go_on(team: Acting, key: PRNGKeyArray) -> tuple[Acting, tuple[Kept, Metrics]]:
        action_key, env_key = jax.random.split(key)
        before = team.timestep
        memory, action, note = decide(team.memory, before, team.first, action_key)
        runners = tick(env, team.runners, action, key=env_key)
        after = runners.timestep
        told = {"ended": after.last, "score": after.score, "led": (leading_option(after) >= 0).mean()}
        return Acting(runners, before.last, memory), (keep(Step(before, team.first, action, after), note), told)

    team, (kept, told) = jax.lax.scan(go_on, team, jax.random.split(key, length))
    return team, kept, {"led": told["led"].mean()} | episode_scores(env, told["ended"], told["score"])


def episode_scores(env: AbstractEnv, ended: Bool[Array, "time env"], score: Float[Array, "time env score"]) -> Metrics:
    """The mean result of the episodes that ended in a rollout, and how many did."""
    number = ended.sum()
    means = jnp.where(ended[..., None], score, 0.0).sum(axis=(0, 1)) / jnp.maximum(number, 1)
    return {name: means[index] for index, name in enumerate(env.score_names)} | {"episodes": number.astype(jnp.float32)}


def leading_option(timestep: TimeStep) -> Int[Array, "env agent"]:
    """The option that led each agent here, in the step before; -1 for none."""
    none = jnp.full(timestep.action_mask.shape[:2], -1, jnp.int32)
    return none if timestep.macro is None else timestep.macro.option
