"""Time convolutions of many members with their own weights: rows times a banded matrix, or patches times weights.

    python -m benchmarks.convolution --json

Forward and backward through three layers, on pictures of the size of `overcooked-counter_circuit`.
"""

import argparse
import json
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from cooptions.runs.directory import provenance
from cooptions.training.nn import Convolution, patches_times, rows_times

HEIGHT, WIDTH, CHANNELS = 5, 8, 26
SHAPES = {"40 options x 2 agents": (80, 128, 16), "10 seeds": (10, 256, 32), "320 options, executed": (320, 1, 16)}
"""The number of members, of pictures per member, and of channels per layer."""


def grouped(layer: Convolution, x: jax.Array) -> jax.Array:
    """The layer with XLA's convolution, which becomes a grouped convolution over members."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, layer.weight, (1, 1), "SAME", dimension_numbers=dimensions) + layer.bias


WAYS: dict[str, Callable] = {
    "rows": lambda layer, x: rows_times(x, layer.weight) + layer.bias,
    "patches": lambda layer, x: patches_times(x, layer.weight) + layer.bias,
    "grouped": grouped,
}


def milliseconds(way: Callable, members: int, pictures: int, channels: int, repeats: int) -> float:
    """The milliseconds of one compiled forward and backward pass."""
    sizes = list(zip((5, 3, 3), (CHANNELS, channels, channels), strict=True))

    def init(key: jax.Array) -> list[Convolution]:
        keys = jax.random.split(key, len(sizes))
        return [Convolution(kernel, num, channels, key=k) for (kernel, num), k in zip(sizes, keys, strict=True)]

    def loss(layers: list[Convolution], x: jax.Array) -> jax.Array:
        x = x.astype(jnp.float32)
        for layer in layers:
            x = jax.nn.relu(way(layer, x))
        return (x**2).mean()

    layers = jax.vmap(init)(jax.random.split(jax.random.key(0), members))
    shape = (members, pictures, HEIGHT, WIDTH, CHANNELS)
    x = jax.random.bernoulli(jax.random.key(1), 0.1, shape).astype(jnp.uint8)
    run = jax.jit(jax.vmap(jax.value_and_grad(loss)))
    jax.block_until_ready(run(layers, x))
    begun = time.perf_counter()
    for _ in range(repeats):
        result = run(layers, x)
    jax.block_until_ready(result)
    return 1e3 * (time.perf_counter() - begun) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    times = {
        name: {way: round(milliseconds(run, *shape, arguments.repeats), 3) for way, run in WAYS.items()}
        for name, shape in SHAPES.items()
    }
    print(json.dumps({"milliseconds": times, "made_by": provenance()}, indent=None if arguments.json else 1))


if __name__ == "__main__":
    main()
