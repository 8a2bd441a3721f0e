"""Measure trained options: against exact value iteration on a 5x5 grid, and by their effect on the team's spread.

python -m experiments.option_quality --out runs/option-quality [--only oracle align-axes ...]

docs/findings/option-training.md shows the measured rows. results/findings/options.json has their numbers.
"""

import json
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console

from cooptions.discovery.oracles.option_values import joint_model, optimal_values, policy_values, step_rewards
from cooptions.envs.grid import Grid
from cooptions.files import encode, write_json
from cooptions.options.option_set import OptionSet
from cooptions.options.report import report_options
from cooptions.options.task import OptionTask, collect_starts
from cooptions.options.train import recipe, values_at
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from cooptions.runs.paper import METHODS
from cooptions.runs.presets import preset, with_parts
from cooptions.runs.run import Run
from cooptions.training.progress import Progress

ROWS: dict[str, tuple[str, str, str, int, int]] = {
    "oracle": ("grid-5x5-2p", "ours", "symmetric", 4, 0),
    "oracle-paper": ("grid-5x5-2p", "paper", "symmetric", 4, 0),
    "oracle-pairs": ("grid-5x5-4p", "ours", "symmetric", 4, 2),
    "align-axes": ("grid-15x15-4p", "ours", "axes", 10, 0),
    "align-symmetric": ("grid-15x15-4p", "ours", "symmetric", 10, 0),
    "align-paper": ("grid-15x15-4p", "paper", "symmetric", 10, 0),
    "hetero-pair": ("grid-10x10-2p,types=12", "ours", "axes", 6, 0),
    "hetero-trio": ("grid-15x15-3p,types=122", "ours", "axes", 6, 0),
}
"""For each row: scenario, recipe, basis, number of eigenfunctions, and members of an option (0: the whole team)."""


@dataclass(frozen=True)
class Arguments:
    """Train option sets and measure them."""

    out: Path = Path("runs/option-quality")
    only: tuple[str, ...] = ()
    """The rows to make. Empty for all."""
    seeds: int = 3
    seed: int = 0
    eigenfunctions: int = 0
    """The number of eigenfunctions for which options are trained; 0 for that of the row."""
    method: str = "mask"
    """The method of discovery."""
    steps: int = 1_000_000
    """Steps of training for each option."""
    transitions: int = 500_000
    """Transitions of the random walk."""
    num_starts: int = 256
    """The number of random starts from which each option is followed."""
    runs: Path | None = None
    """The folder for the rows' run directories, to draw figures from (`cooptions figure options --run RUNS/ROW`)."""


def configuration(row: str, arguments: Arguments) -> Config:
    scenario, recipe_name, basis, num_eigenfunctions, members = ROWS[row]
    config = preset(scenario)
    config = with_parts(config, METHODS[arguments.method](config))
    options = recipe(recipe_name, config.env)
    return replace(
        config,
        seed=arguments.seed,
        seeds=arguments.seeds,
        members=members,
        basis=basis,
        walk=replace(config.walk, transitions=arguments.transitions),
        laplacian=replace(config.laplacian, num_eigenfunctions=arguments.eigenfunctions or num_eigenfunctions),
        options=replace(options, learner=replace(options.learner, steps=arguments.steps)),
    )


def measure(config: Config, num_starts: int, console: Console, directory: Path | None = None) -> dict[str, Any]:
    """Train the options of all seeds. Returns their reports, and their returns relative to the optimum if known."""
    progress = Progress(console)
    place = nullcontext(directory) if directory else tempfile.TemporaryDirectory()
    with place as folder, Run.open(config, Path(folder), "options", progress) as run:
        tasks, option_sets = run.option_tasks(), run.options
        seconds = {name: entry["seconds"] for name, entry in run.directory.manifest.items()}
    seeds = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], (tasks, option_sets)) for seed in range(config.seeds)]
    result: dict[str, Any] = {
        "seconds": seconds,
        "reports": [
            [asdict(report) for report in _reports(config, task, options, num_starts)] for task, options in seeds
        ],
    }
    alone = members_alone(config)
    if alone.free.sum() ** alone.num_agents <= 1000:
        result["share_of_optimal"] = [shares_of_optimal(config, task, options) for task, options in seeds]
    return result


def _reports(config: Config, task: OptionTask, options: OptionSet, num_starts: int) -> Any:
    key = jax.random.key(2**20 + config.seed)
    begun = collect_starts(config.option_env, num_starts, 0, key=key)
    return report_options(config.option_env, options, begun, key=key)


def members_alone(config: Config) -> Grid:
    """The grid with no more agents than take part in an option: without collisions the others make no difference."""
    env = config.env
    assert isinstance(env, Grid)
    assert not (config.members and (env.collisions or env.types)), "who plays depends on the others"
    return replace(env, num_agents=config.option_env.num_agents)


def shares_of_optimal(config: Config, task: OptionTask, options: OptionSet) -> list[float]:
    """Each option's discounted return divided by that of the optimal joint policy, averaged over all start states."""
    env, settings = members_alone(config), config.options
    model = joint_model(env)
    joint = jnp.asarray(model.positions, jnp.float32)
    functions = jax.jit(values_at)(task.evaluate, joint)
    values = np.asarray(functions @ task.weights.T, np.float64)
    chosen = np.asarray(greedy_actions(env, options, model.positions))
    shares = []
    for option in range(options.num_options):
        pace = float(task.pace[option])
        reward = step_rewards(model, values[:, option], pace * settings.step_cost, pace * settings.effort)
        best = optimal_values(model, reward, settings.learner.discount)
        reached = policy_values(model, reward, chosen[:, option], settings.learner.discount, settings.max_steps)
        shares.append(float(reached.mean() / best.mean()))
    return shares


def greedy_actions(env: Any, options: OptionSet, positions: np.ndarray) -> jax.Array:
    """Int[state, option, agent]: the actions of every option in every joint state."""

    def at(position: jax.Array) -> jax.Array:
        state = env.place(position)
        return options.actions(env.agent_states(state), env.observe(state), env.action_mask(state))

    return jax.jit(jax.vmap(at))(jnp.asarray(positions))


def main(arguments: Arguments) -> None:
    console = Console(stderr=True)
    for row in arguments.only or ROWS:
        config = configuration(row, arguments)
        result = measure(config, arguments.num_starts, console, arguments.runs and arguments.runs / row)
        write_json(arguments.out / f"{row}.json", {"config": encode(config), **result, "made_by": provenance()})
        shares = result.get("share_of_optimal")
        print(row, json.dumps({"seconds": result["seconds"], "share_of_optimal": shares}))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
