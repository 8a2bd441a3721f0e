"""SIGINT and SIGTERM: acknowledged at once, obeyed after the current chunk, or after some seconds in any case."""

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
"""Seconds that work which cannot be cut, such as compiling, may go on after a signal."""
EXIT_CODE = 130
"""Of a process that was stopped by either signal."""


class StopSignals:
    """Turns SIGINT and SIGTERM into a request to stop after the current chunk; a second one stops at once.

    Python runs its handlers between two of its own instructions, and so never while JAX computes. The signals are
    therefore read by a thread, which answers at once.
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
        """Around work that cannot be cut and leaves nothing behind: it is given up some seconds after a signal."""
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
    """For a whole command: either signal ends it with `Interrupted`, wherever it is, within some seconds.

    What it calls may hold `StopSignals` of its own, which come first.
    """
    told = "stopped; finished stages are kept: run the same command to go on"
    heard = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard = True
        if _begins_an_extension(frame):
            late()
        raise Interrupted(told)

    def hear(number: int, times: int) -> None:
        if times > 1:
            os._exit(128 + number)

    def late() -> None:
        say(told)
        os._exit(EXIT_CODE)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener(interrupt, hear, late)
    try:
        with _not_lost(interrupt):
            yield
    except Exception as error:
        if heard and not isinstance(error, Interrupted):  # an extension that was being imported tells of another error
            raise Interrupted(told) from error
        raise
    finally:
        atexit.unregister(_ignore)  # once is enough, however many commands a process runs
        atexit.register(_ignore)  # now, so that it comes before what JAX does at the end
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
    """Where Python can raise nothing, as in what JAX has called when memory is collected, an interruption would be
    printed and forgotten: it is raised again a moment later."""
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
    """A process that is ending needs no signal to do so."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def say(line: str) -> None:
    """A line on standard error, from any thread."""
    with contextlib.suppress(OSError):
        os.write(2, f"cooptions: {line}\n".encode())


class _Listener:
    """Both signals' handlers, and a thread that hears them even while the main thread is busy outside Python."""

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
        self._theirs.close()  # the thread reads an end of file
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
    """Whether to end the process would take away someone's session."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules
