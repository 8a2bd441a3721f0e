"""What learners of action values share: what a tick keeps, how a team explores by values, and their TD errors."""

from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import training_reward
from cooptions.errors import require_number
from cooptions.learners.acting import Acting, Step, act, leading_option
from cooptions.learners.advantages import advantages
from cooptions.learners.base import AbstractLearner, LearnerConfig, State
from cooptions.learners.exploration import ChoiceConfig, choose, state_value
from cooptions.learners.networks import Network, apply_team, init_team
from cooptions.learners.option_credit import Merit
from cooptions.training.loop import Metrics
from cooptions.types import TimeStep


@dataclass(frozen=True)
class ValueConfig(LearnerConfig):
    """Hyperparameters of learners of action values."""

    trace: float = 0.0
    """How much of what came after a step counts for it at once, and not only by the value of where it led: the lambda
    of Peng's Q(lambda), as far as a sequence goes. 0 is one step at a time."""
    mixer: Literal["none", "sum"] = "none"
    """Each agent for itself (IQL), or the sum of their values for the team (VDN)."""
    fixed_last: bool = False
    """Whether the value of the last action is 0 by definition, not learned: to terminate an option is worth 0."""
    epsilon_start: float = 1.0
    epsilon_finish: float = 0.05
    epsilon_decay: float = 0.1
    """Fraction of training over which epsilon falls from start to finish."""
    epsilon_evaluation: float = 0.0
    """How often an agent acts at random when the team is evaluated."""
    choice: ChoiceConfig = field(default_factory=ChoiceConfig)
    """What joint options are for, where the environment has any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epsilon_start", "epsilon_finish", "epsilon_evaluation", "epsilon_decay", "trace"):
            require_number(name, getattr(self, name), at_least=0, at_most=1)

    @property
    def intra_option(self) -> bool:
        return self.choice.valued

    def epsilon(self, update: Int[Array, ""]) -> Float[Array, ""]:
        fraction = jnp.clip(update / max(self.epsilon_decay * self.num_updates, 1e-6), 0.0, 1.0)
        return self.epsilon_start + fraction * (self.epsilon_finish - self.epsilon_start)


class Tick(eqx.Module):
    """An environment at one time, what was done there, and what that brought.

    `first` marks the beginning of an episode: the tick before it was the end of another and led nowhere.
    `action`, `consistent` and `continues` are those of `MacroStep`; without options of value there are none of the
    latter. `choices` are what an agent free to choose may do.
    """

    observation: Shaped[Array, "*batch_agent_and_shape"]
    choices: Bool[Array, "*batch agent action"]
    first: Bool[Array, "*batch"]
    action: Int[Array, "*batch agent"]
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    consistent: Bool[Array, "*batch option"]
    continues: Bool[Array, "*batch option"]
    members: tuple[tuple[bool, ...], ...] = eqx.field(static=True, default=())
    """Of each option that has a value, which agents take part in it."""


@dataclass(frozen=True)
class AbstractValueLearner(AbstractLearner[State]):
    """A learner of action values: of primitives, and of joint options where these have any."""

    config: Any
    """A `ValueConfig`, each learner's own."""

    def init_values(self, env: AbstractEnv, *, key: PRNGKeyArray) -> Network:
        """A network for every agent, or one for all, with a value for each action that has one."""
        return init_team(env, self.config.network, self.num_valued(env) - self.config.fixed_last, key=key)

    def act(
        self,
        policy: Network,
        memory: Float[Array, "env agent memory"],
        timestep: TimeStep,
        first: Bool[Array, " env"],
        *,
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, "env agent memory"], Int[Array, "env agent"]]:
        memory, values = self.values(policy, memory, timestep.observation[None], first[None])
        epsilon = jnp.float32(self.config.epsilon_evaluation)
        return memory, choose(self.config.choice.when_evaluated, values[0], timestep, epsilon, key=key)

    def explore(
        self,
        env: AbstractEnv,
        network: Network,
        team: Acting,
        merit: Merit,
        updates: Int[Array, ""],
        *,
        key: PRNGKeyArray,
    ) -> tuple[Acting, Tick, Merit, Metrics]:
        """Let the team act for a rollout, exploring: how it stands then, what it went through, which options paid."""
        config = self.config
        epsilon = config.epsilon(updates)
        frames = updates * self.steps_per_update
        weights = config.choice.weights(merit)

        def decide(memory: Array, timestep: TimeStep, first: Array, key: PRNGKeyArray) -> tuple[Array, Array, None]:
            memory, values = self.values(network, memory, timestep.observation[None], first[None])
            return memory, choose(config.choice, values[0], timestep, epsilon, key=key, weights=weights), None

        def keep(step: Step, _: None) -> tuple[Tick, Array]:
            return self.tick(env, step, frames), leading_option(step.after)

        team, (ticks, option), metrics = act(env, team, config.rollout, decide, keep, key=key)
        merit = merit.after(option, ticks.first, ticks.reward)
        return team, ticks, merit, metrics | {"reward": ticks.reward.mean(), "epsilon": epsilon}

    def values(
        self,
        network: Network,
        memory: Float[Array, "env agent memory"],
        observation: Shaped[Array, "time env agent *shape"],
        first: Bool[Array, "time env"],
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent action"]]:
        """Every agent's values of all actions that have one."""
        memory, values = apply_team(network, self.config.network, memory, observation, first)
        if self.config.fixed_last:
            values = jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)
        return memory, values

    def td_loss(
        self,
        before: Float[Array, "time sample agent action"],
        chooser: Float[Array, "time sample agent action"],
        later: Float[Array, "time sample agent action"],
        ticks: Tick,
    ) -> Float[Array, ""]:
        """Mean squared TD error of what was done, plus that of every option that would have done the same.

        The action that was done is worth r + gamma V(s'), and with a trace r + gamma (V(s') + trace A(s')), where A is
        what followed from s' on, less V(s'). To its members, an option is worth r + gamma Q(s', option) where it goes
        on from s', and r + gamma V(s') where it ends there (intra-option learning). Where values are summed, the others
        add that of what they did, and V(s'). `later` are the values of s', and V is that of the choice which `chooser`
        likes best.
        """
        best = state_value(chooser, later, ticks.choices[1:])
        reward, gamma = ticks.reward[:-1, :, None], self.config.discount * ticks.discount[:-1, :, None]
        valid = ~ticks.first[1:, :, None]

        done = jnp.take_along_axis(before, ticks.action[:-1, ..., None].astype(jnp.int32), axis=-1)[..., 0]
        worth = self._mix(best)
        if self.config.trace > 0:
            worth = worth + self.config.trace * self._gains_after(reward, gamma, valid, worth)
        squares = valid * (self._mix(done) - reward - gamma * worth) ** 2
        number = jnp.maximum(jnp.broadcast_to(valid, squares.shape).sum(), 1)
        num_options = ticks.consistent.shape[-1]
        if num_options == 0:
            return squares.sum() / number
        takes_part = np.array(ticks.members).T
        goes_on = takes_part & ticks.continues[:-1, :, None]
        following = jnp.where(goes_on, later[..., -num_options:], best[..., None])
        chosen = jnp.where(takes_part, before[..., -num_options:], done[..., None])
        errors = self._mix(chosen) - reward[..., None] - gamma[..., None] * self._mix(following)
        learns = True if self.config.mixer == "sum" else takes_part
        credited = valid[..., None] & ticks.consistent[:-1, :, None] & learns
        return (squares.sum() + (credited * errors**2).sum()) / number

    def _gains_after(
        self,
        reward: Float[Array, "time sample 1"],
        gamma: Float[Array, "time sample 1"],
        valid: Bool[Array, "time sample 1"],
        worth: Float[Array, "time sample _"],
    ) -> Float[Array, "time sample _"]:
        """By how much what followed each step, as far as its sequence goes, was better than what its arrival is
        worth."""

        def following(each: Array) -> Array:
            return jnp.broadcast_to(each, worth.shape)[1:]

        gains = advantages(following(reward), following(gamma), following(valid), worth, decay=self.config.trace)
        return jnp.concatenate([gains, jnp.zeros_like(worth[:1])])

    def _mix(self, values: Float[Array, "time sample agent *option"]) -> Float[Array, "time sample _ *option"]:
        return values.sum(axis=2, keepdims=True) if self.config.mixer == "sum" else values

    def num_valued(self, env: AbstractEnv) -> int:
        """How many actions have values: all, or all but the options."""
        return env.num_actions - (0 if self.config.choice.valued else env.num_options)

    def tick(self, env: AbstractEnv, step: Step, frames: Int[Array, ""]) -> Tick:
        """What is kept of a step."""
        num_valued = self.num_valued(env)
        now, then = step.before.macro, step.after.macro
        choices, done = step.before.action_mask, step.action
        consistent = continues = jnp.zeros((*step.first.shape, 0), bool)
        members: tuple[tuple[bool, ...], ...] = ()
        if now is not None and then is not None:
            choices = now.choices[..., :num_valued]
            # Where options have no value, a vote in vain is learned as what it came to: standing still.
            done = jnp.where(then.action < num_valued, then.action, env.noop)
            if self.config.choice.valued:
                consistent, continues = then.consistent, then.continues
                members = tuple(tuple(row) for row in env.option_members.tolist())
        return Tick(
            observation=step.before.observation,
            choices=choices,
            first=step.first,
            action=done.astype(np.min_scalar_type(-num_valued)),
            reward=training_reward(env, step.after, frames),
            discount=step.after.discount,
            consistent=consistent,
            continues=continues,
            members=members,
        )
