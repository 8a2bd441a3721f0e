"""The processes executor: failures and signals. Each process takes seconds to start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import works
from places import blocks

from cooptions.campaigns.executors import Processes
from cooptions.campaigns.jobs import Job
from cooptions.errors import ConfigError, Interrupted


def test_a_process_that_dies_fails_only_its_blocks(site, tmp_path):
    todo = [Job("dies", works.dies, blocks("iql+hit")), Job("lives", works.leaves_its_name, blocks("iql"))]
    failures = Processes(site.site, 2).run(todo)
    (reason,) = failures.values()
    assert "exit code 3" in reason
    assert "dies.log" in reason
    assert site.made == [*blocks("iql")]
    assert (tmp_path / "logs/lives.log").read_text() == "made 1, in a session of its own\n"
    assert "failed: dies" in site.told()


def test_a_signal_is_forwarded_and_no_job_starts_afterwards(site, tmp_path):
    todo = [
        Job("soon", works.stops_everything, blocks("iql+hit")),
        Job("late", works.stops_late, blocks("iql+kron")),
        Job("never", works.leaves_its_name, blocks("iql")),
    ]
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="run the same command to go on"):
        Processes(site.site, 2).run(todo)
    told = site.told()
    assert told.index("stopped: soon, ") < told.index("stopped: late, ")
    assert (tmp_path / "logs/soon.log").read_text() == "stopped: learning: stopped at step 1 of 2\n"
    assert (tmp_path / "logs/late.log").read_text() == "stopped: learning: stopped at step 2 of 2\n"
    assert "begun: never" not in told
    assert signal.getsignal(signal.SIGINT) is handler


PARENT = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import works
from places import blocks
from rich.console import Console
from cooptions.campaigns.executors import Processes, Site
from cooptions.campaigns.jobs import Job
from cooptions.campaigns.live import Watch

if __name__ == "__main__":
    runs = Path(sys.argv[1])
    site = Site(runs, Console(), list, Watch({{}}, (), Console(), runs / "logs"))
    Processes(site, 1).run([Job("holds", works.holds_on, blocks("iql"))])
"""


def test_a_killed_parent_leaves_no_process_behind(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(here=str(Path(__file__).parent)))
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.DEVNULL)
    assert works.until((tmp_path / "pid").exists)
    child = int((tmp_path / "pid").read_text())
    assert works.lives(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert works.until(lambda: not works.lives(child), seconds=10)


def test_zero_processes_are_refused(site):
    with pytest.raises(ConfigError, match="beside must be at least 1, not 0"):
        Processes(site.site, 0)
