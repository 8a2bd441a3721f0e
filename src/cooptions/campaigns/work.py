"""Run discovery and learning in run directories, and query their state. Only this module of campaigns makes any.

Every block runs discovery in its own run directory. Then the blocks of a group train in one call (`groups`).
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cooptions.campaigns.groups import Group, hand_out, learn_together
from cooptions.campaigns.rows import Block
from cooptions.envs.base import AbstractEnv
from cooptions.errors import ArtifactError, CooptionsError, Interrupted
from cooptions.files import Json
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.learned import read_scores, write_scores
from cooptions.runs.run import Run
from cooptions.scores.statistics import Scores
from cooptions.training.progress import Progress

Failures = dict[Block, str]
"""The error of each block that failed."""

Work = Callable[[Sequence[Block], Path, Progress], Failures]
"""A function that does a job for some blocks and returns the failures."""


def discover_blocks(blocks: Sequence[Block], runs: Path, progress: Progress) -> Failures:
    """Run every stage before learning."""
    failures: Failures = {}
    for block in blocks:
        make = prepared if block.row.learns else discover
        attempt(failures, [block], progress, lambda block=block, make=make: make(block, runs, progress))
    return failures


def learn_blocks(blocks: Sequence[Block], runs: Path, progress: Progress) -> Failures:
    """Run the missing discoveries, then train all blocks in one program."""
    failures: Failures = {}
    envs: dict[Block, AbstractEnv] = {}

    def prepare(block: Block) -> None:
        env = prepared(block, runs, progress)
        if env is not None:
            envs[block] = env

    def learn() -> None:
        where = learn_together(Group(tuple(envs)), list(envs.values()), runs, progress)
        hand_out(where, runs, trust=True)  # the code they name was imported to make them

    for block in blocks:
        attempt(failures, [block], progress, lambda block=block: prepare(block))
    if envs:
        attempt(failures, list(envs), progress, learn)
    return failures


def attempt(failures: Failures, blocks: Sequence[Block], progress: Progress, work: Callable[[], None]) -> None:
    """Call `work`. Any error, even of the compiler or of the device's memory, becomes a failure of these blocks."""
    try:
        work()
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, CooptionsError):
            progress.console.print_exception(max_frames=10)
        failures |= dict.fromkeys(blocks, f"{type(error).__name__}: {error}".splitlines()[0])


def discover(block: Block, runs: Path, progress: Progress) -> None:
    """Run all stages of a block that does not train a learner."""
    with open_run(runs / block.place, block.stages) as run:
        progress.console.print(f"[bold]{block}[/]")
        for stage in block.stages:
            take_over(stage, run, runs / block.row.place)
            Run(block.config, run, progress).make(stage)


def prepared(block: Block, runs: Path, progress: Progress) -> AbstractEnv | None:
    """Run a block's discovery and return its task; None if it has learned already and only its scores were missing."""
    with open_run(runs / block.place, block.stages) as run:
        if "learning" in run.manifest:
            write_scores(Run(block.config, run, progress))
            return None
        if len(block.stages) > 1:
            progress.console.print(f"[bold]{block}[/]")
        for stage in list(block.stages)[:-1]:
            take_over(stage, run, runs / block.row.place)
        return Run(block.config, run, progress).task


def take_over(stage: str, run: RunDirectory, siblings: Path) -> None:
    """Copy a stage's artefact from another run of the same scenario, seeds and configuration, if there is one.

    Methods thus share walks, and rows with different numbers of options share all of discovery.
    """
    if stage in run.manifest:
        return
    for path in sorted(siblings.glob(f"*/{run.path.name.partition('-fraction')[0]}*")):
        sibling = RunDirectory(path)
        if sibling.keeps(stage) and sibling.manifest[stage]["config"] == run.configs[stage]:
            run.save(stage, sibling.load(stage), seconds=0.0, made_by=sibling.manifest[stage]["made_by"])
            return


def is_finished(block: Block, runs: Path) -> bool:
    """Whether a block has finished its last stage."""
    return block.row.until in RunDirectory(runs / block.place).manifest


def has_scores(block: Block, runs: Path) -> bool:
    """Whether a block has learned and its scores are written."""
    run = RunDirectory(runs / block.place)
    return "learning" in run.manifest and any(run.file("scores").glob("*.safetensors"))


def stages_made(block: Block, runs: Path) -> set[str]:
    """The stages of a block that are complete."""
    return set(RunDirectory(runs / block.place).manifest)


def scores_of(block: Block, runs: Path) -> list[Scores]:
    """The scores of a finished block, one for each metric."""
    return read_scores(runs / block.place)


def settings_made(block: Block, runs: Path) -> Json:
    """The configuration with which a block learned."""
    return RunDirectory(runs / block.place).configs["learning"]


def made(block: Block, runs: Path) -> Json:
    """How a block was made: commands, times, device, versions. The learning time is that of its whole group."""
    run = RunDirectory(runs / block.place)
    entry = run.manifest["learning"]
    path = run.file("group.json")
    group = json.loads(path.read_text()) if path.exists() else {"members": block.num_seeds}
    discovery = [each["seconds"] for name, each in run.manifest.items() if name != "learning"]
    macro = run.configs["learning"]["learning"]["macro"]
    return {
        "seeds": list(block.seeds),
        "commands": list(block.commands()),
        "members": group["members"],
        "seconds": group.get("seconds", entry["seconds"]),
        "discovery_seconds": round(sum(discovery), 1),
        "discoveries": (macro["discoveries"] or block.num_seeds) if macro and not macro["option_set"] else 0,
        "made_by": group.get("made_by", entry["made_by"]),
    }


def wait_until_free(blocks: Sequence[Block], runs: Path, seconds: float) -> None:
    """Wait up to `seconds` until no other process, for example one that is being killed, holds the blocks' locks."""
    end = time.monotonic() + seconds
    for path in (runs / block.place for block in blocks):
        while path.exists() and not _is_free(path) and time.monotonic() < end:
            time.sleep(0.2)


def _is_free(path: Path) -> bool:
    try:
        with open_run(path, {}):
            return True
    except ArtifactError:
        return False
