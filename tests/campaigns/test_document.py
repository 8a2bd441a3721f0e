"""YAML with line numbers, and its errors."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooptions.campaigns.document import parse_document, read_document, unknown
from cooptions.errors import ConfigError

LAUGHS = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))])
"""A few hundred bytes that stand for nine to the power of nineteen words."""


def entry(text):
    return parse_document(text.encode("latin-1"), "file.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e5", 100000.0), ("20_000_000", 20_000_000), ("3", 3), ("0.5", 0.5), ("true", True), ("no", False),
        ("word", "word"), ("'3'", "3"), ("[1, 2]", (1, 2)), ("[a, 2.5]", ("a", 2.5)), (".nan", ".nan"),
    ],
)  # fmt: skip
def test_plain_values(text, value):
    found = entry(text).value()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        ("a: 1\nb: 2", lambda e: e.fields(["a", "bc"]), "file.yaml:2: campaign: unknown field 'b'; did you mean bc?"),
        ("a: 1\na: 2", lambda e: e.fields(["a"]), "file.yaml:2: campaign: 'a' stands here twice"),
        ("- a", lambda e: e.entries(), "file.yaml:1: campaign: must be a mapping"),
        ("? [1]\n: 2", lambda e: e.entries(), "file.yaml:1: campaign: a name must be a word"),
        ("x:\n  y: [1, two]", lambda e: e.entries()["x"].entries()["y"].items()[1].integer(),
         "file.yaml:2: x.y: must be a number, not 'two'"),
        ("x: 1.5", lambda e: e.entries()["x"].integer(), "file.yaml:1: x: must be a whole number of at least 0"),
        ("x: 0", lambda e: e.entries()["x"].integer(1), "x: must be a whole number of at least 1, not '0'"),
        ("x: []", lambda e: e.entries()["x"].items(), "x: must not be empty"),
        ("x: {a: 1}", lambda e: e.entries()["x"].items(), "x: must be a list"),
        ("x:", lambda e: e.entries()["x"].text(), "x: must be a word"),
        ("x: [[1]]", lambda e: e.entries()["x"].value(), "x: must be a plain value"),
        ("x: iql+hti", lambda e: e.entries()["x"].chosen(["iql", "iql+hit"]),
         "file.yaml:1: x: unknown 'iql+hti'; did you mean iql+hit?"),
        ("x: [1", lambda e: e, "file.yaml:1: not YAML: expected"),
        ("x: !!python/object:os.system [1]", lambda e: e.entries()["x"].text(), "x: must be a word"),
        ("x: &a [*a]", lambda e: e, "file.yaml:1: not YAML: an alias stands within what it stands for"),
        ("x: &a {y: *a}", lambda e: e, "file.yaml:1: not YAML: an alias stands within what it stands for"),
        (LAUGHS, lambda e: e, "file.yaml:6: not YAML: with its aliases written out it holds more than 20000 values"),
        ("[" + "a," * 30_000 + "]", lambda e: e, "file.yaml:1: not YAML: more than 20000 values"),
        ('"a\\nb": 1', lambda e: e.entries(), "file.yaml:1: campaign: a name must be a word"),
        ('x: "a\\e[31m"', lambda e: e.entries()["x"].text(), "x: must be one line, without control characters"),
        ("x: 1e300", lambda e: e.entries()["x"].integer(), "x: must be at most 9007199254740992, not '1e300'"),
        ("x: \xff", lambda e: e.entries()["x"].text(), "file.yaml: not YAML"),
        ("", lambda e: e, "file.yaml: is empty"),
        ("\x00", lambda e: e, "file.yaml: not YAML"),
        ("[" * 5000, lambda e: e, "file.yaml: not YAML"),
        ("a" * 1_000_001, lambda e: e, "file.yaml: longer than"),
    ],
)  # fmt: skip
def test_errors_name_the_line(text, ask, message):
    with pytest.raises(ConfigError) as refused:
        ask(entry(text))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="none.yaml: cannot be read"):
        read_document(tmp_path / "none.yaml")


def test_special_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(ConfigError, match=f"{name}: not a file"):
            read_document(tmp_path / name)


def test_an_alias_stands_for_its_value():
    assert entry("a: &a [x, y]\nb: *a").entries()["b"].value() == ("x", "y")


def test_without_a_close_name_all_are_listed():
    assert unknown("zzz", ["iql", "vdn"]) == "unknown 'zzz'; there are iql, vdn"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_yaml_or_refused(content):
    try:
        parse_document(content, "file.yaml")
    except ConfigError as error:
        assert "\n" not in str(error)
