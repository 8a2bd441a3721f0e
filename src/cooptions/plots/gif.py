"""Write small animated GIFs, with captions."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Array, Float, UInt8
from PIL import Image, ImageDraw

from cooptions.errors import require
from cooptions.files import write_bytes
from cooptions.plots import colours
from cooptions.plots.rollout import Rollout
from cooptions.plots.sprites import font

NUM_COLOURS = 64
"""Palette size. It suffices for flat colours with smooth edges; doubling it makes files about a fifth larger."""

SAMPLED_ROWS = 7
"""The palette is computed from every seventh row of all frames, so that objects of a single step are included."""


def save_gif(
    path: Path, frames: UInt8[np.ndarray, "time height width 3"], *, fps: float = 8.0, hold: float = 1.0
) -> None:
    """Write a looping animation. The last frame stays `hold` seconds longer.

    All frames share one palette and store only what changed, so identical successive frames are stored once with their
    total duration.
    """
    require(len(frames) > 0, "frames: there are none to write")
    require(0 < fps <= 50, f"fps must be above 0 and at most 50, the most that players show, not {fps}")
    require(hold >= 0, f"hold must be at least 0 seconds, not {hold}")
    sample = Image.fromarray(np.concatenate(frames[:, ::SAMPLED_ROWS]))
    palette = sample.quantize(NUM_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    pause = round(100 / fps) * 10  # GIF durations are in hundredths of a second
    durations = [pause] * (len(frames) - 1) + [pause + round(1000 * hold)]
    content = io.BytesIO()
    images[0].save(
        content, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True
    )
    write_bytes(Path(path), content.getvalue())


def add_captions(
    frames: UInt8[np.ndarray, "time height width 3"], captions: Sequence[str]
) -> UInt8[np.ndarray, "time taller width 3"]:
    """The frames with a line of text above each. The longest caption determines the font size."""
    require(
        len(captions) == len(frames), f"captions: {len(captions)} for {len(frames)} frames; give one for each frame"
    )
    width = frames.shape[2]
    largest = max(captions, key=lambda line: font(15).getlength(line), default="")
    pixels = int(np.clip(15 * (width - 12) / max(font(15).getlength(largest), 1.0), 8, 15))
    strips = np.stack([_strip(caption, width, pixels) for caption in captions])
    return np.concatenate([strips, frames], axis=1)


def step_captions(
    title: str, rollout: Rollout, num_actions: int, *, rewards: Float[Array | np.ndarray, " time"] | None = None
) -> list[str]:
    """Captions for a trimmed roll-out: title, step, number of agents that vote to terminate, reward so far."""
    stops = (np.asarray(rollout.actions) == num_actions).sum(axis=1)
    num_agents, steps = rollout.actions.shape[1], len(rollout.actions)
    total = None if rewards is None else np.cumsum(np.asarray(rewards)[:steps])
    lines = [f"{title}   step 0/{steps}"]
    for step in range(steps):
        line = f"{title}   step {step + 1}/{steps}"
        line += f"   stop {stops[step]}/{num_agents}" if stops[step] else ""
        lines.append(line if total is None else f"{line}   reward {total[step]:.2f}")
    return lines


def _strip(caption: str, width: int, pixels: int) -> UInt8[np.ndarray, "strip width 3"]:
    height = 22
    image = Image.new("RGB", (width, height), colours.WHITE)
    ImageDraw.Draw(image).text((6, height // 2), caption, fill=colours.INK, font=font(pixels), anchor="lm")
    return np.asarray(image)
