import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.adapted.connector import Connector, _observe
from cooptions.errors import ConfigError


def test_each_agent_sees_its_own_wire_apart_from_the_others():
    grid = jnp.array([[1, 2, 0], [4, 0, 3], [5, 0, 6]])  # trail, place and target: of the first, then of the second
    first, second = np.asarray(_observe(grid, 2))
    places = {name: np.argwhere(first[..., index]).tolist() for index, name in enumerate(("trail", "place", "target"))}
    assert places == {"trail": [[0, 0]], "place": [[0, 1]], "target": [[1, 2]]}
    assert np.argwhere(first[..., 3:]).tolist() == [[1, 0, 0], [2, 0, 1], [2, 2, 2]]
    assert (second[..., :3] == first[..., 3:]).all()
    assert (second[..., 3:] == first[..., :3]).all()


def test_more_agents_than_a_grid_has_room_for_are_refused():
    with pytest.raises(ConfigError, match="num_agents must be at most 5 on this grid, not 6"):
        Connector(grid_size=5, num_agents=6)
