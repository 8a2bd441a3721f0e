"""Overrides of fields by dotted path."""

import pytest

from cooptions.campaigns.overrides import explain_missing, has_path, with_overrides
from cooptions.errors import ConfigError
from cooptions.learners.ppo import PpoConfig
from cooptions.learners.q_learning import QConfig
from cooptions.runs.config import Config, LearningConfig

CONFIG = Config(scenario="grid-4x4-2p")


@pytest.mark.parametrize(
    ("path", "given", "value"),
    [
        ("learning.learner.target_interval", 100, 100),
        ("learning.learner.target_interval", 1e2, 100),
        ("learning.learner.learning_rate", 1, 1.0),
        ("learning.learner.network.hidden", (8, 9), (8, 9)),
        ("learning.learner.network.hidden", 8, (8,)),
        ("learning.learner.double", False, False),
        ("learning.learner.mixer", "sum", "sum"),
        ("basis", "axes", "axes"),
        ("walk.features", "x", ("x",)),
    ],
)
def test_values_are_converted_to_the_fields_type(path, given, value):
    changed = with_overrides(CONFIG, [(path, given)])
    for name in path.split("."):
        changed = getattr(changed, name)
    assert (changed, type(changed)) == (value, type(value))


def test_dependent_fields_are_set_together():
    changed = with_overrides(CONFIG, [("learning.learner.steps", 9600), ("learning.evaluations", 2)])
    assert (changed.learning.learner.steps, changed.learning.evaluations) == (9600, 2)


def test_a_field_that_may_be_empty_takes_a_number():
    config = Config(scenario="grid-4x4-2p", learning=LearningConfig(learner=PpoConfig()))
    assert with_overrides(config, [("learning.learner.value_clip", 1)]).learning.learner.value_clip == 1.0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("learning.learner.target_interval", "often", "learning.learner.target_interval must be a whole number"),
        ("learning.learner.target_interval", 1.5, "must be a whole number, not 1.5"),
        ("learning.learner.target_interval", True, "must be a whole number, not True"),
        ("learning.learner.double", 1, "must be true or false, not 1"),
        ("learning.learner.mixer", "product", "must be one of none, sum, not 'product'"),
        ("learning.learner.network.hidden", ("a",), "must be a whole number, not 'a'"),
        ("learning.learner", 3, "has fields of its own"),
        ("learning.learner.batch", 0, "batch must be at least 1"),
    ],
)
def test_values_of_another_kind_are_refused(path, value, message):
    with pytest.raises(ConfigError, match=message):
        with_overrides(CONFIG, [(path, value)])


def test_parts_differ_in_their_fields():
    ppo = Config(scenario="grid-4x4-2p", learning=LearningConfig(learner=PpoConfig()))
    path = "learning.learner.target_interval"
    assert (has_path(CONFIG, path), has_path(ppo, path)) == (True, False)
    assert with_overrides(ppo, [(path, 3)]) == ppo
    assert explain_missing(ppo, path).startswith(f"{path}: unknown field of PpoConfig 'target_interval'")
    assert explain_missing(CONFIG, "seed.x") == "seed.x: seed has no fields"
    assert explain_missing(CONFIG, "basis") == "basis: no row here depends on it"
    assert QConfig().speed_name == "ours"
