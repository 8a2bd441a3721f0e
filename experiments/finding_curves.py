"""Draw learning curves from a file of `results/findings`.

    python -m experiments.finding_curves results/findings/meeting-separate-networks.json \
        --runs iql-ns=IQL vdn-ns=VDN mappo-ns=MAPPO iql-ns+iaro="IQL + iaro" iql-ns+hit="IQL + hit" \
        --title "Meeting on a 15x15 grid, 4 agents" --out results/findings/meeting-separate-networks
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cooptions.files import read_json
from cooptions.plots.canvas import write_canvas
from cooptions.plots.curves import plot_learning_curves
from cooptions.scores.statistics import Scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", nargs="+", required=True, metavar="RUN=LABEL", help="runs of the file, in order")
    parser.add_argument("--title", default="")
    parser.add_argument("--out", type=Path, required=True, help="the picture, without its ending")
    arguments = parser.parse_args()
    runs = read_json(arguments.file)["runs"]
    named = (each.partition("=")[::2] for each in arguments.runs)
    curves = [scores(label or run, arguments.title, runs[run]) for run, label in named]
    print(*write_canvas(plot_learning_curves(curves), arguments.out, ["png"]))


def scores(label: str, title: str, run: dict[str, Any]) -> Scores:
    """The scores of a run in the file, which has one mean per evaluation."""
    values = np.asarray(run["scores"], float)[..., None]
    return Scores(label, title, run["metric"], np.asarray(run["steps"]), values)


if __name__ == "__main__":
    main()
