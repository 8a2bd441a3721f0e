import dataclasses
from dataclasses import dataclass
from pathlib import Path

import pytest

from cooptions.cli.arguments import POSITIONAL, divide, parse
from cooptions.errors import ConfigError


@dataclass(frozen=True)
class Toy:
    """A toy."""

    runs: tuple[Path, ...] = dataclasses.field(default=(), metadata=POSITIONAL)
    """What to play with."""
    num_steps: int = 5
    """How long."""
    names: tuple[str, ...] = ()
    out: Path | None = None
    json: bool = False
    cache: bool = True


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], Toy()),
        (["a", "b"], Toy(runs=(Path("a"), Path("b")))),
        (["a", "--num-steps", "1e5"], Toy(runs=(Path("a"),), num_steps=100_000)),
        (["--num-steps=1_000", "a"], Toy(runs=(Path("a"),), num_steps=1000)),
        (["--num_steps", "7"], Toy(num_steps=7)),
        (["--names", "+e1", "-e1", "--json"], Toy(names=("+e1", "-e1"), json=True)),
        (["--names", "a", "--names=b"], Toy(names=("a", "b"))),
        (["--out", "[/b]"], Toy(out=Path("[/b]"))),
        (["--no-cache", "--json=false"], Toy(cache=False)),
    ],
)
def test_words_become_fields(words, wanted):
    assert parse(Toy, words, "toy") == wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-step", "3"], "toy: unknown flag --num-step; did you mean --num-steps?"),
        (["--num-steps"], "toy: --num-steps needs a value"),
        (["--num-steps", "1.5"], "num_steps must be a whole number, not '1.5'"),
        (["--json=perhaps"], "json must be true or false"),
    ],
)
def test_invalid_words_are_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        parse(Toy, words, "toy")


def test_one_place_takes_one_word():
    @dataclass(frozen=True)
    class Single:
        run: str = dataclasses.field(default="", metadata=POSITIONAL)

    with pytest.raises(ConfigError, match="toy: nothing takes 'b'"):
        parse(Single, ["a", "b"], "toy")


def test_other_flags_take_all_following_words():
    known, others = divide(Toy, ["a", "--walk.features", "x", "y", "--out", "o"], "toy")
    assert known == Toy(runs=(Path("a"),), out=Path("o"))
    assert [(each.name, each.values, each.typed) for each in others] == [
        ("walk.features", ("x", "y"), "--walk.features")
    ]
