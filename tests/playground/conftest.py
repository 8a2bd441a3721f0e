"""The scenes that all tests of the playground share."""

import pytest
from playground_scenes import Made, find, save_run, scene_of

from cooptions.discovery.representations.raw import RawJoint
from cooptions.playground.library import Library


@pytest.fixture(scope="session")
def found():
    """Of two agents on a 6x6 grid, whatever they do there."""
    return find("grid-6x6-2p")


@pytest.fixture(scope="session")
def run_path(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "tiny"
    save_run(path, found)
    return path


@pytest.fixture(scope="session")
def grid_scene(found):
    return scene_of("grid-6x6-2p", found)


@pytest.fixture(scope="session")
def kitchen_scene():
    return scene_of("overcooked-cramped_room", find("overcooked-cramped_room"))


@pytest.fixture(scope="session")
def joint_scene():
    """Its z is no sum over agents."""
    return scene_of("grid-3x3-2p", find("grid-3x3-2p", RawJoint()))


@pytest.fixture(scope="session")
def library(run_path, grid_scene, kitchen_scene):
    subjects = (*Library.of([run_path]).subjects, Made(grid_scene, "grid"), Made(kitchen_scene, "kitchen"))
    return Library(subjects)
