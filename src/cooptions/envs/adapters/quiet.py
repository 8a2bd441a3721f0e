"""Importing JaxMARL without its side effects on the terminal."""

import contextlib
import io
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Swallow what JaxMARL 0.2.0 prints when imported, and keep the standard streams as they were.

    It says which optional environments it lacks, and sets `sys.stdout` and `sys.stderr` to the interpreter's
    originals, which undoes any redirection around the import: hence the original is replaced here too.
    """
    streams = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = streams  # pyright: ignore[reportAttributeAccessIssue]
