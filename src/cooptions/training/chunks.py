"""The jitted functions of the training loop: chunks of steps and evaluations, vmapped over seeds.

They are module-level functions with the stage as a static argument that is compared by value, so two runs of one
configuration in one process share the compiled programs. A closure would be compiled again for each run.
"""

from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PRNGKeyArray

from cooptions.types import strongly_typed

State = TypeVar("State")
Metrics = dict[str, Array]


@runtime_checkable
class Stage(Protocol[State]):
    """Something that can be trained. Both methods are for one seed; the loop vmaps them."""

    def init(self, data: Any, *, key: PRNGKeyArray) -> State: ...

    def step(self, state: State, data: Any, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...


@runtime_checkable
class Evaluated(Protocol[State]):
    """A stage that is evaluated every `interval` steps. Evaluations are chunked like training."""

    @property
    def interval(self) -> int: ...

    def keys(self, key: PRNGKeyArray, index: Array) -> tuple[Key[Array, " step"], PRNGKeyArray]:
        """The keys of the steps of interval `index`, and the key of its evaluation."""
        ...

    def begin_evaluation(self, state: State, data: Any, *, key: PRNGKeyArray) -> Any: ...

    def evaluate_on(self, evaluation: Any, state: State, data: Any, num: Array, *, key: PRNGKeyArray) -> Any:
        """Continue an evaluation for at most `num` steps."""
        ...

    def is_over(self, evaluation: Any) -> Bool[Array, ""]: ...

    def end_interval(self, state: State, data: Any, evaluation: Any, means: Metrics) -> tuple[State, Metrics]:
        """Record an evaluation in the state. Returns the state and the metrics to log, given the means over steps."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A stage that reports divergence itself. Any other stage counts as diverged once a metric is not finite."""

    def is_sound(self, state: Any, data: Any) -> Bool[Array, ""]: ...


class Pace:
    """Choose the number of steps per chunk so that a chunk takes about `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._steps = 1

    def next(self, left: int) -> int:
        return min(self._steps, left)

    def took(self, steps: int, seconds: float) -> None:
        fitting = int(self._seconds * steps / max(seconds, 1e-9))
        self._steps = max(1, min(fitting, 8 * self._steps))


@partial(jax.jit, static_argnums=0, inline=True)
def step_seed(stage: Stage[State], state: State, data: Any, key: PRNGKeyArray) -> tuple[State, Metrics]:
    """One step of one seed. A function of its own, because JAX keeps its trace, which takes seconds for a learner."""
    return stage.step(state, data, key=key)


def no_means(stage: Stage[State], state: State, data: Any, keys: Key[Array, " seed"]) -> Metrics:
    """Zeros in the shape of every seed's metrics, for the running means before the first step."""
    _, shapes = jax.eval_shape(jax.vmap(partial(step_seed, stage)), state, data, keys)
    return {name: jnp.zeros(shape.shape, jnp.float32) for name, shape in shapes.items()}


@partial(jax.jit, static_argnums=0)
def init_seeds(stage: Stage[State], keys: Key[Array, " seed"], data: Any) -> State:
    """The initial state of every seed, with the types that it keeps."""
    return strongly_typed(jax.vmap(lambda key, data: stage.init(data, key=key))(keys, data))


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
    """Advance every seed by `length` steps, starting at step `begun`. All steps belong to one row of metrics.

    `means` are the running means over the steps of the row so far. They are updated after every step, so they do not
    depend on where chunks begin. `length` is traced, so one program serves chunks of any length.
    """
    row = begun // row_steps

    def one_seed(state: State, means: Metrics, data: Any, key: PRNGKeyArray) -> tuple[State, Metrics]:
        row_keys = stage.keys(key, row)[0] if isinstance(stage, Evaluated) else None

        def body(step: Array, carry: tuple[State, Metrics]) -> tuple[State, Metrics]:
            state, means = carry
            nth = step - row * row_steps
            step_key = jax.random.fold_in(key, step) if row_keys is None else row_keys[nth]
            state, metrics = step_seed(stage, state, data, step_key)
            return state, {name: _mean(means[name], value, nth) for name, value in metrics.items()}

        return jax.lax.fori_loop(begun, begun + length, body, (state, means))

    return jax.vmap(one_seed)(state, means, data, keys)


def _mean(before: Array, value: Array, num: Int[Array, ""]) -> Array:
    """The running mean after one more value, given the mean `before` of `num` values."""
    before = jnp.where(num == 0, 0.0, before)
    return before + (value.astype(jnp.float32) - before) / (num + 1).astype(jnp.float32)


@partial(jax.jit, static_argnums=0)
def begin_evaluation(
    stage: Evaluated[State], state: State, data: Any, keys: Key[Array, " seed"], index: Int[Array, ""]
) -> Any:
    """Begin the evaluation after interval `index` for every seed."""

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
    """Continue the evaluation for at most `num` steps. Also returns whether it is over for every seed."""

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
