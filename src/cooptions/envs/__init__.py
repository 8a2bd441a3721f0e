"""Every environment behind one interface, reachable by a scenario name."""

import difflib
import importlib
import os
import re
import sys
from functools import cache

import jax

from cooptions.envs.base import AbstractEnv, check_env
from cooptions.envs.grid import Grid
from cooptions.envs.jaxmarl import FromJaxMARL
from cooptions.envs.jumanji import FromJumanji
from cooptions.envs.lbf import Foraging
from cooptions.envs.overcooked import Overcooked
from cooptions.envs.probe import PROBES
from cooptions.errors import ConfigError, require

FAMILIES: dict[str, type[AbstractEnv]] = {
    "lbf": Foraging,
    "overcooked": Overcooked,
    "grid": Grid,
    **{f"probe-{name}": probe for name, probe in PROBES.items()},
}

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
    *(f"probe-{name}" for name in PROBES),
)
"""Scenarios worth naming. Any other of the same form works too: `lbf-10x10-3p-4f,coop=none`."""


def make_env(scenario: str) -> AbstractEnv:
    """The environment of a scenario name: `family-stem[,field=value...]`, or `module:attribute` of your own."""
    return _import_env(scenario) if ":" in scenario else _named_env(scenario)


@cache
def _named_env(scenario: str) -> AbstractEnv:
    """One of ours. It is what its name says: to make and check it once is enough."""
    name, *pairs = scenario.split(",")
    family = max((key for key in FAMILIES if f"{name}-".startswith(f"{key}-")), key=len, default=None)
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


def _unknown(scenario: str) -> str:
    near = difflib.get_close_matches(scenario, SCENARIOS, n=3, cutoff=0.3) or SCENARIOS[:3]
    return f"scenario: unknown {scenario!r}; did you mean {', '.join(near)}? `cooptions list` shows all"


def _import_env(path: str) -> AbstractEnv:
    module, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:  # a console script, unlike `python -m`, does not look where it is run
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
        env = found if isinstance(found, AbstractEnv) else found()
    except (ImportError, AttributeError, TypeError) as error:
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


__all__ = ["FAMILIES", "SCENARIOS", "AbstractEnv", "FromJaxMARL", "FromJumanji", "check_env", "make_env"]
