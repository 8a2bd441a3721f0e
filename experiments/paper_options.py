"""Train options with the paper's hyperparameters and several step costs, and measure their gain and termination.

    python -m experiments.paper_options grid-5x5-2p --seeds 3 --out results/options/paper-oracle.json

The costs are in standard deviations of the eigenfunction, the unit of the paper's reward. All costs are trained in one
vmapped program, on the same eigenfunctions. docs/findings/paper-options.md has the table.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import tyro

from cooptions.discovery.discovered import Discovered
from cooptions.files import encode, write_json
from cooptions.options.option_set import OptionSet
from cooptions.options.task import OptionTask
from cooptions.options.train import PAPER, OptionsConfig, eigenoptions, option_set, train_option_networks
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from experiments.option_quality import shares_of_optimal
from experiments.option_sight import Arguments as Study
from experiments.option_sight import configuration, discover, roll_outs, summary, tasks_of


@dataclass(frozen=True)
class Arguments:
    """Train options with the paper's hyperparameters at several step costs."""

    scenario: tyro.conf.Positional[str]
    out: Path
    costs: tuple[float, ...] = (0.01, 0.05, 0.1)
    """The step costs, which are subtracted from the reward of every step."""
    eigenfunctions: int = 2
    seeds: int = 1
    steps: int = 1_000_000
    transitions: int = 100_000
    num_starts: int = 256
    double: bool = False
    """Double Q-learning, as in JaxMARL's recurrent script."""
    shared: bool = False
    """Share one network between all agents, as in JaxMARL's scripts."""
    episode: int = 50
    """The steps of a training episode. Options are always executed for at most 50 steps."""


def recipe_of(arguments: Arguments) -> OptionsConfig:
    """The paper's hyperparameters with a step cost of 1, so that each option's `pace` is its cost."""
    network = replace(PAPER.learner.network, shared=arguments.shared)
    learner = replace(PAPER.learner, steps=arguments.steps, double=arguments.double, network=network)
    return replace(PAPER, step_cost=1.0, learner=learner)


def tasks_with_costs(config: Config, found: Discovered, arguments: Arguments) -> OptionTask:
    """The tasks of every option at each cost."""
    tasks = tasks_of(config, found)
    num_seeds, num_options, _ = tasks.weights.shape
    costs = jnp.repeat(jnp.asarray(arguments.costs, jnp.float32), num_options)
    return replace(
        tasks,
        weights=jnp.tile(tasks.weights, (1, len(arguments.costs), 1)),
        pace=jnp.broadcast_to(costs, (num_seeds, costs.size)),
        max_steps=arguments.episode,
    )


def measure(config: Config, found: Discovered, arguments: Arguments) -> dict[str, Any]:
    """Train the options of all costs and seeds, then follow them."""
    tasks = tasks_with_costs(config, found, arguments)
    begun = time.perf_counter()
    network = jax.block_until_ready(train_option_networks(config.options, tasks, config.keys("options")))
    seconds = time.perf_counter() - begun
    tasks = replace(tasks, max_steps=config.options.max_steps)
    options = eigenoptions(config.env.num_agents, arguments.eigenfunctions)
    sets = option_set(config.options, network, options * len(arguments.costs), config.env)
    parts = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], (tasks, sets)) for seed in range(config.seeds)]
    rows = by_cost(config, parts, arguments, len(options))
    return {"training_seconds": round(seconds, 1), "options": [option.name for option in options], "costs": rows}


def by_cost(
    config: Config, parts: list[tuple[OptionTask, OptionSet]], arguments: Arguments, num_options: int
) -> dict[str, Any]:
    """The results of the options by cost."""
    followed = [roll_outs(config, task, options, arguments.num_starts) for task, options in parts]
    small = config.scenario == "grid-5x5-2p"
    shares = [shares_of_optimal(config, task, options) for task, options in parts] if small else []
    rows = {}
    for index, cost in enumerate(arguments.costs):
        own = slice(index * num_options, (index + 1) * num_options)
        row: dict[str, Any] = {"seeds": [seed[own] for seed in followed]}
        if small:
            row["share_of_optimal"] = [seed[own] for seed in shares]
        rows[str(cost)] = row | {"summary": summary(row)}
    return rows


def main(arguments: Arguments) -> None:
    study = Study(
        arguments.scenario,
        arguments.out,
        eigenfunctions=arguments.eigenfunctions,
        seeds=arguments.seeds,
        transitions=arguments.transitions,
    )
    config = replace(configuration(study), options=recipe_of(arguments))
    result = measure(config, discover(config), arguments)
    for cost, row in result["costs"].items():
        print(arguments.scenario, cost, json.dumps(row["summary"]), flush=True)
    write_json(arguments.out, {"config": encode(config), **result, "made_by": provenance()})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
