"""Learned teams are loaded as they were saved or pushed, and anything else is refused."""

import json
import shutil
import sys
import time
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
import yaml
from safetensors.numpy import load, save
from tiny_sets import random_tree, tiny_option_set

import cooptions as co
from cooptions.envs.grid import Grid
from cooptions.errors import ArtifactError, ConfigError
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.ppo import PpoConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.handmade import handmade_options
from cooptions.options.sharing.sealed import format_manifest
from cooptions.options.sharing.storage import OPTION_SETS, option_set_files
from cooptions.runs.episodes import episode_captions
from cooptions.runs.team import LearnedTeam
from cooptions.runs.team_storage import FORMAT
from cooptions.scores.statistics import Scores

NAME = "hf://someone/team"
SCENARIO = "grid-5x5-2p,task=meet"
MADE = {"command": "cooptions train quick", "versions": {"jax": "1"}, "commit": "abc"}
PPO = PpoConfig(steps=640, num_envs=4, rollout=10, minibatches=2, network=NetworkConfig(hidden=(8,)))
IQL = QConfig(steps=640, num_envs=4, capacity=100, batch=4, network=NetworkConfig(hidden=(8,)))


def untrained(task, config, scenario=""):
    """A team of random weights and scores."""
    learner = config.build()
    like = learner.policy(jax.eval_shape(lambda key: learner.init(task, key=key), jax.random.key(0)))
    values = np.random.default_rng(1).random((1, 3, 5, 2)).astype(np.float32)
    steps = np.array([200, 400, 640])
    scores = tuple(Scores("ppo+hit", "Grid", name, steps, values[..., i]) for i, name in enumerate(("met", "return")))
    return LearnedTeam(task, config, random_tree(like), scores, scenario, MADE)


@pytest.fixture(scope="module")
def env():
    return co.make_env(SCENARIO)


@pytest.fixture(scope="module")
def teams(env):
    """Teams by the options they use."""
    return {
        "none": untrained(env, IQL, SCENARIO),
        "set": untrained(co.MacroEnv(env, tiny_option_set(env)), PPO, SCENARIO),
        "handmade": untrained(co.MacroEnv(env, handmade_options(env).first(3), keep="majority"), PPO, SCENARIO),
        "given": untrained(co.MacroEnv(env, handmade_options(env, ("spread", "gather"))), PPO),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory, teams):
    path = tmp_path_factory.mktemp("teams") / "tiny"
    teams["set"].save(path)
    return path


@pytest.fixture
def copy(saved, tmp_path):
    """A copy to damage."""
    return shutil.copytree(saved, tmp_path / "copy")


def assert_same(one, other):
    assert eqx.tree_equal(one.policy, other.policy)
    assert eqx.tree_equal(one.env, other.env)
    assert (one.config, one.scenario, one.made_by) == (other.config, other.scenario, other.made_by)
    for mine, theirs in zip(one.scores, other.scores, strict=True):
        assert (mine.name, mine.scenario, mine.metric) == (theirs.name, theirs.scenario, theirs.metric)
        np.testing.assert_array_equal(mine.steps, theirs.steps)
        np.testing.assert_array_equal(mine.values, theirs.values)


def files_of(path):
    return {str(file.relative_to(path)): file for file in sorted(path.rglob("*")) if file.is_file()}


def reseal(path):
    """Write a manifest that matches the directory, like an attacker."""
    contents = {name: file.read_bytes() for name, file in files_of(path).items() if name != "manifest.json"}
    (path / "manifest.json").write_bytes(format_manifest(contents, FORMAT))


def refused(path, env=None, **settings):
    """The one-line error with which a team is refused within a second."""
    begun = time.process_time()
    with pytest.raises(ArtifactError) as caught:
        co.load_team(path, env, **settings)
    assert time.process_time() - begun < 1
    message = str(caught.value)
    assert message.isprintable()
    assert str(path) in message
    return message


@pytest.mark.parametrize("kind", ["none", "set", "handmade"])
def test_round_trip(kind, teams, env, tmp_path):
    teams[kind].save(tmp_path / "team")
    assert_same(co.load_team(tmp_path / "team"), teams[kind])  # its environment is made again
    assert_same(co.load_team(tmp_path / "team", env), teams[kind])
    assert_same(co.load_team(str(tmp_path / "team"), teams[kind].env), teams[kind])
    assert [path.name for path in tmp_path.iterdir()] == ["team"]


def test_options_of_ones_own_are_given_with_the_task(teams, env, tmp_path):
    teams["given"].save(tmp_path / "team")
    assert_same(co.load_team(tmp_path / "team", teams["given"].env), teams["given"])
    assert "the folder does not say how its task is made: give it as env" in refused(tmp_path / "team")
    assert "give the task with its options as env" in refused(tmp_path / "team", env)


def test_a_team_with_options_of_sub_teams_is_kept_and_told_step_by_step(env, tmp_path):
    """Its options are given with the task. Of each step it is told which option led which agent."""
    task = co.MacroEnv(co.make_env("grid-5x5-4p,task=meet,time_limit=12"), handmade_options(env, ("gather", "spread")))
    team = untrained(task, replace(IQL, choice=ChoiceConfig(valued=True, evaluated=True)))
    team.save(tmp_path / "team")
    assert_same(co.load_team(tmp_path / "team", task), team)
    pairs = np.zeros(task.num_actions, bool)
    pairs[[task.action_names.index(f"option gather of {pair}") for pair in ("1,2", "3,4")]] = True
    liked = jax.tree.map(lambda leaf: 0.0 * leaf, team.policy)
    liked = eqx.tree_at(lambda n: n.head.biases[-1], liked, np.tile(pairs.astype(np.float32), (4, 1)))
    episode = replace(team, policy=liked).play()
    assert episode.options[0] == ("gather of 1,2", "gather of 1,2", "gather of 3,4", "gather of 3,4")
    assert episode_captions(episode)[1].startswith(
        f"step 1/{len(episode.rewards)}   gather of 1,2, gather of 3,4   rew"
    )


def test_a_team_without_a_scenario_is_given_its_environment(teams, env, tmp_path):
    team = replace(teams["set"], scenario="")
    team.save(tmp_path / "one")
    assert_same(co.load_team(tmp_path / "one", env), team)
    assert "give it as env" in refused(tmp_path / "one")
    team.save(tmp_path / "two", scenario=SCENARIO)
    assert_same(co.load_team(tmp_path / "two"), teams["set"])
    with pytest.raises(ArtifactError, match="made for another environment: task is"):
        team.save(tmp_path / "three", scenario="grid-5x5-2p")


def test_the_folder_has_exactly_these_files(saved):
    assert set(files_of(saved)) == {
        *("README.md", "manifest.json", "policy.safetensors", "scores.safetensors", "team.json"),
        *("options/option_set.json", "options/policies.safetensors"),
    }


def test_the_options_of_a_team_are_a_normal_set(saved, teams, env, tmp_path):
    """They can be used with another learner."""
    assert eqx.tree_equal(co.load_team(saved).env.options, teams["set"].env.options)


def test_the_card_is_complete(saved, teams):
    _, head, page = (saved / "README.md").read_text().split("---\n", 2)
    told = yaml.safe_load(head)
    assert (told["library_name"], told["license"]) == ("cooptions", "mit")
    assert {"multi-agent-reinforcement-learning", "team", "grid-5x5-2p", "arxiv:2512.24827"} <= set(told["tags"])
    score = teams["set"].scores[0].values[0, -1]
    assert f"| met | {score.mean():.3f} [" in page
    for text in (
        *("# A team for grid-5x5-2p,task=meet", "| 5 | 640 |", "`+e1`, `-e1`, `+e2`, `-e2`", "They are in `options/`."),
        *("| PpoConfig | value |", "| rollout | `10` |", "`cooptions train quick`", "arXiv:2512.24827"),
    ):
        assert text in page
    (code,) = page.split("```python\n")[1:]
    assert code.startswith('import cooptions as co\n\nteam = co.load_team("path/to/this/directory")\n')


def test_cards_of_other_teams_say_what_is_missing(teams, tmp_path):
    teams["given"].save(tmp_path / "given")
    page = (tmp_path / "given" / "README.md").read_text()
    assert "They are not in this folder." in page
    assert "from cooptions.envs.grid import Grid\n\nenv = Grid(height=5" in page
    assert 'env = co.MacroEnv(env, ...)  # with the options below\nteam = co.load_team("path/' in page
    teams["none"].save(tmp_path / "none")
    assert "None: the agents learned with their own actions alone." in (tmp_path / "none" / "README.md").read_text()
    teams["handmade"].save(tmp_path / "handmade", license="apache-2.0")
    page = (tmp_path / "handmade" / "README.md").read_text()
    assert "Their source is `handmade`." in page
    assert "license: apache-2.0\n" in page


def test_downloads_equal_uploads_bit_by_bit(hub, teams, env):
    pushed = teams["set"].push(NAME, private=True)
    repository = hub.repositories["someone/team"]
    assert pushed == f"{NAME}@{repository.head}"
    assert repository.private
    assert_same(co.load_team(NAME), teams["set"])
    assert_same(co.load_team(pushed, env), teams["set"])
    assert f'co.load_team("{NAME}")' in repository.files["README.md"].decode()
    with pytest.raises(ArtifactError, match='holds "cooptions team 1", not a cooptions option set; push to another'):
        OPTION_SETS.push(NAME, option_set_files(teams["set"].env.options, env, (), provenance={}))
    with pytest.raises(ArtifactError, match=f"{NAME}/manifest.json: its format is"):
        co.load_options(NAME, env)


def test_every_flipped_bit_of_a_download_is_refused(hub, teams, env):
    teams["set"].push(NAME)
    repository = hub.repositories["someone/team"]
    rng = np.random.default_rng(0)
    names = [name for name in repository.files if name != ".gitattributes"]
    sizes = np.array([len(repository.files[name]) for name in names])
    chosen = [*range(len(names)), *rng.choice(len(names), 100 - len(names), p=sizes / sizes.sum())]
    whole, num_refused = dict(repository.files), 0
    for index in chosen:
        name, bit = names[index], rng.integers(0, 8 * sizes[index])
        flipped = bytearray(whole[name])
        flipped[bit // 8] ^= 1 << (bit % 8)
        repository.files[name] = bytes(flipped)
        with pytest.raises(ArtifactError, match=NAME):
            co.load_team(NAME, env)
        num_refused += 1
        repository.files[name] = whole[name]
    assert num_refused == 100
    assert_same(co.load_team(NAME), teams["set"])


def told(*path, value):
    """A description with a changed value and a matching manifest."""

    def damage(folder):
        file = folder / "team.json"
        whole = json.loads(file.read_text())
        place = whole
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        file.write_text(json.dumps(whole))

    return damage


def weights(file, change):
    """A file with changed arrays."""

    def damage(folder):
        arrays = {name: array.copy() for name, array in load((folder / file).read_bytes()).items()}
        change(arrays)
        (folder / file).write_bytes(save(arrays))

    return damage


def first(change):
    """Changes the first array of a file."""

    def damage(arrays):
        name = sorted(arrays)[0]
        arrays[name] = change(arrays[name])

    return damage


def spoilt(array):
    array.flat[0] = np.nan
    return array


def removed(name):
    return lambda folder: (folder / name).unlink()


def written(name, content):
    def damage(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return damage


HOSTILE = {
    "a scenario that is code": (told("scenario", value="os:system"), 'scenario is "os:system", code from outside'),
    "a scenario of the hub": (told("scenario", value="hf://a/b"), "code from outside"),
    "an unknown scenario": (told("scenario", value="gird-5x5-2p"), "scenario: scenario: unknown"),
    "a scenario with a wrong field": (told("scenario", value="grid-5x5-2p,tusk=meet"), "scenario: "),
    "another scenario": (told("scenario", value="grid-5x6-2p"), "made for another environment"),
    "a scenario that reads a device": (told("scenario", value="grid-5x5-2p,map=/dev/zero"), "is not a file"),
    "a learner that is code": (told("learner", "type", value="os:system"), "is code from outside"),
    "an unknown learner": (told("learner", "type", value="Best"), "unknown type 'Best'"),
    "a learner without a field": (told("learner", value={"type": "PpoConfig"}), "is missing"),
    "a learner with a field more": (told("learner", "more", value=1), "learner.more is no field"),
    "a learner of text": (told("learner", "rollout", value="10"), "learner.rollout must be a int"),
    "a learner that is out of range": (told("learner", "discount", value=2.0), "discount must"),
    "a million layers": (told("learner", "network", "hidden", value=[1] * 10**4), "at most 16 layers"),
    "layers of absurd width": (told("learner", "network", "hidden", value=[10**9]), "must be at most 65536"),
    "layers of another width": (told("learner", "network", "hidden", value=[9]), "for this learner and task"),
    "absurdly many environments": (told("learner", "num_envs", value=10**30), "num_envs must be at most"),
    "options of another source": (told("options", "source", value="handmade"), "no file of a team"),
    "no options": (told("options", value=None), "no file of a team"),
    "options that are text": (told("options", value="handmade"), "options must have the fields"),
    "unknown rules": (told("options", "keep", value="never"), "options.keep must be one of"),
    "unknown votes": (told("options", "start", value="never"), "options.start must be one of"),
    "a fingerprint of another": (told("environment", "num_agents", value=3), "num_agents is 3 there, 2 here"),
    "no fingerprint": (told("environment", value={}), "made for another environment"),
    "a fingerprint that nests": (written("team.json", b'{"a":' * 20 + b"1" + b"}" * 20), "nests deeper than 16"),
    "no metrics": (told("metrics", value=[]), "metrics must not be empty"),
    "a metric less": (told("metrics", value=["met"]), "scores.safetensors: values is F32"),
    "no evaluations": (told("evaluations", value=0), "evaluations and episodes must be at least 1"),
    "absurdly many episodes": (told("episodes", value=10**15), "scores.safetensors: values is F32"),
    "a name with control characters": (told("name", value="\x1b[2J"), "name must be a str"),
    "a field more": (told("more", value=1), "description must have the fields"),
    "absurd size": (written("team.json", b" " * (1 << 22)), "more than the 2097152"),
    "HTML": (written("team.json", b"<html>"), "not JSON"),
    "a policy that is not finite": (weights("policy.safetensors", first(spoilt)), "is not finite"),
    "a policy of double precision": (weights("policy.safetensors", first(np.float64)), "is F64"),
    "a policy of another shape": (weights("policy.safetensors", first(lambda array: array[:1])), "expected F32"),
    "a policy with less": (weights("policy.safetensors", lambda arrays: arrays.pop(sorted(arrays)[0])), "is missing"),
    "a policy with more": (weights("policy.safetensors", lambda a: a.update(x=np.zeros(1))), '"x" is not of this'),
    "no safetensors": (written("policy.safetensors", b"\x80\x04cos\nsystem\n"), "not a safetensors file"),
    "scores of other steps": (
        weights("scores.safetensors", lambda a: a["steps"].fill(0)),
        "steps of ppo+hit must rise",
    ),
    "options that are not finite": (weights("options/policies.safetensors", first(spoilt)), "is not finite"),
    "options that are missing": (removed("options/policies.safetensors"), "options/policies.safetensors: missing"),
    "no description": (removed("team.json"), ""),
    "no policy": (removed("policy.safetensors"), "no policy.safetensors: not a team"),
    "no scores": (removed("scores.safetensors"), "no scores.safetensors: not a team"),
    "no card": (removed("README.md"), "no README.md: not a team"),
    "a file more": (written("policy.pickle", b"x"), "policy.pickle: no file of a team"),
    "a card of options": (written("options/README.md", b"x"), "options/README.md: no file of a team"),
    "a folder more": (written("cards/a.png", b"x"), "cards/a.png: no file of a team"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_teams_are_refused_in_a_second_with_the_reason(name, copy):
    damage, reason = HOSTILE[name]
    damage(copy)
    reseal(copy)
    assert reason in refused(copy)


def test_the_undamaged_case_is_accepted(copy, teams):
    """Otherwise a check that refuses everything would pass."""
    told("provenance", value=MADE)(copy)
    for file in ("policy.safetensors", "scores.safetensors", "options/policies.safetensors"):
        weights(file, lambda arrays: None)(copy)
    reseal(copy)
    assert_same(co.load_team(copy), teams["set"])


OUTSIDE = """
from dataclasses import dataclass
from cooptions.envs.grid import Grid
from cooptions.learners.q_learning import QConfig

print("imported")

def env():
    return Grid(4, 4, 2)

@dataclass(frozen=True)
class MyLearner(QConfig):
    pass
"""


@pytest.mark.parametrize("what", ["scenario", "learner"])
def test_code_from_outside_is_imported_only_if_it_is_trusted(what, tmp_path, monkeypatch, capsys):
    (tmp_path / "theirs.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    import theirs  # pyright: ignore[reportMissingImports]

    config = IQL if what == "scenario" else theirs.MyLearner(**vars(IQL))
    team = untrained(Grid(4, 4, 2), config, "theirs:env" if what == "scenario" else "grid-4x4-2p")
    team.save(tmp_path / "team")
    monkeypatch.delitem(sys.modules, "theirs")
    capsys.readouterr()
    assert "code from outside, which a file cannot ask to run" in refused(tmp_path / "team")
    assert "theirs" not in sys.modules
    assert capsys.readouterr().out == ""
    assert co.load_team(tmp_path / "team", trust=True).scores[0].metric == "met"
    assert capsys.readouterr().out == "imported\n"


def test_a_team_that_diverged_is_not_saved(teams, tmp_path):
    broken = jax.tree.map(lambda leaf: leaf / 0, teams["none"].policy)
    with pytest.raises(ArtifactError, match="is not finite: training diverged"):
        replace(teams["none"], policy=broken).save(tmp_path / "team")
    assert list(tmp_path.iterdir()) == []


def test_scores_may_be_missing(teams, tmp_path):
    """The scores of an evaluation are NaN if the team had diverged then."""
    first, *rest = teams["none"].scores
    values = first.values.copy()
    values[0, 0] = np.nan
    team = replace(teams["none"], scores=(replace(first, values=values), *rest))
    team.save(tmp_path / "team")
    assert_same(co.load_team(tmp_path / "team"), team)


def test_another_team_replaces_nothing_without_overwrite(copy, teams):
    teams["set"].save(copy)  # the same team updates it
    with pytest.raises(ArtifactError, match="holds another team; save elsewhere, or pass overwrite=True"):
        teams["none"].save(copy)
    teams["none"].save(copy, overwrite=True)
    assert_same(co.load_team(copy), teams["none"])
    (copy / "thesis.tex").write_text("years of work")
    with pytest.raises(ArtifactError, match='not overwritten: "thesis.tex" is no file of a team'):
        teams["none"].save(copy, overwrite=True)


def test_a_folder_without_a_team_is_refused(tmp_path, env):
    assert "no directory of a team or of a run" in refused(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="a name on the hub is hf://owner/name"):
        co.load_team("hf://nobody", env)
    assert "cannot be reached" in refused(NAME)
