import pytest

from cooptions.cli.catalogue import KINDS, TABLES, keys_of, names, require_scenario
from cooptions.discovery.laplacian.base import LAPLACIANS
from cooptions.discovery.representations.base import REPRESENTATIONS
from cooptions.envs.base import FAMILIES
from cooptions.envs.names import scenario_names
from cooptions.errors import ConfigError
from cooptions.figures.base import FIGURES
from cooptions.learners.base import LEARNERS
from cooptions.options.base import OPTION_SOURCES
from cooptions.options.train import RECIPES
from cooptions.runs.paper import METHODS, TEAM_LEARNERS
from cooptions.runs.presets import PRESETS

REGISTRIES = {
    "representations": REPRESENTATIONS,
    "laplacians": LAPLACIANS,
    "learners": LEARNERS,
    "option sources": OPTION_SOURCES,
    "figures": FIGURES,
    "environments": FAMILIES,
}
DICTIONARIES = {
    "presets": PRESETS,
    "methods of discovery": METHODS,
    "methods of learning": TEAM_LEARNERS,
    "recipes of options": RECIPES,
}


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_those_of_the_registries(kind):
    assert list(KINDS[kind].entries) == list(REGISTRIES[kind].entries)


@pytest.mark.parametrize("kind", TABLES)
def test_names_in_tables_are_those_of_the_code(kind):
    assert keys_of(*TABLES[kind]) == tuple(DICTIONARIES[kind])


def test_environments_are_listed_with_the_form_of_their_scenarios():
    assert list(names()["scenarios"]) == list(scenario_names())
    assert names()["environments"]["smax"].endswith("(SMAX, JaxMARL). Scenarios: smax-UNITS")
    assert set(names()["environments"]) == set(FAMILIES.names())


@pytest.mark.parametrize("name", [*scenario_names(), *PRESETS, "lbf-5x5-2p-1f,coop=none", "mine:env"])
def test_names_that_may_be_scenarios_pass(name):
    require_scenario(name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("lbf-15x15-4p", "lbf-15x15-4p-5f"),
        ("qiuck", "quick"),
        ("gird-15x15-3p", "grid-15x15-3p"),
        ("overcooked-Cramped", "overcooked-cramped_room"),
        ("overcooked-kitchen", "which is not of the form overcooked-LAYOUT"),
        ("grid-5x5-2p,tsak=meet", "did you mean task"),
        ("probe-constnat", "probe-constant"),
    ],
)
def test_mistyped_scenarios_are_refused_with_the_nearest(name, nearest):
    with pytest.raises(ConfigError, match=nearest):
        require_scenario(name)
