"""Time updates, including learning: our IQL with and without joint options, our PQN and PPO, and JaxMARL's scripts.

    python -m benchmarks.learning_speed --baselines DIR > learning_speed.json

DIR has `iql_rnn.py` and `iql_cnn_overcooked.py` from JaxMARL's baselines/QLearning. They run unmodified, with the same
settings as ours (the paper's table), the same dynamics and in the same process. Their network for pictures has 64 units
where the paper's and ours have 128. The script does not allow other sizes, so ours is also timed with 64.
"""

import hashlib
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from unittest.mock import MagicMock

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro
from jaxtyping import Array, Key, PRNGKeyArray
from jumanji.environments.routing.lbf.generator import RandomGenerator
from rich.console import Console
from rich.table import Table

from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.adapters.to_jaxmarl import ToJaxMARL
from cooptions.envs.base import AbstractEnv
from cooptions.envs.lbf import Foraging, State
from cooptions.envs.overcooked import Overcooked
from cooptions.envs.scenarios import make_env
from cooptions.errors import require
from cooptions.files import encode
from cooptions.learners.base import AbstractLearner, LearnerConfig
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.macro import MacroConfig
from cooptions.options.option_set import init_policies
from cooptions.options.sight import Sight, View
from cooptions.options.train import eigenoptions, option_set, recipe
from cooptions.runs.directory import provenance
from cooptions.runs.paper import IQL, IQL_FOR_PICTURES, TEAM_LEARNERS
from cooptions.training.chunks import Metrics, no_means, run_chunk
from cooptions.training.memory import stage_bytes
from cooptions.types import TimeStep

with quiet_import():
    from jaxmarl.wrappers.baselines import LogWrapper

console = Console(stderr=True)

SCRIPTS = {"lbf": "iql_rnn", "overcooked": "iql_cnn_overcooked"}
"""The JaxMARL script that corresponds to our IQL in each scenario."""


@dataclass(frozen=True)
class Arguments:
    """Time updates of all seeds together, in steady state."""

    baselines: Path | None = None
    """The folder of JaxMARL's scripts. Without it, only our contestants run."""
    scenario: Literal["lbf", "overcooked", "all"] = "all"
    only: tuple[str, ...] = ()
    """The names of the contestants to time. Empty for all."""
    seeds: int = 10
    updates: int = 100
    """The number of updates in one timing."""
    repeats: int = 3
    """The number of timings per contestant. The median is reported."""
    shrink: int = 1
    """A divisor of batch and replay sizes, for trying this out on a small machine."""
    progress: float = 0.5
    """The fraction of training that is over when our learners are timed. Options are used less as exploration falls."""

    def __post_init__(self) -> None:
        require(0 <= self.progress <= 1, f"progress must lie in [0, 1], not {self.progress}")
        for name in ("seeds", "updates", "repeats", "shrink"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        unknown = [name for name in self.only if name not in CONTESTANTS]
        require(not unknown, f"only: unknown {', '.join(unknown)}; there are {', '.join(CONTESTANTS)}")
        theirs = [name for name in self.only if name.startswith("jaxmarl")]
        require(self.baselines is not None or not theirs, f"only: {', '.join(theirs)} needs --baselines")


@dataclass(frozen=True)
class Task:
    """An environment, the configuration of the learner, and the number of options."""

    name: str
    env: AbstractEnv
    config: QConfig
    num_options: int

    def shrunk(self, divisor: int) -> "Task":
        config = replace(self.config, batch=self.config.batch // divisor, capacity=self.config.capacity // divisor)
        return replace(self, config=config)


@dataclass(frozen=True)
class Timing:
    """The seconds of one update of all seeds in each timing, and the program's memory."""

    seconds: list[float]
    compile_seconds: float
    steps: int
    """The environment steps of one seed's update."""
    bytes: int
    estimated_bytes: int | None = None
    """Our estimate before compiling."""


Contestant = Callable[[], Timing]
"""A compiled contestant. Calling it returns its timing."""


def tasks(arguments: Arguments) -> list[Task]:
    every = [
        Task("lbf", make_env("lbf-15x15-4p-3f"), IQL, 20),
        Task("overcooked", make_env("overcooked-counter_circuit"), IQL_FOR_PICTURES, 40),
    ]
    return [task.shrunk(arguments.shrink) for task in every if arguments.scenario in (task.name, "all")]


def ours(task: Task, arguments: Arguments) -> Contestant:
    """Our learner with primitive actions only."""
    return compile_ours(task.config, task.env, arguments)


def ours_in_single_precision(task: Task, arguments: Arguments) -> Contestant:
    """Our learner with layers that compute in float32, like JaxMARL's scripts."""
    single = replace(task.config, network=replace(task.config.network, half=False))
    return compile_ours(single, task.env, arguments)


def ours_as_narrow(task: Task, arguments: Arguments) -> Contestant:
    """Our learner with 64 units after the convolutions, like JaxMARL's script."""
    narrow = replace(task.config, network=replace(task.config.network, hidden=(64, 64)))
    return compile_ours(narrow, task.env, arguments)


def ours_with_options(
    task: Task, arguments: Arguments, *, valued: bool = False, sight: Sight = "relation"
) -> Contestant:
    """Our learner with options of random weights, which cost the same as trained ones. `valued` ones get Q-values."""
    recipe_of_options = replace(recipe("ours", task.env), sight=sight)
    learner = recipe_of_options.learner
    num_outputs = task.env.num_actions + 1 - learner.fixed_last
    view = View.of(task.env, recipe_of_options.sight)
    init = partial(init_policies, task.env, view, learner.network, num_outputs)
    like = jax.eval_shape(lambda key: init(key=key), jax.random.key(0))
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    front = (arguments.seeds, task.num_options)
    weights = [0.1 * jax.random.normal(key, (*front, *leaf.shape)) for key, leaf in zip(keys, leaves, strict=True)]
    network = jax.tree.unflatten(structure, weights)
    options = eigenoptions(task.env.num_agents, task.num_options // 2)
    config = replace(task.config, choice=ChoiceConfig(valued=valued))
    made = option_set(recipe_of_options, network, options, task.env)
    return compile_ours(config, MacroConfig().around(task.env, made, foresight=config.intra_option), arguments)


def ours_by(task: Task, arguments: Arguments, *, method: str) -> Contestant:
    """Another learner with primitive actions only."""
    return compile_ours(TEAM_LEARNERS[method][task.env.shows_pictures], task.env, arguments)


@dataclass(frozen=True)
class Compiled:
    """Our learner with a compiled update. Calling it returns its timing."""

    stage: AbstractLearner
    program: jax.stages.Compiled
    init: Callable
    envs: AbstractEnv
    keys: Key[Array, " seed"]
    updates: int
    repeats: int
    progress: float
    compile_seconds: float
    estimate: int

    @property
    def warm_ups(self) -> int:
        """The number of chunks until the replay buffer, if there is one, is full, plus one."""
        config = self.stage.config
        to_fill = max(config.capacity, config.learning_starts) if isinstance(config, QConfig) else 0
        return math.ceil(to_fill / self.stage.steps_per_update / self.updates) + 1

    def warm(self) -> tuple[Any, Metrics]:
        """The state when the timing starts."""
        state = self.init(self.keys, self.envs)
        metrics = no_means(self.stage, state, self.envs, self.keys)
        later = round(self.progress * self.stage.num_updates)
        for chunk in range(self.warm_ups):
            if chunk == self.warm_ups - 1:
                state = eqx.tree_at(lambda s: s.updates, state, jnp.full_like(state.updates, later))
            state, metrics = self.go_on(state, metrics, chunk)
        return state, metrics

    def go_on(self, state: Any, metrics: Metrics, chunk: int) -> tuple[Any, Metrics]:
        start, length = jnp.int32(chunk * self.updates), jnp.int32(self.updates)
        return jax.block_until_ready(self.program(state, metrics, self.envs, self.keys, start, length))

    def __call__(self) -> Timing:
        (state, metrics), seconds = self.warm(), []
        for repeat in range(self.repeats):
            begun = time.perf_counter()
            state, metrics = self.go_on(state, metrics, self.warm_ups + repeat)
            seconds.append((time.perf_counter() - begun) / self.updates)
        losses = [metric for name, metric in metrics.items() if name.endswith("loss")]
        require(all(bool((loss != 0).all()) for loss in losses), "nothing was learned while the clock ran")
        steps, used = self.stage.steps_per_update, program_bytes(self.program)
        return Timing(seconds, self.compile_seconds, steps, used, self.estimate)


def compile_ours(config: LearnerConfig, envs: AbstractEnv, arguments: Arguments) -> Compiled:
    """Compile chunks of training, to be timed at the given progress."""
    stage, keys = config.build(), jax.random.split(jax.random.key(0), arguments.seeds)
    init = jax.jit(jax.vmap(lambda key, env: stage.init(env, key=key)))
    like = jax.eval_shape(init, keys, envs)
    estimate = stage_bytes(stage, envs, keys)
    begun = time.perf_counter()
    length, means = jnp.int32(arguments.updates), no_means(stage, like, envs, keys)
    program = run_chunk.lower(stage, arguments.updates, like, means, envs, keys, jnp.int32(0), length).compile()
    seconds = time.perf_counter() - begun
    how = arguments.updates, arguments.repeats, arguments.progress
    return Compiled(stage, program, init, envs, keys, *how, seconds, estimate)


def jaxmarl(task: Task, arguments: Arguments) -> Contestant:
    """JaxMARL's script on our environment."""
    env = task.env.jaxmarl if isinstance(task.env, Overcooked) else ToJaxMARL(task.env)
    return compile_script(task, env, arguments)


def jaxmarl_with_jumanji_starts(task: Task, arguments: Arguments) -> Contestant:
    """JaxMARL's script on foraging with Jumanji's slow generator of start states, as without our environment."""
    assert isinstance(task.env, Foraging)
    return compile_script(task, ToJaxMARL(JumanjiStarts()), arguments)


class JumanjiStarts(Foraging):
    """Foraging with Jumanji's own generator of start states."""

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        draw = RandomGenerator(self.grid_size, self.num_agents, self.num_apples, self.grid_size, self.max_level)
        drawn = draw(key)
        agents, apples = drawn.agents, drawn.food_items
        apple_level = self.draw_apple_levels(agents.level, key=drawn.key)
        return self.begin(agents.position, agents.level, apples.position, apple_level)


def compile_script(task: Task, env: Any, arguments: Arguments) -> Contestant:
    """Compile a short and a long training. The difference of their times excludes set-up and consists of learning."""
    assert arguments.baselines is not None
    script = load_script(arguments.baselines / f"{SCRIPTS[task.name]}.py")
    short = updates_before_learning(task.config) + 2
    keys = jax.random.split(jax.random.PRNGKey(0), arguments.seeds)
    begun = time.perf_counter()
    programs = [
        jax.jit(jax.vmap(script.make_train(script_config(task.config, length), LogWrapper(env)))).lower(keys).compile()
        for length in (short, short + arguments.updates)
    ]
    compile_seconds = time.perf_counter() - begun

    def run(program: jax.stages.Compiled) -> tuple[float, int]:
        """The seconds and gradient steps of a program. Its result, with a whole replay buffer, is freed on return."""
        begun = time.perf_counter()
        result = jax.block_until_ready(program(keys))
        return time.perf_counter() - begun, int(result["runner_state"][0].grad_steps.ravel()[0])

    def take_time() -> Timing:
        lasted = [[run(program) for program in programs] for _ in range(arguments.repeats + 1)]
        learned = lasted[-1][1][1] - lasted[-1][0][1]
        require(learned == arguments.updates * task.config.epochs, f"{learned} gradient steps while the clock ran")
        seconds = [(long - short) / arguments.updates for (short, _), (long, _) in lasted[1:]]  # the first run loads it
        return Timing(seconds, compile_seconds, task.config.steps_per_update, program_bytes(programs[1]))

    return take_time


def updates_before_learning(config: QConfig) -> int:
    """The updates before the scripts start learning: enough steps, and for recurrent networks enough roll-outs."""
    return max(
        config.learning_starts // (config.num_envs * config.rollout) + 1,
        config.sequence_stride // config.rollout * config.batch,
    )


def script_config(config: QConfig, num_updates: int) -> dict[str, Any]:
    """Our settings in the scripts' format. For recurrent networks, an item of their replay is a whole roll-out."""
    return {
        "TOTAL_TIMESTEPS": num_updates * config.num_envs * config.rollout,
        "NUM_ENVS": config.num_envs,
        "NUM_STEPS": config.rollout,
        "BUFFER_SIZE": config.capacity // config.sequence_stride,
        "BUFFER_BATCH_SIZE": config.batch,
        "HIDDEN_SIZE": config.network.hidden[-1],
        "EPS_START": config.epsilon_start,
        "EPS_FINISH": config.epsilon_finish,
        "EPS_DECAY": config.epsilon_decay,
        "LEARNING_STARTS": config.learning_starts,
        "MAX_GRAD_NORM": config.max_gradient_norm,
        "TARGET_UPDATE_INTERVAL": config.target_interval,
        "TAU": 1.0,
        "NUM_EPOCHS": config.epochs,
        "LR": config.learning_rate,
        "LR_LINEAR_DECAY": config.anneal,
        "GAMMA": config.discount,
        "REW_SHAPING_HORIZON": 2_500_000,
        "TEST_DURING_TRAINING": False,
        "TEST_NUM_ENVS": config.num_envs,
        "WANDB_MODE": "disabled",
    }


@cache
def load_script(path: Path) -> ModuleType:
    """A script as a module, with mocks for the imports that serve only logging and the command line."""
    require(path.exists(), f"baselines: {path} is missing; copy it from baselines/QLearning of JaxMARL's repository")
    for name in ("hydra", "omegaconf", "wandb"):
        sys.modules.setdefault(name, MagicMock())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with quiet_import():
        spec.loader.exec_module(module)
    return module


def program_bytes(program: jax.stages.Compiled) -> int:
    """The memory of a running program. The device's own peak would include earlier programs."""
    memory = program.memory_analysis()
    assert memory is not None
    whole = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return whole - memory.alias_size_in_bytes


CONTESTANTS: dict[str, Callable[[Task, Arguments], Contestant]] = {
    "ours": ours,
    "ours-in-single": ours_in_single_precision,
    "ours-as-narrow": ours_as_narrow,
    "ours+options": ours_with_options,
    "ours+observing-options": partial(ours_with_options, sight="observation"),
    "ours+valued-options": partial(ours_with_options, valued=True),
    **{method: partial(ours_by, method=method) for method in ("pqn", "ippo", "mappo")},
    "jaxmarl": jaxmarl,
    "jaxmarl+jumanji-starts": jaxmarl_with_jumanji_starts,
}

ONLY_IN: dict[str, type[AbstractEnv]] = {"ours-as-narrow": Overcooked, "jaxmarl+jumanji-starts": Foraging}
"""Contestants for only one kind of environment."""


def contestants(task: Task, arguments: Arguments) -> list[str]:
    """The names of the requested contestants that can run."""
    names = [name for name in CONTESTANTS if not arguments.only or name in arguments.only]
    names = [name for name in names if isinstance(task.env, ONLY_IN.get(name, AbstractEnv))]
    if arguments.baselines is None:
        names = [name for name in names if not name.startswith("jaxmarl")]
    return names


def row(task: Task, name: str, arguments: Arguments, timing: Timing) -> dict[str, Any]:
    seconds = statistics.median(timing.seconds)
    steps = arguments.seeds * timing.steps
    return {
        "scenario": task.name,
        "name": name,
        "ms_per_update": round(seconds * 1e3, 3),
        "ms_each": [round(each * 1e3, 3) for each in timing.seconds],
        "steps_per_second": round(steps / seconds),
        "gigabytes": round(timing.bytes / 1e9, 3),
        "estimated_gigabytes": timing.estimated_bytes and round(timing.estimated_bytes / 1e9, 3),
        "compile_seconds": round(timing.compile_seconds, 1),
    }


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The time of every other contestant divided by that of `ours`."""
    mine = {row["scenario"]: row["ms_per_update"] for row in rows if row["name"] == "ours"}
    others = [row for row in rows if row["name"] != "ours" and row["scenario"] in mine]
    return {
        f"{row['scenario']}: {row['name']} / ours": round(row["ms_per_update"] / mine[row["scenario"]], 2)
        for row in others
    }


def show(rows: list[dict[str, Any]], relative: dict[str, float]) -> None:
    table = Table("scenario", "contestant", "ms an update", "steps/s", "GB", "times ours")
    for row in rows:
        times = relative.get(f"{row['scenario']}: {row['name']} / ours", 1.0 if row["name"] == "ours" else "")
        cells = [row["ms_per_update"], f"{row['steps_per_second']:,}", row["gigabytes"], times]
        table.add_row(row["scenario"], row["name"], *(str(cell) for cell in cells))
    console.print(table)


def main(arguments: Arguments) -> None:
    rows = []
    todo = tasks(arguments)
    scripts = [arguments.baselines / f"{SCRIPTS[task.name]}.py" for task in todo] if arguments.baselines else []
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in scripts if load_script(path)}
    pairs = [(task, name) for task in todo for name in contestants(task, arguments)]
    with ThreadPoolExecutor() as pool:
        compiled = list(pool.map(lambda pair: CONTESTANTS[pair[1]](pair[0], arguments), pairs))
    for (task, name), take_time in zip(pairs, compiled, strict=True):  # one after the other
        rows.append(row(task, name, arguments, take_time()))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)  # kept even if a later one fails
    relative = ratios(rows)
    show(rows, relative)
    result = {
        "seeds": arguments.seeds,
        "rows": rows,
        "ratios": relative,
        "device_peak_gigabytes": round((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9, 3),
        "configs": {task.name: encode(task.config) for task in todo},
        "scripts": hashes,
        **provenance(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
