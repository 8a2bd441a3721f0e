"""From walks to eigenfunctions: z of every joint state, then the slowest functions of z (paper, Section 3.2)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from cooptions.discovery.laplacian.base import AbstractLaplacian, Pairs
from cooptions.discovery.laplacian.canonical import Basis, Canonical, References, canonicalise, num_to_fit
from cooptions.discovery.laplacian.profiles import Profiles, profiles_of
from cooptions.discovery.representations.base import AbstractRepresentation, AddsUp, OfTeam, informative
from cooptions.discovery.representations.table import Table, has_table
from cooptions.discovery.subteams import walk_of
from cooptions.discovery.walks import Dataset, Walk
from cooptions.envs.team import Team
from cooptions.errors import require
from cooptions.training.fitting import fit
from cooptions.training.progress import Progress

Encoder = Callable[[Shaped[Array, "agent feature"]], Float[Array, " z"]]
Evaluator = Callable[[Shaped[Array, "agent feature"]], Float[Array, " k"]]

BLOCK = 8192
"""The number of joint states that are encoded at once."""


class Standard(eqx.Module):
    """Standardise z to mean 0 and standard deviation 1. Components that are not `informative` become 0."""

    mean: Float[Array, "*seed z"]
    scale: Float[Array, "*seed z"]

    @classmethod
    def of(cls, z: Float[Array, "state z"], next_z: Float[Array, "state z"]) -> "Standard":
        kept = informative(z, next_z)
        return cls(z.mean(axis=0), jnp.where(kept, 1 / jnp.where(kept, z.std(axis=0), 1.0), 0.0))

    def __call__(self, z: Float[Array, "*batch z"]) -> Float[Array, "*batch z"]:
        return (z - self.mean) * self.scale


class Spectrum(eqx.Module):
    """The result of discovery, with which eigenfunctions of z are evaluated. Several seeds have a leading axis."""

    standard: Standard
    laplacian: Any
    """The Laplacian's solution."""
    canonical: Canonical
    profiles: Profiles | None
    """None except in the basis `axes`."""

    @property
    def num_missing(self) -> Int[Array, "*seed"]:
        """The number of missing eigenfunctions, which are the last ones and 0: z takes too few values for them."""
        return (self.canonical.matrix == 0).all(axis=-2).sum(axis=-1)


@dataclass(frozen=True)
class Discovery:
    """A representation, a Laplacian and a basis for a team. `Spectrum` and the representation's state are learned."""

    team: Team
    """The team whose eigenfunctions are discovered. If it is a sub-team, the walk is that of the whole team."""
    representation: AbstractRepresentation
    laplacian: AbstractLaplacian
    basis: Basis

    def __post_init__(self) -> None:
        num = self.team.num_agents
        require(num >= 2, f"scenario: discovery is about how agents stand to each other; this team has {num}")
        _ = self.fitted  # refuses incompatible parts before anything is learned

    @property
    def fitted(self) -> AbstractLaplacian:
        """The Laplacian with some functions to spare, so that no cluster of eigenvalues is cut in two."""
        num = num_to_fit(self.laplacian.num_eigenfunctions)
        laplacian = replace(self.laplacian, num_eigenfunctions=num)  # pyright: ignore[reportArgumentType]
        return laplacian.for_team(self.team, len(self.representation.z_names(self.team)))

    @property
    def part(self) -> OfTeam:
        return OfTeam(self.representation, self.team)

    def encode(self, representation: Any, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        return self.representation.encode(self.team, representation, agent_states)

    def encoder(self, representation: Any) -> Encoder:
        """A function like `encode` for many joint states, which precomputes what they share. It is a pytree."""
        if isinstance(self.representation, AddsUp) and has_table(self.representation, self.team):
            return Table.of(self.representation, self.team, representation)
        return Partial(_encode, Static(self), representation)

    def eigenfunctions(
        self, representation: Any, spectrum: Spectrum, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " k"]:
        """Every eigenfunction at one joint state, of unit variance under the walk."""
        return self.of_z(spectrum, self.encode(representation, agent_states))

    def of_encoded(
        self, encode: Encoder, spectrum: Spectrum, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " k"]:
        """`eigenfunctions`, with z computed by an `encoder`."""
        return self.of_z(spectrum, encode(agent_states))

    def of_z(self, spectrum: Spectrum, z: Float[Array, " z"]) -> Float[Array, " k"]:
        """`eigenfunctions` for a given z."""
        z = spectrum.standard(z)
        values = spectrum.canonical(self.fitted.eigenfunctions(spectrum.laplacian, z))
        return values if spectrum.profiles is None else spectrum.profiles(z, values)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Static:
    """A static value that a function holds. Functions with equal values are equal.

    Bound methods are equal only for the same object, so every new one would be compiled again.
    """

    value: Any


def _encode(discovery: Static, representation: Any, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
    known: Discovery = discovery.value
    return known.encode(representation, agent_states)


def fit_representation(
    discovery: Discovery,
    dataset: Dataset,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Any:
    """Train the representation for every seed and return its state."""
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
    """Find the eigenfunctions on the standardised z of a walk, for every seed."""
    standard, pairs = encode_walk(discovery, representation, walk)
    return spectrum_of_pairs(discovery, standard, pairs, keys, directory=directory, progress=progress)


def spectrum_of_pairs(
    discovery: Discovery,
    standard: Standard,
    pairs: Pairs,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Spectrum:
    """Find the eigenfunctions on z that is already encoded."""
    state = fit(discovery.fitted, pairs, keys, name="laplacian", directory=directory, progress=progress)
    return Spectrum(standard, *_solve(discovery, state, pairs))


def untrained_spectrum(discovery: Discovery, representation: Any, walk: Walk, keys: Key[Array, " seed"]) -> Spectrum:
    """The result of `fit_spectrum` before training, for its structure and shapes."""
    standard, pairs = _encode_walk(discovery, 1, representation, walk)
    state = jax.vmap(lambda key, data: discovery.fitted.init(data, key=key))(keys, pairs)
    return Spectrum(standard, *_solve(discovery, state, pairs))


def encode_walk(discovery: Discovery, representation: Any, walk: Walk) -> tuple[Standard, Pairs]:
    """z before and after every transition, standardised by the walk's own moments, with a leading seed axis."""
    num_ends = int(np.asarray(_ends(walk.last)).sum(axis=(1, 2)).max())
    # Rounded up to a power of two, so that walks of the same size usually share one program.
    return _encode_walk(discovery, 1 << (num_ends - 1).bit_length(), representation, walk)


@partial(jax.jit, static_argnums=(0, 1))
def _encode_walk(discovery: Discovery, num_ends: int, representation: Any, walk: Walk) -> tuple[Standard, Pairs]:
    """Encode each state once. The state after a transition is the one before the next, except at `num_ends` ends."""

    def one_seed(seed: tuple[Any, Walk]) -> tuple[Standard, Pairs]:
        state, walk = seed
        walk = walk_of(discovery.team, walk)
        states, next_states = (jnp.reshape(s, (-1, *s.shape[2:])) for s in (walk.states, walk.next_states))
        z = encode_states(discovery, state, states)
        # Transition 0 fills up the list of ends. Encoding the state after it again changes nothing.
        ends = jnp.nonzero(_ends(walk.last).ravel(), size=num_ends, fill_value=0)[0]
        next_z = (
            jnp.roll(z, -walk.last.shape[1], axis=0).at[ends].set(encode_states(discovery, state, next_states[ends]))
        )
        unit = Standard(jnp.zeros(z.shape[-1]), jnp.ones(z.shape[-1]))
        standard = unit if discovery.representation.scaled else Standard.of(z, next_z)
        return standard, Pairs(standard(z), standard(next_z))

    return jax.lax.map(one_seed, (representation, walk))


def _ends(last: Bool[Array | np.ndarray, "*seed time env"]) -> Bool[Array, "*seed time env"]:
    """Which transitions the walk does not continue from: the last ones of episodes, and of the walk."""
    return jnp.asarray(last).at[..., -1, :].set(True)


def encode_states(
    discovery: Discovery, representation: Any, agent_states: Shaped[Array, "state agent feature"]
) -> Float[Array, "state z"]:
    """z of many joint states, computed block by block."""
    return jax.lax.map(discovery.encoder(representation), agent_states, batch_size=BLOCK)


@partial(jax.jit, static_argnums=0)
def _solve(discovery: Discovery, state: Any, pairs: Pairs) -> tuple[Any, Canonical, Profiles | None]:
    """A fitted Laplacian's solution, its canonical basis, and in the basis `axes` the profiles."""
    laplacian, num, basis = discovery.fitted, discovery.laplacian.num_eigenfunctions, discovery.basis

    def one_seed(state: Any, pairs: Pairs) -> tuple[Any, Canonical, Profiles | None]:
        solution = laplacian.solution(state)
        canonical = canonicalise(laplacian, solution, pairs, num, basis)
        if basis != "axes":
            return solution, canonical, None

        def functions(z: Float[Array, " z"]) -> Float[Array, " k"]:
            return canonical(laplacian.eigenfunctions(solution, z))

        return solution, canonical, profiles_of(functions, canonical, References.of(pairs.z.shape[-1], basis), pairs)

    return jax.vmap(one_seed)(state, pairs)
