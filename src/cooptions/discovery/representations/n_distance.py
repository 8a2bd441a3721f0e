"""The common part of `scalar` and `cmi`: a successor distance, a Fermat encoder, and the paper's settings for both.

The two differ in the number of heads of the distance and in additional losses.
"""

from typing import Literal, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from cooptions.discovery.representations.base import AbstractRepresentation
from cooptions.discovery.representations.distance import DistanceConfig, Pairs, SuccessorDistance
from cooptions.discovery.representations.fermat import FermatConfig, FermatEncoder, fermat_loss, n_distance
from cooptions.envs.team import Team
from cooptions.training.loop import Metrics

Domain = Literal["lbf", "overcooked"]

PAPER_FERMAT = FermatConfig(power=2, hidden=(256, 256), batch=100)
PAPER_STEPS = 50_000
"""10 epochs of 500k transitions in minibatches of 100."""


def paper_distance(domain: Domain) -> DistanceConfig:
    """The distance's hyperparameters in the paper's table."""
    head_size, learning_rate = {"lbf": (8, 1e-3), "overcooked": (12, 5e-5)}[domain]
    return DistanceConfig(
        num_pairs=100, hidden=(256, 256), head_size=head_size, norm=1, learning_rate=learning_rate, anneal=False
    )


class Model(eqx.Module):
    """The trained networks: the distance, and the Fermat encoder on top of it."""

    distance: SuccessorDistance
    fermat: FermatEncoder

    @classmethod
    def init(
        cls, team: Team, num_heads: int, distance: DistanceConfig, fermat: FermatConfig, *, key: PRNGKeyArray
    ) -> "Model":
        distance_key, fermat_key = jax.random.split(key)
        return cls(
            SuccessorDistance(team, num_heads, distance, key=distance_key), FermatEncoder(team, fermat, key=fermat_key)
        )


class AbstractModelState(eqx.Module):
    """The state of a representation that learns a `Model`."""

    model: eqx.AbstractVar[Model]


State = TypeVar("State", bound=AbstractModelState)


class AbstractNDistance(AbstractRepresentation[State]):
    """A representation whose z is the n-distance of the team, in one head or several."""

    distance: DistanceConfig
    fermat: FermatConfig
    steps: int

    @property
    def num_steps(self) -> int:
        return self.steps

    def model_loss(
        self, team: Team, model: Model, futures: Pairs, joint: Shaped[Array, "batch agent feature"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """The contrastive loss plus Equation 4. Each trains only its own network."""
        contrastive = model.distance.loss(team, self.distance, futures)
        fermat = fermat_loss(team, self.fermat, model.fermat, model.distance, joint)
        return contrastive + fermat, {"contrastive_loss": contrastive, "fermat_loss": fermat}

    def encode(self, team: Team, state: State, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        return n_distance(team, state.model.distance, state.model.fermat, agent_states)

    def pair_distance(
        self,
        team: Team,
        state: State,
        source: Shaped[Array, " feature"],
        goal: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, ""]:
        """d(s, g), in nats."""
        return self.distance.whole(state.model.distance(team, source, goal, agent_type))

    def fermat_state(
        self, team: Team, state: State, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " feature"]:
        return state.model.fermat.state(team, agent_states)
