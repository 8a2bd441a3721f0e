"""Train all options of a set in parallel: an independent Q-learner for each eigenfunction and sign."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, Shaped

from cooptions.discovery.discover import BLOCK, Evaluator
from cooptions.discovery.discovered import Discovered
from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners
from cooptions.envs.subteam import env_for
from cooptions.errors import require, require_number, require_whole
from cooptions.learners.networks import Network, NetworkConfig
from cooptions.learners.q_learning import QConfig, QLearner, QState
from cooptions.options.base import Option
from cooptions.options.option_set import OptionSet
from cooptions.options.primitives import Primitives
from cooptions.options.sight import Sight, View
from cooptions.options.task import OptionTask, collect_starts, random_advance
from cooptions.training.keys import stage_key
from cooptions.training.loop import Metrics, train
from cooptions.training.memory import enlarged, held_bytes, require_fits, require_room, stage_bytes, tree_bytes
from cooptions.training.progress import Progress


@dataclass(frozen=True)
class OptionsConfig:
    """How options are trained. The defaults come from our measurements.

    `learner` holds the settings of Q-learning, among them the number of steps.

        options = co.train_options(env, found, co.OptionsConfig(max_steps=20), key=key)
    """

    learner: QConfig = field(
        default_factory=lambda: QConfig(discount=0.9, fixed_last=True, batch=256, capacity=20_000, anneal=True)
    )
    sight: Sight = "relation"
    """What option policies observe. `relation`: the agents' states relative to each agent, so that the policies fit
    every task with the same agents, map and moves. `observation`: the task's observation."""
    scale: Literal["gain", "variance"] = "gain"
    """Unit of reward: the gain available from an average start (`gain`), or a standard deviation of e (`variance`)."""
    step_cost: float = 0.125
    """Cost per step, so that an option ends when little is left to gain."""
    effort: float = 0.015
    """Cost per step for each agent that does not stand still, so that agents avoid useless moves."""
    cost_unit: Literal["move", "reward"] = "move"
    """Unit of these costs: the typical change of e by one agent's move (`move`), or one unit of reward (`reward`)."""
    margin: float = 0.005
    """How much the value of an action must exceed those of standing still and terminating for it to be executed. The
    default is less than the value of a useful move, and more than the network's errors."""
    still_ends: bool = True
    """Whether an agent that prefers to stand still votes to terminate. It loses nothing, because terminating alone is
    standing still. An agent that cannot see that nothing is left to gain then does not hold up the others."""
    max_steps: int = 50
    """Maximum length of an option in steps."""
    epsilon: float = 0.05
    """Probability of a random action of a member while an option is executed."""
    num_starts: int = 4096
    """Number of start states, which random play reaches."""
    start_steps: int = 100
    """Maximum length of that random play in steps."""

    def __post_init__(self) -> None:
        for name, least in (("max_steps", 1), ("num_starts", 1), ("start_steps", 0)):
            require_whole(f"options.{name}", getattr(self, name), at_least=least)
        for name in ("step_cost", "effort", "margin"):
            require_number(f"options.{name}", getattr(self, name), at_least=0)
        require_number("options.epsilon", self.epsilon, at_least=0, at_most=1)
        require(not self.learner.network.recurrent, "options.learner.network: options have no memory")


_PICTURES = QConfig(
    num_envs=16,
    batch=128,
    capacity=100_000,
    learning_starts=1000,
    max_gradient_norm=10.0,
    network=NetworkConfig(hidden=(32, 32)),
)

OURS = OptionsConfig()
OURS_FOR_PICTURES = OptionsConfig(learner=replace(_PICTURES, discount=0.9, fixed_last=True, anneal=True))
PAPER = OptionsConfig(
    learner=QConfig(double=False),
    scale="variance",
    step_cost=0.1,
    effort=0.0,
    cost_unit="reward",
    margin=0.0,
    still_ends=False,
)
"""The paper's table for Level-Based Foraging, plus a step cost of 0.1 standard deviations of e. The table has no step
cost, without which options never end: docs/findings/paper-options.md."""
PAPER_FOR_PICTURES = replace(PAPER, sight="observation", learner=replace(_PICTURES, double=False))
"""The paper's table for Overcooked, whose networks have convolutions, plus the same step cost."""

RECIPES: dict[str, tuple[OptionsConfig, OptionsConfig]] = {
    "ours": (OURS, OURS_FOR_PICTURES),
    "paper": (PAPER, PAPER_FOR_PICTURES),
}
"""Configurations by name, for environments with vector observations and for those with pictures."""


def recipe(name: str, env: AbstractEnv) -> OptionsConfig:
    """The configuration of this name for the environment's kind of observation."""
    return RECIPES[name][env.shows_pictures]


@dataclass(frozen=True)
class OptionTraining:
    """The training stage: the learners of all options in parallel. Its data is a task with the weights of all."""

    learner: QLearner

    def init(self, data: OptionTask, *, key: PRNGKeyArray) -> QState:
        keys = jax.random.split(key, data.weights.shape[0])
        return jax.vmap(lambda own, key: self.learner.init(_with(data, own), key=key))(_own(data), keys)

    def step(self, state: QState, data: OptionTask, *, key: PRNGKeyArray) -> tuple[QState, Metrics]:
        keys = jax.random.split(key, data.weights.shape[0])
        step = jax.vmap(lambda state, own, key: self.learner.step(state, _with(data, own), key=key))
        state, metrics = step(state, _own(data), keys)
        return state, jax.tree.map(lambda value: value.mean(), metrics)


def _own(task: OptionTask) -> tuple[Array, Array]:
    """The arrays of a task that differ between options."""
    return task.weights, task.pace


def _with(task: OptionTask, own: tuple[Array, Array]) -> OptionTask:
    """The task of one option."""
    return eqx.tree_at(lambda task: (task.weights, task.pace), task, own)


def eigenoptions(num_agents: int, num_eigenfunctions: int) -> tuple[Option, ...]:
    """Two options of the whole team for each eigenfunction: upwards and downwards."""
    return tuple(
        Option(f"{'+' if sign > 0 else '-'}e{k}", (True,) * num_agents, num_agents, k, sign)
        for k in range(1, num_eigenfunctions + 1)
        for sign in (1, -1)
    )


def option_weights(options: tuple[Option, ...], num_eigenfunctions: int) -> Float[Array, "option k"]:
    """The function that each option climbs, as weights of the eigenfunctions."""
    one_hot = np.eye(num_eigenfunctions, dtype=np.float32)
    return jnp.stack([option.sign * one_hot[option.eigenfunction - 1] for option in options])


def available_gain(start_values: Float[Array, "start k"], weights: Float[Array, "option k"]) -> Float[Array, " option"]:
    """The maximum minus the mean, over start states, of the function that each option climbs."""
    values = start_values @ weights.T
    gain = values.max(axis=0) - values.mean(axis=0)
    return jnp.where(gain > 1e-6, gain, 1.0)  # the gain is 0 if agents never differ


def pace(
    changes: Float[Array, "start k"], weights: Float[Array, "option k"], num_agents: int
) -> Float[Array, " option"]:
    """The root-mean-square change, over random play, of the function that each option climbs by one agent's move."""
    return jnp.sqrt(jnp.square(changes @ weights.T).mean(axis=0) / num_agents)


def option_tasks(
    env: AbstractEnv, found: Discovered, config: OptionsConfig, options: tuple[Option, ...], keys: Key[Array, " seed"]
) -> OptionTask:
    """The tasks of all options for the discovered eigenfunctions, with a leading seed axis."""
    return tasks_on(env, config, _evaluators(found), option_weights(options, found.num_eigenfunctions), keys)


def tasks_on(
    env: AbstractEnv,
    config: OptionsConfig,
    evaluate: Evaluator,
    weights: Float[Array, "option k"],
    keys: Key[Array, " seed"],
) -> OptionTask:
    """Tasks that climb weighted sums of any functions of the agents' states, with a leading seed axis."""
    starts = _starts(env, config.num_starts, config.start_steps, keys)

    def values(state: Any) -> Float[Array, "seed start k"]:
        return _values(evaluate, jax.vmap(jax.vmap(env.agent_states))(state))

    start_values = values(starts.state)
    weights = jnp.broadcast_to(weights, (len(keys), *weights.shape))
    if config.scale == "gain":
        weights /= jax.vmap(available_gain)(start_values, weights)[..., None]
    typical = jax.vmap(partial(pace, num_agents=env.num_agents))(
        values(_moved(env, starts, keys)) - start_values, weights
    )
    return OptionTask(
        env=env,
        view=View.of(env, config.sight),
        step_cost=config.step_cost,
        effort=config.effort,
        max_steps=config.max_steps,
        evaluate=evaluate,
        weights=weights,
        pace=jnp.ones(weights.shape[:-1]) if config.cost_unit == "reward" else typical,
        starts=starts,
        start_values=start_values,
    )


@jax.jit
def _evaluators(found: Discovered) -> Evaluator:
    """The eigenfunctions of every seed as functions of a joint state."""
    return jax.vmap(Discovered.evaluator)(found)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _starts(env: AbstractEnv, num: int, max_steps: int, keys: Key[Array, " seed"]) -> Runners:
    """The start states of every seed's options."""
    return jax.lax.map(lambda key: collect_starts(env, num, max_steps, key=key), keys)


@partial(jax.jit, static_argnums=0)
def _moved(env: AbstractEnv, starts: Runners, keys: Key[Array, " seed"]) -> Any:
    """The states one step of random play after the starts."""

    def one_seed(seed: tuple[Runners, PRNGKeyArray]) -> Any:
        starts, key = seed
        return random_advance(env, starts, key=jax.random.fold_in(key, 1))[0].state

    return jax.lax.map(one_seed, (starts, keys))


@jax.jit
def _values(evaluate: Evaluator, joint: Shaped[Array, "seed state agent feature"]) -> Float[Array, "seed state k"]:
    return jax.vmap(values_at)(evaluate, joint)


def values_at(evaluate: Evaluator, joint: Shaped[Array, "state agent feature"]) -> Float[Array, "state k"]:
    """The values of all eigenfunctions at many joint states."""
    return jax.lax.map(evaluate, joint, batch_size=BLOCK)


def train_option_networks(
    config: OptionsConfig,
    tasks: OptionTask,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Network:
    """Train the policies of all options. Their weights have leading axes [seed, option, agent]."""
    stage = OptionTraining(QLearner(config.learner))
    require_fits(stage, tasks, keys, "options", shrink=_shrink(config), progress=progress)
    trained = train(
        stage,
        tasks,
        keys,
        name="options",
        num_steps=config.learner.num_updates,
        log_steps=max(1, config.learner.num_updates // 50),
        directory=directory,
        progress=progress,
    )
    return trained.state.network


def require_options_fit(
    env: AbstractEnv, found: Discovered, config: OptionsConfig, options: tuple[Option, ...], keys: Key[Array, " seed"]
) -> None:
    """Raise `ConfigError` if training these options needs too much memory. `found` may consist of shapes only."""

    def make(found: Discovered, keys: Key[Array, " seed"]) -> OptionTask:
        return option_tasks(env, found, config, options, keys)

    tasks = jax.eval_shape(make, found, keys)
    needed = stage_bytes(OptionTraining(QLearner(config.learner)), tasks, keys)
    if config.num_starts > OptionsConfig.num_starts:
        needed = max(needed, tree_bytes(tasks) + held_bytes(make, found, keys))
    require_room("options", needed, _shrink(config), on_device=True)


def _shrink(config: OptionsConfig) -> str:
    return enlarged(config, "options", "laplacian.num_eigenfunctions", "seeds")


def option_set(config: OptionsConfig, network: Network, options: tuple[Option, ...], env: AbstractEnv) -> OptionSet:
    """Trained policies as an option set. Other leading axes of the weights, such as seeds, are kept."""
    return OptionSet(
        view=View.of(env, config.sight),
        primitives=Primitives.of(env),
        network=network,
        options=options,
        config=config.learner.network,
        max_steps=config.max_steps,
        epsilon=config.epsilon,
        fixed_last=config.learner.fixed_last,
        margin=config.margin,
        still_ends=config.still_ends,
    )


def diverged(options: OptionSet) -> tuple[str, ...]:
    """The names of options whose weights are not finite."""
    leaves = [np.asarray(leaf).reshape(options.num_options, -1) for leaf in jax.tree.leaves(options.network)]
    finite = np.all([np.isfinite(leaf).all(axis=1) for leaf in leaves], axis=0)
    return tuple(option.name for option, good in zip(options.options, finite, strict=True) if not good)


def train_options(
    env: AbstractEnv,
    found: Discovered,
    config: OptionsConfig | None = None,
    *,
    key: PRNGKeyArray,
    directory: Path | str | None = None,
    progress: Progress | bool = False,
) -> OptionSet:
    """Train a joint option for each eigenfunction, upwards (`+e1`) and downwards (`-e1`).

    With a `directory`, training resumes from its last checkpoint there. If `found` is for some of the agents only, so
    are the options, which are then trained in `SubteamEnv`.

        options = co.train_options(env, found, key=key)
        options.play(env, "+e1", key=key)
    """
    env = env_for(env, found.team)
    config = config or recipe("ours", env)
    options = eigenoptions(env.num_agents, found.num_eigenfunctions)
    lead = jax.tree.map(lambda leaf: leaf[None], found)
    require_options_fit(env, lead, config, options, stage_key(key, "starts")[None])
    networks = train_option_networks(
        config,
        option_tasks(env, lead, config, options, stage_key(key, "starts")[None]),
        stage_key(key, "options")[None],
        directory=None if directory is None else Path(directory),
        progress=Progress.of(progress),
    )
    return option_set(config, jax.tree.map(lambda leaf: leaf[0], networks), options, env)
