"""Deep Q-learning for teams (IQL, VDN), with or without recurrent networks, over primitives and joint options."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require, require_whole
from cooptions.learners.acting import Acting, Step
from cooptions.learners.base import LEARNERS
from cooptions.learners.exploration import state_value
from cooptions.learners.networks import Network
from cooptions.learners.option_credit import Merit
from cooptions.learners.replay import Replay, add, empty, sample
from cooptions.learners.values import AbstractValueLearner, Tick, ValueConfig
from cooptions.training.loop import Metrics

LEARNING_STARTS = 5000
"""The default of `learning_starts`. Training with fewer steps only tests that the program runs: nothing is learned."""


@LEARNERS.register("q_learning")
@dataclass(frozen=True)
class QConfig(ValueConfig):
    """Hyperparameters of Q-learning."""

    epochs: int = 4
    """Gradient steps per update."""
    batch: int = 32
    """Transitions per gradient step. With memory or a trace, sequences of `rollout` transitions."""
    capacity: int = 5000
    """Transitions in the replay buffer, over all environments."""
    learning_starts: int = LEARNING_STARTS
    """Environment steps before the first gradient step."""
    target_interval: int = 10
    """Updates between copies of the online network to the target network."""
    double: bool = True
    """Whether the online network selects the action that the target network evaluates (double Q-learning)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_positive("epochs", "batch", "target_interval")
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
        """Ticks stored per environment, a multiple of `rollout`."""
        return self.capacity // self.num_envs // self.rollout * self.rollout

    @property
    def sequence_length(self) -> int:
        """Ticks per sampled sequence: those to learn from, and the one after them."""
        return self.rollout + 1 if self.network.recurrent or self.trace > 0 else 2

    @property
    def sequence_stride(self) -> int:
        """Sequences begin at multiples of this. With recurrent networks, these are the ticks with stored memory."""
        return self.rollout if self.network.recurrent else 1

    @property
    def speed_name(self) -> str:
        return "ours"

    def build(self) -> "QLearner":
        return QLearner(self)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return self.optimiser_over(self.num_updates * self.epochs)


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
class QLearner(AbstractValueLearner[QState]):
    """Q-learning on any environment, with or without joint options."""

    config: QConfig

    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> QState:
        config, env = self.config, data
        network_key, env_key = jax.random.split(key)
        network = self.init_values(env, key=network_key)
        team = Acting.begin(env, self.init_memory(env, config.num_envs), key=env_key)
        actions = jnp.zeros((config.num_envs, env.num_agents), jnp.int32)
        example = self.tick(env, Step(team.timestep, team.first, actions, team.timestep), jnp.int32(0))
        return QState(
            network=network,
            target=jax.tree.map(jnp.copy, network),
            optimiser=config.optimiser.init(network),
            team=team,
            replay=empty(example, config.ring_length),
            memories=empty(team.memory, config.ring_length // config.rollout),
            merit=Merit.none(config.num_envs, env.option_kinds),
            updates=jnp.int32(0),
        )

    def step(self, state: QState, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """One update: a roll-out, then gradient steps on samples of the replay buffer."""
        rollout_key, learn_key = jax.random.split(key)
        state, acted = self.collect(state, data, key=rollout_key)
        state, learned = self.learn(state, key=learn_key)
        due = (state.updates + 1) % self.config.target_interval == 0
        target = jax.tree.map(lambda new, old: jnp.where(due, new, old), state.network, state.target)
        state = eqx.tree_at(lambda s: (s.target, s.updates), state, (target, state.updates + 1))
        return state, acted | learned

    def policy(self, state: QState) -> Network:
        return state.network

    def collect(self, state: QState, env: AbstractEnv, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """Run the team for one roll-out with exploration, and store its transitions."""
        team, ticks, merit, metrics = self.explore(env, state.network, state.team, state.merit, state.updates, key=key)
        state = eqx.tree_at(
            lambda s: (s.team, s.replay, s.memories, s.merit),
            state,
            (team, add(state.replay, ticks), add(state.memories, state.team.memory[None]), merit),
        )
        return state, metrics

    def learn(self, state: QState, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        """Take the gradient steps of one update. Before `learning_starts`, they have no effect.

        The samples of all gradient steps are drawn together, so that the target network is evaluated only once. The
        metric `value` is its mean value of the best action. If it is far above the returns, values have diverged.
        """
        config = self.config
        ready = state.replay.count * config.num_envs >= config.learning_starts
        ready &= state.replay.count >= config.sequence_length
        with jax.named_scope("replay"):
            number = config.epochs * config.batch
            ticks, begins, env_index = sample(
                state.replay, number, config.sequence_length, config.sequence_stride, key=key
            )
            memory = state.memories.ticks[begins // config.rollout, env_index]
        with jax.named_scope("target"):
            later = self.later_values(state.target, memory, ticks)

        def descend(carry: tuple[Network, Any], batch: Any) -> tuple[tuple[Network, Any], Float[Array, ""]]:
            network, optimiser = carry
            value, gradient = jax.value_and_grad(self.loss)(network, *batch)
            with jax.named_scope("optimiser"):
                updates, following = config.optimiser.update(gradient, optimiser)
                stepped = (optax.apply_updates(network, updates), following)
            return jax.tree.map(lambda new, old: jnp.where(ready, new, old), stepped, carry), value * ready

        batches = (_epochs(memory, 0, config.epochs), *_epochs((ticks, later), 1, config.epochs))
        (network, optimiser), losses = jax.lax.scan(descend, (state.network, state.optimiser), batches)
        state = eqx.tree_at(lambda s: (s.network, s.optimiser), state, (network, optimiser))
        return state, {"loss": losses.mean(), "value": state_value(later, later, ticks.choices[1:]).mean()}

    def later_values(
        self, network: Network, memory: Float[Array, "sample agent memory"], ticks: Tick
    ) -> Float[Array, "time sample agent action"]:
        """The values of the next state of each step. Recurrent networks also read the first observation."""
        begin = 0 if self.config.network.recurrent else 1
        _, values = self.values(network, memory, ticks.observation[begin:], ticks.first[begin:])
        return values[1 - begin :]

    @jax.named_scope("loss")
    def loss(
        self,
        network: Network,
        memory: Float[Array, "sample agent memory"],
        ticks: Tick,
        later: Float[Array, "time sample agent action"],
    ) -> Float[Array, ""]:
        """The TD loss of sequences [time, sample]. `later` are the target network's values of the next states."""
        if self.config.network.recurrent:
            _, values = self.values(network, memory, ticks.observation, ticks.first)
            before, after = values[:-1], jax.lax.stop_gradient(values[1:])
        else:
            _, before = self.values(network, memory, ticks.observation[:-1], ticks.first[:-1])
            # The barrier keeps XLA from merging this pass with the other, for which it would copy the inputs of both.
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
        """The TD loss of `before`. `after` and `later` are the online and the target network's values of s'."""
        best = state_value(after if self.config.double else later, later, ticks.choices[1:])
        return self.td_loss(before, later, best, self.worth(best, ticks), ticks)


def _epochs(tree: Any, axis: int, num: int) -> Any:
    """Split the samples on `axis` into `num` parts, on a new leading axis."""

    def split(leaf: Array) -> Array:
        parts = leaf.reshape(*leaf.shape[:axis], num, leaf.shape[axis] // num, *leaf.shape[axis + 1 :])
        return jnp.moveaxis(parts, axis, 0)

    return jax.tree.map(split, tree)
