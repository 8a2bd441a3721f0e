"""Figures drawn from the artefacts of a run, one file each."""
