"""Colours for agents and scenery, distinguishable for colour-blind readers."""

AGENTS: tuple[tuple[int, int, int], ...] = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (120, 94, 60),
    (240, 228, 66),
)
"""One colour per agent: the palette of Okabe and Ito with brown instead of black. They repeat from the ninth agent."""

WHITE = (255, 255, 255)
INK = (45, 48, 56)
WALL = (92, 96, 106)
FLOOR = (252, 252, 250)
LINE = (216, 218, 218)
LANDMARK = (190, 192, 196)
MARK = (226, 214, 190)
GOAL = (196, 224, 196)


def agent_colour(agent: int) -> tuple[int, int, int]:
    return AGENTS[agent % len(AGENTS)]


def ink_on(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """Black or white, whichever reads better on `colour`."""
    red, green, blue = colour
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 175 else WHITE
