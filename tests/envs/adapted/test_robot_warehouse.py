import pytest

from cooptions.envs.adapted.robot_warehouse import RobotWarehouse
from cooptions.errors import ConfigError


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_agents": 1}, "num_agents must be at least 2, not 1"),
        ({"column_height": 2, "requests": 40}, "requests must be at most 8, the number of shelves, not 40"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        RobotWarehouse(**fields)


def test_one_shelf_is_requested_for_each_robot_by_default():
    assert RobotWarehouse(num_agents=3, column_height=2).env.env.request_queue_size == 3
