"""Fit one part of discovery, a representation or a Laplacian, for all seeds at once."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Key, PRNGKeyArray

from cooptions.training.chunks import init_seeds
from cooptions.training.loop import Metrics, train
from cooptions.training.progress import Progress


@runtime_checkable
class Part(Protocol):
    """A representation or a Laplacian: a frozen dataclass of hyperparameters with these pure functions.

    `num_steps` is 0 if the part has a closed form; `init` then returns the final state.
    """

    @property
    def num_steps(self) -> int: ...

    def init(self, data: Any, *, key: PRNGKeyArray) -> Any: ...

    def step(self, state: Any, data: Any, *, key: PRNGKeyArray) -> tuple[Any, Metrics]: ...


def fit(
    part: Part,
    data: Any,
    keys: Key[Array, " seed"],
    *,
    name: str,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Any:
    """The part's final state, with a leading seed axis."""
    if part.num_steps == 0:
        with (progress or Progress.silent()).stage(name, 1) as show:
            state = jax.block_until_ready(init_seeds(part, keys, data))
            show.advance(1, {})
        return state
    log_steps = max(1, part.num_steps // 50)
    return train(
        part,
        data,
        keys,
        name=name,
        num_steps=part.num_steps,
        log_steps=log_steps,
        directory=directory,
        progress=progress,
    ).state
