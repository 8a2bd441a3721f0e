"""Named configurations: presets, any scenario with the paper's settings, and the parts that can be swapped by name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cooptions.discovery.laplacian.base import LAPLACIANS
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.base import REPRESENTATIONS
from cooptions.discovery.walks import WalkConfig
from cooptions.envs.base import AbstractEnv
from cooptions.errors import ConfigError, require
from cooptions.learners.base import LEARNERS, LearnerConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.options.base import OPTION_SOURCES
from cooptions.options.macro import MacroConfig
from cooptions.options.train import OURS, RECIPES, recipe
from cooptions.parts import nearest
from cooptions.runs.config import Config, LearningConfig
from cooptions.runs.paper import FAMILY_PARTS, IQL, METHODS, PQN, TEAM_LEARNERS, Parts, apart

MEETING = replace(
    apart(PQN),
    steps=60_000,
    num_envs=32,
    rollout=20,
    epsilon_decay=0.3,
    network=NetworkConfig(hidden=(64, 64), recurrent=True, normalised=True),
)
"""Agents with networks of their own, small enough for a laptop."""

PRESETS: dict[str, Config] = {
    "quick": Config(
        scenario="lbf-8x8-2p-2f",
        walk=WalkConfig(transitions=100_000),
        laplacian=Nystrom(num_eigenfunctions=2),
        options=replace(OURS, learner=replace(OURS.learner, steps=150_000, batch=64)),
        learning=LearningConfig("iql+hit", replace(IQL, steps=150_000), MacroConfig(), evaluations=10),
    ),
    "meet": Config(
        scenario="grid-10x10-4p,task=meet",
        seeds=5,
        walk=WalkConfig(transitions=100_000),
        laplacian=Nystrom(num_eigenfunctions=1),
        options=replace(OURS, learner=replace(OURS.learner, steps=200_000)),
        learning=LearningConfig("pqn-ns+hit", MEETING, MacroConfig(discoveries=1), evaluations=10),
    ),
}
"""Small runs for a laptop: `quick` forages, `meet` is a task that four agents hardly ever solve by chance."""


@dataclass(frozen=True)
class LearnerRecipe:
    """A learner by name, with some of its fields set otherwise: what it is in full depends on the environment."""

    name: str
    fields: tuple[tuple[str, Any], ...] = ()

    def for_env(self, env: AbstractEnv) -> LearnerConfig:
        """Its configuration, for what the environment shows: vectors or pictures."""
        known = TEAM_LEARNERS.get(self.name)
        config = known[env.shows_pictures] if known else LEARNERS[self.name]()
        names = type(config).__dataclass_fields__
        for name, _ in self.fields:
            require(name in names, f"{self.name}: no field {name!r}; {nearest(name, tuple(names))}")
        return replace(config, **dict(self.fields))


def learner_names() -> tuple[str, ...]:
    """Everything that a method may begin with."""
    return (*TEAM_LEARNERS, *(name for name in LEARNERS.names() if name not in TEAM_LEARNERS))


def learning(learner: str, env: AbstractEnv, options: str = "", macro: MacroConfig | None = None) -> LearningConfig:
    """How a task is learned by a learner of this name, alone or with options."""
    name = f"{learner}+{options}" if options else learner
    return LearningConfig(name, LearnerRecipe(learner).for_env(env), macro)


def discovery_parts(method: str, config: Config) -> Parts:
    """The parts of a way of discovery."""
    if method not in METHODS:
        raise ConfigError(f"method: unknown {method!r}; {nearest(method, tuple(METHODS))}")
    return METHODS[method](config)


def learning_parts(method: str, config: Config) -> Parts:
    """The parts of `LEARNER`, or of `LEARNER+OPTIONS`: options found by a method of discovery, or of a source."""
    learner, _, options = method.partition("+")
    if learner not in learner_names() and ":" not in learner:
        raise ConfigError(f"method: unknown {method!r}; {nearest(method, method_names())}")
    if not options:
        return {"learning": learning(learner, config.env)}
    if options in METHODS:
        return {**METHODS[options](config), "learning": learning(learner, config.env, options, MacroConfig())}
    if options not in OPTION_SOURCES and ":" not in options:
        raise ConfigError(f"method: unknown {method!r}; {nearest(method, method_names())}")
    return {"learning": learning(learner, config.env, options, MacroConfig(option_set=options))}


def method_names() -> tuple[str, ...]:
    """Every learner, and `+` with every kind of options it may be given."""
    return (*learner_names(), *(f"{learner_names()[0]}+{name}" for name in (*METHODS, *OPTION_SOURCES.names())))


def recipe_parts(name: str, config: Config) -> Parts:
    """The parts of a recipe by which options are trained."""
    if name not in RECIPES:
        raise ConfigError(f"options: unknown {name!r}; {nearest(name, tuple(RECIPES))}")
    return {"options": recipe(name, config.env)}


@dataclass(frozen=True)
class Swap:
    """What `--NAME VALUE` exchanges in a configuration; flags of the new part can follow."""

    names: Callable[[], tuple[str, ...]]
    parts: Callable[[str, Config], Parts]


Swaps = dict[str, Swap]

DISCOVERY_SWAPS: Swaps = {
    "method": Swap(lambda: tuple(METHODS), discovery_parts),
    "representation": Swap(REPRESENTATIONS.names, lambda name, _: {"representation": REPRESENTATIONS[name]()}),
    "laplacian": Swap(LAPLACIANS.names, lambda name, _: {"laplacian": LAPLACIANS[name]()}),
}
"""Where a run ends with a discovery."""
OPTION_SWAPS: Swaps = {"options": Swap(lambda: tuple(RECIPES), recipe_parts)}
"""Where options are trained."""
LEARNING_SWAPS: Swaps = DISCOVERY_SWAPS | OPTION_SWAPS | {"method": Swap(method_names, learning_parts)}
"""Where a task is learned."""


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
    same = learned.name.partition("+")[0] == before.name.partition("+")[0]  # then with all of its settings
    learner = before.learner if same else replace(learned.learner, steps=before.learner.steps)
    learned = replace(learned, learner=learner, evaluations=before.evaluations, episodes=before.episodes)
    if config.discovers and "learning" not in parts:
        learned = replace(learned, name=", ".join([before.name, *_discovered_otherwise(parts)]))
    return replace(swapped, laplacian=laplacian, learning=learned)


def _discovered_otherwise(parts: Parts) -> list[str]:
    """What parts change in discovery, in words."""
    return [type(parts[field]).__name__.lower() for field in ("representation", "laplacian") if field in parts]
