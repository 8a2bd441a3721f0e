"""Compare options with relation sight and with observation sight: their gains, and the cost of training them.

    python -m experiments.option_sight grid-15x15-4p --eigenfunctions 2 --out results/options/sight-grid.json

Both kinds follow the same eigenfunctions, in the same process, with the same seeds. Each option is followed from 256
states of random play. Its share of the possible gain is its mean climb divided by the difference between the highest
and the mean start. On small grids, the discounted return is also compared with that of the optimal joint policy.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np
import tyro

from cooptions.discovery.discover import fit_representation, fit_spectrum
from cooptions.discovery.discovered import Discovered
from cooptions.discovery.walks import index_futures, walk_seeds
from cooptions.envs.rollout import Runners
from cooptions.files import encode, write_json
from cooptions.learners.q_learning import QLearner
from cooptions.options.execution import follow_all
from cooptions.options.option_set import OptionSet
from cooptions.options.sight import Sight
from cooptions.options.task import OptionTask, collect_starts
from cooptions.options.train import (
    OptionTraining,
    option_set,
    option_tasks,
    recipe,
    train_option_networks,
    values_at,
)
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from cooptions.runs.paper import METHODS
from cooptions.runs.presets import preset, with_parts
from cooptions.training.memory import stage_bytes
from experiments.option_quality import shares_of_optimal


@dataclass(frozen=True)
class Arguments:
    """Train options of both kinds and compare them."""

    scenario: tyro.conf.Positional[str]
    out: Path
    """The result file, in JSON."""
    sights: tuple[Sight, ...] = get_args(Sight)
    eigenfunctions: int = 4
    seeds: int = 1
    steps: int = 300_000
    """Steps of training for each option."""
    transitions: int = 200_000
    """Transitions of the random walk."""
    num_starts: int = 256
    options: str = "ours"
    """The recipe of option training."""


def configuration(arguments: Arguments) -> Config:
    config = preset(arguments.scenario)
    config = with_parts(config, METHODS["hit"](config))
    return replace(
        config,
        seeds=arguments.seeds,
        walk=replace(config.walk, transitions=arguments.transitions),
        laplacian=replace(config.laplacian, num_eigenfunctions=arguments.eigenfunctions),
    )


def with_sight(config: Config, sight: Sight, arguments: Arguments) -> Config:
    options = recipe(arguments.options, config.env)
    learner = replace(options.learner, steps=arguments.steps)
    return replace(config, options=replace(options, sight=sight, learner=learner))


def discover(config: Config) -> Discovered:
    """The eigenfunctions of every seed."""
    walks = walk_seeds(config.env, config.walk, config.keys("walk"))
    representation = fit_representation(config.discovery, index_futures(walks), config.keys("representation"))
    spectrum = fit_spectrum(config.discovery, representation, walks, config.keys("laplacian"))
    return Discovered(config.discovery, representation, spectrum)


def tasks_of(config: Config, found: Discovered) -> OptionTask:
    return option_tasks(config.env, found, config.options, config.eigenoptions, config.keys("starts"))


def measure(config: Config, found: Discovered, num_starts: int) -> dict[str, Any]:
    """Train the options of all seeds, then follow them."""
    tasks, keys = tasks_of(config, found), config.keys("options")
    memory = stage_bytes(OptionTraining(QLearner(config.options.learner)), tasks, keys)
    begun = time.perf_counter()
    network = jax.block_until_ready(train_option_networks(config.options, tasks, keys))
    seconds = time.perf_counter() - begun
    sets = option_set(config.options, network, config.eigenoptions, config.env)
    seeds = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], (tasks, sets)) for seed in range(config.seeds)]
    result: dict[str, Any] = {
        "training_seconds": round(seconds, 1),
        "training_gigabytes": round(memory / 1e9, 3),
        "options": [option.name for option in config.eigenoptions],
        "seeds": [roll_outs(config, task, options, num_starts) for task, options in seeds],
    }
    if config.scenario == "grid-5x5-2p":
        result["share_of_optimal"] = [shares_of_optimal(config, task, options) for task, options in seeds]
    return result | {"summary": summary(result)}


def roll_outs(config: Config, task: OptionTask, options: OptionSet, num_starts: int) -> list[dict[str, float]]:
    """The gain, termination and length of each option, from states of random play that are not used in training."""
    env, key = config.env, jax.random.key(2**20 + config.seed)
    begun = collect_starts(env, num_starts, config.options.start_steps, key=key)
    followed = follow_all(env, options, begun, key=key)
    return [
        follow_up(task, option, before, jax.tree.map(lambda leaf, option=option: leaf[option], followed))
        for option, before in enumerate([start_values(config, task, begun)] * options.num_options)
    ]


def start_values(config: Config, task: OptionTask, begun: Runners) -> np.ndarray:
    """The eigenfunctions at the starts."""
    joint = jax.vmap(config.env.agent_states)(begun.state)
    return np.asarray(values_at(task.evaluate, joint))


def follow_up(task: OptionTask, option: int, before: np.ndarray, followed: Any) -> dict[str, float]:
    """One option's gain relative to the possible gain, the fraction that terminated, and the mean length."""
    weights = np.asarray(task.weights)[option]
    ends = followed.agent_states[:, -1]
    start, end = before @ weights, np.asarray(values_at(task.evaluate, ends)) @ weights
    possible = start.max() - start.mean()
    steps = np.asarray(followed.length)
    return {
        "share_of_gain": round(float((end.mean() - start.mean()) / possible), 4) if possible > 1e-6 else float("nan"),
        "share_terminated": round(float((np.asarray(followed.terminated) & (steps < task.max_steps)).mean()), 4),
        "mean_length": round(float(steps.mean()), 2),
    }


def summary(result: dict[str, Any]) -> dict[str, float]:
    """Means and worst cases over options and seeds."""
    rows = [row for seed in result["seeds"] for row in seed]
    numbers: dict[str, float] = {}
    for name in ("share_of_gain", "share_terminated"):
        values = [row[name] for row in rows]
        numbers |= {f"mean {name}": float(np.nanmean(values)), f"worst {name}": float(np.nanmin(values))}
    numbers["mean length"] = float(np.mean([row["mean_length"] for row in rows]))
    shares = np.array(result.get("share_of_optimal", []))
    if shares.size:
        numbers |= {"mean share_of_optimal": float(shares.mean()), "worst share_of_optimal": float(shares.min())}
    return {name: round(value, 4) for name, value in numbers.items()}


def main(arguments: Arguments) -> None:
    base = configuration(arguments)
    found = discover(base)
    rows = {}
    for sight in arguments.sights:
        config = with_sight(base, sight, arguments)
        rows[sight] = {"config": encode(config.options), **measure(config, found, arguments.num_starts)}
        print(arguments.scenario, sight, json.dumps({k: rows[sight][k] for k in list(rows[sight]) if "train" in k}))
        print(json.dumps(rows[sight]["summary"]), flush=True)
        write_json(arguments.out, {"config": encode(base), "rows": rows, "made_by": provenance()})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
