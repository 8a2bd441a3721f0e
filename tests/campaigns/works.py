"""What processes do in tests: they are spawned, and import it from here."""

import os
import signal
import time

from cooptions.campaigns.beside import learn_blocks
from cooptions.errors import Interrupted
from cooptions.training.loop import StopSignals


def leaves_its_name(blocks, runs, progress):
    alone = os.getsid(0) == os.getpid()  # a Ctrl-C in the terminal does not reach it
    progress.console.print(f"made {len(blocks)}{', in a session of its own' if alone else ''}")
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
        (runs / "pid").write_text(str(os.getpid()))
        _until((runs / "waits").exists)
        os.kill(os.getppid(), signal.SIGINT)
        _until(lambda: stop.requested)
    raise Interrupted("learning: stopped at step 1 of 2")


def stops_late(blocks, runs, progress):
    """Once the other is over, and a third might have begun."""
    with StopSignals() as stop:
        _until((runs / "pid").exists)
        (runs / "waits").touch()
        _until(lambda: stop.requested and not _lives(int((runs / "pid").read_text())))
        time.sleep(1)
    raise Interrupted("learning: stopped at step 2 of 2")


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _until(happens, seconds=60):
    end = time.monotonic() + seconds
    while not happens() and time.monotonic() < end:
        time.sleep(0.1)


def learns_next_to_nothing(blocks, runs, progress):
    """In a process that does not know the presets of the tests."""
    from reproduction.conftest import registered

    with registered():
        return learn_blocks(blocks, runs, progress)
