"""`raw_joint`: nothing is learned; what discovery sees when relations between agents are left to it."""

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
    """No representation: z is the joint state, the scaled states of all agents one after the other (a baseline).

    Features that an agent lacks are left out.

        found = co.discover(walk, co.RawJoint(), co.Nystrom(4), key=key)
    """

    @property
    def num_steps(self) -> int:
        return 0

    @property
    def scaled(self) -> bool:
        """All agents share the scale of their inputs: the Kronecker baseline pools them."""
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
    """A name for each network input: the feature's, with the value appended where it is one-hot."""
    names = []
    for feature in team.features:
        values = [f"={value}" for value in range(feature.size)] if feature.kind == "categorical" else [""]
        names += [f"{feature.name}{suffix}{value}" for value in values]
    return tuple(names)


def _inputs_of(team: Team, has_feature: tuple[bool, ...]) -> np.ndarray:
    """Bool[input]: the network inputs that belong to features an agent has."""
    present = np.zeros(team.num_inputs, bool)
    for has, columns in zip(has_feature, team.input_slices(), strict=True):
        present[columns] = has
    return present
