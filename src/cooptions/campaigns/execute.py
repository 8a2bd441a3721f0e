"""Making what is missing: every block discovers in its own run directory, then groups of blocks learn in one call."""

from collections.abc import Callable, Sequence
from pathlib import Path

from cooptions.campaigns.groups import hand_out, learn_together
from cooptions.campaigns.plan import Group, Plan
from cooptions.campaigns.rows import Block
from cooptions.envs.base import AbstractEnv
from cooptions.errors import CooptionsError, Interrupted
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.learned import write_scores
from cooptions.runs.run import Run
from cooptions.training.progress import Progress

Failures = dict[Block, str]
"""What went wrong with each block that is still missing."""

Keep = Callable[[Sequence[Block]], None]
"""What is done with blocks that were just made."""


def execute(plan: Plan, runs: Path, progress: Progress, after: Keep) -> Failures:
    """Make every block that is missing; one that fails does not keep the others. `after` sees those just made."""
    failures: Failures = {}
    for block in plan.alone:
        attempt(failures, [block], progress, lambda block=block: discover(block, runs, progress))
    for group in plan.groups:
        after(learn_group(group, runs, progress, failures))
    return failures


def learn_group(group: Group, runs: Path, progress: Progress, failures: Failures) -> list[Block]:
    """Discover and learn what a group is for: its blocks that have their scores now."""
    envs: dict[Block, AbstractEnv] = {}

    def prepare(block: Block) -> None:
        env = prepared(block, runs, progress)
        if env is not None:
            envs[block] = env

    def learn() -> None:
        hand_out(learn_together(Group(tuple(envs)), list(envs.values()), runs, progress), runs)

    done = [block for block in group.blocks if attempt(failures, [block], progress, lambda block=block: prepare(block))]
    if envs and not attempt(failures, list(envs), progress, learn):
        return [block for block in done if block not in envs]
    return done


def attempt(failures: Failures, blocks: Sequence[Block], progress: Progress, work: Callable[[], None]) -> bool:
    """Whether some work was done. Whatever fails, even the compiler or the device's memory, fails for these alone."""
    try:
        work()
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, CooptionsError):
            progress.console.print_exception(max_frames=10)
        failures |= dict.fromkeys(blocks, f"{type(error).__name__}: {error}".splitlines()[0])
        return False
    return True


def discover(block: Block, runs: Path, progress: Progress) -> None:
    """All stages of a block that learns nothing."""
    with open_run(runs / block.place, block.stages) as run:
        progress.console.print(f"[bold]{block}[/]")
        for stage in block.stages:
            take_over(stage, run, runs / block.row.place)
            Run(block.config, run, progress).make(stage)


def prepared(block: Block, runs: Path, progress: Progress) -> AbstractEnv | None:
    """What a block learns in, after discovery; `None` if it has learned already, and only its scores were missing."""
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
    """Copy the artefact of a stage from another run of the same scenario and seeds that made it from the same
    configuration: methods share walks, and numbers of options share all of discovery."""
    if stage in run.manifest:
        return
    for path in sorted(siblings.glob(f"*/{run.path.name.partition('-fraction')[0]}*")):
        sibling = RunDirectory(path)
        if sibling.keeps(stage) and sibling.manifest[stage]["config"] == run.configs[stage]:
            run.save(stage, sibling.load(stage), seconds=0.0, made_by=sibling.manifest[stage]["made_by"])
            return
