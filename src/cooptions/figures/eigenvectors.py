"""Eigenfunctions of several methods as the last agent moves and the others are fixed (Figures 2 and 7 to 9)."""

from typing import ClassVar

import numpy as np
from jaxtyping import Array
from matplotlib.figure import Figure

from cooptions.discovery.discovered import Discovered
from cooptions.discovery.laplacian.kronecker import Kronecker
from cooptions.errors import require
from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.figures.methods import discovered_by
from cooptions.plots.maps import show_map, sweep
from cooptions.runs.config import Config
from cooptions.runs.run import Run

ROWS = {"rjs": "Joint", "kron": "Kronecker", "iaro-scalar": "Relative-Scalar", "iaro": "Relative-MultiDim"}
NUM_COLUMNS = 5


class AbstractEigenvectorsFigure(AbstractFigure):
    """One row per method, with the two teammates fixed at `held`."""

    needs = ("walk",)
    compares = True
    held: ClassVar[tuple[tuple[int, int], ...]]

    def plot(self, run: Run) -> Figure:
        team, others = run.config.discovery.team, held_places(run.config, self.held)
        canvas = Figure(figsize=(1.35 * NUM_COLUMNS + 0.6, 1.4 * len(ROWS) + 0.3), layout="constrained")
        axes = canvas.subplots(len(ROWS), NUM_COLUMNS)
        for row, title, found in zip(axes, ROWS.values(), discovered_by(tuple(ROWS), run), strict=True):
            for ax, values in zip(row, sweep(team, found, others, agent=len(others)), strict=False):
                show_map(ax, team, values, others)
            row[0].set_ylabel(title, fontsize=8)
        for k, ax in enumerate(axes[0]):
            ax.set_title(f"$e_{{{k + 1}}}$")
        return canvas


@FIGURES.register("eigenvectors-line")
class EigenvectorsLineFigure(AbstractEigenvectorsFigure):
    """Five eigenfunctions of four methods, teammates at (1, 4) and (1, 7) (grid-15x15-3p)."""

    held = ((1, 4), (1, 7))


@FIGURES.register("eigenvectors-centre")
class EigenvectorsCentreFigure(AbstractEigenvectorsFigure):
    """Five eigenfunctions of four methods, teammates at (7, 7) and (7, 8) (grid-15x15-3p)."""

    held = ((7, 7), (7, 8))


@FIGURES.register("eigenvectors-corner")
class EigenvectorsCornerFigure(AbstractEigenvectorsFigure):
    """Five eigenfunctions of four methods, teammates at (7, 13) and (13, 7) (grid-15x15-3p)."""

    held = ((7, 13), (13, 7))


@FIGURES.register("representations")
class RepresentationsFigure(AbstractFigure):
    """Eigenfunctions of single-agent, raw joint and relative states (grid-15x15-3p).

    Three eigenfunctions of each (the paper's Figure 2).
    """

    needs = ("walk",)
    compares = True

    def plot(self, run: Run) -> Figure:
        config = run.config
        pairs = [held_places(config, held) for held in (((1, 4), (1, 7)), ((7, 7), (7, 8)))]
        kron, joint, relative = discovered_by(("kron", "rjs", "iaro"), run)
        columns = [("single agent", kron, None), *(("raw joint", joint, p) for p in pairs)]
        columns += [("relative", relative, p) for p in pairs]
        canvas = Figure(figsize=(1.5 * len(columns), 4.8), layout="constrained")
        axes = canvas.subplots(3, len(columns))
        for column, (title, found, others) in zip(axes.T, columns, strict=True):
            if others is None:
                maps, marked = sweep_single(found, config), np.zeros((0, 2))
            else:
                maps, marked = sweep(config.discovery.team, found, others, agent=len(others)), others
            for ax, values in zip(column, maps, strict=False):
                show_map(ax, config.discovery.team, values, marked)
            column[0].set_title(title, fontsize=9)
        for k, ax in enumerate(axes[:, 0]):
            ax.set_ylabel(f"$e_{{{k + 1}}}$", rotation=0, labelpad=10)
        return canvas


def sweep_single(kronecker: Discovered, config: Config) -> np.ndarray:
    """Maps of the single-agent eigenfunctions whose products the Kronecker baseline uses."""
    laplacian, spectrum = kronecker.discovery.fitted, kronecker.spectrum
    assert isinstance(laplacian, Kronecker)

    def function(agent_states: Array) -> Array:
        z = spectrum.standard(kronecker.encode(agent_states))
        return laplacian.single_eigenfunctions(spectrum.laplacian, z)[0]

    return sweep(
        config.discovery.team,
        function,
        np.zeros((config.discovery.team.num_agents - 1, len(config.discovery.team.features))),
    )


def held_places(config: Config, held: tuple[tuple[int, int], ...]) -> np.ndarray:
    """The positions of the fixed teammates. Raises `ConfigError` if the scenario's team or grid does not fit them."""
    places = np.array(held, float)
    sizes = [feature.size for feature in config.discovery.team.features[:2]]
    require(
        config.discovery.team.num_agents == len(held) + 1 and bool(np.all(places < sizes)),
        f"this figure holds agents at {held}: it is drawn for grid-15x15-3p, not for {config.scenario}",
    )
    return places
