"""Overcooked, with JaxMARL's dynamics."""

import dataclasses
import difflib
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.base import FAMILIES, AbstractEnv, require_apart, require_on_axes
from cooptions.envs.rooms import apart, reachable
from cooptions.errors import require, require_whole
from cooptions.types import Feature, TimeStep, restart

with quiet_import():
    from jaxmarl.environments.overcooked import Overcooked as JaxMARLOvercooked
    from jaxmarl.environments.overcooked import overcooked_layouts
    from jaxmarl.environments.overcooked.common import DIR_TO_VEC, OBJECT_TO_INDEX
    from jaxmarl.environments.overcooked.overcooked import DELIVERY_REWARD, OvercookedActions
    from jaxmarl.environments.overcooked.overcooked import State as JaxMARLState

HELD = ("empty", "onion", "plate", "dish")
"""The items that an agent may carry, in the order of the values of the feature `inventory`."""

ACTION_NAMES = ("y-1", "y+1", "x+1", "x-1", "stay", "interact")
"""The names of the actions in JaxMARL's order: up, down, right, left, stay, interact."""


class Kitchen(eqx.Module):
    """JaxMARL's state, and the number of soups delivered in the episode."""

    inner: JaxMARLState
    deliveries: Int[Array, ""]


@FAMILIES.register("overcooked")
@dataclass(frozen=True)
class Overcooked(AbstractEnv[Kitchen]):
    """Two cooks fill pots with onions and deliver the soups.

    LAYOUT is the name of one of JaxMARL's layouts. The team receives 20 for a delivery. An agent's state is its
    position, orientation and inventory. A coordinate along which a wall separates the agents is left out: no walk
    crosses the wall, so distances along that coordinate would be noise.
    """

    pattern: ClassVar[str] = r"(?P<layout>cramped_room|asymm_advantages|coord_ring|forced_coord|counter_circuit)"
    form: ClassVar[str] = "overcooked-LAYOUT"
    examples: ClassVar[tuple[str, ...]] = (
        "overcooked-cramped_room",
        "overcooked-asymm_advantages",
        "overcooked-coord_ring",
        "overcooked-forced_coord",
        "overcooked-counter_circuit",
    )

    layout: str = "counter_circuit"
    shaping_horizon: int = 10_000_000
    """Steps of training over which the shaped rewards (onion potted, plate taken, soup taken) fade; 0 is off.

    The default is the length of the paper's training. If they fade sooner, Q-learning forgets what it learned by them.
    """
    time_limit: int = 400

    def __post_init__(self) -> None:
        near = difflib.get_close_matches(self.layout, overcooked_layouts, cutoff=0.4) or list(overcooked_layouts)
        require(self.layout in overcooked_layouts, f"layout: there is no {self.layout!r}; try {', '.join(near)}")
        require_whole("shaping_horizon", self.shaping_horizon, at_least=0)
        require_whole("time_limit", self.time_limit)

    @property
    def num_agents(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return 6

    @property
    def noop(self) -> int:
        return int(OvercookedActions.stay)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTION_NAMES

    @property
    def ground(self) -> str:
        return f"overcooked {self.layout}"

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("deliveries",)

    @property
    def features(self) -> tuple[Feature, ...]:
        place = Feature.coordinate("x", self.jaxmarl.width), Feature.coordinate("y", self.jaxmarl.height)
        shared = tuple(axis for axis, apart in zip(place, separated_axes(self.layout), strict=True) if not apart)
        return *shared, Feature.categorical("orientation", 4), Feature.categorical("inventory", len(HELD))

    @cached_property
    def jaxmarl(self) -> JaxMARLOvercooked:
        """JaxMARL's environment: dynamics and observations."""
        with jax.ensure_compile_time_eval(), warnings.catch_warnings():  # it may be built while tracing
            warnings.filterwarnings("ignore", "OvercookedV2 is now released", DeprecationWarning)
            return JaxMARLOvercooked(layout=overcooked_layouts[self.layout], max_steps=self.time_limit)

    def reset(self, key: PRNGKeyArray) -> tuple[Kitchen, TimeStep]:
        observations, inner = self.jaxmarl.reset(key)
        state = Kitchen(inner=inner, deliveries=jnp.int32(0))
        return state, restart(self._stack(observations), self._action_mask, num_scores=1)

    def reset_to(self, agent_states: Float[np.ndarray, "agent feature"], key: PRNGKeyArray) -> tuple[Kitchen, TimeStep]:
        """Like `reset`, but with the agents in these states.

        If the states lack a coordinate, each agent is placed as close as possible to its position after `reset`.
        """
        require_on_axes(self.features, agent_states)
        column = {feature.name: agent_states[:, i].astype(int) for i, feature in enumerate(self.features)}
        _, inner = self.jaxmarl.reset(key)
        before = np.asarray(inner.agent_pos).astype(int)
        position = np.stack([self._nearest(agent, before[agent], column) for agent in range(self.num_agents)])
        require_apart(position)
        facing, held = column["orientation"], np.array([OBJECT_TO_INDEX[HELD[item]] for item in column["inventory"]])
        maze = np.array(inner.maze_map)
        top, left = (maze.shape[0] - self.jaxmarl.height) // 2, (maze.shape[1] - self.jaxmarl.width) // 2
        drawn = maze[before[:, 1] + top, before[:, 0] + left]
        maze[before[:, 1] + top, before[:, 0] + left] = (OBJECT_TO_INDEX["empty"], 0, 0)
        drawn[:, 2] = facing
        maze[position[:, 1] + top, position[:, 0] + left] = drawn
        inner = dataclasses.replace(
            inner,
            agent_pos=jnp.asarray(position, inner.agent_pos.dtype),
            agent_dir=DIR_TO_VEC[facing],
            agent_dir_idx=jnp.asarray(facing, inner.agent_dir_idx.dtype),
            agent_inv=jnp.asarray(held, inner.agent_inv.dtype),
            maze_map=jnp.asarray(maze),
        )
        observations = self.jaxmarl.get_obs(inner)
        state = Kitchen(inner=inner, deliveries=jnp.int32(0))
        return state, restart(self._stack(observations), self._action_mask, num_scores=1)

    def _nearest(
        self, agent: int, place: Int[np.ndarray, " 2"], column: dict[str, Int[np.ndarray, " agent"]]
    ) -> Int[np.ndarray, " 2"]:
        """The reachable cell with an agent's coordinates, closest to `place` if a coordinate is missing."""
        plan: Any = self.jaxmarl.layout
        walls = np.zeros((plan["height"], plan["width"]), bool)
        walls.flat[np.asarray(plan["wall_idx"])] = True
        cells = np.argwhere(reachable(walls, int(np.asarray(plan["agent_idx"])[agent])))[:, ::-1]
        given = {axis: int(column[name][agent]) for axis, name in enumerate("xy") if name in column}
        fits = [cell for cell in cells if all(cell[axis] == value for axis, value in given.items())]
        where = ", ".join(f"{'xy'[axis]} {value}" for axis, value in given.items())
        require(bool(fits), f"agent {agent + 1} cannot walk to {where}")
        return min(fits, key=lambda cell: int(np.abs(cell - place).sum()))

    def step(self, state: Kitchen, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[Kitchen, TimeStep]:
        # Not JaxMARL's `step`, which resets automatically and drops the final state.
        observations, inner, rewards, dones, info = self.jaxmarl.step_env(
            key, state.inner, dict(zip(self.jaxmarl.agents, action, strict=True))
        )
        reward = rewards["agent_0"]  # the team's reward, which JaxMARL gives to each agent
        deliveries = state.deliveries + jnp.round(reward / DELIVERY_REWARD).astype(jnp.int32)
        return Kitchen(inner=inner, deliveries=deliveries), TimeStep(
            observation=self._stack(observations),
            action_mask=self._action_mask,
            reward=reward.astype(jnp.float32),
            discount=jnp.float32(1.0),  # only the time limit ends an episode
            last=dones["__all__"],
            score=deliveries.astype(jnp.float32)[None],
            shaped_reward=jnp.stack(list(info["shaped_reward"].values())).sum().astype(jnp.float32),
        )

    def agent_states(self, state: Kitchen) -> Float[Array, "agent feature"]:
        held = np.zeros(len(OBJECT_TO_INDEX), np.int32)
        held[[OBJECT_TO_INDEX[name] for name in HELD]] = range(len(HELD))
        column = {
            "x": state.inner.agent_pos[:, 0],
            "y": state.inner.agent_pos[:, 1],
            "orientation": state.inner.agent_dir_idx,
            "inventory": jnp.asarray(held)[state.inner.agent_inv],
        }
        return jnp.stack([column[feature.name].astype(jnp.float32) for feature in self.features], axis=1)

    @property
    def _action_mask(self) -> Bool[Array, "agent action"]:
        return jnp.ones((self.num_agents, self.num_actions), bool)

    def _stack(self, observations: dict[str, Array]) -> UInt8[Array, "agent height width channel"]:
        return jnp.stack([observations[agent] for agent in self.jaxmarl.agents])


def separated_axes(layout: str) -> tuple[bool, bool]:
    """For x and y, whether a wall prevents the agents of a layout from ever having the same value."""
    plan: Any = overcooked_layouts[layout]
    walls = np.zeros((plan["height"], plan["width"]), bool)
    walls.flat[np.asarray(plan["wall_idx"])] = True
    first, second = (reachable(walls, int(cell)) for cell in np.asarray(plan["agent_idx"]))
    return apart(first, second)
