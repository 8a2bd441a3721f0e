"""Eigenfunctions of some of a team's agents, from the walk of the whole team."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cooptions as co
from cooptions.discovery.discover import Static
from cooptions.discovery.oracles import eigen_cosine, eigenvalue_clusters, joint_grid_spectrum
from cooptions.discovery.subteams import draw_subteams, walk_of
from cooptions.discovery.walks import WalkConfig
from cooptions.errors import ConfigError
from cooptions.files import decode, encode
from cooptions.runs.config import Config
from cooptions.runs.verify import verify
from cooptions.training.progress import Progress

KEY = jax.random.key(0)
QUICK = co.Hit(steps=150, hidden=(32,), batch=64)
FEW = co.Nystrom(3, num_landmarks=40)


@pytest.fixture(scope="module")
def walk():
    return co.walk(co.make_env("grid-5x5-4p"), 40_000, key=KEY)


@pytest.fixture(scope="module")
def whole(walk):
    return co.discover(walk, QUICK, FEW, key=KEY)


def test_each_environment_follows_one_subteam_and_all_take_turns(walk):
    team = walk.team.part(2)
    pairs = walk_of(team, walk)
    assert pairs.states.shape == (400, 100, 2, 2)
    assert pairs.team == team
    followed = []
    for env in range(100):
        fits = [np.array_equal(pairs.states[:, env], walk.states[:, env, agents]) for agents in team.places]
        assert sum(fits) == 1
        agents = team.places[fits.index(True)]
        np.testing.assert_array_equal(pairs.next_states[:, env], walk.next_states[:, env, agents])
        followed.append(fits.index(True))
    assert np.ptp(np.bincount(followed, minlength=6)) <= 1
    onward = ~pairs.last[:-1]
    np.testing.assert_array_equal(pairs.next_states[:-1][onward], pairs.states[1:][onward])
    assert walk_of(walk.team, walk) is walk


def test_members_are_drawn_for_each_sample(walk):
    team = walk.team.part(3)
    numbered = jnp.broadcast_to(jnp.arange(4)[None, :, None], (800, 4, 2))
    drawn = np.asarray(draw_subteams(team, numbered, key=KEY))[..., 0]
    kinds, counts = np.unique(drawn, axis=0, return_counts=True)
    np.testing.assert_array_equal(kinds, team.places)
    assert counts == pytest.approx(200, rel=0.25)


def test_a_representation_serves_teams_of_every_size(walk, whole, tmp_path):
    for num in (2, 3):
        found = co.discover(walk, None, FEW, of=whole, members=num, key=KEY)
        assert jax.tree.all(jax.tree.map(np.array_equal, found.representation, whole.representation))
        states = np.asarray(walk_of(found.team, walk).states).reshape(-1, num, 2)[:4000]
        values = np.asarray(found.at(states))
        assert values.shape == (4000, 3)
        assert values.std(axis=0) == pytest.approx(np.ones(3), abs=0.15)
        found.save(tmp_path / "found.safetensors")
        again = co.Discovered.load(tmp_path / "found.safetensors")
        assert again.discovery == found.discovery
        np.testing.assert_array_equal(again.at(states), values)
    assert co.discover(walk, None, FEW, of=whole, key=KEY).team == walk.team


def test_what_was_stored_before_there_were_subteams_is_of_a_whole_team(whole):
    stored = encode(whole.discovery)
    del stored["team"]["part_of"]
    assert decode(type(whole.discovery), stored, "file") == whole.discovery
    assert hash(Static(whole.discovery)) is not None


def test_what_serves_no_other_members_is_refused(walk, whole):
    tiny = co.Scalar(steps=2)
    pairs = co.discover(walk, tiny, FEW, members=2, key=KEY)
    with pytest.raises(ConfigError, match="Scalar learns from the states of all members together"):
        co.discover(walk, None, FEW, of=pairs, members=3, key=KEY)
    with pytest.raises(ConfigError, match="of: it has a representation, so that no other can be given"):
        co.discover(walk, tiny, FEW, of=whole, members=2, key=KEY)
    other = co.walk(co.make_env("grid-5x5-3p"), 1_000, key=KEY)
    with pytest.raises(ConfigError, match="of: it was discovered for another team"):
        co.discover(other, None, FEW, of=whole, members=2, key=KEY)
    with pytest.raises(ConfigError, match="members must be at most 4, not 5"):
        co.discover(walk, QUICK, FEW, members=5, key=KEY)


@pytest.mark.slow
def test_in_an_unlike_team_it_matters_who_the_members_are():
    """In x alone agents 0 and 1 are like 1 and 2; in y there is no relation with agent 0, which has none."""
    walk = co.walk(co.make_env("grid-5x5-3p,types=122"), 20_000, key=KEY)
    mixed = co.discover(walk, QUICK, FEW, members=(0, 2), key=KEY)
    alike = co.discover(walk, None, FEW, of=mixed, members=(1, 2), key=KEY)
    apart, level = jnp.array([[0.0, 1.0], [4.0, 4.0]]), jnp.array([[0.0, 1.0], [4.0, 1.0]])
    assert mixed.encode(apart)[1] == mixed.encode(level)[1] == 0
    assert alike.encode(apart)[1] > alike.encode(level)[1]
    assert float(alike.encode(apart)[0]) == pytest.approx(float(alike.encode(level)[0]), rel=0.3)


def test_raw_pairs_have_the_eigenfunctions_of_the_joint_chain_of_two():
    """625 joint states, whoever the two of the four are."""
    env = co.make_env("grid-5x5-4p")
    walk = co.walk(env, 100_000, key=KEY)
    laplacian = co.Kronecker(8, co.Exact(12, max_values=30))
    found = co.discover(walk, co.RawJoint(), laplacian, members=2, basis="learned", key=KEY)
    teams, exact = joint_grid_spectrum(env.free, 2, 20)
    values = np.asarray(found.at(teams.astype(np.uint8)), float)
    cosine = eigen_cosine(values, exact.weights, exact.eigenfunctions, eigenvalue_clusters(exact.eigenvalues))
    assert cosine.min() > 0.97


@pytest.mark.slow
def test_relative_pairs_are_as_exact_as_a_team_of_two():
    """Near walls z is no function of the spread alone, so that faster functions differ from those of the spreads."""
    settings = {
        "seeds": 2,
        "walk": WalkConfig(200_000),
        "representation": co.Hit(steps=1500),
        "laplacian": co.Nystrom(4),
    }
    pairs = verify(Config("grid-5x5-4p", members=2, **settings), Progress.silent())
    alone = verify(Config("grid-5x5-2p", **settings), Progress.silent())
    assert np.array(pairs["eigen_cosine"])[:, :2].min() > 0.97
    assert np.min(pairs["agreement"]) > 0.97
    np.testing.assert_allclose(pairs["eigen_cosine"], alone["eigen_cosine"], atol=0.03)
