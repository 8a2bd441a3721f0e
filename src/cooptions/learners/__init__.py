"""Learners: one for values (IQL, VDN, options), one for policies (IPPO, MAPPO)."""
