"""Covering eigenoptions (CEO): one eigenfunction per cycle, whose options are used in the next cycle's walk.

The paper discovers all options in a single cycle. Its appendix on ROD cycles explains why: the eigenfunctions of
repeated cycles were very similar. This module runs repeated cycles and measures the similarity.
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
"""The number of states at which the eigenfunctions of different cycles are compared."""
CONTINUOUS_LEVELS = 20
"""The number of bins for the spread of a continuous feature."""


@dataclass(frozen=True)
class CeoConfig:
    """The number of cycles, and how earlier options are used in a walk."""

    num_cycles: int = 5
    """The number of cycles, each with a walk, an eigenfunction and its two options (the paper shows five)."""
    option_share: float = 0.1
    """The probability that a team without an option draws one uniformly instead of primitive actions.

    All agents share the draw, the synchronisation that the paper assumes (Assumption 2). With independent draws, three
    agents with ten options would agree in one of a hundred draws. An option lasts many steps, so the team follows
    options in a much larger fraction of its steps than this."""

    def __post_init__(self) -> None:
        require(self.num_cycles >= 1, f"ceo.num_cycles must be at least 1, not {self.num_cycles}")
        require(0 <= self.option_share <= 1, f"ceo.option_share must lie in [0, 1], not {self.option_share}")


@dataclass(frozen=True)
class Coverage:
    """The coverage of a walk in exact spreads: per feature, the sum over agents of |x_i - median|."""

    visited: float
    """The fraction of relative states visited. A relative state is the spreads of all features. Walls may make some
    impossible."""
    evenness: float
    """exp(entropy) of the visits divided by the number of relative states: 1 if all are visited equally often."""
    mean_spread: tuple[float, ...]
    """The mean spread of each feature."""
    max_spread: tuple[float, ...]
    led: float
    """The fraction of steps in which the team follows an option."""


@dataclass(frozen=True)
class Cycle:
    """The result of one cycle."""

    config: Config
    """The run's configuration, with one seed and a single eigenfunction."""
    found: Discovered
    options: OptionSet
    """The options of all cycles so far, with those of this cycle last."""
    coverage: Coverage
    common: Shaped[np.ndarray, "state agent feature"]
    """The joint states of the first walk at which all cycles are compared."""
    values: Float[np.ndarray, " state"]
    """The eigenfunction at these states."""
    cosines: Float[np.ndarray, " earlier"]
    """The cosines of the centred values with those of every earlier cycle."""


@dataclass(frozen=True)
class TeamDraw:
    """A random policy over primitive actions and joint options. All agents draw the same option."""

    option_share: float

    def __call__(self, timestep: TimeStep, key: PRNGKeyArray) -> Int[Array, "env agent"]:
        mask = timestep.action_mask
        nothing = jnp.zeros((*mask.shape[:2], 0))  # no action has a value, so every choice is exploration
        explores = ChoiceConfig(option_share=self.option_share)
        return choose(explores, nothing, timestep, jnp.float32(1.0), key=key)


def ceo_cycles(config: Config, ceo: CeoConfig, directory: Path, progress: Progress) -> list[Cycle]:
    """Run the cycles, each in its own run directory in `directory`. Finished stages are not run again.

    All cycles learn with the same random keys but walk with different ones, so they differ only in their walks.
    `summary.json` has their comparison.
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
    """The run of one cycle, which walks with the options of the earlier cycles."""

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
        """A random walk, from the second cycle on with the options of the earlier cycles."""
        if self.known is None:
            return super().make_walk()
        env, policy = MacroEnv(self.config.env, self.known, foresight=False), TeamDraw(self.ceo.option_share)
        keys = self.config.keys(f"walk {self.number}")
        return walk_seeds(env, self.config.walk, keys, policy=policy, progress=self.progress)


def _cycle(run: CoveringRun, earlier: list[Cycle]) -> Cycle:
    """Run one cycle: a walk, its representation and first eigenfunction, and that eigenfunction's options."""
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
    """The two options of a cycle, upwards and downwards, renamed after the cycle.

    Both directions are used, because the sign of an eigenfunction is arbitrary, and either end may be the one that the
    walk rarely visits. The upward option alone would only ever bring the team together.
    """
    names = [f"{'+' if option.sign > 0 else '-'}cycle{number}" for option in options.options]
    described = tuple(replace(option, name=name) for option, name in zip(options.options, names, strict=True))
    return replace(options, options=described)


def join(first: OptionSet, second: OptionSet) -> OptionSet:
    """The union of two option sets that were trained with the same configuration."""
    network = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first.network, second.network)
    return replace(first, network=network, options=first.options + second.options)


def cosines(values: Real[np.ndarray, "cycle state"]) -> Float[np.ndarray, " earlier"]:
    """The cosines between the last function and every earlier one, after centring."""
    centred = values.astype(float) - values.mean(axis=1, keepdims=True)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return unit[:-1] @ unit[-1]


def coverage(team: Team, walked: Walk) -> Coverage:
    """The coverage of relative states by the first seed's walk."""
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
    """The largest possible spread: agents split between both ends, or evenly over the values of a categorical one."""
    if feature.kind == "categorical":
        return float(num_agents - -(-num_agents // feature.size))
    return num_agents // 2 * (feature.high - feature.low)


def _some_states(walked: Walk, seed: int) -> Shaped[np.ndarray, "state agent feature"]:
    """Joint states drawn uniformly from a walk."""
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
