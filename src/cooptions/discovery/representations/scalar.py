"""`scalar`: the Fermat n-distance of the team, one number (paper, Section 3.1)."""

from dataclasses import dataclass, field, replace

import jax
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.discovery.representations.base import REPRESENTATIONS
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


class ScalarState(AbstractModelState):
    """The model and its optimiser."""

    model: Model
    optimiser: optax.OptState


@REPRESENTATIONS.register("scalar")
@dataclass(frozen=True)
class Scalar(AbstractNDistance[ScalarState]):
    """The paper's scalar ablation: one n-distance for the whole agent state.

    z has one component: how far the agents are from sharing one state.

        found = co.discover(walk, co.Scalar(steps=1_000), co.Nystrom(4), key=key)
    """

    distance: DistanceConfig = field(default_factory=DistanceConfig)
    fermat: FermatConfig = field(default_factory=FermatConfig)
    steps: int = 3000

    def __post_init__(self) -> None:
        require_whole("representation.steps", self.steps)

    @classmethod
    def paper(cls, domain: Domain = "lbf") -> "Scalar":
        """The paper's hyperparameters, and its Equation 4."""
        return cls(paper_distance(domain), PAPER_FERMAT, PAPER_STEPS)

    def z_names(self, team: Team) -> tuple[str, ...]:
        return ("distance",)

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> ScalarState:
        whole = replace(self.distance, head_size=self.distance.head_size * len(team.features))
        model = Model.init(team, 1, whole, self.fermat, key=key)
        return ScalarState(model, self.distance.adam(self.steps).init(model))

    def step(self, team: Team, state: ScalarState, data: Dataset, *, key: PRNGKeyArray) -> tuple[ScalarState, Metrics]:
        pair_key, joint_key = jax.random.split(key)
        futures = sample_pairs(team.whole, data, self.distance, key=pair_key)
        joint, _ = sample_transitions(data, self.fermat.batch, key=joint_key)
        joint = draw_subteams(team, joint, key=joint_key)

        def loss(model: Model) -> tuple[Float[Array, ""], Metrics]:
            return self.model_loss(team, model, futures, joint)

        gradient, metrics = jax.grad(loss, has_aux=True)(state.model)
        updates, optimiser = self.distance.adam(self.steps).update(gradient, state.optimiser)
        return ScalarState(optax.apply_updates(state.model, updates), optimiser), metrics
