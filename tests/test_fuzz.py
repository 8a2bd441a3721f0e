"""Whatever strangers send is either understood or refused in one line: no other error, nothing made on the way."""

import json
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

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
    """What was said if something was refused as expected; every other error fails the test."""
    try:
        read()
    except expected as error:
        return str(error)
    return ""


@st.composite
def scenarios(draw):
    """A scenario's name with a piece of it replaced. No colon: that would name code, which is meant to run."""
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
    """The ways to every value within a JSON value."""
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
    """The header of safetensors: its length, its JSON, and the places of arrays that it names."""
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
