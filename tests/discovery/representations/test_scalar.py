"""The learned successor distance against the exact one, with one head and with several."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_walks import OPEN, encoded, random_teams, trained

from cooptions.discovery import oracles
from cooptions.discovery.representations.cmi import Cmi
from cooptions.discovery.representations.disentangle import CmiConfig
from cooptions.discovery.representations.distance import DistanceConfig
from cooptions.discovery.representations.fermat import FermatConfig
from cooptions.discovery.representations.scalar import Scalar
from cooptions.envs.team import Team

DISTANCE = DistanceConfig(num_pairs=64, hidden=(48,), learning_rate=1e-2)
FERMAT = FermatConfig(hidden=(48,))
TEAM = Team.of(OPEN)


@pytest.mark.parametrize(
    "representation",
    [
        Scalar(DISTANCE, FERMAT, 400),
        pytest.param(Cmi(DISTANCE, FERMAT, CmiConfig(0.003, hidden=(32, 32)), 500), marks=pytest.mark.slow),
        pytest.param(Cmi(DISTANCE, FERMAT, CmiConfig(0.0), 500), marks=pytest.mark.slow),
    ],
    ids=["scalar", "cmi", "cmi_without_penalty"],
)
def test_distance_and_fermat_state(open_data, representation):
    state = trained(representation, TEAM, open_data)
    cells = jnp.asarray(oracles.grid_cells(OPEN.free), jnp.float32)
    exact = oracles.successor_distance(oracles.grid_transitions(OPEN.free), DISTANCE.discount)
    learned = jax.vmap(
        lambda s: jax.vmap(lambda g: representation.pair_distance(TEAM, state, s, g, jnp.int32(0)))(cells)
    )(cells)
    assert np.corrcoef(np.ravel(learned), np.ravel(exact))[0, 1] > 0.95
    joint = random_teams(OPEN, 1000)
    z = encoded(representation, TEAM, state, joint).sum(axis=1)
    assert oracles.spearman(z, oracles.spread(joint).sum(axis=1)) > 0.85
    best, _ = oracles.fermat_value(exact, oracles.cell_indices(OPEN.free, joint))
    assert np.corrcoef(z, best)[0, 1] > 0.9
