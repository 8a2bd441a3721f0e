"""Code shared by the Q-learning algorithms (IQL, VDN, PQN): the stored transition, exploration, and TD errors."""

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
from cooptions.learners.exploration import ChoiceConfig, choose
from cooptions.learners.networks import Network, apply_team, init_team
from cooptions.learners.option_credit import Merit
from cooptions.training.loop import Metrics
from cooptions.types import TimeStep


@dataclass(frozen=True)
class ValueConfig(LearnerConfig):
    """Hyperparameters of Q-learning algorithms."""

    trace: float = 0.0
    """Lambda of Peng's Q(lambda) within a sequence. 0 gives one-step targets."""
    mixer: Literal["none", "sum"] = "none"
    """`none`: each agent learns its own values (IQL). `sum`: the team learns the sum of its agents' values (VDN)."""
    fixed_last: bool = False
    """Whether the value of the last action is fixed at 0 instead of learned, as for terminating an option."""
    epsilon_start: float = 1.0
    epsilon_finish: float = 0.05
    epsilon_decay: float = 0.1
    """Fraction of training over which epsilon falls linearly from start to finish."""
    epsilon_evaluation: float = 0.0
    """Probability of a random action during evaluation."""
    choice: ChoiceConfig = field(default_factory=ChoiceConfig)
    """How joint options are used, if the environment has any."""

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
    """A transition: an observation, the actions, and their outcome.

    `first` marks the beginning of an episode. The tick before it holds the final observation of the previous episode,
    and its action had no effect. `action`, `consistent` and `continues` are those of `MacroStep`. The last two are
    empty if options have no values. `choices` are the available actions of an agent that follows no option.
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
    """The members of each option, if options have values."""


@dataclass(frozen=True)
class AbstractValueLearner(AbstractLearner[State]):
    """A learner of Q-values for primitives, and for joint options if `choice.valued`."""

    config: Any
    """The learner's own subclass of `ValueConfig`."""

    def init_values(self, env: AbstractEnv, *, key: PRNGKeyArray) -> Network:
        """One network per agent, or one shared by all, with an output for each action whose value is learned."""
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
        """Run the team for one roll-out with exploration. Returns its new state, the transitions, the updated record of
        options' rewards, and metrics."""
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
        """The new memory, and every agent's values of all actions that have one."""
        memory, values = apply_team(network, self.config.network, memory, observation, first)
        if self.config.fixed_last:
            values = jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)
        return memory, values

    def worth(self, best: Float[Array, "time sample agent"], ticks: Tick) -> Float[Array, "time sample _"]:
        """What the next state of each step is worth: V(s'), or V(s') + trace A(s') with a trace.

        A(s') is the lambda-return from s' on, minus V(s'). `best` are the agents' values of s'.
        """
        mixed = self._mix(best)
        if self.config.trace == 0:
            return mixed
        return mixed + self.config.trace * self._gains_after(*self._outcomes(ticks), mixed)

    def td_loss(
        self,
        before: Float[Array, "time sample agent action"],
        later: Float[Array, "time sample agent action"],
        best: Float[Array, "time sample agent"],
        worth: Float[Array, "time sample _"],
        ticks: Tick,
    ) -> Float[Array, ""]:
        """The squared TD errors of the executed actions and of all consistent options, per executed step.

        The target of the executed action is r + gamma times the `worth` of s'. The target of an option's members is
        r + gamma Q(s', option) if the option continues from s', and r + gamma V(s') if it ends there (intra-option
        learning). With summed values, other agents contribute the value of their executed action, and V(s'). `later`
        are the values of s', and `best` those of the preferred action.
        """
        reward, gamma, valid = self._outcomes(ticks)
        done = jnp.take_along_axis(before, ticks.action[:-1, ..., None].astype(jnp.int32), axis=-1)[..., 0]
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

    def _outcomes(
        self, ticks: Tick
    ) -> tuple[Float[Array, "time sample 1"], Float[Array, "time sample 1"], Bool[Array, "time sample 1"]]:
        """Of each step: reward, discount, and whether it is one; the last tick of an episode leads nowhere."""
        return (
            ticks.reward[:-1, :, None],
            self.config.discount * ticks.discount[:-1, :, None],
            ~ticks.first[1:, :, None],
        )

    def _gains_after(
        self,
        reward: Float[Array, "time sample 1"],
        gamma: Float[Array, "time sample 1"],
        valid: Bool[Array, "time sample 1"],
        worth: Float[Array, "time sample _"],
    ) -> Float[Array, "time sample _"]:
        """The advantage A(s') of the next state of each step, within its sequence; 0 for the last step."""

        def following(each: Array) -> Array:
            return jnp.broadcast_to(each, worth.shape)[1:]

        gains = advantages(following(reward), following(gamma), following(valid), worth, decay=self.config.trace)
        return jnp.concatenate([gains, jnp.zeros_like(worth[:1])])

    def _mix(self, values: Float[Array, "time sample agent *option"]) -> Float[Array, "time sample _ *option"]:
        return values.sum(axis=2, keepdims=True) if self.config.mixer == "sum" else values

    def num_valued(self, env: AbstractEnv) -> int:
        """The number of actions with values: all, or only the primitives."""
        return env.num_actions - (0 if self.config.choice.valued else env.num_options)

    def tick(self, env: AbstractEnv, step: Step, frames: Int[Array, ""]) -> Tick:
        """The transition to store for a step."""
        num_valued = self.num_valued(env)
        now, then = step.before.macro, step.after.macro
        choices, done = step.before.action_mask, step.action
        consistent = continues = jnp.zeros((*step.first.shape, 0), bool)
        members: tuple[tuple[bool, ...], ...] = ()
        if now is not None and then is not None:
            choices = now.choices[..., :num_valued]
            # If options have no values, a failed vote is stored as what was executed: standing still.
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
