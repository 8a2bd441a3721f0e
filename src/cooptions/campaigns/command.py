"""`cooptions reproduce`: plan, show the plan, make what is missing, keep the scores, draw, report."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from cooptions.campaigns.beside import execute_beside
from cooptions.campaigns.estimates import Speeds, plan_summary, plan_table
from cooptions.campaigns.execute import Failures, Keep, execute
from cooptions.campaigns.figures import REPRODUCTIONS, AbstractFigure
from cooptions.campaigns.groups import finish_groups
from cooptions.campaigns.plan import Places, Plan, make_plan
from cooptions.campaigns.report import write_page
from cooptions.campaigns.results import collect
from cooptions.campaigns.rows import RUNS, Block, Row
from cooptions.errors import ConfigError, CooptionsError, Interrupted, require
from cooptions.training.progress import Progress

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class ReproduceArguments:
    """Make the runs behind the paper's figures, as far as they are missing, and draw the figures."""

    figure: tuple[str, ...] = ()
    """Figures to make; all when left out."""
    seeds: int | None = None
    """Seeds of every row; the paper's number when left out, which is 10, and 15 where options are counted."""
    fraction: float = 1.0
    """The share of the paper's steps that is learned for; what falls or fades over training does so faster."""
    methods: tuple[str, ...] = ()
    """Only these methods."""
    scenarios: tuple[str, ...] = ()
    """Only these scenarios."""
    block: int = 5
    """Seeds that share a run directory."""
    members: int = 60
    """Seeds that learn in one program at most. Fewer need less memory."""
    beside: int = 1
    """Programs that run at once, each in a process of its own. A large GPU does several in less time than in turn."""
    runs: Path = RUNS
    """Where run directories go."""
    results: Path = Path("results/reproduction")
    """Where scores and pictures are kept. Seeds that are found here are not made again."""
    speed: Path = Path("results/speed")
    """Where measured speeds are, for the estimate."""
    page: tuple[Path, ...] = (Path("docs/findings/paper-claims.md"),)
    """The pages whose tables `--report` writes."""
    plan: Flag = False
    """Show the plan, and stop."""
    report: Flag = False
    """Only write the page anew from the results."""

    @property
    def places(self) -> Places:
        return Places(self.runs, self.results)


def reproduce(arguments: ReproduceArguments, console: Console) -> None:
    if arguments.report:
        for page in arguments.page:
            write_page(page, arguments.results, arguments.speed)
            console.print(f"page: {page}")
        return
    require(arguments.beside >= 1, f"beside must be at least 1, not {arguments.beside}")
    if arguments.beside > 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or the first process takes all memory
    figures, places = chosen_figures(arguments.figure), arguments.places
    finish_groups(places.runs)
    plan = plan_for(figures, arguments)
    speeds, progress = Speeds.read(arguments.speed), Progress(console)
    console.print(plan_table(plan, speeds, progress), plan_summary(plan, speeds), sep="\n")
    if arguments.plan:
        return
    keep = _keeper(places, arguments.fraction)
    keep(plan.blocks)
    failed = _block_failures(_execute(plan, places.runs, progress, keep, arguments.beside), places)
    failed += _draw_all(figures, places, arguments.fraction, console)
    if failed:
        console.print("\n".join(failed), markup=False, soft_wrap=True)  # commands can be copied
        raise CooptionsError(
            f"failed, as listed above: {len(failed)}; the same command tries again (fewer --members need less memory)"
        )


def _execute(plan: Plan, runs: Path, progress: Progress, keep: Keep, beside: int) -> Failures:
    if beside == 1:
        return execute(plan, runs, progress, keep)
    return execute_beside(plan, runs, progress, keep, beside)


def chosen_figures(names: Sequence[str]) -> dict[str, AbstractFigure]:
    unknown = [name for name in names if name not in REPRODUCTIONS]
    if unknown:
        raise ConfigError(f"figure: unknown {', '.join(unknown)}; there are {', '.join(REPRODUCTIONS)}")
    return {name: REPRODUCTIONS[name] for name in names or REPRODUCTIONS}


def plan_for(figures: Mapping[str, AbstractFigure], arguments: ReproduceArguments) -> Plan:
    """The plan of all rows that these figures want, and the filters leave."""
    wanted: dict[Row, int] = {}
    for name, figure in figures.items():
        for row in figure.wants(name, arguments.places):
            wanted[row] = max(wanted.get(row, 0), figure.num_seeds(arguments.seeds))
    kept = {row: num for row, num in wanted.items() if _passes(row, arguments)}
    if wanted and not kept:
        raise ConfigError(f"methods, scenarios: nothing is left of {_names(wanted)}")
    return make_plan(
        kept, arguments.places, size=arguments.block, fraction=arguments.fraction, members=arguments.members
    )


def _passes(row: Row, arguments: ReproduceArguments) -> bool:
    of_method = not arguments.methods or row.method in arguments.methods
    return of_method and (not arguments.scenarios or {row.scenario, row.place} & set(arguments.scenarios) != set())


def _names(rows: Iterable[Row]) -> str:
    return ", ".join(dict.fromkeys(str(row) for row in rows))


def _keeper(places: Places, fraction: float) -> Keep:
    """What enters finished blocks in the results."""

    def keep(blocks: Sequence[Block]) -> None:
        for row in dict.fromkeys(block.row for block in blocks if block.row.learns):
            collect(row, fraction, places.runs, places.results)

    return keep


def _draw_all(figures: Mapping[str, AbstractFigure], places: Places, fraction: float, console: Console) -> list[str]:
    """Draw every figure; a line for each that cannot be drawn."""
    failures = []
    for name, figure in figures.items():
        try:
            paths = figure.draw(name, places, fraction)
        except Interrupted:
            raise
        except CooptionsError as error:
            failures.append(f"figure {name}: {error}")
        else:
            for path in paths:
                console.print(f"picture: {path}")
    return failures


def _block_failures(failures: Failures, places: Places) -> list[str]:
    """Which blocks failed, and the commands that try each again."""
    return [
        f"{block}: {reason}\n  again: {' && '.join(block.commands(places.runs))}" for block, reason in failures.items()
    ]
