"""Studies of learning that are no figure of the paper: does it learn at all, and what does exploration bring.

    python -m benchmarks.learning it-learns        # runs what is missing; results/learning/it-learns.json and .png
    python -m benchmarks.learning meeting --table  # only the table and the picture, from the results

A run that was stopped early counts up to its last evaluation, and is marked; the same command goes on with it.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from cooptions.cli.main import main as cooptions
from cooptions.errors import require
from cooptions.files import write_json
from cooptions.plots.curves import plot_learning_curves
from cooptions.runs.config import config_of_run
from cooptions.runs.directory import RunDirectory
from cooptions.scores.comparison import compare, markdown_comparison
from cooptions.scores.statistics import Scores, steps_to_reach
from cooptions.training.loop import MetricsFile

_CHOICE = "--learning.learner.choice"
_STAYS = f"{_CHOICE}.no-yields"
_FLOAT = "--learning.learner.network.no-half"
_SINGLE = f"{_FLOAT} {_STAYS}"  # as it was when these were run
_SMALL = "--seeds 5 --learning.evaluations 25 --learning.learner.steps"
_FORAGE = f"lbf-15x15-4p-3f --seeds 5 --learning.learner.steps 7000000 {_SINGLE}"
_LITTLE = (
    "--learning.learner.batch 32 --learning.learner.epsilon-decay 0.3 "
    "--learning.learner.network.hidden 64 64 --learning.evaluations 20 --learning.learner.steps"
)
_FEW_STEPS = f"--seeds 4 {_LITTLE}"
_FORAGE_SMALL = f"lbf-15x15-4p-3f --seeds 3 {_LITTLE} 1000000 {_SINGLE}"
_SET = "--method iql+handmade --learning.macro.option-set runs/learning/yielding/set/option_sets/seed-0"
_MEETING_OF = f"grid-15x15-{{num}}p,task=meet {_LITTLE} 500000 --learning.learner.capacity 50000 {_FLOAT}"
_MEETING = _MEETING_OF.format(num=4)
_MEET = f"{_MEETING} {_STAYS}"
_LITTLE_PPO = "--learning.learner.network.hidden 64 64 --learning.evaluations 20 --learning.learner.steps"
_GREEDY = "--learning.learner.evaluation greedy"
_MEET_BY_PPO = f"grid-15x15-4p,task=meet --learning.learner.network.no-shared {_LITTLE_PPO} 500000 {_GREEDY}"
_TWO = "--options.learner.steps 300000 --laplacian.num-eigenfunctions 2"
_FADING = "shaping_horizon=2500000"  # a quarter of training
_CRAMPED = f"overcooked-cramped_room,{_FADING} --seeds 5"
_COOK = f"overcooked-counter_circuit,{_FADING} --seeds 5"
_LITTLE_PICTURES = "--learning.learner.network.channels 16 --learning.learner.network.kernels 1"
_CLOSELY = f"{_LITTLE_PICTURES} --learning.evaluations 40 --learning.learner.steps"
_COPIED_EVERY = "--learning.learner.target-interval"
_COPIED = f"overcooked-cramped_room --seeds 4 {_CLOSELY} 1000000 {_COPIED_EVERY}"
_CIRCUIT = f"overcooked-counter_circuit --seeds 3 {_CLOSELY} 4000000 {_COPIED_EVERY}"
_BRIEF = (
    f"overcooked-counter_circuit --seeds 4 {_LITTLE_PICTURES} --learning.evaluations 16 --learning.episodes 8 "
    f"--learning.learner.steps 2000000 {_FLOAT}"
)
_FORCED = (
    f"overcooked-forced_coord --seeds 3 {_LITTLE_PICTURES} --learning.evaluations 30 "
    f"--learning.learner.steps 3000000 {_FLOAT}"
)
_FORAGE_BRIEFLY = f"lbf-15x15-4p-3f --seeds 5 {_LITTLE} 1000000"
_FORAGE_LONGER = f"lbf-15x15-4p-3f --seeds 5 {_LITTLE} 3000000"
_FIVE_APPLES = "lbf-15x15-4p-5f --seeds 5"
_FORAGE_BY_PPO = f"lbf-15x15-4p-3f --seeds 5 {_LITTLE_PPO} 1000000"
_LITERAL = "lbf-15x15-4p-3f,coop=sum_all --seeds 5"
_TRACE = "--learning.learner.trace"
_EPSILON = "--learning.learner.epsilon-finish"
_NORMALISED = "--learning.learner.network.normalised"
_RARELY = f"{_COPIED_EVERY} 100"  # the paper's
_COOKS = "overcooked-counter_circuit --seeds 5"
_KITCHEN = f"{_COOKS} {_RARELY}"
_SHARED = "--learning.macro.discoveries 1"
_COSTLY = "--options.step-cost 0.43 --options.effort 0.052"  # 0.025 and 0.003 of all there is to gain for +e1
_DRAWN_OFTEN = f"{_TWO} {_CHOICE}.chance 0.05"
_DRAWN = f"{_MEET} --seeds 3 --method iql-ns+handmade"

STUDIES: dict[str, dict[str, str]] = {
    "it-learns": {
        "iql": f"lbf-8x8-2p-2f --method iql {_SMALL} 2000000 {_SINGLE}",
        "vdn": f"lbf-8x8-2p-2f --method vdn {_SMALL} 2000000 {_SINGLE}",
        "ippo": f"lbf-8x8-2p-2f --method ippo {_SMALL} 3000000 {_GREEDY}",
        "mappo": f"lbf-8x8-2p-2f --method mappo {_SMALL} 3000000 {_GREEDY}",
        "cooks/vdn": f"{_CRAMPED} --method vdn --learning.learner.steps 4000000 {_SINGLE} {_RARELY}",
        "cooks/vdn in half": f"{_CRAMPED} --method vdn --learning.learner.steps 4000000 {_RARELY}",
        "cooks/ippo": f"{_CRAMPED} --method ippo --learning.learner.steps 6000000",
    },
    "halves": {
        "half": f"lbf-8x8-2p-2f {_FEW_STEPS} 500000 --method iql",
        "single": f"lbf-8x8-2p-2f {_FEW_STEPS} 500000 --method iql {_FLOAT}",
    },
    "options": {
        "iql": f"{_FORAGE} --method iql",
        "vdn": f"{_FORAGE} --method vdn",
        "handmade": f"{_FORAGE} --method iql+handmade",
        "handmade-valued": f"{_FORAGE} --method iql+handmade --learning.learner.choice.valued",
    },
    "foraging": {
        method: f"lbf-15x15-4p-3f --seeds 5 --learning.learner.steps 4000000 --method {method} {_STAYS}"
        for method in ("iql", "iql+hit", "iql+iaro", "iql+iaro-scalar", "iql+kron", "iql+rjs")
    },
    "foraging-apart": {
        "iql-ns": f"{_FORAGE_SMALL} --method iql-ns",
        "iql-ns+handmade": f"{_FORAGE_SMALL} --method iql-ns+handmade",
        "drawn alike": f"{_FORAGE_SMALL} --method iql-ns+handmade {_CHOICE}.merit-share 0",
    },
    "foraging-ppo": {
        method: f"{_FORAGE_BY_PPO} --method {method}" for method in ("ippo", "ippo+handmade", "ippo+wander")
    },
    "meeting": {
        "iql": f"{_MEET} --seeds 5 --method iql",
        "iql+handmade": f"{_MEET} --seeds 5 --method iql+handmade",
        "iql+hit": f"{_MEET} --seeds 5 --method iql+hit {_TWO}",
    },
    "meeting-ppo": {  # what it does without options is in meeting-apart
        "ippo-ns+handmade": f"{_MEET_BY_PPO} --seeds 5 --method ippo+handmade",
        "ippo-ns+hit": f"{_MEET_BY_PPO} --seeds 5 --method ippo+hit {_TWO}",
        "ippo-ns+hit, 0.05": f"{_MEET_BY_PPO} --seeds 5 --method ippo+hit {_DRAWN_OFTEN}",
        "ippo-ns+wander": f"{_MEET_BY_PPO} --seeds 5 --method ippo+wander",
        # where each agent weighed what an option did by its own policy alone (`ppo.own_share`), where critics expected
        # what agents earn when led, and before: where what options did had no bounds either, nor was weighed
        **{
            f"ippo-ns+{options}, until {commit}": f"{_MEET_BY_PPO} --seeds 5 --method ippo+{options} {flags}".strip()
            for commit in ("e10e904", "72ae2de", "2de7d95")
            for options, flags in (("handmade", ""), ("hit", _TWO))
        },
        **{
            f"ippo-ns+hit, 0.05, until {commit}": f"{_MEET_BY_PPO} --seeds 5 --method ippo+hit {_DRAWN_OFTEN}"
            for commit in ("e10e904", "72ae2de")
        },
    },
    "meeting-apart": {
        "iql-ns": f"{_MEET} --seeds 5 --method iql-ns",
        "vdn-ns": f"{_MEET} --seeds 5 --method vdn-ns",
        "iql-ns+handmade": f"{_MEET} --seeds 5 --method iql-ns+handmade",
        **{
            f"iql-ns+{found}": f"{_MEET} --seeds 5 --method iql-ns+{found} {_TWO}"
            for found in ("hit", "iaro", "iaro-scalar", "kron", "rjs")
        },
        "iql-ns+wander": f"{_MEET} --seeds 5 --method iql-ns+wander",
        "vdn-ns+hit": f"{_MEET} --seeds 5 --method vdn-ns+hit {_TWO}",
        "ippo-ns": f"{_MEET_BY_PPO} --seeds 5 --method ippo",
        "mappo-ns": f"{_MEET_BY_PPO} --seeds 10 --method mappo",  # some teams learn it, some do not
    },
    "team-size": {  # the same with fewer agents
        f"{num} agents/{method}": f"{_MEETING_OF.format(num=num)} --seeds 5 --method {method} {flags}".strip()
        for num in (2, 3)
        for method, flags in (("iql-ns", ""), ("iql-ns+hit", _TWO))
    },
    "traces": {  # Q(lambda)
        **{method: f"{_FORAGE_BRIEFLY} --method {method}" for method in ("iql", "vdn", "iql+handmade")},
        **{
            f"{method}, 0.9": f"{_FORAGE_BRIEFLY} --method {method} {_TRACE} 0.9"
            for method in ("iql", "vdn", "iql+handmade")
        },
        "iql, 0.9, normalised": f"{_FORAGE_BRIEFLY} --method iql {_TRACE} 0.9 {_NORMALISED}",
        "mappo": f"{_FORAGE_BY_PPO} --method mappo",
        "mappo, greedy": f"{_FORAGE_BY_PPO} --method mappo {_GREEDY}",
    },
    "longer-traces": {
        "iql": f"{_FORAGE_LONGER} --method iql",
        "iql, 0.9": f"{_FORAGE_LONGER} --method iql {_TRACE} 0.9",
    },
    "five-apples": {  # the paper's network, over all of its steps
        "iql, 0.9": f"{_FIVE_APPLES} --method iql {_TRACE} 0.9",
        "vdn, 0.9": f"{_FIVE_APPLES} --method vdn {_TRACE} 0.9",
    },
    "yielding": {  # the set is made by `cooptions discover lbf-15x15-4p-3f --method hit --seeds 1`, then `options`
        "iql": f"lbf-15x15-4p-3f {_FEW_STEPS} 1000000 --method iql",
        "20 options": f"lbf-15x15-4p-3f {_FEW_STEPS} 1000000 {_SET}",
        "20 options that stay": f"lbf-15x15-4p-3f {_FEW_STEPS} 1000000 {_SET} {_STAYS}",
        "meeting": f"{_MEETING} --seeds 5 --method iql-ns+handmade",
    },
    "all-needed": {
        "iql": f"lbf-10x10-3p-3f {_FEW_STEPS} 1500000 --method iql",
        "iql+handmade": f"lbf-10x10-3p-3f {_FEW_STEPS} 1500000 --method iql+handmade",
        "far/iql": f"lbf-15x15-3p-5f {_FEW_STEPS} 2000000 --method iql",
        "far/iql+handmade": f"lbf-15x15-3p-5f {_FEW_STEPS} 2000000 --method iql+handmade",
    },
    "literal": {  # apples that take all four agents, as the paper says; `vdn` and `again` were stopped halfway
        **{method: f"{_LITERAL} {_LITTLE} 2000000 --method {method}" for method in ("iql", "vdn", "iql+handmade")},
        **{f"{each}, again": f"{_LITERAL} {_LITTLE} 2000000 --method {each}" for each in ("iql", "iql+handmade")},
        **{
            f"{each}, seeds 5 to 9": f"{_LITERAL} {_LITTLE} 2000000 --method {each} --seed 5"
            for each in ("iql", "iql+handmade")
        },
        "iql+hit": f"{_LITERAL} {_LITTLE} 2000000 --method iql+hit {_TWO}",
        **{
            method: f"{_LITERAL} {_LITTLE_PPO} 1000000 --method {method}"
            for method in ("ippo", "mappo", "ippo+handmade")
        },
    },
    "cooks": {
        "ippo": f"{_COOK} --method ippo",
        **{method: f"{_COOK} --method {method} {_RARELY}" for method in ("iql", "vdn")},
        **{method: f"{_COOK} --method {method} {_SHARED} {_RARELY}" for method in ("iql+hit", "iql+iaro")},
        "iql, longer exploration": f"{_COOK} --method iql --learning.learner.epsilon-decay 0.3 {_RARELY}",
        "iql, longer shaping": f"{_KITCHEN} --method iql",
    },
    "first-soups": {  # with the target network copied as rarely as the paper says
        "iql": f"{_KITCHEN} --seed 5 --method iql",
        "vdn": f"{_KITCHEN} --seed 5 --method vdn",
        **{
            f"iql+hit, {num} options": f"{_KITCHEN} --seed 0 --method iql+hit {_SHARED} "
            f"--learning.macro.num-options {num}"
            for num in (10, 20)
        },
    },
    "soups": {  # the same with the default, ten times as often
        **{
            f"{method}, seeds {seed} to {seed + 4}": f"{_COOKS} --seed {seed} --method {method}"
            for method in ("iql", "vdn")
            for seed in (0, 5)
        },
        **{
            f"iql+hit, seeds {seed} to {seed + 4}": f"{_COOKS} --seed {seed} --method iql+hit {_SHARED}"
            for seed in (0, 5)
        },
        **{
            f"iql+hit, {n} options": f"{_COOKS} --seed 0 --method iql+hit {_SHARED} --learning.macro.num-options {n}"
            for n in (10, 20)
        },
        **{
            f"iql+{found}": f"{_COOKS} --seed 0 --method iql+{found} {_SHARED}"
            for found in ("iaro", "iaro-scalar", "kron", "rjs")
        },
        **{f"{method}, normalised": f"{_COOKS} --seed 0 --method {method} {_NORMALISED}" for method in ("iql", "vdn")},
        **{f"{method}, normalised, again": f"{_COOKS} --seed 0 --method {method}-ln" for method in ("iql", "vdn")},
    },
    "soups-ppo": {
        "ippo+hit, never drawn": f"{_COOKS} --seed 0 --method ippo+hit {_SHARED} {_CHOICE}.chance 0",
        "ippo+hit, 0.005": f"{_COOKS} --seed 0 --method ippo+hit {_SHARED} {_CHOICE}.chance 0.005",
        **{f"ippo+{found}": f"{_COOKS} --seed 0 --method ippo+{found} {_SHARED}" for found in ("hit", "iaro")},
        **{  # as in meeting-ppo; and where options yielded by being drawn seldom, everywhere
            f"ippo+hit, until {commit}": f"{_COOKS} --seed 0 --method ippo+hit {_SHARED}"
            for commit in ("1a84235", "e10e904", "72ae2de", "2de7d95")
        },
        **{
            f"ippo+iaro, until {commit}": f"{_COOKS} --seed 0 --method ippo+iaro {_SHARED}"
            for commit in ("72ae2de", "2de7d95")
        },
    },
    "targets": {  # updates between copies of the network to the target network
        **{f"iql, {interval}": f"{_COPIED} {interval} --method iql {_FLOAT}" for interval in (100, 30, 10)},
        "iql, 100, slower": f"{_COPIED} 100 --method iql {_FLOAT} --learning.learner.learning-rate 0.0001",
        **{f"vdn, {interval}": f"{_COPIED} {interval} --method vdn {_FLOAT}" for interval in (100, 10)},
        **{f"{method}, 10, half": f"{_COPIED} 10 --method {method}" for method in ("iql", "vdn")},
        "iql, 10, trace 0.9": f"{_COPIED} 10 --method iql {_FLOAT} {_TRACE} 0.9 --learning.learner.batch 13",
        "circuit/iql, 10": f"{_CIRCUIT} 10 --method iql {_FLOAT}",
    },
    "loops": {  # cooks that fill one pot at a time
        **{f"iql, {end}": f"{_FORCED} --method iql {_EPSILON} {end}" for end in (0.05, 0.2)},
        **{
            f"iql, {end}, seeds {seed} to {seed + 2}": f"{_FORCED} --seed {seed} --method iql {_EPSILON} {end}"
            for seed in (3, 6)
            for end in (0.05, 0.2)
        },
        "iql+wander": f"{_FORCED} --method iql+wander",
    },
    "normalised": {  # layers that normalise what they pass on, in a small network
        **{method: f"{_BRIEF} --method {method}" for method in ("iql", "vdn")},
        **{f"{method}, normalised": f"{_BRIEF} --method {method} {_NORMALISED}" for method in ("iql", "vdn")},
    },
    "mends": {
        "default": f"{_MEET} --seeds 5 --method iql-ns+hit {_TWO}",
        "default, from 38e3f20": f"{_MEET} --seeds 5 --method iql-ns+hit {_TWO}",  # an option's last step counts
        "gather alone": f"{_MEET} --seeds 5 --method iql-ns+hit {_TWO} --learning.macro.num-options 1",
        "drawn alike": f"{_MEET} --seeds 5 --method iql-ns+hit {_TWO} {_CHOICE}.merit-share 0",
        "costly options": f"{_MEET} --seeds 5 --method iql-ns+hit {_TWO} {_COSTLY}",
    },
    "choices": {
        "default": _DRAWN,
        "merit 0": f"{_DRAWN} {_CHOICE}.merit-share 0",
        "share 0.03": f"{_DRAWN} {_CHOICE}.option-share 0.03",
        "share 0.3": f"{_DRAWN} {_CHOICE}.option-share 0.3",
        "independent": f"{_DRAWN} {_CHOICE}.exploration independent",
        "valued": f"{_DRAWN} {_CHOICE}.valued",
        "valued, paper's": f"{_DRAWN} {_CHOICE}.valued --learning.macro.keep all {_CHOICE}.patience 0",
        "patience 0.1": f"{_DRAWN} {_CHOICE}.valued --learning.macro.keep all {_CHOICE}.patience 0.1",
        "patience 0.5": f"{_DRAWN} {_CHOICE}.valued --learning.macro.keep all {_CHOICE}.patience 0.5",
        "valued, majority": f"{_DRAWN} {_CHOICE}.valued --learning.macro.keep majority {_CHOICE}.patience 0",
        "valued, evaluated": f"{_DRAWN} {_CHOICE}.valued {_CHOICE}.evaluated",
    },
}
"""Studies: each run's name, which ends with what curves call it, and what `cooptions train` is told."""


@dataclass(frozen=True)
class Arguments:
    """Run a study, keep each seed's scores, draw the curves."""

    study: tyro.conf.Positional[str]
    """Its name."""
    runs: Path = Path("runs/learning")
    """Where the run directories go."""
    out: Path = Path("results/learning")
    only: tuple[str, ...] = ()
    """Runs to make; all when left out."""
    collect: bool = False
    """Make none: keep what is in the run directories."""
    note: str = ""
    """What should be known about where these runs were made."""
    table: bool = False
    """Only print the table of what is in `out`."""
    at: int = 0
    """Over how many steps the table looks; 0 for all."""
    reach: float = 90.0
    """Also print after how many steps each seed first reached this score."""
    above: float = 0.0
    """And when training first scored more than this, and how little it earned after that."""
    low: float = 0.0
    """Rewards of a step under which training did badly."""

    def __post_init__(self) -> None:
        require(self.study in STUDIES, f"study: unknown {self.study!r}; there are {', '.join(STUDIES)}")
        unknown = [name for name in self.only if name not in STUDIES[self.study]]
        require(not unknown, f"only: unknown {', '.join(unknown)}; there are {', '.join(STUDIES[self.study])}")

    @property
    def asked(self) -> dict[str, str]:
        """The commands of the runs that are to be made and collected."""
        return {name: command for name, command in STUDIES[self.study].items() if not self.only or name in self.only}

    def place(self, name: str) -> Path:
        """The run directory of a run."""
        return self.runs / self.study / name


def collected(name: str, command: str, run: RunDirectory, note: str) -> dict[str, Any]:
    """What is kept of a run: each seed's mean of every score, at every evaluation so far."""
    rows = MetricsFile(run.file("metrics", "learning.jsonl")).rows()
    require(len(rows) > 0, f"{run.path}: nothing was evaluated; run it, or leave {name} out with --only")
    steps = config_of_run(run).learning.stage.steps
    entry = run.manifest.get("learning", {})
    prefix = "evaluated "
    scores = [key.removeprefix(prefix) for key in rows[0] if key.startswith(prefix)]
    return {
        "command": f"cooptions train {command}",
        "scenario": command.split()[0],
        "steps": steps[: len(rows)].tolist(),
        "scores": {name: [[round(score, 3) for score in row[prefix + name]] for row in rows] for name in scores},
        # How training itself went: its episodes' scores, the share of steps that options led, the reward of a step, the
        # loss, what states seemed to be worth, and how undecided policies were.
        **{
            key: [[round(value, 4) for value in row[key]] for row in rows]
            for key in (*scores, "led", "reward", "loss", "value", "entropy")
            if key in rows[0]
        },
        "finished": bool(entry),
        "seconds": entry.get("seconds"),
        "made_by": entry.get("made_by"),
        "note": note,
    }


def scores_of(name: str, kept: dict[str, Any]) -> Scores:
    """A run's own score, as tables and curves want it."""
    metric = next(iter(kept["scores"]))
    values = np.array(kept["scores"][metric]).T[..., None]
    return Scores(Path(name).name, kept["scenario"], metric, np.array(kept["steps"]), values)


def until(scores: Scores, at: int) -> Scores:
    """The scores up to the last evaluation within so many steps; 0 for all."""
    num = len(scores.steps) if at == 0 else int(np.searchsorted(scores.steps, at, side="right"))
    require(num > 0, f"at: {scores.name} was first evaluated after {scores.steps[0]} steps, not {at}")
    return replace(scores, steps=scores.steps[:num], values=scores.values[:, :num])


def in_training(kept: dict[str, Any], above: float) -> str:
    """By how many steps episodes of training first scored more than this, as the mean between two evaluations, and the
    best of these means, each seed."""
    scores = np.array(kept[next(iter(kept["scores"]))]).T
    first = [kept["steps"][int(row.argmax())] if row.any() else None for row in scores > above]
    return f"more than {above:g} an episode by {first}, at best {scores.max(axis=1).tolist()}"


def setbacks(kept: dict[str, Any], above: float, low: float) -> str:
    """What became of training after it first scored more than this, each seed that did: the least reward of a step, and
    for how many steps it was low; and at the end what states seemed worth, and what a step earned."""
    scores, reward = (np.array(kept[key]).T for key in (next(iter(kept["scores"])), "reward"))
    begun = [(seed, int(row.argmax())) for seed, row in enumerate(scores > above) if row.any()]
    least = [float(reward[seed, first:].min()) for seed, first in begun]
    length = [int((reward[seed, first:] < low).sum()) * kept["steps"][0] for seed, first in begun]
    worth = f"; states seem worth {kept['value'][-1]}, a step earns {kept['reward'][-1]}" if "value" in kept else ""
    return f"least reward after that {least}, under {low:g} for {length} steps{worth}"


def make(arguments: Arguments) -> None:
    """Run what was asked for; a run that is there is not made again."""
    for name, command in arguments.asked.items():
        cooptions(["train", *command.split(), "--learning.name", name, "--out", str(arguments.place(name))])


def main(arguments: Arguments) -> None:
    path = arguments.out / f"{arguments.study}.json"
    if not arguments.table:
        if not arguments.collect:
            make(arguments)
        kept = json.loads(path.read_text()) if path.exists() else {}
        for name, command in arguments.asked.items():
            run = RunDirectory(arguments.place(name))
            if run.file("metrics", "learning.jsonl").exists():
                kept[name] = collected(name, command, run, arguments.note)
        write_json(path, kept)
    require(path.exists(), f"{path}: nothing there yet; run the study without --table")
    kept = json.loads(path.read_text())
    scores = [scores_of(name, kept[name]) for name in STUDIES[arguments.study] if name in kept]
    print(markdown_comparison(compare([until(each, arguments.at) for each in scores])))
    for each in scores:
        print(f"{each.name}: {arguments.reach:g} reached after {steps_to_reach(each, arguments.reach).tolist()} steps")
    for name, run in kept.items():
        if next(iter(run["scores"])) in run:
            print(f"{name}: trained for {run['steps'][-1]} steps, {in_training(run, arguments.above)}")
        if "reward" in run:
            print(f"{name}: {setbacks(run, arguments.above, arguments.low)}")
    plot_learning_curves(scores).savefig(arguments.out / f"{arguments.study}.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
