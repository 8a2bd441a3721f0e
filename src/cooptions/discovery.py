"""From walks to eigenfunctions: z of every joint state, then the slowest functions of z (paper, Section 3.2)."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from cooptions.fitting import fit
from cooptions.laplacian import AbstractLaplacian, Basis, Canonical, Pairs, canonicalise
from cooptions.laplacian.canonical import num_to_fit
from cooptions.progress import Progress
from cooptions.representations.base import AbstractRepresentation, OfTeam, Team, informative
from cooptions.walks import Dataset, Walk

BLOCK = 8192
"""Joint states encoded at once."""


class Standard(eqx.Module):
    """z to zero mean and unit deviation; components that hardly vary or forget themselves at once become 0."""

    mean: Float[Array, "*seed z"]
    scale: Float[Array, "*seed z"]

    @classmethod
    def of(cls, z: Float[Array, "state z"], next_z: Float[Array, "state z"]) -> "Standard":
        kept = informative(z, next_z)
        return cls(z.mean(axis=0), jnp.where(kept, 1 / jnp.where(kept, z.std(axis=0), 1.0), 0.0))

    def __call__(self, z: Float[Array, "*batch z"]) -> Float[Array, "*batch z"]:
        return (z - self.mean) * self.scale


class Spectrum(eqx.Module):
    """What discovery finds, for one seed or with seeds on the leading axis: enough to evaluate eigenfunctions of z."""

    standard: Standard
    laplacian: Any
    canonical: Canonical


@dataclass(frozen=True)
class Discovery:
    """A representation, a Laplacian and a basis, for a team: `Spectrum` holds the numbers that go with it."""

    team: Team
    representation: AbstractRepresentation
    laplacian: AbstractLaplacian
    basis: Basis

    @property
    def fitted(self) -> AbstractLaplacian:
        """The Laplacian with some functions to spare, so that no cluster of eigenvalues is cut in two."""
        laplacian = self.laplacian.for_team(self.team.num_agents)
        return replace(laplacian, num_eigenfunctions=num_to_fit(laplacian.num_eigenfunctions))  # pyright: ignore

    @property
    def part(self) -> OfTeam:
        return OfTeam(self.representation, self.team)

    def encode(self, representation: Any, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        return self.representation.encode(self.team, representation, agent_states)

    def eigenfunctions(
        self, representation: Any, spectrum: Spectrum, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " k"]:
        """Every eigenfunction at one joint state, of unit variance under the walk."""
        z = spectrum.standard(self.encode(representation, agent_states))
        return spectrum.canonical(self.fitted.eigenfunctions(spectrum.laplacian, z))


def fit_representation(
    discovery: Discovery,
    dataset: Dataset,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Any:
    """The representation's state for every seed."""
    return fit(discovery.part, dataset, keys, name="representation", directory=directory, progress=progress)


def fit_spectrum(
    discovery: Discovery,
    representation: Any,
    walk: Walk,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Spectrum:
    """The eigenfunctions on the standardised z of a walk, for every seed."""
    standard, pairs = encode_walk(discovery, representation, walk)
    state = fit(discovery.fitted, pairs, keys, name="laplacian", directory=directory, progress=progress)
    return Spectrum(standard, state, _canonicalise(discovery, state, pairs))


def untrained_spectrum(discovery: Discovery, representation: Any, walk: Walk, keys: Key[Array, " seed"]) -> Spectrum:
    """What `fit_spectrum` returns, before training: for its structure and shapes."""
    standard, pairs = encode_walk(discovery, representation, walk)
    state = jax.vmap(lambda key, data: discovery.fitted.init(data, key=key))(keys, pairs)
    return Spectrum(standard, state, _canonicalise(discovery, state, pairs))


@partial(jax.jit, static_argnums=0)
def encode_walk(discovery: Discovery, representation: Any, walk: Walk) -> tuple[Standard, Pairs]:
    """z before and after every transition, standardised by the walk's own moments; seeds lead."""

    def one_seed(seed: tuple[Any, Walk]) -> tuple[Standard, Pairs]:
        state, walk = seed
        z, next_z = (
            encode_states(discovery, state, jnp.reshape(states, (-1, *states.shape[2:])))
            for states in (walk.states, walk.next_states)
        )
        unit = Standard(jnp.zeros(z.shape[-1]), jnp.ones(z.shape[-1]))
        standard = unit if discovery.representation.scaled else Standard.of(z, next_z)
        return standard, Pairs(standard(z), standard(next_z))

    return jax.lax.map(one_seed, (representation, walk))


def encode_states(
    discovery: Discovery, representation: Any, agent_states: Shaped[Array, "state agent feature"]
) -> Float[Array, "state z"]:
    """z of many joint states, block by block."""
    return jax.lax.map(lambda states: discovery.encode(representation, states), agent_states, batch_size=BLOCK)


@partial(jax.jit, static_argnums=0)
def _canonicalise(discovery: Discovery, state: Any, pairs: Pairs) -> Canonical:
    num = discovery.laplacian.num_eigenfunctions
    return jax.vmap(lambda s, p: canonicalise(discovery.fitted, s, p, num, discovery.basis))(state, pairs)
