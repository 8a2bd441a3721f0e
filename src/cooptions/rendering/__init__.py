"""Pictures of states and animations of roll-outs, quick enough to look at every option of a set."""

from cooptions.rendering import grid, lbf, overcooked  # noqa: F401  (each registers the look of its environment)
from cooptions.rendering.base import Floor, floor, frames
from cooptions.rendering.gif import add_captions, save_gif, step_captions
from cooptions.rendering.rollout import Rollout

__all__ = ["Floor", "Rollout", "add_captions", "floor", "frames", "save_gif", "step_captions"]
