"""Data that several tests share."""

import jax.numpy as jnp
import numpy as np
import pytest
from small_walks import OPEN, walked

from cooptions.discovery.walks import Dataset, Walk, index_futures
from cooptions.envs.team import Team
from cooptions.types import Feature


@pytest.fixture(scope="session")
def open_data() -> Dataset:
    return walked(OPEN)


@pytest.fixture(scope="session")
def mixed_team() -> Team:
    """Every kind of feature, and an agent that lacks one."""
    features = (Feature.coordinate("x", 5), Feature.categorical("held", 3), Feature.continuous("angle", -1.0, 1.0))
    return Team(features, ((True, True, True), (True, True, True), (True, False, True)), (0, 0, 1))


@pytest.fixture(scope="session")
def mixed_data(mixed_team: Team) -> Dataset:
    """Unrelated states: enough for shapes and finiteness."""
    rng = np.random.default_rng(0)
    shape = (1, 40, 8, 3)
    states, following = (
        np.stack([rng.integers(0, 5, shape), rng.integers(0, 3, shape), rng.uniform(-1, 1, shape)], axis=-1)
        * mixed_team.has_feature
        for _ in range(2)
    )
    last = np.zeros(shape[:3], bool)
    last[:, 19::20] = True
    following[:, :-1] = np.where(last[:, :-1, :, None, None], following[:, :-1], states[:, 1:])
    return index_futures(Walk(jnp.asarray(states, jnp.float32), jnp.asarray(following, jnp.float32), jnp.asarray(last)))
