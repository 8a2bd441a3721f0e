"""Mutations of valid files for `benchmarks.fuzz`: of bytes, of JSON, and of the header of safetensors."""

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

TOKENS = (
    *(b"null", b"true", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"1e308", b"99999999999999999999", b"0x_", b"1_0"),
    *(b'""', b"{}", b"[]", b"[[", b"}}", b"\\u0000", b"\\ud800", b"\x00", b"\xff\xfe", b"\x1b[31m", "‮".encode()),
    *(
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!int ",
        b"!!map ",
        b"!!timestamp ",
        b"!!python/name:os.abort ",
        b"? [a]\n",
        b"---\n",
    ),
    *(b": ", b"- ", b"\n", b"\t", b"|\n", b"2020-13-45", b"evil:env", b"../../", b"/dev/zero", b"F64", b"BF16", b"C64"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-320, "", "x" * 2000, "1", "é"),
    *("evil:env", "a\nb", "\x1b[31m", "‮", "\x00", "../../etc/passwd", "/dev/zero", [], {}, [[]], [None], {"": 0}),
    *("grid-5x5-2p", "lbf-5x5-2p-1f", "grid-99999x2-2p", "Hit", "IPPO", "nan", "inf", "F64", "BF16", "C64", "U64"),
)
DEEPEST = 300


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A content with one to four mutations, half of them in its JSON if there is any."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        changed = _mutated_json(content, rng) if rng.random() < 0.5 else None
        content = _mutated_bytes(content, rng) if changed is None else changed
    return content


def _mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(content) + 1), rng.choice((1, 1, 2, 8, 60))
    part = content[at : at + length]
    flipped = bytes([part[0] ^ 1 << rng.randrange(8)]) + part[1:] if part else b""
    new = rng.choice(
        (flipped, b"", part * 2, rng.choice(TOKENS), rng.choice(TOKENS) + part, rng.randbytes(2), part * 99)
    )
    return content[:at] + new + content[at + length :]


def _mutated_json(content: bytes, rng: random.Random) -> bytes | None:
    """The content with one value of its JSON changed; None if it has no JSON."""
    before, after = b"", b""
    text = content
    if len(content) > 8 and content[8:9] == b"{":  # safetensors: the length of the header, the header, the arrays
        length = struct.unpack("<Q", content[:8])[0]
        before, text, after = content[:8], content[8 : 8 + length], content[8 + length :]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    new = json.dumps(_changed(value, rng)).encode()
    return (struct.pack("<Q", len(new)) if before else b"") + new + after


def _changed(whole: Any, rng: random.Random) -> Any:
    """A JSON value with one inner value replaced, removed, renamed or moved, or with JSON in a string mutated."""
    places = list(_places(whole))
    at = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        return _replaced(whole, at, _value(whole, rng.choice(places)))
    if action == 1 and at:
        return _removed(whole, at)
    if action == 2 and at:
        name = rng.choice([value for value in VALUES if isinstance(value, str)])
        return _replaced(_removed(whole, at), (*at[:-1], name), _value(whole, at))
    if action == 3:
        nested: Any = 0
        for _ in range(rng.randrange(DEEPEST)):
            nested = [nested]
        return _replaced(whole, at, nested)
    inner = _value(whole, at)
    if isinstance(inner, str) and inner.startswith("{"):
        changed = _mutated_json(inner.encode(), rng)
        return _replaced(whole, at, changed.decode("utf-8", "replace")) if changed else whole
    return _replaced(whole, at, rng.choice(VALUES))


def _places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if len(path) < 20:
            yield from _places(inner, (*path, key))


def _value(whole: Any, path: tuple) -> Any:
    for key in path:
        whole = whole[key]
    return whole


def _replaced(whole: Any, path: tuple, new: Any) -> Any:
    if not path:
        return new
    copy = whole.copy()
    if isinstance(copy, list) and not isinstance(path[0], int):  # a name for an item of a list
        return [*copy, new]
    old = copy.get(path[0]) if isinstance(copy, dict) else copy[path[0]]
    copy[path[0]] = _replaced(old, path[1:], new)
    return copy


def _removed(whole: Any, path: tuple) -> Any:
    copy = whole.copy()
    if len(path) > 1:
        copy[path[0]] = _removed(copy[path[0]], path[1:])
    else:
        del copy[path[0]]
    return copy
