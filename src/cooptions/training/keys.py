"""Random keys: one root key per seed, and one key per stage derived from it."""

from zlib import crc32

import jax
from jaxtyping import PRNGKeyArray


def stage_key(root: PRNGKeyArray, stage: str) -> PRNGKeyArray:
    """The key of a stage. It depends only on the stage's name, so adding a stage does not change the others."""
    return jax.random.fold_in(root, crc32(stage.encode()))
