"""Configurations as JSON and back, for untrusted files; pytrees of arrays as one file."""

import json
import os
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from cooptions.discovery.laplacian.kronecker import Kronecker
from cooptions.discovery.representations.base import AbstractRepresentation
from cooptions.discovery.representations.hit import Hit
from cooptions.errors import ArtifactError
from cooptions.files import decode, encode, file_digest, fill, load_tree, read_json, save_tree


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    name: str = "x"
    inner: Inner = field(default_factory=Inner)
    sizes: tuple[int, ...] = (1, 2)
    other: Inner | None = None
    representation: AbstractRepresentation = field(default_factory=Hit)


def changed(**fields):
    return json.loads(json.dumps(encode(Outer()))) | fields


def test_written_values_are_read_back():
    outer = Outer(inner=Inner(rate=2.0, kind="b"), sizes=(), other=Inner())
    assert decode(Outer, json.loads(json.dumps(encode(outer))), "outer") == outer
    assert decode(Kronecker, encode(Kronecker()), "laplacian") == Kronecker()


def test_only_integers_are_converted_to_floats():
    assert decode(Outer, changed(inner=encode(Inner()) | {"rate": 3}), "outer").inner.rate == 3.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": 3}, "outer.name must be a str, not 3"),
        ({"name": "two\nlines"}, "outer.name must be a str"),
        ({"inner": encode(Inner()) | {"rate": True}}, "outer.inner.rate must be a float, not true"),
        ({"inner": encode(Inner()) | {"kind": "c"}}, "outer.inner.kind must be one of a, b"),
        ({"inner": encode(Inner()) | {"type": "Outer"}}, "outer.inner.type must be"),
        ({"inner": 3}, "outer.inner must hold fields"),
        ({"sizes": [1, "2"]}, r"outer.sizes\[1\] must be a int"),
        ({"sizes": 3}, "outer.sizes must be a list"),
        ({"extra": 3}, "outer.extra is no field"),
        ({"representation": {"type": "Nope"}}, "representation: unknown type 'Nope'"),
        ({"representation": {"type": "os:system"}}, "representation: 'os:system' is code from outside"),
        ({"representation": encode(Hit()) | {"discount": 2.0}}, "representation.discount must lie between 0 and 1"),
    ],
)
def test_wrong_types_are_named(fields, message):
    with pytest.raises(ArtifactError, match=message):
        decode(Outer, changed(**fields), "outer")


def test_a_missing_field_is_named():
    value = changed()
    del value["sizes"]
    with pytest.raises(ArtifactError, match="outer.sizes is missing"):
        decode(Outer, value, "outer")


TREE = {"a": np.arange(3.0), "b": np.ones((2, 2), np.int32), "c": np.float32(2.0)}


def test_a_tree_is_read_as_it_was_written(tmp_path):
    save_tree(tmp_path / "tree", Inner(rate=3.0), TREE)
    header, arrays = load_tree(tmp_path / "tree", Inner)
    assert header == Inner(rate=3.0)
    assert {name: array.shape for name, array in arrays.items()} == {"a": (3,), "b": (2, 2), "c": ()}
    assert all((array == TREE[name]).all() for name, array in arrays.items())


def test_every_flipped_bit_of_a_tree_is_noticed(tmp_path):
    save_tree(tmp_path / "tree", Inner(), TREE)
    content = (tmp_path / "tree").read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 4
        (tmp_path / "tree").write_bytes(damaged)
        with pytest.raises(ArtifactError, match="tree"):
            load_tree(tmp_path / "tree", Inner)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1e999}', '{"a": NaN}', "[" * 100 + "]" * 100, "[" * 99999])
def test_excessive_json_is_refused(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ArtifactError, match="a.json: damaged: "):
        read_json(tmp_path / "a.json")


def test_reading_a_special_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArtifactError, match="not a plain file"):
        read_json(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        file_digest(tmp_path / "pipe")


def test_arrays_of_another_shape_are_refused_by_name():
    with pytest.raises(ArtifactError, match="disagree on b:"):
        fill({"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.zeros(2), "b": np.zeros(4)})
