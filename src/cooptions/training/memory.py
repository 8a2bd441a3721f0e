"""How much memory a stage of training takes, before it is compiled."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray

from cooptions.errors import ConfigError
from cooptions.training.chunks import Evaluated, Stage
from cooptions.training.liveness import array_bytes, working_bytes
from cooptions.training.progress import Progress

TRIFLE = 2_000_000
"""Bytes of state and data below which nobody needs to know what a step holds, unless it asks for large arrays: to find
out takes some seconds."""
ON_CPU = 1.5
"""What a program holds on a CPU, in units of what `working_bytes` counts, which is nearer to a GPU: XLA fuses less on a
CPU. Measured: from 1.3 (options) to 1.8 (representations)."""
TIMES = "steps", "learning_starts"
"""How the names of whole numbers end that are no sizes."""
LARGE = 2**23
"""Elements of an array that is large."""


def stage_bytes(stage: Stage, data: Any, keys: Key[Array, " seed"]) -> int:
    """Bytes of the training state and the data of all seeds, and of what a step holds, where that may matter.

    `data` and `keys` may be shapes alone.
    """
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (data, keys))
    leaves, structure = jax.tree.flatten(shapes)
    return _stage_bytes(stage, structure, tuple(leaves))


@lru_cache(maxsize=32)
def _stage_bytes(stage: Stage, structure: Any, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> int:
    """Remembered: a run is asked before anything of it is made, and each stage once more when it begins."""
    data, keys = jax.tree.unflatten(structure, leaves)
    begin = jax.vmap(lambda key, data: stage.init(data, key=key))
    state = jax.eval_shape(begin, keys, data)
    lasting = tree_bytes((state, data))
    if lasting > device_bytes() or (lasting < TRIFLE and largest_array(stage) < LARGE):
        return lasting
    if _is_closed(stage):  # all is done at the beginning
        return lasting + held_bytes(begin, keys, data)
    step = jax.vmap(lambda state, data, key: stage.step(state, data, key=key))
    held = held_bytes(step, state, data, keys)
    if isinstance(stage, Evaluated):
        held = max(held, held_bytes(_evaluation(stage), state, data, keys))
    return lasting + held


def held_bytes(function: Callable, *arguments: Any) -> int:
    """The most that a function holds on this device at any time besides its arguments, which may be shapes alone."""
    return int(working_bytes(function, *arguments) * (ON_CPU if jax.default_backend() == "cpu" else 1.0))


def _is_closed(stage: Stage) -> bool:
    """Whether a stage is a closed form: then its first state is the answer."""
    return getattr(stage, "num_steps", 1) == 0


def largest_array(stage: Stage) -> int:
    """How many elements an array could have, at a guess: the product of the two largest numbers of the configuration,
    such as a batch and the width of a layer; of a closed form, which multiplies matrices, the square of the largest."""
    numbers = sorted(number for _, number in whole_numbers(stage))
    return math.prod(numbers[-1:] * 2 if _is_closed(stage) else numbers[-2:])


def enlarged(config: Any, path: str, *others: str) -> str:
    """What to make smaller, in words: the fields of a configuration that are above their defaults, those that are so by
    most first, and the `others`."""
    usual = dict(sorted(whole_numbers(type(config)(), path)))
    raised = {name: number / max(usual.get(name, 1), 1) for name, number in sorted(whole_numbers(config, path))}
    names = sorted((name for name, factor in raised.items() if factor > 1), key=lambda name: -raised[name])
    *rest, last = (*names, *others)
    return f"{', '.join(rest)} or {last}" if rest else last


def whole_numbers(config: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """The whole numbers in a configuration that may be sizes, with the names of their fields."""
    if dataclasses.is_dataclass(config):
        for field in dataclasses.fields(config):
            yield from whole_numbers(getattr(config, field.name), f"{path}.{field.name}".strip("."))
    elif isinstance(config, tuple):
        for item in config:
            yield from whole_numbers(item, path)
    elif type(config) is int and not path.endswith(TIMES):
        yield path, config


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
