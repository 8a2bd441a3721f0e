"""`scalar`: the Fermat n-distance of the team, one number (paper, Section 3.1)."""

from dataclasses import dataclass, field, replace
from typing import Literal

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from cooptions.errors import require
from cooptions.representations.base import AbstractRepresentation, Team
from cooptions.representations.distance import DistanceConfig, SuccessorDistance, sample_pairs
from cooptions.representations.fermat import FermatConfig, FermatEncoder, fermat_loss, n_distance
from cooptions.training import Metrics
from cooptions.walks import Dataset, sample_transitions

PAPER_FERMAT = FermatConfig(power=2, hidden=(256, 256), batch=100)


class Model(eqx.Module):
    """What is learned: the distance, and the Fermat encoder on top of it."""

    distance: SuccessorDistance
    fermat: FermatEncoder


class ScalarState(eqx.Module):
    model: Model
    optimiser: optax.OptState


@dataclass(frozen=True)
class Scalar(AbstractRepresentation[ScalarState]):
    """How far the team is from standing together, in all features at once."""

    distance: DistanceConfig = field(default_factory=DistanceConfig)
    fermat: FermatConfig = field(default_factory=FermatConfig)
    steps: int = 3000

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"representation.steps must be at least 1, not {self.steps}")

    @classmethod
    def paper(cls, domain: Literal["lbf", "overcooked"] = "lbf") -> "Scalar":
        """The paper's hyperparameters: 10 epochs of 500k transitions in minibatches of 100, and its Equation 4."""
        return cls(paper_distance(domain), PAPER_FERMAT, 50_000)

    @property
    def num_steps(self) -> int:
        return self.steps

    def z_names(self, team: Team) -> tuple[str, ...]:
        return ("distance",)

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> ScalarState:
        distance_key, fermat_key = jax.random.split(key)
        whole = replace(self.distance, head_size=self.distance.head_size * len(team.features))
        distance = SuccessorDistance(team, 1, whole, key=distance_key)
        model = Model(distance, FermatEncoder(team, self.fermat, key=fermat_key))
        return ScalarState(model, self.distance.adam(self.steps).init(model))

    def step(self, team: Team, state: ScalarState, data: Dataset, *, key: PRNGKeyArray) -> tuple[ScalarState, Metrics]:
        pair_key, joint_key = jax.random.split(key)
        pairs = sample_pairs(team, data, self.distance, key=pair_key)
        joint, _ = sample_transitions(data, self.fermat.batch, key=joint_key)

        def loss(model: Model) -> tuple[Float[Array, ""], Metrics]:
            contrastive = model.distance.loss(team, pairs)
            fermat = fermat_loss(team, self.fermat, model.fermat, model.distance, joint)
            return contrastive + fermat, {"contrastive_loss": contrastive, "fermat_loss": fermat}

        gradient, metrics = jax.grad(loss, has_aux=True)(state.model)
        updates, optimiser = self.distance.adam(self.steps).update(gradient, state.optimiser)
        return ScalarState(optax.apply_updates(state.model, updates), optimiser), metrics

    def encode(
        self, team: Team, state: ScalarState, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " z"]:
        return n_distance(team, state.model.distance, state.model.fermat, agent_states)

    def distances(
        self,
        team: Team,
        state: ScalarState,
        source: Shaped[Array, " feature"],
        goal: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " head"]:
        """The heads of d(s, g), in nats."""
        return state.model.distance(team, source, goal, agent_type)

    def fermat_state(
        self, team: Team, state: ScalarState, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " feature"]:
        return state.model.fermat.state(team, agent_states)


def paper_distance(domain: Literal["lbf", "overcooked"]) -> DistanceConfig:
    """The distance's hyperparameters in the paper's table."""
    head_size, learning_rate = {"lbf": (8, 1e-3), "overcooked": (12, 5e-5)}[domain]
    return DistanceConfig(
        num_pairs=100, hidden=(256, 256), head_size=head_size, learning_rate=learning_rate, anneal=False
    )
