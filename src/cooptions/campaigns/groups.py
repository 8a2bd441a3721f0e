"""Learning of several blocks in one call, in a directory of the group's own, and handing out what each has learned."""

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
"""The name of the scores in the artefact of learning, which is a pair: every seed's policy, and its scores."""


@dataclass(frozen=True)
class Group:
    """Blocks whose learning is the same program, on other options or seeds: they learn in one call."""

    blocks: tuple[Block, ...]

    @property
    def num_seeds(self) -> int:
        return sum(block.num_seeds for block in self.blocks)


def learn_together(group: Group, envs: Sequence[AbstractEnv], runs: Path, progress: Progress) -> RunDirectory:
    """Learn all blocks of a group, each in its environment, in one call: the group's directory, with what they learned.

    Stopped, it goes on from the group's checkpoint, as long as the group is the same.
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
    """What learning depends on: the program, the seeds, and the very options. Another choice of blocks, or options
    discovered anew, are another group: a checkpoint of this one is of no use to them."""
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
    """Environments of several blocks as one, seeds in front."""
    if any(jax.tree.structure(env) != jax.tree.structure(envs[0]) for env in envs):
        raise ArtifactError("group: the option sets of these runs differ in structure and cannot learn in one program")
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *envs)


def finish_groups(runs: Path, *, trust: bool = False) -> None:
    """Hand out what groups learned that were stopped while they did so."""
    for path in sorted((runs / "groups").glob("*")):
        where = RunDirectory(path)
        if "learning" in where.manifest:
            hand_out(where, runs, trust=trust)


def hand_out(where: RunDirectory, runs: Path, *, trust: bool = False) -> None:
    """Give every block its part of what a group learned; those that have it, or are no longer here, are left alone.
    Code from outside that their configurations name is only imported if it is trusted."""
    entry = where.manifest["learning"]
    begin, waiting = 0, []
    for block in entry["config"]["blocks"]:
        run, part = runs / block["run"], slice(begin, begin + len(block["seeds"]))
        begin = part.stop
        if run.exists() and "learning" not in RunDirectory(run).manifest:
            waiting.append((run, part))
    if waiting:
        note = {"members": begin, "group": entry["config"], "seconds": entry["seconds"], "made_by": entry["made_by"]}
        _give(where, waiting, note, trust)
    shutil.rmtree(where.file("checkpoints"), ignore_errors=True)  # whole replays: they would soon fill a disk


def _give(where: RunDirectory, waiting: Sequence[tuple[Path, slice]], note: Json, trust: bool) -> None:
    """Metrics, scores, a note of the group, and at last the artefact, which makes a run complete."""
    arrays, rows = where.load("learning"), MetricsFile(where.file("metrics", "learning.jsonl")).rows()
    for path, part in waiting:
        with open_run(path, {}) as run:
            config = config_of_run(run, trust=trust)
            values = jnp.asarray(arrays[SCORES][part])
            scores = config.learning.scores(config.env, config.scenario, values)
            files = [run.file("scores", f"{each.metric}.safetensors") for each in scores]
            for each, file in zip(scores, files, strict=True):
                save_scores(file, each)
            write_bytes(run.file("metrics", "learning.jsonl"), b"".join(line_of(_of(row, part)) for row in rows))
            write_json(run.file("group.json"), note)
            run.save("learning", {name: array[part] for name, array in arrays.items()}, seconds=note["seconds"])
            run.seal("learning", files)
            run.summarise(scenario=config.scenario, seeds=config.seeds, stages=list(run.manifest))


def _of(row: Json, part: slice) -> Json:
    """A row of metrics, of some of the seeds."""
    return {name: values if name == "step" else values[part] for name, values in row.items()}
