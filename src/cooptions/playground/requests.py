"""The requests of the page. Every request is checked, and refused with a one-line reason if it is invalid."""

import json
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from cooptions.errors import CooptionsError
from cooptions.playground.library import Library
from cooptions.playground.scene import Scene

LARGEST_BODY = 1 << 16
LARGEST_SEED = 2**31 - 1


class Refused(CooptionsError):
    """A refused request, with an HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Fields:
    """The fields of a JSON object. Each can be taken once."""

    def __init__(self, body: bytes) -> None:
        try:
            value = json.loads(body.decode() or "{}", parse_constant=_no_number)
        except (UnicodeDecodeError, ValueError, RecursionError):
            raise Refused(400, "the body is not JSON") from None
        if not isinstance(value, dict):
            raise Refused(400, "the body must be a JSON object")
        self.left = value

    def integer(self, name: str, least: int, most: int) -> int:
        value = self._take(name)
        if type(value) is not int or not least <= value <= most:
            raise Refused(400, f"{name} must be a whole number from {least} to {most}")
        return value

    def states(self, scene: Scene) -> Float[np.ndarray, "agent feature"]:
        """The state of each agent, as a number for each feature."""
        rows, shape = self._take("states"), (scene.env.num_agents, len(scene.env.features))
        wanted = f"states must be {shape[0]} lists of {shape[1]} numbers"
        if not isinstance(rows, list) or len(rows) != shape[0]:
            raise Refused(400, wanted)
        for row in rows:
            if not isinstance(row, list) or len(row) != shape[1]:
                raise Refused(400, wanted)
            if not all(type(value) in (int, float) and abs(value) < 1e9 and math.isfinite(value) for value in row):
                raise Refused(400, wanted)
        return np.array(rows, np.float32)

    def done(self) -> None:
        if self.left:
            raise Refused(400, f"unknown field {next(iter(self.left))[:40]!r}")

    def _take(self, name: str) -> Any:
        if name not in self.left:
            raise Refused(400, f"{name} is missing")
        return self.left.pop(name)


def answer(library: Library, question: str, body: bytes) -> Any:
    """The answer to one question of the page."""
    fields = Fields(body)
    if question == "subjects":
        fields.done()
        return library.describe()
    index = fields.integer("subject", 0, len(library.subjects) - 1)
    with library.lock:
        return QUESTIONS[question](library.scene(index), fields)


def _scene(scene: Scene, fields: Fields) -> Any:
    fields.done()
    return scene.describe()


def _start(scene: Scene, fields: Fields) -> Any:
    seed = fields.integer("seed", 0, LARGEST_SEED)
    fields.done()
    return scene.start(seed)


def _look(scene: Scene, fields: Fields) -> Any:
    agent, states = fields.integer("agent", 0, scene.env.num_agents - 1), fields.states(scene)
    fields.done()
    return scene.look(states, agent)


def _play(scene: Scene, fields: Fields) -> Any:
    most = 0 if scene.options is None else scene.options.num_options - 1
    option, seed = fields.integer("option", 0, most), fields.integer("seed", 0, LARGEST_SEED)
    states = fields.states(scene)
    fields.done()
    return scene.play(states, option, seed)


def _episode(scene: Scene, fields: Fields) -> Any:
    seed = fields.integer("seed", 0, LARGEST_SEED)
    fields.done()
    return scene.episode(seed)


QUESTIONS = {"scene": _scene, "start": _start, "look": _look, "play": _play, "episode": _episode}
"""The questions about one scene. The question `subjects` lists all scenes."""


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
