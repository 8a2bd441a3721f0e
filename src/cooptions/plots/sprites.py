"""Sprites: small pictures with transparency, composed of shapes with smooth edges.

A shape is a square array of coverages from 0 to 1. Its coordinates run from 0 to 1, to the right and downwards.
"""

import functools
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image, ImageDraw, ImageFont

Shape = Float[np.ndarray, "size size"]
Sprite = Float[np.ndarray, "size size 4"]
Colour = tuple[int, int, int]


def disc(size: int, centre: tuple[float, float] = (0.5, 0.5), radius: float = 0.5) -> Shape:
    x, y = _pixels(size)
    return _covered(np.hypot(x - centre[0], y - centre[1]) - radius, size)


def box(size: int, left: float, top: float, right: float, bottom: float, corner: float = 0.0) -> Shape:
    """A rectangle with corners rounded by the radius `corner`."""
    x, y = _pixels(size)
    across = np.abs(x - (left + right) / 2) - (right - left) / 2 + corner
    down = np.abs(y - (top + bottom) / 2) - (bottom - top) / 2 + corner
    outside = np.hypot(np.maximum(across, 0), np.maximum(down, 0))
    return _covered(outside + np.minimum(np.maximum(across, down), 0) - corner, size)


def polygon(size: int, *points: tuple[float, float]) -> Shape:
    """A convex polygon with the corners in clockwise order."""
    x, y = _pixels(size)
    distance = np.full((size, size), -1.0)
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        length = np.hypot(x1 - x0, y1 - y0)
        distance = np.maximum(distance, ((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) / length)
    return _covered(distance, size)


def stripes(size: int, period: float = 0.28) -> Shape:
    """Diagonal stripes over the whole square. Stripes and gaps are equally wide."""
    x, y = _pixels(size)
    phase = ((x + y) / np.sqrt(2) / period) % 1.0
    return _covered((np.abs(phase - 0.5) - 0.25) * period, size)


def text(size: int, words: str, height: float = 0.6, centre: tuple[float, float] = (0.5, 0.5)) -> Shape:
    """One line of text, `height` of the square high."""
    image = Image.new("L", (size, size))
    place = centre[0] * size, centre[1] * size
    ImageDraw.Draw(image).text(place, words, fill=255, font=font(max(round(height * size), 6)), anchor="mm")
    return np.asarray(image) / 255.0


@functools.lru_cache(maxsize=64)
def font(pixels: int) -> ImageFont.FreeTypeFont:
    """The font that ships with Matplotlib, so that pictures look the same on every machine."""
    import matplotlib  # imported late because it is slow and most pictures have no text

    return ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), pixels)


def sprite(size: int, *layers: tuple[Shape, Colour]) -> Sprite:
    """A sprite of shapes painted over one another in order, with premultiplied alpha."""
    picture = np.zeros((size, size, 4))
    for shape, colour in layers:
        paint = np.array([*colour, 255.0]) * shape[..., None]
        picture = paint + picture * (1 - shape[..., None])
    return picture


def opaque(picture: Sprite, colour: Colour) -> UInt8[np.ndarray, "size size 3"]:
    """A sprite on a plain background."""
    return np.rint(picture[..., :3] + np.array(colour) * (1 - picture[..., 3:] / 255)).astype(np.uint8)


def paste(image: UInt8[np.ndarray, "height width 3"], picture: Sprite, centre: Float[np.ndarray, "2"]) -> None:
    """Paint a sprite into `image` with its centre at the pixel (row, column) `centre`. It must lie inside."""
    size = len(picture)
    top, left = np.rint(centre - size / 2).astype(int)
    window = image[top : top + size, left : left + size]
    window[:] = np.rint(picture[..., :3] + window * (1 - picture[..., 3:] / 255))


def mosaic(
    tiles: UInt8[np.ndarray, "kind size size 3"], kinds: Int[np.ndarray, "*time row column"]
) -> UInt8[np.ndarray, "*time height width 3"]:
    """Pictures composed of tiles. `kinds` gives the index of the tile in each cell."""
    laid = np.moveaxis(tiles[kinds], -3, -4)  # [..., row, size, column, size, 3]
    *time, row, size, column, _, _ = laid.shape
    return laid.reshape(*time, row * size, column * size, 3)


def _pixels(size: int) -> tuple[Shape, Shape]:
    """The x and y coordinates of the pixels' centres."""
    middle = (np.arange(size) + 0.5) / size
    x, y = np.meshgrid(middle, middle)
    return x, y


def _covered(distance: Shape, size: int) -> Shape:
    """The coverage of each pixel, given the signed distance of its centre from the shape's edge."""
    return np.clip(0.5 - distance * size, 0.0, 1.0)
