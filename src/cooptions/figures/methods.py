"""Several ways of discovery side by side on one environment: each has a run directory inside that of the figure."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import jax
from jaxtyping import Array, Float, Shaped
from rich.console import Console

from cooptions.discovery.discover import Spectrum
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.presets import METHODS
from cooptions.runs.stages import representation_stage, spectrum_stage, stage_configs
from cooptions.training.progress import Progress


@dataclass(frozen=True)
class Discovered:
    """One seed of a finished discovery."""

    config: Config
    representation: Any
    spectrum: Spectrum

    def eigenfunctions(self, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " k"]:
        return self.config.discovery.eigenfunctions(self.representation, self.spectrum, agent_states)

    def encode(self, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        return self.config.discovery.encode(self.representation, agent_states)


def discovered(config: Config, run: RunDirectory, seed: int = 0) -> Discovered:
    """What a run directory holds, or holds after this."""
    progress = Progress(Console(stderr=True))
    state, spectrum = representation_stage(config, run, progress), spectrum_stage(config, run, progress)
    return Discovered(config, *jax.tree.map(lambda leaf: leaf[seed], (state, spectrum)))


def discovered_by(methods: tuple[str, ...], config: Config, run: RunDirectory) -> list[Discovered]:
    """The same environment and walk through several methods; what is missing is made."""
    found = []
    with ExitStack() as stack:
        for method in methods:
            variant = replace(config, **METHODS[method](config))
            inner = open_run(run.file("methods", method), stage_configs(variant, "spectrum"))
            found.append(discovered(variant, stack.enter_context(inner)))
    return found
