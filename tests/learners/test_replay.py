import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.learners.replay import add, empty, sample


def filled(num_ticks, capacity, rollout):
    """Two environments whose ticks are numbered; those of the second lie 1000 higher."""
    numbers = jnp.arange(num_ticks)[:, None] + jnp.array([0, 1000])
    replay = empty(numbers[0], capacity)
    for begin in range(0, num_ticks, rollout):
        replay = add(replay, numbers[begin : begin + rollout])
    return replay


@pytest.mark.parametrize(("num_ticks", "oldest"), [(12, 0), (20, 0), (28, 8), (60, 40)])
@pytest.mark.parametrize(("length", "stride"), [(2, 1), (5, 4)])
def test_sequences_follow_each_other_and_cover_all_that_is_held(num_ticks, oldest, length, stride):
    replay = filled(num_ticks, capacity=20, rollout=4)
    ticks, begins, env = sample(replay, 3000, length, stride, key=jax.random.key(0))
    assert np.all(np.diff(ticks, axis=0) == 1)
    first = np.asarray(ticks[0]) % 1000
    starts = range(oldest, num_ticks - length + 1, stride)
    assert set(zip(first.tolist(), env.tolist(), strict=True)) == {(begin, e) for begin in starts for e in range(2)}
    np.testing.assert_array_equal(np.asarray(ticks[0]) // 1000, env)
    np.testing.assert_array_equal(replay.ticks[begins, env], ticks[0])


def test_ticks_keep_their_compact_type():
    replay = add(empty(jnp.zeros((2,), jnp.uint8), 8), jnp.full((4, 2), 200, jnp.int32))
    assert replay.ticks.dtype == jnp.uint8
    assert int(replay.ticks[3, 1]) == 200
