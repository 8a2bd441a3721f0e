"""Scenario names: `family-stem[,field=value...]` for environments of ours, `module:attribute` for any other."""

import re
from functools import cache

import jax

from cooptions.envs.base import FAMILIES, AbstractEnv, check_env
from cooptions.envs.names import SCENARIOS, unknown_scenario
from cooptions.errors import ConfigError, require
from cooptions.parts import import_outside


def make_env(scenario: str) -> AbstractEnv:
    """The environment of a scenario name: `family-stem[,field=value...]`, or `module:attribute` of your own.

    `cooptions list` shows scenarios of every family.

        env = co.make_env("grid-15x15-3p,map=door")
    """
    require(scenario.isprintable(), f"scenario: {scenario!r} holds characters that no name has")
    return _import_env(scenario) if ":" in scenario else _named_env(scenario)


@cache
def _named_env(scenario: str) -> AbstractEnv:
    """One of ours. It is what its name says: to make and check it once is enough."""
    name, *pairs = scenario.split(",")
    families = (key for key in FAMILIES.names() if f"{name}-".startswith(f"{key}-"))
    family = max(families, key=len, default=None)
    stem = name.removeprefix(family or "").removeprefix("-")
    if family is None or not re.fullmatch(FAMILIES[family].pattern, stem):
        raise ConfigError(unknown_scenario(scenario, scenario_names()))
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
