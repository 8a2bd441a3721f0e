"""What every representation must do, on every kind of feature and of team."""

from dataclasses import fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_walks import encoded, trained

from cooptions.discovery.representations.base import REPRESENTATIONS, AbstractRepresentation, informative
from cooptions.discovery.representations.disentangle import CmiConfig
from cooptions.discovery.representations.distance import DistanceConfig
from cooptions.discovery.representations.fermat import FermatConfig
from cooptions.discovery.walks import Dataset
from cooptions.envs.team import Team

TINY = {
    "steps": 3,
    "batch": 8,
    "steps_ahead": 4,
    "hidden": (8,),
    "distance": DistanceConfig(num_pairs=8, hidden=(8,), head_size=2),
    "fermat": FermatConfig(hidden=(8,), batch=8),
    "cmi": CmiConfig(hidden=(8,), num_neighbours=3),
}


def tiny(name: str) -> AbstractRepresentation:
    representation = REPRESENTATIONS[name]()
    known = {field.name for field in fields(representation)}  # pyright: ignore[reportArgumentType]
    return replace(representation, **{key: value for key, value in TINY.items() if key in known})  # pyright: ignore


def one_seed(data: Dataset) -> Dataset:
    return jax.tree.map(lambda leaf: leaf[0], data)


def random_state(representation: AbstractRepresentation, team: Team, data: Dataset) -> Any:
    """A state with the right shapes and any numbers: made without compiling anything."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda key: representation.init(team, one_seed(data), key=key), jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)


MEMBERS = pytest.mark.parametrize("members", [(0, 1, 2), (0, 1), (1, 2)], ids=["whole", "alike", "unlike"])
"""Whose z it is: the team that walked, or a part of it."""


@MEMBERS
@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_a_step_keeps_the_shapes_of_the_state(
    name: str, members: tuple[int, ...], mixed_team: Team, mixed_data: Dataset
):
    representation = tiny(name)
    team, data = mixed_team.part(members), mixed_data
    assert hash(representation) == hash(tiny(name))
    state = random_state(representation, team, data)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    after, metrics = jax.eval_shape(
        lambda state, key: representation.step(team, state, one_seed(data), key=key), state, jax.random.key(0)
    )
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (state, after))
    assert shapes[0] == shapes[1]
    assert all(value.shape == () for value in metrics.values())


@pytest.mark.parametrize("name", [name for name in REPRESENTATIONS if REPRESENTATIONS[name]().num_steps])
def test_what_is_learned_of_single_agents_is_learned_of_the_whole_team(
    name: str, mixed_team: Team, mixed_data: Dataset
):
    """The distance is the same whoever the members are; where nothing else is learned, so is the whole state."""
    representation, data, key = tiny(name), one_seed(mixed_data), jax.random.key(3)

    def after_a_step(team: Team) -> Any:
        state = representation.init(team, data, key=jax.random.key(1))
        state, _ = jax.jit(lambda state: representation.step(team, state, data, key=key))(state)
        return state if representation.of_single_agents else state.model.distance

    whole, part = after_a_step(mixed_team), after_a_step(mixed_team.part((1, 2)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), whole, part)


@MEMBERS
@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_encoding_gives_a_number_for_each_name(
    name: str, members: tuple[int, ...], mixed_team: Team, mixed_data: Dataset
):
    representation = tiny(name)
    team, data = mixed_team.part(members), mixed_data
    joint = np.asarray(data.walk.states[0].reshape(-1, *data.walk.states.shape[3:]))[:, list(members)]
    z = encoded(representation, team, random_state(representation, team, data), joint)
    names = representation.z_names(team)
    assert z.shape == (len(joint), len(names))
    assert len(set(names)) == len(names)
    assert np.isfinite(z).all()


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_what_stands_in_place_of_a_lacking_feature_is_never_seen(name: str, mixed_team: Team, mixed_data: Dataset):
    representation = tiny(name)
    state = random_state(representation, mixed_team, mixed_data)
    joint = np.asarray(mixed_data.walk.states[0].reshape(-1, 3, 3))
    padded, own = joint.copy(), joint.copy()
    padded[:, 2, 1] = 2.0
    own[:, 2, 0] = 2.0
    before, after, moved = (encoded(representation, mixed_team, state, x) for x in (joint, padded, own))
    np.testing.assert_array_equal(before, after)
    assert np.abs(before - moved).max() > 1e-3, "what it does have matters"


@pytest.mark.parametrize("name", ["cmi", "mask", "hit"])
def test_a_feature_of_one_agent_alone_tells_nothing(name: str, mixed_team: Team, mixed_data: Dataset):
    lonely = Team(mixed_team.features, ((True, True, True), (True, False, True), (True, False, True)), (0, 1, 1))
    representation = tiny(name)
    state = random_state(representation, lonely, mixed_data)
    z = encoded(representation, lonely, state, np.asarray(mixed_data.walk.states[0, :, 0]))
    assert (z[:, 1] == 0).all()
    assert (z.std(axis=0)[[0, 2]] > 0).all()
    assert not informative(jnp.asarray(z), jnp.asarray(z))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPRESENTATIONS if REPRESENTATIONS[name]().num_steps])
def test_it_trains_on_every_kind_of_feature(name: str, mixed_team: Team, mixed_data: Dataset):
    state = trained(tiny(name), mixed_team, mixed_data)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize("name", [name for name in REPRESENTATIONS if REPRESENTATIONS[name]().num_steps])
def test_a_wrong_number_of_steps_is_refused(name: str):
    with pytest.raises(Exception, match="steps must be at least 1"):
        replace(tiny(name), steps=0)  # pyright: ignore


def test_informative_components_vary_and_last():
    slow, fast, flat = jax.random.normal(jax.random.key(0), (3, 500))
    z = jnp.stack([slow, 0.3 * fast, 1e-4 * flat], axis=1)
    next_z = jnp.stack([slow + 0.1, 0.3 * jnp.roll(fast, 1), 1e-4 * flat], axis=1)
    np.testing.assert_array_equal(informative(z, next_z), [True, False, False])
