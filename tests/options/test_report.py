"""Reports of options with known effects."""

import dataclasses
import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from cooptions.options.base import AbstractOptions, Option
from cooptions.options.report import (
    FeatureReport,
    OptionReport,
    Ratio,
    _ratios,
    markdown_reports,
    report_options,
    rich_table,
)

STILL, UP, END = 0, 1, 5
KEY = jax.random.key(0)


class Known(AbstractOptions):
    """`up` walks to x = 0 and terminates there, `stay` never terminates, `none` terminates at once."""

    epsilon = 0.0

    @property
    def options(self):
        together = (True, True), 2
        return Option("up", *together, 1, -1), Option("stay", *together), Option("none", *together, 2, 1)

    @property
    def max_steps(self):
        return 4

    def actions(self, agent_states, observation, action_mask):
        up = jnp.where(agent_states[:, 0] > 0, UP, END)
        return jnp.stack([up, jnp.full(2, STILL), jnp.full(2, END)])


@pytest.fixture(scope="module")
def reports(tiny_env, tiny_starts):
    def value(states):
        return jnp.stack([states[:, 0].sum() / 2, states[:, 1].sum()])

    return report_options(tiny_env, Known(), tiny_starts, value=value, eigenvalues=np.array([0.1, 0.2]), key=KEY)


def _placed(tiny_starts, position):
    """The starts with other positions of both agents."""
    everywhere = jnp.broadcast_to(jnp.array(position), tiny_starts.state.position.shape)
    return eqx.tree_at(lambda runners: runners.state.position, tiny_starts, everywhere)


def test_effects_lengths_and_ends_are_exact(reports, tiny_starts):
    x, y = np.asarray(tiny_starts.state.position, np.float64).transpose(2, 0, 1)
    up, stay, none = reports
    assert [feature.name for feature in up.features] == ["x", "y"]
    assert up.features[0].start == pytest.approx(np.abs(x[:, 0] - x[:, 1]).mean())
    assert up.features[0].end == 0
    assert up.features[0].ratio == Ratio(0.0, 0.0, 0.0)
    assert up.features[1].start == up.features[1].end == pytest.approx(np.abs(y[:, 0] - y[:, 1]).mean())
    assert up.features[1].ratio == Ratio(1.0, 1.0, 1.0)
    steps = x.max(axis=1)
    assert up.mean_length == pytest.approx(steps.mean())
    assert up.length_quartiles == tuple(np.percentile(steps, (25, 50, 75)))
    assert up.num_starts == 64
    assert up.share_terminated == (steps < 4).mean()  # ending at the step limit does not count as terminating
    assert 0 < up.share_terminated < 1
    assert up.mean_gain == pytest.approx(x.sum(axis=1).mean() / 2)  # it descends e1, so a decrease of e1 is its gain
    assert (stay.mean_length, stay.share_terminated) == (4.0, 0.0)
    assert (none.mean_length, none.share_terminated) == (0.0, 1.0)
    assert none.mean_gain == 0
    assert [report.eigenvalue for report in reports] == [0.1, None, 0.2]
    assert stay.mean_gain is None


def test_without_differences_there_is_no_ratio(tiny_env, tiny_starts):
    """All starts have both agents in one cell."""
    alike = _placed(tiny_starts, [[3, 2], [3, 2]])
    up = report_options(tiny_env, Known(), alike, key=KEY)[0]
    assert [feature.ratio for feature in up.features] == [None, None]
    assert up.description == "finds no feature to differ in"
    assert "| - | - |" in markdown_reports([up])
    assert json.dumps(dataclasses.asdict(up), allow_nan=False)


def test_random_play_takes_as_many_steps_from_the_same_starts(tiny_env, tiny_starts, reports):
    up, stay, none = reports
    assert none.features[0].random_ratio == Ratio(1.0, 1.0, 1.0)
    assert up.features[0].random_ratio != stay.features[0].random_ratio
    apart = _placed(tiny_starts, [[0, 0], [0, 4]])
    random = report_options(tiny_env, Known(), apart, key=KEY)[1].features[1].random_ratio
    assert random is not None
    assert random.high < 0.95  # from opposite ends, any step along y brings them nearer


def test_intervals_have_about_their_nominal_coverage():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(60):
        starts = rng.uniform(1, 3, (60, 1))
        (ratio,) = _ratios(starts, starts * rng.uniform(0, 1, (60, 1)))
        held += ratio.low <= 0.5 <= ratio.high
    assert 51 <= held <= 59


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ({"x": 0.2, "y": 1.0}, "brings x together, leaves y"),
        ({"x": 1.0, "y": 0.2}, "brings y together, leaves x"),
        ({"x": 0.3, "y": 0.1}, "brings x and y together"),
        ({"x": 0.7, "y": 1.5}, "brings x closer, spreads y"),
        ({"x": 1.3, "y": 1.4, "inventory": 1.2}, "spreads x, y and inventory"),
        ({"x": 1.1, "y": 0.9}, "leaves x and y"),
    ],
)
def test_the_description_follows_from_the_numbers(tiny_reports, ratios, words):
    assert _described(tiny_reports[0], {name: (ratio, 1.0) for name, ratio in ratios.items()}) == words


def test_effects_of_random_play_are_not_the_options(tiny_reports):
    for ratio in (0.2, 1.0, 2.0):
        assert _described(tiny_reports[0], {"x": (ratio, ratio)}) == "leaves x"
    assert _described(tiny_reports[0], {"x": (1.0, 2.0), "y": (1.0, 0.5)}) == "leaves x and y"
    assert _described(tiny_reports[0], {"x": (0.4, 0.6)}) == "brings x closer"


def _described(report, ratios):
    """The words for features with these ratios of the option and of random play."""
    features = tuple(
        FeatureReport(name, 1.0, ratio, Ratio(ratio, 0.0, 9.0), Ratio(random, 0.0, 9.0))
        for name, (ratio, random) in ratios.items()
    )
    return replace(report, features=features).description


def test_reports_are_json_and_tables_have_a_row_each(reports):
    assert json.loads(json.dumps([dataclasses.asdict(report) for report in reports], allow_nan=False))
    console = Console(width=80)
    with console.capture() as capture:
        console.print(rich_table(reports))
    lines = markdown_reports(reports).splitlines()
    assert len(lines) == 2 + len(reports)
    assert {line.count("|") for line in lines} == {lines[0].count("|")}
    for shown, ratio in ((capture.get(), "0.00 ("), (lines[2], "0.00 [0.00, 0.00] (")):
        assert "brings x" in shown
        assert ratio in shown
        assert f"{reports[0].share_terminated:.0%}" in shown
    assert markdown_reports([]) == ""
    assert isinstance(reports[0], OptionReport)
