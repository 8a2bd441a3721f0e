"""`cooptions push` and `pull`, with a hub on this machine."""

import shutil
import subprocess
import sys

import equinox as eqx
import pytest

import cooptions as co
from cooptions.cli.main import main
from cooptions.options.sharing.storage import load_option_set

SET, TEAM = "hf://someone/options", "hf://someone/team"


@pytest.fixture
def env():
    return co.make_env("grid-5x5-2p")


def test_the_option_set_of_a_run_is_pushed_and_pulled(hub, learned, env, printed, tmp_path):
    told = printed("push", str(learned), SET, "--license", "cc0-1.0")
    repository = hub.repositories["someone/options"]
    assert told == f"pushed: {SET}@{repository.head}\nnext: cooptions pull {SET}\n"
    card = repository.files["README.md"].decode()
    assert "license: cc0-1.0\n" in card
    assert f'co.load_options("{SET}", env)' in card
    out = tmp_path / "mine"
    assert printed("pull", SET, "--out", str(out)) == f"option set: {out} (2 options: +e1, -e1)\n"
    mine = load_option_set(learned / "option_sets" / "seed-0", env)
    assert eqx.tree_equal(load_option_set(out, env), mine)
    assert "license: cc0-1.0" in (out / "README.md").read_text()


def test_the_team_of_a_run_is_pushed_and_pulled(hub, learned, printed, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed("push", str(learned), TEAM, "--team", "--private").startswith(f"pushed: {TEAM}@")
    assert hub.repositories["someone/team"].private
    assert printed("pull", TEAM) == "team: team (iql+hit in grid-5x5-2p)\n"
    mine, again = co.load_team(learned), co.load_team("team")
    assert eqx.tree_equal(again.policy, mine.policy)
    assert eqx.tree_equal(again.env, mine.env)
    assert again.made_by == mine.made_by
    card = (tmp_path / "team" / "README.md").read_text()
    assert again.made_by["command"] in card
    assert "holds another team" not in printed("pull", TEAM)  # the same set updates it
    assert printed("push", "team", "hf://someone/copy").startswith("pushed: hf://someone/copy@")
    assert 'co.load_team("hf://someone/team")' in hub.repositories["someone/copy"].files["README.md"].decode()
    shutil.copytree("team", "spoilt")
    (tmp_path / "spoilt" / "scores.safetensors").write_bytes(b"x")
    assert "scores.safetensors: damaged" in refused("push", "spoilt", "hf://someone/spoilt")
    assert "someone/spoilt" not in hub.repositories


def test_existing_files_are_kept(hub, learned, printed, refused, tmp_path):
    printed("push", str(learned), SET)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    for words in ([], ["--overwrite"]):
        assert "not overwritten" in refused("pull", SET, "--out", str(tmp_path / "mine"), *words)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_wrong_arguments_are_one_line(hub, walked, tmp_path, refused):
    assert "push: the first argument is a run directory" in refused("push")
    assert "push: the second argument is a name on the hub" in refused("push", str(walked))
    assert "a name on the hub is hf://owner/name" in refused("push", str(walked), "someone/options")
    assert "pull: the first argument is a name on the hub" in refused("pull")
    assert "no such repository" in refused("pull", "hf://nobody/nothing")
    assert "`cooptions options " in refused("push", str(walked), SET)
    assert "nothing was learned here" in refused("push", str(walked), TEAM, "--team")
    assert "no run was made here" in refused("push", str(tmp_path), SET)
    assert hub.repositories == {}


@pytest.mark.slow
def test_a_learner_takes_a_set_by_its_name(hub, learned, refused, tmp_path):
    """A run that resumes keeps the set it began with."""
    main(["push", str(learned), SET])
    words = ["train", "grid-5x5-2p,task=meet", "--method", "iql+hit", "--learning.macro.option-set", SET]
    words += ["--steps", "640", "--learning.evaluations", "1", "--learning.episodes", "1", "--out", f"{tmp_path}/r"]
    main(words)
    team = co.load_team(tmp_path / "r")
    assert [option.name for option in team.env.options.options] == ["+e1", "-e1"]
    first = hub.repositories["someone/options"].head
    assert f"option_set: {SET}@{first}" in (tmp_path / "r" / "run.yaml").read_text()
    main(words)  # everything is there
    main(["push", str(learned), SET, "--license", "cc0-1.0"])
    assert f"learning.macro.option_set is '{SET}@{first}' there" in refused(*words)
    main([f"{SET}@{first}" if word == SET else word for word in words])


@pytest.mark.parametrize(
    "words", [["push", "--help"], ["pull", "--help"], ["--help"], ["push", "runs/x", "--sede", "1"]]
)
def test_the_hubs_package_is_imported_only_when_needed(words):
    code = (
        "import sys\nfrom cooptions.cli.main import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        "print('imported:', *{'huggingface_hub', 'jax', 'numpy'} & set(sys.modules), file=sys.__stdout__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"
