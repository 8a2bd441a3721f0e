"""What a figure is: a class whose first line of documentation is its title, registered where it is written."""

import abc
from typing import ClassVar

from matplotlib.figure import Figure as Canvas

from cooptions.parts import Registry
from cooptions.runs.run import Run


class AbstractFigure(abc.ABC):
    """A picture of what a run holds."""

    needs: ClassVar[tuple[str, ...]]
    """The stages whose artefacts it shows."""
    compares: ClassVar[bool] = False
    """Whether it first discovers by other methods, in run directories of its own, which takes a while."""

    @abc.abstractmethod
    def plot(self, run: Run) -> Canvas: ...


FIGURES: Registry[type[AbstractFigure]] = Registry("figure", "cooptions.figures", AbstractFigure)
"""Figures by name; each registers itself in a file of its own."""
