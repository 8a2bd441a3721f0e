"""An agent's network: layers for its observation, an optional recurrent layer, and a head."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require, require_widths
from cooptions.training.nn import GRU, MLP, Convolution, normalised_relu


@dataclass(frozen=True)
class NetworkConfig:
    """Layers of an agent's network."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the layers. With memory, the last one is that of the recurrent layer."""
    channels: tuple[int, ...] = (16, 16, 16)
    """Channels of the convolutions in front, if observations are pictures."""
    kernels: tuple[int, ...] = (5, 3, 3)
    """Kernel sizes of the convolutions."""
    recurrent: bool = False
    """Whether agents have memory (a gated recurrent unit)."""
    shared: bool = False
    """Whether all agents use one network. Observations must then tell the agents apart."""
    normalised: bool = False
    """Whether layers are normalised before their activation (layer normalisation without learned parameters)."""
    half: bool = False
    """Whether layers compute in bfloat16, which halves memory traffic. Weights, memory and outputs stay float32."""

    def __post_init__(self) -> None:
        least = 2 if self.recurrent else 1
        require(len(self.hidden) >= least, f"network.hidden needs at least {least} layers, not {len(self.hidden)}")
        for name in ("hidden", "channels", "kernels"):
            require_widths(f"network.{name}", getattr(self, name))
        require(
            len(self.channels) == len(self.kernels),
            f"network.kernels must be one for each of {len(self.channels)} channels, not {len(self.kernels)}",
        )

    @property
    def memory_size(self) -> int:
        return self.hidden[-1] if self.recurrent else 0


class Network(eqx.Module):
    """One agent's network."""

    convolutions: list[Convolution]
    body: MLP
    memory: GRU | None
    head: MLP
    half: bool = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], config: NetworkConfig, num_outputs: int, *, key: PRNGKeyArray) -> None:
        picture_key, body_key, memory_key, head_key = jax.random.split(key, 4)
        picture = len(shape) == 3
        sizes = (shape[-1], *config.channels) if picture else ()
        keys = jax.random.split(picture_key, len(config.kernels))
        layers = zip(config.kernels, sizes[:-1], sizes[1:], keys, strict=True) if picture else ()
        self.convolutions = [Convolution(kernel, num_in, num_out, key=k) for kernel, num_in, num_out, k in layers]
        num_inputs = int(np.prod(shape[:2])) * config.channels[-1] if picture else int(np.prod(shape))
        widths = config.hidden[:-1] if config.recurrent else config.hidden
        activation = normalised_relu if config.normalised else jax.nn.relu
        self.body = MLP((num_inputs, *widths), key=body_key, activation=activation)
        self.memory = GRU(widths[-1], config.hidden[-1], key=memory_key) if config.recurrent else None
        self.head = MLP((config.hidden[-1], num_outputs), key=head_key, scale=0.01)
        self.half = config.half

    def __call__(
        self,
        memory: Float[Array, "*batch memory"],
        observation: Shaped[Array, "time *batch_and_shape"],
        first: Bool[Array, "time *batch"],
    ) -> tuple[Float[Array, "*batch memory"], Float[Array, "time *batch output"]]:
        """The new memory, and the outputs for a sequence of observations. `first` marks those that begin an episode."""
        x = observation.astype(jnp.bfloat16 if self.half else jnp.float32)
        activation = self.body.activation  # of all layers but the head
        for convolution in self.convolutions:
            x = activation(convolution(x))
        x = activation(self.body(x.reshape(*first.shape, -1)))
        if self.memory is not None:
            memory, x = self.memory(memory, x, first)
        return memory, self.head(x.astype(jnp.float32))


def init_team(
    env: AbstractEnv,
    config: NetworkConfig,
    num_outputs: int,
    *,
    key: PRNGKeyArray,
    view: Callable[[Array], Array] = lambda observation: observation,
) -> Network:
    """One network per agent, stacked [agent, ...], or one shared by all.

    `view` maps observations [time, env, agent, ...] to the networks' inputs; by default it is the identity.
    """
    seen = jax.eval_shape(lambda key: view(env.reset(key)[1].observation[None, None]), key)
    return init_networks(env.num_agents, seen.shape[3:], config, num_outputs, key=key)


def init_networks(
    num_agents: int, shape: tuple[int, ...], config: NetworkConfig, num_outputs: int, *, key: PRNGKeyArray
) -> Network:
    """One network per agent for inputs of this shape, stacked [agent, ...], or one shared by all."""
    make = partial(Network, shape, config, num_outputs)
    if config.shared:
        return make(key=key)
    return jax.vmap(lambda key: make(key=key))(jax.random.split(key, num_agents))


def init_memory(env: AbstractEnv, config: NetworkConfig, num_envs: int) -> Float[Array, "env agent memory"]:
    return jnp.zeros((num_envs, env.num_agents, config.memory_size))


def apply_team(
    network: Network,
    config: NetworkConfig,
    memory: Float[Array, "env agent memory"],
    observation: Shaped[Array, "time env agent *shape"],
    first: Bool[Array, "time env"],
) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent output"]]:
    """The new memory, and the outputs of every agent's network."""
    if config.shared:
        return network(memory, observation, jnp.broadcast_to(first[..., None], observation.shape[:3]))
    each = jax.vmap(lambda net, memory, seen: net(memory, seen, first), in_axes=(0, 1, 2), out_axes=(1, 2))
    return each(network, memory, observation)
