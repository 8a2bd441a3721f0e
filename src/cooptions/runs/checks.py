"""What can be told of a run before anything of it is made."""

from cooptions.discovery.walks import walk_bytes
from cooptions.envs.base import AbstractEnv
from cooptions.runs.config import Config
from cooptions.runs.stages import STAGES
from cooptions.training.memory import require_fits, require_room


def require_possible(config: Config, until: str, task: AbstractEnv | None) -> None:
    """Refuse a run up to a stage that would fail on its way: parts that do not fit together, too little memory.

    `task` has the shapes of what would be learned in, if anything is to be: options more than the learner can take are
    refused before they are discovered.
    """
    stages = (*STAGES[until].after(config), until)
    if "walk" in stages:
        _ = config.discovery
        needed = walk_bytes(config.env, config.walk, config.discovering.seeds)
        require_room("walk", needed, "walk.transitions or seeds")
    if task is not None:
        shrink = "learning.learner.capacity, learning.learner.num_envs, learning.learner.batch or seeds"
        require_fits(config.learning.stage, task, config.keys("learning"), "learning", shrink=shrink)
