"""OvercookedV2: cooks who do not all know the recipe."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cooptions.envs.adapters.base import AbstractAdapter, Tile
from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.envs.rooms import apart, reachable
from cooptions.errors import require, require_whole
from cooptions.types import Feature

with quiet_import():
    from jaxmarl.environments.overcooked_v2.common import DynamicObject, OvercookedActionsEnum, StaticObject
    from jaxmarl.environments.overcooked_v2.layouts import overcooked_v2_layouts
    from jaxmarl.environments.overcooked_v2.overcooked import OvercookedV2 as JaxMARLOvercookedV2

ACTION_NAMES = ("x+1", "y+1", "x-1", "y-1", "stay", "interact")
"""The names of the actions in JaxMARL's order: right, down, left, up, stay, interact."""


@FAMILIES.register("overcooked_v2")
@dataclass(frozen=True)
class OvercookedV2(AbstractScenario):
    """Cooks deliver what the recipe asks for, which not all of them can see (OvercookedV2, JaxMARL).

    An agent's state is its position, orientation and inventory, without a coordinate along which a wall separates the
    agents. The team receives 20 for a correct delivery.
    """

    pattern: ClassVar[str] = (
        r"(?P<layout>cramped_room|asymm_advantages|coord_ring|forced_coord|counter_circuit|cramped_room_v2"
        r"|asymm_advantages_recipes_center|asymm_advantages_recipes_right|asymm_advantages_recipes_left|two_rooms"
        r"|two_rooms_both|long_room|fun_coordination|more_fun_coordination|fun_symmetries|fun_symmetries_plates"
        r"|fun_symmetries1|grounded_coord_simple|grounded_coord_ring|test_time_simple|test_time_wide"
        r"|demo_cook_simple|demo_cook_wide)"
    )
    form: ClassVar[str] = "overcooked_v2-LAYOUT"
    examples: ClassVar[tuple[str, ...]] = (
        "overcooked_v2-cramped_room_v2",
        "overcooked_v2-grounded_coord_simple",
        "overcooked_v2-grounded_coord_ring",
        "overcooked_v2-test_time_wide",
        "overcooked_v2-demo_cook_simple",
    )

    layout: str = "cramped_room_v2"
    view: int = 0
    """The distance in cells up to which an agent sees; 0 is the whole kitchen."""
    shaping_horizon: int = 10_000_000
    """Steps of training over which the shaped rewards fade; 0 is off."""
    time_limit: int = 400

    def adapt(self) -> AbstractAdapter:
        require(self.layout in overcooked_v2_layouts, f"layout: there is no {self.layout!r} in the installed JaxMARL")
        require_whole("view", self.view, at_least=0, at_most=100)
        require_whole("shaping_horizon", self.shaping_horizon, at_least=0)
        require_whole("time_limit", self.time_limit)
        plan = overcooked_v2_layouts[self.layout]
        features = _features(plan)
        return FromJaxMARL(
            JaxMARLOvercookedV2(plan, max_steps=self.time_limit, agent_view_size=self.view or None),
            features=features,
            factorise=lambda state: _agent_states(state.agents, features, plan.num_ingredients),
            noop=int(OvercookedActionsEnum.stay),
            action_names=ACTION_NAMES,
            ground=f"overcooked_v2 {self.layout}",
            shaping_horizon=self.shaping_horizon,
            ends_by_time_limit=True,
            **_pictures(features),
        )


def _features(plan: Any) -> tuple[Feature, ...]:
    walls = plan.static_objects != StaticObject.EMPTY
    starts = [y * plan.width + x for x, y in plan.agent_positions]
    separated = apart(*(reachable(walls, start) for start in starts)) if len(starts) == 2 else (False, False)
    place = Feature.coordinate("x", plan.width), Feature.coordinate("y", plan.height)
    return (
        *(axis for axis, is_apart in zip(place, separated, strict=True) if not is_apart),
        Feature.categorical("orientation", 4),
        Feature.categorical("inventory", 3 + plan.num_ingredients),
    )


def _agent_states(agents: Any, features: tuple[Feature, ...], num_ingredients: int) -> Float[Array, "agent feature"]:
    column = {
        "x": agents.pos.x,
        "y": agents.pos.y,
        "orientation": agents.dir,
        "inventory": held(agents.inventory, num_ingredients),
    }
    return jnp.stack([column[feature.name].astype(jnp.float32) for feature in features], axis=1)


def held(inventory: Int[Array, " agent"], num_ingredients: int) -> Int[Array, " agent"]:
    """The item that each agent carries: 0 nothing, 1 a plate, 2 a dish, 3 or more an ingredient."""
    ingredients = jnp.array([DynamicObject.ingredient(number) for number in range(num_ingredients)])
    raw = jnp.argmax(inventory[:, None] == ingredients, axis=1) + 3
    cooked = (inventory & DynamicObject.COOKED) != 0
    return jnp.select([inventory == DynamicObject.EMPTY, cooked, inventory == DynamicObject.PLATE], [0, 2, 1], raw)


def _pictures(features: tuple[Feature, ...]) -> dict[str, Any]:
    """The arguments that draw the kitchen as a map, if the agents' states have both coordinates."""
    if [feature.name for feature in features[:2]] != ["x", "y"]:
        return {}
    kinds = np.full(StaticObject.INGREDIENT_PILE_BASE + 10, Tile.MARK, np.int32)
    kinds[[StaticObject.EMPTY, StaticObject.WALL, StaticObject.GOAL]] = Tile.FREE, Tile.WALL, Tile.GOAL
    return {"tiles": lambda state: jnp.asarray(kinds)[state.grid[..., 0]], "axes": (1, 0)}
