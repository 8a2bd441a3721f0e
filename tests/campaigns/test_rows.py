"""Rows: every one is what its command makes."""

import shlex
from functools import lru_cache
from pathlib import Path

import pytest

from cooptions.campaigns.figures import REPRODUCTIONS
from cooptions.campaigns.rows import Block, Row, blocks
from cooptions.cli import commands
from cooptions.cli.main import main
from cooptions.errors import ConfigError
from cooptions.runs import config
from cooptions.runs.directory import open_run
from cooptions.runs.stages import stage_configs

ROWS = list(dict.fromkeys(row for figure in REPRODUCTIONS.values() for row in figure.rows))
KINDS = list({("+" in row.method, row.until, row.num_options > 0, row.basis): row for row in ROWS}.values())
"""One row of each kind of command."""
OVERCOOKED = Row("overcooked-forced_coord", "iql+iaro")


@pytest.fixture
def typed(monkeypatch):
    """What commands would run, if they did: configuration, run directory and last stage."""
    seen = []
    monkeypatch.setattr(config, "make_env", lru_cache(config.make_env))  # most of the time is spent there
    monkeypatch.setattr(
        commands, "run_pipeline", lambda made, out, console, until, track="none": seen.append((made, out, until))
    )

    def run(command):
        name, *arguments = shlex.split(command)
        assert name == "cooptions"
        main(arguments)
        return seen.pop()

    return run


@pytest.mark.parametrize("rows", [KINDS, pytest.param(ROWS, marks=pytest.mark.slow)], ids=["kinds", "all"])
def test_every_row_of_every_figure_is_what_its_command_makes(typed, rows):
    assert len(ROWS) > 50
    for row in rows:
        block = Block(row, 5, 5)
        made, out, until = typed(block.commands(Path("runs/here"))[0])
        assert out == Path("runs/here") / block.place
        if row.learns:
            assert (made, until) == (block.config, "learning")
        else:
            assert stage_configs(made, until).items() <= block.stages.items()


def test_rows_of_options_take_a_second_command(typed, tmp_path):
    block = Block(Row("grid-10x10-2p,types=12", "iaro", until="options", basis="axes"), 0, 1)
    discover, options = block.commands(tmp_path)
    made, out, _ = typed(discover)
    with open_run(out, stage_configs(made, "spectrum")):
        pass
    made, out, until = typed(options)
    assert (stage_configs(made, until), out) == (block.stages, tmp_path / block.place)


@pytest.mark.parametrize("row", [OVERCOOKED, Row("lbf-15x15-4p-5f", "iql+hit", 6)])
def test_shorter_rows_are_what_their_commands_make(typed, row):
    block = Block(row, 0, 5, fraction=0.1)
    made, out, _ = typed(block.commands()[0])
    assert made == block.config
    assert out.name == "seeds-0-4-fraction-0.1"
    whole = Block(row, 0, 5).config
    assert made.learning.learner.steps == whole.learning.learner.steps // 10
    assert made.env.shaping_horizon == whole.env.shaping_horizon // 10
    assert (made.walk, made.options) == (whole.walk, whole.options)


def test_numbers_of_options_reach_the_task():
    assert Block(Row("lbf-15x15-4p-5f", "iql+iaro", 6), 0, 5).config.learning.macro.num_options == 6
    assert Block(Row("lbf-15x15-4p-5f", "iql+iaro"), 0, 5).config.learning.macro.num_options == 0


def test_places_differ_where_runs_do():
    every = [block.place for row in ROWS for block in blocks(row, 10, 5, 0.5)]
    every += [Block(row, 0, 5).place for row in ROWS if row.learns]
    assert len(every) == len(set(every))


def test_seeds_come_in_blocks_and_rows_without_learning_have_no_fraction():
    assert [list(block.seeds) for block in blocks(Row("quick", "iql"), 5, 2, 0.5)] == [[0, 1], [2, 3], [4]]
    assert {block.fraction for block in blocks(Row("quick", "iql"), 5, 2, 0.5)} == {0.5}
    assert blocks(Row("grid-15x15-3p", "hit", until="spectrum"), 1, 5, 0.5)[0].fraction == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Row("quick", "hit"), "method: unknown 'hit'; there are iql"),
        (lambda: Row("quick", "iql", until="end"), "until must be one of walk"),
        (lambda: Block(Row("quick", "iql"), 0, 1, fraction=0.0), "fraction must lie in"),
        (lambda: Block(Row("grid-3x3-2p", "iql", 2), 0, 1).config, "iql has no options to take 2 of"),
        (lambda: blocks(Row("quick", "iql"), 0, 5, 1.0), "seeds must be at least 1"),
        (lambda: blocks(Row("quick", "iql"), 5, 0, 1.0), "block must be at least 1"),
    ],
)
def test_wrong_rows_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_how_options_are_chosen_matters_only_where_there_are_any():
    plain, with_options = (Block(Row("lbf-15x15-4p-3f", method), 0, 1).settings for method in ("iql", "iql+handmade"))
    assert "choice" not in plain["learning"]["learner"]
    assert with_options["learning"]["learner"]["choice"]["merit_share"] == 0.8
