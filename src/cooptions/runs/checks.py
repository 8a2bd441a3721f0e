"""What can be told of a run before anything of it is made."""

from cooptions.discovery.walks import walk_bytes
from cooptions.runs.config import Config
from cooptions.runs.run import untrained_task
from cooptions.runs.stages import STAGES
from cooptions.training.memory import require_fits, require_room


def require_possible(config: Config, until: str) -> None:
    """Refuse a run up to a stage that would fail on its way: options that the learner cannot take, too little memory."""
    stages = (*STAGES[until].after(config), until)
    if "walk" in stages:
        needed = walk_bytes(config.env, config.walk, config.discovering.seeds)
        require_room("walk", needed, "walk.transitions or seeds")
        _ = config.discovery  # parts that do not fit together
    if "learning" in stages:
        shrink = "learning.learner.capacity, learning.learner.num_envs, learning.learner.batch or seeds"
        task = untrained_task(config)
        require_fits(config.learning.stage, task, config.keys("learning"), "learning", shrink=shrink)
