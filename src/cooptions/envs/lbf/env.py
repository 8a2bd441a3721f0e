"""Level-Based Foraging: agents with different levels gather around apples and load them together."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import FAMILIES, AbstractEnv, require_apart, require_on_axes
from cooptions.envs.grid import MOVE_NAMES, OPEN
from cooptions.envs.lbf.generator import draw_places
from cooptions.envs.lbf.rules import (
    REACH_CELLS,
    RULE_SETS,
    Coop,
    Mask,
    Reach,
    Rules,
    RuleSet,
    required_level,
    within_reach,
)
from cooptions.errors import ConfigError, require, require_whole
from cooptions.types import Feature, TimeStep, restart

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])
"""The change of position of each action: stay, up and down (x, the row), left and right (y), load."""
LOAD = 5
LARGEST_GRID = 1000
"""The maximum number of cells per side."""
HIGHEST_LEVEL = 1000


class State(eqx.Module):
    """Positions and levels of agents and apples, which apples are eaten, and the number of steps taken."""

    position: Int[Array, "agent 2"]
    level: Int[Array, " agent"]
    apple_position: Int[Array, "apple 2"]
    apple_level: Int[Array, " apple"]
    eaten: Bool[Array, " apple"]
    step_count: Int[Array, ""]


@FAMILIES.register("lbf")
@dataclass(frozen=True)
class Foraging(AbstractEnv[State]):
    """Agents load apples together; the sum of their levels must reach the apple's level.

    N is the sight, G the grid's side, P the number of agents, F the number of apples. `rules` names a complete rule set
    (`cooptions.envs.lbf.rules`). Each single rule that is not None replaces the one in the set. `applied` holds the
    resulting rules.
    """

    pattern: ClassVar[str] = (
        r"(?:(?P<sight>\d+)s-)?(?P<grid_size>\d+)x(?P=grid_size)-(?P<num_agents>\d+)p-(?P<num_apples>\d+)f"
    )
    form: ClassVar[str] = "lbf-[Ns-]GxG-Pp-Ff"
    examples: ClassVar[tuple[str, ...]] = (
        "lbf-15x15-4p-3f",
        "lbf-15x15-4p-5f",
        "lbf-15x15-3p-5f",
        "lbf-15x15-4p-3f,rules=jumanji",
        "lbf-8x8-2p-2f",
    )

    grid_size: int = 15
    num_agents: int = 4
    num_apples: int = 3
    rules: RuleSet = "paper"
    """`paper`, or `jumanji` for the public rules."""
    sight: int | None = None
    """The distance in cells up to which an agent sees apples. It always sees its teammates (paper, Section 4)."""
    reach: Reach | None = None
    """The cells from which an agent can load an apple: `corner` (all eight around it) or `side` (four of them)."""
    coop: Coop | None = None
    """An apple's level: the sum of all agents' levels (`all`), of the lowest ones (`three_lowest`, `two_lowest`), or
    random up to the sum of the three lowest (`none`)."""
    knows_place: bool | None = None
    """Whether an agent knows its position. If not, it only knows its distance to the edges that it sees."""
    mask: Mask | None = None
    """When loading is available: within `reach` of an apple, beside one of its four sides (`side`), or always
    (`moves`). `none` makes every action always available."""
    max_level: int = 2
    time_limit: int = 100

    def __post_init__(self) -> None:
        for name in ("num_agents", "num_apples", "time_limit"):
            require_whole(name, getattr(self, name))
        require_whole("max_level", self.max_level, at_least=2, at_most=HIGHEST_LEVEL)
        for name, kind in (("rules", RuleSet), ("reach", Reach), ("coop", Coop), ("mask", Mask)):
            value, allowed = getattr(self, name), get_args(kind)
            given = value is not None or name == "rules"
            require(not given or value in allowed, f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        require(
            self.sight is None or 1 <= self.sight <= self.grid_size,
            f"sight must be 1 to grid_size ({self.grid_size}), not {self.sight}",
        )
        require(self.grid_size <= LARGEST_GRID, f"grid_size must be at most {LARGEST_GRID}, not {self.grid_size}")
        cells = max(self.grid_size - 2, 0) ** 2
        require(
            self.grid_size >= 5 and cells - self.num_agents > 5 * self.num_apples,
            f"grid_size {self.grid_size} is too small for {self.num_apples} apples and {self.num_agents} agents: "
            f"its {cells} inner cells must exceed 5 x apples + agents",
        )
        places = REACH_CELLS[self.applied.reach]
        require(
            self.applied.coop != "all" or self.num_agents <= places,
            f"coop=all needs all {self.num_agents} agents around one apple, but reach={self.applied.reach} has "
            f"{places} cells; give fewer agents, coop=three_lowest or another reach",
        )

    @cached_property
    def applied(self) -> Rules:
        """The rules in effect: those of the set, with the single rules that are given."""
        names = ("sight", "reach", "coop", "knows_place", "mask")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        rules = dataclasses.replace(RULE_SETS[self.rules], **given)
        return dataclasses.replace(rules, sight=rules.sight or self.grid_size)

    @property
    def task_rules(self) -> dict[str, bool | int | str]:
        return dataclasses.asdict(self.applied)

    @property
    def num_actions(self) -> int:
        return len(MOVES)

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

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        place_key, level_key, apple_key = jax.random.split(key, 3)
        agents, apples = draw_places(
            place_key, grid_size=self.grid_size, num_agents=self.num_agents, num_apples=self.num_apples
        )
        level = jax.random.randint(level_key, (self.num_agents,), 1, self.max_level + 1)
        return self.begin(agents, level, apples, self.draw_apple_levels(level, key=apple_key))

    def reset_to(self, agent_states: Float[np.ndarray, "agent feature"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        require_on_axes(self.features, agent_states)
        position, (drawn, _) = agent_states.astype(np.int32), self.reset(key)
        require_apart(position)
        on_apple = (position[:, None] == np.asarray(drawn.apple_position)).all(axis=-1).any(axis=1)
        for agent in np.flatnonzero(on_apple):
            raise ConfigError(f"agent {agent + 1} stands on an apple, which no agent can")
        return self.begin(jnp.asarray(position), drawn.level, drawn.apple_position, drawn.apple_level)

    def begin(
        self,
        position: Int[Array, "agent 2"],
        level: Int[Array, " agent"],
        apple_position: Int[Array, "apple 2"],
        apple_level: Int[Array, " apple"],
    ) -> tuple[State, TimeStep]:
        """Start an episode with these agents and apples."""
        eaten = jnp.zeros(self.num_apples, bool)
        state = State(position, level, apple_position, apple_level, eaten, jnp.int32(0))
        return state, restart(self.observe(state), self.action_mask(state), len(self.score_names))

    def draw_apple_levels(self, level: Int[Array, " agent"], *, key: PRNGKeyArray) -> Int[Array, " apple"]:
        highest = required_level(self.applied.coop, level)
        if self.applied.coop == "none":
            return jax.random.randint(key, (self.num_apples,), 1, highest + 1)
        return jnp.full(self.num_apples, highest)

    def step(self, state: State, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        """Move, then load. The reward is the sum of the levels of apples eaten now, divided by that of all apples."""
        moved = dataclasses.replace(state, position=self._move(state, action))
        loads = self.reachable(moved) & (action == LOAD)[:, None]
        loaded = jnp.sum(loads * state.level[:, None], axis=0)
        eaten_now = loads.any(axis=0) & (loaded >= state.apple_level)
        state = dataclasses.replace(moved, eaten=state.eaten | eaten_now, step_count=state.step_count + 1)
        done = state.eaten.all()
        return state, TimeStep(
            observation=self.observe(state),
            action_mask=self.action_mask(state),
            reward=jnp.sum(eaten_now * state.apple_level) / jnp.sum(state.apple_level),
            discount=1.0 - done,
            last=done | (state.step_count >= self.time_limit),
            score=100.0 * state.eaten.mean(keepdims=True),
        )

    def agent_states(self, state: State) -> Float[Array, "agent feature"]:
        return state.position.astype(jnp.float32)

    def signals(self, state: State) -> Bool[Array, " agent"]:
        """The flag that every agent observes of its teammates."""
        return (self.visible(state) if self.applied.flag == "sees" else self.reachable(state)).any(axis=1)

    def action_mask(self, state: State) -> Bool[Array, "agent action"]:
        """The available actions, by the rule `mask`: moves to free cells, and loading near an apple."""
        mask = self.applied.mask
        if mask == "none":
            return jnp.ones((self.num_agents, self.num_actions), bool)
        free = self._free(state, state.position[:, None] + MOVES)
        if mask == "moves":
            return free.at[:, LOAD].set(True)
        near = within_reach("side", _from_agents(state)) & ~state.eaten if mask == "side" else self.reachable(state)
        return free.at[:, LOAD].set(near.any(axis=1))

    def reachable(self, state: State) -> Bool[Array, "agent apple"]:
        """Which agents have which apples within reach."""
        return within_reach(self.applied.reach, _from_agents(state)) & ~state.eaten

    def visible(self, state: State) -> Bool[Array, "agent apple"]:
        """Which agents see which apples."""
        return jnp.all(jnp.abs(_from_agents(state)) <= self.applied.sight, axis=-1) & ~state.eaten

    def observe(self, state: State) -> Float[Array, "agent observation"]:
        """Each agent's position, level and flag, then each teammate's, then each apple, all within [-1, 1].

        The own position is that on the grid, or, if agents do not know their place, that within the part of their field
        of view on the grid: the distance to the upper and left edge, as far as the agent sees. A teammate is (relative
        position, level, flag) and always visible. An apple is (relative position, level, presence), all 0 if it is
        eaten or out of sight.
        """
        scale, visible = self.grid_size - 1, self.visible(state)
        window = scale if self.applied.knows_place else min(self.applied.sight, scale)
        own = 2 * jnp.minimum(state.position, window) / window - 1
        traits = jnp.stack([state.level / self.max_level, self.signals(state)], axis=1)
        to_agent = (state.position[None] - state.position[:, None]) / scale
        to_mates = jnp.concatenate([to_agent, jnp.broadcast_to(traits, (self.num_agents, self.num_agents, 2))], axis=2)
        levels = jnp.broadcast_to(state.apple_level / (self.max_level * self.num_agents), visible.shape)
        apples = jnp.stack([levels, jnp.ones_like(levels)], axis=2)
        apples = jnp.concatenate([_from_agents(state) / scale, apples], axis=2)
        apples = jnp.where(visible[..., None], apples, 0.0)
        rows = (own, traits, _drop_own(to_mates).reshape(self.num_agents, -1), apples.reshape(self.num_agents, -1))
        return jnp.concatenate(rows, axis=1)

    def _move(self, state: State, action: Int[Array, " agent"]) -> Int[Array, "agent 2"]:
        """The positions after moving to free cells. Agents that would share a cell stay."""
        target = state.position + jnp.asarray(MOVES)[action]
        free = self._free(state, target[:, None])
        target = jnp.where(free, target, state.position)
        meets = _same(target[:, None], target) & ~np.eye(self.num_agents, dtype=bool)
        return jnp.where(meets.any(axis=1, keepdims=True), state.position, target)

    def _free(self, state: State, cells: Int[Array, "agent cell 2"]) -> Bool[Array, "agent cell"]:
        """Whether cells are on the grid and have neither an apple nor another agent."""
        inside = jnp.all((cells >= 0) & (cells < self.grid_size), axis=-1)
        apple = jnp.any(_same(cells[:, :, None], state.apple_position) & ~state.eaten, axis=-1)
        others = ~np.eye(self.num_agents, dtype=bool)[:, None]
        return inside & ~apple & ~jnp.any(_same(cells[:, :, None], state.position) & others, axis=-1)


def _from_agents(state: State) -> Int[Array, "agent apple 2"]:
    """The offset of each apple from each agent."""
    return state.apple_position[None] - state.position[:, None]


def _same(left: Int[Array, "*left 2"], right: Int[Array, "*right 2"]) -> Bool[Array, "*both"]:
    """Whether cells are equal, with broadcasting."""
    return jnp.all(left == right, axis=-1)


def _drop_own(table: Float[Array, "agent agent column"]) -> Float[Array, "agent mate column"]:
    """The table without its diagonal: each agent's entries for the others, in the order of the team."""
    num = table.shape[0]
    others = jnp.array([[mate for mate in range(num) if mate != agent] for agent in range(num)], int)
    return table[jnp.arange(num)[:, None], others.reshape(num, num - 1)]
