"""Compare the executors (inline, processes, Ray) on a campaign of small blocks: wall time, and equality of scores.

python -m benchmarks.executors    # writes results/speed/executors-cpu.json
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from cooptions.campaigns.executors import AbstractExecutor, Inline, OnRay, Processes, Site
from cooptions.campaigns.jobs import jobs
from cooptions.campaigns.live import Watch
from cooptions.campaigns.plan import Places, make_plan
from cooptions.campaigns.reading import parse_campaign
from cooptions.campaigns.results import collect, read_results
from cooptions.files import write_json
from cooptions.runs.directory import provenance
from cooptions.scores.tables import markdown_table

OUT = Path("results/speed/executors-cpu.json")
CAMPAIGN = """
scenarios: ["grid-5x5-2p,task=meet"]
methods: [iql]
seeds: 8
block: 1
steps: 20_000
set:
  learning: {evaluations: 5, episodes: 16}
  learning.learner: {num_envs: 16, batch: 32, capacity: 5000, learning_starts: 1000}
  learning.learner.network: {hidden: [32], recurrent: false, half: false}
"""
"""Eight blocks of one seed, each with its own program."""

EXECUTORS: dict[str, Callable[[Site], AbstractExecutor]] = {
    "inline": Inline,
    "processes, 2 beside each other": lambda site: Processes(site, 2),
    "ray, 1 core a task": OnRay,
}


def run(make: Callable[[Site], AbstractExecutor], folder: Path) -> tuple[float, np.ndarray]:
    """The wall seconds of all blocks, and the scores of every seed."""
    (row, seeding) = next(iter(parse_campaign(CAMPAIGN.encode()).wanted.items()))
    plan = make_plan({row: seeding}, Places(folder, folder), members=1)
    console = Console(quiet=True)
    begun = time.perf_counter()
    executor = make(Site(folder, console, list, Watch(plan.rows, plan.missing, console, folder / "logs")))
    failures = executor.run(jobs(plan, folder))
    seconds = time.perf_counter() - begun
    assert not failures, failures
    collect(row, 1.0, folder, folder)
    (result,) = [each for each in read_results(folder) if each.metric == "return"]
    return seconds, result.means


def main() -> None:
    rows, expected = [], None
    for name, make in EXECUTORS.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds, scores = run(make, Path(folder))
        expected = scores if expected is None else expected
        rows.append({"name": name, "seconds": round(seconds, 1), "equal": bool(np.array_equal(scores, expected))})
    write_json(OUT, {"campaign": CAMPAIGN, "rows": rows, "cores": os.cpu_count(), **provenance()})
    cells = [[row["name"], f"{row['seconds']:.1f}", "yes" if row["equal"] else "no"] for row in rows]
    print(markdown_table(["executor", "wall seconds", "scores equal to inline"], cells), end="")
    print(json.dumps({"load": os.getloadavg()}))


if __name__ == "__main__":
    main()
