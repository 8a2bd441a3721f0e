"""Signals are acknowledged at once and handled within seconds, even while the main thread is outside Python."""

import signal
import subprocess
import sys
import time

import pytest

BUSY = """
import hashlib, sys
from cooptions.errors import Interrupted
from cooptions.training import signals
signals.PATIENCE = 0.5
def busy(seconds):
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha512", b"", b"", int(seconds * 400_000))  # one call into C, without a look at signals
"""


def _start(script):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.2)
    return process


CHUNK = """
with signals.StopSignals("toy") as stop:
    busy(20)
    print(stop.requested)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_chunk_is_finished_but_the_message_comes_at_once(number):
    with _start(CHUNK) as process:
        begun = time.monotonic()
        process.send_signal(number)
        assert process.stderr.readline() == "cooptions: toy: stopping after this chunk\n"
        assert time.monotonic() - begun < 5.0
        assert process.poll() is None, "the chunk goes on"
        assert process.stdout.readline() == "True\n"
        assert process.wait() == 0


def test_a_second_signal_stops_at_once():
    with _start(CHUNK.replace("20", "600")) as process:
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert "stopping" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
        assert time.monotonic() - begun < 20


def test_uninterruptible_work_is_aborted():
    with _start(CHUNK.replace("    busy(20)", "    with stop.uncut(): busy(600)")) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
        assert "toy: stopped while compiling; run the same command to go on" in process.stderr.read()


COMMAND = """
try:
    with signals.obey_signals():
        WORK
except Interrupted as stopped:
    print(f"heard: {stopped}")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_is_interrupted_between_two_steps_of_python(number):
    with _start(COMMAND.replace("WORK", 'print("begun", flush=True)\n        import time; time.sleep(60)')) as process:
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stdout.read().startswith("heard: stopped; finished stages are kept")


def test_a_command_outside_python_is_ended():
    with _start(COMMAND.replace("WORK", "busy(600)")) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
        assert process.stderr.read() == "cooptions: stopped; finished stages are kept: run the same command to go on\n"


COLLECTED = """def collected(phase, info):
            if phase == "start":
                print("begun", flush=True)
                time.sleep(2)
        import gc, time
        gc.callbacks.append(collected)
        gc.collect()
        time.sleep(60)"""


def test_a_signal_during_garbage_collection_is_not_lost():
    """Python cannot raise from such a callback, for example JAX's: it would print a traceback and continue."""
    with _start(COMMAND.replace("WORK", COLLECTED)) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stdout.read().startswith("heard: stopped; finished stages are kept")
        assert process.stderr.read() == ""


def test_earlier_handlers_are_restored():
    from cooptions.training.signals import StopSignals, obey_signals

    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGALRM
    before = sys.unraisablehook, *map(signal.getsignal, numbers)
    with obey_signals(), StopSignals(), StopSignals():
        assert signal.getsignal(signal.SIGINT) is not before[1]
    assert (sys.unraisablehook, *map(signal.getsignal, numbers)) == before
    assert signal.set_wakeup_fd(-1) == -1
