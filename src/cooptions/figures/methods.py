"""Several ways of discovery side by side on one environment: each has a run directory inside that of the figure."""

from dataclasses import replace

from cooptions.discovery.discovered import Discovered
from cooptions.runs.paper import METHODS
from cooptions.runs.run import Run


def discovered_by(methods: tuple[str, ...], run: Run) -> list[Discovered]:
    """What several methods find in the same environment, for states of the kept features; what is missing is made."""
    found = []
    for method in methods:
        variant = replace(run.config, **METHODS[method](run.config))
        with Run.open(variant, run.directory.file("methods", method), "spectrum", run.progress) as inner:
            found.append(inner.found.seed(0).on_kept())
    return found
