"""What each command of the command line does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from cooptions.campaigns.command import ReproduceArguments, reproduce
from cooptions.campaigns.figures import REPRODUCTIONS
from cooptions.cli.pipeline import run_pipeline
from cooptions.envs.scenarios import scenario_names
from cooptions.errors import ArtifactError, ConfigError, require
from cooptions.figures.base import FIGURES
from cooptions.figures.draw import draw
from cooptions.files import encode
from cooptions.options.report import rich_table
from cooptions.options.sharing.storage import load_reports
from cooptions.options.train import OptionsConfig, recipe
from cooptions.playground.command import PlayArguments, play
from cooptions.plots.canvas import write_canvas
from cooptions.plots.curves import plot_learning_curves
from cooptions.runs.config import Config, config_of_run
from cooptions.runs.directory import open_run, provenance
from cooptions.runs.learned import evaluate_run, scores_to_compare
from cooptions.runs.option_sets import load_options, option_set_path, write_gif
from cooptions.runs.presets import (
    DISCOVERY_SWAPS,
    LEARNING_SWAPS,
    OPTION_SWAPS,
    PRESETS,
    Swaps,
    learner_names,
    preset,
    with_parts,
)
from cooptions.runs.run import Run
from cooptions.runs.stages import STAGES
from cooptions.runs.verify import verify
from cooptions.scores.comparison import compare, improvements, save_marl_eval
from cooptions.scores.comparison import rich_table as score_table
from cooptions.training.progress import Progress
from cooptions.training.tracking import Track

Arguments = TypeVar("Arguments")

console = Console()


@dataclass(frozen=True)
class ListArguments:
    """Show everything that has a name."""

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object instead of a table."""


@dataclass(frozen=True)
class RunArguments:
    """Fill a run directory, skipping what is there already."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    out: Path
    """The run directory. What is already there, made by the same configuration, is not made again."""
    track: Track = "none"
    """Where to watch training besides the terminal: `pip install 'cooptions[track]'` brings what these need."""


@dataclass(frozen=True)
class VerifyArguments:
    """Discover, then measure against exact answers; the last line printed is one JSON object."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print the object on one line, for machines."""


@dataclass(frozen=True)
class FigureArguments:
    """Draw a figure, as PNG and PDF, from a run directory."""

    name: tyro.conf.Positional[str]
    """The figure's name (`cooptions list`)."""
    run: Path
    """The run directory that holds what the figure shows."""


@dataclass(frozen=True)
class OptionsArguments:
    """Train the joint options of a run directory that holds eigenfunctions."""

    options: OptionsConfig
    """How options are trained."""


@dataclass(frozen=True)
class ShowArguments:
    """List the options of a run directory."""

    seed: int = 0
    """Which of the run's seeds, counted from 0."""
    gif: tuple[str, ...] = ()
    """Options to write a GIF of, by name; `all` for every one."""


@dataclass(frozen=True)
class EvaluateArguments:
    """Let the final policies of a run play fresh episodes."""

    episodes: int = 1000
    """Episodes for each seed."""
    key: int = 1
    """Where their randomness begins: other numbers give other episodes."""

    def __post_init__(self) -> None:
        require(self.episodes >= 1, f"episodes must be at least 1, not {self.episodes}")


@dataclass(frozen=True)
class CompareArguments:
    """Compare what several runs learned: a table, how likely each ends above the first, and curves with intervals."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories; what others are compared with comes first."""
    metric: str = ""
    """What to compare; the first score of the environment when left out. `return` is the sum of rewards."""
    names: tuple[str, ...] = ()
    """What to call each run; its method when left out."""
    last: int = 1
    """Over how many of the last evaluations the table is made."""
    out: Path = Path("runs/compare")
    """Where the picture goes."""
    marl_eval: Path | None = None
    """Also write the scores to this file, in marl-eval's JSON format."""


def list_command(arguments: Sequence[str]) -> None:
    options = tyro.cli(ListArguments, args=arguments, prog="cooptions list")
    catalogue = {
        "scenarios": list(scenario_names()),
        "presets": list(PRESETS),
        **{name: list(swap.names()) for name, swap in (DISCOVERY_SWAPS | OPTION_SWAPS).items()},
        "learners": list(learner_names()),
        "figures": FIGURES.summaries(),
        "reproductions": {name: figure.title for name, figure in REPRODUCTIONS.items()},
    }
    if options.json:
        print(json.dumps(catalogue, indent=1))
        return
    table = Table("kind", "names", show_lines=True)
    for kind, names in catalogue.items():
        lines = [f"{name}: {text}" for name, text in names.items()] if isinstance(names, dict) else names
        table.add_row(kind, "\n".join(lines))
    console.print(table)


def walk_command(arguments: Sequence[str]) -> None:
    _run_until("walk", "walk", arguments)


def discover_command(arguments: Sequence[str]) -> None:
    _run_until("discover", "spectrum", arguments)


def options_command(arguments: Sequence[str]) -> None:
    path, rest = _take_run("options", arguments)
    with open_run(path, {}) as run:
        config = config_of_run(run)
        if "spectrum" not in run.configs:
            raise ArtifactError(
                f"{path}: nothing was discovered here: `cooptions discover SCENARIO --out RUN` comes first"
            )
        if "options" not in run.configs:
            config = replace(config, options=recipe("ours", config.env))
    config, rest = _swap_parts(config, rest, OPTION_SWAPS)
    options = _parse(OptionsArguments, OptionsArguments(config.options), rest, "cooptions options RUN")
    run_pipeline(replace(config, options=options.options), path, console, until="options")


def show_command(arguments: Sequence[str]) -> None:
    path, rest = _take_run("show", arguments)
    chosen = _parse(ShowArguments, ShowArguments(), rest, "cooptions show RUN")
    with Run.reopen(path) as run:
        options = load_options(run, chosen.seed)
        console.print(rich_table(load_reports(option_set_path(run, chosen.seed))))
        console.print(f"option set: {option_set_path(run, chosen.seed)}")
        names = [option.name for option in options.options] if "all" in chosen.gif else chosen.gif
        for name in names:
            console.print(f"picture: {write_gif(run, options, name, seed=chosen.seed)}")


def train_command(arguments: Sequence[str]) -> None:
    _run_until("train", "learning", arguments, LEARNING_SWAPS)


def run_command(arguments: Sequence[str]) -> None:
    _run_until("run", list(STAGES)[-1], arguments, LEARNING_SWAPS)


def evaluate_command(arguments: Sequence[str]) -> None:
    path, rest = _take_run("evaluate", arguments)
    chosen = _parse(EvaluateArguments, EvaluateArguments(), rest, "cooptions evaluate RUN")
    with Run.reopen(path, Progress(console)) as run:
        keys = replace(run.config, seed=run.config.seed + 2**16 * chosen.key).keys("evaluate")
        scores = evaluate_run(run, chosen.episodes, keys)
    console.print(score_table(compare([each.averaged() for each in scores])))


def compare_command(arguments: Sequence[str]) -> None:
    chosen = tyro.cli(CompareArguments, args=arguments, prog="cooptions compare")
    require(len(chosen.runs) > 0, "compare: name at least one run directory")
    scores = scores_to_compare(chosen.runs, chosen.metric, chosen.names)
    averaged = [each.averaged() for each in scores]
    console.print(score_table(compare(averaged, last=chosen.last)))
    for line in improvements(averaged, last=chosen.last):
        console.print(line, markup=False, soft_wrap=True)
    for path in write_canvas(plot_learning_curves(averaged), chosen.out / "curves"):
        console.print(f"picture: {path}")
    if chosen.marl_eval is not None:
        save_marl_eval(chosen.marl_eval, scores)
        console.print(f"scores: {chosen.marl_eval}")


def verify_command(arguments: Sequence[str]) -> None:
    default, rest = _take_preset("verify", arguments)
    options = _parse(VerifyArguments, VerifyArguments(default), rest, "cooptions verify PRESET")
    _ = options.config.discovery
    # With --json, standard output is for the result alone.
    result = verify(options.config, Progress(Console(stderr=True)))
    whole = {"config": encode(options.config), **result, **provenance()}
    print(json.dumps(whole, indent=None if options.json else 1))


def reproduce_command(arguments: Sequence[str]) -> None:
    reproduce(tyro.cli(ReproduceArguments, args=arguments, prog="cooptions reproduce"), console)


def play_command(arguments: Sequence[str]) -> None:
    play(tyro.cli(PlayArguments, args=arguments, prog="cooptions play"), console)


def figure_command(arguments: Sequence[str]) -> None:
    options = tyro.cli(FigureArguments, args=arguments, prog="cooptions figure")
    _ = FIGURES[options.name]  # an unknown one is refused before the directory is opened
    with Run.reopen(options.run, Progress(Console(stderr=True))) as run:
        for path in draw(options.name, run):
            console.print(f"picture: {path}")


def _run_until(command: str, stage: str, arguments: Sequence[str], swaps: Swaps = DISCOVERY_SWAPS) -> None:
    """Run the pipeline up to a stage, with the first argument's configuration and overrides from the others."""
    default, rest = _take_preset(command, arguments, swaps)
    out = Path("runs") / arguments[0].replace(":", "-")
    options = _parse(RunArguments, RunArguments(default, out), rest, f"cooptions {command} PRESET")
    _ = options.config.discovery  # parts that do not fit together are refused before a directory is made for them
    _refuse_idle_flags(command, stage, options.config, default)
    run_pipeline(options.config, options.out, console, until=stage, track=options.track)


def _refuse_idle_flags(command: str, stage: str, config: Config, default: Config) -> None:
    """Flags of parts that no stage of the run uses would be lost without a word."""
    used = {field for name in (*STAGES[stage].after(config), stage) for field in STAGES[name].fields}
    fields = [field for each in STAGES.values() for field in each.fields]
    idle = [field for field in fields if field not in used and getattr(config, field) != getattr(default, field)]
    require(
        not idle,
        f"{command}: nothing here uses the flags of {', '.join(idle)}; leave them out, or see --help of "
        "the command that does (`cooptions options`, `cooptions train`)",
    )


def _take_run(command: str, arguments: Sequence[str]) -> tuple[Path, Sequence[str]]:
    """The first argument as a run directory, and the others."""
    if not arguments or arguments[0].startswith("-"):
        console.print(f"usage: cooptions {command} RUN [--FIELD VALUE ...]\nRUN: a run directory, such as runs/quick")
        raise SystemExit(0 if arguments and arguments[0] in ("-h", "--help") else 2)
    path, *rest = arguments
    if not (Path(path) / "config.json").exists():
        raise ConfigError(f"{command}: {path} is not a run directory; `cooptions discover PRESET` makes one")
    return Path(path), rest


def _take_preset(
    command: str, arguments: Sequence[str], swaps: Swaps = DISCOVERY_SWAPS
) -> tuple[Config, Sequence[str]]:
    """The first argument as a configuration, with the parts that `--PART NAME` swaps, and the other arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        console.print(f"usage: cooptions {command} PRESET [--FIELD VALUE ...]")
        console.print(f"PRESET: {', '.join(PRESETS)}, or any scenario; `cooptions {command} quick --help` shows fields")
        for name, swap in swaps.items():
            console.print(f"--{name} NAME: {', '.join(swap.names())}")
        raise SystemExit(0 if arguments else 2)
    name, *rest = arguments
    if name.startswith("-"):
        raise ConfigError(f"{command}: the first argument is a preset or scenario, not {name}")
    return _swap_parts(preset(name), rest, swaps)


def _swap_parts(config: Config, arguments: Sequence[str], swaps: Swaps) -> tuple[Config, Sequence[str]]:
    rest = list(arguments)
    for flag, swap in swaps.items():
        while f"--{flag}" in rest:
            index = rest.index(f"--{flag}")
            name = rest[index + 1] if index + 1 < len(rest) else ""
            config = with_parts(config, swap.parts(name, config))
            del rest[index : index + 2]
    return config, rest


def _parse(kind: type[Arguments], default: Arguments, arguments: Sequence[str], prog: str) -> Arguments:
    return tyro.cli(kind, default=default, args=arguments, prog=prog, config=(tyro.conf.AvoidSubcommands,))
