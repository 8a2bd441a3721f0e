"""The kernel of a recurrent layer against the scan, which `test_nn.py` compares with Equinox and plain steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.training import recurrence_kernel
from cooptions.training.recurrence import recur

LENGTH, ROWS, SIZE = 3, (5, 4), 16
"""More rows than a block of the kernel has, and no multiple of it."""


def example(precision, seed):
    shapes = [(SIZE, 3 * SIZE), (4, SIZE), (*ROWS, SIZE), (LENGTH, *ROWS, 3 * SIZE), (LENGTH, *ROWS, SIZE)]
    keys = jax.random.split(jax.random.key(seed), len(shapes) + 1)
    weight, biases, hidden, inputs, slope = (
        jax.random.normal(key, shape) for key, shape in zip(keys[1:], shapes, strict=True)
    )
    first = jax.random.bernoulli(keys[0], 0.3, (LENGTH, *ROWS))
    return (weight / 4, biases, hidden, inputs.astype(precision)), first, slope


@jax.jit
def scanned(arguments, first, slope):
    return _states_and_gradients(arguments, first, slope)


@jax.jit
def fused(arguments, first, slope):
    return _states_and_gradients(arguments, first, slope)


def _states_and_gradients(arguments, first, slope):
    states, pull_back = jax.vjp(lambda *arguments: recur(*arguments, first), *arguments)
    return states, pull_back(slope)


@pytest.mark.parametrize(("precision", "tolerance"), [(jnp.float32, 1e-5), (jnp.bfloat16, 0.05)])
def test_the_kernel_equals_the_scan(precision, tolerance, monkeypatch):
    found = scanned(*example(precision, 0))
    monkeypatch.setattr(recurrence_kernel, "interpret", True)
    for one, other in zip(jax.tree.leaves(fused(*example(precision, 0))), jax.tree.leaves(found), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.astype(jnp.float32), other.astype(jnp.float32), atol=tolerance)


def test_seeds_share_a_kernel(monkeypatch):
    monkeypatch.setattr(recurrence_kernel, "interpret", True)
    alone = [fused(*example(jnp.float32, seed)) for seed in range(2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(example(jnp.float32, seed) for seed in range(2)))
    together = jax.jit(jax.vmap(_states_and_gradients))(*stacked)
    for seed, expected in enumerate(alone):
        for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one[seed], other, atol=1e-6)


@pytest.mark.parametrize("precision", [jnp.float32, jnp.bfloat16])
def test_the_kernel_is_lowered_for_a_gpu(precision, monkeypatch):
    """This needs no GPU: lowering fails for operations that Triton lacks."""
    monkeypatch.setattr(recurrence_kernel, "runs", lambda size: True)
    traced = jax.jit(lambda *given: _states_and_gradients(*given)).trace(*example(precision, 0))
    assert "triton" in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize(("capability", "size", "has"), [("9.0", 128, True), ("9.0", 96, False), ("8.9", 128, False)])
def test_supported_sizes_of_the_kernel(capability, size, has, monkeypatch):
    monkeypatch.setattr(recurrence_kernel, "_capability", lambda: capability)
    assert recurrence_kernel.runs(size) is has
    assert not recurrence_kernel.runs(256)
