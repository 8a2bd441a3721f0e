"""Export of any environment, joint options included, as a PettingZoo `ParallelEnv`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, SupportsInt

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray, Shaped, UInt8
from pettingzoo import ParallelEnv

from cooptions.envs.adapters.entries import entries
from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import innermost
from cooptions.errors import require, require_whole
from cooptions.types import TimeStep

MASKS = ("infos", "observations")
"""The possible places of action masks."""
Draw = Callable[[AbstractEnv, Any], UInt8[np.ndarray, "height width 3"]]
"""An environment and one of its states -> a picture."""

PerAgent = dict[str, Any]


class Shown(NamedTuple):
    """Everything that is transferred from the device after a step."""

    observation: Shaped[Array, "agent ..."]
    action_mask: Integer[Array, "agent action"]
    """int8, as Gymnasium's `Discrete.sample` requires."""
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    info: dict[str, Shaped[Array, " agent"]]


class ToPettingZoo(ParallelEnv[str, Any, int]):
    """An environment for PettingZoo's learners: agents `agent_0`, `agent_1`, ..., all present until the episode ends.

    It takes and returns NumPy arrays. `reset` and `step` are compiled, and environments of the same task share the
    programs. Every agent gets the team's reward. The end of the task is a termination, a time limit a truncation.
    """

    def __init__(
        self,
        env: AbstractEnv,
        render_mode: str | None = None,
        masks: str = "infos",
        draw: Draw | None = None,
    ) -> None:
        require(render_mode in (None, "rgb_array"), f'render_mode must be "rgb_array" or None, not {render_mode!r}')
        require(masks in MASKS, f"masks must be one of {', '.join(MASKS)}, not {masks!r}")
        require(render_mode is None or draw is not None, "draw: a render_mode needs a function that draws states")
        self.env = jax.tree.map(jnp.asarray, env)
        self.render_mode, self.masks, self.draw = render_mode, masks, draw
        name = type(innermost(env)).__name__.lower()
        self.metadata = {"name": name, "render_modes": ["rgb_array"], "render_fps": 8, "is_parallelizable": True}
        self.possible_agents = [f"agent_{number}" for number in range(env.num_agents)]
        self.agents: list[str] = []
        _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
        seen, choices = timestep.observation, env.num_actions
        self.observation_spaces = {agent: self._observation_space(seen, choices) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(choices) for agent in self.possible_agents}
        self._key: PRNGKeyArray | None = None
        self._state: Any = None

    def observation_space(self, agent: str) -> Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[PerAgent, PerAgent]:
        """Start an episode. A seed also determines all later episodes. Without any seed, a random one is used.

        `options` has no effect; PettingZoo's interface requires it.
        """
        if seed is None and self._key is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if seed is not None:
            require_whole("seed", seed, at_least=0, at_most=2**32 - 1)
            self._key = jax.random.key(np.uint32(seed))
        self._state, self._key, shown = _begin(self.env, self._key)
        self.agents = list(self.possible_agents)
        shown = jax.device_get(shown)
        return self._observations(shown), self._infos(shown)

    def step(self, actions: Mapping[str, SupportsInt]) -> tuple[PerAgent, PerAgent, PerAgent, PerAgent, PerAgent]:
        """Step the environment. The effect of an action that the mask excludes depends on the environment."""
        require(bool(self.agents), "step: no episode is under way; call reset first")
        self._state, self._key, shown = _go_on(self.env, self._state, self._joint(actions), self._key)
        shown = jax.device_get(shown)
        terminated, truncated = bool(shown.terminated), bool(shown.truncated)
        if terminated or truncated:
            self.agents = []
        each = (self._to_all(value) for value in (float(shown.reward), terminated, truncated))
        return self._observations(shown), *each, self._infos(shown)

    def render(self) -> UInt8[np.ndarray, "height width 3"]:
        """A picture of the current state."""
        require(self.draw is not None, 'render: give render_mode="rgb_array" when the environment is made')
        require(self._state is not None, "render: there is nothing to show yet; call reset first")
        assert self.draw is not None
        return self.draw(self.env, self._state)

    def _joint(self, actions: Mapping[str, SupportsInt]) -> Int[np.ndarray, " agent"]:
        """The team's action as an array. Actions are checked here, because JAX would clip an index out of range."""
        require(
            set(actions) == set(self.agents),
            f"actions: there must be one for each of {', '.join(self.agents)}, not for {', '.join(actions) or 'none'}",
        )
        joint = np.array([int(actions[agent]) for agent in self.agents], np.int32)
        for agent, action in zip(self.agents, joint.tolist(), strict=True):
            fits = 0 <= action < self.env.num_actions
            require(fits, f"actions: {agent} must choose from 0 to {self.env.num_actions - 1}, not {action}")
        return joint

    def _observation_space(self, seen: jax.ShapeDtypeStruct, num_actions: int) -> Space:
        box = _box(seen.shape[1:], seen.dtype)
        if self.masks == "infos":
            return box
        return spaces.Dict({"observation": box, "action_mask": spaces.Box(0, 1, (num_actions,), np.int8)})

    def _observations(self, shown: Shown) -> PerAgent:
        # Copied, because arrays from the device are read-only and some learners write to observations.
        seen = dict(zip(self.possible_agents, np.array(shown.observation), strict=True))
        if self.masks == "infos":
            return seen
        masks = self._masks(shown)
        return {agent: {"observation": seen[agent], "action_mask": masks[agent]} for agent in self.possible_agents}

    def _infos(self, shown: Shown) -> PerAgent:
        infos = {
            agent: {name: values[number].item() for name, values in shown.info.items()}
            for number, agent in enumerate(self.possible_agents)
        }
        if self.masks == "infos":
            for agent, mask in self._masks(shown).items():
                infos[agent]["action_mask"] = mask
        return infos

    def _masks(self, shown: Shown) -> PerAgent:
        return dict(zip(self.possible_agents, np.array(shown.action_mask), strict=True))

    def _to_all(self, value: float | bool) -> PerAgent:
        return dict.fromkeys(self.possible_agents, value)


def _box(shape: tuple[int, ...], dtype: np.dtype) -> spaces.Box:
    """The space of all values of a data type, because environments do not declare bounds."""
    if dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, shape, dtype.type)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, shape, dtype.type)


@jax.jit
def _begin(env: AbstractEnv, key: PRNGKeyArray) -> tuple[Any, PRNGKeyArray, Shown]:
    """Reset. The environment is a pytree argument, so tasks with the same static configuration share the program."""
    key, reset_key = jax.random.split(key)
    state, timestep = env.reset(reset_key)
    still = jnp.full(env.num_agents, env.noop, jnp.int32)
    return state, key, _shown(env, timestep, still)


@jax.jit
def _go_on(
    env: AbstractEnv, state: Any, action: Int[Array, " agent"], key: PRNGKeyArray
) -> tuple[Any, PRNGKeyArray, Shown]:
    key, step_key = jax.random.split(key)
    state, timestep = env.step(state, action, step_key)
    return state, key, _shown(env, timestep, action)


def _shown(env: AbstractEnv, timestep: TimeStep, action: Int[Array, " agent"]) -> Shown:
    info = entries(env, timestep, action)
    if env.shaping_horizon > 0:
        info["shaped_reward"] = jnp.broadcast_to(timestep.shaped_reward, env.num_agents)
    terminated = timestep.last & (timestep.discount == 0)
    mask = timestep.action_mask.astype(jnp.int8)
    return Shown(timestep.observation, mask, timestep.reward, terminated, timestep.last & ~terminated, info)
