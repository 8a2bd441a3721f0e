"""Some of a team: drawn with all the others, in the look of the environment inside."""

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
