"""Representations of a team's state, one file each; `base.py` says what one is and how to write another."""
