"""The adapter for JaxMARL environments with discrete actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, Shaped

from cooptions.envs.adapters.base import AbstractAdapter, Wrapped
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.errors import require
from cooptions.types import TimeStep

with quiet_import():
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv
    from jaxmarl.environments.spaces import Discrete


@dataclass(frozen=True)
class FromJaxMARL(AbstractAdapter):
    """A JaxMARL environment, given the factorisation of its state.

    Observations of different shapes are flattened and padded with 0. The action mask combines the environment's
    `get_avail_actions`, if it has one, with a mask for agents that have fewer actions than others.

        spread = jaxmarl.make("MPE_simple_spread_v3")
        env = co.FromJaxMARL(
            spread,
            features=(Feature.continuous("x", -2.0, 2.0), Feature.continuous("y", -2.0, 2.0)),
            factorise=lambda state: state.p_pos[: spread.num_agents].clip(-2.0, 2.0),
            landmarks=lambda state: state.p_pos[spread.num_agents :],
            ends_by_time_limit=True,
        )
    """

    env: MultiAgentEnv
    ends_by_time_limit: bool = False
    """Whether episodes end only by a time limit, so that learners should bootstrap. JaxMARL does not say."""
    shaping_horizon: int = 0
    """Steps of training over which the environment's `info["shaped_reward"]` fades; with 0 it is not used."""

    @cached_property
    def action_counts(self) -> tuple[int, ...]:
        spaces = {agent: self.env.action_space(agent) for agent in self.env.agents}
        for agent, space in spaces.items():
            kind = type(space).__name__
            require(
                isinstance(space, Discrete),
                f"env: the actions of {agent} must be Discrete, not {kind}: options need discrete actions; make the "
                "environment with its discrete ones, or wrap it in one that numbers them",
            )
        return tuple(int(space.n) for space in spaces.values())  # pyright: ignore[reportAttributeAccessIssue]

    @cached_property
    def _has_masks(self) -> bool:
        """Whether the environment implements `get_avail_actions`."""
        try:
            _, state = jax.eval_shape(self.env.reset, jax.random.key(0))
            jax.eval_shape(self.env.get_avail_actions, state)
        except NotImplementedError:
            return False
        return True

    def reset(self, key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        observations, inner = self.env.reset(key)
        return self._start(inner, self._observation(observations), self._action_mask(inner))

    def step(self, state: Wrapped, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        # Not JaxMARL's `step`, which resets automatically and drops the final state.
        observations, inner, rewards, dones, info = self.env.step_env(
            key, state.inner, dict(zip(self.env.agents, action, strict=True))
        )
        last = jnp.asarray(dones["__all__"], bool)
        ended = jnp.bool_(False) if self.ends_by_time_limit else last
        hints = jnp.stack(list(info["shaped_reward"].values())).sum() if self.shaping_horizon else 0.0
        return self._follow(
            state,
            inner,
            self._observation(observations),
            self._action_mask(inner),
            jnp.stack([jnp.asarray(rewards[agent]) for agent in self.env.agents]),
            discount=1.0 - ended.astype(jnp.float32),
            last=last,
            shaped_reward=hints,
        )

    def _observation(self, observations: dict[str, Array]) -> Shaped[Array, "agent ..."]:
        return stack_padded([jnp.asarray(observations[agent]) for agent in self.env.agents])

    def _action_mask(self, inner: object) -> Bool[Array, "agent action"]:
        if not self._has_masks:
            return self._own_actions()
        available = self.env.get_avail_actions(inner)  # pyright: ignore[reportArgumentType]
        rows = [available[agent].astype(bool) for agent in self.env.agents]
        widths = [self.num_actions - row.shape[0] for row in rows]
        return jnp.stack([jnp.pad(row, (0, width)) for row, width in zip(rows, widths, strict=True)])


def stack_padded(arrays: Sequence[Array]) -> Shaped[Array, "array ..."]:
    """Stack arrays. If their shapes differ, they are flattened and padded with 0 to the longest."""
    if len({array.shape for array in arrays}) > 1:
        longest = max(array.size for array in arrays)
        arrays = [jnp.pad(array.ravel(), (0, longest - array.size)) for array in arrays]
    return jnp.stack(arrays)
