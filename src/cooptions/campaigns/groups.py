"""Train several blocks in one program, in the group's own directory, and copy each block's part to its run."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp

from cooptions.campaigns.rows import Block
from cooptions.envs.base import AbstractEnv
from cooptions.errors import ArtifactError
from cooptions.files import Json, encode, write_bytes, write_json
from cooptions.learners.learn import learn_seeds
from cooptions.runs.config import config_of_run
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.scores.statistics import save_scores
from cooptions.training.metrics import MetricsFile, line_of
from cooptions.training.progress import Progress

SCORES = "1"
"""The name of the scores in the artefact of `learning`, which is a pair of policies and scores."""


@dataclass(frozen=True)
class Group:
    """Blocks that train in one call, because they differ only in their options and seeds."""

    blocks: tuple[Block, ...]

    @property
    def num_seeds(self) -> int:
        return sum(block.num_seeds for block in self.blocks)


def learn_together(group: Group, envs: Sequence[AbstractEnv], runs: Path, progress: Progress) -> RunDirectory:
    """Train all blocks of a group in one call, each in its own environment. Returns the group's directory.

    If it was stopped, it resumes from the group's checkpoint, provided that the group is the same.
    """
    shared = group_config(group, runs)
    with open_run(group_path(group, shared, runs), {"learning": shared}) as where:
        if "learning" not in where.manifest:
            progress.console.print(f"[bold]{'; '.join(map(str, group.blocks))}[/]")
            keys = jnp.concatenate([block.config.keys("learning") for block in group.blocks])
            progress.seeds = [seed for block in group.blocks for seed in block.seeds]
            stage, data = group.blocks[0].config.learning.stage, concatenate(envs)
            where.stage(
                "learning",
                lambda: learn_seeds(stage, data, keys, directory=where.path, progress=progress),
                lambda arrays: arrays,
            )
        return where


def group_config(group: Group, runs: Path) -> Json:
    """What the group's training depends on: the program, the seeds and the option files.

    Other blocks, or options that were discovered again, form another group, which cannot use this one's checkpoint.
    """
    config = group.blocks[0].config
    return {
        "scenario": config.scenario,
        "learning": encode(replace(config.learning, name="")),
        "blocks": [{"run": str(block.place), "seeds": list(block.seeds)} for block in group.blocks],
        "options": [
            RunDirectory(runs / block.place).manifest.get("options", {}).get("files") for block in group.blocks
        ],
    }


def group_path(group: Group, config: Json, runs: Path) -> Path:
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    return runs / "groups" / f"{group.blocks[0].row.place}-{digest[:12]}"


def concatenate(envs: Sequence[AbstractEnv]) -> AbstractEnv:
    """The environments of several blocks as one pytree, concatenated along the leading seed axis."""
    if any(jax.tree.structure(env) != jax.tree.structure(envs[0]) for env in envs):
        raise ArtifactError("group: the option sets of these runs differ in structure and cannot learn in one program")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *envs)


def finish_groups(runs: Path, *, trust: bool = False) -> None:
    """Call `hand_out` for all groups that finished training but may have been stopped before they handed out."""
    for path in sorted((runs / "groups").glob("*")):
        where = RunDirectory(path)
        if "learning" in where.manifest:
            hand_out(where, runs, trust=trust)


def hand_out(where: RunDirectory, runs: Path, *, trust: bool = False) -> None:
    """Copy each block's part of a group's training to the block's run directory.

    Blocks that have their part already, or whose directories are gone, are skipped. Code from outside that their
    configurations name is imported only if `trust` is true.
    """
    entry = where.manifest["learning"]
    begin, waiting = 0, []
    for block in entry["config"]["blocks"]:
        run, part = runs / block["run"], slice(begin, begin + len(block["seeds"]))
        begin = part.stop
        if run.exists() and "learning" not in RunDirectory(run).manifest:
            waiting.append((run, part))
    if waiting:
        note = {"members": begin, "group": entry["config"], "seconds": entry["seconds"], "made_by": entry["made_by"]}
        _write_parts(where, waiting, note, trust)
    shutil.rmtree(where.file("checkpoints"), ignore_errors=True)  # with their replays they would soon fill the disk


def _write_parts(where: RunDirectory, waiting: Sequence[tuple[Path, slice]], note: Json, trust: bool) -> None:
    """Write metrics, scores, a note about the group, and last the artefact, which makes each run complete."""
    arrays, rows = where.load("learning"), MetricsFile(where.file("metrics", "learning.jsonl")).rows()
    for path, part in waiting:
        with open_run(path, {}) as run:
            config = config_of_run(run, trust=trust)
            values = jnp.asarray(arrays[SCORES][part])
            scores = config.learning.scores(config.env, config.scenario, values)
            files = [run.file("scores", f"{each.metric}.safetensors") for each in scores]
            for each, file in zip(scores, files, strict=True):
                save_scores(file, each)
            write_bytes(run.file("metrics", "learning.jsonl"), b"".join(line_of(_select(row, part)) for row in rows))
            write_json(run.file("group.json"), note)
            run.save("learning", {name: array[part] for name, array in arrays.items()}, seconds=note["seconds"])
            run.seal("learning", files)
            run.summarise(scenario=config.scenario, seeds=config.seeds, stages=list(run.manifest))


def _select(row: Json, part: slice) -> Json:
    """A row of metrics restricted to some of the seeds."""
    return {name: values if name == "step" else values[part] for name, values in row.items()}
