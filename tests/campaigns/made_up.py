"""Invented results for tests."""

import jax
import numpy as np

from cooptions.campaigns.results import Result

LEARNER = {"type": "QConfig", "steps": 3200, "num_envs": 32, "rollout": 10}


def result(
    method,
    finals,
    *,
    scenario="lbf-15x15-4p-3f",
    num_options=0,
    fraction=1.0,
    metric="percent_eaten",
    first=0,
    discoveries=0,
):
    """A result whose seeds have these final scores, after a first evaluation of 0."""
    macro = {"option_set": "", "discoveries": discoveries}
    means = np.stack([np.zeros(len(finals)), np.array(finals, float)], axis=1)
    seeds = tuple(range(first, first + len(finals)))
    block = {
        "seeds": list(seeds),
        "commands": [f"cooptions train {scenario} --method {method}"],
        "members": 2 * len(finals),
        "seconds": 120.0,
        "discovery_seconds": 30.0,
        "made_by": {"device": "1 x H200", "date": "2026-11-15T10:00:00Z", "commit": "abc", "versions": {"jax": "1"}},
    }
    return Result(
        scenario=scenario,
        method=method,
        num_options=num_options,
        fraction=fraction,
        metric=metric,
        settings={
            "learning": {"learner": LEARNER, "macro": macro if "+" in method else None},
            "laplacian": {"num_eigenfunctions": 10},
        },
        steps=np.array([1600, 3200]),
        seeds=seeds,
        means=means,
        last=np.repeat(means[:, -1:], 3, axis=1),
        blocks=(block,),
    )


def keys_to_numbers(keys):
    """A distinct number for each seed."""
    return (np.asarray(jax.random.key_data(keys))[:, -1] % 1000).astype(np.float32)


GRID = "grid-4x4-2p,time_limit=10"

SMALL = """
  walk: {transitions: 2000, num_envs: 10}
  laplacian: {num_eigenfunctions: 1, num_landmarks: 10}
  representation: {steps: 100, batch: 32}
  options: {num_starts: 8, max_steps: 4}
  options.learner: {steps: 320, num_envs: 4, batch: 4, capacity: 400, learning_starts: 80}
  learning: {evaluations: 2, episodes: 3}
  learning.learner: {num_envs: 4, rollout: 10, batch: 4, capacity: 400, learning_starts: 80}
  learning.learner.network: {hidden: [8], recurrent: false, half: false}
"""

TINY = f"""
name: tiny
seeds: 1
block: 1
steps: 800
set: {SMALL}
lineups:
  plain:
    scenarios: ["{GRID}"]
    methods: [iql]
    seeds: 2
  with-options:
    scenarios: ["{GRID}"]
    methods: [iql+hit, iql+mask]
compare:
  H1: {{claim: options help, left: [iql+hit, iql+mask], right: iql}}
figures:
  curves: {{kind: curves}}
"""
"""Three rows, two programs, four blocks."""
