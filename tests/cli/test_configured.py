"""Configurations from command lines, by the function `asked_for` that all pipeline commands use."""

from dataclasses import replace

import pytest

from cooptions.cli.configured import FORMS, every_field
from cooptions.cli.early import SHORT, RunArguments, divide_early
from cooptions.cli.pipeline import asked_for
from cooptions.discovery.laplacian.exact import Exact
from cooptions.discovery.representations.mask import Mask
from cooptions.errors import ConfigError
from cooptions.files import encode
from cooptions.options.train import RECIPES
from cooptions.runs.overrides import fields_of
from cooptions.runs.presets import LEARNING_SWAPS, PRESETS
from cooptions.runs.recipe import write_recipe

QUICK = PRESETS["quick"]


def config_of(*words, command="train"):
    return asked_for(command, RunArguments, *divide_early(command, RunArguments, words))


@pytest.mark.parametrize("joined", [False, True], ids=["--flag value", "--flag=value"])
def test_parts_are_swapped_by_name(joined):
    given = {"method": "vdn+mask", "representation": "mask", "laplacian": "exact", "options": "paper"}
    words = [f"--{name}={value}" for name, value in given.items()]
    if not joined:
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
    config = config_of("quick", *words)
    assert config.learning.learner.mixer == "sum"
    assert isinstance(config.representation, Mask)
    assert isinstance(config.laplacian, Exact)
    assert config.options == RECIPES["paper"][0]


@pytest.mark.parametrize("number", ["100000", "100_000", "1e5", "1.0e5"])
def test_numbers_of_steps_may_have_exponents_and_underscores(number):
    assert config_of("quick", "--steps", number).learning.learner.steps == 100_000
    assert config_of("quick", f"--learning.learner.steps={number}") == config_of("quick", "--steps", number)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--learning.learner.anneal"], True),
        (["--no-learning.learner.anneal"], False),
        (["--learning.learner.no-anneal"], False),
        (["--learning.learner.anneal=false"], False),
        (["--learning.learner.anneal", "false"], False),
    ],
)
def test_bool_flags_need_no_value(words, wanted):
    assert config_of("quick", *words).learning.learner.anneal is wanted


def test_flags_of_a_part_follow_its_name():
    assert config_of("quick", "--laplacian", "exact", "--laplacian.max-values", "7").laplacian.max_values == 7
    with pytest.raises(ConfigError, match="unknown flag --laplacian.max-values"):
        config_of("quick", "--laplacian.max-values", "7")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning.leaner.steps", "3"], "did you mean --learning.learner.steps"),
        (["--steps", "1e-3"], "learning.learner.steps must be a whole number"),
        (["--steps"], "--steps needs a value"),
        (["--steps", "3", "4"], "--steps takes one value, not '3 4'"),
        (["--method", "iql+hti"], "method: unknown 'iql\\+hti'"),
        (["--learning.macro.keep", "some"], "learning.macro.keep must be one of none, majority, all"),
        (["--learning.macro.start", "some"], "learning.macro.start must be one of threshold, majority, all"),
        (["--learning.macro", "3"], "unknown flag --learning.macro"),
    ],
)
def test_invalid_flags_are_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        config_of("quick", *words)


def test_a_configuration_file_reproduces_the_configuration(tmp_path):
    config = config_of(
        "grid-5x5-2p", "--method", "mappo+mask", "--laplacian", "exact", "--walk.features", "x", "--seeds", "3"
    )
    write_recipe(tmp_path, config, "train")
    assert config_of("--config", str(tmp_path / "run.yaml")) == config
    again = config_of("--config", str(tmp_path / "run.yaml"), "--seeds", "5", "--method", "iql")
    assert (again.seeds, again.learning.name) == (5, "iql")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_written_and_read(name, tmp_path):
    write_recipe(tmp_path, PRESETS[name], "run")
    assert config_of("--config", str(tmp_path / "run.yaml")) == PRESETS[name]


PARTIAL = """
preset: quick
seeds: 2
method: vdn+mask
laplacian: exact
walk: {transitions: 1e3}
learning.learner.steps: 1e5
learning:
  learner: {learning_rate: 1e-3}
"""


def test_a_file_may_set_only_some_fields(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(PARTIAL)
    config = config_of("--config", str(file))
    wanted = config_of(
        *("quick", "--seeds", "2", "--method", "vdn+mask", "--laplacian", "exact", "--walk.transitions", "1000"),
        *("--steps", "100000", "--learning.learner.learning-rate", "0.001"),
    )
    assert config == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset: quick\nsedes: 3", "sedes: no such field; did you mean seed"),
        ("preset: quick\nlearning: {learner: {leaning_rate: 1}}", "did you mean learning.learner.learning_rate"),
        ("preset: quick\nseeds: many", "seeds must be a whole number, not 'many'"),
        ("preset: quick\nwalk: 3", "walk has fields of its own"),
        ("preset: quick\nwalk.transitions: 100\nwalk: {transitions: 200}", "transitions is given twice"),
        ("preset: quick\nseeds: 1\nseeds: 2", "seeds is given twice"),
        ("seeds: 3", "names no scenario"),
        ("preset: [quick", "not YAML"),
        ("- 3", "must hold fields"),
        ("", "must hold fields"),
        ("!!map quick", "not YAML"),
        ("preset: !!int quick", "not YAML"),
        ("preset: !!bool quick", "not YAML"),
        ("preset: 2020-13-45", "not YAML"),
        ("preset: &a [*a]", "an alias stands within what it stands for"),
        ("walk: &a {transitions: *a}", "an alias stands within what it stands for"),
        (
            "\n".join(["a0: &a0 {b: 1}", *(f"a{n}: &a{n} {{b: *a{n - 1}, c: *a{n - 1}}}" for n in range(1, 40))]),
            "aliases",
        ),
        ("a: " + "[" * 5000, "not YAML"),
        ("[" + "a," * 30_000 + "]", "more than 20000 values"),
        ("scenario: evil:env", "say --trust"),
        ("preset: quick\nrepresentation: evil:Part", "say --trust"),
        ("preset: quick\nrepresentation: {type: evil:Part}", "evil:Part"),
        ("preset: quick\nlearning: {macro: {option_set: 'evil:options'}}", "say --trust"),
        ("preset: quick\nmethod: iql+evil:options", "say --trust"),
        ("scenario: grid-5x5-2p", "is of scenario 'grid-5x5-2p', not 'lbf-8x8-2p-2f'"),
    ],
)
def test_an_invalid_file_is_refused_by_name(text, message, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    words = ["quick"] if "is of scenario" in message else []
    with pytest.raises(ConfigError, match=message) as error:
        config_of(*words, "--config", str(file))
    assert "mine.yaml" in str(error.value)


def test_a_part_from_outside_is_named_on_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "parts_of_mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from cooptions.discovery.representations.hit import Hit\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Hit):\n"
        "    twist: int = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    config = config_of("quick", "--representation", "parts_of_mine:Mine", "--representation.twist", "4")
    assert config.representation.twist == 4
    write_recipe(tmp_path, config, "train")
    with pytest.raises(ConfigError, match="parts_of_mine:Mine"):
        config_of("--config", "run.yaml")
    assert encode(config_of("--config", "run.yaml", "--trust")) == encode(config)


def test_flags_that_are_refused_early_are_those_there_are():
    undotted = {each.path for each in fields_of(QUICK) if "." not in each.path}
    assert set(SHORT) == undotted | set(LEARNING_SWAPS) | {"steps"}


def test_every_field_of_every_part_is_known():
    assert {"representation.steps", "laplacian.max_values", "learning.learner.clip"} <= every_field()


def test_help_shows_a_dozen_flags_first(printed):
    first = [line for line in printed("train", "quick", "--help").splitlines() if line.startswith("  --")]
    every = [line for line in printed("train", "quick", "--help-all").splitlines() if line.startswith("  --")]
    assert len(first) <= 13
    fields = FORMS["train"].fields(QUICK)
    assert len(every) == len(first) - 1 + len(fields) - len(["steps", "seed", "seeds"])
    assert {f"  --{name}" for name in ("method", "representation", "laplacian", "options", "steps")} <= {
        " ".join(line.split(" ")[:3]) for line in first
    }


def test_help_has_the_flags_of_the_command_alone(printed):
    walk, train = printed("walk", "quick", "--help-all"), printed("train", "quick", "--help-all", "--method", "iql")
    assert "--walk.transitions" in walk
    assert "--learning" not in walk
    assert "--learning.learner.steps" not in train  # it is there as --steps
    assert "--learning.learner.batch" in train
    assert "--walk.transitions" not in train  # learning without options needs no walk


def test_help_names_the_parts_that_can_be_swapped(printed):
    for command, lines in {
        "discover": ["raw_joint, scalar", "allo, exact, kronecker, nystrom", "iaro, iaro-scalar"],
        "train": ["ours, paper", "iql, vdn,", "; each alone or with +iaro, "],
    }.items():
        shown = " ".join(printed(command, "--help").split())
        assert all(line in shown for line in lines), shown


def test_help_shows_the_parts_that_were_swapped(printed):
    assert "--learning.learner.clip" in printed("train", "quick", "--method", "mappo", "--help-all")


def test_unused_flags_are_refused():
    with pytest.raises(ConfigError, match="nothing here uses the flags of options"):
        config_of("quick", "--options.epsilon", "0.1", command="walk")
    with pytest.raises(ConfigError, match="nothing here uses the flags of walk"):
        config_of("quick", "--method", "iql", "--walk.transitions", "100")


def test_a_file_may_say_more_than_a_command_uses(tmp_path):
    write_recipe(tmp_path, replace(QUICK, seeds=2), "run")
    assert config_of("--config", str(tmp_path / "run.yaml"), command="walk").seeds == 2
