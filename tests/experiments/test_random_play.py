"""The count of paid steps of random play."""

import jax
import pytest
from tiny_sets import tiny_option_set

from cooptions.envs.scenarios import make_env
from cooptions.options.sharing.storage import save_option_set
from experiments.random_play import NUM_ENVS, play, tasks


@pytest.fixture
def pairs(tmp_path):
    """A stored option set for two foragers."""
    env = make_env("lbf-8x8-2p-2f")
    save_option_set(tmp_path / "set", tiny_option_set(env, 0, sight="relation"), env, (), provenance={})
    return tmp_path / "set"


def test_every_kind_of_options_is_a_row(pairs):
    env = make_env("lbf-8x8-3p-2f")
    found = dict(tasks(env, pairs))
    assert list(found) == ["none", "handmade", "rally", "calls of +e1", "calls of +e1 and -e1"]
    assert [task.num_options for task in found.values()] == [0, 4, 3, 3, 6]


def test_all_steps_of_a_task_that_always_pays_are_paid():
    row = play(make_env("probe-constant"), 0.5, 3 * NUM_ENVS, key=jax.random.key(0))
    assert row == {"paid steps per million": 1e6, "share of steps under options": 0.0}


def test_options_lead_more_where_the_coin_comes_up_more_often():
    env = make_env("lbf-8x8-3p-2f")
    (_, task) = next(each for each in tasks(env, None) if each[0] == "handmade")
    shares = [
        play(task, chance, 5 * NUM_ENVS, key=jax.random.key(0))["share of steps under options"] for chance in (0.0, 0.1)
    ]
    assert shares[0] == 0
    assert shares[1] > 0.1
