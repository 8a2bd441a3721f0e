from types import SimpleNamespace

import jax.numpy as jnp
import pytest
from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO, SMAX

from cooptions.envs.adapted.smax import MOVES, _is_over, _scores
from cooptions.envs.names import families


def test_the_name_knows_every_army():
    assert families()["smax"].spelled_out == tuple(f"smax-{name}" for name in MAP_NAME_TO_SCENARIO)


@pytest.mark.parametrize(
    ("alive", "scores", "over"),
    [
        ([1, 0, 1, 1], [0, 0], False),
        ([1, 0, 0, 1], [0, 50], False),
        ([1, 0, 0, 0], [100, 100], True),
        ([0, 0, 0, 1], [0, 50], True),
        ([0, 0, 0, 0], [0, 100], True),  # nobody won
    ],
)
def test_a_battle_is_won_by_who_is_left(alive, scores, over):
    state = SimpleNamespace(unit_alive=jnp.array(alive, bool))
    assert _scores(state, 2).tolist() == scores
    assert bool(_is_over(state, 2)) == over


def test_moves_are_those_of_smax():
    """SMAX rotates its actions by 45 degrees. This tests the resulting directions."""
    moves, _ = SMAX()._decode_discrete_actions(jnp.arange(5))
    named = {"stop": (0, 0), "x+1": (1, 0), "x-1": (-1, 0), "y+1": (0, 1), "y-1": (0, -1)}
    assert [tuple(move) for move in jnp.round(moves, 3).astype(int).tolist()] == [named[name] for name in MOVES]
