"""Any untrusted input is either accepted or refused with one line, without other errors or side effects."""

import json
import random
import re
import struct
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from benchmarks.fuzz_mutations import mutated
from benchmarks.fuzz_targets import TARGETS, parts_of
from cooptions.campaigns.reading import parse_campaign
from cooptions.envs.names import families
from cooptions.envs.scenarios import make_env
from cooptions.errors import ArtifactError, ConfigError, CooptionsError
from cooptions.files import decode, encode, parse_json
from cooptions.learners.networks import NetworkConfig
from cooptions.options.base import Option
from cooptions.options.sharing.storage import Description
from cooptions.runs.config import Config
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.metrics import MetricsFile, line_of

few = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

NAMES = st.sampled_from([*families()["lbf"].scenarios, *families()["grid"].scenarios])
PIECES = st.sampled_from(
    ["-", ",", "=", "x", "p", "f", "coop", "map", "types", "task", "meet", "0", "1", "7", "", " ", "\n", "é"]
)


def _said(expected, read):
    """The message of an expected refusal. Every other error fails the test."""
    try:
        read()
    except expected as error:
        return str(error)
    return ""


@st.composite
def scenarios(draw):
    """A scenario name with a part replaced. It has no colon, which would name code that is meant to run."""
    name = draw(NAMES)
    at, length = draw(st.integers(0, len(name))), draw(st.integers(0, 3))
    return name[:at] + "".join(draw(st.lists(PIECES, max_size=3))) + name[at + length :]


@few
@given(scenarios())
def test_a_scenario_is_made_or_refused_in_one_line(scenario):
    assert "\n" not in _said(ConfigError, lambda: make_env(scenario))


DESCRIPTION = Description(
    options=(Option("+e1", (True, True), 2, 1, 1),),
    network=NetworkConfig(hidden=(8, 8)),
    max_steps=50,
    epsilon=0.05,
    fixed_last=True,
    margin=0.0,
    still_ends=True,
    sight="observation",
    actions=("stay", "up"),
    environment={"actions": 5},
    provenance={"date": "2026"},
    reports=(),
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def _places(value, path=()):
    """The paths of all values within a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _replaced(value, path, new):
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("whole", [DESCRIPTION, Config("grid-5x5-2p")], ids=["option set", "run"])
@few
@given(data=st.data())
def test_a_description_with_one_value_changed_is_read_or_refused_in_one_line(whole, data):
    written = encode(whole)
    changed = _replaced(written, data.draw(st.sampled_from(list(_places(written)))), data.draw(VALUES))
    assert "\n" not in _said(CooptionsError, lambda: decode(type(whole), changed, "description"))


@few
@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_json_is_read_or_refused(content):
    _said((ValueError, RecursionError), lambda: parse_json(content))


WHOLE = save({"00000": np.arange(4.0), "00001": np.ones((2, 2), np.int32)}, {"rows": "1", "check": "0"})


@few
@given(
    st.integers(0, len(WHOLE) - 1), st.binary(max_size=12), st.integers(0, 12), st.none() | st.integers(0, 2**64 - 1)
)
def test_a_changed_checkpoint_is_refused_in_one_line(tmp_path, at, new, length, told):
    """Mutations of the header of safetensors: its length, its JSON, and the offsets of arrays."""
    content = WHOLE[:at] + new + WHOLE[at + length :]
    content = content if told is None else struct.pack("<Q", told) + content[8:]
    path = tmp_path / "checkpoints/fit/3.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as refused:
        Checkpoints(path.parent).restore({"a": np.zeros(4)}, print)
    assert "\n" not in str(refused.value)


LINES = b"".join(line_of({"step": step, "loss": [0.5, float("nan")]}) for step in (10, 20, 30))


@few
@given(st.integers(0, len(LINES) - 1), st.binary(max_size=8), st.integers(0, 8))
def test_changed_metrics_are_cut_at_the_end_or_refused_in_one_line(tmp_path, at, new, length):
    (tmp_path / "fit.jsonl").write_bytes(LINES[:at] + new + LINES[at + length :])
    read = []
    assert "\n" not in _said(ArtifactError, lambda: read.extend(MetricsFile(tmp_path / "fit.jsonl").rows()))
    assert [row["step"] for row in read] == [10, 20, 30][: len(read)]


CAMPAIGN = b"""
name: tiny
seeds: 0..3
block: 2
steps: 1e6
lineups:
  main:
    scenarios: &here ["grid-5x5-2p"]
    methods: [iql, iql+hit]
    options: 2
    set: {laplacian: {num_eigenfunctions: 2}}
  other: {scenarios: *here, methods: ippo, variant: none}
compare:
  first: {lineup: main, left: iql+hit-2options, right: iql, claim: Options help.}
figures:
  all: {kind: curves, metric: return, panels: {One: [iql]}}
"""
VALUES_OF_IT = [
    (found.start(), found.end()) for found in re.finditer(rb"(?<=: )[^\n,{}\[\]]+|(?<=set: ){.*}", CAMPAIGN)
]
LAUGHS = "[&b0 [x], " + ", ".join(f"&b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 20)) + "]"
"""A few hundred bytes that stand for nine to the power of nineteen words."""
PUT = [
    *("{}", "[]", "[[", "- ", ": ", "&here ", "*here", "<<: *here", "!!int x", "!!python/name:os.abort ", "? "),
    *(".nan", ".inf", "1e400", "1e18", "0..99999999999", f"{'1' * 5000}..{'2' * 5000}", "2020-13-45", "0x_", "~"),
    *(r'"\e[31m"', r'"a\nb"', "evil:env", "../..", "iql", "set", "seeds", "grid-99999x99999-2p", "{a: &c {b: *c}}"),
    *("&c [*c]", LAUGHS, f"[{'iql, ' * 25_000}]", "[0, 1, 2", '""'),
]


def test_the_campaign_is_valid():
    assert len(parse_campaign(CAMPAIGN).wanted) == 3


@pytest.mark.parametrize("new", PUT, ids=lambda new: new[:20])
def test_a_campaign_with_one_other_value_is_read_or_refused_in_one_line(new):
    for field in (
        b"tiny",
        b"0..3",
        b"1e6",
        b"[iql, iql+hit]",
        b"{laplacian: {num_eigenfunctions: 2}}",
        b"Options help.",
    ):
        assert CAMPAIGN.count(field) == 1
        changed = CAMPAIGN.replace(field, new.encode())
        assert _said(CooptionsError, lambda changed=changed: parse_campaign(changed).wanted).isprintable()


@few
@given(st.lists(st.tuples(st.sampled_from(VALUES_OF_IT), st.sampled_from(PUT)), min_size=2, max_size=4))
def test_a_campaign_of_other_values_is_read_or_refused_in_one_line(changes):
    """Exponentially growing aliases, huge numbers of seeds and steps, names with control characters."""
    content = CAMPAIGN
    for (begin, end), new in sorted(changes, reverse=True):
        content = content[:begin] + new.encode() + content[end:]
    assert _said(CooptionsError, lambda: parse_campaign(content).wanted).isprintable()


@few
@given(st.binary(max_size=80), st.integers(0, len(CAMPAIGN)))
def test_a_campaign_of_any_bytes_is_read_or_refused_in_one_line(new, at):
    """Including bytes that are not UTF-8."""
    assert _said(CooptionsError, lambda: parse_campaign(CAMPAIGN[:at] + new + CAMPAIGN[at:]).wanted).isprintable()


@pytest.fixture
def checks_restored():
    yield
    mock.patch.stopall()


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_of_the_fuzzer_understands_its_valid_files(target, tmp_path, checks_restored):
    """A target whose loader has moved refuses everything, and an hour of fuzzing shows nothing."""
    for part in parts_of(target, tmp_path):
        part.read(part.whole)


def test_the_fuzzer_sees_what_lies_behind_the_check_of_a_shared_manifest(tmp_path, checks_restored):
    manifest = next(part for part in parts_of("option-set", tmp_path) if part.name == "manifest.json")
    with pytest.raises(ArtifactError, match="no name for a file of a shared folder"):
        manifest.read(manifest.whole.replace(b"option_set.json", b"../../option_set.json"))


@pytest.mark.parametrize("whole", [CAMPAIGN, WHOLE, LINES, json.dumps(encode(DESCRIPTION)).encode()])
def test_the_fuzzer_changes_what_it_is_given(whole):
    changed = {mutated(whole, random.Random(seed)) for seed in range(200)}
    assert len(changed - {whole}) > 150
    assert mutated(whole, random.Random(7)) == mutated(whole, random.Random(7))
