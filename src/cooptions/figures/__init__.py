"""Figures, one file each, drawn from the artefacts of a run."""
