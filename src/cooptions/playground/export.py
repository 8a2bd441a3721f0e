"""The page as one file, for a paper's web page, with results that are computed in advance.

If z is a sum over agents (`AddsUp`), the file has each agent's distances and the eigenfunctions on a grid of z, so the
page can show any joint state. Otherwise it has every joint state, if there are few.
"""

import base64
import itertools
import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from cooptions.discovery.discovered import Discovered
from cooptions.discovery.representations.table import Table, has_table
from cooptions.errors import ConfigError, require
from cooptions.files import write_bytes
from cooptions.playground.board import Board
from cooptions.playground.lens import Lens, numbers
from cooptions.playground.pages import static_files
from cooptions.playground.scene import Scene

NUM_STARTS = 6
"""The number of starts from which every option is played."""
NUM_EPISODES = 2
MOST_ROLLOUTS = 3_000_000
"""The maximum size of roll-outs in bytes. Beyond it, fewer starts are kept."""
MOST_JOINT = 3_000_000
"""The maximum count of values, over all joint states, of the eigenfunctions and z."""
POINTS = {1: 256, 2: 64, 3: 24}
"""The number of grid points per component of z, by the number of components."""
STEPS = 254
"""The number of steps into which a range of values is divided, so that a value fits into a byte."""
MODULES = ("dom.js", "colours.js", "board.js", "charts.js", "player.js", "source.js", "file_source.js", "main.js")
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def export(scene: Scene, subject: dict[str, Any], path: Path) -> list[str]:
    """Write the page of one scene. Returns lines that say what it has and what it lacks."""
    require(
        set(scene.board.axes) == set(range(len(scene.env.features))),
        "export: agents have features besides their place; use `cooptions play` without --export",
    )
    answers, words = (None, "") if scene.lens is None else _answers(scene.lens)
    starts, plays = _rollouts(scene)
    episodes = [scene.episode(seed) for seed in range(NUM_EPISODES)] if scene.team is not None else []
    left_out = _left_out(len(starts), len(episodes), words, scene)
    data = {
        "subject": subject,
        "scene": scene.describe(),
        "answers": answers,
        "starts": starts,
        "plays": plays,
        "episodes": episodes,
        "left_out": left_out,
    }
    content = one_page(data).encode()
    write_bytes(path, content)
    return [f"page: {path} ({len(content) / 1e6:.1f} MB)", left_out]


def one_page(data: dict[str, Any]) -> str:
    """The HTML of the page, with its style, its modules and its data."""
    files = static_files()
    script = "\n".join(_inlined(files[name]) for name in MODULES)
    held = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    page = re.sub(r"<link rel=\"icon\".*?>\n", "", files["index.html"])
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}')
    page = page.replace('<link rel="stylesheet" href="style.css">', f"<style>\n{files['style.css']}</style>")
    page = page.replace('<script type="module" src="main.js"></script>\n', "")
    held = f'<script type="application/json" id="exported">{held}</script>'
    return page.replace("</body>", f'{held}\n<script type="module">\n{script}</script>\n</body>')


def _inlined(module: str) -> str:
    """A module without its imports and exports, because all modules share one scope."""
    lines = (line.removeprefix("export ") for line in module.splitlines() if not line.startswith("import "))
    return "\n".join(lines)


def _answers(lens: Lens) -> tuple[dict[str, Any], str]:
    """The data from which the page computes what the lens would, and a sentence about its precision."""
    team, representation = lens.found.team, lens.found.discovery.representation
    dimensions = len(lens.found.z_names)
    if has_table(representation, team) and dimensions in POINTS and not team.columns:
        return _sums(lens.found, lens.board), "Eigenfunctions are kept in bytes, over a grid of n-distances."
    number = len(lens.board.cells) ** lens.board.num_agents
    if number * (lens.found.num_eigenfunctions + dimensions) > MOST_JOINT:
        raise ConfigError(
            f"export: {type(representation).__name__} has {number} joint states here, too many for one file; use fewer "
            "agents, a smaller map, or the representation `hit`, whose z is a sum over the agents"
        )
    return _joint(lens), "Eigenfunctions are kept in bytes, for every joint state."


def _sums(found: Discovered, board: Board) -> dict[str, Any]:
    """The distances from single agents to all values of features, and the eigenfunctions on a grid of z."""
    representation: Any = found.discovery.representation
    table = Table.of(representation, found.team, found.representation)
    states = board.random_states(20_000, np.random.default_rng(2))
    z = np.asarray(jax.lax.map(table, jnp.asarray(states), batch_size=4096))
    high = z.max(axis=0) * 1.02 + 1e-6
    points = POINTS[z.shape[1]]
    axes = [np.linspace(0.0, top, points) for top in high]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, z.shape[1]).astype(np.float32)
    of_z = jax.jit(jax.vmap(lambda z: found.discovery.of_z(found.spectrum, z)))
    distances = np.asarray(table.distances)
    unit = float(distances.max()) / 65535
    return {
        "kind": "sums",
        "sizes": [feature.size for feature in found.team.features],
        "types": list(found.team.agent_types),
        "unit": unit,
        "distances": _base64(np.rint(distances / unit).astype("<u2")),
        "high": [float(top) for top in high],
        "points": points,
        **_bytes("values", np.asarray(of_z(jnp.asarray(grid)))),
    }


def _joint(lens: Lens) -> dict[str, Any]:
    """Eigenfunctions and z of every joint state of the board's cells. The last agent's cell varies fastest."""
    cells = np.zeros((len(lens.board.cells), len(lens.board.features)), np.float32)
    cells[:, list(lens.board.axes)] = lens.board.values
    joint = np.array(list(itertools.product(range(len(cells)), repeat=lens.board.num_agents)))
    states = cells[joint] * lens.board.agent_features
    z = jax.lax.map(lens.found.encode, jnp.asarray(states), batch_size=4096)
    return {
        "kind": "joint",
        "cells": lens.board.cells.tolist(),
        **_bytes("values", np.asarray(lens.found.at(states))),
        **_bytes("z", np.asarray(z)),
    }


def _bytes(name: str, values: Float[np.ndarray, "point k"]) -> dict[str, Any]:
    """Values as one byte each, and the limits of their range."""
    limits = np.maximum(np.abs(values).max(axis=0), 1e-6)
    quantised: UInt8[np.ndarray, "point k"] = np.rint((values / limits + 1) / 2 * STEPS).astype(np.uint8)
    return {name: _base64(quantised), f"{name}_limits": numbers(limits)}


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _rollouts(scene: Scene) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Starts, and every option played from each. The number of starts is limited by the size of their roll-outs."""
    num_options = 0 if scene.options is None else scene.options.num_options
    starts, plays, size = [], [], 0
    for seed in range(NUM_STARTS):
        start = scene.start(seed)
        states = np.asarray(start["states"], np.float32)
        played = [scene.play(states, option, seed) for option in range(num_options)]
        size += len(json.dumps(played))
        if starts and size > MOST_ROLLOUTS:
            break
        starts.append(start)
        plays.append(played)
    return starts, plays


def _left_out(num_starts: int, num_episodes: int, words: str, scene: Scene) -> str:
    parts = [f"This page holds {num_starts} starts.", words]
    if scene.options is not None:
        parts.append("Options play from these starts only, not from where agents are dragged.")
    if num_episodes:
        parts.append(f"It holds {num_episodes} episodes of the learned team.")
    return " ".join(part for part in parts if part)
