"""The programs of training: steps of every seed, as many at a time as fit into some seconds, and evaluations.

They are functions of a module, and the stage is an argument that is compared by value: two runs of one configuration in
one process share them. A function made on the way would be compiled anew each time.
"""

from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PRNGKeyArray

State = TypeVar("State")
Metrics = dict[str, Array]


@runtime_checkable
class Stage(Protocol[State]):
    """What can be trained. Both functions are for one seed: the loop vmaps them."""

    def init(self, data: Any, *, key: PRNGKeyArray) -> State: ...

    def step(self, state: State, data: Any, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...


@runtime_checkable
class Evaluated(Protocol[State]):
    """A stage that is evaluated after every `interval` steps. An evaluation can be made in parts, as training is."""

    @property
    def interval(self) -> int: ...

    def keys(self, key: PRNGKeyArray, index: Array) -> tuple[Key[Array, " step"], PRNGKeyArray]:
        """The keys of an interval's steps, and of its evaluation."""
        ...

    def begin_evaluation(self, state: State, data: Any, *, key: PRNGKeyArray) -> Any: ...

    def evaluate_on(self, evaluation: Any, state: State, data: Any, num: Array, *, key: PRNGKeyArray) -> Any:
        """Go on with an evaluation, for that many steps at most."""
        ...

    def is_over(self, evaluation: Any) -> Bool[Array, ""]: ...

    def end_interval(self, state: State, data: Any, evaluation: Any, means: Metrics) -> tuple[State, Metrics]:
        """Enter an evaluation, given the means of the steps' metrics; the metrics to be logged."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A stage that can tell whether a seed has diverged. That of others has once a metric is not finite."""

    def is_sound(self, state: Any, data: Any) -> Bool[Array, ""]: ...


class Pace:
    """How many steps to run at a time, so that they take about so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._steps = 1

    def next(self, left: int) -> int:
        return min(self._steps, left)

    def took(self, steps: int, seconds: float) -> None:
        fitting = int(self._seconds * steps / max(seconds, 1e-9))
        self._steps = max(1, min(fitting, 8 * self._steps))


def no_means(stage: Stage[State], state: State, data: Any, keys: Key[Array, " seed"]) -> Metrics:
    """Metrics of every seed before the first step."""
    step = jax.vmap(lambda state, data, key: stage.step(state, data, key=key)[1])
    shapes = jax.eval_shape(step, state, data, keys)
    return {name: jnp.zeros(shape.shape, jnp.float32) for name, shape in shapes.items()}


@partial(jax.jit, static_argnums=0)
def init_seeds(stage: Stage[State], keys: Key[Array, " seed"], data: Any) -> State:
    """The state of every seed before the first step."""
    return jax.vmap(lambda key, data: stage.init(data, key=key))(keys, data)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3))
def run_chunk(
    stage: Stage[State],
    row_steps: int,
    state: State,
    means: Metrics,
    data: Any,
    keys: Key[Array, " seed"],
    begun: Int[Array, ""],
    length: Int[Array, ""],
) -> tuple[State, Metrics]:
    """Advance every seed from step `begun` on by `length` steps, all of one row of metrics.

    `means` are over the steps of the row so far. They are updated step by step, so that where chunks begin leaves no
    trace in them. The length is no constant of the program: one is compiled for chunks of any length.
    """
    row = begun // row_steps

    def one_seed(state: State, means: Metrics, data: Any, key: PRNGKeyArray) -> tuple[State, Metrics]:
        row_keys = stage.keys(key, row)[0] if isinstance(stage, Evaluated) else None

        def body(step: Array, carry: tuple[State, Metrics]) -> tuple[State, Metrics]:
            state, means = carry
            nth = step - row * row_steps
            step_key = jax.random.fold_in(key, step) if row_keys is None else row_keys[nth]
            state, metrics = stage.step(state, data, key=step_key)
            return state, {name: _mean(means[name], value, nth) for name, value in metrics.items()}

        return jax.lax.fori_loop(begun, begun + length, body, (state, means))

    return jax.vmap(one_seed)(state, means, data, keys)


def _mean(before: Array, value: Array, num: Int[Array, ""]) -> Array:
    """The mean of one value more, after that of `num`."""
    before = jnp.where(num == 0, 0.0, before)
    return before + (value.astype(jnp.float32) - before) / (num + 1).astype(jnp.float32)


@partial(jax.jit, static_argnums=0)
def begin_evaluation(
    stage: Evaluated[State], state: State, data: Any, keys: Key[Array, " seed"], index: Int[Array, ""]
) -> Any:
    """The evaluation after interval `index`, of every seed, before its first step."""

    def one_seed(state: State, data: Any, key: PRNGKeyArray) -> Any:
        return stage.begin_evaluation(state, data, key=stage.keys(key, index)[1])

    return jax.vmap(one_seed)(state, data, keys)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def evaluate_on(
    stage: Evaluated[State],
    evaluation: Any,
    state: State,
    data: Any,
    keys: Key[Array, " seed"],
    index: Int[Array, ""],
    num: Int[Array, ""],
) -> tuple[Any, Bool[Array, ""]]:
    """At most `num` steps more, and whether every seed's evaluation is over."""

    def one_seed(evaluation: Any, state: State, data: Any, key: PRNGKeyArray) -> Any:
        return stage.evaluate_on(evaluation, state, data, num, key=stage.keys(key, index)[1])

    evaluation = jax.vmap(one_seed)(evaluation, state, data, keys)
    return evaluation, jax.vmap(stage.is_over)(evaluation).all()


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def end_interval(
    stage: Evaluated[State], state: State, data: Any, evaluation: Any, means: Metrics
) -> tuple[State, Metrics]:
    return jax.vmap(stage.end_interval)(state, data, evaluation, means)


@partial(jax.jit, static_argnums=0)
def sound_seeds(stage: Judged, state: Any, data: Any) -> Bool[Array, " seed"]:
    return jax.vmap(stage.is_sound)(state, data)
