"""Errors that a user can fix. Each message is one line that names the field or file and says what to do."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

Bound = int | float | None


class CooptionsError(Exception):
    """Base of all expected failures. The command line prints the message and exits with 2."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(CooptionsError):
    """A value in a configuration or scenario cannot be used."""


class ArtifactError(CooptionsError):
    """A file in a run directory is missing, damaged, locked by another process, or from another run."""


class Interrupted(CooptionsError):
    """The user stopped the process. Everything up to the last chunk is on disk."""


LARGEST_BATCH = 1_000_000
WIDEST = 65_536
"""The largest size of a matrix side, for example the units of a layer or the number of landmarks."""
MOST_FUNCTIONS = 4096
LARGEST = 2**31 - 1
"""The largest int32, which is the largest index into an array."""


def printable(text: str) -> str:
    """A text as one line without control characters, since names from files may contain anything."""
    line = " ".join(text.splitlines())
    return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def require(condition: bool, message: str) -> None:
    """Raise a `ConfigError` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def require_number(
    name: str,
    value: Any,
    *,
    at_least: Bound = None,
    at_most: Bound = None,
    above: Bound = None,
    below: Bound = None,
) -> None:
    """Raise a `ConfigError` unless a field is a finite number within its bounds. NaN is never accepted."""
    fits = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    fits = fits and (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    fits = fits and (above is None or value > above) and (below is None or value < below)
    bounds = _bounds(at_least, at_most, above, below) if value == value else "be a number"
    require(fits, f"{name} must {bounds}, not {value}")


def require_whole(name: str, value: Any, *, at_least: int = 1, at_most: int = LARGEST) -> None:
    """Raise a `ConfigError` unless a field is a whole number within its bounds."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    require(whole, f"{name} must be a whole number, not {value!r}")
    require(value >= at_least, f"{name} must be at least {at_least}, not {value}")
    require(value <= at_most, f"{name} must be at most {at_most}, not {value}")


def require_widths(name: str, widths: Sequence[int]) -> None:
    """Raise a `ConfigError` unless each number is a valid width of a layer."""
    for width in widths:
        require_whole(name, width, at_most=WIDEST)


def _bounds(at_least: Bound, at_most: Bound, above: Bound, below: Bound) -> str:
    """The bounds of a number in words."""
    if at_least is not None and at_most is not None:
        return f"lie in [{at_least}, {at_most}]"
    if above is not None and below is not None:
        return f"lie between {above} and {below}"
    if at_least is not None:
        return f"be at least {at_least}" if at_least else "not be negative"
    if above is not None:
        return f"be more than {above}" if above else "be positive"
    return f"be at most {at_most}" if at_most is not None else "be a number"
