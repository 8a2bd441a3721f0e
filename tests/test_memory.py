import jax
import jax.numpy as jnp
import pytest

from cooptions import memory
from cooptions.envs.probe import PROBES
from cooptions.errors import ConfigError
from cooptions.learners.q_learning import QConfig, QLearner

PROBE = PROBES["constant"]()
KEYS = jax.random.split(jax.random.key(0), 3)


def test_a_stage_takes_what_its_state_takes():
    stage = QLearner(QConfig())
    state = jax.vmap(lambda key: stage.init(PROBE, key=key))(KEYS)
    leaves = [leaf for leaf in jax.tree.leaves(state) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    assert memory.stage_bytes(stage, PROBE, KEYS) == pytest.approx(sum(leaf.nbytes for leaf in leaves), rel=0.01)


def test_what_cannot_fit_is_refused_before_it_is_made():
    stage = QLearner(QConfig(capacity=10**12))
    with pytest.raises(ConfigError, match=r"options: needs .* GB, the device has .* GB; make capacity smaller"):
        memory.require_fits(stage, PROBE, KEYS, "options", shrink="capacity")
