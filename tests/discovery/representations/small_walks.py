"""Training on small walks, and what is measured there."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cooptions.discovery.representations.base import AbstractRepresentation, OfTeam
from cooptions.discovery.walks import Dataset, WalkConfig, index_futures, walk_seeds
from cooptions.envs.grid import Grid
from cooptions.envs.team import Team
from cooptions.training.fitting import fit

OPEN = Grid(6, 6, 3, time_limit=50)


def walked(env: Grid, transitions: int = 40_000) -> Dataset:
    return index_futures(walk_seeds(env, WalkConfig(transitions, 100), jax.random.split(jax.random.key(0), 1)))


def trained(representation: AbstractRepresentation, team: Team, data: Dataset, seed: int = 1) -> Any:
    """The state of the first seed."""
    keys = jax.random.split(jax.random.key(seed), 1)
    state = fit(OfTeam(representation, team), data, keys, name="representation")
    return jax.tree.map(lambda leaf: leaf[0], state)


def encoded(representation: AbstractRepresentation, team: Team, state: Any, joint: np.ndarray) -> np.ndarray:
    return np.asarray(_encoded(representation, team, state, jnp.asarray(joint, jnp.float32)))


@partial(jax.jit, static_argnums=(0, 1))
def _encoded(representation: AbstractRepresentation, team: Team, state: Any, joint: jax.Array) -> jax.Array:
    return jax.vmap(lambda states: representation.encode(team, state, states))(joint)


def random_teams(env: Grid, num: int, seed: int = 0) -> np.ndarray:
    """Float[team, agent, feature]: agents anywhere on the grid."""
    cells = np.argwhere(env.free)
    places = cells[np.random.default_rng(seed).integers(0, len(cells), (num, env.num_agents))]
    return np.where(env.agent_features, places, 0).astype(np.float32)
