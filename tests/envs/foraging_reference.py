"""The paper's foraging in plain NumPy, independent of the library and vectorised over episodes.

It follows the table of rules in the project's facts. It reads everything from maps of the grid with a border of one
cell, whereas the environment compares offsets.
"""

from dataclasses import dataclass

import numpy as np

STEPS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
LOAD = 5
SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass
class World:
    """Many games of one size: places are [game, item, 2], levels [game, item]."""

    grid_size: int
    place: np.ndarray
    level: np.ndarray
    apple: np.ndarray
    apple_level: np.ndarray
    eaten: np.ndarray
    steps: np.ndarray
    sight: int = 2
    time_limit: int = 100

    def map(self, places, values):
        """[game, row, column] with a border: the values of items at their places, 0 elsewhere."""
        board = np.zeros((len(places), self.grid_size + 2, self.grid_size + 2), np.int16)
        for item in range(places.shape[1]):
            board[np.arange(len(places)), places[:, item, 0] + 1, places[:, item, 1] + 1] += values[:, item]
        return board

    def blocked(self):
        """The cells that no agent may enter: walls, agents, and remaining apples."""
        board = self.map(self.place, np.ones_like(self.level)) + self.map(self.apple, ~self.eaten)
        board[:, [0, -1]] = board[:, :, [0, -1]] = 1
        return board > 0


def look(board, places, offset=(0, 0)):
    """Values of a map beside places [game, 2]."""
    return board[np.arange(len(places)), places[:, 0] + offset[0] + 1, places[:, 1] + offset[1] + 1]


def step(world, actions):
    """The next world, the team's reward, and which apples only diagonal helpers made it possible to eat."""
    blocked, wanted = world.blocked(), world.place.copy()
    for agent in range(world.place.shape[1]):
        for action, offset in enumerate(STEPS):
            goes = (actions[:, agent] == action) & ~look(blocked, world.place[:, agent], offset)
            wanted[goes, agent] += np.array(offset)
    crowd = world.map(wanted, np.ones_like(world.level))
    place = world.place.copy()
    for agent in range(place.shape[1]):
        alone = look(crowd, wanted[:, agent]) == 1
        place[alone, agent] = wanted[alone, agent]
    loading = world.map(place, world.level * (actions == LOAD))
    eaten, diagonal = world.eaten.copy(), np.zeros_like(world.eaten)
    for apple in range(world.apple.shape[1]):
        sides, corners = (sum(look(loading, world.apple[:, apple], o) for o in cells) for cells in (SIDES, CORNERS))
        now = ~world.eaten[:, apple] & (sides + corners >= world.apple_level[:, apple])
        eaten[now, apple] = True
        diagonal[:, apple] = now & (sides < world.apple_level[:, apple])
    new = eaten & ~world.eaten
    reward = (new * world.apple_level).sum(axis=1) / world.apple_level.sum(axis=1)
    onward = World(
        **{**vars(world), "place": place, "eaten": eaten, "steps": world.steps + 1},
    )
    return onward, reward, diagonal


def ending(world):
    """Discount, last, percent eaten."""
    done = world.eaten.all(axis=1)
    return 1.0 - done, done | (world.steps >= world.time_limit), 100.0 * world.eaten.mean(axis=1)


def action_mask(world):
    blocked, apples = world.blocked(), world.map(world.apple, ~world.eaten) > 0
    mask = np.zeros((*world.level.shape, len(STEPS)), bool)
    for agent in range(world.level.shape[1]):
        here = world.place[:, agent]
        mask[:, agent, 0] = True
        for action, offset in enumerate(SIDES, start=1):
            mask[:, agent, action] = ~look(blocked, here, offset)
        mask[:, agent, LOAD] = np.any([look(apples, here, offset) for offset in SIDES + CORNERS], axis=0)
    return mask


def observation(world, max_level=2):
    """Each agent's observation, [game, agent, value]."""
    num_games, num_agents = world.level.shape
    far, top = world.grid_size - 1, max_level * num_agents
    seen = np.zeros((num_games, num_agents, world.apple.shape[1]), bool)
    for agent in range(num_agents):
        for apple in range(world.apple.shape[1]):
            away = np.abs(world.apple[:, apple] - world.place[:, agent]).max(axis=1)
            seen[:, agent, apple] = (away <= world.sight) & ~world.eaten[:, apple]
    rows = []
    for agent in range(num_agents):
        here = world.place[:, agent]
        window = np.minimum(here, world.sight)
        own = [window[:, 0] / world.sight * 2 - 1, window[:, 1] / world.sight * 2 - 1]
        row = [*own, world.level[:, agent] / max_level, seen[:, agent].any(axis=1)]
        for mate in [mate for mate in range(num_agents) if mate != agent]:
            away = (world.place[:, mate] - here) / far
            row += [away[:, 0], away[:, 1], world.level[:, mate] / max_level, seen[:, mate].any(axis=1)]
        for apple in range(world.apple.shape[1]):
            away, there = (world.apple[:, apple] - here) / far, seen[:, agent, apple]
            row += [away[:, 0] * there, away[:, 1] * there, world.apple_level[:, apple] / top * there, there]
        rows.append(np.stack(row, axis=1))
    return np.stack(rows, axis=1)
