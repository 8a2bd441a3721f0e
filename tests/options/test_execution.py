"""Pictures of options show a typical roll-out."""

import jax
import numpy as np
import pytest
from PIL import Image

from cooptions.envs.scenarios import make_env
from cooptions.options.execution import PICTURE_STARTS, START_STEPS, follow_one, median_start, play_option
from cooptions.options.handmade import handmade_options
from cooptions.options.task import collect_starts


@pytest.mark.parametrize(
    ("lengths", "start"), [([7], 0), ([9, 0, 4, 0, 5], 2), ([0, 0, 3, 3], 2), ([5, 2, 2, 5, 3], 4), ([0, 0, 0, 8], 0)]
)
def test_the_first_start_of_median_length_is_chosen(lengths, start):
    assert median_start(np.array(lengths)) == start


def test_an_option_is_played_for_its_median_number_of_steps(tmp_path):
    env, key = make_env("grid-6x6-2p"), jax.random.key(3)
    options = handmade_options(env, ("spread", "gather"))
    rollout = play_option(env, options, "gather", key=key, gif=tmp_path / "gather.gif")
    begun = collect_starts(env, PICTURE_STARTS, START_STEPS, key=key)
    lengths = np.sort(np.asarray(follow_one(env, options, jax.numpy.int32(1), begun, key=key).length))
    assert lengths[0] < rollout.length == lengths[len(lengths) // 2] > 2
    np.testing.assert_array_equal(rollout.agent_states[-1, 0], rollout.agent_states[-1, 1])
    with Image.open(tmp_path / "gather.gif") as image:
        assert image.n_frames == rollout.length + 1
