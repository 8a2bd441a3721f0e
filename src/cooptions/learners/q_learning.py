"""Q-learning for a team: independent or summed values, with or without memory, over primitives and joint options."""

from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import training_reward
from cooptions.errors import require, require_number, require_whole
from cooptions.learners.acting import Acting, Step, act, leading_option
from cooptions.learners.advantages import advantages
from cooptions.learners.base import LEARNERS, AbstractLearner, LearnerConfig
from cooptions.learners.exploration import ChoiceConfig, choose, state_value
from cooptions.learners.networks import Network, apply_team, init_team
from cooptions.learners.option_credit import Merit
from cooptions.learners.replay import Replay, add, empty, sample
from cooptions.training.loop import Metrics
from cooptions.types import TimeStep

LEARNING_STARTS = 5000
"""By default. Trainings that are shorter than that try a program out, and learn nothing."""


@LEARNERS.register("q_learning")
@dataclass(frozen=True)
class QConfig(LearnerConfig):
    """Hyperparameters of Q-learning."""

    epochs: int = 4
    """Gradient steps of an update."""
    batch: int = 32
    """Transitions in a gradient step; with memory or a trace, sequences of `rollout` of them."""
    capacity: int = 5000
    """Transitions kept for replay, over all environments."""
    learning_starts: int = LEARNING_STARTS
    """Environment steps before the first gradient step."""
    target_interval: int = 10
    """Updates between copies of the network to the target network."""
    trace: float = 0.0
    """How much of what came after a step counts for it at once, and not only by the value of where it led: the lambda
    of Peng's Q(lambda), as far as a sequence from replay goes. 0 is one step at a time."""
    double: bool = True
    """Whether the online network chooses the action whose target value counts (double Q-learning)."""
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
        self._require_positive("epochs", "batch", "target_interval")
        for name in ("epsilon_start", "epsilon_finish", "epsilon_evaluation", "epsilon_decay", "trace"):
            require_number(name, getattr(self, name), at_least=0, at_most=1)
        require_whole("capacity", self.capacity, at_most=10**12)
        latest = max(self.steps, LEARNING_STARTS)
        require_whole("learning_starts", self.learning_starts, at_least=0, at_most=latest)
        require(self.batch <= self.capacity, f"batch must be at most capacity = {self.capacity}, not {self.batch}")
        require(
            self.ring_length >= 2 * self.rollout,
            f"capacity must hold two rollouts of every environment, {2 * self.num_envs * self.rollout}, "
            f"not {self.capacity}",
        )

    @property
    def ring_length(self) -> int:
        """Ticks kept of each environment: a multiple of the rollout."""
        return self.capacity // self.num_envs // self.rollout * self.rollout

    @property
    def sequence_length(self) -> int:
        """Ticks drawn at a time: those learned from, and the one they lead to."""
        return self.rollout + 1 if self.network.recurrent or self.trace > 0 else 2

    @property
    def sequence_stride(self) -> int:
        """Where sequences may begin: anywhere, or where the memory of the time was kept."""
        return self.rollout if self.network.recurrent else 1

    @property
    def speed_name(self) -> str:
        return "ours"

    @property
    def intra_option(self) -> bool:
        return self.choice.valued

    def epsilon(self, update: Int[Array, ""]) -> Float[Array, ""]:
        fraction = jnp.clip(update / max(self.epsilon_decay * self.num_updates, 1e-6), 0.0, 1.0)
        return self.epsilon_start + fraction * (self.epsilon_finish - self.epsilon_start)

    def build(self) -> "QLearner":
        return QLearner(self)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return self.optimiser_over(self.num_updates * self.epochs)


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


class QState(eqx.Module):
    """Everything that changes during training."""

    network: Network
    target: Network
    optimiser: optax.OptState
    team: Acting
    replay: Replay[Tick]
    memories: Replay[Array]
    """The agents' memory at the beginning of each rollout in `replay`."""
    merit: Merit
    updates: Int[Array, ""]


@dataclass(frozen=True)
class QLearner(AbstractLearner[QState]):
    """Q-learning on any environment: its primitives, and joint options where it has them."""

    config: QConfig

    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> QState:
        config, env = self.config, data
        require(env.num_actions <= 128, f"{env.num_actions} actions and options; replay has room for numbers up to 127")
        network_key, env_key = jax.random.split(key)
        num_outputs = self._num_valued(env) - config.fixed_last
        network = init_team(env, config.network, num_outputs, key=network_key)
        team = Acting.begin(env, self.init_memory(env, config.num_envs), key=env_key)
        actions = jnp.zeros((config.num_envs, env.num_agents), jnp.int32)
        example = self._tick(env, Step(team.timestep, team.first, actions, team.timestep), jnp.int32(0))
        return QState(
            network=network,
            target=jax.tree.map(jnp.copy, network),
            optimiser=config.optimiser.init(network),
            team=team,
            replay=empty(example, config.ring_length),
            memories=empty(team.memory, config.ring_length // config.rollout),
            merit=Merit.none(config.num_envs, env.num_options),
            updates=jnp.int32(0),
        )

    def step(self, state: QState, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """One update: a rollout, then a few gradient steps on what replay holds."""
        rollout_key, learn_key = jax.random.split(key)
        state, acted = self.collect(state, data, key=rollout_key)
        state, learned = self.learn(state, key=learn_key)
        due = (state.updates + 1) % self.config.target_interval == 0
        target = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.network, state.target)
        state = eqx.tree_at(lambda s: (s.target, s.updates), state, (target, state.updates + 1))
        return state, acted | learned

    def policy(self, state: QState) -> Network:
        return state.network

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

    def collect(self, state: QState, env: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """Let the team act for a rollout, exploring, and keep what it went through."""
        config = self.config
        epsilon = config.epsilon(state.updates)
        frames = state.updates * self.steps_per_update
        weights = config.choice.weights(state.merit)

        def decide(memory: Array, timestep: TimeStep, first: Array, key: PRNGKeyArray) -> tuple[Array, Array, None]:
            memory, values = self.values(state.network, memory, timestep.observation[None], first[None])
            return memory, choose(config.choice, values[0], timestep, epsilon, key=key, weights=weights), None

        def keep(step: Step, _: None) -> tuple[Tick, Array]:
            return self._tick(env, step, frames), leading_option(step.after)

        team, (ticks, option), metrics = act(env, state.team, config.rollout, decide, keep, key=key)
        state = eqx.tree_at(
            lambda s: (s.team, s.replay, s.memories, s.merit),
            state,
            (
                team,
                add(state.replay, ticks),
                add(state.memories, state.team.memory[None]),
                state.merit.after(option, ticks.first, ticks.reward),
            ),
        )
        return state, metrics | {"reward": ticks.reward.mean(), "epsilon": epsilon}

    def learn(self, state: QState, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """Gradient steps; none of them counts before `learning_starts`.

        What they learn from is drawn at once, and so the target network, which stays the same, is asked once. What it
        thinks the best choices are worth is the metric `value`: far more than is earned where values have run away.
        """
        config = self.config
        ready = state.replay.count * config.num_envs >= config.learning_starts
        ready &= state.replay.count >= config.sequence_length
        ticks, begins, env_index = sample(
            state.replay, config.epochs * config.batch, config.sequence_length, config.sequence_stride, key=key
        )
        memory = state.memories.ticks[begins // config.rollout, env_index]
        later = self.later_values(state.target, memory, ticks)

        def descend(carry: tuple[Network, Any], batch: Any) -> tuple[tuple[Network, Any], Float[Array, ""]]:
            network, optimiser = carry
            value, gradient = jax.value_and_grad(self.loss)(network, *batch)
            updates, following = config.optimiser.update(gradient, optimiser)
            stepped = (optax.apply_updates(network, updates), following)
            return jax.tree.map(lambda new, old: jnp.where(ready, new, old), stepped, carry), value * ready

        batches = (_epochs(memory, 0, config.epochs), *_epochs((ticks, later), 1, config.epochs))
        (network, optimiser), losses = jax.lax.scan(descend, (state.network, state.optimiser), batches)
        state = eqx.tree_at(lambda s: (s.network, s.optimiser), state, (network, optimiser))
        return state, {"loss": losses.mean(), "value": state_value(later, later, ticks.choices[1:]).mean()}

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

    def later_values(
        self, network: Network, memory: Float[Array, "sample agent memory"], ticks: Tick
    ) -> Float[Array, "time sample agent action"]:
        """The values after each step of sequences; those before the first are needed for memory alone."""
        begin = 0 if self.config.network.recurrent else 1
        _, values = self.values(network, memory, ticks.observation[begin:], ticks.first[begin:])
        return values[1 - begin :]

    def loss(
        self,
        network: Network,
        memory: Float[Array, "sample agent memory"],
        ticks: Tick,
        later: Float[Array, "time sample agent action"],
    ) -> Float[Array, ""]:
        """The squared TD errors of sequences [time, sample], given the target network's values after each step."""
        if self.config.network.recurrent:
            _, values = self.values(network, memory, ticks.observation, ticks.first)
            before, after = values[:-1], jax.lax.stop_gradient(values[1:])
        else:
            _, before = self.values(network, memory, ticks.observation[:-1], ticks.first[:-1])
            # Behind a barrier: XLA would merge this pass with the other, and copy what both see together for that.
            same = jax.lax.optimization_barrier(jax.lax.stop_gradient(network))
            after = self.later_values(same, memory, ticks)
        return self.squared_errors(before, after, later, ticks)

    def squared_errors(
        self,
        before: Float[Array, "time sample agent action"],
        after: Float[Array, "time sample agent action"],
        later: Float[Array, "time sample agent action"],
        ticks: Tick,
    ) -> Float[Array, ""]:
        """Mean squared TD error of what was done, plus that of every option that would have done the same.

        The action that was done is worth r + gamma V(s'), and with a trace r + gamma (V(s') + trace A(s')), where A is
        what followed from s' on, less V(s'). An option is worth r + gamma Q(s', option) where it goes on
        from s', and r + gamma V(s') where it ends there (intra-option learning). `after` and `later` are the online
        and the target network's values of s'.
        """
        best = state_value(after if self.config.double else later, later, ticks.choices[1:])
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
        following = jnp.where(ticks.continues[:-1, :, None], later[..., -num_options:], best[..., None])
        errors = self._mix(before[..., -num_options:]) - reward[..., None] - gamma[..., None] * self._mix(following)
        credited = valid[..., None] & ticks.consistent[:-1, :, None]
        return (squares.sum() + (credited * errors**2).sum()) / number

    def _gains_after(
        self,
        reward: Float[Array, "time sample 1"],
        gamma: Float[Array, "time sample 1"],
        valid: Bool[Array, "time sample 1"],
        worth: Float[Array, "time sample _"],
    ) -> Float[Array, "time sample _"]:
        """By how much what followed each step, as far as its sequence goes, was better than what its arrival is worth
        to the target network."""

        def following(each: Array) -> Array:
            return jnp.broadcast_to(each, worth.shape)[1:]

        gains = advantages(following(reward), following(gamma), following(valid), worth, decay=self.config.trace)
        return jnp.concatenate([gains, jnp.zeros_like(worth[:1])])

    def _mix(self, values: Float[Array, "time sample agent *option"]) -> Float[Array, "time sample _ *option"]:
        return values.sum(axis=2, keepdims=True) if self.config.mixer == "sum" else values

    def _num_valued(self, env: AbstractEnv) -> int:
        """How many actions have values: all, or all but the options."""
        return env.num_actions - (0 if self.config.choice.valued else env.num_options)

    def _tick(self, env: AbstractEnv, step: Step, frames: Int[Array, ""]) -> Tick:
        """What replay keeps of a step."""
        num_valued = self._num_valued(env)
        now, then = step.before.macro, step.after.macro
        choices, done = step.before.action_mask, step.action
        consistent = continues = jnp.zeros((*step.first.shape, 0), bool)
        if now is not None and then is not None:
            choices = now.choices[..., :num_valued]
            # Where options have no value, a vote in vain is learned as what it came to: standing still.
            done = jnp.where(then.action < num_valued, then.action, env.noop)
            if self.config.choice.valued:
                consistent, continues = then.consistent, then.continues
        return Tick(
            observation=step.before.observation,
            choices=choices,
            first=step.first,
            action=done.astype(jnp.int8),
            reward=training_reward(env, step.after, frames),
            discount=step.after.discount,
            consistent=consistent,
            continues=continues,
        )


def _epochs(tree: Any, axis: int, num: int) -> Any:
    """Split the samples on `axis` into as many parts, on a new axis in front."""

    def split(leaf: Array) -> Array:
        parts = leaf.reshape(*leaf.shape[:axis], num, leaf.shape[axis] // num, *leaf.shape[axis + 1 :])
        return jnp.moveaxis(parts, axis, 0)

    return jax.tree.map(split, tree)
