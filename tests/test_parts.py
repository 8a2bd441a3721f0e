"""Registries know their parts without importing them, and accept parts from a file outside the package."""

import subprocess
import sys

import pytest

from cooptions.discovery.laplacian.base import LAPLACIANS
from cooptions.discovery.representations.base import REPRESENTATIONS
from cooptions.envs.base import FAMILIES
from cooptions.errors import ConfigError
from cooptions.figures.base import FIGURES
from cooptions.learners.base import LEARNERS
from cooptions.options.base import OPTION_SOURCES
from cooptions.parts import Registry

REGISTRIES = [REPRESENTATIONS, LAPLACIANS, LEARNERS, OPTION_SOURCES, FAMILIES, FIGURES]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_part_is_found_by_name_and_has_a_summary(registry):
    assert len(registry.names()) >= 2
    for name in registry:
        part = registry[name]
        assert registry.name_of(part) == name
        assert registry.summaries()[name], f"{name} needs a line of documentation"


def test_names_are_listed_without_importing_the_parts():
    code = (
        "import sys; from cooptions.parts import Registry; "
        "names = Registry('representation', 'cooptions.discovery.representations').names(); "
        "print('hit' in names, 'jax' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["True", "False"]


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="representation: unknown 'hitt'; did you mean hit"):
        REPRESENTATIONS["hitt"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:Part", "representation: cannot use 'no_such_module:Part'"),
        ("json:JSONDecoder", "representation: 'json:JSONDecoder' is not a subclass of AbstractRepresentation"),
    ],
)
def test_objects_that_are_no_parts_are_refused(path, message):
    with pytest.raises(ConfigError, match=message):
        REPRESENTATIONS[path]


def test_one_name_has_one_part():
    registry = Registry("toy", "cooptions.discovery.oracles")
    registry.register("one")(int)
    registry.register("one")(int)
    with pytest.raises(ConfigError, match="toy: 'one' is registered twice"):
        registry.register("one")(float)
