"""The rules of joint options as truth tables."""

import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.learners.partition import first_fitting, most_at_once
from cooptions.options.voting import (
    ballots,
    consistent,
    elect,
    ending,
    everyone,
    going_on,
    votes_to_go_on,
    votes_to_start,
)

UP, DOWN, LEFT, STILL = 1, 2, 3, 0
A, B, C, D = 5, 6, 7, 8  # votes for the first, second, ... option

ALL = [[True, True, True], [True, True, True]]
PAIRS = [[True, True, False], [False, True, True]]
FOUR = [[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]]
"""Two pairs that fit beside each other, one that fits beside neither, and the whole team."""


def elected(action, members, to_start, free=None):
    members = np.array(members, bool)
    free = jnp.ones(members.shape[1], bool) if free is None else jnp.array(free, bool)
    return elect(ballots(jnp.array(action), members, 5), members, np.array(to_start), free).tolist()


@pytest.mark.parametrize(
    ("action", "members", "to_start", "follow"),
    [
        ([A, A, A], ALL, [3, 3], [0, 0, 0]),  # all agree
        ([B, B, B], ALL, [3, 3], [1, 1, 1]),
        ([A, A, B], ALL, [3, 3], [-1, -1, -1]),  # one differs
        ([A, A, STILL], ALL, [3, 3], [-1, -1, -1]),  # one prefers a primitive
        ([UP, DOWN, LEFT], ALL, [3, 3], [-1, -1, -1]),  # primitives
        ([A, A, B], ALL, [2, 2], [0, 0, 0]),  # a majority is enough, and draws in the third
        ([B, A, B], ALL, [2, 2], [1, 1, 1]),
        ([A, B, B], ALL, [1, 1], [0, 0, 0]),  # both have enough: the first
        ([A, A, UP], PAIRS, [2, 2], [0, 0, -1]),  # sub-teams
        ([UP, B, B], PAIRS, [2, 2], [-1, 1, 1]),
        ([A, B, B], PAIRS, [2, 2], [-1, 1, 1]),
        ([A, UP, A], PAIRS, [2, 2], [-1, -1, -1]),  # the third has no say in the first option
        ([UP, UP, A], PAIRS, [1, 1], [-1, -1, -1]),
        ([A, UP, B], PAIRS, [1, 1], [0, 0, -1]),  # the second is a member of both: the first
    ],
)
def test_votes(action, members, to_start, follow):
    assert elected(action, members, to_start) == follow


@pytest.mark.parametrize(
    ("action", "to_start", "free", "follow"),
    [
        ([A, A, B, B], [2, 2, 2, 4], [1, 1, 1, 1], [0, 0, 1, 1]),  # side by side
        ([A, C, C, B], [1, 1, 1, 4], [1, 1, 1, 1], [0, 0, 1, 1]),  # the first, then the next that fits beside it
        ([UP, C, C, B], [1, 1, 1, 4], [1, 1, 1, 1], [-1, -1, 1, 1]),  # the third has more votes, and comes later
        ([UP, C, C, UP], [2, 2, 2, 4], [1, 1, 1, 1], [-1, 2, 2, -1]),
        ([A, A, B, B], [2, 2, 2, 4], [0, 1, 1, 1], [-1, -1, 1, 1]),  # one member is busy
        ([A, A, B, B], [2, 2, 2, 4], [0, 1, 0, 1], [-1, -1, -1, -1]),
        ([D, D, D, D], [2, 2, 2, 4], [1, 1, 1, 1], [3, 3, 3, 3]),
        ([D, D, D, D], [2, 2, 2, 4], [1, 1, 1, 0], [-1, -1, -1, -1]),
        ([D, D, B, B], [2, 2, 2, 2], [1, 1, 1, 1], [-1, -1, 1, 1]),  # pairs come first in this set
    ],
)
def test_options_start_side_by_side(action, to_start, free, follow):
    assert elected(action, FOUR, to_start, free) == follow


@pytest.mark.parametrize(
    ("keep", "needed"),
    [("none", [0, 0, 0, 0]), ("majority", [1, 1, 2, 2]), ("all", [1, 2, 3, 4])],
)
def test_votes_to_go_on(keep, needed):
    members = np.tri(4, dtype=bool)  # of one to four members
    assert votes_to_go_on(members, keep).tolist() == needed


@pytest.mark.parametrize(
    ("start", "needed"),
    [("threshold", [1, 2, 1, 3]), ("majority", [1, 1, 2, 2]), ("all", [1, 2, 3, 4])],
)
def test_votes_to_start(start, needed):
    assert votes_to_start(np.tri(4, dtype=bool), np.array([1, 2, 1, 3]), start).tolist() == needed


@pytest.mark.parametrize(
    ("keep", "active", "action", "goes_on"),
    [
        ("none", [0, 0, 1, 1], [UP, UP, UP, UP], [1, 1, 1, 1]),
        ("none", [0, 0, -1, -1], [UP, UP, UP, UP], [1, 1, 0, 0]),
        ("none", [-1, -1, -1, -1], [UP, UP, UP, UP], [0, 0, 0, 0]),
        ("majority", [0, 0, 1, 1], [A, UP, UP, UP], [1, 1, 0, 0]),  # each by its own members' votes
        ("majority", [0, 0, 1, 1], [B, B, A, A], [0, 0, 0, 0]),
        ("all", [0, 0, 1, 1], [A, UP, B, B], [0, 0, 1, 1]),
        ("all", [3, 3, 3, 3], [D, D, D, D], [1, 1, 1, 1]),
        ("all", [3, 3, 3, 3], [D, D, D, A], [0, 0, 0, 0]),  # any agent interrupts
    ],
)
def test_who_goes_on(keep, active, action, goes_on):
    members = np.array(FOUR, bool)
    votes = ballots(jnp.array(action), members, 5)
    assert going_on(jnp.array(active), votes, votes_to_go_on(members, keep)).tolist() == [bool(x) for x in goes_on]


@pytest.mark.parametrize(
    ("following", "agrees", "expected"),
    [
        ([0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]),
        ([0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]),
        ([0, 1, 0, 1], [1, 0, 1, 0], [1, 0, 1, 0]),
        ([2, 2, 2, 2], [1, 1, 1, 1], [1, 1, 1, 1]),
    ],
)
def test_a_sub_team_agrees_if_all_of_it_does(following, agrees, expected):
    assert everyone(jnp.array(following), jnp.array(agrees, bool)).tolist() == [bool(x) for x in expected]


@pytest.mark.parametrize(
    ("end", "following", "agrees", "expected"),
    [
        ("each", [0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]),
        ("together", [0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]),
        ("together", [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]),
        ("together", [0, 0, -1, 5], [1, 1, 0, 1], [1, 1, 0, 1]),  # whoever is free does not count
        ("each", [2, 2, 2, 2], [1, 1, 1, 0], [0, 0, 0, 0]),
        ("together", [2, 2, 2, 2], [1, 1, 1, 0], [0, 0, 0, 0]),  # one option of the whole team: no difference
    ],
)
def test_options_side_by_side_end_each_by_itself_or_together(end, following, agrees, expected):
    follows = jnp.array(following) >= 0
    ends = ending(jnp.array(following), jnp.array(agrees, bool), end) & follows
    assert ends.tolist() == [bool(x) for x in expected]


def test_consistent_is_asked_of_members_alone():
    planned = jnp.array([[UP, UP, UP], [UP, LEFT, UP]])
    assert consistent(jnp.array([UP, UP, UP]), planned, np.array(ALL)).tolist() == [True, False]
    assert consistent(jnp.array([DOWN, LEFT, UP]), planned, np.array(PAIRS)).tolist() == [False, True]


@pytest.mark.parametrize(("members", "most"), [(ALL, 1), (PAIRS, 1), (FOUR, 2), (np.eye(4), 4), (np.ones((0, 3)), 0)])
def test_how_many_options_there_is_room_for(members, most):
    assert most_at_once(np.array(members, bool)) == most


def test_what_fits_is_taken_by_preference():
    members, free = np.array(FOUR, bool), jnp.ones(4, bool)
    taken = [first_fitting(jnp.array(p), members, free, rounds=2).tolist() for p in ([1.0, 2, 0, 0], [0.0, 0, 3, 1])]
    assert taken == [[0, 0, 1, 1], [-1, 2, 2, -1]]
    nothing = first_fitting(jnp.array([-jnp.inf, -jnp.inf, 0.0, 1.0]), members, free.at[1].set(False), rounds=2)
    assert nothing.tolist() == [-1] * 4


# As long as every option is for the whole team, one runs at a time: the rules then are those for one option.


def one_at_a_time(active, votes, thresholds, to_go_on):
    """The option of this step, or -1, and whether it is the active one going on."""
    goes_on = active >= 0 and votes.sum(axis=1)[active] >= to_go_on[active]
    enough = votes.sum(axis=1) >= thresholds
    chosen = int(np.argmax(enough)) if enough.any() else -1
    return (active if goes_on else chosen), goes_on


@pytest.mark.parametrize("keep", ["none", "majority", "all"])
def test_options_of_the_whole_team_run_one_at_a_time(keep):
    rng = np.random.default_rng(0)
    members = np.ones((3, 4), bool)
    for _ in range(60):
        active, likely = int(rng.integers(-1, 3)), rng.integers(5, 8)
        action = np.where(rng.random(4) < 0.6, likely, rng.integers(0, 8, 4))
        thresholds = rng.integers(1, 5, 3)
        votes = ballots(jnp.array(action), members, 5)
        needed = votes_to_go_on(members, keep)
        goes_on = going_on(jnp.full(4, active), votes, needed)
        option = jnp.where(goes_on, active, elect(votes, members, thresholds, ~goes_on))
        expected, expected_on = one_at_a_time(active, np.asarray(votes), thresholds, needed)
        assert option.tolist() == [expected] * 4
        assert goes_on.tolist() == [expected_on] * 4
