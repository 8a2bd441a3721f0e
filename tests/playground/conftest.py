"""The scenes that all tests of the playground share."""

import pytest
from playground_scenes import Made, make_run, scene_of

from cooptions.playground.library import Library


@pytest.fixture(scope="session")
def run_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "tiny"
    make_run(path)
    return path


@pytest.fixture(scope="session")
def grid_scene():
    return scene_of("grid-6x6-3p")


@pytest.fixture(scope="session")
def kitchen_scene():
    return scene_of("overcooked-cramped_room")


@pytest.fixture(scope="session")
def library(run_path, grid_scene, kitchen_scene):
    subjects = (*Library.of([run_path]).subjects, Made(grid_scene, "grid"), Made(kitchen_scene, "kitchen"))
    return Library(subjects)
