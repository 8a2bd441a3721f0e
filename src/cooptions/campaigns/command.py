"""The command `cooptions campaign`: show the plan, run the missing blocks, collect scores, draw figures, report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cooptions.campaigns.arguments import CampaignArguments
from cooptions.campaigns.campaign import Campaign
from cooptions.campaigns.estimates import Speeds, plan_summary, plan_table
from cooptions.campaigns.executors import AbstractExecutor, Inline, OnRay, Processes, Site
from cooptions.campaigns.executors.base import Keep
from cooptions.campaigns.figures import FromRun
from cooptions.campaigns.groups import finish_groups
from cooptions.campaigns.jobs import jobs
from cooptions.campaigns.live import Watch
from cooptions.campaigns.plan import Plan, make_plan
from cooptions.campaigns.reading import read_campaign
from cooptions.campaigns.report import page_of, updated, write_html, write_page
from cooptions.campaigns.results import collect
from cooptions.campaigns.rows import Block, Row
from cooptions.campaigns.tables import Evidence
from cooptions.campaigns.work import Failures
from cooptions.errors import CooptionsError, Interrupted
from cooptions.plots.curves import Style, method_styles
from cooptions.training.tracking import open_tracker


def campaign(arguments: CampaignArguments, console: Console) -> None:
    """Run the command."""
    whole = relocated(read_campaign(arguments.file, trust=arguments.trust), arguments)
    if arguments.report:
        report(whole, console)
        return
    with open_tracker(arguments.track, whole.runs, {}):  # raises early if it is unknown or not installed
        pass
    chosen = seeded(whole.only(arguments.lineups, arguments.methods, arguments.scenarios), arguments.seeds)
    finish_groups(whole.runs, trust=arguments.trust)
    plan = plan_of(chosen, arguments)
    speeds = Speeds.read(arguments.speed)
    console.print(plan_table(plan, speeds), plan_summary(plan, speeds), sep="\n")
    if arguments.plan:
        return
    page = page_of(Evidence.read(whole, whole.results), whole.results)
    for path in whole.pages:
        updated(path, page)  # raises before anything runs
    keep = keeper(chosen)
    keep(plan.blocks)
    failed = _failure_lines(execute(plan, chosen, arguments, keep, console), whole.runs)
    failed += draw(chosen, console)
    report(whole, console)
    if failed:
        console.print("\n".join(failed), markup=False, soft_wrap=True)  # commands can be copied
        raise CooptionsError(
            f"failed, as listed above: {len(failed)}; the same command tries again (fewer --members need less memory)"
        )


def relocated(whole: Campaign, arguments: CampaignArguments) -> Campaign:
    """The campaign with the folders and the fraction of the command line.

    Pages tell of the results in the file's own folder, so with another one they are left alone.
    """
    return replace(
        whole,
        runs=arguments.runs or whole.runs,
        results=arguments.results or whole.results,
        pages=() if arguments.results else whole.pages,
        fraction=arguments.fraction or whole.fraction,
    )


def seeded(chosen: Campaign, number: int) -> Campaign:
    """The campaign with this number of seeds per row, or the file's if it is 0. Pages still ask for the file's."""
    if not number:
        return chosen
    lineups = (replace(each, seeding=replace(each.seeding, seeds=range(number))) for each in chosen.lineups)
    return replace(chosen, lineups=tuple(lineups))


def plan_of(chosen: Campaign, arguments: CampaignArguments) -> Plan:
    """The plan for the chosen rows, without rows whose only purpose is pictures that exist already."""
    wanted = chosen.wanted
    largest = max(seeding.block for seeding in wanted.values())
    members = arguments.members or (largest if arguments.executor == "ray" else max(60, largest))
    drawn = drawn_rows(chosen)
    left = {row: seeding for row, seeding in wanted.items() if row not in drawn}
    return make_plan(left, chosen.places, fraction=chosen.fraction, members=members)


def drawn_rows(chosen: Campaign) -> set[Row]:
    """The rows that serve only pictures, if all those pictures exist."""
    pictures = [figure for figure in chosen.figures if isinstance(figure, FromRun)]
    needed = {row for figure in pictures for row in figure.wanted_rows(chosen.places)}
    return {row for figure in pictures for row in figure.rows if not row.learns} - needed


def execute(plan: Plan, chosen: Campaign, arguments: CampaignArguments, keep: Keep, console: Console) -> Failures:
    """Run the missing jobs and return the failures."""
    todo = jobs(plan, chosen.runs)
    if not todo:
        return {}
    watch = Watch(plan.rows, plan.missing, console, chosen.runs / "logs", is_live=console.is_terminal)
    site = Site(chosen.runs, console, keep, watch, arguments.track)
    with watch:
        return executor(arguments, site).run(todo)


def executor(arguments: CampaignArguments, site: Site) -> AbstractExecutor:
    """The executor that the arguments name."""
    makers = {
        "inline": lambda: Inline(site),
        "processes": lambda: Processes(site, arguments.beside),
        "ray": lambda: OnRay(site, arguments.address, arguments.gpus, arguments.cpus),
    }
    return makers[arguments.executor]()


def keeper(chosen: Campaign) -> Keep:
    """A function that collects the scores of finished blocks in the results."""

    def keep(blocks: Sequence[Block]) -> None:
        for row in dict.fromkeys(block.row for block in blocks if block.row.learns):
            collect(row, chosen.fraction, chosen.runs, chosen.results)

    return keep


def styles(chosen: Campaign) -> dict[str, Style]:
    """One plotting style per method, so that it looks the same in every figure."""
    labels = dict.fromkeys(row.label for lineup in chosen.learned for row in lineup.rows)
    return method_styles(labels)


def draw(chosen: Campaign, console: Console) -> list[str]:
    """Draw every figure. Returns a message for each that cannot be drawn."""
    evidence = Evidence.read(chosen, chosen.results)
    looks = styles(chosen)
    failures = []
    for figure in chosen.figures:
        try:
            paths = figure.draw(evidence.results, chosen.places, chosen.fraction, looks)
        except Interrupted:
            raise
        except CooptionsError as error:
            failures.append(f"figure {figure.name}: {error}")
        else:
            for path in paths:
                console.print(f"picture: {path}")
    return failures


def report(whole: Campaign, console: Console) -> None:
    """Update the pages that the campaign names, and write the report."""
    page = page_of(Evidence.read(whole, whole.results), whole.results)
    for path in whole.pages:
        write_page(path, page)
        console.print(f"page: {path}")
    path = whole.runs / "report.html"
    write_html(path, page)
    console.print(f"report: {path}")


def _failure_lines(failures: Failures, runs: Path) -> list[str]:
    """For each block that failed, the reason and the commands that run it again."""
    return [f"{block}: {reason}\n  again: {' && '.join(block.commands(runs))}" for block, reason in failures.items()]
