"""`cmi`: an n-distance per feature, disentangled by a penalty on their mutual information (paper, Section 3.2)."""

from dataclasses import dataclass, field
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from cooptions.errors import require
from cooptions.nn import MLP
from cooptions.representations.base import AbstractRepresentation, Team
from cooptions.representations.disentangle import (
    CmiConfig,
    adversarial_penalty,
    agent_pairs,
    discriminator_loss,
    init_discriminators,
    pair_distances,
)
from cooptions.representations.distance import DistanceConfig, SuccessorDistance, sample_pairs
from cooptions.representations.fermat import FermatConfig, FermatEncoder, fermat_loss, n_distance
from cooptions.representations.scalar import PAPER_FERMAT, Model, paper_distance
from cooptions.training import Metrics
from cooptions.walks import Dataset, sample_transitions


class CmiState(eqx.Module):
    """What is learned, the discriminators it is learned against, and their optimisers."""

    model: Model
    optimiser: optax.OptState
    discriminators: MLP
    discriminator_optimiser: optax.OptState


@dataclass(frozen=True)
class Cmi(AbstractRepresentation[CmiState]):
    """How far the team is from standing together, in each feature; with penalty weight 0, the paper's ablation."""

    distance: DistanceConfig = field(default_factory=DistanceConfig)
    fermat: FermatConfig = field(default_factory=FermatConfig)
    cmi: CmiConfig = field(default_factory=CmiConfig)
    steps: int = 6000

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"representation.steps must be at least 1, not {self.steps}")

    @classmethod
    def paper(cls, domain: Literal["lbf", "overcooked"] = "lbf") -> "Cmi":
        """The paper's hyperparameters: 10 epochs of 500k transitions in minibatches of 100, and its Equation 4."""
        weight, learning_rate = {"lbf": (0.003, 3e-4), "overcooked": (0.0003, 1e-4)}[domain]
        cmi = CmiConfig(weight=weight, learning_rate=learning_rate, hidden=(256, 256))
        return cls(paper_distance(domain), PAPER_FERMAT, cmi, 50_000)

    @property
    def num_steps(self) -> int:
        return self.steps

    def z_names(self, team: Team) -> tuple[str, ...]:
        return tuple(feature.name for feature in team.features)

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> CmiState:
        distance_key, fermat_key, discriminator_key = jax.random.split(key, 3)
        distance = SuccessorDistance(team, len(team.features), self.distance, key=distance_key)
        model = Model(distance, FermatEncoder(team, self.fermat, key=fermat_key))
        discriminators = init_discriminators(team, self.cmi, key=discriminator_key)
        return CmiState(
            model,
            self.distance.adam(self.steps).init(model),
            discriminators,
            optax.adam(self.cmi.learning_rate).init(discriminators),
        )

    def step(self, team: Team, state: CmiState, data: Dataset, *, key: PRNGKeyArray) -> tuple[CmiState, Metrics]:
        pair_key, joint_key, fill_key, discriminator_key = jax.random.split(key, 4)
        futures = sample_pairs(team, data, self.distance, key=pair_key)
        joint, _ = sample_transitions(data, self.fermat.batch, key=joint_key)
        pairs = agent_pairs(team, joint, key=fill_key)

        def loss(model: Model) -> tuple[Float[Array, ""], tuple[Float[Array, "pair head"], Metrics]]:
            contrastive = model.distance.loss(team, futures)
            fermat = fermat_loss(team, self.fermat, model.fermat, model.distance, joint)
            z = pair_distances(model.distance.encoder, pairs)
            penalty = adversarial_penalty(state.discriminators, pairs, z) if self.cmi.weight > 0 else jnp.float32(0.0)
            metrics = {"contrastive_loss": contrastive, "fermat_loss": fermat, "cmi_penalty": penalty}
            return contrastive + fermat + self.cmi.weight * penalty, (z, metrics)

        gradient, (z, metrics) = jax.grad(loss, has_aux=True)(state.model)
        updates, optimiser = self.distance.adam(self.steps).update(gradient, state.optimiser)
        model = optax.apply_updates(state.model, updates)
        if self.cmi.weight == 0:
            return CmiState(model, optimiser, state.discriminators, state.discriminator_optimiser), metrics

        def discriminators_loss(discriminators: MLP) -> Float[Array, ""]:
            return discriminator_loss(team, self.cmi, discriminators, pairs, z, key=discriminator_key)

        value, gradient = jax.value_and_grad(discriminators_loss)(state.discriminators)
        updates, discriminator_optimiser = optax.adam(self.cmi.learning_rate).update(
            gradient, state.discriminator_optimiser
        )
        discriminators = optax.apply_updates(state.discriminators, updates)
        return CmiState(model, optimiser, discriminators, discriminator_optimiser), metrics | {
            "discriminator_loss": value
        }

    def encode(self, team: Team, state: CmiState, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        return n_distance(team, state.model.distance, state.model.fermat, agent_states)

    def distances(
        self,
        team: Team,
        state: CmiState,
        source: Shaped[Array, " feature"],
        goal: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " head"]:
        """The heads of d(s, g), in nats."""
        return state.model.distance(team, source, goal, agent_type)

    def fermat_state(
        self, team: Team, state: CmiState, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " feature"]:
        return state.model.fermat.state(team, agent_states)
