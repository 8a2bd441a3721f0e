"""Named configurations. Any scenario is a preset too, with the paper's settings."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from cooptions.runs.config import Config, LearningConfig
from cooptions.envs.base import AbstractEnv
from cooptions.discovery.laplacian import LAPLACIANS, Allo, Kronecker, Nystrom
from cooptions.learners import Learner
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.ppo import PpoConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.macro import MacroConfig
from cooptions.options.train import OURS, RECIPES, recipe
from cooptions.discovery.representations import REPRESENTATIONS, Cmi, Hit, Mask, RawJoint, Scalar
from cooptions.discovery.representations.n_distance import Domain
from cooptions.runs.stages import GIVEN
from cooptions.discovery.walks import WalkConfig

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
every 100: see docs/learning.md."""
_PPO = PpoConfig(steps=20_000_000, evaluation="sampled")
_PPO_FOR_PICTURES = PpoConfig(
    steps=10_000_000,
    rollout=256,
    minibatches=16,
    learning_rate=5e-4,
    network=NetworkConfig(hidden=(64, 64), channels=(32, 32, 32), shared=True),
)


def apart(learner: QConfig) -> QConfig:
    """The same with a network for each agent."""
    return replace(learner, network=replace(learner.network, shared=False))


def normalised(learner: QConfig) -> QConfig:
    """The same with layer normalisation."""
    return replace(learner, network=replace(learner.network, normalised=True))


def summed(learner: QConfig) -> QConfig:
    """The same by the sum of the agents' values: VDN."""
    return replace(learner, mixer="sum")


LEARNERS: dict[str, tuple[Learner, Learner]] = {
    "iql": (IQL, IQL_FOR_PICTURES),
    "vdn": (summed(IQL), summed(IQL_FOR_PICTURES)),
    "iql-ns": (apart(IQL), apart(IQL_FOR_PICTURES)),
    "vdn-ns": (apart(summed(IQL)), apart(summed(IQL_FOR_PICTURES))),
    "iql-ln": (normalised(IQL), normalised(IQL_FOR_PICTURES)),
    "vdn-ln": (normalised(summed(IQL)), normalised(summed(IQL_FOR_PICTURES))),
    "ippo": (_PPO, _PPO_FOR_PICTURES),
    "mappo": (replace(_PPO, critic="joint"), replace(_PPO_FOR_PICTURES, critic="joint")),
}
"""Ways to learn a task, for environments that show vectors and for those that show pictures. Agents share a network,
but for `-ns` ("not shared", as others call it); `-ln` have layer normalisation."""

PRESETS: dict[str, Config] = {
    "quick": Config(
        scenario="lbf-8x8-2p-2f",
        walk=WalkConfig(transitions=100_000),
        laplacian=Nystrom(num_eigenfunctions=2),
        options=replace(OURS, learner=replace(OURS.learner, steps=150_000, batch=64)),
        learning=LearningConfig("iql+hit", replace(IQL, steps=150_000), MacroConfig(), evaluations=10),
    ),
}

Parts = dict[str, Any]
"""Fields of a configuration, and what they become."""

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


def learning(learner: str, env: AbstractEnv, options: str = "", macro: MacroConfig | None = None) -> LearningConfig:
    """How a task is learned by a learner of this name, alone or with options."""
    name = f"{learner}+{options}" if options else learner
    return LearningConfig(name, LEARNERS[learner][env.shows_pictures], macro)


def learning_parts(learner: str, discovery: str, config: Config) -> Parts:
    """The parts of a configuration for `LEARNER+DISCOVERY`: the task is learned with options found that way."""
    return {**METHODS[discovery](config), "learning": learning(learner, config.env, discovery, MacroConfig())}


def given_parts(learner: str, option_set: str, config: Config) -> Parts:
    """The same for `LEARNER+SET`, with a set of options that needs no discovery."""
    return {"learning": learning(learner, config.env, option_set, MacroConfig(option_set=option_set))}


Swaps = dict[str, dict[str, Callable[[Config], Parts]]]

DISCOVERY_SWAPS: Swaps = {
    "method": METHODS,
    "representation": {name: always(representation=kind()) for name, kind in REPRESENTATIONS.items()},
    "laplacian": {name: always(laplacian=kind()) for name, kind in LAPLACIANS.items()},
}
"""What `--SWAP NAME` changes in a configuration; the flags of the new part can follow."""

OPTION_SWAPS: Swaps = {
    "options": {name: lambda config, name=name: {"options": recipe(name, config.env)} for name in RECIPES}
}
"""The same where options are trained."""

LEARNING_SWAPS: Swaps = (
    DISCOVERY_SWAPS
    | OPTION_SWAPS
    | {
        "method": {
            **{name: lambda config, name=name: {"learning": learning(name, config.env)} for name in LEARNERS},
            **{f"{name}+{found}": partial(learning_parts, name, found) for name in LEARNERS for found in METHODS},
            **{f"{name}+{given}": partial(given_parts, name, given) for name in LEARNERS for given in GIVEN},
        }
    }
)
"""And where a task is learned: a method is a learner, alone or with options from a method of discovery."""


def preset(name: str) -> Config:
    """The configuration of a preset or scenario name; a name that is neither is refused with the nearest ones."""
    if name in PRESETS:
        return PRESETS[name]
    config = Config(scenario=name, **FAMILY_PARTS.get(name.partition("-")[0], {}))
    config = replace(config, options=recipe("ours", config.env))
    return replace(config, learning=learning("iql", config.env, "hit", MacroConfig()))


def with_parts(config: Config, parts: Parts) -> Config:
    """The configuration with other parts. How many eigenfunctions are wanted stays as it was, and so does how long a
    task is learned and how it is evaluated; the name of a method whose options are found otherwise tells that."""
    swapped = replace(config, **parts)
    laplacian = replace(swapped.laplacian, num_eigenfunctions=config.laplacian.num_eigenfunctions)
    learned, before = swapped.learning, config.learning
    learner = replace(learned.learner, steps=before.learner.steps)
    learned = replace(learned, learner=learner, evaluations=before.evaluations, episodes=before.episodes)
    if config.discovers and "learning" not in parts:
        learned = replace(learned, name=", ".join([before.name, *_discovered_otherwise(parts)]))
    return replace(swapped, laplacian=laplacian, learning=learned)


def _discovered_otherwise(parts: Parts) -> list[str]:
    """What parts change in discovery, in words."""
    return [type(parts[field]).__name__.lower() for field in ("representation", "laplacian") if field in parts]
