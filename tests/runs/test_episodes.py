"""Episodes of a learned team, and what is written over their pictures."""

import numpy as np
import pytest

from cooptions.plots import Rollout
from cooptions.runs.episodes import Episode, episode_captions, vote_captions


@pytest.fixture
def episode():
    rollout = Rollout(np.zeros((4, 2)), np.zeros((4, 2, 2)), np.zeros((3, 2), int), np.asarray(3))
    votes = (("+e1", "+e1"), ("-e2", ""), ("", ""))
    return Episode(rollout, np.array([0.0, 0.5, 0.5]), (("+e1", "+e1"), ("+e1", "-e2"), ("", "")), votes)


def test_every_state_has_its_step_options_and_reward(episode):
    assert episode_captions(episode) == [
        "step 0/3",
        "step 1/3   +e1   reward 0.00",
        "step 2/3   +e1, -e2   reward 0.50",
        "step 3/3   reward 1.00",
    ]


def test_every_state_has_the_votes_before_it(episode):
    assert vote_captions(episode) == ["votes", "votes   1: +e1   2: +e1", "votes   1: -e2", "votes   none"]
