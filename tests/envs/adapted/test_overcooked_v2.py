import jax
import jax.numpy as jnp
import pytest
from jaxmarl.environments.overcooked_v2.common import DynamicObject, OvercookedActionsEnum
from jaxmarl.environments.overcooked_v2.layouts import overcooked_v2_layouts

from cooptions.envs.adapted.overcooked_v2 import ACTION_NAMES, OvercookedV2, _features, held
from cooptions.envs.names import families

PLATE, COOKED = DynamicObject.PLATE, DynamicObject.COOKED
ONION, TOMATO = DynamicObject.ingredient(0), DynamicObject.ingredient(1)


def test_the_name_knows_every_layout():
    assert families()["overcooked_v2"].spelled_out == tuple(f"overcooked_v2-{name}" for name in overcooked_v2_layouts)


def test_inventory_values():
    carried = [0, PLATE, PLATE | COOKED | 3 * ONION, PLATE | COOKED | (ONION + 2 * TOMATO), ONION, TOMATO]
    assert held(jnp.array(carried), 2).tolist() == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("layout", "features"),
    [
        ("cramped_room", "x5 y4 orientation4 inventory4"),
        ("test_time_wide", "x6 orientation4 inventory7"),
        ("grounded_coord_simple", "y5 orientation4 inventory6"),
    ],
)
def test_coordinates_that_a_wall_keeps_apart_are_left_out(layout, features):
    assert " ".join(f"{each.name}{each.size}" for each in _features(overcooked_v2_layouts[layout])) == features


def test_sight_can_be_limited():
    env = OvercookedV2("two_rooms", view=2)
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    assert timestep.observation.shape[:3] == (2, 5, 5)


def test_actions_are_named_in_jaxmarls_order():
    named = {"right": "x+1", "left": "x-1", "down": "y+1", "up": "y-1", "stay": "stay", "interact": "interact"}
    assert tuple(named[action.name] for action in OvercookedActionsEnum) == ACTION_NAMES
