"""Inject faults into runs and option sets: kills, damage, full disks, concurrent processes, signals, bad arguments.

python -m benchmarks.faults                       everything: about 45 minutes of one core
python -m benchmarks.faults --minutes 10          as many tries of each kind as fit
python -m benchmarks.faults --only kill signal    kinds whose name contains one of these words

Each try damages a copy, does what a user would do, and compares the result with that of the undamaged original. The
table is saved after every try: the same command with the same --place resumes where it was stopped.
"""

import itertools
import json
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import tyro

from benchmarks import faults_asked, faults_stages, faults_tries
from cooptions.errors import CooptionsError
from cooptions.files import Json, write_json
from cooptions.runs.directory import provenance

OUTCOMES = ("refused", "resumed", "harmless", "silent", "traceback")
HANGS = 300
"""Seconds after which a try counts as hanging, on an idle machine."""


@dataclass(frozen=True)
class Arguments:
    """The kinds of faults to try, and the time for them."""

    minutes: float = 0.0
    """The total time, divided equally between kinds. 0 for every try of every kind."""
    only: tuple[str, ...] = ()
    """Words in the names of the kinds to try. Empty for all kinds."""
    seed: int = 0
    """The seed of random positions and times."""
    place: Path | None = None
    """The folder of the runs to be damaged, by default a temporary one. An existing folder is reused."""
    out: Path = Path("results/faults/faults.json")


@dataclass
class Row:
    """The outcomes of the tries of one kind."""

    attempts: int = 0
    """The number of calls. Some make several tries."""
    counts: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    """How far the disturbed process had come, if that is known."""
    examples: list[str] = field(default_factory=list)
    """Descriptions of tries with a bad outcome."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, outcomes: str, what: str) -> None:
        """Add an attempt: the outcome of each try, and after an @ how far the process had come."""
        self.attempts += 1
        for outcome in outcomes.split("|"):
            self._add(*outcome.partition("@"), what)

    def _add(self, outcome: str, at: str, moment: str, what: str) -> None:
        self.counts[outcome] += 1
        self.moments.update([moment] if at and moment else [])
        if outcome not in ("refused", "resumed", "harmless") and len(self.examples) < 20:
            self.examples.append(f"{outcome}: {what}")

    @classmethod
    def of(cls, known: Json) -> "Row":
        """The row of a saved summary."""
        counts = Counter({name: known[name] for name in OUTCOMES if known.get(name)} | known.get("other", {}))
        timed = {name: known[name] for name in ("seconds", "cpu_seconds")}
        return cls(known["attempts"], counts, Counter(known.get("moments", {})), list(known["examples"]), **timed)


Try = tuple[str, Callable[[], str]]
"""A description, and a function that makes one or more tries and returns their outcomes."""
Tries = Callable[[Path, random.Random], Iterator[Try]]


def kinds() -> dict[str, Tries]:
    """All kinds of faults by name."""
    stages, tries, asked = faults_stages, faults_tries, faults_asked
    found: dict[str, Tries] = {}
    for stage in stages.MAKES:
        found[f"kill {stage}"] = lambda place, rng, stage=stage: stages.kills(place, stage, rng, 50)
    wholes: dict[str, Callable[[Path], tuple[Path, tries.Look]]] = {
        "a run": lambda place: (stages.prepared_run(place), tries.look),
        "an option set": lambda place: tries.set_to_look_at(stages.prepared_run(place)),
        "a stopped run": lambda place: (stages.stopped_run(place), stages.go_on(place)),
        "a stopped training": lambda place: (tries.stopped_training(place / "begun"), tries.resume),
    }
    nums = {"a run": 200, "an option set": 200, "a stopped run": 60, "a stopped training": 200}
    for name, whole in wholes.items():
        found[f"flip a bit of {name}"] = lambda place, rng, name=name, whole=whole: tries.flips(
            *whole(place), rng, nums[name]
        )
    for name, whole in wholes.items():
        aside = ("option_sets",) if name == "a stopped run" else ()
        found[f"cut, delete or replace a file of {name}"] = lambda place, rng, whole=whole, aside=aside: tries.losses(
            *whole(place), aside
        )
    found["full disk, whole run"] = lambda place, rng: stages.full_disks(place, 20)
    found["full disk, training"] = lambda place, rng: tries.full_disks(tries.stopped_training(place / "begun"), 20)
    found["two processes"] = lambda place, rng: stages.two_processes(place, 5)
    found["locks and links"] = lambda place, rng: tries.locks(tries.stopped_training(place / "begun"))
    found["signals"] = lambda place, rng: stages.signals(place, rng, 8)
    found["strangers' code"] = lambda place, rng: asked.strangers(stages.prepared_run(place), place)
    found["bad configurations"] = lambda place, rng: asked.bad_configurations(place)
    return found


def run_tries(
    tries: Iterator[Try], seconds: float, row: Row | None = None, save: Callable[[Row, str], None] | None = None
) -> Row:
    """Make one try after the other until the time is over, skipping those of earlier sessions."""
    row, begun = row or Row(), time.monotonic()
    earlier, cpu = (row.seconds, row.cpu_seconds), faults_stages.processor_seconds()
    for what, attempt in itertools.islice(tries, row.attempts, None):
        outcome, message = outcome_of(attempt)
        row.add(outcome, f"{what}: {message}")
        row.seconds = round(earlier[0] + time.monotonic() - begun, 1)
        row.cpu_seconds = round(earlier[1] + faults_stages.processor_seconds() - cpu, 1)
        if save:
            save(row, f"{what}: {outcome}")
        if time.monotonic() - begun > seconds:
            break
    return row


def outcome_of(attempt: Callable[[], str]) -> tuple[str, str]:
    """The outcome of a try, and its error message."""
    begun = time.monotonic()

    def hangs(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - begun < HANGS * faults_stages.slowness():  # it waits for other programs
            signal.alarm(HANGS)
        else:
            raise RuntimeError(f"still at it after {time.monotonic() - begun:.0f} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS)
    try:
        return attempt(), ""
    except CooptionsError as error:
        text = str(error.args[0]) if error.args else ""
        return ("refused" if text and "\n" not in text else "traceback"), text
    except OSError as error:  # the command line prints these as one line
        return ("refused" if error.strerror else "traceback"), str(error)
    except Exception as error:  # any other would be a traceback on the user's terminal
        return "traceback", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main(arguments: Arguments) -> Json:
    chosen = {
        name: tries
        for name, tries in kinds().items()
        if not arguments.only or any(word in name for word in arguments.only)
    }
    result: Json = json.loads(arguments.out.read_text()) if arguments.place and arguments.out.exists() else {}
    rows: dict[str, Json] = result.get("tries", {})
    share = 60.0 * arguments.minutes / len(chosen) if arguments.minutes else float("inf")
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.place or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        faults_stages.keep_programs(place)
        for name, tries in chosen.items():

            def save(row: Row, message: str, name: str = name) -> None:
                rows[name] = summary(row)
                write_json(arguments.out, {"tries": rows, **provenance()})
                print(f"{time.strftime('%H:%M:%S')} {name} {row.counts.total()} {message}", flush=True)

            known = Row.of(rows[name]) if name in rows else Row()
            rng = random.Random(f"{arguments.seed} {name}")
            rows[name] = summary(run_tries(tries(place, rng), share, known, save))
    return {"tries": rows, **provenance()}


def summary(row: Row) -> dict[str, Any]:
    known = {outcome: row.counts[outcome] for outcome in OUTCOMES}
    other = {outcome: number for outcome, number in row.counts.items() if outcome not in OUTCOMES}
    return {
        "tries": row.counts.total(),
        "attempts": row.attempts,
        **known,
        **({"other": other} if other else {}),
        **({"moments": dict(row.moments)} if row.moments else {}),
        "seconds": row.seconds,
        "cpu_seconds": row.cpu_seconds,
        "examples": row.examples,
    }


def table(result: Mapping[str, Any]) -> str:
    """The outcomes as a Markdown table."""
    names = ("tries", *OUTCOMES, "other")
    lines = [f"| fault | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    every = Counter()
    for kind, row in result["tries"].items():
        known = {name: row[name] for name in ("tries", *OUTCOMES)}
        counts = known | {"other": known["tries"] - sum(known[outcome] for outcome in OUTCOMES)}
        every.update(counts)
        lines.append(f"| {kind} | {' | '.join(str(counts[name]) for name in names)} |")
    lines.append(f"| all | {' | '.join(str(every[name]) for name in names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    given = tyro.cli(Arguments)
    outcome = main(given)
    write_json(given.out, outcome)
    print(table(outcome))
