"""Result files: the scores of a row in small JSON files that outlive run directories, one per fraction and metric."""

import copy
import json
import re
from collections.abc import Mapping, Sequence
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
    """The scores of one row by one metric, for all its seeds."""

    scenario: str
    """The scenario's name in tables."""
    method: str
    num_options: int
    """The number of options used; 0 for all of the set."""
    fraction: float
    """The fraction of the row's steps that was trained for."""
    metric: str
    settings: Json
    """The configuration that the scores depend on, without the seeds."""
    steps: Int[np.ndarray, " evaluation"]
    seeds: tuple[int, ...]
    means: Float[np.ndarray, "seed evaluation"]
    """Each seed's mean over the episodes of an evaluation.

    It is NaN from the evaluation at which the seed diverged, and infinite if the environment's score was not finite.
    """
    last: Float[np.ndarray, "seed episode"]
    """The scores of the last evaluation's episodes."""
    blocks: tuple[Json, ...]
    """How each block of seeds was made: commands, seconds, device, versions, date."""
    variant: str = ""
    """The name of its overrides, to distinguish it from the same method with other settings."""

    @property
    def label(self) -> str:
        return method_label(self.method, self.num_options, self.variant)

    @property
    def discoveries(self) -> int:
        """The number of option sets discovered for it. Seeds that share a set are not independent."""
        macro = self.settings["learning"]["macro"]
        if macro is None or macro["option_set"]:
            return 0
        shared = macro["discoveries"]  # the default for blocks without their own number
        sizes = [(len(each["seeds"]), each.get("discoveries", shared)) for each in self.blocks]
        return sum(min(num_seeds, asked or num_seeds) for num_seeds, asked in sizes)

    @property
    def scores(self) -> Scores:
        """One score per seed and evaluation, as shown in tables and curves."""
        return Scores(self.label, self.scenario, self.metric, self.steps, self.means[:, :, None])


def result_path(results: Path, row: Row, fraction: float, metric: str) -> Path:
    """The path of a row's scores by one metric."""
    share = fraction_suffix(fraction).replace("-", ".", 1)
    return results / "scores" / f"{row.place}.{row.label}{share}.{metric}.json"


def result_paths(results: Path, row: Row, fraction: float) -> list[Path]:
    """The existing result files of a row."""
    name = result_path(results, row, fraction, "*").name
    return [path for path in sorted((results / "scores").glob(name)) if path.name.count(".") == name.count(".")]


def collect(row: Row, fraction: float, runs: Path, results: Path) -> list[Path]:
    """Write the scores of all finished run directories of a row to its result files. Other known seeds are kept."""
    found: dict[str, list[Result]] = {}
    for block in finished_blocks(row, fraction, runs):
        for each in _block_results(block, runs):
            found.setdefault(each.metric, []).append(each)
    written = []
    for metric, parts in found.items():
        path = result_path(results, row, fraction, metric)
        known = [read_result(path)] if path.exists() else []
        write_result(path, merged([*known, *parts], path))
        written.append(path)
    return written


def finished_blocks(row: Row, fraction: float, runs: Path) -> list[Block]:
    """The blocks of a row whose run directories have scores, including copied directories. Larger blocks come last."""
    pattern = re.compile(rf"seeds-(\d+)-(\d+){re.escape(fraction_suffix(fraction))}")
    matches = [pattern.fullmatch(path.name) for path in sorted((runs / row_folder(row)).glob("seeds-*"))]
    spans = [(int(match[1]), int(match[2])) for match in matches if match]
    found = [Block(row, first, last - first + 1, fraction) for first, last in spans]
    return sorted((block for block in found if has_scores(block, runs)), key=lambda block: block.num_seeds)


def merged(parts: Sequence[Result], path: Path) -> Result:
    """Merge results into one. If two have the same seed, the later one wins."""
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
    """Raise `ArtifactError` if scores of different settings would go into one file.

    The number of seeds that share a discovery may differ, because every block records its own.
    """
    if changes := differences(_comparable(there, wanted), _comparable(wanted, there)):
        listed = "; ".join(changes)
        raise ArtifactError(f"{path}: made with other settings: {listed}; delete it or choose another --results")


EARLIER: Mapping[tuple[str, ...], str] = {
    ("env", "mask"): "reach",
    ("options", "sight"): "observation",
    ("learning", "macro", "start"): "threshold",
    ("learning", "macro", "end"): "each",
    ("learning", "macro", "placing"): "subteams",
}
"""The values of fields that older results lack, because the fields did not exist yet."""


def _comparable(settings: Json, other: Json) -> Json:
    """The settings without the number of seeds that share a discovery, and with the fields that only `other` knows."""
    filled = copy.deepcopy(settings)
    for (*parts, name), value in EARLIER.items():
        if name in _part(other, parts):
            _part(filled, parts).setdefault(name, value)
    _part(filled, ["learning", "macro"]).pop("discoveries", None)
    return filled


def _part(settings: Json, names: Sequence[str]) -> Json:
    """A part of the settings; an empty one if there is none."""
    for name in names:
        settings = settings.get(name) or {}
    return settings


def _block_results(block: Block, runs: Path) -> list[Result]:
    """The scores of a finished run directory, one result per metric."""
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
    """All results in a folder."""
    return [read_result(path) for path in sorted((results / "scores").glob("*.json"))]


def by_own_score(results: Sequence[Result]) -> list[Result]:
    """One result per row: the environment's own score, or the return if there is no such score."""
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
    """Write a result with one line per field, seed and block, so that a new seed changes few lines."""
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
    """A number rounded to four significant digits. NaN becomes None and infinity a string, since JSON has neither."""
    if np.isinf(value):
        return str(value)
    return None if np.isnan(value) else float(f"{value:.4g}")
