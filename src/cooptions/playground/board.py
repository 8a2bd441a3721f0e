"""The board on which a team is drawn: its cells, and the states of an agent that they stand for."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from cooptions.envs.base import AbstractEnv, require_on_axes
from cooptions.errors import require
from cooptions.plots.frames import Floor, floor, limits, num_cells
from cooptions.types import Feature


@dataclass(frozen=True, eq=False)
class Board:
    """Rows and columns of cells, and the features of an agent's state that they stand for."""

    features: tuple[Feature, ...]
    agent_features: Bool[np.ndarray, "agent feature"]
    floor: Floor
    has_column: bool
    """Whether a second feature runs along the columns. Otherwise there is one column."""

    @classmethod
    def of(cls, env: AbstractEnv) -> "Board":
        """The board of an environment: its floor, or without one its first two features."""
        known = floor(env)
        if known is not None:
            return cls(env.features, env.agent_features, known, True)
        sizes = [num_cells(feature) for feature in env.features[:2]]
        has_column = len(sizes) > 1
        walls = np.zeros(sizes if has_column else (sizes[0], 1), bool)
        return cls(env.features, env.agent_features, Floor(row=0, column=1, walls=walls), has_column)

    @property
    def num_agents(self) -> int:
        return len(self.agent_features)

    @property
    def axes(self) -> tuple[int, ...]:
        """The indices of the features along the rows and the columns."""
        return (self.floor.row, self.floor.column) if self.has_column else (self.floor.row,)

    @cached_property
    def cells(self) -> Int[np.ndarray, "cell 2"]:
        """Row and column of every cell without a wall."""
        return np.argwhere(~self.floor.walls)

    @cached_property
    def values(self) -> Float[np.ndarray, "cell axis"]:
        """The values of the board's features at the centre of every cell."""
        columns = []
        for axis, index in enumerate(self.axes):
            low, high = limits(self.features[index])
            columns.append(low + (self.cells[:, axis] + 0.5) * (high - low) / self.floor.walls.shape[axis])
        return np.stack(columns, axis=1)

    def sweep(
        self, agent_states: Float[np.ndarray, "agent feature"], agent: int
    ) -> Float[np.ndarray, "cell agent feature"]:
        """The joint states as one agent moves over all cells and the others keep their states."""
        joint = np.repeat(agent_states[None].astype(np.float32), len(self.cells), axis=0)
        for axis, index in enumerate(self.axes):
            joint[:, agent, index] = self.values[:, axis] * self.agent_features[agent, index]
        return joint

    def random_states(self, num: int, rng: np.random.Generator) -> Float[np.ndarray, "state agent feature"]:
        """Random joint states with all agents in cells without walls."""
        shape = num, self.num_agents
        columns = [
            rng.integers(0, feature.size, shape) if feature.discrete else rng.uniform(feature.low, feature.high, shape)
            for feature in self.features
        ]
        joint = np.stack(columns, axis=-1).astype(np.float32)
        joint[..., list(self.axes)] = self.values[rng.integers(0, len(self.cells), shape)]
        return joint * self.agent_features

    def spread(self, maps: Float[np.ndarray, "cell k"]) -> Float[np.ndarray, "k row column"]:
        """Values of the cells as maps. Walls are NaN."""
        whole = np.full((maps.shape[1], *self.floor.walls.shape), np.nan, np.float32)
        whole[:, self.cells[:, 0], self.cells[:, 1]] = maps.T
        return whole

    def check(self, agent_states: Float[np.ndarray, "agent feature"]) -> None:
        """Raise `ConfigError` for impossible states, for example off the board or in a wall."""
        require_on_axes(self.features, agent_states)
        for agent, row in enumerate(agent_states):
            lacking = row[~self.agent_features[agent]]
            require(not lacking.any(), f"agent {agent + 1} lacks a feature; its value must be 0")
            if self.agent_features[agent, list(self.axes)].all():
                cell = tuple(int(np.rint(place)) for place in self.place(row))
                require(not self.floor.walls[cell], f"agent {agent + 1}: row {cell[0]}, column {cell[1]} is no floor")

    def place(self, agent_state: Float[np.ndarray, " feature"]) -> list[float]:
        """Row and column of a single-agent state, clipped to the board."""
        found = []
        for axis, index in enumerate(self.axes):
            low, high = limits(self.features[index])
            size = self.floor.walls.shape[axis]
            place = (float(agent_state[index]) - low) / (high - low) * size - 0.5
            found.append(float(np.clip(place, 0, size - 1)))
        return found if self.has_column else [*found, 0.0]

    def describe(self) -> dict[str, Any]:
        """The data with which the page draws the board and converts places to states."""
        return {
            "walls": self.floor.walls.astype(int).tolist(),
            "axes": list(self.axes),
            "limits": [list(limits(feature)) for feature in self.features],
            "agent_features": self.agent_features.tolist(),
        }
