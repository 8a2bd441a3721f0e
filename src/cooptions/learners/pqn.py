"""Parallelised Q-network (PQN): many parallel environments, lambda-returns, no replay buffer, no target network."""

from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.learners.acting import Acting, Step
from cooptions.learners.base import LEARNERS
from cooptions.learners.exploration import state_value
from cooptions.learners.minibatches import minibatches
from cooptions.learners.networks import Network, NetworkConfig
from cooptions.learners.option_credit import Merit
from cooptions.learners.values import AbstractValueLearner, Tick, ValueConfig
from cooptions.training.loop import Metrics


@LEARNERS.register("pqn")
@dataclass(frozen=True)
class PqnConfig(ValueConfig):
    """Hyperparameters of PQN. Layer normalisation keeps the values from diverging."""

    steps: int = 10_000_000
    num_envs: int = 128
    rollout: int = 32
    learning_rate: float = 5e-4
    anneal: bool = True
    network: NetworkConfig = field(
        default_factory=lambda: NetworkConfig(hidden=(128, 128), recurrent=True, shared=True, normalised=True)
    )
    epochs: int = 4
    """Passes over the roll-out per update."""
    minibatches: int = 4
    """Gradient steps per epoch, each on a part of the environments."""
    trace: float = 0.65
    """Lambda of the returns. 0 gives one-step targets; 1 sums the rewards of the roll-out and bootstraps at its end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_positive("epochs", "minibatches")
        require(
            self.num_envs % self.minibatches == 0,
            f"minibatches must divide num_envs = {self.num_envs}, which {self.minibatches} does not",
        )

    def build(self) -> "Pqn":
        return Pqn(self)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return self.optimiser_over(self.num_updates * self.epochs * self.minibatches)


class PqnState(eqx.Module):
    """Everything that changes during training."""

    network: Network
    optimiser: optax.OptState
    team: Acting
    merit: Merit
    updates: Int[Array, ""]


class Batch(eqx.Module):
    """The data of one roll-out: its ticks, and the one after them."""

    ticks: Tick
    later: Float[Array, "time env agent action"]
    """The values of the next state of each step, by the network that acted."""
    best: Float[Array, "time env agent"]
    """Those of the preferred action."""
    worth: Float[Array, "time env _"]
    """What the next state is worth by the rewards of the roll-out and these values."""
    memory: Float[Array, "env agent memory"]
    """The agents' memory at the beginning of the roll-out."""

    def of(self, index: Int[Array, " part"]) -> "Batch":
        """The data of some of the environments."""
        timed = self.ticks, self.later, self.best, self.worth
        ticks, later, best, worth = jax.tree.map(lambda leaf: leaf[:, index], timed)
        return Batch(ticks, later, best, worth, self.memory[index])


@dataclass(frozen=True)
class Pqn(AbstractValueLearner[PqnState]):
    """PQN on any environment, with or without joint options."""

    config: PqnConfig

    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> PqnState:
        config, env = self.config, data
        network_key, env_key = jax.random.split(key)
        network = self.init_values(env, key=network_key)
        return PqnState(
            network=network,
            optimiser=config.optimiser.init(network),
            team=Acting.begin(env, self.init_memory(env, config.num_envs), key=env_key),
            merit=Merit.none(config.num_envs, env.option_kinds),
            updates=jnp.int32(0),
        )

    def step(self, state: PqnState, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[PqnState, Metrics]:
        """One update: a roll-out, then a few passes over it."""
        rollout_key, learn_key = jax.random.split(key)
        team, ticks, merit, acted = self.explore(
            data, state.network, state.team, state.merit, state.updates, key=rollout_key
        )
        batch = self.judge(state.network, state.team.memory, self._with_end(data, ticks, team))
        network, optimiser, learned = self.learn(state.network, state.optimiser, batch, key=learn_key)
        return PqnState(network, optimiser, team, merit, state.updates + 1), acted | learned

    def policy(self, state: PqnState) -> Network:
        return state.network

    @jax.named_scope("target")
    def judge(self, network: Network, memory: Float[Array, "env agent memory"], ticks: Tick) -> Batch:
        """Add the values of the network that acted to a roll-out, and the targets, which are the same in all epochs."""
        _, values = self.values(network, memory, ticks.observation, ticks.first)
        best = state_value(values[1:], values[1:], ticks.choices[1:])
        return Batch(ticks, values[1:], best, self.worth(best, ticks), memory)

    def learn(
        self, network: Network, optimiser: optax.OptState, batch: Batch, *, key: PRNGKeyArray
    ) -> tuple[Network, optax.OptState, Metrics]:
        """Take the gradient steps of one update. In each epoch, every environment is in one minibatch. The metric
        `value` is the mean value of the best action."""
        config = self.config

        def descend(carry: tuple[Network, Any], index: Int[Array, " part"]) -> tuple[tuple[Network, Any], Array]:
            network, optimiser = carry
            loss, gradient = jax.value_and_grad(self.loss)(network, batch.of(index))
            with jax.named_scope("optimiser"):
                updates, optimiser = config.optimiser.update(gradient, optimiser)
                return (optax.apply_updates(network, updates), optimiser), loss

        parts = minibatches(config.num_envs, config.epochs, config.minibatches, key=key)
        (network, optimiser), losses = jax.lax.scan(descend, (network, optimiser), parts)
        return network, optimiser, {"loss": losses.mean(), "value": batch.best.mean()}

    @jax.named_scope("loss")
    def loss(self, network: Network, batch: Batch) -> Float[Array, ""]:
        """The squared errors between values and lambda-returns."""
        ticks = batch.ticks
        _, values = self.values(network, batch.memory, ticks.observation[:-1], ticks.first[:-1])
        return self.td_loss(values, batch.later, batch.best, batch.worth, ticks)

    def _with_end(self, env: AbstractEnv, ticks: Tick, team: Acting) -> Tick:
        """The ticks of a roll-out and the one after them, with the no-op as its action."""
        nothing = jnp.full(ticks.action.shape[1:], env.noop, jnp.int32)
        end = self.tick(env, Step(team.timestep, team.first, nothing, team.timestep), jnp.int32(0))
        return jax.tree.map(lambda before, last: jnp.concatenate([before, last[None]]), ticks, end)
