"""Names of scenarios, in a module that imports nothing: a listing must not wait for JAX."""

import difflib
from collections.abc import Sequence

SCENARIOS: tuple[str, ...] = (
    "lbf-15x15-4p-3f",
    "lbf-15x15-4p-5f",
    "lbf-15x15-3p-5f",
    "lbf-15x15-4p-3f,rules=jumanji",
    "lbf-8x8-2p-2f",
    "overcooked-cramped_room",
    "overcooked-asymm_advantages",
    "overcooked-coord_ring",
    "overcooked-forced_coord",
    "overcooked-counter_circuit",
    "grid-15x15-3p",
    "grid-15x15-4p",
    "grid-15x15-4p,time_limit=400,step_cost=0.01",
    "grid-15x15-3p,map=door",
    "grid-10x10-2p,types=12",
    "grid-15x15-3p,types=122",
    "grid-15x15-4p,task=meet",
)
"""Scenarios worth naming. Any other of the same form works too: `lbf-10x10-3p-4f,coop=none`; and every probe."""


def unknown_scenario(scenario: str, names: Sequence[str]) -> str:
    """That there is no such scenario, and which may have been meant."""
    near = difflib.get_close_matches(scenario, names, n=3, cutoff=0.3) or names[:3]
    return f"scenario: unknown {scenario!r}; did you mean {', '.join(near)}? `cooptions list` shows all"
