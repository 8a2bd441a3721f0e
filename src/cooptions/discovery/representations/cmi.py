"""`cmi`: an n-distance per feature, disentangled by a penalty on their mutual information (paper, Section 3.2)."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.discovery.representations.base import REPRESENTATIONS
from cooptions.discovery.representations.disentangle import (
    CmiConfig,
    adversarial_penalty,
    agent_pairs,
    discriminator_loss,
    init_discriminators,
    pair_distances,
)
from cooptions.discovery.representations.distance import DistanceConfig, sample_pairs
from cooptions.discovery.representations.fermat import FermatConfig
from cooptions.discovery.representations.n_distance import (
    PAPER_FERMAT,
    PAPER_STEPS,
    AbstractModelState,
    AbstractNDistance,
    Domain,
    Model,
    paper_distance,
)
from cooptions.discovery.subteams import draw_subteams
from cooptions.discovery.walks import Dataset, sample_transitions
from cooptions.envs.team import Team
from cooptions.errors import require_whole
from cooptions.training.loop import Metrics
from cooptions.training.nn import MLP


class CmiState(AbstractModelState):
    """The model, the discriminators, and the optimisers of both."""

    model: Model
    optimiser: optax.OptState
    discriminators: MLP
    discriminator_optimiser: optax.OptState
    num_steps: Int[Array, ""]
    """The number of steps so far."""


@REPRESENTATIONS.register("cmi")
@dataclass(frozen=True)
class Cmi(AbstractNDistance[CmiState]):
    """The paper's relative representation (IARO): one n-distance per feature, with the CMI penalty.

    With a penalty weight of 0, it is the paper's ablation.

        found = co.discover(walk, co.Cmi(steps=2_000), co.Nystrom(4), key=key)
    """

    distance: DistanceConfig = field(default_factory=DistanceConfig)
    fermat: FermatConfig = field(default_factory=FermatConfig)
    cmi: CmiConfig = field(default_factory=CmiConfig)
    steps: int = 6000

    def __post_init__(self) -> None:
        require_whole("representation.steps", self.steps)

    @classmethod
    def paper(cls, domain: Domain = "lbf") -> "Cmi":
        """The paper's hyperparameters, and its Equation 4."""
        weight, learning_rate = {"lbf": (0.003, 3e-4), "overcooked": (0.0003, 1e-4)}[domain]
        cmi = CmiConfig(weight=weight, first_weight=weight, learning_rate=learning_rate, hidden=(256, 256))
        return cls(paper_distance(domain), PAPER_FERMAT, cmi, PAPER_STEPS)

    def z_names(self, team: Team) -> tuple[str, ...]:
        return tuple(feature.name for feature in team.features)

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> CmiState:
        model_key, discriminator_key = jax.random.split(key)
        model = Model.init(team, len(team.features), self.distance, self.fermat, key=model_key)
        discriminators = init_discriminators(team, self.cmi, key=discriminator_key)
        return CmiState(
            model,
            self.distance.adam(self.steps).init(model),
            discriminators,
            optax.adam(self.cmi.learning_rate).init(discriminators),
            jnp.int32(0),
        )

    def step(self, team: Team, state: CmiState, data: Dataset, *, key: PRNGKeyArray) -> tuple[CmiState, Metrics]:
        pair_key, joint_key, fill_key, discriminator_key = jax.random.split(key, 4)
        futures = sample_pairs(team.whole, data, self.distance, key=pair_key)
        joint, _ = sample_transitions(data, self.fermat.batch, key=joint_key)
        pairs = agent_pairs(team.whole, joint, key=fill_key)
        joint = draw_subteams(team, joint, key=joint_key)

        def loss(model: Model) -> tuple[Float[Array, ""], tuple[Float[Array, "pair head"], Metrics]]:
            total, metrics = self.model_loss(team, model, futures, joint)
            z = pair_distances(model.distance.encoder, pairs)
            if self.cmi.penalised:
                penalty = adversarial_penalty(state.discriminators, pairs, z)
                total += self.cmi.weight_at(state.num_steps / self.steps) * penalty
                metrics["cmi_penalty"] = penalty
            return total, (z, metrics)

        gradient, (z, metrics) = jax.grad(loss, has_aux=True)(state.model)
        updates, optimiser = self.distance.adam(self.steps).update(gradient, state.optimiser)
        model = optax.apply_updates(state.model, updates)
        discriminators, discriminator_optimiser = state.discriminators, state.discriminator_optimiser
        if self.cmi.penalised:
            value, gradient = jax.value_and_grad(
                lambda d: discriminator_loss(team, self.cmi, d, pairs, z, key=discriminator_key)
            )(discriminators)
            adam = optax.adam(self.cmi.learning_rate)
            updates, discriminator_optimiser = adam.update(gradient, discriminator_optimiser)
            discriminators = optax.apply_updates(discriminators, updates)
            metrics["discriminator_loss"] = value
        return CmiState(model, optimiser, discriminators, discriminator_optimiser, state.num_steps + 1), metrics
