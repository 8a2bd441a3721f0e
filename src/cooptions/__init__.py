"""Options that a whole team of agents executes together."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cooptions")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
