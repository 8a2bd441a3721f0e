"""Estimate the memory of discovery from shapes, before anything is made or compiled."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from cooptions.discovery.discover import Discovery, untrained_spectrum
from cooptions.discovery.laplacian.base import Pairs
from cooptions.discovery.walks import Dataset
from cooptions.training.memory import enlarged, held_bytes, require_room, stage_bytes, tree_bytes


def require_representation_fits(discovery: Discovery, data: Dataset, keys: Key[Array, " seed"]) -> None:
    """Raise `ConfigError` if training the representation does not fit into memory. Walks and keys may be shapes."""
    shrink = enlarged(discovery.representation, "representation", "walk.transitions", "seeds")
    require_room("representation", stage_bytes(discovery.part, data, keys), shrink, on_device=True)


def require_spectrum_fits(discovery: Discovery, data: Dataset, keys: Key[Array, " seed"]) -> None:
    """Raise `ConfigError` if computing the eigenfunctions does not fit into memory."""
    shrink = enlarged(discovery.laplacian, "laplacian", "walk.transitions", "seeds")
    require_room("laplacian", spectrum_bytes(discovery, data, keys), shrink, on_device=True)


def spectrum_bytes(discovery: Discovery, data: Dataset, keys: Key[Array, " seed"]) -> int:
    """The bytes needed to encode the walks, fit the Laplacian, and find the canonical basis."""
    part, walk, fitted = discovery.part, data.walk, discovery.fitted
    state = jax.eval_shape(jax.vmap(lambda key, data: part.init(data, key=key)), keys, data)
    num_z = len(discovery.representation.z_names(discovery.team))
    z = jax.ShapeDtypeStruct((*data.by_remaining.shape, num_z), jnp.float32)
    fitting = stage_bytes(fitted, jax.eval_shape(Pairs, z, z), keys)
    finding = held_bytes(partial(untrained_spectrum, discovery), state, walk, keys)
    return tree_bytes((state, data)) + max(fitting, finding)
