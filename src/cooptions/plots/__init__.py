"""Plotting functions. They take arrays and return figures or frames."""

from cooptions.plots.frames import Floor as Floor
from cooptions.plots.frames import floor as floor
from cooptions.plots.frames import frames as frames
from cooptions.plots.gif import add_captions as add_captions
from cooptions.plots.gif import save_gif as save_gif
from cooptions.plots.gif import step_captions as step_captions
from cooptions.plots.rollout import Rollout as Rollout
