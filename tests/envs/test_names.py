"""Scenario names, read from the source files."""

import dataclasses

import pytest

from cooptions.envs.base import FAMILIES
from cooptions.envs.names import families, family_of, scenario_names
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError


@pytest.mark.parametrize("name", families())
def test_source_and_class_agree(name):
    family, kind = families()[name], FAMILIES[name]
    assert (family.pattern, family.form, family.examples) == (kind.pattern, kind.form, kind.examples)
    assert set(family.fields) == {field.name for field in dataclasses.fields(kind)}
    assert family.summary


@pytest.mark.parametrize("name", families())
def test_every_family_has_a_scenario_that_is_of_it(name):
    assert families()[name].scenarios
    for scenario in families()[name].scenarios:
        assert family_of(scenario, families()).name == name


@pytest.mark.parametrize("name", families())
@pytest.mark.parametrize("value", [-1, 2**31 - 1, 10**14])
def test_a_number_is_taken_or_refused_by_name(name, value):
    """Numbers that no array can hold, or has room for."""
    scenario = families()[name].scenarios[0]
    for field in dataclasses.fields(FAMILIES[name]):
        if isinstance(field.default, int) and not isinstance(field.default, bool):
            try:
                make_env(f"{scenario},{field.name}={value}")
            except ConfigError as error:
                assert field.name in str(error) or str(value) in str(error)


def test_our_own_are_listed_before_those_of_other_libraries():
    names = scenario_names()
    assert names.index("lbf-8x8-2p-2f") < names.index("smax-3m")
    assert "probe-recall" in names


@pytest.mark.parametrize(
    ("scenario", "first"),
    [
        ("gird-7x9-2p", "grid-7x9-2p"),
        ("gird-7x9-2p,task=meet", "grid-7x9-2p,task=meet"),
        ("grid-7x9-2", "grid-7x9-2p"),
        ("lbf-9x9-5p-7", "lbf-9x9-5p-7f"),
        ("mpe-simple_spred-4p", "mpe-simple_spread-4p"),
        ("rware-tiny-6", "rware-tiny-6p"),
        ("overcooked_v2-gruonded_coord_ring", "overcooked_v2-grounded_coord_ring"),
        ("overcooked_v2-fun_symetries1", "overcooked_v2-fun_symmetries1"),
        ("overcoked_v2-two_rooms", "overcooked_v2-two_rooms"),
        ("smax-27m_vs_3m", "smax-27m_vs_30m"),
        ("meeet", "meet"),
    ],
)
def test_the_closest_name_is_suggested_first(scenario, first):
    with pytest.raises(ConfigError, match="did you mean") as error:
        family_of(scenario, families(), ("meet", "quick"))
    assert str(error.value).partition("did you mean ")[2].startswith((f"{first},", f"{first}?"))


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("cleaner-6x7-2p", "not of the form cleaner-GxG-Pp"),
        ("connector-6x6-2p,grid=3", "unknown option grid; did you mean grid_size"),
        ("mpe-simple_spread,action_type=Continuous", "unknown option action_type; there are num_agents, time_limit"),
        ("smax-3m,time_limit", "'time_limit' is not of the form field=value"),
        ("#", "did you mean"),
    ],
)
def test_errors_say_what_is_wrong(scenario, message):
    with pytest.raises(ConfigError, match=message):
        family_of(scenario, families())
