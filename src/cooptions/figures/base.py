"""The base class and the registry of figures. The first line of a figure's docstring is its title."""

import abc
from typing import ClassVar

from matplotlib.figure import Figure as Canvas

from cooptions.parts import Registry
from cooptions.runs.run import Run


class AbstractFigure(abc.ABC):
    """A figure drawn from the artefacts of a run."""

    needs: ClassVar[tuple[str, ...]]
    """The stages whose artefacts it shows."""
    compares: ClassVar[bool] = False
    """Whether it first runs discovery with other methods, in nested run directories. That takes a while."""

    @abc.abstractmethod
    def plot(self, run: Run) -> Canvas: ...


FIGURES: Registry[type[AbstractFigure]] = Registry("figure", "cooptions.figures", AbstractFigure)
"""Figures by name. Each registers itself in its own file."""
