"""The common behaviour of all executors: dependencies, failures, and results."""

from dataclasses import replace

import pytest
import works
from places import blocks

from cooptions.campaigns.executors import EXECUTORS, Inline, Processes
from cooptions.campaigns.jobs import Job

MAKE = {"inline": Inline, "processes": lambda site: Processes(site, 2)}
"""Ray has a cluster of its own: test_ray.py."""


def test_every_executor_is_tested():
    assert set(MAKE) | {"ray"} == set(EXECUTORS)


@pytest.mark.parametrize("name", MAKE)
def test_dependencies_failures_and_results(name, site, tmp_path):
    todo = [
        Job("discover", works.fails_for_the_first, blocks("iql+hit")),
        Job("learn", works.leaves_its_name, blocks("iql+hit", "iql", "iql+kron"), frozenset(["discover"])),
        Job("nothing", works.leaves_its_name, blocks("iql+hit"), frozenset(["discover"])),
        Job("last", works.leaves_its_name, blocks("vdn"), frozenset(["nothing"])),
    ]
    failures = MAKE[name](site.site).run(todo)
    (failed,) = blocks("iql+hit")
    assert failures == {failed: "no such luck"}
    assert site.made == [*blocks("iql", "iql+kron"), *blocks("vdn")]
    assert {path.name for path in tmp_path.iterdir()} - {"logs"} == {"iql", "iql+kron", "vdn"}
    told = site.told()
    assert told.index("failed: discover") < told.index("begun: learn") < told.index("done: learn")
    assert not list(tmp_path.glob("logs/*.json"))


@pytest.mark.parametrize("name", MAKE)
def test_every_job_is_shown_to_the_tracker(name, site, tmp_path):
    tracked = replace(site.site, track="tensorboard")
    todo = [Job(name, works.shows_its_loss, blocks(name)) for name in ("iql", "vdn")]
    assert MAKE[name](tracked).run(todo) == {}
    shown = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("events*")}
    expected = {f"logs/{job}/tensorboard/learning/{series}" for job in ("iql", "vdn") for series in ("mean", "seed_0")}
    assert {str(path) for path in shown} == expected
