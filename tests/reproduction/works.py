"""What processes do in tests: they are spawned, and import it from here."""

import os
import signal
import time

from cooptions.errors import Interrupted
from cooptions.reproduction.beside import learn_blocks
from cooptions.training import StopSignals


def leaves_its_name(blocks, runs, progress):
    progress.console.print(f"made {len(blocks)}")
    for block in blocks:
        (runs / block.row.method).touch()
    return {}


def fails_for_the_first(blocks, runs, progress):
    return {blocks[0]: "no such luck"}


def dies(blocks, runs, progress):
    os._exit(3)


def stops_everything(blocks, runs, progress):
    """Asks the process that began it to stop, and is asked in turn."""
    with StopSignals() as stop:
        _until((runs / "waits").exists)
        os.kill(os.getppid(), signal.SIGINT)
        _until(lambda: stop.requested)
    raise Interrupted("learning: stopped at step 1 of 2")


def stops_late(blocks, runs, progress):
    """When another might have begun."""
    with StopSignals() as stop:
        (runs / "waits").touch()
        _until(lambda: stop.requested)
        time.sleep(2.5)
    raise Interrupted("learning: stopped at step 2 of 2")


def _until(happens, seconds=60):
    end = time.monotonic() + seconds
    while not happens() and time.monotonic() < end:
        time.sleep(0.1)


def learns_next_to_nothing(blocks, runs, progress):
    """In a process that does not know the presets of the tests."""
    from reproduction.conftest import registered

    with registered():
        return learn_blocks(blocks, runs, progress)
