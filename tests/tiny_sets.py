"""Option sets for tests, with untrained networks, which suffice for storage and display."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from cooptions.learners.networks import NetworkConfig
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.primitives import Primitives
from cooptions.options.sight import View
from cooptions.options.train import eigenoptions


def random_tree(like, seed=0):
    """Random arrays with the shapes and types of a pytree."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), like)


def tiny_option_set(env, seed=0, fixed_last=True, still_ends=True, sight="observation", **network):
    """Four options, two for each of two eigenfunctions."""
    config = NetworkConfig(**({"hidden": (8, 8)} | network))
    view, num_outputs = View.of(env, sight), env.num_actions + (not fixed_last)
    init = partial(init_policies, env, view, config, num_outputs)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 4))
    return OptionSet(
        network=random_tree(jax.eval_shape(jax.vmap(lambda key: init(key=key)), keys), seed),
        options=eigenoptions(env.num_agents, 2),
        config=config,
        view=view,
        primitives=Primitives.of(env),
        max_steps=12,
        epsilon=0.05,
        fixed_last=fixed_last,
        margin=0.01,
        still_ends=still_ends,
    )
