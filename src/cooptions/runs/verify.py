"""Measure discovery against oracles, on environments that have them."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from cooptions.discovery import oracles
from cooptions.discovery.discover import Discovery, encode_states
from cooptions.discovery.discovered import Discovered
from cooptions.discovery.oracles import spread as spreads
from cooptions.discovery.representations.base import FindsFermat, MeasuresHits, MeasuresPairs
from cooptions.discovery.subteams import walk_of
from cooptions.discovery.walks import Walk, WalkConfig, walk_seeds
from cooptions.envs.grid import Grid
from cooptions.runs.config import Config
from cooptions.runs.run import Run
from cooptions.training.progress import Progress

Result = TypeVar("Result")
Scores = dict[str, Any]

HELD_OUT = WalkConfig(transitions=50_000)


@dataclass(frozen=True)
class SingleAgent:
    """The exact (grid) or counted (elsewhere) random walk of one agent over its distinct states."""

    states: np.ndarray
    transitions: np.ndarray

    @classmethod
    def of(cls, config: Config, walk: Walk) -> "SingleAgent":
        if isinstance(config.env, Grid):
            return cls(oracles.grid_cells(config.env.free), oracles.grid_transitions(config.env.free))
        rows = [np.reshape(states, (-1, states.shape[-1])) for states in (walk.states, walk.next_states)]
        return cls(*oracles.counted_transitions(*rows))


def verify(config: Config, progress: Progress) -> dict[str, Any]:
    """Run discovery and measure it. Every value of the result is a list over seeds."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, Run.open(config, Path(folder), "spectrum", progress) as run:
        for stage in ("walk", "dataset", "representation", "spectrum"):
            _timed(seconds, stage, partial(run.make, stage))
        found, walks = run.found, run.walk
    fresh = walk_seeds(config.env, HELD_OUT, config.keys("held out"))
    scores = []
    for seed in range(config.seeds):
        each = (jax.tree.map(lambda leaf, seed=seed: leaf[seed], walk) for walk in (walks, fresh))
        one_walk, held_out = (walk_of(found.team, walk) for walk in each)
        scores.append(score(config, found.seed(seed), one_walk, held_out))
    result = {**_over_seeds(scores), "seconds": {name: [value] * config.seeds for name, value in seconds.items()}}
    if config.seeds > 1:
        result["agreement"] = _agreement(found, _joint(walk_of(found.team, jax.tree.map(lambda leaf: leaf[0], fresh))))
    return result


def score(config: Config, found: Discovered, walk: Walk, held_out: Walk) -> Scores:
    """All scores of one seed that its environment and representation allow."""
    discovery, state = found.discovery, found.representation
    team = discovery.team
    joint = _joint(held_out)
    z = np.asarray(jax.jit(lambda s: encode_states(discovery, state, s))(joint))
    categorical = np.array([feature.kind == "categorical" for feature in team.features])
    apart = spreads(joint, team.has_feature, categorical)
    single = SingleAgent.of(config, walk)
    scores: Scores = {"z_deviation": _by_name(discovery, z.std(axis=0))}
    if z.shape[1] == apart.shape[1]:
        scores |= _alignment_scores(discovery, z, apart)
    representation = discovery.representation
    if isinstance(representation, FindsFermat) and team.num_types == 1 and not categorical.any():
        scores["fermat_error_cells"] = _fermat_error(found, joint[:5000], single)
    if isinstance(representation, MeasuresPairs):
        scores["distance_pearson"] = _distance_pearson(discovery, state, single)
    if isinstance(representation, MeasuresHits):
        scores |= _hit_scores(discovery, state, single, joint, z)
    if team.num_types > 1:
        scores["padded_share"] = _padded_share(discovery, state, joint, z)
    if isinstance(config.env, Grid):
        scores |= eigen_scores(config, found, walk, held_out)
    return scores


def eigen_scores(config: Config, found: Discovered, walk: Walk, held_out: Walk) -> Scores:
    """Scores of each eigenfunction against the exact eigenspace of its cluster, on held-out states of a grid."""
    joint = _joint(held_out)
    exact, basis = _exact_spectrum(config, walk, joint)
    # In the canonical order, references can overrule close eigenvalues; the exact ones are in order of eigenvalue.
    eigenvalues = np.asarray(found.eigenvalues)
    order = np.argsort(eigenvalues)[: len(exact.eigenvalues)]
    values = _values(found, joint)[:, order]
    clusters = oracles.eigenvalue_clusters(exact.eigenvalues)
    weights = np.full(len(joint), 1 / len(joint))
    return {
        "eigen_cosine": oracles.eigen_cosine(values, weights, basis, clusters).tolist(),
        "eigenvalues": eigenvalues[order].tolist(),
        "exact_eigenvalues": exact.eigenvalues[: len(eigenvalues)].tolist(),
    }


def _alignment_scores(discovery: Discovery, z: np.ndarray, spreads: np.ndarray) -> Scores:
    """How closely z_f follows the exact spread of its own feature, and how much it leaks from other features."""
    scores: Scores = {"spearman_own": {}, "own_share": {}, "leak": {}}
    for f, name in enumerate(discovery.representation.z_names(discovery.team)):
        own, others = spreads[:, f], np.delete(spreads, f, axis=1)
        if own.any():
            scores["spearman_own"][name] = oracles.spearman(z[:, f], own)
            scores["own_share"][name] = oracles.explained_r2(z[:, f], own)
            scores["leak"][name] = oracles.partial_r2(z[:, f], own, others)
    return scores


def _fermat_error(found: Discovered, joint: np.ndarray, single: SingleAgent) -> float:
    """The mean L1 distance from the estimated Fermat state to the closest exact minimiser of the summed distance.

    The medians minimise a distance that is a sum over features. The scalar distance has other minimisers.
    """
    discovery = found.discovery
    estimate = np.asarray(jax.jit(jax.vmap(found.on_kept().fermat_state))(joint))
    if len(discovery.representation.z_names(discovery.team)) == len(discovery.team.features):
        return float(oracles.distance_to_medians(estimate, joint.astype(float)).mean())
    distance = oracles.successor_distance(single.transitions, discovery.representation.distance.discount)  # pyright: ignore
    members = _numbers(single, joint)
    return float(oracles.distance_to_nearest_minimiser(estimate, members, single.states, distance).mean())


def _distance_pearson(discovery: Discovery, state: Any, single: SingleAgent) -> float:
    """The correlation of the learned distance with the exact successor distance over all pairs of states."""
    representation, team = discovery.representation, discovery.team
    states = jnp.asarray(single.states)
    kind = team.agent_types[int(np.argmax(team.has_feature.sum(axis=1)))]  # a type with every feature

    def distance(source: jax.Array, goal: jax.Array) -> jax.Array:
        return representation.pair_distance(team, state, source, goal, jnp.int32(kind))  # pyright: ignore

    learned = jax.jit(jax.vmap(jax.vmap(distance, (None, 0)), (0, None)))(states, states)
    exact = oracles.successor_distance(single.transitions, representation.distance.discount)  # pyright: ignore
    return _pearson(np.asarray(learned), exact)


def _hit_scores(discovery: Discovery, state: Any, single: SingleAgent, joint: np.ndarray, z: np.ndarray) -> Scores:
    """The correlations with the exact hitting distances, and of z with their exact Fermat value."""
    representation, team = discovery.representation, discovery.team
    distances, values = [], []
    for index, feature in enumerate(team.features):
        visited = np.unique(single.states[:, index])
        exact = oracles.hitting_distance(single.transitions, single.states[:, index], representation.discount)  # pyright: ignore
        exact = np.asarray(representation.capped(exact))  # pyright: ignore
        goals = jnp.arange(feature.size, dtype=jnp.float32)

        def distance(source: jax.Array, index: int = index, goals: jax.Array = goals) -> jax.Array:
            return representation.hit_distances(team, state, source, jnp.int32(0), index, goals)  # pyright: ignore

        learned = jax.jit(jax.vmap(distance))(jnp.asarray(single.states, jnp.float32))
        distances.append(_pearson(np.asarray(learned)[:, visited.astype(int)], exact))
        if set(team.agent_types) == {0}:
            exact_z, _ = oracles.fermat_value(exact, _numbers(single, joint))
            values.append(_pearson(z[:, index], exact_z))
    scores = {"hit_pearson": _by_name(discovery, distances)}
    return scores | ({"hit_z_pearson": _by_name(discovery, values)} if values else {})


def _padded_share(discovery: Discovery, state: Any, joint: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """The mean squared change of each z, as a fraction of its variance, when padded features take random values."""
    team = discovery.team
    rng = np.random.default_rng(0)
    noise = np.stack([rng.integers(0, feature.size, joint.shape[:2]) for feature in team.features], axis=-1)
    filled = np.where(team.has_feature, joint, noise).astype(joint.dtype)
    changed = np.asarray(jax.jit(lambda s: encode_states(discovery, state, s))(filled))
    return _by_name(discovery, ((changed - z) ** 2).mean(axis=0) / np.maximum(z.var(axis=0), 1e-12))


def _exact_spectrum(config: Config, walk: Walk, joint: np.ndarray) -> tuple[oracles.Spectrum, np.ndarray]:
    """The exact spectrum on raw joint states or on spreads, depending on z, and its eigenfunctions at joint states."""
    raw = len(config.representation.z_names(config.discovery.team)) > len(config.team.features)
    return (_joint_walk if raw else _lumped)(config, walk, joint)


def _lumped(config: Config, walk: Walk, joint: np.ndarray) -> tuple[oracles.Spectrum, np.ndarray]:
    """The spectrum of the operator on exact spread tuples."""
    env, has = config.env, config.option_env.agent_features
    assert isinstance(env, Grid)
    spreads = oracles.spread(joint, has)
    if env.collisions or env.map:
        before, after = (oracles.spread(_flat(s), has) for s in (walk.states, walk.next_states))
        operator = oracles.counted_lumped(np.concatenate([before, spreads]), np.concatenate([after, spreads]))
    else:
        operator = oracles.open_grid_lumped(env.height, env.width, len(has), agent_features=has)
    num = config.laplacian.num_eigenfunctions
    exact = operator.spectrum(min(num + 10, len(operator.tuples) - 1))
    return exact, exact.eigenfunctions[operator.index(spreads)]


def _joint_walk(config: Config, walk: Walk, joint: np.ndarray) -> tuple[oracles.Spectrum, np.ndarray]:
    """The spectrum of the operator on raw joint states, for small grids."""
    env, num_agents = config.env, config.option_env.num_agents
    assert isinstance(env, Grid)
    teams, exact = oracles.joint_grid_spectrum(env.free, num_agents, config.laplacian.num_eigenfunctions + 10)
    number = {tuple(team.ravel()): i for i, team in enumerate(teams.astype(int))}
    return exact, exact.eigenfunctions[[number[tuple(team)] for team in joint.reshape(len(joint), -1).tolist()]]


def _agreement(found: Discovered, joint: np.ndarray) -> list[float]:
    """For each k, the smallest cosine between function k of two seeds. Near 1, options mean the same for all seeds."""
    values = [_values(found.seed(seed), joint) for seed in range(found.eigenvalues.shape[0])]
    unit = np.stack([value / np.maximum(np.linalg.norm(value, axis=0), 1e-12) for value in values])
    return np.einsum("ask,bsk->kab", unit, unit).min(axis=(1, 2)).tolist()


def _values(found: Discovered, joint: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(Discovered.at)(found.on_kept(), jnp.asarray(joint)), float)


def _joint(walk: Walk) -> np.ndarray:
    return _flat(np.asarray(walk.states))


def _flat(states: Any) -> np.ndarray:
    """States with time and environments flattened to one axis."""
    return np.reshape(np.asarray(states), (-1, *states.shape[2:]))


def _numbers(single: SingleAgent, joint: np.ndarray) -> np.ndarray:
    """The numbers of single-agent states."""
    number = {tuple(row): i for i, row in enumerate(single.states.astype(int).tolist())}
    flat = joint.reshape(-1, joint.shape[-1]).astype(int).tolist()
    return np.array([number[tuple(row)] for row in flat]).reshape(joint.shape[:-1])


def _pearson(left: np.ndarray, right: np.ndarray) -> float:
    finite = np.isfinite(left) & np.isfinite(right)
    return float(np.corrcoef(left[finite], right[finite])[0, 1])


def _by_name(discovery: Discovery, values: Any) -> dict[str, float]:
    names = discovery.representation.z_names(discovery.team)
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _timed(seconds: dict[str, float], name: str, make: Callable[[], Result]) -> Result:
    begun = time.perf_counter()
    result = jax.block_until_ready(make())
    seconds[name] = round(time.perf_counter() - begun, 2)
    return result


def _over_seeds(scores: list[Scores]) -> Scores:
    """Convert a list of nested dicts to a nested dict of lists."""
    first = scores[0]
    return {
        key: _over_seeds([score[key] for score in scores])
        if isinstance(value, dict)
        else [score[key] for score in scores]
        for key, value in first.items()
    }
