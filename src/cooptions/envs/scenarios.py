"""Scenario names: `family-stem[,field=value...]` for environments of ours, `module:attribute` for any other."""

import difflib
import re
from functools import cache

import jax

from cooptions.envs.base import FAMILIES, AbstractEnv, check_env
from cooptions.errors import ConfigError, require
from cooptions.parts import import_outside

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


def make_env(scenario: str) -> AbstractEnv:
    """The environment of a scenario name: `family-stem[,field=value...]`, or `module:attribute` of your own."""
    return _import_env(scenario) if ":" in scenario else _named_env(scenario)


@cache
def _named_env(scenario: str) -> AbstractEnv:
    """One of ours. It is what its name says: to make and check it once is enough."""
    name, *pairs = scenario.split(",")
    families = (key for key in FAMILIES.names() if f"{name}-".startswith(f"{key}-"))
    family = max(families, key=len, default=None)
    stem = name.removeprefix(family or "").removeprefix("-")
    if family is None or not re.fullmatch(FAMILIES[family].pattern, stem):
        raise ConfigError(_unknown(scenario))
    env = FAMILIES[family].parse(stem, dict(_option(pair) for pair in pairs))
    check_env(env)
    return env


def _option(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise ConfigError(f"scenario: {pair!r} is not of the form field=value")
    return name, value


def scenario_names() -> tuple[str, ...]:
    """Scenarios to list: those worth naming, and families that need no more than their name."""
    return (*SCENARIOS, *(name for name in FAMILIES.names() if name.startswith("probe-")))


def _unknown(scenario: str) -> str:
    near = difflib.get_close_matches(scenario, scenario_names(), n=3, cutoff=0.3) or SCENARIOS[:3]
    return f"scenario: unknown {scenario!r}; did you mean {', '.join(near)}? `cooptions list` shows all"


def _import_env(path: str) -> AbstractEnv:
    found = import_outside("scenario", path)
    try:
        env = found if isinstance(found, AbstractEnv) else found()
    except TypeError as error:
        raise ConfigError(f"scenario: cannot use {path!r}: {error}") from None
    if not isinstance(env, AbstractEnv):
        raise ConfigError(f"scenario: {path!r} is a {type(env).__name__}, not an AbstractEnv")
    arrays = jax.tree.leaves(env)
    require(
        not arrays,
        f"scenario: {path!r} holds {len(arrays)} arrays, which would be shared out among seeds; make them in its "
        "methods, or keep them as static fields (tuples of numbers)",
    )
    check_env(env)
    return env
