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


@pytest.mark.parametrize(("requests", "shown"), [(0, 3), (5, 5)])
def test_one_shelf_is_requested_for_each_robot_by_default(requests, shown):
    env = RobotWarehouse(num_agents=3, column_height=2, requests=requests)
    assert env.env.env.request_queue_size == shown
