"""The look of a sub-team: the environment inside, with all its agents."""

import numpy as np
from jaxtyping import UInt8

from cooptions.envs.subteam import SubteamEnv, SubteamState
from cooptions.plots.frames import Floor, floor, frames


@frames.register(SubteamEnv)
def subteam_frames(env: SubteamEnv, states: SubteamState) -> UInt8[np.ndarray, "time height width 3"]:
    return frames(env.env, states.inner)


@floor.register(SubteamEnv)
def subteam_floor(env: SubteamEnv) -> Floor | None:
    return floor(env.env)
