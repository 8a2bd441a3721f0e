"""Environments of other libraries: their agents, and the landmarks that the adapter was told of."""

import jax
import numpy as np
from jaxtyping import UInt8

from cooptions.envs.adapters.base import AbstractAdapter, Wrapped
from cooptions.plots.frames import frames, plain_frames


@frames.register(AbstractAdapter)
def adapter_frames(env: AbstractAdapter, states: Wrapped) -> UInt8[np.ndarray, "time height width 3"]:
    landmarks = None if env.landmarks is None else np.asarray(jax.vmap(env.landmarks)(states.inner))
    return plain_frames(env, states, landmarks)
