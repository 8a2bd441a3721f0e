import jax
import jax.numpy as jnp
import pytest

from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.base import Pairs
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.cmi import Cmi
from cooptions.discovery.representations.distance import DistanceConfig
from cooptions.discovery.representations.fermat import FermatConfig
from cooptions.envs.probe import Constant
from cooptions.errors import ConfigError
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.training import memory
from cooptions.training.chunks import init_seeds, no_means

PROBE = Constant()
KEYS = jax.random.split(jax.random.key(0), 3)
PAIRS = Pairs(jnp.zeros((3, 100, 2)), jnp.zeros((3, 100, 2)))


def test_memory_is_state_data_and_the_steps_peak():
    stage = QLearner(QConfig())
    state = jax.vmap(lambda key: stage.init(PROBE, key=key))(KEYS)
    leaves = [leaf for leaf in jax.tree.leaves(state) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    step = jax.vmap(lambda state, key: stage.step(state, PROBE, key=key))
    expected = sum(leaf.nbytes for leaf in leaves) + memory.held_bytes(step, state, KEYS)
    assert memory.stage_bytes(stage, PROBE, KEYS) == pytest.approx(expected, rel=0.01)


def test_training_takes_over_the_trace_of_the_estimate(monkeypatch):
    stage, traced = QLearner(QConfig(capacity=2000, rollout=7)), []
    step = QLearner.step
    monkeypatch.setattr(QLearner, "step", lambda *given, key: traced.append(1) or step(*given, key=key))
    data = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (3, *leaf.shape)), PROBE)
    memory.stage_bytes(stage, data, KEYS)
    no_means(stage, init_seeds(stage, KEYS, data), data, KEYS)
    assert traced == [1]


def test_a_large_batch_is_counted():
    assert memory.stage_bytes(Allo(2, hidden=(64,), batch_size=10**6), PAIRS, KEYS) > 3 * 10**6 * 64 * 4


def test_a_closed_form_needs_the_memory_of_its_matrices():
    assert memory.stage_bytes(Nystrom(2, num_landmarks=5000), PAIRS, KEYS) > 3 * 4 * 5000**2 * 4


def test_fields_above_their_defaults_are_to_be_made_smaller():
    config = Cmi(distance=DistanceConfig(num_pairs=1024), fermat=FermatConfig(batch=10**5, hidden=(256, 16)))
    named = "representation.fermat.batch, representation.distance.num_pairs, representation.fermat.hidden or seeds"
    assert memory.enlarged(config, "representation", "seeds") == named
    assert memory.enlarged(Cmi(), "representation", "seeds") == "seeds"


def test_stages_that_do_not_fit_are_refused_before_they_run():
    stage = QLearner(QConfig(capacity=10**12))
    with pytest.raises(ConfigError, match=r"options: needs .* GB, the device has .* GB; make capacity smaller"):
        memory.require_fits(stage, PROBE, KEYS, "options", shrink="capacity")
