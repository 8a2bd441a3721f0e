"""Environments around others: what they have in common with the one inside."""

from typing import TypeVar

import equinox as eqx
import numpy as np

from cooptions.envs.base import AbstractEnv
from cooptions.types import Feature

State = TypeVar("State")


class AbstractWrapper(eqx.Module, AbstractEnv[State]):
    """An environment around another, with the same team and the same scores."""

    env: eqx.AbstractVar[AbstractEnv]

    @property
    def num_agents(self) -> int:
        return self.env.num_agents

    @property
    def noop(self) -> int:
        return self.env.noop

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.env.features

    @property
    def agent_features(self) -> np.ndarray:
        return self.env.agent_features

    @property
    def score_names(self) -> tuple[str, ...]:
        return self.env.score_names

    @property
    def shaping_horizon(self) -> int:
        return self.env.shaping_horizon
