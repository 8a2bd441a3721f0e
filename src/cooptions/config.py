"""The configuration of a whole run: frozen, checked before anything compiles, one field per stage."""

from dataclasses import dataclass, field
from functools import cached_property
from zlib import crc32

import jax
from jaxtyping import Array, Key

from cooptions.artifacts import Json, config_json
from cooptions.envs import AbstractEnv, make_env
from cooptions.errors import require
from cooptions.representations.base import Team
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

    def __post_init__(self) -> None:
        require(self.seeds >= 1, f"seeds must be at least 1, not {self.seeds}")
        require(self.seed >= 0, f"seed must be at least 0, not {self.seed}")

    @cached_property
    def env(self) -> AbstractEnv:
        return make_env(self.scenario)

    @cached_property
    def team(self) -> Team:
        return Team.of(self.env, kept_columns(self.env, self.walk))

    def keys(self, stage: str) -> Key[Array, " seed"]:
        """One key per seed for a stage: its own, so that a new stage changes no other's numbers."""
        roots = jax.vmap(jax.random.key)(self.seed + jax.numpy.arange(self.seeds))
        return jax.vmap(lambda root: jax.random.fold_in(root, crc32(stage.encode())))(roots)

    def stage_config(self, *fields: str) -> Json:
        """What a stage depends on: scenario, seeds, and these fields."""
        whole = config_json(self)
        return {name: whole[name] for name in ("scenario", "seed", "seeds", *fields)}
