"""A tiny option set: untrained networks are enough to be kept, shown and refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.learners.networks import NetworkConfig
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.primitives import Primitives
from cooptions.options.report import FeatureReport, OptionReport, Ratio
from cooptions.options.sight import View
from cooptions.options.train import eigenoptions

KEYS = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 4))


@pytest.fixture(scope="session")
def tiny_env():
    return make_env("grid-5x5-2p")


@pytest.fixture(scope="session")
def tiny_starts(tiny_env):
    return jax.jit(lambda key: start(tiny_env, 64, key=key))(jax.random.key(0))


@pytest.fixture(scope="session")
def make_set(tiny_env):
    def make(seed=0, fixed_last=True, still_ends=True, sight="observation", env=tiny_env, **network):
        config = NetworkConfig(**({"hidden": (8, 8)} | network))
        num_outputs = env.num_actions + (not fixed_last)
        rng, view = np.random.default_rng(seed), View.of(env, sight)
        init = partial(init_policies, env, view, config, num_outputs)
        like = jax.eval_shape(jax.vmap(lambda key: init(key=key)), KEYS)
        weights = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), like)
        return OptionSet(
            network=weights,
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

    return make


@pytest.fixture(scope="session")
def tiny_set(make_set):
    return make_set()


@pytest.fixture(scope="session")
def tiny_reports():
    together, alone = Ratio(0.2, 0.15, 0.25), Ratio(1.0, 0.9, 1.1)
    features = FeatureReport("x", 2.0, 0.4, together, alone), FeatureReport("y", 2.0, 2.0, alone, alone)
    return tuple(
        OptionReport(option.name, option.eigenfunction, option.sign, 0.1, 64, features, 7.5, (5.0, 7.0, 9.0), 0.9, 1.5)
        for option in eigenoptions(2, 2)
    )
