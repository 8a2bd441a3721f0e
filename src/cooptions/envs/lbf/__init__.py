"""Level-Based Foraging with the paper's rules or Jumanji's."""

from cooptions.envs.lbf.env import Foraging, State
from cooptions.envs.lbf.rules import RULE_SETS, Rules

__all__ = ["RULE_SETS", "Foraging", "Rules", "State"]
