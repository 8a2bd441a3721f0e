"""Tiny scenes: a run of foraging, a grid, a kitchen. What was found is real, what was trained is as it began."""

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
from cooptions.runs.directory import open_run
from cooptions.runs.presets import learning
from cooptions.runs.run import Run
from cooptions.runs.stages import stage_configs
from cooptions.runs.team import LearnedTeam

QUICK = Hit(steps=300, hidden=(16,), batch=128)
FEW = Nystrom(num_eigenfunctions=2, num_landmarks=30)
TINY = NetworkConfig(hidden=(8,))
TRANSITIONS = 2_000

FORAGING, GRID, KITCHEN = range(3)
"""The scenes of the library, by number."""


def find(scenario, representation=QUICK):
    """What a short walk tells."""
    walk = co.walk(make_env(scenario), transitions=TRANSITIONS, num_envs=20, key=jax.random.key(0))
    return co.discover(walk, representation, FEW, key=jax.random.key(1))


def untrained_networks(env):
    init = partial(init_policies, env, View.of(env, "relation"), TINY, env.num_actions)
    return jax.vmap(lambda key: init(key=key))(jax.random.split(jax.random.key(5), 4))


def untrained_options(env):
    """Options that do something, if nothing useful."""
    return OptionSet(
        network=untrained_networks(env),
        options=eigenoptions(env.num_agents, 2),
        config=TINY,
        view=View.of(env, "relation"),
        primitives=Primitives.of(env),
        max_steps=12,
        epsilon=0.0,
        fixed_last=True,
        margin=0.0,
        still_ends=False,
    )


def scene_of(scenario, found):
    env = make_env(scenario)
    board = Board.of(env)
    return Scene(env, board, Lens(found, board), untrained_options(env), None)


def with_team(scene):
    """The scene, with a team that has learned nothing yet, and may vote for the scene's options."""
    task = co.MacroEnv(scene.env, scene.options)
    config = learning("iql", scene.env, "hit", MacroConfig()).learner
    learner = replace(config, num_envs=1, capacity=400, rollout=10, batch=4, network=replace(TINY, channels=(4, 4, 4)))
    built = learner.build()
    policy = built.policy(built.init(task, key=jax.random.key(6)))
    return replace(scene, team=LearnedTeam(task, learner, policy, ()))


def save_run(path, found):
    """A run of foraging with every stage, none of which was trained for it."""
    env = make_env("lbf-6x6-2p-1f,time_limit=20")
    ours = learning("iql", env, "hit", MacroConfig())
    learner = replace(ours.learner, steps=640, num_envs=4, rollout=10, batch=4, capacity=400, network=TINY)
    training = replace(OURS.learner, network=TINY)
    config = Config(
        "lbf-6x6-2p-1f,time_limit=20",
        walk=WalkConfig(transitions=TRANSITIONS, num_envs=20),
        representation=QUICK,
        laplacian=FEW,
        options=replace(OURS, max_steps=12, still_ends=False, learner=training),
        learning=replace(ours, learner=learner, evaluations=2, episodes=2),
    )
    lead = partial(jax.tree.map, lambda leaf: leaf[None])
    with open_run(path, stage_configs(config, "learning")) as directory:
        directory.save("representation", lead(found.representation), seconds=0.0)
        directory.save("spectrum", lead(found.spectrum), seconds=0.0)
        directory.save("options", lead(untrained_networks(env)), seconds=0.0)
        stage, task = config.learning.stage, Run(config, directory).task
        state = jax.vmap(lambda key, task: stage.init(task, key=key))(config.keys("learning"), task)
        directory.save("learning", (stage.learner.policy(state.inner), state.scores), seconds=0.0)


@dataclasses.dataclass(frozen=True)
class Made:
    """A scene that lies in no run."""

    scene: Scene
    name: str

    def open(self):
        return self.scene

    def describe(self):
        return {"name": self.name, "scenario": self.name, "method": "hit", "seed": 0}
