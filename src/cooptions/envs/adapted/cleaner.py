"""Cleaner: agents clean the floor of a maze."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from jumanji.environments import Cleaner as JumanjiCleaner
from jumanji.environments.routing.cleaner.constants import CLEAN, DIRTY, MOVES, WALL
from jumanji.environments.routing.cleaner.generator import RandomGenerator
from jumanji.specs import MultiDiscreteArray

from cooptions.envs.adapters.base import AbstractAdapter, Tile
from cooptions.envs.adapters.jumanji import FromJumanji
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.errors import require_whole
from cooptions.types import Feature

STAY = len(MOVES)


class PatientCleaner(JumanjiCleaner):
    """Jumanji's environment with an additional action that stands still, which options need."""

    @property
    def action_spec(self) -> MultiDiscreteArray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return MultiDiscreteArray(jnp.full(self.num_agents, STAY + 1, jnp.int32), name="action_spec")

    def _compute_action_mask(self, grid: Array, agents_locations: Array) -> Bool[Array, "agent action"]:
        moves = super()._compute_action_mask(grid, agents_locations)
        return jnp.concatenate([moves, jnp.ones((self.num_agents, 1), bool)], axis=1)

    def _update_agents_locations(
        self, prev_locations: Array, action: Array, action_is_valid: Array
    ) -> Int[Array, "agent 2"]:
        moves = jnp.concatenate([MOVES, jnp.zeros((1, 2), MOVES.dtype)])
        return prev_locations + jnp.where(action_is_valid[:, None], moves[action], 0)


@FAMILIES.register("cleaner")
@dataclass(frozen=True)
class Cleaner(AbstractScenario):
    """Agents clean every cell of a maze, a new one each episode (Cleaner, Jumanji).

    The team receives 1 for each cell that it cleans, and -0.5 per step. All agents start in one corner.
    """

    pattern: ClassVar[str] = r"(?P<grid_size>\d+)x(?P=grid_size)-(?P<num_agents>\d+)p"
    form: ClassVar[str] = "cleaner-GxG-Pp"
    examples: ClassVar[tuple[str, ...]] = ("cleaner-10x10-3p", "cleaner-6x6-2p")

    grid_size: int = 10
    num_agents: int = 3
    time_limit: int = 100

    def adapt(self) -> AbstractAdapter:
        require_whole("grid_size", self.grid_size, at_least=3, at_most=100)
        require_whole("num_agents", self.num_agents, at_least=2, at_most=20)
        require_whole("time_limit", self.time_limit)
        generator = RandomGenerator(self.grid_size, self.grid_size, self.num_agents)
        return FromJumanji(
            PatientCleaner(generator, time_limit=self.time_limit),
            features=(Feature.coordinate("row", self.grid_size), Feature.coordinate("column", self.grid_size)),
            factorise=lambda state: state.agents_locations,
            noop=STAY,
            action_names=("row-1", "column+1", "row+1", "column-1", "stay"),
            ground="a maze of Cleaner",
            observe=_observe,
            score=lambda state: 100.0 * (state.grid == CLEAN).sum() / (state.grid != WALL).sum(),
            score_names=("percent_clean",),
            timed_out=lambda state: (state.grid == DIRTY).any(),
            tiles=_tiles,
        )


def _observe(observation: Any) -> Float[Array, "agent row column channel"]:
    """Channels for walls, dirt, the agent's own position and its teammates' positions."""
    places, num = observation.agents_locations, len(observation.agents_locations)
    own = jnp.zeros((num, *observation.grid.shape)).at[jnp.arange(num), places[:, 0], places[:, 1]].set(1.0)
    shared = [jnp.broadcast_to(observation.grid == kind, own.shape) for kind in (WALL, DIRTY)]
    return jnp.stack([*shared, own, own.sum(axis=0) - own], axis=-1).astype(jnp.float32)


def _tiles(state: Any) -> Int[Array, "row column"]:
    kinds = np.array([Tile.MARK, Tile.FREE, Tile.WALL], np.int32)  # dirty, clean, wall
    return jnp.asarray(kinds)[state.grid]
