"""Estimate the memory of a training stage before it is compiled, and refuse one that does not fit."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray

from cooptions.errors import ConfigError
from cooptions.training.chunks import Evaluated, Stage, step_seed
from cooptions.training.liveness import array_bytes, working_bytes
from cooptions.training.progress import Progress
from cooptions.types import strongly_typed

ON_CPU = 1.5
"""Ratio of a program's memory on a CPU to the estimate of `working_bytes`, which is for a GPU: XLA fuses less on a CPU.
Measured: from 1.3 (options) to 1.8 (representations)."""
TIMES = "steps", "learning_starts"
"""Suffixes of the names of integer fields that are not array sizes."""


def stage_bytes(stage: Stage, data: Any, keys: Key[Array, " seed"]) -> int:
    """Bytes of the training state and data of all seeds, plus a step's working memory.

    `data` and `keys` may be `jax.ShapeDtypeStruct`s.
    """
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (data, keys))
    leaves, structure = jax.tree.flatten(shapes)
    return _stage_bytes(stage, structure, tuple(leaves))


@lru_cache(maxsize=32)
def _stage_bytes(stage: Stage, structure: Any, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> int:
    """Cached, because a run checks all its stages before it starts and each stage again when it begins."""
    data, keys = jax.tree.unflatten(structure, leaves)
    begin = jax.vmap(lambda key, data: strongly_typed(stage.init(data, key=key)))  # as training begins
    state = jax.eval_shape(begin, keys, data)
    lasting = tree_bytes((state, data))
    if lasting > device_bytes():
        return lasting
    if _is_closed(stage):  # `init` does all the work
        return lasting + held_bytes(begin, keys, data)
    held = held_bytes(jax.vmap(partial(step_seed, stage)), state, data, keys)
    if isinstance(stage, Evaluated):
        held = max(held, held_bytes(_evaluation(stage), state, data, keys))
    return lasting + held


def held_bytes(function: Callable, *arguments: Any) -> int:
    """The peak memory of a function on this device besides its arguments, which may be `jax.ShapeDtypeStruct`s."""
    return int(working_bytes(function, *arguments) * (ON_CPU if jax.default_backend() == "cpu" else 1.0))


def _is_closed(stage: Stage) -> bool:
    """Whether a stage has a closed form, so that its initial state is the result."""
    return getattr(stage, "num_steps", 1) == 0


def enlarged(config: Any, path: str, *others: str) -> str:
    """The names of what to make smaller, as a phrase for an error message.

    These are the fields of a configuration that exceed their defaults, by ratio in descending order, then `others`.
    """
    usual = dict(sorted(whole_numbers(type(config)(), path)))
    raised = {name: number / max(usual.get(name, 1), 1) for name, number in sorted(whole_numbers(config, path))}
    names = sorted((name for name, factor in raised.items() if factor > 1), key=lambda name: -raised[name])
    *rest, last = (*names, *others)
    return f"{', '.join(rest)} or {last}" if rest else last


def whole_numbers(config: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """The integers in a configuration that may be array sizes, with the names of their fields."""
    if dataclasses.is_dataclass(config):
        for field in dataclasses.fields(config):
            yield from whole_numbers(getattr(config, field.name), f"{path}.{field.name}".strip("."))
    elif isinstance(config, tuple):
        for item in config:
            yield from whole_numbers(item, path)
    elif type(config) is int and not path.endswith(TIMES):
        yield path, config


def _evaluation(stage: Evaluated) -> Callable:
    """A function that evaluates every seed, with one step of the evaluation's loop."""

    def one_seed(state: Any, data: Any, key: PRNGKeyArray) -> Any:
        begun = stage.begin_evaluation(state, data, key=key)
        return stage.evaluate_on(begun, state, data, jnp.int32(1), key=key)

    return jax.vmap(one_seed)


def tree_bytes(tree: Any) -> int:
    return sum(array_bytes(leaf) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype"))


def device_bytes() -> int:
    """The device's memory limit in bytes, or the machine's memory if the device reports none."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("bytes_limit") or host_bytes()


def host_bytes() -> int:
    """The machine's memory in bytes, or 1 TiB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**40


def require_fits(
    stage: Stage, data: Any, keys: Key[Array, " seed"], name: str, *, shrink: str, progress: Progress | None = None
) -> int:
    """Print the memory that a stage needs. If it does not fit, raise `ConfigError` with the fields to make smaller."""
    needed, held = stage_bytes(stage, data, keys), device_bytes()
    if progress is not None:
        progress.console.print(f"{name:>12} needs {needed / 1e9:.2f} GB of {held / 1e9:.0f} GB")
    require_room(name, needed, shrink, on_device=True)
    return needed


def require_room(name: str, needed: int, shrink: str, *, on_device: bool = False) -> None:
    """Raise `ConfigError` with the fields to make smaller if `needed` bytes do not fit into memory."""
    held = device_bytes() if on_device else host_bytes()
    if needed > 0.9 * held:
        place = "device" if on_device else "machine"
        raise ConfigError(
            f"{name}: needs {needed / 1e9:,.1f} GB, the {place} has {held / 1e9:,.1f} GB; make {shrink} smaller"
        )
