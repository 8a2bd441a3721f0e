"""Checks of a configuration before any of its stages runs."""

from collections.abc import Collection

from cooptions.discovery.discovered import untrained
from cooptions.discovery.memory import require_representation_fits, require_spectrum_fits
from cooptions.discovery.walks import dataset_shapes, walk_bytes
from cooptions.envs.base import AbstractEnv
from cooptions.options.train import require_options_fit
from cooptions.runs.config import Config
from cooptions.training.memory import enlarged, require_fits, require_room


def require_possible(config: Config, stages: Collection[str], task: AbstractEnv | None) -> None:
    """Raise `ConfigError` if one of these stages would fail: incompatible parts, or too little memory.

    `task` has the shapes of the learning environment, or is None if nothing is to be learned. With it, more options
    than the learner can take are refused before they are discovered.
    """
    discovering = config.discovering
    if "walk" in stages:
        _ = config.discovery
        needed = walk_bytes(config.env, config.walk, discovering.seeds)
        require_room("walk", needed, "walk.transitions or seeds")
    if not {"representation", "spectrum", "options"}.isdisjoint(stages):
        _require_discovery(discovering, stages)
    if task is not None:
        shrink = enlarged(config.learning.learner, "learning.learner", "learning.episodes", "seeds")
        require_fits(config.learning.stage, task, config.keys("learning"), "learning", shrink=shrink)


def _require_discovery(config: Config, stages: Collection[str]) -> None:
    """Check representation, Laplacian and options in the same way. `config` has only the seeds that discover."""
    discovery = config.discovery
    data = dataset_shapes(discovery.team, config.seeds, config.walk.shape)
    if "representation" in stages:
        require_representation_fits(discovery, data, config.keys("representation"))
    if "spectrum" in stages:
        require_spectrum_fits(discovery, data, config.keys("laplacian"))
    if "options" in stages:
        found = untrained(discovery, config.seeds, config.walk.shape)
        require_options_fit(config.option_env, found, config.options, config.eigenoptions, config.keys("options"))
