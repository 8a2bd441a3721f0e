"""Fingerprints: what an option set depends on, and where an environment differs from it."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from cooptions.envs.base import AbstractEnv
from cooptions.errors import ArtifactError
from cooptions.files import Json, file_digest, shown
from cooptions.options.sharing.sealed import Place
from cooptions.options.sight import Sight


def fingerprint(env: AbstractEnv, sight: Sight = "observation") -> Json:
    """The properties that an environment must share with the one that options were trained in, as plain JSON.

    Policies with relation sight depend on the number and features of the agents, the ground and the no-op. Policies
    with observation sight depend on everything. `Primitives` compares the other actions by name.
    """
    agents = {
        "num_agents": env.num_agents,
        "features": [dataclasses.asdict(feature) for feature in env.features],
        "agent_features": env.agent_features.tolist(),
        "noop": env.action_names[env.noop],
    }
    if sight == "relation" and env.ground is not None:
        value = {"ground": env.ground, **agents}
    elif sight == "relation":
        value = {**_plain(env), **env.task_rules, **agents, **_hashes(env)}
    else:
        value = {**_plain(env), **env.task_rules, **agents, **_shapes(env), **_hashes(env)}
    return json.loads(json.dumps(value, allow_nan=False))


def _shapes(env: AbstractEnv) -> Json:
    """The actions and observations of an environment."""
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    return {
        "num_actions": env.num_actions,
        "observation": {"shape": timestep.observation.shape, "dtype": timestep.observation.dtype.name},
        "action_mask": {"shape": timestep.action_mask.shape},
    }


def _hashes(env: AbstractEnv) -> Json:
    return {"files": [file_digest(path) for path in env.files]} if env.files else {}


def _plain(value: Any) -> Any:
    """A configuration as JSON, with functions replaced by their names and arrays by their hashes."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.ascontiguousarray(value)
        return {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    name = {"class": type(value).__name__}
    if dataclasses.is_dataclass(value):
        fields = [field for field in dataclasses.fields(value) if not field.metadata.get("only_drawn")]
        return name | {field.name: _plain(getattr(value, field.name)) for field in fields}
    scalars = {
        key: item for key, item in getattr(value, "__dict__", {}).items() if isinstance(item, bool | int | float | str)
    }
    return name | _plain(scalars)


def require_same(where: Place, there: Json, here: Json) -> None:
    """Raise `ArtifactError` with the differing fields unless the two fingerprints are equal."""
    changes = list(dict.fromkeys(_differences(there, here)))
    if changes:
        raise ArtifactError(f"{where}: made for another environment: {'; '.join(changes[:8])}")


def _differences(there: Any, here: Any, field: str = "") -> list[str]:
    """The fields in which two fingerprints differ, with both values."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = dict.fromkeys([*here, *there])
        pairs = [(f"{field}.{key}".strip("."), there.get(key), here.get(key)) for key in keys]
    elif _are_records(there) and _are_records(here) and len(there) == len(here):
        pairs = [(f"{field}[{i}]", *pair) for i, pair in enumerate(zip(there, here, strict=True))]
    else:
        same = type(there) is type(here) and there == here
        return [] if same else [f"{shown(field)[1:-1]} is {shown(there)} there, {shown(here)} here"]
    return [text for name, left, right in pairs for text in _differences(left, right, name)]


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
