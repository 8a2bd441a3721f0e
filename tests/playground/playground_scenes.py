"""Tiny runs to play with: a grid, foraging with a learned team, and a kitchen whose options are untrained."""

import dataclasses
from dataclasses import replace
from functools import partial

import jax

import cooptions as co
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.walks import WalkConfig
from cooptions.envs.scenarios import make_env
from cooptions.learners.networks import NetworkConfig
from cooptions.options.macro import MacroConfig
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.primitives import Primitives
from cooptions.options.sight import View
from cooptions.options.train import OURS, eigenoptions
from cooptions.playground.board import Board
from cooptions.playground.lens import Lens
from cooptions.playground.scene import Scene
from cooptions.runs.config import Config
from cooptions.runs.presets import learning
from cooptions.runs.run import Run

QUICK = Hit(steps=60, hidden=(16,), batch=64)
FEW = Nystrom(num_eigenfunctions=2, num_landmarks=30)
TINY = NetworkConfig(hidden=(8,))


def untrained_options(env, num_eigenfunctions, max_steps=12):
    """Options that do something, if nothing useful."""
    view, primitives = View.of(env, "relation"), Primitives.of(env)
    init = partial(init_policies, env, view, TINY, env.num_actions)
    keys = jax.random.split(jax.random.key(5), 2 * num_eigenfunctions)
    return OptionSet(
        network=jax.vmap(lambda key: init(key=key))(keys),
        options=eigenoptions(env.num_agents, num_eigenfunctions),
        config=TINY,
        view=view,
        primitives=primitives,
        max_steps=max_steps,
        epsilon=0.0,
        fixed_last=True,
        margin=0.0,
        still_ends=False,
    )


def scene_of(scenario, transitions=2_000):
    """What was found in a short walk, with options as untrained as can be."""
    env = make_env(scenario)
    walk = co.walk(env, transitions=transitions, num_envs=20, key=jax.random.key(0))
    found = co.discover(walk, QUICK, FEW, key=jax.random.key(1))
    board = Board.of(env)
    return Scene(env, board, Lens(found, board), untrained_options(env, 2), None)


FORAGING, GRID, KITCHEN = range(3)
"""The scenes of the library, by number."""


def make_run(path):
    """A run with all stages: foraging, by a learner with its own options."""
    env = make_env("lbf-5x5-2p-1f")
    learner = learning("iql", env, "hit", MacroConfig())
    little = replace(learner.learner, steps=640, num_envs=4, rollout=10, batch=4, capacity=400, network=TINY)
    config = Config(
        "lbf-5x5-2p-1f,time_limit=20",
        walk=WalkConfig(transitions=2_000, num_envs=20),
        representation=QUICK,
        laplacian=FEW,
        options=replace(
            OURS, num_starts=16, max_steps=6, learner=replace(OURS.learner, steps=640, num_envs=8, batch=8)
        ),
        learning=replace(learner, learner=little, evaluations=2, episodes=2),
    )
    with Run.open(config, path, "learning") as run:
        _ = run.learning


@dataclasses.dataclass(frozen=True)
class Made:
    """A scene that lies in no run."""

    scene: Scene
    name: str

    def open(self):
        return self.scene

    def describe(self):
        return {"name": self.name, "scenario": self.name, "method": "hit", "seed": 0}
