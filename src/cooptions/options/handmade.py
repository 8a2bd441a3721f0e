"""Handwritten joint options for agents that move on a grid: what discovery would find at best."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.grid import MOVES
from cooptions.errors import require
from cooptions.options.base import OPTION_SOURCES, AbstractOptions, Option

Place = Float[Array, "agent 2"]
Goal = Callable[[Place, Place, np.ndarray], Place]
"""(agents' positions, their median position, each agent's corner) -> target positions."""

GOALS: dict[str, Goal] = {
    "same x": lambda place, middle, corner: jnp.stack([middle[:, 0], place[:, 1]], axis=1),
    "same y": lambda place, middle, corner: jnp.stack([place[:, 0], middle[:, 1]], axis=1),
    "gather": lambda place, middle, corner: middle,
    "spread": lambda place, middle, corner: jnp.asarray(corner),
}

ENDS = np.array([[0, 0], [1, 1], [0, 1], [1, 0]])
"""The ends of x and y for the first, second, ... agent with that coordinate. The first two take opposite corners."""


class HandmadeOptions(AbstractOptions):
    """The whole team walks to the option's target positions. Each agent takes an available move that brings it nearer.

    It moves along the longer distance first, so that it can avoid a blocked move as long as both coordinates differ. An
    agent without such a move votes to terminate, whether it has arrived or is blocked. The middle is the lower median
    of each coordinate, which does not change while the agents gather there.
    """

    options: tuple[Option, ...] = eqx.field(static=True)
    columns: tuple[int, int] = eqx.field(static=True)
    """The indices of the features x and y."""
    sizes: tuple[int, int] = eqx.field(static=True)
    agent_features: tuple[tuple[bool, bool], ...] = eqx.field(static=True)
    """Whether each agent has an x, and a y."""
    max_steps: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True)

    def roles(self, env: AbstractEnv) -> Bool[np.ndarray, "role agent"]:
        """Agents can take the roles of agents with the same coordinates. The grid must have the same size."""
        sizes = tuple(env.features[column].size for column in self.columns)
        require(sizes == self.sizes, f"options: made for a floor of {self.sizes}, the environment's is {sizes}")
        has = env.agent_features[:, np.array(self.columns)]
        return np.array([(has == np.array(row)).all(axis=1) for row in self.agent_features])

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        place = agent_states[:, np.array(self.columns)]
        middle = jnp.broadcast_to(self._middle(place), place.shape)
        has = np.array(self.agent_features)
        rank = (has.cumsum(axis=0) - 1) % len(ENDS)
        corner = ENDS[rank, np.arange(2)] * (np.array(self.sizes) - 1)
        goals = jnp.stack([GOALS[option.name](place, middle, corner) for option in self.options])
        return towards(goals, place, action_mask, has)

    def _middle(self, place: Place) -> Float[Array, " 2"]:
        """The lower median of each coordinate, over the agents that have it."""
        columns = []
        for axis, has in enumerate(np.array(self.agent_features).T):
            ordered = jnp.sort(place[:, axis][has])
            columns.append(ordered[(ordered.shape[0] - 1) // 2] if has.any() else jnp.float32(0.0))
        return jnp.stack(columns)


def towards(
    goals: Float[Array, "option agent 2"],
    place: Place,
    action_mask: Bool[Array, "agent action"],
    has: Bool[np.ndarray, "agent 2"] | None = None,
) -> Int[Array, "option agent"]:
    """The move of each agent that brings it nearest to its goal, or "terminate" if none brings it nearer.

    An agent waits if an earlier one moves to the same cell. `has` says which coordinates each agent has, by default
    both.
    """
    away = goals[:, :, None] - place[None, :, None] - MOVES
    away = away if has is None else away * has[:, None]
    distance = jnp.where(action_mask[:, : len(MOVES)], (away**2).sum(axis=-1), jnp.inf)
    # Standing still is move 0 and wins ties, so any other best move brings the agent nearer.
    best = jnp.argmin(distance, axis=-1)
    waits = _waits(place[None] + jnp.asarray(MOVES)[best], best != 0)
    return jnp.where(waits, 0, jnp.where(best == 0, action_mask.shape[1], best))


def _waits(target: Float[Array, "option agent 2"], moves: Bool[Array, "option agent"]) -> Bool[Array, "option agent"]:
    """Which agents wait because an earlier agent moves to the same cell. Otherwise, they could block each other."""
    same = jnp.all(target[:, :, None] == target[:, None], axis=-1) & moves[:, :, None] & moves[:, None]
    return jnp.any(jnp.tril(same, -1), axis=-1)


@OPTION_SOURCES.register("handmade")
def handmade_options(
    env: AbstractEnv, names: tuple[str, ...] = tuple(GOALS), *, max_steps: int = 50, epsilon: float = 0.0
) -> HandmadeOptions:
    """Options by name for an environment with coordinates x and y, whose first actions are those of `Grid`.

    These are: stand still, x - 1, x + 1, y - 1, y + 1 (grid and LBF).
    """
    unknown = [name for name in names if name not in GOALS]
    require(not unknown, f"names: unknown {', '.join(unknown)}; there are {', '.join(GOALS)}")
    columns = coordinates(env)
    everyone = (True,) * env.num_agents
    return HandmadeOptions(
        options=tuple(Option(name, everyone, env.num_agents) for name in names),
        columns=columns,
        sizes=(env.features[columns[0]].size, env.features[columns[1]].size),
        agent_features=tuple((bool(row[columns[0]]), bool(row[columns[1]])) for row in env.agent_features),
        max_steps=max_steps,
        epsilon=epsilon,
    )


def coordinates(env: AbstractEnv) -> tuple[int, int]:
    """The indices of the features x and y. Raises `ConfigError` if agents do not move on a grid."""
    found = {feature.name: index for index, feature in enumerate(env.features) if feature.kind == "coordinate"}
    require(
        "x" in found and "y" in found, f"env: {type(env).__name__} needs the coordinates x and y among its features"
    )
    require(
        env.noop == 0 and env.num_actions >= len(MOVES),
        f"env: the first actions of {type(env).__name__} must be to stand still, x - 1, x + 1, y - 1, y + 1",
    )
    return found["x"], found["y"]
