"""Scores of learners and their statistics: interquartile means (IQM) with bootstrap intervals.

The bootstrap resamples seeds. A seed is one independent run, and its episodes and checkpoints stay together because
they are correlated; resampling episodes as if they were independent gives intervals that are far too narrow. Over
several scenarios, the seeds of each scenario are resampled separately (stratified), as in rliable.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as format_tensors

from cooptions.errors import ArtifactError, ConfigError, require
from cooptions.files import write_bytes

CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one method in one scenario, for every seed, checkpoint and evaluation episode.

    The learner writes NaN from the checkpoint on at which a seed's parameters diverged. If the parameters are sound but
    the environment's score is not finite, it writes infinity. Both kinds of seeds are left out of every statistic, at
    all checkpoints, and counted.
    """

    name: str
    """The method's name in tables and legends."""
    scenario: str
    metric: str
    """The score's name: one of the environment's `score_names`, or `return`."""
    steps: Int[np.ndarray, " checkpoint"]
    """Environment steps taken before each checkpoint, in ascending order."""
    values: Float[np.ndarray, "seed checkpoint episode"]

    def __post_init__(self) -> None:
        require(
            self.values.ndim == 3 and self.values.size > 0 and self.values.shape[1:2] == self.steps.shape,
            f"values of {self.name}: shape {self.values.shape} is not [seed, {len(self.steps)} checkpoints, episode]",
        )
        require(bool((np.diff(self.steps) > 0).all()), f"steps of {self.name} must rise from checkpoint to checkpoint")

    @property
    def diverged(self) -> Bool[np.ndarray, " seed"]:
        """For each seed, whether its team diverged."""
        return np.isnan(self.values).any(axis=(1, 2))

    @property
    def unscored(self) -> Bool[np.ndarray, " seed"]:
        """For each seed, whether its team is sound but the environment returned non-finite scores."""
        return ~np.isfinite(self.values).all(axis=(1, 2)) & ~self.diverged

    @property
    def left_out(self) -> str:
        """The number of seeds that are left out of statistics, and why, in words. Empty if there are none."""
        return left_out(int(self.diverged.sum()), int(self.unscored.sum()))

    @property
    def kept(self) -> Float[np.ndarray, "kept checkpoint episode"]:
        """The scores of the seeds that are not left out."""
        return self.values[np.isfinite(self.values).all(axis=(1, 2))].astype(np.float64)

    @property
    def seed_curves(self) -> Float[np.ndarray, "kept checkpoint"]:
        """Each kept seed's mean score over episodes."""
        return self.kept.mean(axis=2)

    def averaged(self) -> "Scores":
        """The scores averaged over episodes, so that the IQM trims seeds, not episodes.

        The two differ: if every seed fails in a quarter of its episodes, the IQM over episodes does not show it. Our
        tables and figures use averaged scores.
        """
        return Scores(self.name, self.scenario, self.metric, self.steps, self.values.mean(axis=2, keepdims=True))


def left_out(num_diverged: int, num_unscored: int) -> str:
    """The numbers of seeds that are left out of statistics, in words."""
    counts = {"diverged": num_diverged, "with scores that are no numbers": num_unscored}
    return ", ".join(f"{count} {why}" for why, count in counts.items() if count)


@dataclass(frozen=True)
class Bootstrap:
    """The settings of 95% percentile bootstrap intervals.

    With few seeds the intervals are too narrow. For normal scores with equal variance between seeds and between
    episodes (16 episodes, 2000 experiments), they covered the true value in 75% of cases with 3 seeds, 84% with 5, 91%
    with 10 and 93% with 20.
    """

    num_resamples: int = 2000
    """Resamples of the seeds. With 2000, the ends of an interval vary by 1 to 2% of its width from `seed` to `seed`."""
    seed: int = 0
    """The seed of the resampling. The same scores always give the same interval."""

    def __post_init__(self) -> None:
        require(self.num_resamples >= 1, f"num_resamples must be at least 1, not {self.num_resamples}")


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval, which is NaN if there are fewer than two seeds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "-"
        size = np.nanmax(np.abs([self.value, self.low, self.high]))
        value, low, high = (f"{number:.{3 if size < 2 else 1}f}" for number in (self.value, self.low, self.high))
        return value if np.isnan(self.low) else f"{value} [{low}, {high}]"


@dataclass(frozen=True, eq=False)
class Curve:
    """The IQM at every checkpoint, with its 95% interval."""

    steps: Int[np.ndarray, " checkpoint"]
    iqm: Float[np.ndarray, " checkpoint"]
    low: Float[np.ndarray, " checkpoint"]
    high: Float[np.ndarray, " checkpoint"]
    num_seeds: int
    """Seeds in the curve, summed over its scenarios."""
    num_diverged: int
    """Seeds that were left out because they diverged."""


def save_scores(path: Path, scores: Scores) -> None:
    """Write scores atomically as a safetensors file, with the names and a SHA-256 in its header."""
    arrays = {"steps": np.ascontiguousarray(scores.steps), "values": np.ascontiguousarray(scores.values)}
    names = {"name": scores.name, "scenario": scores.scenario, "metric": scores.metric}
    header = json.dumps({**names, "sha256": _digest(names, arrays)}, sort_keys=True)
    write_bytes(path, format_tensors(arrays, metadata={"scores": header}))


def load_scores(path: Path) -> Scores:
    """Load the scores that `save_scores` wrote, after verifying the SHA-256."""
    try:
        with safe_open(path, framework="numpy") as file:
            names = json.loads(file.metadata()["scores"])
            arrays = {key: file.get_tensor(key) for key in ("steps", "values")}
        digest = names.pop("sha256")
        scores = Scores(**names, **arrays)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise ArtifactError(f"{path}: not a whole file of scores: {error}; make it again") from None
    if digest != _digest(names, arrays):
        raise ArtifactError(f"{path}: damaged: its SHA-256 is not the one in its header; make it again")
    return scores


def iqm(values: Float[np.ndarray, "..."]) -> float:
    """The mean of the middle half of the values: `scipy.stats.trim_mean(values, 0.25, axis=None)`, rliable's IQM."""
    cut = values.size // 4
    return float(np.sort(values, axis=None)[cut : values.size - cut].mean())


def bootstrap_iqm(strata: Sequence[Float[np.ndarray, "_ _"]], bootstrap: Bootstrap = Bootstrap()) -> Estimate:
    """The IQM of all scores, with its interval. Each stratum is one scenario's scores [seed, episode]."""
    draws = next(_iqm_draws([stratum[:, None] for stratum in strata], bootstrap))
    return _estimate(_pooled_iqm(strata), draws)


def bootstrap_mean(values: Float[np.ndarray, " episode"], bootstrap: Bootstrap = Bootstrap()) -> Estimate:
    """The mean over the episodes of one team, with an interval from resampling its episodes.

    The interval is for this team's expected score. It says nothing about other seeds.
    """
    if len(values) < 2:
        return Estimate(float(values.mean()), np.nan, np.nan)
    rng = np.random.default_rng(bootstrap.seed)
    draws = rng.choice(values, (bootstrap.num_resamples, len(values))).mean(axis=1)
    return _estimate(float(values.mean()), draws)


def iqm_curve(*tasks: Scores, bootstrap: Bootstrap = Bootstrap()) -> Curve:
    """The learning curve of one method, in one scenario or pooled over several scenarios with a common scale."""
    _require_one_method(tasks)
    steps = tasks[0].steps
    require(all(np.array_equal(task.steps, steps) for task in tasks), f"steps of {tasks[0].name} differ: no one curve")
    kept = [task.kept for task in tasks]
    estimates = [
        _estimate(_pooled_iqm([task[:, point] for task in kept]), draws)
        for point, draws in enumerate(_iqm_draws(kept, bootstrap))
    ]
    columns = (np.array([getattr(each, end) for each in estimates]) for end in ("value", "low", "high"))
    diverged = sum(int(task.diverged.sum()) for task in tasks)
    return Curve(steps, *columns, num_seeds=sum(map(len, kept)), num_diverged=diverged)


def final_iqm(*tasks: Scores, last: int = 1, bootstrap: Bootstrap = Bootstrap()) -> Estimate:
    """The IQM over all episodes of the `last` checkpoints, in one or several scenarios with a common scale."""
    _require_one_method(tasks)
    _require_checkpoints(tasks, last)
    ends = [task.kept[:, -last:] for task in tasks]
    return bootstrap_iqm([end.reshape(len(end), last * end.shape[2]) for end in ends], bootstrap)


def final_scores(scores: Scores, *, last: int = 1) -> Float[np.ndarray, " kept"]:
    """Each kept seed's mean score over the episodes of its `last` checkpoints."""
    _require_checkpoints([scores], last)
    return scores.seed_curves[:, -last:].mean(axis=1)


def over_training(scores: Scores) -> Scores:
    """The scores averaged over checkpoints, as a single checkpoint: the area under the learning curve."""
    values = scores.values.mean(axis=1, keepdims=True)
    return Scores(scores.name, scores.scenario, scores.metric, scores.steps[-1:], values)


def steps_to_reach(scores: Scores, threshold: float) -> Float[np.ndarray, " kept"]:
    """The steps at which each kept seed's mean score first reaches `threshold`; infinite if it never does."""
    reached = scores.seed_curves >= threshold
    return np.where(reached.any(axis=1), scores.steps[reached.argmax(axis=1)], np.inf)


def probability_of_improvement(
    left: Sequence[Scores], right: Sequence[Scores], *, last: int = 1, bootstrap: Bootstrap = Bootstrap()
) -> Estimate:
    """The probability that a seed of the left method scores higher than one of the right, averaged over scenarios.

    Ties count half. A seed's score is its `final_scores`. Both methods need scores in the same scenarios; their seeds
    are resampled independently within each scenario.
    """
    for side in (left, right):
        _require_one_method(side)
    matched = {task.scenario: task for task in right}
    require(
        {(task.scenario, task.metric) for task in left} == {(task.scenario, task.metric) for task in right},
        f"{left[0].name} and {right[0].name} were not scored in the same scenarios by the same metric",
    )
    wins = []
    for task in left:
        ours, theirs = final_scores(task, last=last)[:, None], final_scores(matched[task.scenario], last=last)
        wins.append((ours > theirs) + 0.5 * (ours == theirs))
    value = float(np.mean([table.mean() if table.size else np.nan for table in wins]))
    if min(min(table.shape) for table in wins) < 2:
        return Estimate(value, np.nan, np.nan)
    rng = np.random.default_rng(bootstrap.seed)
    draws = []
    for table in wins:
        mine, other = (_resampled_counts(rng, num_seeds, bootstrap) for num_seeds in table.shape)
        draws.append(np.sum(mine @ table * other, axis=1) / table.size)
    return _estimate(value, np.mean(draws, axis=0))


def _pooled_iqm(strata: Sequence[Float[np.ndarray, "_ _"]]) -> float:
    """The IQM over all strata; NaN if any stratum has no seeds left."""
    return iqm(np.concatenate([stratum.ravel() for stratum in strata])) if min(map(len, strata)) > 0 else np.nan


def _iqm_draws(
    strata: Sequence[Float[np.ndarray, "_ checkpoint _"]], bootstrap: Bootstrap
) -> Iterator[Float[np.ndarray, " resample"]]:
    """The IQM of every resample, checkpoint by checkpoint; NaN if a stratum has fewer than two seeds.

    All checkpoints use the same resamples.
    """
    num_checkpoints = strata[0].shape[1]
    if min(map(len, strata)) < 2:
        yield from np.full((num_checkpoints, 1), np.nan)
        return
    rng = np.random.default_rng(bootstrap.seed)
    counts = np.concatenate([_resampled_counts(rng, len(stratum), bootstrap) for stratum in strata], axis=1)
    seeds = np.arange(counts.shape[1])
    owners = np.repeat(seeds, np.concatenate([np.full(len(stratum), stratum.shape[2]) for stratum in strata]))
    for point in range(num_checkpoints):
        yield _resampled_iqm(np.concatenate([stratum[:, point].ravel() for stratum in strata]), owners, counts)


def _resampled_iqm(
    values: Float[np.ndarray, " score"], owners: Int[np.ndarray, " score"], counts: Float[np.ndarray, "resample seed"]
) -> Float[np.ndarray, " resample"]:
    """The IQM of every resample, computed from the number of times it contains each seed.

    All resamples consist of the same scores with different multiplicities, so one sort serves all. Cumulative numbers
    and sums of each seed's scores by rank, multiplied by a resample's counts, give those of the resample.
    """
    order = np.argsort(values)
    ranked, owned = values[order], owners[order, None] == np.arange(counts.shape[1])
    start = np.zeros((1, counts.shape[1]))
    numbers = np.concatenate([start, np.cumsum(owned, axis=0)])
    sums = np.concatenate([start, np.cumsum(owned * ranked[:, None], axis=0)])
    cut = values.size // 4
    below, above = (_sum_of_smallest(num, ranked, numbers, sums, counts) for num in (cut, values.size - cut))
    return (above - below) / (values.size - 2 * cut)


def _sum_of_smallest(
    num: int,
    ranked: Float[np.ndarray, " score"],
    numbers: Float[np.ndarray, "score+1 seed"],
    sums: Float[np.ndarray, "score+1 seed"],
    counts: Float[np.ndarray, "resample seed"],
) -> Float[np.ndarray, " resample"]:
    """The sum of the `num` smallest scores of every resample, whose last rank is found by bisection."""
    low = np.zeros(len(counts), dtype=np.int64)
    high = np.full_like(low, len(ranked))
    for _ in range(len(ranked).bit_length()):
        middle = (low + high) // 2
        reached = np.einsum("rs,rs->r", counts, numbers[middle]) >= num
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    missing = num - np.einsum("rs,rs->r", counts, numbers[low])
    return np.einsum("rs,rs->r", counts, sums[low]) + missing * ranked[low]


def _resampled_counts(
    rng: np.random.Generator, num_seeds: int, bootstrap: Bootstrap
) -> Float[np.ndarray, "resample seed"]:
    """How often each seed occurs in each resample of `num_seeds` seeds drawn with replacement."""
    shares = np.full(num_seeds, 1.0 / num_seeds)
    return rng.multinomial(num_seeds, shares, size=bootstrap.num_resamples).astype(np.float64)


def _estimate(value: float, draws: Float[np.ndarray, " resample"]) -> Estimate:
    low, high = np.quantile(draws, [(1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0])
    return Estimate(value, float(low), float(high))


def _require_one_method(tasks: Sequence[Scores]) -> None:
    require(len(tasks) > 0, "scores: none were given")
    require(
        len({(task.name, task.metric) for task in tasks}) == 1 and len({task.scenario for task in tasks}) == len(tasks),
        "scores: these must be of one method and one metric, each in another scenario",
    )


def _require_checkpoints(tasks: Sequence[Scores], last: int) -> None:
    fewest = min(len(task.steps) for task in tasks)
    require(1 <= last <= fewest, f"last must be between 1 and the {fewest} checkpoints there are, not {last}")


def _digest(names: dict[str, str], arrays: dict[str, Shaped[np.ndarray, "..."]]) -> str:
    digest = hashlib.sha256(json.dumps(names, sort_keys=True).encode())
    for key, array in sorted(arrays.items()):
        digest.update(f"{key} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
