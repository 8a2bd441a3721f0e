"""Draw figures by name into a run directory."""

from pathlib import Path

from cooptions.errors import ArtifactError
from cooptions.figures.base import FIGURES
from cooptions.plots.canvas import write_canvas
from cooptions.runs.directory import RunDirectory
from cooptions.runs.run import Run

MADE_BY = {
    "walk": "walk",
    "representation": "discover",
    "spectrum": "discover",
    "options": "options",
    "learning": "train",
}
"""The command that makes each artefact a figure may need."""


def drawable(run: RunDirectory) -> list[str]:
    """The names of the figures whose artefacts a run directory has."""
    kinds = {name: FIGURES[name] for name in FIGURES.names()}
    return [name for name, kind in kinds.items() if not kind.compares and set(kind.needs) <= set(run.manifest)]


def draw(name: str, run: Run) -> list[Path]:
    """Draw one figure as PNG and PDF into the run directory."""
    kind = FIGURES[name]
    missing = [stage for stage in kind.needs if not run.has(stage)]
    if missing:
        made = " and ".join(dict.fromkeys(f"`cooptions {MADE_BY[stage]}`" for stage in missing))
        raise ArtifactError(f"{run.directory.path}: figure {name} needs {', '.join(missing)}; made by {made}")
    return write_canvas(kind().plot(run), run.directory.file("figures", name.replace(":", "-")))
