"""The work functions of tests, which workers in other processes import."""

import os
import signal
import time

import numpy as np

from cooptions.campaigns.work import learn_blocks
from cooptions.errors import Interrupted
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.loop import MetricsFile, StopSignals, train


def leaves_its_name(blocks, runs, progress):
    alone = os.getsid(0) == os.getpid()  # Ctrl-C in the terminal does not reach the process
    progress.console.print(f"made {len(blocks)}{', in a session of its own' if alone else ''}")
    for block in blocks:
        with (runs / block.row.method).open("a") as file:
            file.write("made\n")
    return {}


def fails_for_the_first(blocks, runs, progress):
    return {blocks[0]: "no such luck"}


def shows_its_loss(blocks, runs, progress):
    progress.tracker.begin("learning", [], 1)
    progress.tracker.log(1, {"loss": np.array([0.5])})
    return {}


def dies(blocks, runs, progress):
    os._exit(3)


def holds_on(blocks, runs, progress):
    """Writes its process id and sleeps for a minute."""
    (runs / "pid").write_text(str(os.getpid()))
    time.sleep(60)
    return {}


def stops_everything(blocks, runs, progress):
    """Sends SIGINT to the parent process, which then stops this one."""
    with StopSignals() as stop:
        (runs / "pid").write_text(str(os.getpid()))
        until((runs / "waits").exists)
        os.kill(os.getppid(), signal.SIGINT)
        until(lambda: stop.requested)
    raise Interrupted("learning: stopped at step 1 of 2")


def stops_late(blocks, runs, progress):
    """Stops only a second after the other job has ended, when a third one could have started."""
    with StopSignals() as stop:
        until((runs / "pid").exists)
        (runs / "waits").touch()
        until(lambda: stop.requested and not lives(int((runs / "pid").read_text())))
        time.sleep(1)
    raise Interrupted("learning: stopped at step 2 of 2")


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(happens, seconds=60):
    """Poll a function until its result is true or the time is over, and return the result."""
    end = time.monotonic() + seconds
    while not (happened := happens()) and time.monotonic() < end:
        time.sleep(0.1)
    return happened


def learns_with_checkpoints(blocks, runs, progress):
    """Slow training that keeps every checkpoint and records where it starts."""
    import ray

    train.__kwdefaults__["checkpoint_seconds"] = 0.0
    train.__kwdefaults__["chunk_seconds"] = 0.0
    restore, append = Checkpoints.restore, MetricsFile.append

    def told(self, like, warn):
        found = restore(self, like, warn)
        node = ray.get_runtime_context().get_node_id()
        with (runs / "begun").open("a") as file:
            file.write(f"{blocks[0].first} {found.step if found else 0} {node} {self.path}\n")
        return found

    def slow(self, step, metrics):
        row = append(self, step, metrics)
        time.sleep(0.5)
        return row

    Checkpoints.restore, MetricsFile.append = told, slow
    try:
        return learn_blocks(blocks, runs, progress)
    finally:
        Checkpoints.restore, MetricsFile.append = restore, append
