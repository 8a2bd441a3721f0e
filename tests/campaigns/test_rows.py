"""Every row has the configuration of its command."""

import pickle
import shlex
from functools import lru_cache
from pathlib import Path

import pytest

from cooptions.campaigns.rows import Block, Row, Seeding
from cooptions.cli import filling
from cooptions.cli.configured import FORMS
from cooptions.cli.main import main
from cooptions.errors import ConfigError
from cooptions.runs import config
from cooptions.runs.directory import open_run
from cooptions.runs.stages import stage_configs

OVERCOOKED = Row("overcooked-forced_coord", "iql+iaro")
SET = (
    ("learning.learner.target_interval", 100),
    ("learning.learner.double", False),
    ("learning.learner.network.hidden", (8, 9)),
    ("learning.learner.choice.valued", True),
    ("walk.num_envs", 10),
)
ROWS = [
    Row("grid-5x5-2p", "iql"),
    Row("grid-5x5-2p", "ippo"),
    Row("grid-5x5-2p", "iql+hit", 6),
    Row("grid-5x5-2p", "iql+hit", overrides=SET, variant="other"),
    Row("grid-5x5-2p", "iql+wander"),
    Row("quick", "vdn+kron"),
    Row("grid-5x5-2p", "hit", until="walk"),
    Row("grid-5x5-2p", "iaro", until="spectrum", overrides=(("basis", "axes"),)),
]


@pytest.fixture
def typed(monkeypatch):
    """What commands would run: configuration, run directory and last stage."""
    seen = []
    monkeypatch.setattr(config, "make_env", lru_cache(config.make_env))  # most of the time is spent there

    def fill(command, made, out, **options):
        seen.append((made, out, FORMS[command].stage))

    monkeypatch.setattr(filling, "fill", fill)

    def run(command):
        name, *arguments = shlex.split(command)
        assert name == "cooptions"
        main(arguments)
        return seen.pop()

    return run


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_has_the_configuration_of_its_command(typed, row):
    block = Block(row, 5, 5)
    made, out, until = typed(block.commands(Path("runs/here"))[0])
    assert out == Path("runs/here") / block.place
    if row.learns:
        assert (made, until) == (block.config, "learning")
    else:
        assert stage_configs(made, until).items() <= block.stages.items()


def test_rows_of_options_take_a_second_command(typed, tmp_path):
    block = Block(Row("grid-10x10-2p,types=12", "iaro", until="options", overrides=(("basis", "axes"),)), 0, 1)
    discover, options = block.commands(tmp_path)
    made, out, _ = typed(discover)
    with open_run(out, stage_configs(made, "spectrum")):
        pass
    made, out, until = typed(options)
    assert (stage_configs(made, until), out) == (block.stages, tmp_path / block.place)


@pytest.mark.parametrize("row", [OVERCOOKED, Row("lbf-15x15-4p-5f", "iql+hit", 6)], ids=str)
def test_shorter_rows_have_the_configuration_of_their_commands(typed, row):
    block = Block(row, 0, 5, fraction=0.1)
    made, out, _ = typed(block.commands()[0])
    assert made == block.config
    assert out.name == "seeds-0-4-fraction-0.1"
    whole = Block(row, 0, 5).config
    assert made.learning.learner.steps == whole.learning.learner.steps // 10
    assert made.env.shaping_horizon == whole.env.shaping_horizon // 10
    assert (made.walk, made.options) == (whole.walk, whole.options)


def test_places_differ_where_runs_do():
    every = [block.place for row in ROWS for block in Seeding(range(10)).blocks(row, 0.5)]
    every += [Block(row, 0, 5).place for row in ROWS if row.learns]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(("asked", "made"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_discoveries_of_a_block_are_at_most_its_seeds(asked, made):
    (block,) = Seeding(range(3), 3, asked).blocks(Row("quick", "iql+hit"), 1.0)
    assert block.config.learning.macro.discoveries == made


def test_seeds_come_in_blocks_and_rows_without_learning_have_no_fraction():
    blocks = Seeding(range(3, 8), 2).blocks(Row("quick", "iql"), 0.5)
    assert [list(block.seeds) for block in blocks] == [[3, 4], [5, 6], [7]]
    assert {block.fraction for block in blocks} == {0.5}
    assert Seeding(range(1)).blocks(ROWS[-1], 0.5)[0].fraction == 1
    assert Seeding(range(5)).widened(Seeding(range(3, 9))).seeds == range(9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Row("quick", "hit").config, "method: unknown 'hit'; did you mean"),
        (lambda: Row("quick", "iql", until="end"), "until must be one of walk"),
        (lambda: Block(Row("quick", "iql"), 0, 1, fraction=0.0), "fraction must lie in"),
        (lambda: Block(Row("grid-3x3-2p", "iql", 2), 0, 1).config, "iql has no options to take 2 of"),
        (lambda: Seeding(range(0)), "seeds must be at least 1"),
        (lambda: Seeding(range(5), 0), "block must be at least 1"),
    ],
)
def test_wrong_rows_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_exploration_of_options_matters_only_with_options():
    plain, with_options = (Block(Row("grid-5x5-2p", method), 0, 1).settings for method in ("iql", "iql+handmade"))
    assert "choice" not in plain["learning"]["learner"]
    assert "merit_share" in with_options["learning"]["learner"]["choice"]


def test_only_fields_are_pickled():
    block = Block(Row("grid-5x5-2p", "iql"), 0, 1)
    size = len(pickle.dumps(block))
    assert block.config.env.num_agents == 2
    assert len(pickle.dumps(block)) == size
    assert pickle.loads(pickle.dumps(block)) == block
