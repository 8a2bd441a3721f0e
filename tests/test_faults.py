"""The harness of `benchmarks.faults` detects failures, and the slow test finds none."""

import json
import random
import time

import pytest

from benchmarks.faults import Arguments, Row, kinds, main, outcome_of, run_tries, summary, table
from benchmarks.faults_asked import CAMPAIGNS, COMMANDS, SCENARIOS, SENSELESS
from benchmarks.faults_stages import slowness
from benchmarks.faults_tries import compared, flips, full_disks, locks, losses, resume, stopped_training
from cooptions.errors import ArtifactError
from cooptions.runs.stages import STAGES

GOOD = {"refused", "resumed", "harmless"}


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("attempt", "outcome"),
    [
        (lambda: "resumed", "resumed"),
        (lambda: _raise(ArtifactError("one line")), "refused"),
        (lambda: _raise(ArtifactError("two\nlines")), "traceback"),
        (lambda: _raise(OSError(28, "No space left on device")), "refused"),
        (lambda: _raise(KeyError("a")), "traceback"),
    ],
)
def test_outcomes(attempt, outcome):
    assert outcome_of(attempt)[0] == outcome


def test_a_wrong_result_without_an_error_is_silent(tmp_path):
    (tmp_path / "file").write_text("damaged")
    assert compared(lambda path, told: path.joinpath("file").read_text(), tmp_path, "whole") == "silent"
    assert compared(lambda path, told: "whole", tmp_path, "whole") == "harmless"
    assert compared(lambda path, told: told.append("a line") or "whole", tmp_path, "whole") == "resumed"


def test_sixty_configurations_are_tried():
    every = [*SENSELESS, *SCENARIOS, *COMMANDS, *CAMPAIGNS]
    assert len(every) == len(set(every)) >= 60


def test_every_stage_is_killed_and_every_kind_of_fault_is_there():
    names = " ".join(kinds())
    for wanted in (
        *(f"kill {stage}" for stage in STAGES),
        "flip",
        "delete",
        "disk",
        "locks",
        "signals",
        "two processes",
    ):
        assert wanted in names


def test_a_series_resumes_where_it_was_stopped():
    done = []
    tries = [(str(number), lambda number=number: done.append(number) or "resumed@late") for number in range(5)]
    stopped = run_tries(iter(tries[:2]), seconds=60.0)
    saved = json.loads(json.dumps(summary(stopped)))
    row = run_tries(iter(tries), 60.0, Row.of(saved))
    assert done == [0, 1, 2, 3, 4]
    assert summary(row)["resumed"] == 5
    assert summary(row)["moments"] == {"late": 5}


def test_a_hanging_try_is_found(monkeypatch):
    monkeypatch.setattr("benchmarks.faults.HANGS", 1)
    monkeypatch.setattr("benchmarks.faults_stages.slowness", lambda: 1.0)
    assert outcome_of(lambda: time.sleep(60) or "harmless")[0] == "traceback"


def test_a_try_that_waits_for_other_programs_may_take_longer(monkeypatch):
    monkeypatch.setattr("benchmarks.faults.HANGS", 1)
    monkeypatch.setattr("benchmarks.faults_stages.slowness", lambda: 5.0)
    assert outcome_of(lambda: time.sleep(1.5) or "harmless")[0] == "harmless"


def test_a_busy_machine_is_a_slow_one(monkeypatch):
    assert slowness() >= 1.0
    clock = iter(range(0, 100, 2))  # two seconds by the clock
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert slowness() == pytest.approx(2 / 0.05)


def test_a_stopped_training_survives_faults_of_every_kind(tmp_path):
    """A few tries of each. The slow test below and `benchmarks.faults` make many."""
    begun = stopped_training(tmp_path / "begun")
    tries = [flips(begun, resume, random.Random(0), 4), losses(begun, resume), full_disks(begun, 2), locks(begun)]
    for kind in tries:
        found = summary(run_tries(kind, seconds=5.0))
        assert found["silent"] == found["traceback"] == 0, found["examples"]


@pytest.mark.slow
def test_nothing_is_silent_and_nothing_ends_in_a_traceback():
    result = main(Arguments(minutes=10.0))
    for kind, row in result["tries"].items():
        assert row["tries"] == sum(row[outcome] for outcome in GOOD), f"{kind}: {row['examples']}\n{table(result)}"
