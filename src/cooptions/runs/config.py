"""The configuration of a whole run, with one field per stage. It is frozen, and checked before anything compiles."""

import dataclasses
from dataclasses import dataclass, field, replace
from functools import cached_property

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from cooptions.discovery.discover import Discovery
from cooptions.discovery.laplacian.base import AbstractLaplacian
from cooptions.discovery.laplacian.canonical import Basis
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.base import AbstractRepresentation
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.walks import WalkConfig, kept_columns
from cooptions.envs.base import AbstractEnv
from cooptions.envs.scenarios import make_env
from cooptions.envs.subteam import SubteamEnv
from cooptions.envs.team import Team
from cooptions.errors import ArtifactError, require, require_whole
from cooptions.files import Json, decode, differences, encode, file_digest
from cooptions.learners.base import LearnerConfig
from cooptions.learners.learn import Learning, metric_names, scores_by_metric
from cooptions.learners.q_learning import QConfig
from cooptions.options.base import Option
from cooptions.options.macro import MacroConfig
from cooptions.options.sharing.hub import is_hub_name
from cooptions.options.train import OptionsConfig, eigenoptions
from cooptions.runs.directory import RunDirectory
from cooptions.scores.statistics import Scores
from cooptions.training.keys import stage_key

MOST_SEEDS = 10_000
"""The maximum number of seeds. All of them are trained in one program."""


@dataclass(frozen=True)
class LearningConfig:
    """How the task is learned, and how often and over how many episodes the team is evaluated."""

    name: str = "iql"
    """The method's name in tables and curves."""
    learner: LearnerConfig = field(default_factory=QConfig)
    macro: MacroConfig | None = None
    """How joint options are used in the task. Without this, there are none."""
    evaluations: int = 50
    """The number of evaluations, at equal intervals of training. The last one is at the end. If the number of updates
    is not a multiple of this, training is shortened by the remainder."""
    episodes: int = 64
    """The number of episodes per evaluation."""

    def __post_init__(self) -> None:
        updates = self.learner.build().num_updates
        require(
            1 <= self.evaluations <= updates,
            f"learning.evaluations must be between 1 and the {updates} updates of training, not {self.evaluations}",
        )
        require_whole("learning.episodes", self.episodes, at_most=1_000_000)

    @property
    def stage(self) -> Learning:
        """The stage that the training loop runs."""
        return Learning(self.learner.build(), self.evaluations, self.episodes)

    def scores(
        self, env: AbstractEnv, scenario: str, values: Float[Array, "seed evaluation episode score"]
    ) -> list[Scores]:
        """The scores in an environment, one object for each metric."""
        return scores_by_metric(self.name, scenario, self.stage.steps, metric_names(env), values)


@dataclass(frozen=True)
class Config:
    """Everything a run depends on."""

    scenario: str
    """A scenario's name (`cooptions list`), with `,field=value` for its options, or `module:attribute`."""
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """The number of seeds, which run in parallel in one program. A seed's exact result depends on this number."""
    members: tuple[int, ...] | int = 0
    """The agents of discovery and options: 0 for the whole team, m for any m of its agents, or agent indices from 0,
    which stand for all sub-teams of the same types."""
    walk: WalkConfig = field(default_factory=WalkConfig)
    representation: AbstractRepresentation = field(default_factory=Hit)
    """How the team's states become z. `--representation NAME` chooses another."""
    laplacian: AbstractLaplacian = field(default_factory=Nystrom)
    """How eigenfunctions of z are found. `--laplacian NAME` chooses another."""
    basis: Basis = "symmetric"
    """Within equal eigenvalues: all features together first (`symmetric`), or one feature at a time (`axes`)."""
    options: OptionsConfig = field(default_factory=OptionsConfig)
    """How options are trained. `--options NAME` chooses another recipe."""
    learning: LearningConfig = field(default_factory=LearningConfig)
    """How the task is learned. `--method LEARNER` or `--method LEARNER+DISCOVERY` chooses another way."""

    def __post_init__(self) -> None:
        if isinstance(self.members, tuple) and len(self.members) == 1:  # flags and YAML give (m,) for m
            object.__setattr__(self, "members", self.members[0])
        require_whole("seeds", self.seeds, at_most=MOST_SEEDS)
        require_whole("seed", self.seed, at_least=0, at_most=2**32 - self.seeds)
        if self.discovers and self.learning.macro is not None:
            there = 2 * self.laplacian.num_eigenfunctions
            require_whole("macro.num_options", self.learning.macro.num_options, at_least=0, at_most=there)
        wanted = self.learning.macro.discoveries if self.learning.macro else 0
        require(
            wanted <= self.seeds, f"macro.discoveries must be at most {self.seeds}, the number of seeds, not {wanted}"
        )

    @cached_property
    def env(self) -> AbstractEnv:
        return make_env(self.scenario)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The indices of the features that discovery uses."""
        return kept_columns(self.env, self.walk)

    @cached_property
    def option_env(self) -> AbstractEnv:
        """The environment in which options are trained and shown. With `members`, it is that of the sub-team."""
        return SubteamEnv(self.env, self.members) if self.members else self.env

    @cached_property
    def team(self) -> Team:
        """The whole team, of which the walk is recorded."""
        return Team.of(self.env, self.columns)

    @cached_property
    def discovery(self) -> Discovery:
        team = self.team.part(self.members) if self.members else self.team
        return Discovery(team, self.representation, self.laplacian, self.basis)

    @property
    def discovers(self) -> bool:
        """Whether the task is learned with options that this run discovers itself."""
        return self.learning.macro is not None and not self.learning.macro.option_set

    @property
    def discovering(self) -> "Config":
        """This configuration for the seeds that discover: the first `macro.discoveries`, or all of them."""
        macro = self.learning.macro
        if macro is None or macro.discoveries in (0, self.seeds):
            return self
        return replace(self, seeds=macro.discoveries)

    @property
    def pinned(self) -> "Config":
        """This configuration with the commit of an option set on the hub, which a resumed
        run uses again."""
        macro = self.learning.macro
        return self if macro is None else replace(self, learning=replace(self.learning, macro=macro.pinned))

    @property
    def eigenoptions(self) -> tuple[Option, ...]:
        """The options to train: every eigenfunction, upwards and downwards."""
        return eigenoptions(self.option_env.num_agents, self.laplacian.num_eigenfunctions)

    def keys(self, stage: str) -> Key[Array, " seed"]:
        """One key per seed for a stage. Each stage has its own, so a new stage leaves the others' results
        unchanged."""
        numbers = np.arange(self.seed, self.seed + self.seeds, dtype=np.uint64).astype(np.uint32)
        roots = jax.vmap(jax.random.key)(jax.numpy.asarray(numbers))
        return jax.vmap(lambda root: stage_key(root, stage))(roots)

    def stage_config(self, *fields: str) -> Json:
        """The configuration that a stage depends on: scenario, seeds, and these fields.

        The fields of the environment are included, because a later version may choose other values where the scenario's
        name leaves them open. So are the hashes of files that the configuration names. `members` is left out if it is
        the whole team, because some stored stages are older than that field.
        """
        whole = encode(self.pinned if "learning" in fields else self) | {"env": plain_fields(self.env)}
        macro = self.learning.macro if "learning" in fields else None
        files = {str(path): file_digest(path) for path in (*self.env.files, *(macro.files if macro else ()))}
        found = {name: whole[name] for name in ("scenario", "env", "seed", "seeds", *fields)}
        if not self.members:
            found.pop("members", None)
        return found | ({"files": files} if files else {})


def plain_fields(env: AbstractEnv) -> Json:
    """The environment's fields that are numbers or strings, and its `task_rules`."""
    fields = dataclasses.fields(env) if dataclasses.is_dataclass(env) else ()
    values = {field.name: getattr(env, field.name) for field in fields}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)} | env.task_rules


def config_of_run(run: RunDirectory, *, trust: bool = False) -> Config:
    """The configuration with which a run directory was made. Stages that were never begun have the defaults.

    A scenario or part from outside the package is imported only if `trust` is true, because the directory may come from
    someone else.
    """
    known: Json = {}
    for name, stage in run.configs.items():
        if type(stage.get("seeds")) is not int or not isinstance(stage.get("env", {}), dict):
            raise ArtifactError(f"{run.file('config.json')}: damaged: {name} has no seeds, or no env of fields")
    for stage in sorted(run.configs.values(), key=lambda stage: stage["seeds"]):  # learning may have more
        known |= stage
    if not known:
        raise ArtifactError(f"{run.path}: no run was made here")
    where = f"{run.file('config.json')}: configuration"
    for name, outside in code_from_outside(known).items() if not trust else ():
        raise ArtifactError(
            f"{where}.{name} is {outside!r}, code from outside, which a file cannot ask to run: if you know it, "
            f"say --trust, or trust=True"
        )
    named = {name: value for name, value in known.items() if name not in ("env", "files")}
    config = decode(Config, {**encode(Config(scenario="")), **named}, where, trust=trust)
    if changes := env_differences(known.get("env", {}), plain_fields(config.env)):
        raise ArtifactError(f"{run.path}: {config.scenario} was another environment when it was made: {changes}")
    return config


def code_from_outside(stored: Json) -> dict[str, str]:
    """The fields of a stored configuration, besides its parts, that name code to import (`module:attribute`)."""
    found = {"scenario": stored.get("scenario")}
    learning = stored.get("learning")
    macro = learning.get("macro") if isinstance(learning, dict) else None
    if isinstance(macro, dict) and not is_hub_name(str(macro.get("option_set"))):  # nothing from the hub is executed
        found["learning.macro.option_set"] = macro.get("option_set")
    return {name: value for name, value in found.items() if isinstance(value, str) and ":" in value}


def env_differences(there: Json, here: Json) -> str:
    """The fields in which two environments differ. A field that only one has is ignored: one version may be newer."""
    shared = [name for name in there if name in here]
    return "; ".join(differences({name: there[name] for name in shared}, {name: here[name] for name in shared}))
