"""Roll-outs of a team in many parallel environments, from which learners collect their data."""

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
    """A team and its running episodes; `first` marks environments whose episode has just begun."""

    runners: Runners
    first: Bool[Array, " env"]
    memory: Memory

    @classmethod
    def begin(cls, env: AbstractEnv, memory: Memory, *, key: PRNGKeyArray) -> "Acting":
        """Begin an episode in each environment. `memory` is the agents' initial memory."""
        num_envs = memory.shape[0]
        return cls(start(env, num_envs, key=key), jnp.ones(num_envs, bool), memory)

    @property
    def timestep(self) -> TimeStep:
        return self.runners.timestep


class Step(eqx.Module):
    """One step: the time step before it, the actions, and the time step after it."""

    before: TimeStep
    first: Bool[Array, " env"]
    action: Int[Array, "env agent"]
    after: TimeStep


Decide = Callable[[Memory, TimeStep, Bool[Array, " env"], PRNGKeyArray], tuple[Memory, Int[Array, "env agent"], Note]]
"""A policy: from memory, time step and `first` to the new memory, actions, and a note that `keep` receives."""


def act(
    env: AbstractEnv,
    team: Acting,
    length: int,
    decide: Decide[Note],
    keep: Callable[[Step, Note], Kept],
    *,
    key: PRNGKeyArray,
) -> tuple[Acting, Kept, Metrics]:
    """Run the team for `length` ticks. Returns its new state, the kept data with a leading time axis, and metrics.

    The metrics are the mean scores and the number of finished episodes, and `led`: the fraction of agents' steps in
    which they followed an option.
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
    """The mean scores of the episodes that ended in a roll-out, and their number."""
    number = ended.sum()
    means = jnp.where(ended[..., None], score, 0.0).sum(axis=(0, 1)) / jnp.maximum(number, 1)
    return {name: means[index] for index, name in enumerate(env.score_names)} | {"episodes": number.astype(jnp.float32)}


def leading_option(timestep: TimeStep) -> Int[Array, "env agent"]:
    """The option that each agent followed in the step before; -1 for none."""
    none = jnp.full(timestep.action_mask.shape[:2], -1, jnp.int32)
    return none if timestep.macro is None else timestep.macro.option
