"""Eigenfunctions as seen from one joint state: maps, n-distances and the Fermat state."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cooptions.discovery.discover import Evaluator
from cooptions.discovery.discovered import Discovered
from cooptions.playground.board import Board

NUM_SAMPLES = 512
"""The number of joint states from which the scales of maps and bars are computed."""


@dataclass(frozen=True, eq=False)
class Lens:
    """A discovery that answers within milliseconds, because each question has one shape and is compiled once."""

    found: Discovered
    board: Board

    @cached_property
    def evaluate(self) -> Evaluator:
        """All eigenfunctions at one joint state. What joint states share is precomputed."""
        return self.found.evaluator()

    def maps(self, agent_states: Float[np.ndarray, "agent feature"], agent: int) -> Float[np.ndarray, "k row column"]:
        """Every eigenfunction as one agent moves over all cells. Walls are NaN."""
        return self.board.spread(np.asarray(_values(self.evaluate, self.board.sweep(agent_states, agent))))

    def along(self, agent_states: Float[np.ndarray, "time agent feature"]) -> list[dict[str, Any]]:
        """Eigenfunctions, n-distances and the Fermat state of several joint states."""
        values, z, fermat = jax.device_get(_told(self.found, self.evaluate, agent_states.astype(np.float32)))
        rows = []
        for time in range(len(agent_states)):
            row = {"values": numbers(values[time]), "z": numbers(z[time])}
            rows.append(row | ({"fermat": self._whole(fermat[time])} if fermat is not None else {}))
        return rows

    @cached_property
    def scales(self) -> dict[str, list[float]]:
        """The typical size of each eigenfunction and n-distance at random joint states."""
        states = self.board.random_states(NUM_SAMPLES, np.random.default_rng(0))
        values, z, _ = jax.device_get(_told(self.found, self.evaluate, states))
        high = np.percentile(np.abs(values), 98, axis=0)
        return {"values": numbers(np.maximum(high, 1e-6)), "z": numbers(np.maximum(np.abs(z).max(axis=0), 1e-6))}

    def describe(self) -> dict[str, Any]:
        known = self.found.team.columns or range(len(self.board.features))
        return {
            "eigenvalues": numbers(self.found.eigenvalues),
            "z_names": list(self.found.z_names),
            "scales": self.scales,
            "finds_fermat": self.found.finds_fermat,
            "features_known": list(known),
            "representation": type(self.found.discovery.representation).__name__,
            "laplacian": type(self.found.discovery.laplacian).__name__,
        }

    def _whole(self, fermat: Float[np.ndarray, " kept"]) -> list[float | None]:
        """A Fermat state with all features of the environment. Those that discovery does not use are None."""
        kept = list(self.found.team.columns or range(len(self.board.features)))
        values = numbers(fermat)
        return [values[kept.index(i)] if i in kept else None for i in range(len(self.board.features))]


def numbers(values: Any) -> list[Any]:
    """Numbers for JSON: rounded to five significant digits, or None if they are not finite."""
    array = np.asarray(values, np.float64)
    if array.ndim > 1:
        return [numbers(row) for row in array]
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in array.tolist()]


@eqx.filter_jit
def _values(evaluate: Evaluator, joint: Float[Array | np.ndarray, "state agent feature"]) -> Float[Array, "state k"]:
    return jax.vmap(evaluate)(jnp.asarray(joint))


@eqx.filter_jit
def _told(
    found: Discovered, evaluate: Evaluator, joint: Float[Array | np.ndarray, "state agent feature"]
) -> tuple[Array, Array, Array | None]:
    joint = jnp.asarray(joint)
    fermat = jax.vmap(found.fermat_state)(joint) if found.finds_fermat else None
    return jax.vmap(evaluate)(joint), jax.vmap(found.encode)(joint), fermat
