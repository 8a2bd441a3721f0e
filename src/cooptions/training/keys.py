"""Random keys: one root for each seed, and from it one key for each stage."""

from zlib import crc32

import jax
from jaxtyping import PRNGKeyArray


def stage_key(root: PRNGKeyArray, stage: str) -> PRNGKeyArray:
    """The key of a stage. It depends on the stage's name alone: a new stage changes no other's numbers."""
    return jax.random.fold_in(root, crc32(stage.encode()))
