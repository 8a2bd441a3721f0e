"""Time recording and saving a walk of 500,000 joint transitions, after compilation.

python -m benchmarks.walk_speed --json
"""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cooptions.discovery.walks import walk_seeds
from cooptions.runs.config import Config
from cooptions.runs.directory import open_run, provenance


@dataclass(frozen=True)
class Arguments:
    """Record the walk twice and time the second."""

    scenario: str = "lbf-15x15-4p-3f"
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object at the end."""


def main(arguments: Arguments) -> dict:
    config = Config(scenario=arguments.scenario)
    for _ in range(2):
        begun = time.perf_counter()
        walks = walk_seeds(config.env, config.walk, config.keys("walk"))
        walked = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder), {"walk": {}}) as run:
        begun = time.perf_counter()
        run.save("walk", walks, seconds=walked)
        saved = time.perf_counter() - begun
    result = {"scenario": arguments.scenario, "transitions": config.walk.transitions}
    return {**result, "walk_seconds": round(walked, 2), "save_seconds": round(saved, 2), **provenance()}


if __name__ == "__main__":
    given = tyro.cli(Arguments)
    outcome = main(given)
    print(json.dumps(outcome) if given.json else outcome)
