"""The results of a run through the command line: score files, comparisons, and new evaluations."""

import json
import re
import shutil

import numpy as np
import pytest

from cooptions.cli.main import main
from cooptions.runs.records import read_record, write_record
from cooptions.scores.statistics import load_scores
from cooptions.training import memory

TINY = [
    *("--learning.learner.steps", "1640", "--learning.learner.num-envs", "4", "--learning.learner.rollout", "10"),
    *(
        "--learning.learner.batch",
        "4",
        "--learning.learner.capacity",
        "400",
        "--learning.learner.learning-starts",
        "80",
    ),
    *("--learning.learner.network.hidden", "8", "8", "--learning.evaluations", "2", "--learning.episodes", "3"),
]


TRAIN = ["train", "lbf-5x5-2p-1f", "--method", "iql+handmade", "--seeds", "2", *TINY, "--out"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of IQL with hand-made options on a tiny foraging task."""
    path = tmp_path_factory.mktemp("runs") / "run"
    main([*TRAIN, str(path)])
    return path


def test_training_leaves_scores_of_every_episode(run):
    scores = load_scores(run / "scores" / "percent_eaten.safetensors")
    assert (scores.name, scores.scenario) == ("iql+handmade", "lbf-5x5-2p-1f")
    assert scores.values.shape == (2, 2, 3)
    assert scores.steps.tolist() == [800, 1600]
    assert set(np.unique(scores.values)) <= {0.0, 100.0}
    returns = load_scores(run / "scores" / "return.safetensors")
    np.testing.assert_allclose(returns.values * 100, scores.values, atol=1e-4)
    assert (run / "figures" / "learning.png").exists()


def test_team_with_options_follows_them_and_nothing_is_discovered(run):
    rows = [json.loads(line) for line in (run / "metrics" / "learning.jsonl").read_text().splitlines()]
    assert min(rows[0]["led"]) > 0.005
    assert list(read_record(run / "manifest.json")) == ["learning"]


def test_comparison_is_a_table_curves_and_marl_eval_json(run, tmp_path, capsys):
    main(["compare", str(run), "--out", str(tmp_path), "--marl-eval", str(tmp_path / "marl.json")])
    shown = capsys.readouterr().out
    assert "iql+handmade" in shown
    assert "percent_eaten" in shown
    assert (tmp_path / "curves.png").exists()
    tree = json.loads((tmp_path / "marl.json").read_text())
    assert list(tree["lbf"]["5x5-2p-1f"]) == ["iql+handmade"]
    main(["compare", str(run), str(run), "--out", str(tmp_path), "--metric", "return", "--names", "a", "b"])
    shown = capsys.readouterr().out
    assert "return" in shown
    assert "lbf-5x5-2p-1f: b ends with return" in shown
    assert "A seed of b ends above one of a with probability 0.5" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "run"], "several runs are called iql+handmade; give --names"),
        (["run", "--metric", "apples"], "has no 'apples'; there are percent_eaten, return"),
        (["run", "--names", "a", "b"], "names: one for each of 1 runs, not 2"),
        (["run", "missing"], "no scores; `cooptions train"),
    ],
)
def test_wrong_comparisons_say_what_to_do(run, arguments, message, capsys):
    words = [str(run.with_name(word)) if word in ("run", "missing") else word for word in arguments]
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *words])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def earlier(run, tmp_path):
    """A run from an earlier version, in which the same scenario name meant the public rules."""
    path = shutil.copytree(run, tmp_path / "earlier")
    configs, manifest = read_record(path / "config.json"), read_record(path / "manifest.json")
    env = {"grid_size": 5, "num_agents": 2, "num_apples": 1, "sight": 0, "coop": "three_lowest", "time_limit": 100}
    configs["learning"]["env"] = manifest["learning"]["config"]["env"] = env
    write_record(path / "config.json", configs)
    write_record(path / "manifest.json", manifest)
    return path


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["evaluate", "earlier"], "was another environment when it was made: coop is 'three_lowest' there"),
        ([*TRAIN, "earlier"], "env.sight is 0 there, 2 now"),
        (["compare", "run", "earlier", "--names", "a", "b"], "lbf-5x5-2p-1f is not the environment that it is"),
        (["compare", "run", "earlier", "--names", "a", "b"], "coop is 'all' there, 'three_lowest' now"),
    ],
)
def test_runs_by_other_rules_are_refused_with_the_difference(run, earlier, command, reason, capsys):
    with pytest.raises(SystemExit):
        main([{"run": str(run), "earlier": str(earlier)}.get(word, word) for word in command])
    assert reason in "".join(capsys.readouterr().err.splitlines())


def test_final_policies_are_evaluated_on_new_episodes(run, capsys):
    """They have the number of steps they were trained for, which may be less than requested."""
    main(["evaluate", str(run), "--episodes", "20"])
    told = capsys.readouterr().out
    assert "percent_eaten" in told
    assert "iql+handmade" in told
    assert "0.0016M" in told


def test_a_team_without_options_of_its_own_has_none_to_show(run, capsys):
    with pytest.raises(SystemExit):
        main(["show", str(run)])
    told = capsys.readouterr().err
    assert "this team learned without options of its own; `cooptions evaluate" in told
    assert "cooptions options" not in told


def test_more_episodes_than_there_is_memory_for_are_refused(run, monkeypatch, capsys):
    monkeypatch.setattr(memory, "host_bytes", lambda: 10**8)
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), "--episodes", "1000000"])
    assert re.search(
        r"evaluate: needs [\d.]+ GB, the device has 0.1 GB; make episodes smaller", capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--episodes", "1e12"], "episodes must be at most 1000000, not 1000000000000"),
        (["--key", "99999999999"], "key must be at most 32768, not 99999999999"),
        (["--key", "-5"], "key must be at least 0, not -5"),
    ],
)
def test_numbers_beyond_all_sense_are_refused_by_name(run, flags, message, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), *flags])
    assert message in capsys.readouterr().err


def test_finished_training_is_not_repeated(run):
    before = (run / "learning.safetensors").stat().st_mtime_ns
    main([*TRAIN, str(run)])
    assert (run / "learning.safetensors").stat().st_mtime_ns == before


def test_a_method_of_discovery_is_not_a_method_of_learning(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "lbf-5x5-2p-1f", "--method", "hit", "--out", str(tmp_path)])
    assert (
        "method: unknown 'hit'; did you mean iql+hit? there are iql, vdn, iql-ns, vdn-ns, iql-ln, vdn-ln"
        in capsys.readouterr().err
    )
