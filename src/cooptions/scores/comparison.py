"""Comparison of methods: a table of final scores, and export to the marl-eval JSON format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from cooptions.errors import require
from cooptions.files import write_bytes
from cooptions.scores.statistics import Bootstrap, Estimate, Scores, final_iqm, left_out, probability_of_improvement
from cooptions.scores.tables import markdown_table


@dataclass(frozen=True)
class Row:
    """One line of a comparison: the final score of one method in one scenario."""

    scenario: str
    metric: str
    method: str
    iqm: Estimate
    num_seeds: int
    num_diverged: int
    num_unscored: int
    """Sound seeds for which the environment returned non-finite scores."""
    num_steps: int


def compare(scores: Sequence[Scores], *, last: int = 1, bootstrap: Bootstrap = Bootstrap()) -> list[Row]:
    """One row for each method and scenario, in the order given."""
    return [
        Row(
            each.scenario,
            each.metric,
            each.name,
            final_iqm(each, last=last, bootstrap=bootstrap),
            num_seeds=len(each.kept),
            num_diverged=int(each.diverged.sum()),
            num_unscored=int(each.unscored.sum()),
            num_steps=int(each.steps[-1]),
        )
        for each in scores
    ]


def improvements(scores: Sequence[Scores], *, last: int = 1, bootstrap: Bootstrap = Bootstrap()) -> list[str]:
    """One sentence for each method that is not the first in its scenario: how both end, and which is above.

    Pairs with fewer than two seeds on either side are left out, since they have no interval.
    """
    first: dict[tuple[str, str], Scores] = {}
    lines = []
    for each in scores:
        base = first.setdefault((each.scenario, each.metric), each)
        if each is not base and min(len(each.kept), len(base.kept)) > 1:
            ends = [final_iqm(method, last=last, bootstrap=bootstrap) for method in (each, base)]
            above = probability_of_improvement([each], [base], last=last, bootstrap=bootstrap)
            lines.append(
                f"{each.scenario}: {each.name} ends with {each.metric} {ends[0]}, {base.name} with {ends[1]}. "
                f"A seed of {each.name} ends above one of {base.name} with probability {above}."
            )
    return lines


def rich_table(rows: Sequence[Row]) -> Table:
    """The comparison as a table for the terminal."""
    table = Table(*_HEADINGS)
    for row in rows:
        table.add_row(*map(Text, _cells(row)))
    return table


def markdown_comparison(rows: Sequence[Row]) -> str:
    """The comparison as a Markdown table."""
    return markdown_table(_HEADINGS, [_cells(row) for row in rows])


def marl_eval_json(scores: Sequence[Scores]) -> dict[str, Any]:
    """The scores in marl-eval's format, nested by environment, task, algorithm, seed, step and metric.

    Metrics of one method and scenario are merged. Seeds that diverged or have non-finite scores are left out; marl-eval
    requires the same seeds for every method and raises its own error. `absolute_metrics` holds the episodes of the last
    checkpoint, because the best checkpoint is not evaluated on fresh episodes. marl-eval takes the order of steps from
    the order of keys, so write the file with `save_marl_eval`.
    """
    tree: dict[str, Any] = {}
    for each in scores:
        require("," not in each.name, f"name {each.name!r}: marl-eval allows no comma in a method's name")
        family, _, task = each.scenario.partition("-")
        runs = tree.setdefault(family, {}).setdefault(task or family, {}).setdefault(each.name, {})
        alike = [other for other in scores if (other.name, other.scenario) == (each.name, each.scenario)]
        require(
            all(np.array_equal(other.steps, each.steps) and len(other.values) == len(each.values) for other in alike),
            f"the metrics of {each.name} in {each.scenario} have different steps or seeds",
        )
        require(
            len({other.metric for other in alike}) == len(alike),
            f"{each.name} in {each.scenario}: {each.metric} was given twice; give each run another name",
        )
        lost = np.any([other.diverged | other.unscored for other in alike], axis=0)
        for seed in np.flatnonzero(~lost):
            run = runs.setdefault(f"seed_{seed}", {})
            for index, (step, episodes) in enumerate(zip(each.steps, each.values[seed], strict=True)):
                run.setdefault(f"step_{index}", {"step_count": int(step)})[each.metric] = episodes.tolist()
            run.setdefault("absolute_metrics", {})[each.metric] = each.values[seed, -1].tolist()
    return tree


def save_marl_eval(path: Path, scores: Sequence[Scores]) -> None:
    """Write `marl_eval_json` to a file, with the keys in order."""
    write_bytes(path, json.dumps(marl_eval_json(scores), allow_nan=False).encode())


_HEADINGS = ("scenario", "metric", "method", "IQM [95% interval]", "seeds", "steps")


def _cells(row: Row) -> list[str]:
    lost = left_out(row.num_diverged, row.num_unscored)
    seeds = f"{row.num_seeds} ({lost})" if lost else str(row.num_seeds)
    return [row.scenario, row.metric, row.method, str(row.iqm), seeds, f"{row.num_steps / 1e6:.4g}M"]
