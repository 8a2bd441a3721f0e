"""Campaign files: their meaning, and one-line errors before anything runs."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import GRID, TINY

from cooptions.campaigns.reading import parse_campaign
from cooptions.campaigns.rows import Seeding
from cooptions.errors import ConfigError

SHORT = f"""
scenarios: ["{GRID}"]
methods: [iql, iql+hit, ippo]
options: [2, 0]
seeds: 5..9
steps: 1e5
set:
  learning.learner.target_interval: 100
  learning: {{evaluations: 10}}
"""


def test_rows_are_scenarios_by_methods_by_counts():
    (lineup,) = parse_campaign(SHORT.encode(), "mine.yaml").lineups
    assert (lineup.name, lineup.places) == ("mine", (GRID,))
    assert lineup.labels == ("iql", "iql+hit-2options", "iql+hit", "ippo")
    assert lineup.seeding == Seeding(range(5, 10))
    config = lineup.rows[0].config
    assert (config.learning.learner.steps, config.learning.evaluations) == (100_000, 10)
    assert config.learning.learner.target_interval == 100
    assert lineup.rows[1].config.learning.macro.num_options == 2


def test_settings_apply_where_a_row_has_the_field():
    iql, *_, ippo = parse_campaign(SHORT.encode()).lineups[0].rows
    assert "learning.learner.target_interval" in dict(iql.overrides)
    assert "learning.learner.target_interval" not in dict(ippo.overrides)


def test_settings_apply_where_a_stage_uses_them():
    (plain, options) = parse_campaign(TINY.encode()).lineups
    assert {path.partition(".")[0] for path, _ in plain.rows[0].overrides} == {"learning"}
    assert {path.partition(".")[0] for path, _ in options.rows[0].overrides} > {"walk", "options", "learning"}


def test_a_line_ups_own_settings_are_a_variant_of_the_rows_they_change():
    text = f"""
lineups:
  main: {{scenarios: ["{GRID}"], methods: [iql, ippo]}}
  letter:
    scenarios: ["{GRID}"]
    methods: [iql, ippo]
    set: {{learning.learner.target_interval: 100}}
compare:
  same: {{lineup: letter, left: iql, right: ippo}}
  both: {{left: iql@letter, right: iql}}
"""
    campaign = parse_campaign(text.encode())
    main, letter = campaign.lineups
    assert letter.labels == ("iql@letter", "ippo")
    assert main.rows[1] == letter.rows[1]
    assert [each.left for each in campaign.claims] == [("iql@letter",), ("iql@letter",)]
    assert len(campaign.wanted) == 3


def test_figures_and_claims_name_rows_of_the_file():
    campaign = parse_campaign(TINY.encode())
    (claim,) = campaign.claims
    assert [(each.scenario, each.right) for each in claim.comparisons] == [(GRID, "iql")]
    assert [row.label for row in campaign.figures[0].rows] == ["iql", "iql+hit", "iql+mask"]
    assert campaign.wanted[campaign.lineups[0].rows[0]].seeds == range(2)


REPLACED = [
    ("methods: [iql]", "methods: [iql+hti]", "19: lineups.plain.methods: unknown method 'iql+hti'; did you mean iql+"),
    ("methods: [iql]", "methods: [iql, wander]", "lineups.plain.methods: unknown method 'wander'"),
    (f'["{GRID}"]', '["gird-4x4-2p"]', "lineups.plain.scenarios: scenario: unknown 'gird-4x4-2p'; did you mean grid"),
    (f'["{GRID}"]', '["grid-4x4-2p,map=nowhere"]', "lineups.plain.scenarios: "),
    ("steps: 800", "stpes: 800", "5: campaign: unknown field 'stpes'; did you mean steps?"),
    ("steps: 800", "steps: many", "5: steps: must be a number, not 'many'"),
    ("steps: 800", "steps: 7", "5: steps: learning.learner.steps must be at least num_envs x rollout = 40, not 7"),
    ("steps: 800", "steps: 0", "5: steps: must be a whole number of at least 1"),
    ("batch: 32}", "bacth: 32}", "representation.bacth: unknown field of Hit 'bacth'; did you mean batch?"),
    ("episodes: 3}", "episodes: few}", "set.learning.episodes: learning.episodes must be a whole number, not 'few'"),
    ("episodes: 3}", "episodes: 0}", "set.learning.episodes: learning.episodes must be at least 1, not 0"),
    ("  learning: {", "  basis: diagonal\n  learning: {", "set.basis: basis must be one of"),
    ("  learning: {", "  seed: 3\n  learning: {", "set.seed: is set by 'seeds' of the campaign"),
    ("  learning: {", "  laplacian.x: 3\n  learning: {", "laplacian.x: unknown field of Nystrom 'x'; there are"),
    ("representation: {steps: 100, batch: 32}", "representation: 3", "representation has fields of its own"),
    ("left: [iql+hit, iql+mask]", "left: [vdn]", "compare.H1.left: unknown method 'vdn'"),
    ("left: [iql+hit, iql+mask]", "left: [iql]", "compare.H1.right: must differ from left"),
    ("right: iql}", "right: iql, rule: larger}", "compare.H1.rule: unknown 'larger'; there are better, equal"),
    ("right: iql}", "right: iql, lineup: plain}", "compare.H1.left: unknown method 'iql+hit'; did you mean iql"),
    ("right: iql}", "right: iql, scenarios: [lbf]}", "compare.H1.scenarios: unknown scenario 'lbf'"),
    ("right: iql}", "}", "compare.H1: needs right"),
    ("kind: curves", "kind: curvs", "figures.curves.kind: unknown 'curvs'; did you mean curves?"),
    ("kind: curves", "kind: options, lineup: plain", "figures.curves.kind: options needs options"),
    ("kind: curves", "lineup: plain", "figures.curves: needs kind"),
    ("    seeds: 2", "    seeds: 3..1", "20: lineups.plain.seeds: must be a number, or first..last, not '3..1'"),
    ("    seeds: 2", "    seeds: 0", "lineups.plain.seeds: must be a whole number of at least 1"),
    ("    seeds: 2", "    seeds: 1e12", "lineups.plain.seeds: must be at most 1000000, not '1e12'"),
    ("    seeds: 2", "    seeds: 0..99999999999999", "lineups.plain.seeds: must be a number, or first..last"),
    ("    seeds: 2", f"    seeds: 0..{'9' * 5000}", "lineups.plain.seeds: must be a number, or first..last"),
    ("    seeds: 2", "    seeds: 7..4294967296", "lineups.plain.seeds: must be at most 1000000 seeds"),
    ("    seeds: 2", f"    options: {list(range(10_001))}", "plain: makes 10001 rows, more than the 10000"),
    ("block: 1", "block: 1e300", "4: block: must be at most 9007199254740992"),
    ("    seeds: 2", "    until: end", "lineups.plain.until: unknown 'end'"),
    ("    seeds: 2", "    options: [-1]", "lineups.plain.options: must be a whole number"),
    ("methods: [iql+hit, iql+mask]", "methods: [iql+hit]\n    options: 9", "num_options must be at most 2, not 9"),
    ("    seeds: 2", "    set: {walk.transitions: 10}", "lineups.plain.set.walk.transitions: walk.transitions: no row"),
    ("name: tiny", "methods: [iql]", "methods: belongs into each of the lineups"),
    ("name: tiny", "fraction: 2", "2: fraction: must lie in"),
    ("block: 1", "block: 0", "4: block: must be a whole number of at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), REPLACED, ids=[new for _, new, _ in REPLACED])
def test_errors_name_the_line(old, new, message):
    assert TINY.count(old) >= 1
    with pytest.raises(ConfigError) as refused:
        parse_campaign(TINY.replace(old, new, 1).encode())
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert re.match(r"campaign.yaml:\d+: ", str(refused.value))


def test_a_comparison_that_no_scenario_allows_is_impossible():
    text = f"""
lineups:
  one: {{scenarios: ["{GRID}"], methods: [iql]}}
  two: {{scenarios: [grid-5x5-2p], methods: [vdn]}}
compare:
  H1: {{left: vdn, right: iql}}
"""
    with pytest.raises(ConfigError, match="campaign.yaml:6: compare.H1: impossible: no scenario has both vdn and iql"):
        parse_campaign(text.encode())


def test_methods_are_compared_where_both_are_planned():
    text = f"""
lineups:
  one: {{scenarios: ["{GRID}", grid-5x5-2p], methods: [iql, vdn]}}
  two: {{scenarios: [grid-5x5-2p], methods: [mappo]}}
compare:
  H1: {{left: vdn, right: [iql, mappo]}}
"""
    (claim,) = parse_campaign(text.encode()).claims
    assert claim.against == ((GRID, "iql"), ("grid-5x5-2p", "iql"), ("grid-5x5-2p", "mappo"))


def test_seeds_far_apart_are_not_all_planned():
    text = f"""
lineups:
  one: {{scenarios: ["{GRID}"], methods: [iql], seeds: 0..1}}
  two: {{scenarios: ["{GRID}"], methods: [iql], seeds: 4000000000..4000000001}}
"""
    with pytest.raises(ConfigError, match="seeds must be at most 1000000, not 4000000002"):
        _ = parse_campaign(text.encode()).wanted


def test_two_settings_under_one_name_are_refused():
    text = f"""
lineups:
  one: {{scenarios: ["{GRID}"], methods: [iql], set: {{learning.episodes: 3}}}}
  two: {{scenarios: ["{GRID}"], methods: [iql], set: {{learning.episodes: 4}}, variant: one}}
"""
    with pytest.raises(ConfigError, match="campaign.yaml:4: lineups.two: .* iql@one has other settings in one"):
        parse_campaign(text.encode())


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(), st.text(max_size=8))
WORDS = st.sampled_from(
    ["iql", "iql+hit", "hit", GRID, "scenarios", "methods", "set", "lineups", "compare", "figures", "steps", "0..3"]
)
VALUES = st.recursive(
    PLAIN | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["name", "runs", "scenarios", "methods", "options", "seeds", "steps", "fraction", "block", "until", "set",
     "lineups", "compare", "figures", "pages", "other"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(FIELDS, VALUES, max_size=6))
def test_malformed_files_give_one_line_and_no_other_error(changes):
    value = {"scenarios": [GRID], "methods": ["iql", "iql+hit"]} | changes
    try:
        parse_campaign(yaml.safe_dump(value).encode())
    except ConfigError as error:
        assert "\n" not in str(error)
