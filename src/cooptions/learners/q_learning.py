"""Q-learning for a team: independent or summed values, with or without memory, over primitives and joint options."""

from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, start, tick, training_reward, uniform_action
from cooptions.errors import require
from cooptions.learners.networks import Network, NetworkConfig, apply_team, init_memory, init_team
from cooptions.learners.replay import Replay, add, empty, sample
from cooptions.training import Metrics
from cooptions.types import TimeStep


@dataclass(frozen=True)
class QConfig:
    """Hyperparameters of Q-learning."""

    steps: int = 1_000_000
    """Environment steps of training, over all environments."""
    num_envs: int = 32
    """Environments side by side."""
    rollout: int = 10
    """Steps of each environment between updates; with memory, also the length of the sequences learned from."""
    epochs: int = 4
    """Gradient steps of an update."""
    batch: int = 32
    """Transitions in a gradient step; with memory, sequences."""
    capacity: int = 5000
    """Transitions kept for replay, over all environments."""
    learning_starts: int = 5000
    """Environment steps before the first gradient step."""
    learning_rate: float = 1e-3
    anneal: bool = False
    """Whether the learning rate falls to 0 over training."""
    max_gradient_norm: float = 1.0
    target_interval: int = 10
    """Updates between copies of the network to the target network."""
    discount: float = 0.99
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
    network: NetworkConfig = field(default_factory=NetworkConfig)

    def __post_init__(self) -> None:
        for name in ("num_envs", "rollout", "epochs", "batch", "target_interval"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        require(0 <= self.discount <= 1, f"discount must lie in [0, 1], not {self.discount}")
        require(
            self.steps >= self.num_envs * self.rollout,
            f"steps must be at least num_envs x rollout = {self.num_envs * self.rollout}, not {self.steps}",
        )
        require(
            self.ring_length >= 2 * self.rollout,
            f"capacity must hold two rollouts of every environment, {2 * self.num_envs * self.rollout}, "
            f"not {self.capacity}",
        )

    @property
    def num_updates(self) -> int:
        return self.steps // (self.num_envs * self.rollout)

    @property
    def ring_length(self) -> int:
        """Ticks kept of each environment: a multiple of the rollout."""
        return self.capacity // self.num_envs // self.rollout * self.rollout

    @property
    def sequence_length(self) -> int:
        """Ticks drawn at a time: those learned from, and the one they lead to."""
        return self.rollout + 1 if self.network.recurrent else 2

    @property
    def sequence_stride(self) -> int:
        """Where sequences may begin: anywhere, or where the memory of the time was kept."""
        return self.rollout if self.network.recurrent else 1

    def epsilon(self, update: Int[Array, ""]) -> Float[Array, ""]:
        fraction = jnp.clip(update / max(self.epsilon_decay * self.num_updates, 1e-6), 0.0, 1.0)
        return self.epsilon_start + fraction * (self.epsilon_finish - self.epsilon_start)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        rate = self.learning_rate
        schedule = optax.linear_schedule(rate, 0.0, self.num_updates * self.epochs) if self.anneal else rate
        return optax.chain(optax.clip_by_global_norm(self.max_gradient_norm), optax.adam(schedule))


class Tick(eqx.Module):
    """An environment at one time, what was done there, and what that brought.

    `first` marks the beginning of an episode: the tick before it was the end of another and led nowhere.
    `action`, `consistent` and `continues` are those of `MacroStep`; without options there are none of the latter.
    """

    observation: Shaped[Array, "*batch_agent_and_shape"]
    action_mask: Bool[Array, "*batch agent action"]
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
    runners: Runners
    first: Bool[Array, " env"]
    memory: Float[Array, "env agent memory"]
    replay: Replay[Tick]
    memories: Replay[Array]
    """The agents' memory at the beginning of each rollout in `replay`."""
    updates: Int[Array, ""]


@dataclass(frozen=True)
class QLearner:
    """A stage of training whose data is the environment."""

    config: QConfig

    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> QState:
        config, env = self.config, data
        require(env.num_actions <= 128, f"{env.num_actions} actions and options; replay has room for numbers up to 127")
        network_key, env_key = jax.random.split(key)
        network = init_team(env, config.network, env.num_actions - config.fixed_last, key=network_key)
        runners = start(env, config.num_envs, key=env_key)
        memory = init_memory(env, config.network, config.num_envs)
        actions = jnp.zeros((config.num_envs, env.num_agents), jnp.int32)
        first = jnp.ones(config.num_envs, bool)
        example = _tick(env, runners.timestep, first, actions, runners.timestep, jnp.int32(0))
        return QState(
            network=network,
            target=jax.tree.map(jnp.copy, network),
            optimiser=config.optimiser.init(network),
            runners=runners,
            first=first,
            memory=memory,
            replay=empty(example, config.ring_length),
            memories=empty(memory, config.ring_length // config.rollout),
            updates=jnp.int32(0),
        )

    def step(self, state: QState, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """One update: a rollout, then a few gradient steps on what replay holds."""
        rollout_key, learn_key = jax.random.split(key)
        state, metrics = self.collect(state, data, key=rollout_key)
        state, loss = self.learn(state, data, key=learn_key)
        due = (state.updates + 1) % self.config.target_interval == 0
        target = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.network, state.target)
        state = eqx.tree_at(lambda s: (s.target, s.updates), state, (target, state.updates + 1))
        return state, metrics | {"loss": loss}

    def collect(self, state: QState, env: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """Let the team act for a rollout, exploring, and keep what it went through."""
        config = self.config
        epsilon = config.epsilon(state.updates)
        frames = state.updates * config.rollout * config.num_envs

        def act(carry: tuple[Runners, Array, Array], key: PRNGKeyArray) -> tuple[tuple[Runners, Array, Array], Any]:
            runners, first, memory = carry
            action_key, env_key = jax.random.split(key)
            memory, values = self.values(state.network, memory, runners.timestep.observation[None], first[None])
            action = epsilon_greedy(values[0], runners.timestep.action_mask, epsilon, key=action_key)
            onward = tick(env, runners, action, key=env_key)
            kept = _tick(env, runners.timestep, first, action, onward.timestep, frames)
            ended = onward.timestep.last
            return (onward, runners.timestep.last, memory), (kept, ended, onward.timestep.score)

        begin = (state.runners, state.first, state.memory)
        (runners, first, memory), (ticks, ended, score) = jax.lax.scan(
            act, begin, jax.random.split(key, config.rollout)
        )
        state = eqx.tree_at(
            lambda s: (s.runners, s.first, s.memory, s.replay, s.memories),
            state,
            (runners, first, memory, add(state.replay, ticks), add(state.memories, state.memory[None])),
        )
        return state, {"reward": ticks.reward.mean(), "epsilon": epsilon, **_scores(env, ended, score)}

    def learn(self, state: QState, env: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Float[Array, ""]]:
        """Gradient steps; none of them counts before `learning_starts`."""
        config = self.config
        ready = state.replay.count * config.num_envs >= config.learning_starts
        ready &= state.replay.count >= config.sequence_length

        def descend(carry: tuple[Network, Any], key: PRNGKeyArray) -> tuple[tuple[Network, Any], Float[Array, ""]]:
            network, optimiser = carry
            ticks, begins, env_index = sample(
                state.replay, config.batch, config.sequence_length, config.sequence_stride, key=key
            )
            memory = state.memories.ticks[begins // config.rollout, env_index]
            value, gradient = jax.value_and_grad(self.loss)(network, state.target, env.num_options, memory, ticks)
            updates, following = config.optimiser.update(gradient, optimiser)
            stepped = (optax.apply_updates(network, updates), following)
            return jax.tree.map(lambda new, old: jnp.where(ready, new, old), stepped, carry), value * ready

        begin = (state.network, state.optimiser)
        (network, optimiser), losses = jax.lax.scan(descend, begin, jax.random.split(key, config.epochs))
        return eqx.tree_at(lambda s: (s.network, s.optimiser), state, (network, optimiser)), losses.mean()

    def values(
        self,
        network: Network,
        memory: Float[Array, "env agent memory"],
        observation: Shaped[Array, "time env agent *shape"],
        first: Bool[Array, "time env"],
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent action"]]:
        """Every agent's values of all actions."""
        memory, values = apply_team(network, self.config.network, memory, observation, first)
        if self.config.fixed_last:
            values = jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)
        return memory, values

    def loss(
        self,
        network: Network,
        target: Network,
        num_options: int,
        memory: Float[Array, "sample agent memory"],
        ticks: Tick,
    ) -> Float[Array, ""]:
        """The squared TD errors of sequences [time, sample]."""
        _, values = self.values(network, memory, ticks.observation, ticks.first)
        _, target_values = self.values(target, memory, ticks.observation, ticks.first)
        return self.squared_errors(values, target_values, num_options, ticks)

    def squared_errors(
        self,
        values: Float[Array, "time sample agent action"],
        target_values: Float[Array, "time sample agent action"],
        num_options: int,
        ticks: Tick,
    ) -> Float[Array, ""]:
        """Mean squared TD error of what was done, plus that of every option that would have done the same.

        The action that was done is worth r + gamma V(s'). An option is worth r + gamma Q(s', option) where it goes on
        from s', and r + gamma V(s') where it ends there (intra-option learning).
        """
        before, after, later = values[:-1], jax.lax.stop_gradient(values[1:]), target_values[1:]
        best = state_value(after if self.config.double else later, later, ticks.action_mask[1:])
        reward, gamma = ticks.reward[:-1, :, None], self.config.discount * ticks.discount[:-1, :, None]
        valid = ~ticks.first[1:, :, None]

        done = jnp.take_along_axis(before, ticks.action[:-1, ..., None].astype(jnp.int32), axis=-1)[..., 0]
        squares = valid * (self._mix(done) - reward - gamma * self._mix(best)) ** 2
        number = jnp.maximum(jnp.broadcast_to(valid, squares.shape).sum(), 1)
        if num_options == 0:
            return squares.sum() / number
        following = jnp.where(ticks.continues[:-1, :, None], later[..., -num_options:], best[..., None])
        errors = self._mix(before[..., -num_options:]) - reward[..., None] - gamma[..., None] * self._mix(following)
        credited = valid[..., None] & ticks.consistent[:-1, :, None]
        return (squares.sum() + (credited * errors**2).sum()) / number

    def _mix(self, values: Float[Array, "time sample agent *option"]) -> Float[Array, "time sample _ *option"]:
        return values.sum(axis=2, keepdims=True) if self.config.mixer == "sum" else values


def state_value(
    chooser: Float[Array, "*batch action"], values: Float[Array, "*batch action"], mask: Bool[Array, "*batch action"]
) -> Float[Array, "*batch"]:
    """The value of the available action that the chooser likes best."""
    best = jnp.argmax(jnp.where(mask, chooser, -jnp.inf), axis=-1, keepdims=True)
    return jnp.take_along_axis(values, best, axis=-1)[..., 0]


def greedy(values: Float[Array, "*batch action"], mask: Bool[Array, "*batch action"]) -> Int[Array, "*batch"]:
    return jnp.argmax(jnp.where(mask, values, -jnp.inf), axis=-1)


def epsilon_greedy(
    values: Float[Array, "*batch action"],
    mask: Bool[Array, "*batch action"],
    epsilon: Float[Array, ""],
    *,
    key: PRNGKeyArray,
) -> Int[Array, "*batch"]:
    """The best available action, or with probability epsilon any available one."""
    coin_key, action_key = jax.random.split(key)
    best = greedy(values, mask)
    explores = jax.random.uniform(coin_key, best.shape) < epsilon
    return jnp.where(explores, uniform_action(mask, key=action_key), best)


def _tick(
    env: AbstractEnv,
    timestep: TimeStep,
    first: Bool[Array, " env"],
    action: Int[Array, "env agent"],
    outcome: TimeStep,
    frames: Int[Array, ""],
) -> Tick:
    """What replay keeps of a step."""
    macro = outcome.macro
    none = jnp.zeros((*first.shape, 0), bool)
    return Tick(
        observation=timestep.observation,
        action_mask=timestep.action_mask,
        first=first,
        action=(action if macro is None else macro.action).astype(jnp.int8),
        reward=training_reward(env, outcome, frames),
        discount=outcome.discount,
        consistent=none if macro is None else macro.consistent,
        continues=none if macro is None else macro.continues,
    )


def _scores(env: AbstractEnv, ended: Bool[Array, "time env"], score: Float[Array, "time env score"]) -> Metrics:
    """The mean result of the episodes that ended in a rollout, and how many did."""
    number = ended.sum()
    means = jnp.where(ended[..., None], score, 0.0).sum(axis=(0, 1)) / jnp.maximum(number, 1)
    return {name: means[index] for index, name in enumerate(env.score_names)} | {"episodes": number.astype(jnp.float32)}
