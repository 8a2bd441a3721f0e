"""Scenario names: `family-stem[,field=value...]` for environments of this package, `module:attribute` for others."""

import dataclasses
from functools import cache

import jax

from cooptions.envs.base import FAMILIES, AbstractEnv, check_env
from cooptions.envs.names import Family, families, family_of
from cooptions.errors import ConfigError, require
from cooptions.parts import import_outside


def make_env(scenario: str) -> AbstractEnv:
    """The environment of a scenario name: `family-stem[,field=value...]`, or `module:attribute` for your own.

    `cooptions list` shows scenarios of every family.

        env = co.make_env("grid-15x15-3p,map=door")
    """
    require(scenario.isprintable(), f"scenario: {scenario!r} holds characters that no name has")
    return _import_env(scenario) if ":" in scenario else _named_env(scenario)


@cache
def _named_env(scenario: str) -> AbstractEnv:
    """An environment of a known family. Cached, because the name determines it."""
    family = family_of(scenario, _known_families())
    name, *pairs = scenario.split(",")
    env = FAMILIES[family.name].parse(family.stem(name), dict(_option(pair) for pair in pairs))
    check_env(env)
    return env


def _known_families() -> dict[str, Family]:
    """The families of the package, and those registered from outside."""
    outside = [name for name in FAMILIES.names() if name not in families()]
    return families() | {name: _outside_family(name, FAMILIES[name]) for name in outside}


def _outside_family(name: str, kind: type[AbstractEnv]) -> Family:
    fields = tuple(field.name for field in dataclasses.fields(kind))  # pyright: ignore[reportArgumentType]
    return Family(name, "", kind.pattern, kind.form, kind.examples, fields)


def _option(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return name, value


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
