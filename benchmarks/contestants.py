"""What `benchmarks.learning_speed` times: our learners, with and without joint options, and JaxMARL's scripts."""

import gzip
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from benchmarks.jaxmarl_baselines import SCRIPTS, JumanjiStarts, Trainings, compile_script, exported
from cooptions.envs.base import AbstractEnv
from cooptions.envs.lbf import Foraging
from cooptions.envs.overcooked import Overcooked
from cooptions.errors import require
from cooptions.learners.base import AbstractLearner, LearnerConfig
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.ppo import PpoConfig
from cooptions.learners.pqn import PqnConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.macro import MacroConfig
from cooptions.options.option_set import init_policies
from cooptions.options.sight import Sight, View
from cooptions.options.train import eigenoptions, option_set, recipe
from cooptions.runs.directory import provenance
from cooptions.runs.paper import TEAM_LEARNERS
from cooptions.training.chunks import Metrics, no_means, run_chunk
from cooptions.training.memory import stage_bytes

TRACED = 10
"""The number of updates in a profile."""


@dataclass(frozen=True)
class Clock:
    """How contestants are timed."""

    seeds: int = 10
    updates: int = 100
    """The number of updates in one timing."""
    repeats: int = 3
    """The number of timings per contestant. The median is reported."""
    progress: float = 0.5
    """The fraction of training that is over when our learners are timed. Options are used less as exploration falls."""
    baselines: Path | None = None
    """The folder of JaxMARL's scripts. Without it, only our contestants run."""

    def __post_init__(self) -> None:
        require(0 <= self.progress <= 1, f"progress must lie in [0, 1], not {self.progress}")
        for name in ("seeds", "updates", "repeats"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class Task:
    """An environment, the configuration of the learner, and the number of options."""

    name: str
    env: AbstractEnv
    config: QConfig
    num_options: int
    shrink: int = 1

    def shrunk(self, divisor: int) -> "Task":
        return replace(self, config=shrunk(self.config, divisor), shrink=divisor)

    def learner(self, method: str) -> LearnerConfig:
        """The configuration of one of our learners for this environment."""
        return shrunk(TEAM_LEARNERS[method][self.env.shows_pictures], self.shrink)


def shrunk(config: Any, divisor: int) -> Any:
    """The same learner with smaller batches. Rollouts get fewer environments, one per minibatch at least, then fewer
    steps."""
    if isinstance(config, QConfig):
        return replace(config, batch=config.batch // divisor, capacity=config.capacity // divisor)
    assert isinstance(config, PpoConfig | PqnConfig)
    each = config.num_envs // config.minibatches
    num_envs = max(1, each // divisor) * config.minibatches
    return replace(config, num_envs=num_envs, rollout=max(2, config.rollout // max(1, divisor // each)))


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


class Contestant(Protocol):
    """A compiled contestant. Calling it returns its timing. Ours then write a profile, if they are given a folder."""

    @property
    def compile_seconds(self) -> float: ...

    def __call__(self, profile: Path | None = None) -> Timing: ...


def ours(task: Task, clock: Clock) -> Contestant:
    """Our learner with primitive actions only."""
    return compile_ours(task.config, task.env, clock)


def ours_as_narrow(task: Task, clock: Clock) -> Contestant:
    """Our learner with 64 units after the convolutions, like JaxMARL's script."""
    narrow = replace(task.config, network=replace(task.config.network, hidden=(64, 64)))
    return compile_ours(narrow, task.env, clock)


def ours_with_options(task: Task, clock: Clock, *, valued: bool = False, sight: Sight = "relation") -> Contestant:
    """Our learner with options of random weights, which cost the same as trained ones. `valued` ones get Q-values."""
    recipe_of_options = replace(recipe("ours", task.env), sight=sight)
    learner = recipe_of_options.learner
    num_outputs = task.env.num_actions + 1 - learner.fixed_last
    view = View.of(task.env, recipe_of_options.sight)
    init = partial(init_policies, task.env, view, learner.network, num_outputs)
    like = jax.eval_shape(lambda key: init(key=key), jax.random.key(0))
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    front = (clock.seeds, task.num_options)
    weights = [0.1 * jax.random.normal(key, (*front, *leaf.shape)) for key, leaf in zip(keys, leaves, strict=True)]
    network = jax.tree.unflatten(structure, weights)
    options = eigenoptions(task.env.num_agents, task.num_options // 2)
    config = replace(task.config, choice=ChoiceConfig(valued=valued))
    made = option_set(recipe_of_options, network, options, task.env)
    return compile_ours(config, MacroConfig().around(task.env, made, foresight=config.intra_option), clock)


def ours_by(task: Task, clock: Clock, *, method: str, half: bool | None = None) -> Contestant:
    """One of our learners with primitive actions only, with layers in bfloat16 (`half`), in float32, or as usual."""
    config: Any = task.learner(method)
    if half is not None:
        config = replace(config, network=replace(config.network, half=half))
    return compile_ours(config, task.env, clock)


@dataclass(frozen=True)
class Compiled:
    """Our learner with a compiled update. Calling it returns its timing."""

    stage: AbstractLearner
    program: jax.stages.Compiled
    init: jax.stages.Compiled
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

    def go_on(self, state: Any, metrics: Metrics, chunk: int, length: int | None = None) -> tuple[Any, Metrics]:
        start, length = chunk * self.updates, self.updates if length is None else length
        done = self.program(state, metrics, self.envs, self.keys, jnp.int32(start), jnp.int32(length))
        return jax.block_until_ready(done)

    def __call__(self, profile: Path | None = None) -> Timing:
        (state, metrics), seconds = self.warm(), []
        for repeat in range(self.repeats):
            begun = time.perf_counter()
            state, metrics = self.go_on(state, metrics, self.warm_ups + repeat)
            seconds.append((time.perf_counter() - begun) / self.updates)
        losses = [metric for name, metric in metrics.items() if name.endswith("loss")]
        require(all(bool((loss != 0).all()) for loss in losses), "nothing was learned while the clock ran")
        if profile is not None:
            self.trace(state, metrics, profile)
        steps, used = self.stage.steps_per_update, program_bytes(self.program)
        return Timing(seconds, self.compile_seconds, steps, used, self.estimate)

    def trace(self, state: Any, metrics: Metrics, folder: Path) -> None:
        """Write JAX's trace of a few more updates, and the compiled program."""
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as raw:
            with jax.profiler.trace(raw):
                self.go_on(state, metrics, self.warm_ups + self.repeats, TRACED)
            (written,) = Path(raw).rglob("*.xplane.pb")
            (folder / "trace.gz").write_bytes(gzip.compress(written.read_bytes()))
        (folder / "program.gz").write_bytes(gzip.compress((self.program.as_text() or "").encode()))
        made = {"updates": TRACED, "seeds": len(self.keys), **provenance()}
        (folder / "made.json").write_text(json.dumps(made))


def compile_ours(config: LearnerConfig, envs: AbstractEnv, clock: Clock) -> Compiled:
    """Compile chunks of training, to be timed at the given progress."""
    stage, keys = config.build(), jax.random.split(jax.random.key(0), clock.seeds)
    init = jax.jit(jax.vmap(lambda key, env: stage.init(env, key=key)))
    like = jax.eval_shape(init, keys, envs)
    estimate = stage_bytes(stage, envs, keys)
    begun = time.perf_counter()
    length, means = jnp.int32(clock.updates), no_means(stage, like, envs, keys)
    program = run_chunk.lower(stage, clock.updates, like, means, envs, keys, jnp.int32(0), length).compile()
    seconds = time.perf_counter() - begun
    begin = init.lower(keys, envs).compile()
    how = clock.updates, clock.repeats, clock.progress
    return Compiled(stage, program, begin, envs, keys, *how, seconds, estimate)


@dataclass(frozen=True)
class CompiledScript:
    """JaxMARL's script. Calling it returns its timing."""

    trainings: Trainings
    repeats: int
    steps_per_update: int

    @property
    def compile_seconds(self) -> float:
        return self.trainings.compile_seconds

    def __call__(self, profile: Path | None = None) -> Timing:
        seconds = [self.trainings.seconds() for _ in range(self.repeats + 1)][1:]  # the first run loads the programs
        return Timing(seconds, self.compile_seconds, self.steps_per_update, program_bytes(self.trainings.long))


def jaxmarl(task: Task, clock: Clock, *, method: str = "iql", env: AbstractEnv | None = None) -> Contestant:
    """JaxMARL's script for one of our learners, on our environment."""
    assert clock.baselines is not None
    config, script = task.learner(method), SCRIPTS[task.name][method]
    size = {"seeds": clock.seeds, "updates": clock.updates}
    trainings = compile_script(script, clock.baselines, config, exported(env or task.env), **size)
    return CompiledScript(trainings, clock.repeats, config.steps_per_update)


def program_bytes(program: jax.stages.Compiled) -> int:
    """The memory of a running program. The device's own peak would include earlier programs."""
    memory = program.memory_analysis()
    assert memory is not None
    whole = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return whole - memory.alias_size_in_bytes


@dataclass(frozen=True)
class Entry:
    """A contestant: how it is compiled, and what its time is compared with."""

    compile: Callable[[Task, Clock], Contestant]
    against: str | None = "ours"
    learner: str = "iql"
    """The learner of ours whose settings it has."""
    script: bool = False
    """Whether it is JaxMARL's script for that learner."""
    only_in: type[AbstractEnv] = AbstractEnv
    """The only kind of environment it is for."""

    def fits(self, task: Task) -> bool:
        return isinstance(task.env, self.only_in) and (not self.script or self.learner in SCRIPTS[task.name])


def learner(method: str) -> Entry:
    """Another learner of ours."""
    return Entry(partial(ours_by, method=method), learner=method)


def in_half(method: str) -> Entry:
    """The same with layers in bfloat16."""
    return Entry(partial(ours_by, method=method, half=True), against=method, learner=method)


def counterpart(method: str) -> Entry:
    """JaxMARL's script for another learner of ours."""
    return Entry(partial(jaxmarl, method=method), against=method, learner=method, script=True)


CONTESTANTS: dict[str, Entry] = {
    "ours": Entry(ours, against=None),
    "ours-in-single": Entry(partial(ours_by, method="iql", half=False)),
    "ours-as-narrow": Entry(ours_as_narrow, only_in=Overcooked),
    "ours+options": Entry(ours_with_options),
    "ours+observing-options": Entry(partial(ours_with_options, sight="observation")),
    "ours+valued-options": Entry(partial(ours_with_options, valued=True)),
    **{method: learner(method) for method in ("pqn", "pqn-vdn", "ippo", "mappo")},
    **{f"{method}-in-half": in_half(method) for method in ("pqn", "ippo", "mappo")},
    "jaxmarl": Entry(jaxmarl, script=True),
    "jaxmarl+jumanji-starts": Entry(partial(jaxmarl, env=JumanjiStarts()), script=True, only_in=Foraging),
    "jaxmarl-pqn": counterpart("pqn-vdn"),
    "jaxmarl-ippo": counterpart("ippo"),
    "jaxmarl-mappo": counterpart("mappo"),
}
