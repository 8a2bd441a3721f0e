import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from test_statistics import drawn_scores, scores_of

from cooptions.errors import ConfigError
from cooptions.scores.comparison import (
    compare,
    improvements,
    markdown_comparison,
    marl_eval_json,
    rich_table,
    save_marl_eval,
)
from cooptions.scores.statistics import final_iqm


def test_tables_show_every_method():
    rows = compare([drawn_scores(3, 2, 4), scores_of(np.full((2, 1, 4), 150.0), name="a|b [red]", steps=[7_500_000])])
    lines = markdown_comparison(rows).splitlines()
    assert lines[0] == "| scenario | metric | method | IQM [95% interval] | seeds | steps |"
    assert lines[3] == r"| lbf-8x8-2p-2f | percent_eaten | a\|b [red] | 150.0 [150.0, 150.0] | 2 | 7.5M |"
    shown = io.StringIO()
    Console(width=200, file=shown).print(rich_table(rows))
    assert "a|b [red]" in shown.getvalue()
    assert str(rows[0].iqm) in shown.getvalue()


def test_methods_are_compared_with_the_first_of_their_scenario():
    low, other = drawn_scores(5, 2, 4), drawn_scores(5, 2, 4, scenario="overcooked-forced_coord")
    high, worst = scores_of(low.values + 100.0, name="VDN"), scores_of(other.values - 100.0, name="VDN")
    worst = replace(worst, scenario=other.scenario)
    above, below = improvements([low, other, high, worst])
    ends = {each.name: final_iqm(each) for each in (low, high)}
    assert above == (
        f"lbf-8x8-2p-2f: VDN ends with percent_eaten {ends['VDN']}, IQL with {ends['IQL']}. "
        "A seed of VDN ends above one of IQL with probability 1.000 [1.000, 1.000]."
    )
    assert below.endswith("A seed of VDN ends above one of IQL with probability 0.000 [0.000, 0.000].")
    assert below.startswith("overcooked-forced_coord: ")
    assert improvements([low]) == []
    assert improvements([low, scores_of(high.values[:1], name="VDN")]) == []  # a single seed has no interval


def test_marl_eval_format(tmp_path):
    eaten, returns = drawn_scores(3, 12, 2), drawn_scores(3, 12, 2, seed=1, metric="return")
    other = drawn_scores(2, 12, 1, name="VDN", scenario="overcooked-forced_coord")
    eaten.values[1, 5:] = np.nan
    save_marl_eval(tmp_path / "eval.json", [eaten, returns, other])
    tree = json.loads((tmp_path / "eval.json").read_text())
    assert list(tree) == ["lbf", "overcooked"]
    runs = tree["lbf"]["8x8-2p-2f"]["IQL"]
    assert list(runs) == ["seed_0", "seed_2"]
    assert list(runs["seed_0"]) == [*(f"step_{index}" for index in range(12)), "absolute_metrics"]
    assert runs["seed_2"]["step_11"] == {
        "step_count": 11000,
        "percent_eaten": eaten.values[2, 11].tolist(),
        "return": returns.values[2, 11].tolist(),
    }
    assert runs["seed_2"]["absolute_metrics"]["return"] == returns.values[2, -1].tolist()
    assert list(tree["overcooked"]["forced_coord"]["VDN"]) == ["seed_0", "seed_1"]


def test_marl_eval_refuses_invalid_scores():
    with pytest.raises(ConfigError, match="comma"):
        marl_eval_json([drawn_scores(2, 1, 1, name="a,b")])
    with pytest.raises(ConfigError, match="different steps or seeds"):
        marl_eval_json([drawn_scores(2, 1, 1), drawn_scores(3, 1, 1, metric="return")])
    with pytest.raises(ConfigError, match="percent_eaten was given twice"):
        marl_eval_json([drawn_scores(2, 1, 1), drawn_scores(2, 1, 1)])
