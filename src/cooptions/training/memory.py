"""How much memory a stage of training takes, before it is compiled."""

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray

from cooptions.errors import ConfigError
from cooptions.training.chunks import Evaluated, Stage
from cooptions.training.liveness import array_bytes, working_bytes
from cooptions.training.progress import Progress

TRIFLE = 2_000_000
"""Bytes of state and data below which nobody needs to know what a step holds: to find out takes some seconds."""


def stage_bytes(stage: Stage, data: Any, keys: Key[Array, " seed"]) -> int:
    """Bytes of the training state and the data of all seeds, and of what a step holds, where that may matter."""
    state = jax.eval_shape(jax.vmap(lambda key, data: stage.init(data, key=key)), keys, data)
    lasting = tree_bytes((state, data))
    if not TRIFLE < lasting < device_bytes():
        return lasting
    step = jax.vmap(lambda state, data, key: stage.step(state, data, key=key))
    held = working_bytes(step, state, data, keys)
    if isinstance(stage, Evaluated):
        held = max(held, working_bytes(_evaluation(stage), state, data, keys))
    return lasting + held


def _evaluation(stage: Evaluated) -> Callable:
    """A whole evaluation of every seed."""

    def one_seed(state: Any, data: Any, key: PRNGKeyArray) -> Any:
        begun = stage.begin_evaluation(state, data, key=key)
        return stage.evaluate_on(begun, state, data, jnp.int32(1), key=key)

    return jax.vmap(one_seed)


def tree_bytes(tree: Any) -> int:
    return sum(array_bytes(leaf) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype"))


def device_bytes() -> int:
    """What the device can hold: its own limit, or this machine's memory."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("bytes_limit") or host_bytes()


def host_bytes() -> int:
    """This machine's memory; where it does not say, as much as a large one has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**40


def require_fits(
    stage: Stage, data: Any, keys: Key[Array, " seed"], name: str, *, shrink: str, progress: Progress | None = None
) -> int:
    """Say how much a stage will take, and refuse what cannot fit with the fields that would make it smaller."""
    needed, held = stage_bytes(stage, data, keys), device_bytes()
    if progress is not None:
        progress.console.print(f"{name:>12} needs {needed / 1e9:.2f} GB of {held / 1e9:.0f} GB")
    require_room(name, needed, shrink, on_device=True)
    return needed


def require_room(name: str, needed: int, shrink: str, *, on_device: bool = False) -> None:
    """Refuse what takes more memory than there is, with the fields that would make it smaller."""
    held = device_bytes() if on_device else host_bytes()
    if needed > 0.9 * held:
        place = "device" if on_device else "machine"
        raise ConfigError(
            f"{name}: needs {needed / 1e9:,.1f} GB, the {place} has {held / 1e9:,.1f} GB; make {shrink} smaller"
        )
