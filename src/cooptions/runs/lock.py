"""A lock file for one writer at a time. The operating system releases the lock when its holder dies."""

import contextlib
import errno
import os
import platform
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from cooptions.errors import ArtifactError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

MISSING = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
"""Errors of file systems without locks. The content of the lock file then decides."""
LENGTH = 200
"""The number of bytes of a lock file that are read."""


@contextlib.contextmanager
def hold(path: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of this file. Raises `ArtifactError` with the name of the holder if it is taken.

    While the lock is held, the file names the holder; afterwards it is empty. A name in a free lock was left by a
    process that died, of which there is a warning. Links are not followed, because an untrusted directory could link to
    any file.
    """
    descriptor = _open(path)
    try:
        free, known = _take(descriptor), True
        if free is None:
            free, known = True, False
        holder = _holder(descriptor)
        if not free or (not known and holder and not _is_gone(holder)):
            remedy = "" if free is False else f", or delete {path} if that process is over"
            raise ArtifactError(
                f"{path.parent}: held by {holder or 'another process'}; wait for it{remedy}, or choose another --out"
            )
        if holder:
            warn(f"{path}: was left by {holder}, which did not end in order")
        _write(descriptor, f"process {os.getpid()} on {platform.node()}")
        try:
            yield
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)  # which releases the lock


def _open(path: Path) -> int:
    """Open the lock file, which is created if it is missing."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if path.is_symlink():  # for systems without O_NOFOLLOW
            raise OSError(errno.ELOOP, "")
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArtifactError(f"{path}: is a link, which is not followed: delete it") from None
        raise ArtifactError(f"{path.parent}: cannot be used as a run directory: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArtifactError(f"{path}: is no regular file: delete it")
    return descriptor


def _take(descriptor: int) -> bool | None:
    """Try to take the lock. Returns whether that succeeded; None if the file system has no locks."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(descriptor, LENGTH, os.SEEK_SET)  # on Windows, nobody can read locked bytes
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue,reportPossiblyUnboundVariable]
    except OSError as error:
        return None if error.errno in MISSING else False
    return True


def _holder(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, LENGTH).decode("ascii", "replace").strip("\0 \n")
    return text if re.fullmatch(r"process \d+( on [\w.-]+)?", text) else ("another process" if text else "")


def _is_gone(holder: str) -> bool:
    """Whether the holder is a process of this machine that has ended."""
    found = re.fullmatch(r"process (\d+) on (.+)", holder)
    if found is None or found[2] != platform.node() or os.name == "nt":
        return False
    try:
        os.kill(int(found[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return int(found[1]) == os.getpid()


def _write(descriptor: int, text: str) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, text.encode())
