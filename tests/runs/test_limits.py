"""Invalid numbers are refused with one line that names the field, before anything is made."""

from dataclasses import replace

import pytest

from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.exact import Exact
from cooptions.discovery.laplacian.kronecker import Kronecker
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.disentangle import CmiConfig
from cooptions.discovery.representations.distance import DistanceConfig
from cooptions.discovery.representations.fermat import FermatConfig
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.walks import WalkConfig
from cooptions.errors import ConfigError
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.ppo import DrawingConfig, PpoConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.macro import MacroConfig
from cooptions.options.train import OptionsConfig
from cooptions.runs.config import Config, LearningConfig

NAN = float("nan")
BAD = {
    WalkConfig: [
        {"transitions": 0}, {"transitions": 10**14}, {"num_envs": 0}, {"features": ("x", "x")},
    ],
    QConfig: [
        {"learning_rate": -1.0}, {"learning_rate": NAN}, {"max_gradient_norm": -1.0}, {"max_gradient_norm": NAN},
        {"discount": NAN}, {"discount": 1.1}, {"epsilon_start": NAN}, {"epsilon_finish": -0.1}, {"epsilon_decay": -1.0},
        {"epsilon_decay": NAN}, {"epsilon_evaluation": 7.0}, {"trace": NAN}, {"learning_starts": -5},
        {"learning_starts": 99_999_999_999}, {"batch": 10_000_000}, {"batch": 0}, {"epochs": 0}, {"capacity": -1},
        {"num_envs": 0}, {"num_envs": 10**12}, {"rollout": 0}, {"steps": 10**30}, {"target_interval": 0},
    ],
    PpoConfig: [
        {"learning_rate": NAN}, {"decay": NAN}, {"clip": NAN}, {"clip": 0.0}, {"value_clip": NAN}, {"entropy": NAN},
        {"minibatches": 0},
    ],
    DrawingConfig: [{"chance": NAN}, {"merit_share": NAN}],
    ChoiceConfig: [{"option_share": NAN}, {"patience": NAN}, {"patience": -1.0}],
    NetworkConfig: [
        {"hidden": (0,)},
        {"hidden": (-3, 4)},
        {"hidden": (10**9,)},
        {"channels": (0, 1, 1)},
        {"kernels": (5, 3, -1)},
    ],
    OptionsConfig: [
        {"epsilon": 7.0}, {"epsilon": NAN}, {"margin": NAN}, {"margin": -1.0}, {"start_steps": -1},
        {"num_starts": 10**12},
        {"step_cost": NAN}, {"effort": NAN}, {"max_steps": 0},
    ],
    MacroConfig: [{"num_options": -1}, {"discoveries": -1}],
    Hit: [
        {"learning_rate": NAN},
        {"learning_rate": -1.0},
        {"discount": NAN},
        {"cap": NAN},
        {"batch": 10**9},
        {"hidden": (0,)},
    ],
    DistanceConfig: [{"learning_rate": NAN}, {"discount": NAN}, {"num_pairs": 10**9}, {"hidden": (-1,)}],
    FermatConfig: [{"batch": 10**9}, {"hidden": (0,)}],
    CmiConfig: [{"weight": NAN}, {"first_weight": NAN}, {"learning_rate": NAN}, {"hidden": (0,)}],
    Allo: [{"learning_rate": NAN}, {"dual_rate": NAN}, {"barrier_rate": NAN}, {"num_eigenfunctions": 10**9}],
    Nystrom: [{"bandwidth": NAN}, {"num_eigenfunctions": 10**9}, {"num_landmarks": 10**9}],
    Exact: [{"num_eigenfunctions": 0}, {"max_values": 10**12}],
    Kronecker: [{"num_eigenfunctions": 10**9}],
}  # fmt: skip
CASES = [(kind, fields) for kind, cases in BAD.items() for fields in cases]


@pytest.mark.parametrize(("kind", "fields"), CASES, ids=[f"{kind.__name__}-{fields}" for kind, fields in CASES])
def test_a_bad_number_is_refused_with_its_field(kind, fields):
    kind()
    (name,) = fields
    with pytest.raises(ConfigError) as refused:
        kind(**fields)
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"seeds": 100_000_000}, "seeds must be at most 10000"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seed": 4294967295, "seeds": 2}, "seed must be at most 4294967294"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"learning": LearningConfig(macro=MacroConfig(num_options=1000))}, "macro.num_options must be at most 20"),
    ],
)
def test_an_invalid_run_is_refused(fields, named):
    with pytest.raises(ConfigError, match=named):
        Config("grid-5x5-2p", **fields)


def test_the_largest_seed_has_a_key():
    assert len(Config("grid-5x5-2p", seed=2**32 - 1).keys("walk")) == 1


def test_a_team_of_one_discovers_nothing():
    with pytest.raises(ConfigError, match="discovery is about how agents stand to each other; this team has 1"):
        _ = Config("lbf-5x5-1p-1f").discovery


def test_other_option_sources_may_have_any_number():
    learning = LearningConfig(macro=MacroConfig(num_options=1000, option_set="handmade"))
    assert replace(Config("grid-5x5-2p"), learning=learning)
