"""Representations of a team's state, one file each. `base.py` defines their interface."""
