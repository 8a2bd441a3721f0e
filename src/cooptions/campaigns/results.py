"""What was measured, as small files that outlive run directories: one for each row, share of training and metric."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cooptions.campaigns.rows import Block, Row, fraction_suffix, method_label, row_folder, settings_of
from cooptions.campaigns.work import has_scores, made, scores_of, settings_made
from cooptions.errors import ArtifactError
from cooptions.files import Json, differences, write_bytes
from cooptions.scores.statistics import Scores


@dataclass(frozen=True, eq=False)
class Result:
    """The scores of one row by one metric, of all seeds there are."""

    scenario: str
    """As tables call it."""
    method: str
    num_options: int
    """0 for all there are."""
    fraction: float
    """The share of the row's steps that was taken."""
    metric: str
    settings: Json
    """What the scores depend on besides the seed."""
    steps: Int[np.ndarray, " evaluation"]
    seeds: tuple[int, ...]
    means: Float[np.ndarray, "seed evaluation"]
    """Each seed's mean over the episodes of an evaluation; NaN once it diverged, infinite where the environment gave no
    number."""
    last: Float[np.ndarray, "seed episode"]
    """The scores of the last evaluation's episodes."""
    blocks: tuple[Json, ...]
    """How each block of seeds was made: commands, seconds, device, versions, date."""
    variant: str = ""
    """The name of its settings where the same method was measured with others, too."""

    @property
    def label(self) -> str:
        return method_label(self.method, self.num_options, self.variant)

    @property
    def discoveries(self) -> int:
        """How many sets of options were discovered for it; seeds that share one are not independent."""
        macro = self.settings["learning"]["macro"]
        if macro is None or macro["option_set"]:
            return 0
        shared = macro["discoveries"]  # of blocks that do not say so themselves
        sizes = [(len(each["seeds"]), each.get("discoveries", shared)) for each in self.blocks]
        return sum(min(num_seeds, asked or num_seeds) for num_seeds, asked in sizes)

    @property
    def scores(self) -> Scores:
        """One score for each seed and evaluation, as tables and curves show them."""
        return Scores(self.label, self.scenario, self.metric, self.steps, self.means[:, :, None])


def result_path(results: Path, row: Row, fraction: float, metric: str) -> Path:
    """The file of a row's scores by one metric."""
    share = fraction_suffix(fraction).replace("-", ".", 1)
    return results / "scores" / f"{row.place}.{row.label}{share}.{metric}.json"


def result_paths(results: Path, row: Row, fraction: float) -> list[Path]:
    """The files of a row that are there."""
    name = result_path(results, row, fraction, "*").name
    return [path for path in sorted((results / "scores").glob(name)) if path.name.count(".") == name.count(".")]


def collect(row: Row, fraction: float, runs: Path, results: Path) -> list[Path]:
    """Enter the scores of every finished run directory of a row. Seeds known from earlier, elsewhere, are kept."""
    found: dict[str, list[Result]] = {}
    for block in finished_blocks(row, fraction, runs):
        for each in _of_block(block, runs):
            found.setdefault(each.metric, []).append(each)
    written = []
    for metric, parts in found.items():
        path = result_path(results, row, fraction, metric)
        known = [read_result(path)] if path.exists() else []
        write_result(path, merged([*known, *parts], path))
        written.append(path)
    return written


def finished_blocks(row: Row, fraction: float, runs: Path) -> list[Block]:
    """The blocks of a row whose run directories hold scores, also such as were copied here; larger ones last."""
    pattern = re.compile(rf"seeds-(\d+)-(\d+){re.escape(fraction_suffix(fraction))}")
    matches = [pattern.fullmatch(path.name) for path in sorted((runs / row_folder(row)).glob("seeds-*"))]
    spans = [(int(match[1]), int(match[2])) for match in matches if match]
    found = [Block(row, first, last - first + 1, fraction) for first, last in spans]
    return sorted((block for block in found if has_scores(block, runs)), key=lambda block: block.num_seeds)


def merged(parts: Sequence[Result], path: Path) -> Result:
    """One result of several; where two hold the same seed, the later one counts."""
    first = parts[0]
    for part in parts[1:]:
        check_settings(part.settings, first.settings, path)
    by_seed = {seed: (part, index) for part in parts for index, seed in enumerate(part.seeds)}
    seeds = sorted(by_seed)
    blocks = []
    for part in parts:
        for block in part.blocks:
            kept = [seed for seed in block["seeds"] if by_seed[seed][0] is part]
            blocks += [block | {"seeds": kept}] if kept else []
    return replace(
        first,
        seeds=tuple(seeds),
        means=np.stack([part.means[index] for part, index in map(by_seed.__getitem__, seeds)]),
        last=np.stack([part.last[index] for part, index in map(by_seed.__getitem__, seeds)]),
        blocks=tuple(sorted(blocks, key=lambda block: block["seeds"])),
    )


def check_settings(wanted: Json, there: Json, path: Path) -> None:
    """Refuse to put scores of different settings into one file. How many seeds share a discovery may differ: every
    block tells its own."""
    if changes := differences(_comparable(there), _comparable(wanted)):
        told = "; ".join(changes)
        raise ArtifactError(f"{path}: made with other settings: {told}; delete it or choose another --results")


EARLIER: Json = {"options": {"sight": "observation"}}
"""What was so before there was a field for it: results from then do not name the field."""


def _comparable(settings: Json) -> Json:
    """Settings as of today, without how many seeds share a discovery."""
    filled = settings | {part: fields | settings[part] for part, fields in EARLIER.items() if part in settings}
    learning = filled.get("learning") or {}
    if not learning.get("macro"):
        return filled
    macro = {name: value for name, value in learning["macro"].items() if name != "discoveries"}
    return filled | {"learning": learning | {"macro": macro}}


def _of_block(block: Block, runs: Path) -> list[Result]:
    """What a finished run directory scored, each metric."""
    row = block.row
    settings = settings_of(settings_made(block, runs))
    check_settings(block.settings, settings, runs / block.place)
    note = made(block, runs)
    return [
        Result(
            scenario=row.place,
            method=row.method,
            num_options=row.num_options,
            fraction=block.fraction,
            metric=scores.metric,
            settings=settings,
            steps=scores.steps,
            seeds=tuple(block.seeds),
            means=scores.values.mean(axis=2).astype(np.float64),
            last=scores.values[:, -1].astype(np.float64),
            blocks=(note,),
            variant=row.variant,
        )
        for scores in scores_of(block, runs)
    ]


def read_results(results: Path) -> list[Result]:
    """Everything that was measured."""
    return [read_result(path) for path in sorted((results / "scores").glob("*.json"))]


def by_own_score(results: Sequence[Result]) -> list[Result]:
    """Each row once: by the environment's own score, or by its return where it has no other."""
    scored = {(each.scenario, each.label, each.fraction) for each in results if each.metric != "return"}
    return [
        each for each in results if each.metric != "return" or (each.scenario, each.label, each.fraction) not in scored
    ]


def read_result(path: Path) -> Result:
    try:
        value = json.loads(path.read_text())
        arrays = {name: np.array(value.pop(name), np.float64) for name in ("means", "last")}
        value |= {name: tuple(value[name]) for name in ("seeds", "blocks")}
        return Result(**value | arrays | {"steps": np.array(value["steps"]), "fraction": float(value["fraction"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path}: not a whole result: {error}; restore it, or delete it and rerun") from None


def write_result(path: Path, result: Result) -> None:
    """A line for each field, seed and block: a new one changes few lines."""
    fields: Json = {name: getattr(result, name) for name in result.__dataclass_fields__}
    if not result.variant:
        del fields["variant"]
    fields |= {"steps": result.steps.tolist(), "seeds": list(result.seeds)}
    fields |= {name: [[_number(x) for x in row] for row in fields[name]] for name in ("means", "last")}
    lines = ",\n".join(f" {json.dumps(name)}: {_value(name, value)}" for name, value in fields.items())
    write_bytes(path, f"{{\n{lines}\n}}\n".encode())


def _value(name: str, value: Any) -> str:
    if name not in ("means", "last", "blocks"):
        return json.dumps(value, sort_keys=True)
    return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"


def _number(value: float) -> float | str | None:
    """Four significant digits; JSON has no NaN and no infinity."""
    if np.isinf(value):
        return str(value)
    return None if np.isnan(value) else float(f"{value:.4g}")
