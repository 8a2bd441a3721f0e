"""The paper's tables of hyperparameters, and its methods: what `--method` and scenario names mean by default."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.kronecker import Kronecker
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.cmi import Cmi
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.representations.mask import Mask
from cooptions.discovery.representations.n_distance import Domain
from cooptions.discovery.representations.raw import RawJoint
from cooptions.discovery.representations.scalar import Scalar
from cooptions.learners.base import LearnerConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.ppo import PpoConfig
from cooptions.learners.pqn import PqnConfig
from cooptions.learners.q_learning import QConfig
from cooptions.learners.values import ValueConfig
from cooptions.runs.config import Config

Valued = TypeVar("Valued", bound=ValueConfig)
Parts = dict[str, Any]
"""Fields of a configuration, and what they become."""

IQL = QConfig(
    steps=20_000_000,
    rollout=20,
    batch=128,
    capacity=100_000,  # 5000 sequences
    learning_rate=5e-4,
    anneal=True,
    epsilon_evaluation=0.05,
    network=NetworkConfig(hidden=(128, 128), recurrent=True, shared=True, half=True),
)
"""The paper's table for Level-Based Foraging."""
IQL_FOR_PICTURES = QConfig(
    steps=10_000_000,
    num_envs=16,
    batch=128,
    capacity=100_000,
    learning_starts=1000,
    learning_rate=5e-4,
    anneal=True,
    max_gradient_norm=10.0,
    network=NetworkConfig(hidden=(128, 128), channels=(32, 32, 32), shared=True, half=True),
)
"""The paper's table for Overcooked, but for the target network, which is copied every 10 updates as in foraging, not
every 100: see docs/findings/overcooked-target-network.md."""
_PPO = PpoConfig(steps=20_000_000, evaluation="sampled")
_PPO_FOR_PICTURES = PpoConfig(
    steps=10_000_000,
    rollout=256,
    minibatches=16,
    learning_rate=5e-4,
    network=NetworkConfig(hidden=(64, 64), channels=(32, 32, 32), shared=True),
)
PQN = PqnConfig(steps=20_000_000, epsilon_evaluation=0.05)
_PQN_FOR_PICTURES = PqnConfig(
    steps=10_000_000,
    num_envs=64,
    rollout=16,
    minibatches=8,
    max_gradient_norm=10.0,
    trace=0.5,
    network=NetworkConfig(hidden=(128, 128), channels=(32, 32, 32), shared=True, normalised=True),
)


def apart(learner: Valued) -> Valued:
    """The same with a network for each agent."""
    return replace(learner, network=replace(learner.network, shared=False))


def normalised(learner: Valued) -> Valued:
    """The same with layer normalisation."""
    return replace(learner, network=replace(learner.network, normalised=True))


def summed(learner: Valued) -> Valued:
    """The same by the sum of the agents' values: VDN."""
    return replace(learner, mixer="sum")


TEAM_LEARNERS: dict[str, tuple[LearnerConfig, LearnerConfig]] = {
    "iql": (IQL, IQL_FOR_PICTURES),
    "vdn": (summed(IQL), summed(IQL_FOR_PICTURES)),
    "iql-ns": (apart(IQL), apart(IQL_FOR_PICTURES)),
    "vdn-ns": (apart(summed(IQL)), apart(summed(IQL_FOR_PICTURES))),
    "iql-ln": (normalised(IQL), normalised(IQL_FOR_PICTURES)),
    "vdn-ln": (normalised(summed(IQL)), normalised(summed(IQL_FOR_PICTURES))),
    "pqn": (PQN, _PQN_FOR_PICTURES),
    "pqn-ns": (apart(PQN), apart(_PQN_FOR_PICTURES)),
    "pqn-vdn": (summed(PQN), summed(_PQN_FOR_PICTURES)),
    "ippo": (_PPO, _PPO_FOR_PICTURES),
    "mappo": (replace(_PPO, critic="joint"), replace(_PPO_FOR_PICTURES, critic="joint")),
}
"""Ways to learn a task, for environments that show vectors and for those that show pictures. Agents share a network,
but for `-ns` ("not shared", as others call it); `-ln` have layer normalisation."""


FAMILY_PARTS: dict[str, Parts] = {"overcooked": {"laplacian": Nystrom(num_eigenfunctions=20)}}
"""What the paper sets otherwise for a whole family of scenarios."""


def always(**parts: Any) -> Callable[[Config], Parts]:
    """The same parts in every configuration."""
    return lambda _: parts


def as_in_paper(kind: type[Cmi] | type[Scalar]) -> Callable[[Config], Parts]:
    """A distance by the paper's table, which has a column for foraging and one for Overcooked."""

    def parts(config: Config) -> Parts:
        column: Domain = "overcooked" if config.env.shows_pictures else "lbf"
        return {"representation": kind.paper(column), "laplacian": Allo()}

    return parts


METHODS: dict[str, Callable[[Config], Parts]] = {
    "iaro": always(representation=Cmi(), laplacian=Allo()),
    "iaro-scalar": always(representation=Scalar(), laplacian=Allo()),
    "iaro-paper": as_in_paper(Cmi),
    "iaro-scalar-paper": as_in_paper(Scalar),
    "mask": always(representation=Mask(), laplacian=Nystrom()),
    "hit": always(representation=Hit(), laplacian=Nystrom()),
    "rjs": always(representation=RawJoint(), laplacian=Allo(), basis="learned"),
    "kron": always(representation=RawJoint(), laplacian=Kronecker(single=Allo()), basis="learned"),
}
"""Ways of discovery, as the parts they set in a configuration: the paper's two, ours, and its two baselines."""
