"""RobotWarehouse: robots bring requested shelves to the goals."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from jumanji.environments import RobotWarehouse as JumanjiRobotWarehouse
from jumanji.environments.routing.robot_warehouse.generator import RandomGenerator

from cooptions.envs.adapters.base import AbstractAdapter, Tile
from cooptions.envs.adapters.jumanji import FromJumanji
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.errors import require, require_whole
from cooptions.types import Feature

Size = Literal["tiny", "small", "medium", "large"]
SHELVES: dict[Size, tuple[int, int]] = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}
"""Rows and columns of shelf clusters (Papoudakis et al., 2021)."""


@FAMILIES.register("rware")
@dataclass(frozen=True)
class RobotWarehouse(AbstractScenario):
    """Robots bring requested shelves to the goals and put them back (RobotWarehouse, Jumanji).

    The team receives 1 for a delivery. A collision of two robots ends the episode.
    """

    pattern: ClassVar[str] = r"(?P<size>tiny|small|medium|large)-(?P<num_agents>\d+)p"
    form: ClassVar[str] = "rware-SIZE-Pp"
    examples: ClassVar[tuple[str, ...]] = ("rware-tiny-2p", "rware-tiny-4p", "rware-small-4p")

    size: Size = "tiny"
    num_agents: int = 2
    requests: int = 0
    """The number of shelves requested at a time; 0 is one for each robot."""
    column_height: int = 8
    time_limit: int = 500

    def adapt(self) -> AbstractAdapter:
        require(self.size in SHELVES, f"size must be one of {', '.join(SHELVES)}, not {self.size!r}")
        require_whole("num_agents", self.num_agents, at_least=2, at_most=20)
        require_whole("column_height", self.column_height, at_least=2, at_most=100)
        require_whole("requests", self.requests, at_least=0)
        require_whole("time_limit", self.time_limit)
        rows, columns = SHELVES[self.size]
        generator = RandomGenerator(
            rows, columns, self.column_height, self.num_agents, 1, self.requests or self.num_agents
        )
        num_shelves = len(generator.shelf_ids)
        require(
            generator.request_queue_size <= num_shelves,
            f"requests must be at most {num_shelves}, the number of shelves, not {generator.request_queue_size}",
        )
        height, width = (self.column_height + 1) * rows + 2, 3 * columns + 1
        return FromJumanji(
            JumanjiRobotWarehouse(generator, time_limit=self.time_limit),
            features=(
                Feature.coordinate("row", height),
                Feature.coordinate("column", width),
                Feature.categorical("direction", 4),
                Feature.categorical("is_carrying", 2),
            ),
            factorise=lambda state: _agent_states(state.agents),
            action_names=("stay", "forward", "turn left", "turn right", "toggle load"),
            ground=f"warehouse of {rows} by {columns} shelves, {self.column_height} high",
            score_names=("deliveries",),
            timed_out=lambda state: state.step_count >= self.time_limit,
            landmarks=_requested,
            tiles=lambda state: _tiles(state, generator.goals),
        )


def _agent_states(agents: Any) -> Int[Array, "agent feature"]:
    return jnp.stack([agents.position.x, agents.position.y, agents.direction, agents.is_carrying], axis=1)


def _requested(state: Any) -> Float[Array, "shelf 2"]:
    """The positions of the requested shelves. Other shelves are NaN, which hides them."""
    place = jnp.stack([state.shelves.position.x, state.shelves.position.y], axis=1).astype(jnp.float32)
    return jnp.where(state.shelves.is_requested[:, None] > 0, place, jnp.nan)


def _tiles(state: Any, goals: Int[Array, "goal 2"]) -> Int[Array, "row column"]:
    floor = jnp.full(state.grid.shape[1:], int(Tile.FREE)).at[goals[:, 1], goals[:, 0]].set(int(Tile.GOAL))
    return floor.at[state.shelves.position.x, state.shelves.position.y].set(int(Tile.MARK))
