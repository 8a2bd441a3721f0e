"""Connector: agents draw wires that must not cross."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from jumanji.environments import Connector as JumanjiConnector
from jumanji.environments.routing.connector.constants import EMPTY, PATH, POSITION, TARGET
from jumanji.environments.routing.connector.generator import RandomWalkGenerator

from cooptions.envs.adapters.base import AbstractAdapter, Tile
from cooptions.envs.adapters.jumanji import FromJumanji
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.errors import require, require_whole
from cooptions.types import Feature

NUM_KINDS = 3
"""The kinds of cells per agent: trail, position, target. They are 1, 2, 3 for the first agent, 4, 5, 6 for the next."""


@FAMILIES.register("connector")
@dataclass(frozen=True)
class Connector(AbstractScenario):
    """Agents walk to a target each, and nobody can cross the trail of another (Connector, Jumanji).

    An agent receives 1 when it arrives, and -0.03 per step until then.
    """

    pattern: ClassVar[str] = r"(?P<grid_size>\d+)x(?P=grid_size)-(?P<num_agents>\d+)p"
    form: ClassVar[str] = "connector-GxG-Pp"
    examples: ClassVar[tuple[str, ...]] = ("connector-10x10-5p", "connector-6x6-3p")

    grid_size: int = 10
    num_agents: int = 5
    time_limit: int = 50

    def adapt(self) -> AbstractAdapter:
        require_whole("grid_size", self.grid_size, at_least=3, at_most=100)
        require_whole("num_agents", self.num_agents, at_least=2, at_most=20)
        require_whole("time_limit", self.time_limit)
        most = self.grid_size**2 // 5
        require(self.num_agents <= most, f"num_agents must be at most {most} on this grid, not {self.num_agents}")
        return FromJumanji(
            JumanjiConnector(RandomWalkGenerator(self.grid_size, self.num_agents), time_limit=self.time_limit),
            features=(Feature.coordinate("row", self.grid_size), Feature.coordinate("column", self.grid_size)),
            factorise=lambda state: state.agents.position,
            action_names=("stay", "row-1", "column+1", "row+1", "column-1"),
            ground="Connector",
            observe=lambda observation: _observe(observation.grid, self.num_agents),
            score=lambda state: 100.0 * state.agents.connected.mean(),
            score_names=("percent_connected",),
            landmarks=lambda state: state.agents.target,
            tiles=_tiles,
        )


def _observe(grid: Int[Array, "row column"], num_agents: int) -> Float[Array, "agent row column channel"]:
    """Channels for the agent's own trail, position and target, then for its teammates'."""
    kinds = np.array([PATH, POSITION, TARGET])
    own = grid[None, ..., None] == kinds + NUM_KINDS * np.arange(num_agents)[:, None, None, None]
    any_of = own.any(axis=0)
    return jnp.concatenate([own, any_of & ~own], axis=-1).astype(jnp.float32)


def _tiles(state: Any) -> Int[Array, "row column"]:
    """The map, in which trails are marked because no agent can enter them."""
    is_trail = (state.grid != EMPTY) & ((state.grid - PATH) % NUM_KINDS == 0)
    return jnp.where(is_trail, int(Tile.MARK), int(Tile.FREE))
