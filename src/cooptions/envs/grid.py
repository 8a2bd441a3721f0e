"""A grid with nothing but the team, so that there is nothing to discover but relations between agents."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import FAMILIES, AbstractEnv, require_apart, require_on_axes
from cooptions.errors import ConfigError, require, require_whole
from cooptions.files import digest
from cooptions.types import Feature, TimeStep, restart

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
"""The moves: stand still, up and down along x (the row, as in the paper and in Jumanji), left and right along y."""
MOVE_NAMES = ("stay", "x-1", "x+1", "y-1", "y+1")
MOST_CELLS = 1_000_000
LARGEST_MAP = 2 * MOST_CELLS
"""The maximum size of a map file in bytes."""
OPEN = "open grid"
"""The ground of a grid without walls."""


class State(eqx.Module):
    """The position of each agent, and the number of steps so far in the episode."""

    position: Int[Array, "agent 2"]
    step_count: Int[Array, ""]


@FAMILIES.register("grid")
@dataclass(frozen=True)
class Grid(AbstractEnv[State]):
    """Agents move on a grid, without a task or with a simple one.

    `types` gives each agent's type as a digit. Type 2 moves along x and y. Type 1 moves only along x, and its state has
    only x (paper, appendix on heterogeneous state spaces). If it is empty, all agents are of type 2.
    """

    pattern: ClassVar[str] = r"(?P<height>\d+)x(?P<width>\d+)-(?P<num_agents>\d+)p"
    form: ClassVar[str] = "grid-HxW-Pp"
    examples: ClassVar[tuple[str, ...]] = (
        "grid-15x15-3p",
        "grid-15x15-4p",
        "grid-15x15-4p,time_limit=400,step_cost=0.01",
        "grid-15x15-3p,map=door",
        "grid-10x10-2p,types=12",
        "grid-15x15-3p,types=122",
        "grid-15x15-4p,task=meet",
        "grid-10x10-4p,task=meet-pairs",
        "grid-10x10-6p,task=meet-groups",
    )

    height: int = 15
    width: int = 15
    num_agents: int = 3
    collisions: bool = False
    """Whether two agents cannot share a cell. Agents that would meet stay where they are."""
    map: str = ""
    """`door` (a wall across the middle with one door), or a text file with one line per row, in which `#` is a wall."""
    types: str = ""
    task: str = ""
    """The condition for a reward of 1, which ends the episode. The task gives no other reward. `meet`: all agents are
    in one cell. `meet-pairs`: each agent shares its cell with exactly one other. `meet-groups`: two groups of equal
    size are in one cell each (4, 6 or 8 agents). Empty: no task."""
    time_limit: int = 100
    step_cost: float = 0.0
    """The cost of a step, subtracted from the team's reward. The paper's options used 0.01, and `time_limit=400`."""

    def __post_init__(self) -> None:
        require(2 <= self.num_agents <= 8, f"num_agents must be 2 to 8, not {self.num_agents}")
        require(self.height >= 1 and self.width >= 1, f"height and width must be positive: {self.height}x{self.width}")
        require(
            self.height * self.width <= MOST_CELLS,
            f"height x width must be at most {MOST_CELLS} cells, not {self.height}x{self.width}",
        )
        require_whole("time_limit", self.time_limit)
        require(0 <= self.step_cost < math.inf, f"step_cost must be 0 or more, not {self.step_cost}")
        require(
            not self.types or (len(self.types) == self.num_agents and set(self.types) <= {"1", "2"}),
            f"types must be a digit 1 or 2 for each of {self.num_agents} agents, not {self.types!r}",
        )
        self._require_task()
        require(not self.task or not (self.collisions or self.types), "task: who is to meet must be able to")
        num_free = int(self.free.sum())
        require(num_free >= self.num_agents, f"map has {num_free} free cells, too few for {self.num_agents} agents")

    def _require_task(self) -> None:
        """Raise `ConfigError` for an unknown task, or one that does not fit the number of agents."""
        sizes = self._group_sizes
        require(self.task in ("", *sizes), f"task must be empty or one of {', '.join(sizes)}, not {self.task!r}")
        group = sizes.get(self.task, self.num_agents)
        require(
            group >= 2 and self.num_agents % group == 0,
            f"task {self.task} is not for {self.num_agents} agents: meet-pairs needs an even number, meet-groups 4, 6 "
            "or 8",
        )

    @property
    def num_actions(self) -> int:
        return len(MOVES)

    @property
    def noop(self) -> int:
        return 0

    @property
    def action_names(self) -> tuple[str, ...]:
        return MOVE_NAMES

    @property
    def ground(self) -> str:
        return OPEN if self.free.all() else f"grid with walls {digest(np.packbits(self.free).tobytes())[:16]}"

    @property
    def features(self) -> tuple[Feature, ...]:
        return Feature.coordinate("x", self.height), Feature.coordinate("y", self.width)

    @property
    def agent_features(self) -> np.ndarray:
        types = self.types or "2" * self.num_agents
        return np.array([[True, kind == "2"] for kind in types])

    @property
    def _group_sizes(self) -> dict[str, int]:
        """The number of agents that must share a cell, by task; 0 if the team cannot be divided accordingly."""
        half = self.num_agents // 2 if self.num_agents % 2 == 0 else 0
        return {"meet": self.num_agents, "meet-pairs": 2, "meet-groups": half}

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("percent_met",) if self.task else ()

    @cached_property
    def free(self) -> np.ndarray:
        """Bool[height, width]: the cells without a wall."""
        free = np.ones((self.height, self.width), bool)
        if self.map == "door":
            free[:, self.width // 2] = False
            free[self.height // 2, self.width // 2] = True
        elif self.map:
            free = _read_map(Path(self.map), free.shape)
        return free

    @property
    def files(self) -> tuple[Path, ...]:
        return (Path(self.map),) if self.map not in ("", "door") else ()

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        cells = jnp.argwhere(self.free, size=int(self.free.sum()))
        start = jax.random.choice(key, cells, (self.num_agents,), replace=not self.collisions)
        state = self.place(start)
        return state, restart(self.observe(state), self.action_mask(state), len(self.score_names))

    def place(self, position: Int[Array, "agent 2"]) -> State:
        """The state at the start of an episode with the agents at these positions."""
        return State(position, jnp.int32(0))

    def reset_to(self, agent_states: Float[np.ndarray, "agent feature"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        require_on_axes(self.features, agent_states)
        drawn, _ = self.reset(key)
        position = np.where(self.agent_features, agent_states, drawn.position).astype(np.int32)
        for agent, (x, y) in enumerate(position.tolist()):
            require(bool(self.free[x, y]), f"agent {agent + 1}: there is a wall at x {x}, y {y}")
        if self.collisions:
            require_apart(position)
        state = self.place(jnp.asarray(position))
        return state, restart(self.observe(state), self.action_mask(state), len(self.score_names))

    def step(self, state: State, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        target = state.position + jnp.asarray(MOVES)[action]
        allowed = jnp.take_along_axis(self.action_mask(state), action[:, None], axis=1)
        position = jnp.where(allowed, target, state.position)
        if self.collisions:
            position = jnp.where((_together(position) > 1)[:, None], state.position, position)
        state = State(position, state.step_count + 1)
        met = jnp.float32(jnp.all(_together(position) == self._group_sizes[self.task]) if self.task else 0.0)
        return state, TimeStep(
            observation=self.observe(state),
            action_mask=self.action_mask(state),
            reward=met - self.step_cost,
            discount=1.0 - met,
            last=(met > 0) | (state.step_count >= self.time_limit),
            score=jnp.full(len(self.score_names), 100.0 * met),
        )

    def agent_states(self, state: State) -> Float[Array, "agent feature"]:
        return jnp.where(self.agent_features, state.position, 0).astype(jnp.float32)

    def action_mask(self, state: State) -> Bool[Array, "agent action"]:
        """A move is available if it stays on the grid, hits no wall or teammate, and suits the agent's type."""
        target = state.position[:, None] + jnp.asarray(MOVES)
        walkable = jnp.pad(self.free, 1)[target[..., 0] + 1, target[..., 1] + 1]
        along_y = MOVES[:, 1] != 0
        mask = walkable & (self.agent_features[:, 1:] | ~along_y)
        if self.collisions:
            meets = jnp.all(target[:, :, None] == state.position, axis=-1)
            mask &= ~jnp.any(meets & ~jnp.eye(self.num_agents, dtype=bool)[:, None], axis=-1)
        return mask

    def observe(self, state: State) -> Float[Array, "agent observation"]:
        """Each agent's own position, and its teammates' relative to it, in [-1, 1]. Padded features are 0.

        An agent also observes features of its teammates that it lacks itself. Otherwise it could not tell when they are
        done.
        """
        scale = np.maximum([self.height - 1, self.width - 1], 1)
        has = jnp.asarray(self.agent_features)
        own = jnp.where(has, 2 * state.position / scale - 1, 0.0)
        place = jnp.where(has, state.position, 0)
        relative = jnp.where(has[None], (place[None] - place[:, None]) / scale, 0.0)
        others = np.array([[j for j in range(self.num_agents) if j != i] for i in range(self.num_agents)])
        mates = relative[np.arange(self.num_agents)[:, None], others]
        return jnp.concatenate([own, mates.reshape(self.num_agents, -1)], axis=1)


def _together(position: Int[Array, "agent 2"]) -> Int[Array, " agent"]:
    """The number of agents in each agent's cell, including itself."""
    return jnp.all(position[:, None] == position[None], axis=-1).sum(axis=1)


def _read_map(path: Path, shape: tuple[int, int]) -> np.ndarray:
    require(path.is_file(), f"map: {path} is not a file; give a text file with one line a row")
    size = path.stat().st_size
    require(size <= LARGEST_MAP, f"map: {path} has {size} bytes; a map has at most {LARGEST_MAP}")
    try:
        rows = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"map: cannot read {path}: {error}") from None
    lengths = {len(row) for row in rows}
    require(
        len(rows) == shape[0] and lengths == {shape[1]},
        f"map: {path} has {len(rows)} rows of length {sorted(lengths)}, expected {shape[0]} of {shape[1]}",
    )
    return np.array([[cell != "#" for cell in row] for row in rows])
