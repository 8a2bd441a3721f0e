"""A table says what `encode` says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_registry import random_state, tiny

from cooptions.discovery.representations.base import AddsUp
from cooptions.discovery.representations.table import MAX_STATES, Table, has_table
from cooptions.discovery.walks import Dataset, Walk, index_futures
from cooptions.envs.team import Team
from cooptions.types import Feature

FEATURES = (Feature.coordinate("x", 5), Feature.categorical("held", 3), Feature.coordinate("y", 2))
TEAM = Team(FEATURES, ((True, False, True), (True, True, True), (True, True, True)), (1, 0, 0))
LINE = Team(FEATURES[:1], ((True,),) * 3, (0, 0, 0))


def random_walk(team: Team) -> Dataset:
    rng = np.random.default_rng(0)
    states = np.stack([rng.integers(0, feature.size, (1, 20, 10, 3)) for feature in team.features], axis=-1)
    states = jnp.asarray(states * team.has_feature, jnp.uint8)
    return index_futures(Walk(states, states, jnp.zeros((1, 20, 10), bool)))


@pytest.mark.parametrize("name", ["mask", "hit"])
@pytest.mark.parametrize(("team", "shape"), [(TEAM, (2, 30, 10)), (LINE, (1, 5, 5))], ids=["mixed", "line"])
def test_a_table_gives_z_of_every_team(name: str, team: Team, shape: tuple[int, ...]):
    representation, data = tiny(name), random_walk(team)
    state = random_state(representation, team, data)
    joint = data.walk.states[0].reshape(-1, 3, len(team.features))
    assert isinstance(representation, AddsUp)
    assert has_table(representation, team)
    table = jax.jit(lambda state: Table.of(representation, team, state))(state)
    assert table.distances.shape == shape
    expected = jax.jit(jax.vmap(lambda s: representation.encode(team, state, s)))(joint)
    np.testing.assert_allclose(jax.jit(jax.vmap(table))(joint), expected, rtol=1e-4, atol=1e-5)


def test_who_has_a_table(mixed_team: Team):
    assert not has_table(tiny("mask"), mixed_team), "one of its features is continuous"
    assert not has_table(tiny("cmi"), TEAM), "its z is no sum of tables"
    large = Team((Feature.coordinate("x", MAX_STATES), Feature.coordinate("y", 2)), ((True, True),) * 2, (0, 0))
    assert not has_table(tiny("mask"), large)
