"""Train one option set in an empty grid, and use it unchanged in every task on that grid.

    python -m experiments.option_travel --out results/options/travel.json

Each option is followed from 256 states of random play in each task. In foraging, agents cannot share a cell and apples
are obstacles. The row of the grid with collisions isolates the effect of the former.
"""

import json
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import tyro

from cooptions.envs.base import AbstractEnv
from cooptions.envs.scenarios import make_env
from cooptions.files import encode, write_json
from cooptions.options.report import report_options
from cooptions.options.sharing.storage import load_option_set, save_option_set
from cooptions.options.task import OptionTask, collect_starts
from cooptions.options.train import option_set, train_option_networks
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from experiments.option_sight import Arguments as Study
from experiments.option_sight import configuration, discover, roll_outs, tasks_of, with_sight

TASKS = (
    "grid-15x15-4p",
    "grid-15x15-4p,task=meet",
    "grid-15x15-4p,collisions=true",
    "lbf-15x15-4p-3f",
    "lbf-15x15-4p-5f",
    "lbf-15x15-4p-3f,rules=jumanji",
)
"""The tasks. The set is trained in the first one."""


@dataclass(frozen=True)
class Arguments:
    """Train options once and follow them in every task."""

    out: Path
    tasks: tuple[str, ...] = TASKS
    eigenfunctions: int = 2
    steps: int = 300_000
    transitions: int = 200_000
    num_starts: int = 256


def train_at_home(arguments: Arguments, path: Path) -> tuple[Config, OptionTask]:
    """Train the set in the first task and save it at `path`."""
    study = Study(
        arguments.tasks[0],
        arguments.out,
        eigenfunctions=arguments.eigenfunctions,
        steps=arguments.steps,
        transitions=arguments.transitions,
    )
    config = with_sight(configuration(study), "relation", study)
    tasks = tasks_of(config, discover(config))
    network = train_option_networks(config.options, tasks, config.keys("options"))
    task, network = jax.tree.map(lambda leaf: leaf[0], (tasks, network))
    options = option_set(config.options, network, config.eigenoptions, config.env)
    save_option_set(path, options, config.env, (), provenance=provenance(), scenario=config.scenario)
    return config, task


def follow_in(scenario: str, config: Config, task: OptionTask, path: Path, num_starts: int) -> dict[str, Any]:
    """The gains and reports of the saved options in one task."""
    env: AbstractEnv = make_env(scenario)
    options, key = load_option_set(path, env), jax.random.key(2**20)
    begun = collect_starts(env, num_starts, config.options.start_steps, key=key)
    return {
        "gains": roll_outs(replace(config, scenario=scenario), task, options, num_starts),
        "reports": [asdict(report) for report in report_options(env, options, begun, key=key)],
    }


def main(arguments: Arguments) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set"
        config, task = train_at_home(arguments, path)
        rows = {}
        for scenario in arguments.tasks:
            rows[scenario] = follow_in(scenario, config, task, path, arguments.num_starts)
            first = rows[scenario]["reports"][0]
            spreads = [feature["ratio"]["value"] for feature in first["features"]]
            print(scenario, first["name"], json.dumps([rows[scenario]["gains"][0], spreads]), flush=True)
            write_json(arguments.out, {"config": encode(config), "rows": rows, "made_by": provenance()})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
