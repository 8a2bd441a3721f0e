"""Result files, to which sessions add seeds."""

from dataclasses import replace

import numpy as np
import pytest
from made_up import result

from cooptions.campaigns.results import by_own_score, merged, read_result, read_results, result_path, write_result
from cooptions.campaigns.rows import Row
from cooptions.errors import ArtifactError


def test_results_are_read_back_to_four_digits(tmp_path):
    told = replace(result("iql+hit", [12.34567, np.nan], num_options=6, fraction=0.5), steps=np.array([7, 9]))
    path = result_path(tmp_path, Row("lbf-15x15-4p-3f", "iql+hit", 6), 0.5, "percent_eaten")
    write_result(path, told)
    assert path.name == "lbf-15x15-4p-3f.iql+hit-6options.fraction-0.5.percent_eaten.json"
    read = read_results(tmp_path)[0]
    np.testing.assert_array_equal(read.means, [[0, 12.35], [0, np.nan]])
    np.testing.assert_array_equal(read.last, [[12.35] * 3, [np.nan] * 3])
    assert read.steps.tolist() == [7, 9]
    for field in ("scenario", "method", "num_options", "fraction", "metric", "settings", "seeds", "blocks"):
        assert getattr(read, field) == getattr(told, field)
    assert read.scores.diverged.tolist() == [False, True]
    assert read.scores.name == "iql+hit-6options"


def test_seeds_of_earlier_sessions_are_kept_and_newer_ones_win(tmp_path):
    earlier, later = result("iql", [1.0, 2.0, 3.0]), result("iql", [20.0, 30.0, 40.0], first=1)
    both = merged([earlier, later], tmp_path)
    assert both.seeds == (0, 1, 2, 3)
    assert both.means[:, -1].tolist() == [1, 20, 30, 40]
    assert both.last[:, 0].tolist() == [1, 20, 30, 40]
    assert [block["seeds"] for block in both.blocks] == [[0], [1, 2, 3]]


def test_scores_of_different_settings_are_not_mixed(tmp_path):
    other = replace(result("iql", [1.0], first=7), settings={"learning": {"learner": {"batch": 1}}})
    with pytest.raises(ArtifactError, match="learning.learner.batch is"):
        merged([result("iql", [1.0]), other], tmp_path)


def test_damaged_file_is_refused_by_name(tmp_path):
    path = tmp_path / "scores" / "a.json"
    write_result(path, result("iql", [1.0]))
    path.write_text(path.read_text().replace('"seeds"', '"sedes"'))
    with pytest.raises(ArtifactError, match="a.json: not a whole result"):
        read_result(path)


def test_each_row_has_one_result_by_its_own_score():
    eaten, returned = result("iql", [1.0]), result("iql", [1.0], metric="return")
    alone = result("vdn", [1.0], metric="return")
    assert by_own_score([eaten, returned, alone]) == [eaten, alone]
