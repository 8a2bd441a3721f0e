"""The configuration of a whole run: frozen, checked before anything compiles, one field per stage."""

import dataclasses
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args
from zlib import crc32

import jax
from jaxtyping import Array, Key

from cooptions.artifacts import Json, RunDirectory, config_json, differences, file_digest
from cooptions.discovery import Discovery
from cooptions.envs import AbstractEnv, make_env
from cooptions.errors import ArtifactError, require
from cooptions.laplacian import Basis, Laplacian, Nystrom
from cooptions.learners import Learner
from cooptions.learners.choice import ChoiceConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.ppo import DrawingConfig
from cooptions.learning import LearningConfig
from cooptions.options.base import Option
from cooptions.options.macro import MacroConfig
from cooptions.options.train import OptionsConfig, eigenoptions
from cooptions.representations import Hit, Representation
from cooptions.representations.base import Team
from cooptions.representations.disentangle import CmiConfig
from cooptions.representations.distance import DistanceConfig
from cooptions.representations.fermat import FermatConfig
from cooptions.walks import WalkConfig, kept_columns


@dataclass(frozen=True)
class Config:
    """Everything a run depends on."""

    scenario: str
    """A scenario's name (`cooptions list`), with `,field=value` for its options, or `module:attribute`."""
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """How many seeds run side by side. They share a program: a seed's bits depend on this number."""
    walk: WalkConfig = field(default_factory=WalkConfig)
    representation: Representation = field(default_factory=Hit)
    """How the team's states become z. `--representation NAME` chooses another."""
    laplacian: Laplacian = field(default_factory=Nystrom)
    """How eigenfunctions of z are found. `--laplacian NAME` chooses another."""
    basis: Basis = "symmetric"
    """Within equal eigenvalues: all features together first (`symmetric`), or one feature at a time (`axes`)."""
    options: OptionsConfig = field(default_factory=OptionsConfig)
    """How options are trained. `--options NAME` chooses another recipe."""
    learning: LearningConfig = field(default_factory=LearningConfig)
    """How the task is learned. `--method LEARNER` or `--method LEARNER+DISCOVERY` chooses another way."""

    def __post_init__(self) -> None:
        require(self.seeds >= 1, f"seeds must be at least 1, not {self.seeds}")
        require(self.seed >= 0, f"seed must be at least 0, not {self.seed}")
        wanted = self.learning.macro.discoveries if self.learning.macro else 0
        require(
            wanted <= self.seeds, f"macro.discoveries must be at most {self.seeds}, the number of seeds, not {wanted}"
        )

    @cached_property
    def env(self) -> AbstractEnv:
        return make_env(self.scenario)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The features that discovery is shown."""
        return kept_columns(self.env, self.walk)

    @cached_property
    def team(self) -> Team:
        return Team.of(self.env, self.columns)

    @cached_property
    def discovery(self) -> Discovery:
        return Discovery(self.team, self.representation, self.laplacian, self.basis)

    @property
    def discovers(self) -> bool:
        """Whether the task is learned with options that this run itself discovers."""
        return self.learning.macro is not None and not self.learning.macro.option_set

    @property
    def discovering(self) -> "Config":
        """The same for the seeds that discover: the first ones, if not all."""
        macro = self.learning.macro
        if macro is None or macro.discoveries in (0, self.seeds):
            return self
        return replace(self, seeds=macro.discoveries)

    @property
    def eigenoptions(self) -> tuple[Option, ...]:
        """The options to be trained: every eigenfunction, upwards and downwards."""
        return eigenoptions(self.env.num_agents, self.laplacian.num_eigenfunctions)

    def keys(self, stage: str) -> Key[Array, " seed"]:
        """One key per seed for a stage: its own, so that a new stage changes no other's numbers."""
        roots = jax.vmap(jax.random.key)(self.seed + jax.numpy.arange(self.seeds))
        return jax.vmap(lambda root: jax.random.fold_in(root, crc32(stage.encode())))(roots)

    def stage_config(self, *fields: str) -> Json:
        """What a stage depends on: scenario, seeds, and these fields; and what the scenario's name leaves open, which a
        later version may set otherwise; and the hashes of files that it names, if any."""
        whole = config_json(self) | {"env": plain_fields(self.env)}
        macro = self.learning.macro if "learning" in fields else None
        files = {str(path): file_digest(path) for path in (*self.env.files, *(macro.files if macro else ()))}
        found = {name: whole[name] for name in ("scenario", "env", "seed", "seeds", *fields)}
        return found | ({"files": files} if files else {})


def plain_fields(env: AbstractEnv) -> Json:
    """The fields of an environment that are numbers or words, and the rules that apply where they leave some open."""
    fields = dataclasses.fields(env) if dataclasses.is_dataclass(env) else ()
    values = {field.name: getattr(env, field.name) for field in fields}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)} | env.task_rules


def config_of_run(run: RunDirectory) -> Config:
    """The configuration that a run directory was made with, as far as its stages go."""
    known: Json = {}
    for stage in sorted(run.configs.values(), key=lambda stage: stage["seeds"]):  # more may learn than discover
        known |= stage
    if not known:
        raise ArtifactError(f"{run.path}: no run was made here")
    named = {name: value for name, value in known.items() if name not in ("env", "files")}
    config = read_config({"type": "Config", **named})
    changes = env_differences(known.get("env", {}), plain_fields(config.env))
    if changes:
        raise ArtifactError(f"{run.path}: {config.scenario} was another environment when it was made: {changes}")
    return config


def env_differences(there: Json, here: Json) -> str:
    """Where the fields of two environments differ. A field that only one has is left out: one version may be newer."""
    shared = [name for name in there if name in here]
    return "; ".join(differences({name: there[name] for name in shared}, {name: here[name] for name in shared}))


def read_config(value: Any) -> Any:
    """The inverse of `config_json`."""
    if isinstance(value, list):
        return tuple(read_config(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = {cls.__name__: cls for cls in _CLASSES}.get(value["type"])
    if kind is None:
        raise ArtifactError(f"config.json: unknown part {value['type']!r}: it was made by another version")
    return kind(**{name: read_config(item) for name, item in value.items() if name != "type"})


_CLASSES = (
    Config,
    WalkConfig,
    *get_args(Representation),
    *get_args(Laplacian),
    DistanceConfig,
    FermatConfig,
    CmiConfig,
    OptionsConfig,
    LearningConfig,
    MacroConfig,
    *get_args(Learner),
    ChoiceConfig,
    DrawingConfig,
    NetworkConfig,
)
