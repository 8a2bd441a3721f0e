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


def goes_on_until_it_is_stopped(blocks, runs, progress):
    """And asks for that itself, of the process that began it, as soon as it can be."""
    with StopSignals() as stop:
        os.kill(os.getppid(), signal.SIGINT)
        for _ in range(600):
            time.sleep(0.1)
            if stop.requested:
                raise Interrupted("learning: stopped at step 1 of 2")
    return {}


def learns_next_to_nothing(blocks, runs, progress):
    """In a process that does not know the presets of the tests."""
    from reproduction.conftest import registered

    with registered():
        return learn_blocks(blocks, runs, progress)
