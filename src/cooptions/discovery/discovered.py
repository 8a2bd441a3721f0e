"""The result of discovery for a team: its representation and eigenfunctions as one callable object."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, PRNGKeyArray, Shaped

from cooptions.discovery.discover import (
    Discovery,
    Encoder,
    Evaluator,
    Spectrum,
    Static,
    fit_representation,
    fit_spectrum,
    untrained_spectrum,
)
from cooptions.discovery.laplacian.base import AbstractLaplacian
from cooptions.discovery.laplacian.canonical import Basis
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.memory import require_representation_fits, require_spectrum_fits
from cooptions.discovery.representations.base import AbstractRepresentation, FindsFermat
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.walks import Dataset, Walk, dataset_shapes, index_futures
from cooptions.envs.team import Members, Team
from cooptions.errors import require
from cooptions.files import fill, load_tree, save_tree
from cooptions.training.keys import stage_key
from cooptions.training.progress import Progress

BLOCK = 8192
"""The number of joint states that are evaluated at once."""


class Discovered(eqx.Module):
    """The eigenfunctions of one team, as a function of its agents' states.

    `found(agent_states)` evaluates them at one joint state. Each agent's state has all features of the environment;
    those that discovery does not use are ignored. With several seeds, arrays have a leading seed axis, and
    `found.seed(i)` is one of them.

        found = co.discover(walk, co.Hit(), co.Nystrom(10), key=key)
        found(env.agent_states(state))  # the ten slowest eigenfunctions there
        found.save("found.safetensors")
        again = co.Discovered.load("found.safetensors")
    """

    discovery: Discovery = eqx.field(static=True)
    representation: Any
    """The representation's trained state."""
    spectrum: Spectrum

    def __call__(self, agent_states: Shaped[Array | np.ndarray, "agent all_feature"]) -> Float[Array, " k"]:
        """Every eigenfunction at one joint state, of unit variance under the walk."""
        chosen = self.team.select(jnp.asarray(agent_states))
        return self.discovery.eigenfunctions(self.representation, self.spectrum, chosen)

    def at(self, agent_states: Shaped[Array | np.ndarray, "state agent all_feature"]) -> Float[Array, "state k"]:
        """Every eigenfunction at many joint states, block by block."""
        return _at(self, jnp.asarray(agent_states))

    def encode(self, agent_states: Shaped[Array | np.ndarray, "agent all_feature"]) -> Float[Array, " z"]:
        """The relative state z of one joint state: the n-distance of each feature, for relative representations."""
        chosen = self.team.select(jnp.asarray(agent_states))
        return self.discovery.encode(self.representation, chosen)

    def fermat_state(self, agent_states: Shaped[Array | np.ndarray, "agent all_feature"]) -> Float[Array, " feature"]:
        """The state with the smallest summed distance to the team (Definition 1), in the features that discovery
        uses."""
        representation = self.discovery.representation
        if not isinstance(representation, FindsFermat):
            raise TypeError(f"{type(representation).__name__} knows no Fermat state; see `finds_fermat`")
        chosen = self.team.select(jnp.asarray(agent_states))
        return representation.fermat_state(self.team, self.representation, chosen)

    def evaluator(self) -> Evaluator:
        """This function for many joint states, which precomputes what they share. It is a pytree."""
        return Partial(_evaluate, Static(self.discovery), self.discovery.encoder(self.representation), self.spectrum)

    @property
    def team(self) -> Team:
        return self.discovery.team

    @property
    def finds_fermat(self) -> bool:
        """Whether the representation has a `fermat_state`."""
        return isinstance(self.discovery.representation, FindsFermat)

    @property
    def z_names(self) -> tuple[str, ...]:
        """The name of each component of z."""
        return self.discovery.representation.z_names(self.team)

    @property
    def num_eigenfunctions(self) -> int:
        return self.discovery.laplacian.num_eigenfunctions

    @property
    def eigenvalues(self) -> Float[Array, "*seed k"]:
        """The eigenvalues. Those near 0 belong to slow functions."""
        return self.spectrum.canonical.eigenvalues

    def on_kept(self) -> "Discovered":
        """This function for agents' states with only the features that discovery uses, like those of a walk."""
        team = dataclasses.replace(self.team, columns=())
        return Discovered(dataclasses.replace(self.discovery, team=team), self.representation, self.spectrum)

    def seed(self, index: int) -> "Discovered":
        """The result of one seed, given its index."""
        return jax.tree.map(lambda leaf: leaf[index], self)

    def save(self, path: Path | str) -> None:
        """Write one file atomically, which `load` reads."""
        save_tree(Path(path), _Parts(self.discovery), (self.representation, self.spectrum))

    @classmethod
    def load(cls, path: Path | str, *, trust: bool = False) -> "Discovered":
        """Read what `save` wrote, after verifying its SHA-256. Parts from outside need `trust`."""
        parts, arrays = load_tree(Path(path), _Parts, trust=trust)
        like = untrained(parts.discovery, 1, (8, 1))
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), like)
        return cls(parts.discovery, *fill((one.representation, one.spectrum), arrays))


@dataclass(frozen=True)
class _Parts:
    """The discovery to which the arrays of a file belong."""

    discovery: Discovery


@jax.jit
def _at(found: Discovered, agent_states: Shaped[Array, "state agent all_feature"]) -> Float[Array, "state k"]:
    return jax.lax.map(found.evaluator(), agent_states, batch_size=BLOCK)


def _evaluate(
    discovery: Static, encode: Encoder, spectrum: Spectrum, agent_states: Shaped[Array, "agent all_feature"]
) -> Float[Array, " k"]:
    known: Discovery = discovery.value
    return known.of_encoded(encode, spectrum, known.team.select(agent_states))


def discover(
    walk: Walk,
    representation: AbstractRepresentation | None = None,
    laplacian: AbstractLaplacian | None = None,
    *,
    members: Members = 0,
    of: Discovered | None = None,
    basis: Basis = "symmetric",
    key: PRNGKeyArray,
    directory: Path | str | None = None,
    progress: Progress | bool = False,
) -> Discovered:
    """Learn a representation of a team from its walk, and the eigenfunctions of its slowest changes (paper, Section 3).

    By default, `representation` is `Hit()` and `laplacian` is `Nystrom(10)`. With a `directory`, training resumes from
    its last checkpoint there.

    With `members`, the eigenfunctions are those of a sub-team: of that many agents, or of agents like the named ones
    (see `SubteamEnv`). `of` is another discovery in the same environment. Its representation is used unchanged, and
    only the eigenfunctions are computed.

        walk = co.walk(env, key=key)
        found = co.discover(walk, co.Hit(), co.Nystrom(10), key=key)
        pairs = co.discover(walk, of=found, members=2, key=key)
    """
    require(walk.team is not None, "walk: it does not say whose it is; `co.walk(env, ...)` makes one that does")
    assert walk.team is not None
    team = walk.team if members == 0 else walk.team.part(members)
    discovery = Discovery(team, representation or _learned_by(of) or Hit(), laplacian or Nystrom(), basis)
    if of is not None:
        _require_serves(of, discovery)
    found = discover_seeds(
        discovery,
        index_futures(jax.tree.map(lambda leaf: leaf[None], walk)),
        None if of is None else jax.tree.map(lambda leaf: leaf[None], of.representation),
        representation_keys=stage_key(key, "representation")[None],
        laplacian_keys=stage_key(key, "laplacian")[None],
        directory=None if directory is None else Path(directory),
        progress=Progress.of(progress),
    )
    return found.seed(0)


def _learned_by(of: Discovered | None) -> AbstractRepresentation | None:
    return None if of is None else of.discovery.representation


def _require_serves(of: Discovered, discovery: Discovery) -> None:
    """Raise `ConfigError` if the representation of one discovery does not fit another discovery."""
    learned = of.discovery.representation
    require(learned == discovery.representation, "of: it has a representation, so that no other can be given")
    require(of.team.whole == discovery.team.whole, "of: it was discovered for another team than the one that walked")
    require(
        learned.of_single_agents or of.team == discovery.team,
        f"of: {type(learned).__name__} learns from the states of all members together: for others it is trained anew, "
        "so leave `of` out",
    )


def discover_seeds(
    discovery: Discovery,
    dataset: Dataset,
    state: Any = None,
    *,
    representation_keys: Key[Array, " seed"],
    laplacian_keys: Key[Array, " seed"],
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Discovered:
    """Run discovery on every seed's walk. With a `state`, that trained representation is used."""
    require_spectrum_fits(discovery, dataset, laplacian_keys)
    if state is None:
        require_representation_fits(discovery, dataset, representation_keys)
        state = fit_representation(discovery, dataset, representation_keys, directory=directory, progress=progress)
    spectrum = fit_spectrum(discovery, state, dataset.walk, laplacian_keys, directory=directory, progress=progress)
    return Discovered(discovery, state, spectrum)


def untrained(discovery: Discovery, num_seeds: int, walked: tuple[int, int]) -> Discovered:
    """The shapes of what `num_seeds` seeds find in walks of [time, env], without computing anything."""

    def make(keys: Any, dataset: Dataset) -> Discovered:
        state = jax.vmap(lambda key, data: discovery.part.init(data, key=key))(keys, dataset)
        return Discovered(discovery, state, untrained_spectrum(discovery, state, dataset.walk, keys))

    keys = jax.ShapeDtypeStruct((num_seeds,), jax.random.key(0).dtype)
    return jax.eval_shape(make, keys, dataset_shapes(discovery.team, num_seeds, walked))
