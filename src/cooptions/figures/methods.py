"""Run several discovery methods on one environment, each in a nested run directory."""

from dataclasses import replace

from cooptions.discovery.discovered import Discovered
from cooptions.runs.paper import METHODS
from cooptions.runs.run import Run


def discovered_by(methods: tuple[str, ...], run: Run) -> list[Discovered]:
    """The results of several methods on the run's environment, as functions of the kept features.

    Methods that have not been run yet are run first.
    """
    found = []
    for method in methods:
        variant = replace(run.config, **METHODS[method](run.config))
        with Run.open(variant, run.directory.file("methods", method), "spectrum", run.progress) as inner:
            found.append(inner.found.seed(0).on_kept())
    return found
