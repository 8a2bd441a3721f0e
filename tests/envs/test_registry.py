import sys

import jax
import numpy as np
import pytest

from cooptions.envs.grid import Grid
from cooptions.envs.names import families
from cooptions.envs.rollout import advance, start, uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError

OURS = [name for family in ("grid", "lbf", "overcooked") for name in families()[family].scenarios]
"""Those of other libraries are played in tests/envs/adapted, probes in test_probe.py."""


@pytest.mark.parametrize("scenario", OURS)
def test_every_scenario_plays(scenario):
    env = make_env(scenario)

    @jax.jit
    def play(key):
        def step(runners, key):
            outcome, onward = advance(env, runners, uniform_action(runners.timestep.action_mask, key=key), key=key)
            return onward, (jax.vmap(env.agent_states)(outcome.state), outcome.timestep)

        return jax.lax.scan(step, start(env, 4, key=key), jax.random.split(key, 20))[1]

    states, timestep = play(jax.random.key(0))
    low, high = ([getattr(feature, bound) for feature in env.features] for bound in ("low", "high"))
    assert (np.asarray(states) >= low).all()
    assert (np.asarray(states) <= high).all()
    assert (np.asarray(states)[..., ~env.agent_features] == 0).all()
    assert timestep.action_mask.any(axis=-1).all()
    assert timestep.action_mask[..., env.noop].all()
    assert np.isfinite(timestep.reward).all()


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("lbf-15x15-4p-3", "lbf-15x15-4p-3f"),
        ("overcookd-counter_circuit", "overcooked-counter_circuit"),
        ("lbf-15x14-4p-3f", "did you mean"),
        ("lbf-15x15-4p-3f,coop", "field=value"),
        ("lbf-15x15-4p-3f,cop=none", "unknown option cop"),
        ("lbf-15x15-4p-3f,coop=some", "coop must be one of"),
        ("lbf-15x15-4p-3f,time_limit=ten", "time_limit must be a number"),
        ("grid-5x5-2p,collisions=yes", "collisions must be true or false"),
        ("lbf-15x15-0p-3f", "num_agents"),
        ("no_such_module:env", "cannot use"),
    ],
)
def test_bad_scenarios_are_explained(scenario, message):
    with pytest.raises(ConfigError, match=message):
        make_env(scenario)


def test_options_reach_the_fields():
    env = make_env("lbf-2s-10x10-3p-4f,coop=none,time_limit=50")
    assert (env.sight, env.grid_size, env.num_agents, env.num_apples) == (2, 10, 3, 4)
    assert (env.coop, env.time_limit) == ("none", 50)


def test_a_named_environment_is_made_and_checked_once():
    """A plan makes a few scenarios hundreds of times, and checking one takes half a second."""
    assert make_env("grid-4x4-2p,time_limit=9") is make_env("grid-4x4-2p,time_limit=9")


def test_environment_of_your_own_by_import_path(tmp_path, monkeypatch):
    source = "from cooptions.envs.grid import Grid\nenv = Grid(3, 3, 2)\nmake = lambda: env\n"
    (tmp_path / "my_envs.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert make_env("my_envs:env") == make_env("my_envs:make") == Grid(3, 3, 2)
    sys.modules["my_envs"].env = 3
    with pytest.raises(ConfigError, match="not an AbstractEnv"):
        make_env("my_envs:make")


PAID = """
import equinox as eqx
import jax

from cooptions.envs.grid import Grid
from cooptions.envs.wrapper import AbstractWrapper


class Paid(AbstractWrapper):
    env: Grid = eqx.field(static=True)
    pay: jax.Array

    def step(self, state, action, key):
        return self.env.step(state, action, key)


env = Paid(Grid(3, 3, 2), jax.numpy.arange(3.0))
"""


def test_environment_that_holds_arrays_is_refused(tmp_path, monkeypatch):
    """Each seed would learn in a slice of it."""
    (tmp_path / "arrays.py").write_text(PAID)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="'arrays:env' holds 1 arrays"):
        make_env("arrays:env")
