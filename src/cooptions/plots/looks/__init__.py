"""How each environment looks; one file each."""

from cooptions.plots.looks import grid, lbf, overcooked  # noqa: F401
