import jax
import jax.numpy as jnp
import pytest

from cooptions.envs.probe import Constant
from cooptions.errors import ConfigError
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.training import memory
from cooptions.training.liveness import working_bytes

PROBE = Constant()
KEYS = jax.random.split(jax.random.key(0), 3)


@pytest.mark.parametrize("trifle", [True, False])
def test_a_stage_takes_its_state_and_its_data_and_what_a_step_holds(trifle, monkeypatch):
    stage = QLearner(QConfig())
    monkeypatch.setattr(memory, "TRIFLE", 1e9 if trifle else 0)
    state = jax.vmap(lambda key: stage.init(PROBE, key=key))(KEYS)
    leaves = [leaf for leaf in jax.tree.leaves(state) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    step = jax.vmap(lambda state, key: stage.step(state, PROBE, key=key))
    expected = sum(leaf.nbytes for leaf in leaves) + (0 if trifle else working_bytes(step, state, KEYS))
    assert memory.stage_bytes(stage, PROBE, KEYS) == pytest.approx(expected, rel=0.01)


def test_what_cannot_fit_is_refused_before_it_is_made():
    stage = QLearner(QConfig(capacity=10**12))
    with pytest.raises(ConfigError, match=r"options: needs .* GB, the device has .* GB; make capacity smaller"):
        memory.require_fits(stage, PROBE, KEYS, "options", shrink="capacity")
