"""What becomes of runs and option sets that are killed, damaged, starved of disk, shared, signalled or ill asked for.

python -m benchmarks.faults --minutes 10
python -m benchmarks.faults --minutes 10 --run runs/quick     with a finished run of yours in place of one that is made

Each try damages a copy, does what a user would do, and compares what comes out with what comes out of the whole one.
"""

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from benchmarks.faults_tries import (
    bad_configurations,
    flips,
    full_disks,
    kills,
    locks,
    look,
    look_at_set,
    losses,
    prepared_run,
    resume,
    signals,
    stopped_training,
)
from cooptions.errors import CooptionsError
from cooptions.files import Json, write_json
from cooptions.runs.directory import provenance

OUTCOMES = ("refused", "resumed", "harmless", "silent", "traceback")


@dataclass(frozen=True)
class Arguments:
    """How long to try."""

    minutes: float = 10.0
    """In all; every kind of fault has its share, and fewer tries where that is over."""
    seed: int = 0
    """Of the random places and moments."""
    run: Path | None = None
    """A finished run directory to damage copies of; by default a tiny one is made, which takes some minutes."""
    out: Path = Path("results/faults/faults.json")
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """End with one JSON object."""


@dataclass
class Row:
    """What became of the tries of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    """Of tries that were silent or ended in a traceback."""
    seconds: float = 0.0

    def add(self, outcome: str, what: str) -> None:
        self.counts[outcome] += 1
        if outcome in ("silent", "traceback", "other") and len(self.examples) < 10:
            self.examples.append(f"{outcome}: {what}")


Try = tuple[str, Callable[[], str]]
"""What is done, and a function that does it: the outcome."""


def run_tries(tries: Iterator[Try], seconds: float) -> Row:
    """Do one after the other until the time is over."""
    row, begun = Row(), time.monotonic()
    for what, attempt in tries:
        outcome = outcome_of(attempt)
        row.add(outcome[0], f"{what}: {outcome[1]}")
        if time.monotonic() - begun > seconds:
            break
    row.seconds = round(time.monotonic() - begun, 1)
    return row


def outcome_of(attempt: Callable[[], str]) -> tuple[str, str]:
    """The outcome of a try, and the message it ended with."""
    try:
        return attempt(), ""
    except CooptionsError as error:
        text = str(error)
        return ("refused" if "\n" not in text else "traceback"), text
    except OSError as error:  # the command line prints these in one line
        return ("refused" if error.strerror else "traceback"), str(error)
    except Exception as error:  # any other would be a traceback on the user's terminal
        return "traceback", f"{type(error).__name__}: {error}"


def main(arguments: Arguments) -> Json:
    rng, share = random.Random(arguments.seed), 60.0 * arguments.minutes / 16
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run = arguments.run or prepared_run(place / "run")
        option_set = next(run.glob("option_sets/*"))
        begun = stopped_training(place / "begun")
        kinds: dict[str, tuple[Iterator[Try], float]] = {
            "kill a training": (kills(place, rng, 50), 4 * share),
            "flip a bit of a run": (flips(run, look, rng, 200), 2 * share),
            "flip a bit of a stopped training": (flips(begun, resume, rng, 200), 2 * share),
            "flip a bit of an option set": (flips(option_set, look_at_set(run), rng, 200), share),
            "truncate, empty or delete a file of a run": (losses(run, look), share),
            "truncate, empty or delete a file of a stopped training": (losses(begun, resume), share),
            "truncate, empty or delete a file of an option set": (losses(option_set, look_at_set(run)), share),
            "full disk": (full_disks(begun, 20), share),
            "locks and links": (locks(begun), share),
            "signals": (signals(place, rng, 8), share),
            "bad configurations": (bad_configurations(place), 3 * share),
        }
        rows = {kind: run_tries(tries, seconds) for kind, (tries, seconds) in kinds.items()}
    return {"tries": {kind: summary(row) for kind, row in rows.items()}, **provenance()}


def summary(row: Row) -> dict[str, Any]:
    known = {outcome: row.counts[outcome] for outcome in OUTCOMES}
    other = {outcome: number for outcome, number in row.counts.items() if outcome not in OUTCOMES}
    return {"tries": row.counts.total(), **known, **other, "seconds": row.seconds, "examples": row.examples}


def table(result: Json) -> str:
    """The outcomes as Markdown."""
    lines = [f"| fault | tries | {' | '.join(OUTCOMES)} |", f"|---|{'---:|' * (1 + len(OUTCOMES))}"]
    for kind, row in result["tries"].items():
        lines.append(f"| {kind} | {row['tries']} | {' | '.join(str(row[outcome]) for outcome in OUTCOMES)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    given = tyro.cli(Arguments)
    outcome = main(given)
    write_json(given.out, outcome)
    print(json.dumps(outcome) if given.json else table(outcome))
