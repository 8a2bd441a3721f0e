"""Reports of options: their effect on the spread of each feature, their length and how they terminate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from rich.table import Column, Table
from rich.text import Text

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.execution import follow_all, spreads
from cooptions.options.wander import RandomPlay
from cooptions.scores.tables import markdown_table

Value = Callable[[Float[Array, "agent feature"]], Float[Array, " k"]]
"""The eigenfunctions at a joint state, with unit variance under the walk. The states have all features of the env."""

TOGETHER = 0.5
"""An option brings a feature together if two ratios are at most this: of its final spread to the spread at the start,
and to the final spread of random play."""
CLOSER = 0.8
"""It brings a feature closer if both ratios are at most this."""
APART = 1.2
"""It spreads a feature if both ratios are at least this. Otherwise it leaves the feature unchanged."""

NUM_RANDOM_PLAYS = 4
"""The number of random roll-outs from each start."""
NUM_RESAMPLES = 2000


@dataclass(frozen=True)
class Ratio:
    """The mean spread at the end divided by that at the start, with a 95% bootstrap interval over starts."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class FeatureReport:
    """An option's effect on the spread of one feature. There are no ratios if agents never differ at the start."""

    name: str
    start: float
    """The mean spread over the starts.

    The spread is the sum of distances to the median, or the number of agents that differ from the most common value.
    """
    end: float
    """The mean spread at the end of the option."""
    ratio: Ratio | None
    random_ratio: Ratio | None
    """The ratio of random play from the same starts, for as many steps as the option took from each."""

    @property
    def effect(self) -> str:
        """The effect in words, with a placeholder for features; empty if there are no ratios."""
        if self.ratio is None or self.random_ratio is None:
            return ""
        shares = self.ratio.value, self.ratio.value / (self.random_ratio.value or 1.0)
        if max(shares) <= TOGETHER:
            return "brings {} together"
        if max(shares) <= CLOSER:
            return "brings {} closer"
        return "spreads {}" if min(shares) >= APART else "leaves {}"


@dataclass(frozen=True)
class OptionReport:
    """Statistics of one option, followed from many starts."""

    name: str
    eigenfunction: int
    """Counted from 1; 0 if it follows none."""
    sign: int
    eigenvalue: float | None
    num_starts: int
    features: tuple[FeatureReport, ...]
    mean_length: float
    length_quartiles: tuple[float, float, float]
    share_terminated: float
    """The fraction of roll-outs in which the team terminated it before the step limit."""
    mean_gain: float | None
    """The mean of sign x (eigenfunction at the end - at the start), in standard deviations."""

    @property
    def description(self) -> str:
        """A one-line description of its effects."""
        effects = {feature.effect: None for feature in self.features if feature.effect}
        order = sorted(effects, key=lambda effect: effect.startswith("leaves"))
        parts = [effect.format(_listed([f.name for f in self.features if f.effect == effect])) for effect in order]
        return ", ".join(parts) or "finds no feature to differ in"


def report_options(
    env: AbstractEnv,
    options: AbstractOptions,
    begun: Runners,
    *,
    value: Value | None = None,
    eigenvalues: Float[Array | np.ndarray, " k"] | None = None,
    key: PRNGKeyArray,
) -> tuple[OptionReport, ...]:
    """Follow every option, and random play for comparison, from every start. Returns one report per option."""
    option_key, random_key = jax.random.split(key)
    starts = jax.vmap(env.agent_states)(begun.state)
    ends, length, terminated = _follow_to_end(env, options, begun, key=option_key)
    gains = np.zeros((options.num_options, 0)) if value is None else _mean_gains(value, starts, ends)
    alike = Option("random play", (True,) * env.num_agents, env.num_agents)
    play = RandomPlay(options=(alike,) * NUM_RANDOM_PLAYS, max_steps=options.max_steps)
    random_spreads = _spreads(env, follow_all(env, play, begun, key=random_key).agent_states)
    reports = []
    for index, option in enumerate(options.options):
        k, steps = option.eigenfunction, np.asarray(length[index])
        alone = random_spreads[:, np.arange(len(steps)), steps].mean(axis=0)
        early = np.asarray(terminated[index]) & (steps < options.max_steps)
        reports.append(
            OptionReport(
                name=option.name,
                eigenfunction=k,
                sign=option.sign,
                eigenvalue=float(eigenvalues[k - 1]) if eigenvalues is not None and k > 0 else None,
                num_starts=len(steps),
                features=_feature_reports(env, _spreads(env, starts), _spreads(env, ends[index]), alone),
                mean_length=float(steps.mean()),
                length_quartiles=tuple(map(float, np.percentile(steps, (25, 50, 75)))),
                share_terminated=float(early.mean()),
                mean_gain=float(option.sign * gains[index, k - 1]) if value is not None and k > 0 else None,
            )
        )
    return tuple(reports)


def rich_table(reports: Sequence[OptionReport]) -> Table:
    """A table for a terminal of 80 columns, with one row per option and no intervals or quartiles."""
    names = [feature.name for feature in reports[0].features] if reports else []
    caption = "spreads: end over start, and in brackets the same for random play of equal length"
    table = Table("option", Column("what it does", min_width=16), *names, "steps", "ends", "gain", caption=caption)
    for report in reports:
        cells = _cells(report, lambda ratio: f"{ratio.value:.2f}")
        steps = f"{report.mean_length:.1f}"
        spreads = [cells[_heading(name)] for name in names]
        row = cells["option"], cells["what it does"], *spreads, steps, cells["ends by itself"], cells["gain"]
        table.add_row(*map(Text, row))
    return table


def markdown_reports(reports: Sequence[OptionReport]) -> str:
    """A Markdown table with one row per option."""
    rows = [_cells(report, str) for report in reports]
    return markdown_table(list(rows[0]) if rows else [], [list(row.values()) for row in rows])


def _cells(report: OptionReport, ratio_text: Callable[[Ratio], str]) -> dict[str, str]:
    """The cells of an option's row by heading."""
    low, _, high = report.length_quartiles
    return {
        "option": report.name,
        "what it does": report.description,
        **{_heading(feature.name): _spread(feature, ratio_text) for feature in report.features},
        "steps (quartiles)": f"{report.mean_length:.1f} ({low:g} to {high:g})",
        "ends by itself": f"{report.share_terminated:.0%}",
        "gain": "-" if report.mean_gain is None else f"{report.mean_gain:+.2f}",
        "eigenvalue": "-" if report.eigenvalue is None else f"{report.eigenvalue:.3f}",
    }


def _spread(feature: FeatureReport, ratio_text: Callable[[Ratio], str]) -> str:
    if feature.ratio is None or feature.random_ratio is None:
        return "-"
    return f"{ratio_text(feature.ratio)} ({feature.random_ratio.value:.2f})"


def _heading(feature: str) -> str:
    return f"spread of {feature} (random)"


def _listed(names: Sequence[str]) -> str:
    """The names joined as in "x, y and z"."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


@partial(jax.jit, static_argnums=0)
def _follow_to_end(
    env: AbstractEnv, options: AbstractOptions, begun: Runners, *, key: PRNGKeyArray
) -> tuple[Float[Array, "option start agent feature"], Int[Array, "option start"], Bool[Array, "option start"]]:
    """The final states, the lengths, and whether the team terminated each option. Other states are not kept."""
    followed = follow_all(env, options, begun, key=key)
    return followed.agent_states[:, :, -1], followed.length, followed.terminated


def _mean_gains(
    value: Value, starts: Float[Array, "start agent feature"], ends: Float[Array, "option start agent feature"]
) -> Float[np.ndarray, "option k"]:
    """The mean change of every eigenfunction from start to end, for every option."""
    before = _values(value, starts)
    return np.stack([np.asarray(_values(value, reached) - before, np.float64).mean(axis=0) for reached in ends])


@eqx.filter_jit
def _values(value: Value, agent_states: Float[Array, "start agent feature"]) -> Float[Array, "start k"]:
    return jax.vmap(value)(agent_states)


def _spreads(env: AbstractEnv, agent_states: Float[Array, "*batch agent feature"]) -> Float[np.ndarray, "*batch f"]:
    return spreads(env.features, env.agent_features, agent_states)


def _feature_reports(
    env: AbstractEnv,
    start: Float[np.ndarray, "start feature"],
    end: Float[np.ndarray, "start feature"],
    random_end: Float[np.ndarray, "start feature"],
) -> tuple[FeatureReport, ...]:
    ratios, random_ratios = _ratios(start, end), _ratios(start, random_end)
    rows = zip(env.features, start.mean(axis=0), end.mean(axis=0), ratios, random_ratios, strict=True)
    return tuple(
        FeatureReport(feature.name, float(before), float(after), ratio, alone)
        for feature, before, after, ratio, alone in rows
    )


def _ratios(start: Float[np.ndarray, "start feature"], end: Float[np.ndarray, "start feature"]) -> list[Ratio | None]:
    """The ratio of mean spreads for every feature. The bootstrap resamples starts together with their ends."""
    num = len(start)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(num, np.full(num, 1 / num), size=NUM_RESAMPLES)
    ratios = []
    for before, after in zip(start.T, end.T, strict=True):
        denominators = counts @ before
        if before.mean() == 0:
            ratios.append(None)
            continue
        draws = (counts @ after)[denominators > 0] / denominators[denominators > 0]
        low, high = np.percentile(draws, (2.5, 97.5))
        ratios.append(Ratio(float(after.mean() / before.mean()), float(low), float(high)))
    return ratios
