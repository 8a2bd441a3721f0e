"""Learning algorithms: Q-learning (IQL, VDN), PQN, and PPO (IPPO, MAPPO)."""
