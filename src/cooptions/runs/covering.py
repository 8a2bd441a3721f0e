"""Covering eigenoptions (CEO): one eigenfunction a cycle, whose options take part in the walk of the next.

The paper discovers all its options in a single cycle and says why in its appendix on ROD cycles: of repeated ones it
found the eigenfunctions to be much alike. This is the repeated kind, and measures how alike they are.
"""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Real, Shaped

from cooptions.discovery.discovered import Discovered
from cooptions.discovery.oracles.distances import spread
from cooptions.discovery.walks import Walk, walk_seeds
from cooptions.envs.team import Team
from cooptions.errors import require
from cooptions.learners.exploration import ChoiceConfig, choose
from cooptions.options.macro import MacroEnv
from cooptions.options.option_set import OptionSet
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.run import Run
from cooptions.runs.stages import stage_configs
from cooptions.training.progress import Progress
from cooptions.types import Feature, TimeStep

NUM_COMMON = 4096
"""States at which the eigenfunctions of different cycles are compared."""
CONTINUOUS_LEVELS = 20
"""How many levels of spread are told apart in a continuous feature."""


@dataclass(frozen=True)
class CeoConfig:
    """How many cycles, and how the options found so far take part in the next walk."""

    num_cycles: int = 5
    """Cycles, each with a walk, an eigenfunction and its two options (the paper shows five)."""
    option_share: float = 0.1
    """How often a team that follows no option draws one, every option with equal chances, instead of primitives.

    All agents see the same coin, the synchronisation that the paper assumes (its Assumption 2): if each drew for
    itself, three agents with ten options would agree on one in a draw out of a hundred. An option lasts many steps,
    so that the team is led by options for a much larger part of its steps than this."""

    def __post_init__(self) -> None:
        require(self.num_cycles >= 1, f"ceo.num_cycles must be at least 1, not {self.num_cycles}")
        require(0 <= self.option_share <= 1, f"ceo.option_share must lie in [0, 1], not {self.option_share}")


@dataclass(frozen=True)
class Coverage:
    """Where a walk took the team, in exact spreads: per feature, the sum over agents of |x_i - median|."""

    visited: float
    """Share of relative states seen, a relative state being the spreads of all features; walls may forbid some."""
    evenness: float
    """exp(entropy) of the visits over the number of relative states: 1 where the walk sees all equally often."""
    mean_spread: tuple[float, ...]
    """Of each feature."""
    max_spread: tuple[float, ...]
    led: float
    """Share of steps at which the team follows an option."""


@dataclass(frozen=True)
class Cycle:
    """What one cycle found."""

    config: Config
    """That of the run, for one seed and a single eigenfunction."""
    found: Discovered
    options: OptionSet
    """Those of this cycle, after those of the earlier ones."""
    coverage: Coverage
    common: Shaped[np.ndarray, "state agent feature"]
    """Joint states of the first walk, the same in all cycles, at which they are compared."""
    values: Float[np.ndarray, " state"]
    """The eigenfunction there."""
    cosines: Float[np.ndarray, " earlier"]
    """Of these values with those of every earlier cycle, without their means."""


@dataclass(frozen=True)
class TeamDraw:
    """A policy over primitives and joint options: now and then the team draws an option, all agents the same one."""

    option_share: float

    def __call__(self, timestep: TimeStep, key: PRNGKeyArray) -> Int[Array, "env agent"]:
        mask = timestep.action_mask
        nothing = jnp.zeros((*mask.shape[:2], 0))  # no action has a value: all is exploration
        explores = ChoiceConfig(option_share=self.option_share)
        return choose(explores, nothing, timestep, jnp.float32(1.0), key=key)


def ceo_cycles(config: Config, ceo: CeoConfig, directory: Path, progress: Progress) -> list[Cycle]:
    """Go through the cycles; each is a run directory in `directory`, and what is there already is not made again.

    Every cycle learns with the same keys and walks with its own: what tells two cycles apart is their walks.
    `summary.json` holds what they are compared by.
    """
    require(not config.members, "members: covering options are of the whole team; leave it out")
    single = replace(config, seeds=1, laplacian=replace(config.laplacian, num_eigenfunctions=1))
    cycles: list[Cycle] = []
    with open_run(directory, {"ceo": {"option_share": ceo.option_share}}) as outer:
        for number in range(1, ceo.num_cycles + 1):
            with open_run(outer.file(f"cycle-{number}"), stage_configs(single, "options")) as place:
                known = cycles[-1].options if cycles else None
                cycles.append(_cycle(CoveringRun(single, place, progress, ceo, known, number), cycles))
        _summarise(outer, cycles)
    return cycles


class CoveringRun(Run):
    """One cycle: it walks with the options of the earlier cycles."""

    def __init__(
        self,
        config: Config,
        directory: RunDirectory,
        progress: Progress,
        ceo: CeoConfig,
        known: OptionSet | None,
        number: int,
    ) -> None:
        super().__init__(config, directory, progress)
        self.ceo, self.known, self.number = ceo, known, number

    def make_walk(self) -> Walk:
        """At random, and from the second cycle on with the options that are known."""
        if self.known is None:
            return super().make_walk()
        env, policy = MacroEnv(self.config.env, self.known, foresight=False), TeamDraw(self.ceo.option_share)
        keys = self.config.keys(f"walk {self.number}")
        return walk_seeds(env, self.config.walk, keys, policy=policy, progress=self.progress)


def _cycle(run: CoveringRun, earlier: list[Cycle]) -> Cycle:
    """A walk, its representation and first eigenfunction, and the options that follow it."""
    found = run.found.seed(0)
    options = numbered(jax.tree.map(lambda leaf: leaf[0], run.options), run.number)
    common = earlier[0].common if earlier else _some_states(run.walk, run.config.seed)
    values = np.asarray(jax.jit(Discovered.at)(found.on_kept(), jnp.asarray(common)))[:, 0]
    return Cycle(
        config=run.config,
        found=found,
        options=options if run.known is None else join(run.known, options),
        coverage=coverage(run.config.team, run.walk),
        common=common,
        values=values,
        cosines=cosines(np.stack([*(cycle.values for cycle in earlier), values])),
    )


def numbered(options: OptionSet, number: int) -> OptionSet:
    """The two options of a cycle, upwards and downwards, under names of their own.

    Both, because an eigenfunction has no sign of its own, and because covering options lead from one of its ends to
    the other: the end that the walk hardly sees may be either. Upwards alone would only ever gather the team.
    """
    names = [f"{'+' if option.sign > 0 else '-'}cycle{number}" for option in options.options]
    described = tuple(replace(option, name=name) for option, name in zip(options.options, names, strict=True))
    return replace(options, options=described)


def join(first: OptionSet, second: OptionSet) -> OptionSet:
    """One set with the options of two, which were trained alike."""
    network = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first.network, second.network)
    return replace(first, network=network, options=first.options + second.options)


def cosines(values: Real[np.ndarray, "cycle state"]) -> Float[np.ndarray, " earlier"]:
    """Of the last function with every other one, without their means: a constant says nothing about the team."""
    centred = values.astype(float) - values.mean(axis=1, keepdims=True)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return unit[:-1] @ unit[-1]


def coverage(team: Team, walked: Walk) -> Coverage:
    """What the first seed's walk has seen of the team's relative states."""
    states = np.asarray(walked.states)[0].reshape(-1, team.num_agents, len(team.features))
    categorical = np.array([feature.kind == "categorical" for feature in team.features])
    spreads = spread(states, team.has_feature, categorical)
    num_having = team.has_feature.sum(axis=0).tolist()
    largest = [_largest_spread(*having) for having in zip(team.features, num_having, strict=True)]
    levels = [
        int(most) + 1 if feature.discrete else CONTINUOUS_LEVELS
        for feature, most in zip(team.features, largest, strict=True)
    ]
    scale = [(num - 1) / most if most > 0 else 0.0 for num, most in zip(levels, largest, strict=True)]
    cells = np.ravel_multi_index(tuple(np.rint(spreads * scale).astype(int).T), levels)
    visits = np.bincount(cells)
    share = visits[visits > 0] / len(cells)
    return Coverage(
        visited=len(share) / math.prod(levels),
        evenness=float(np.exp(-share @ np.log(share))) / math.prod(levels),
        mean_spread=tuple(spreads.mean(axis=0).tolist()),
        max_spread=tuple(spreads.max(axis=0).tolist()),
        led=0.0 if walked.votes is None else float((np.asarray(walked.votes)[0, ..., 0] >= 0).mean()),
    )


def _largest_spread(feature: Feature, num_agents: int) -> float:
    """Half of the agents at one end and half at the other, or all values taken equally often if they have no order."""
    if feature.kind == "categorical":
        return float(num_agents - -(-num_agents // feature.size))
    return num_agents // 2 * (feature.high - feature.low)


def _some_states(walked: Walk, seed: int) -> Shaped[np.ndarray, "state agent feature"]:
    """Joint states of a walk, each equally likely."""
    states = np.asarray(walked.states)[0]
    states = states.reshape(-1, *states.shape[2:])
    return states[np.random.default_rng(seed).integers(len(states), size=NUM_COMMON)]


def _summarise(run: RunDirectory, cycles: list[Cycle]) -> None:
    run.summarise(
        options=[option.name for option in cycles[-1].options.options],
        cosines=[cycle.cosines.round(4).tolist() for cycle in cycles],
        coverage=[asdict(cycle.coverage) for cycle in cycles],
        eigenvalues=[float(cycle.found.eigenvalues[0]) for cycle in cycles],
    )
