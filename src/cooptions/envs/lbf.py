"""Level-Based Foraging: Jumanji's dynamics with our start states and our observations."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32
from jumanji.environments.routing.lbf import LevelBasedForaging as JumanjiForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator
from jumanji.environments.routing.lbf.types import Agent, Food, State

from cooptions.envs.base import AbstractEnv
from cooptions.envs.grid import MOVE_NAMES, OPEN
from cooptions.errors import require
from cooptions.types import Feature, TimeStep, restart

Coop = Literal["three_lowest", "sum_all", "none"]


@dataclass(frozen=True)
class Foraging(AbstractEnv[State]):
    """Agents of various levels gather around apples and load them together.

    Scenario `[Ns-]GxG-Pp-Ff`: sight N (the whole grid when left out), grid G, P agents, F apples.
    """

    pattern: ClassVar[str] = (
        r"(?:(?P<sight>\d+)s-)?(?P<grid_size>\d+)x(?P=grid_size)-(?P<num_agents>\d+)p-(?P<num_apples>\d+)f"
    )

    grid_size: int = 15
    num_agents: int = 4
    num_apples: int = 3
    sight: int = 0
    """How far an agent sees apples; 0 means the whole grid. Teammates are always seen (paper, Section 4)."""
    coop: Coop = "three_lowest"
    """An apple's level: the sum of the three lowest agent levels (every public `force_coop`), of all agents'
    levels (the paper's sentence taken literally), or random up to the former."""
    max_level: int = 2
    time_limit: int = 100

    def __post_init__(self) -> None:
        require(self.num_agents >= 1, f"num_agents must be at least 1, not {self.num_agents}")
        require(self.num_apples >= 1, f"num_apples must be at least 1, not {self.num_apples}")
        require(self.sight >= 0, f"sight must be at least 0, not {self.sight}")
        require(self.max_level >= 2, f"max_level must be at least 2, not {self.max_level}")
        require(self.time_limit >= 1, f"time_limit must be at least 1, not {self.time_limit}")
        require(
            self.coop in ("three_lowest", "sum_all", "none"),
            f"coop must be three_lowest, sum_all or none, not {self.coop!r}",
        )
        cells = max(self.grid_size - 2, 0) ** 2
        require(
            self.grid_size >= 5 and cells - self.num_agents > 5 * self.num_apples,
            f"grid_size {self.grid_size} is too small for {self.num_apples} apples and {self.num_agents} agents: "
            f"its {cells} inner cells must exceed 5 x apples + agents",
        )

    @property
    def num_actions(self) -> int:
        return 6

    @property
    def noop(self) -> int:
        return 0

    @property
    def action_names(self) -> tuple[str, ...]:
        return (*MOVE_NAMES, "load")

    @property
    def ground(self) -> str:
        return OPEN

    @property
    def features(self) -> tuple[Feature, ...]:
        return Feature.coordinate("x", self.grid_size), Feature.coordinate("y", self.grid_size)

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("percent_eaten",)

    @cached_property
    def jumanji(self) -> JumanjiForaging:
        """Jumanji's environment, started by our generator: dynamics, action masks and viewer."""
        with jax.ensure_compile_time_eval():  # it computes its specs on construction, perhaps inside our trace
            return JumanjiForaging(generator=Generator(self), time_limit=self.time_limit)

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        state, timestep = self.jumanji.reset(key)
        return state, restart(self.observe(state), timestep.observation.action_mask, num_scores=1)

    def step(self, state: State, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        state, timestep = self.jumanji.step(state, action)
        return state, TimeStep(
            observation=self.observe(state),
            action_mask=timestep.observation.action_mask,
            reward=timestep.reward.sum(),
            discount=timestep.discount[0],
            last=timestep.last(),
            score=timestep.extras["percent_eaten"][None],
        )

    def agent_states(self, state: State) -> Float[Array, "agent feature"]:
        return state.agents.position.astype(jnp.float32)

    def observe(self, state: State) -> Float[Array, "agent observation"]:
        """Own place and level, then each teammate, then each apple, all within [-1, 1].

        A teammate is (relative place, level, whether it stands next to an apple), always known; an apple is
        (relative place, level, presence), all 0 when eaten or out of sight.
        """
        agents, apples = state.agents, state.food_items
        scale = self.grid_size - 1
        own = jnp.concatenate([2 * agents.position / scale - 1, agents.level[:, None] / self.max_level], axis=1)
        to_agent = agents.position[None] - agents.position[:, None]
        to_apple = apples.position[None] - agents.position[:, None]
        near = jnp.any((jnp.abs(to_apple).sum(-1) == 1) & ~apples.eaten, axis=1)
        rows = jnp.broadcast_to(
            jnp.stack([agents.level / self.max_level, near], axis=1)[None], (self.num_agents, self.num_agents, 2)
        )
        mates = _drop_own(jnp.concatenate([to_agent / scale, rows], axis=2))
        sight = self.sight or self.grid_size
        present = jnp.all(jnp.abs(to_apple) <= sight, axis=-1) & ~apples.eaten
        levels = jnp.broadcast_to(apples.level / (self.max_level * self.num_agents), present.shape)
        seen = jnp.concatenate([to_apple / scale, levels[..., None], jnp.ones_like(levels)[..., None]], axis=2)
        seen = seen * present[..., None]
        return jnp.concatenate([own, mates.reshape(self.num_agents, -1), seen.reshape(self.num_agents, -1)], axis=1)


def _drop_own(table: Float[Array, "agent agent column"]) -> Float[Array, "agent mate column"]:
    """Each agent's row of the others, in the order of the team with itself left out."""
    num = table.shape[0]
    others = jnp.array([[mate for mate in range(num) if mate != agent] for agent in range(num)], int)
    return table[jnp.arange(num)[:, None], others.reshape(num, num - 1)]


class Generator(RandomGenerator):
    """Start states for Jumanji's environment: apples apart from each other and off the edge, agents anywhere.

    Each item costs one random number and a few comparisons, so that a reset costs no more than a step.
    """

    def __init__(self, config: Foraging) -> None:
        super().__init__(config.grid_size, config.num_agents, config.num_apples, config.grid_size, config.max_level)
        self.config = config

    def __call__(self, key: PRNGKeyArray) -> State:
        place_key, level_key, apple_key, key = jax.random.split(key, 4)
        draws = jax.random.bits(place_key, (self.num_food + self.num_agents,))
        apples = self._place_apples(draws[: self.num_food])
        agents = self._place_agents(draws[self.num_food :], apples)
        level = jax.random.randint(level_key, (self.num_agents,), 1, self.max_agent_level + 1)
        return State(
            agents=Agent(
                id=jnp.arange(self.num_agents),
                position=_position(agents, self.grid_size),
                level=level,
                loading=jnp.zeros(self.num_agents, bool),
            ),
            food_items=Food(
                id=jnp.arange(self.num_food),
                position=_position(apples, self.grid_size),
                level=self._apple_levels(level, apple_key),
                eaten=jnp.zeros(self.num_food, bool),
            ),
            step_count=jnp.int32(0),
            key=key,
        )

    def _apple_levels(self, level: Int[Array, " agent"], key: PRNGKeyArray) -> Int[Array, " apple"]:
        required = level.sum() if self.config.coop == "sum_all" else jnp.sort(level)[:3].sum()
        if self.config.coop == "none":
            return jax.random.randint(key, (self.num_food,), 1, required + 1)
        return jnp.broadcast_to(required, (self.num_food,))

    def _place_apples(self, draws: UInt32[Array, " apple"]) -> Int[Array, " apple"]:
        """Choose each apple among the inner cells that no earlier apple occupies or touches."""
        inner = self.grid_size - 2
        taken = jnp.zeros(0, jnp.int32)
        cells = []
        for draw in draws:
            cell = _nth_free(draw, taken, inner**2)
            cells.append(cell)
            taken = jnp.concatenate([taken, _with_neighbours(cell, inner)])
        cell = jnp.stack(cells)
        return (cell // inner + 1) * self.grid_size + cell % inner + 1

    def _place_agents(self, draws: UInt32[Array, " agent"], apples: Int[Array, " apple"]) -> Int[Array, " agent"]:
        """Choose each agent among all cells without an apple or an earlier agent.

        `gap` counts the free cells before each taken one; the n-th free cell has as many taken cells before it
        as have a gap of at most n, and once taken, its own gap is n.
        """
        gap = apples - jnp.sum(apples[None] < apples[:, None], axis=1)
        cells = []
        for draw in draws:
            nth = (draw % (self.grid_size**2 - gap.size)).astype(jnp.int32)
            cells.append(nth + jnp.sum(gap <= nth))
            gap = jnp.append(gap - (gap > nth), nth)
        return jnp.stack(cells)


def _nth_free(draw: UInt32[Array, ""], taken: Int[Array, " taken"], num_cells: int) -> Int[Array, ""]:
    """A uniformly drawn one of `num_cells` cells that is not in `taken`.

    `taken` may repeat cells, and holds `num_cells` in place of those that do not exist. With the distinct
    taken cells t_0 < t_1 < ..., the n-th free cell is n + #{i : t_i - i <= n}. Ranks are counted by comparing
    all pairs: no sort, no scan, no noise per cell.
    """
    repeated = jnp.any(jnp.tril(taken[:, None] == taken[None], -1), axis=1)
    taken = jnp.where(repeated, num_cells, taken)
    num_free = num_cells - jnp.sum(taken < num_cells)
    nth = (draw % num_free.astype(jnp.uint32)).astype(jnp.int32)
    rank = jnp.sum(taken[None] < taken[:, None], axis=1)
    return nth + jnp.sum(taken - rank <= nth)


def _with_neighbours(cell: Int[Array, ""], width: int) -> Int[Array, " 5"]:
    """A cell of a square and its four neighbours, width² in place of those outside."""
    row, column = cell // width, cell % width
    rows = row + jnp.array([0, -1, 1, 0, 0])
    columns = column + jnp.array([0, 0, 0, -1, 1])
    inside = (rows >= 0) & (rows < width) & (columns >= 0) & (columns < width)
    return jnp.where(inside, rows * width + columns, width**2)


def _position(cell: Int[Array, " item"], grid_size: int) -> Int[Array, "item 2"]:
    return jnp.stack([cell // grid_size, cell % grid_size], axis=1)
