"""`raw_joint`: the raw joint state, without learning (a baseline)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from cooptions.discovery.representations.base import REPRESENTATIONS, AbstractRepresentation
from cooptions.discovery.walks import Dataset
from cooptions.envs.team import Team
from cooptions.training.loop import Metrics


@REPRESENTATIONS.register("raw_joint")
@dataclass(frozen=True)
class RawJoint(AbstractRepresentation[None]):
    """No representation: z is the joint state, the concatenated and scaled states of all agents (a baseline).

    Features that an agent lacks are left out.

        found = co.discover(walk, co.RawJoint(), co.Nystrom(4), key=key)
    """

    @property
    def num_steps(self) -> int:
        return 0

    @property
    def scaled(self) -> bool:
        """True, because the Kronecker baseline pools all agents and so needs one scale."""
        return True

    @property
    def of_single_agents(self) -> bool:
        return True

    def z_names(self, team: Team) -> tuple[str, ...]:
        return tuple(
            name
            for agent, has in enumerate(team.agent_features)
            for name, present in zip(_input_names(team, f"_{agent}"), _inputs_of(team, has), strict=True)
            if present
        )

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> None:
        return None

    def step(self, team: Team, state: None, data: Dataset, *, key: PRNGKeyArray) -> tuple[None, Metrics]:
        return None, {}

    def encode(self, team: Team, state: None, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        present = np.stack([_inputs_of(team, has) for has in team.agent_features])
        return team.inputs(agent_states)[present]


def _input_names(team: Team, suffix: str) -> tuple[str, ...]:
    """The name of each network input: the feature's name, with the value appended if it is one-hot."""
    names = []
    for feature in team.features:
        values = [f"={value}" for value in range(feature.size)] if feature.kind == "categorical" else [""]
        names += [f"{feature.name}{suffix}{value}" for value in values]
    return tuple(names)


def _inputs_of(team: Team, has_feature: tuple[bool, ...]) -> np.ndarray:
    """Bool[input]: the network inputs of the features that an agent has."""
    present = np.zeros(team.num_inputs, bool)
    for has, columns in zip(has_feature, team.input_slices(), strict=True):
        present[columns] = has
    return present
