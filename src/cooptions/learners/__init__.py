"""Learners: one for values (IQL, VDN, options), one for policies (IPPO, MAPPO)."""

from cooptions.learners.ppo import PpoConfig
from cooptions.learners.q_learning import QConfig

Learner = QConfig | PpoConfig
