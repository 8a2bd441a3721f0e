"""Import JaxMARL without its side effects on the terminal."""

import contextlib
import io
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Suppress what JaxMARL 0.2.0 prints when it is imported, and restore the standard streams afterwards.

    It prints the missing optional environments, and sets `sys.stdout` and `sys.stderr` to the interpreter's originals.
    That undoes any redirection around the import, so `sys.__stdout__` is replaced here too.
    """
    streams = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = streams  # pyright: ignore[reportAttributeAccessIssue]
