"""Handling of SIGINT and SIGTERM: a message at once, then a stop after the current chunk or some seconds."""

import atexit
import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import Any

from cooptions.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 8.0
"""Seconds for which uninterruptible work, for example compiling, may continue after a signal."""
EXIT_CODE = 130
"""The exit code of a process that either signal stopped."""


class StopSignals:
    """Turns SIGINT and SIGTERM into a request to stop after the current chunk; a second signal stops at once.

    Python runs signal handlers only between bytecode instructions, so never while JAX computes. A thread therefore
    reads the signals and responds at once.
    """

    def __init__(self, what: str = "") -> None:
        self.what = what
        self.requested = False
        self._uncut = False
        self._listener: _Listener | None = None

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            self._listener = _Listener(self._request, self._hear, self._late)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._listener is not None:
            self._listener.close()

    @contextlib.contextmanager
    def uncut(self) -> Iterator[None]:
        """Mark uninterruptible work that leaves nothing behind. The process exits `PATIENCE` seconds after a signal."""
        self._uncut = True
        try:
            yield
        finally:
            self._uncut = False

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def _hear(self, number: int, times: int) -> None:
        if times > 1:
            os._exit(128 + number)
        self.requested = True
        say(f"{self.what}: stopping after this chunk" if self.what else "stopping")

    def _late(self) -> None:
        if self._uncut and not _is_interactive():
            say(f"{self.what}: stopped while compiling; run the same command to go on")
            os._exit(EXIT_CODE)


@contextlib.contextmanager
def obey_signals() -> Iterator[None]:
    """Raise `Interrupted` on either signal, within some seconds, wherever the command is.

    A `StopSignals` that is entered within takes precedence.
    """
    message = "stopped; finished stages are kept: run the same command to go on"
    heard = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard = True
        if _begins_an_extension(frame):
            late()
        raise Interrupted(message)

    def hear(number: int, times: int) -> None:
        if times > 1:
            os._exit(128 + number)

    def late() -> None:
        say(message)
        os._exit(EXIT_CODE)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener(interrupt, hear, late)
    try:
        with _not_lost(interrupt):
            yield
    except Exception as error:
        if heard and not isinstance(error, Interrupted):  # an interrupted import can raise another error
            raise Interrupted(message) from error
        raise
    finally:
        atexit.unregister(_ignore)  # so that it is registered once, however many commands a process runs
        atexit.register(_ignore)  # registered last, so that it runs before JAX's handlers
        listener.close()


def _begins_an_extension(frame: FrameType | None) -> bool:
    """Whether an extension module is being initialised. An error within ends the process with a native stack, where the
    extension is written in C++, or is printed with its traceback."""
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _not_lost(interrupt: Any) -> Iterator[None]:
    """Raise an `Interrupted` again if Python could not raise it the first time.

    Python only prints an exception that occurs in a callback, for example in one of JAX's at garbage collection. A
    timer raises it again 50 ms later.
    """
    known = sys.unraisablehook

    def again(lost: Any) -> None:
        if isinstance(lost.exc_value, Interrupted) and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        else:
            known(lost)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = known
        if hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) is interrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _ignore() -> None:
    """Ignore both signals, because the process is already exiting."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def say(line: str) -> None:
    """Print a line on standard error. Works from any thread."""
    with contextlib.suppress(OSError):
        os.write(2, f"cooptions: {line}\n".encode())


class _Listener:
    """Installs the handlers of both signals, and a thread that notices signals while the main thread is outside Python.

    `hear(number, times)` is called at each signal, `late()` when the process still runs after `PATIENCE` seconds.
    """

    def __init__(self, handler: Any, hear: Any, late: Any) -> None:
        self._hear, self._late = hear, late
        self._mine, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._handlers = {number: signal.signal(number, handler) for number in SIGNALS}
        self._fd = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._fd)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._theirs.close()  # the thread reads an end of file and returns
        self._thread.join()
        self._mine.close()

    def _listen(self) -> None:
        times, due = 0, float("inf")
        while True:
            ready, _, _ = select.select([self._mine], [], [], 0.25 if times else None)
            if ready:
                numbers = self._mine.recv(64)
                if not numbers:
                    return
                for number in set(numbers) & set(SIGNALS) if times == 0 else [n for n in numbers if n in SIGNALS]:
                    times += 1
                    due = time.monotonic() + PATIENCE
                    self._hear(number, times)
            elif time.monotonic() > due:
                self._late()


def _is_interactive() -> bool:
    """Whether this is an interactive session, which must not be ended."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules
