"""JaxMARL's training scripts, unmodified, compiled for our environments with the settings of our learners.

`SCRIPTS` names the script that corresponds to each of our learners. The environments, rollouts, environments per
minibatch, minibatches, epochs, widths and hyperparameters are equal. What the scripts do not allow to be equal:

| script | differs from ours |
|---|---|
| `iql_cnn_overcooked` | 64 units after the convolutions; ours has 128 |
| `ippo_rnn` | policy and critic share the dense and the recurrent layer; ours are two networks |
| `ippo_rnn`, `mappo_rnn` | one more hidden layer before each output; unavailable actions are not masked |
| `ippo_rnn`, `mappo_rnn` | a minibatch has agents of different environments, as many as those of ours |
| `ippo_cnn_overcooked` | policy and critic share the convolutions and a dense layer, and the policy lacks the second |
| both `cnn` scripts of PPO and PQN | a minibatch has single transitions of the rollout, as many as ours |
| `pqn_vdn_rnn` | the last step of a rollout has no loss, and every minibatch computes its targets anew |
| both PQN scripts | layer normalisation has learned weights, and batch statistics of the inputs are kept but not used |
| all Q-learning scripts | the optimiser is RAdam; ours is Adam |
| both recurrent Q-learning scripts | observations are extended by the agent's number |

Our PPO and PQN compute in float32, as all scripts do. Our IQL has layers in bfloat16.

The scripts import packages for logging and the command line. Empty modules stand in for these (`hydra`, `omegaconf`,
`wandb` and a viewer), so a program that used them would fail while it is traced. A small `Categorical` stands in for
`distrax`. `ippo_cnn_overcooked` logs after every update even if logging is off. Its callback is dropped, which can only
make it faster. With a callback, JAX could not keep the program in its compilation cache.
"""

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from flax.training.train_state import TrainState
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray
from jumanji.environments.routing.lbf.generator import RandomGenerator

from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.adapters.to_jaxmarl import ToJaxMARL
from cooptions.envs.base import AbstractEnv
from cooptions.envs.lbf import Foraging, State
from cooptions.envs.overcooked import Overcooked
from cooptions.errors import require
from cooptions.learners.base import LearnerConfig
from cooptions.learners.ppo import PpoConfig
from cooptions.learners.pqn import PqnConfig
from cooptions.learners.q_learning import QConfig
from cooptions.learners.values import ValueConfig
from cooptions.types import TimeStep

with quiet_import():
    from jaxmarl.wrappers.baselines import JaxMARLWrapper, LogWrapper

Settings = dict[str, Any]
"""A script's configuration."""

Train = Callable[[PRNGKeyArray], dict[str, Any]]
"""A whole training of one seed."""


def trained_on(script: ModuleType, settings: Settings, env: Any) -> Train:
    """The training of a script that is given its environment."""
    return script.make_train(settings, LogWrapper(env))


def trained_by_name(script: ModuleType, settings: Settings, env: Any) -> Train:
    """The training of a script that makes and wraps its environment; `load_script` lets the name be an environment."""
    return script.make_train(settings | {"ENV_NAME": AnyAgent(env), "ENV_KWARGS": {}})


class AnyAgent(JaxMARLWrapper):
    """An environment whose actions can be asked for without an agent.

    `ippo_cnn_overcooked` does so, but Overcooked of JaxMARL 0.2.0 requires one.
    """

    def action_space(self, agent: str = "agent_0") -> Any:
        return self._env.action_space(agent)


@dataclass(frozen=True)
class Script:
    """A script, and how it gets our settings and our environment."""

    file: str
    settings: Callable[[Any, int], Settings]
    """Its settings for a learner's configuration and a number of updates."""
    begin: Callable[[ModuleType, Settings, Any], Train]
    idle: Callable[[Any], int] = lambda config: 0
    """The number of updates before it learns."""

    def path(self, folder: Path) -> Path:
        return folder / f"{self.file}.py"


@dataclass(frozen=True)
class Trainings:
    """A short and a long training. The difference of their times excludes set-up and consists of learning."""

    short: jax.stages.Compiled
    long: jax.stages.Compiled
    keys: Key[Array, " seed"]
    updates: int
    """The number of updates by which they differ."""
    gradient_steps: int
    """The number of gradient steps in these updates."""
    compile_seconds: float

    def seconds(self) -> float:
        """The time of an update."""
        (short, before), (long, after) = (run(program, self.keys) for program in (self.short, self.long))
        learned = after - before
        expected = self.gradient_steps
        require(learned == expected, f"{learned} gradient steps instead of {expected} while the clock ran")
        return (long - short) / self.updates


def compile_script(
    script: Script, folder: Path, config: LearnerConfig, env: Any, *, seeds: int, updates: int
) -> Trainings:
    """Compile a training of a few updates and one with `updates` more."""
    module = load_script(script.path(folder))
    short = script.idle(config) + 2
    keys = jax.random.split(jax.random.PRNGKey(0), seeds)
    begun = time.perf_counter()
    first, second = (
        jax.jit(jax.vmap(script.begin(module, script.settings(config, length), env))).lower(keys).compile()
        for length in (short, short + updates)
    )
    seconds = time.perf_counter() - begun
    return Trainings(first, second, keys, updates, updates * gradient_steps(config), seconds)


def run(program: jax.stages.Compiled, keys: Key[Array, " seed"]) -> tuple[float, int]:
    """The seconds and gradient steps of a training. Its result, with a whole replay buffer, is freed on return."""
    begun = time.perf_counter()
    result = jax.block_until_ready(program(keys))
    return time.perf_counter() - begun, steps_taken(result["runner_state"])


def steps_taken(final: Any) -> int:
    """The number of gradient steps that every network of every seed took."""
    leaves = jax.tree.leaves(final, is_leaf=lambda node: isinstance(node, TrainState))
    taken = {int(step) for leaf in leaves if isinstance(leaf, TrainState) for step in jnp.ravel(leaf.step)}
    require(len(taken) == 1, f"the networks took {sorted(taken)} gradient steps, which should be one number")
    return taken.pop()


def gradient_steps(config: LearnerConfig) -> int:
    """The number of gradient steps of one update of our learner."""
    assert isinstance(config, QConfig | PqnConfig | PpoConfig)
    return config.epochs * (1 if isinstance(config, QConfig) else config.minibatches)


def exported(env: AbstractEnv) -> Any:
    """One of our environments for the scripts. Overcooked is JaxMARL's own."""
    return env.jaxmarl if isinstance(env, Overcooked) else ToJaxMARL(env)


class JumanjiStarts(Foraging):
    """Foraging with Jumanji's own, slow generator of start states."""

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        draw = RandomGenerator(self.grid_size, self.num_agents, self.num_apples, self.grid_size, self.max_level)
        drawn = draw(key)
        agents, apples = drawn.agents, drawn.food_items
        apple_level = self.draw_apple_levels(agents.level, key=drawn.key)
        return self.begin(agents.position, agents.level, apples.position, apple_level)


def settings_of_all(config: LearnerConfig, num_updates: int) -> Settings:
    """The settings that all scripts have."""
    return {
        "TOTAL_TIMESTEPS": num_updates * config.num_envs * config.rollout,
        "NUM_ENVS": config.num_envs,
        "NUM_STEPS": config.rollout,
        "LR": config.learning_rate,
        "MAX_GRAD_NORM": config.max_gradient_norm,
        "GAMMA": config.discount,
        "HIDDEN_SIZE": config.network.hidden[-1],
        "REW_SHAPING_HORIZON": 2_500_000,
        "TEST_DURING_TRAINING": False,
        "WANDB_MODE": "disabled",
    }


def settings_of_values(config: ValueConfig, num_updates: int) -> Settings:
    """The settings that all Q-learning scripts have."""
    return settings_of_all(config, num_updates) | {
        "EPS_START": config.epsilon_start,
        "EPS_FINISH": config.epsilon_finish,
        "EPS_DECAY": config.epsilon_decay,
        "LR_LINEAR_DECAY": config.anneal,
        "TEST_NUM_ENVS": config.num_envs,
    }


def settings_of_iql(config: QConfig, num_updates: int) -> Settings:
    """For recurrent networks, an item of the script's replay buffer is a whole rollout."""
    return settings_of_values(config, num_updates) | {
        "BUFFER_SIZE": config.capacity // config.sequence_stride,
        "BUFFER_BATCH_SIZE": config.batch,
        "LEARNING_STARTS": config.learning_starts,
        "TARGET_UPDATE_INTERVAL": config.target_interval,
        "TAU": 1.0,
        "NUM_EPOCHS": config.epochs,
    }


def idle_in_iql(config: QConfig) -> int:
    """The updates before the scripts start learning: enough steps, and for recurrent networks enough rollouts."""
    return max(
        config.learning_starts // (config.num_envs * config.rollout) + 1,
        config.sequence_stride // config.rollout * config.batch,
    )


def settings_of_pqn(config: PqnConfig, num_updates: int) -> Settings:
    return settings_of_values(config, num_updates) | {
        "NUM_LAYERS": len(config.network.hidden) - config.network.recurrent,
        "NORM_TYPE": "layer_norm" if config.network.normalised else "none",
        "NORM_INPUT": False,
        "MEMORY_WINDOW": 0,
        "LAMBDA": config.trace,
        "NUM_EPOCHS": config.epochs,
        "NUM_MINIBATCHES": config.minibatches,
    }


def settings_of_ppo(config: PpoConfig, num_updates: int) -> Settings:
    return settings_of_all(config, num_updates) | {
        "ACTIVATION": "relu",
        "UPDATE_EPOCHS": config.epochs,
        "NUM_MINIBATCHES": config.minibatches,
        "GAE_LAMBDA": config.decay,
        "CLIP_EPS": config.clip,
        "SCALE_CLIP_EPS": False,
        "ENT_COEF": config.entropy,
        "VF_COEF": 1.0,
        "ANNEAL_LR": config.anneal,
        "NUM_TEST_ENVS": config.num_envs,
    }


SCRIPTS: dict[str, dict[str, Script]] = {
    "lbf": {
        "iql": Script("iql_rnn", settings_of_iql, trained_on, idle_in_iql),
        "pqn-vdn": Script("pqn_vdn_rnn", settings_of_pqn, trained_on),
        "ippo": Script("ippo_rnn", settings_of_ppo, trained_by_name),
        "mappo": Script("mappo_rnn", settings_of_ppo, trained_by_name),
    },
    "overcooked": {
        "iql": Script("iql_cnn_overcooked", settings_of_iql, trained_on, idle_in_iql),
        "pqn-vdn": Script("pqn_vdn_cnn_overcooked", settings_of_pqn, trained_on),
        "ippo": Script("ippo_cnn_overcooked", settings_of_ppo, trained_by_name),
    },
}
"""The script that corresponds to each of our learners, by scenario."""


class Categorical:
    """The part of distrax's categorical distribution that the scripts use."""

    def __init__(self, logits: Float[Array, "*batch action"]) -> None:
        self.log_probabilities = jax.nn.log_softmax(logits)

    def sample(self, seed: PRNGKeyArray) -> Int[Array, "*batch"]:
        return jax.random.categorical(seed, self.log_probabilities)

    def mode(self) -> Int[Array, "*batch"]:
        return jnp.argmax(self.log_probabilities, axis=-1)

    def log_prob(self, value: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        taken = jax.nn.one_hot(value, self.log_probabilities.shape[-1])  # its gradient needs no scatter
        return (taken * self.log_probabilities).sum(axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        return -(jnp.exp(self.log_probabilities) * self.log_probabilities).sum(axis=-1)


STAND_INS: dict[str, dict[str, Any]] = {
    "hydra": {"main": lambda **_: lambda function: function},
    "omegaconf": {"OmegaConf": None},
    "wandb": {},
    "jaxmarl.viz.overcooked_visualizer": {"OvercookedVisualizer": None},
    "distrax": {"Categorical": Categorical},
}
"""What the scripts import of packages for logging and the command line, and of `distrax`."""


@cache
def load_script(path: Path) -> ModuleType:
    """A script as a module, without output to the terminal, and with environments for names of environments."""
    require(path.exists(), f"baselines: {path} is missing; copy it from the baselines of JaxMARL's repository")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    with quiet_import(), stand_ins():
        spec.loader.exec_module(module)
    module.jaxmarl = SimpleNamespace(make=lambda env: env)
    module.jax = module_with("jax", vars(jax) | {"debug": SimpleNamespace(callback=lambda *_: None)})
    module.print = lambda *_: None
    return module


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    """Replace the modules of `STAND_INS` while a script is imported."""
    before = {name: sys.modules.get(name) for name in STAND_INS}
    sys.modules.update({name: module_with(name, attributes) for name, attributes in STAND_INS.items()})
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def module_with(name: str, attributes: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(attributes)
    return module
