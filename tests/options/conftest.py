"""A tiny option set with untrained networks, which suffice for storage and display."""

import jax
import pytest
from tiny_sets import tiny_option_set

from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.options.report import FeatureReport, OptionReport, Ratio
from cooptions.options.train import eigenoptions


@pytest.fixture(scope="session")
def tiny_env():
    return make_env("grid-5x5-2p")


@pytest.fixture(scope="session")
def tiny_starts(tiny_env):
    return jax.jit(lambda key: start(tiny_env, 64, key=key))(jax.random.key(0))


@pytest.fixture(scope="session")
def make_set(tiny_env):
    return lambda seed=0, env=tiny_env, **settings: tiny_option_set(env, seed, **settings)


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
