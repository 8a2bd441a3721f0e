"""Environments of JaxMARL and Jumanji by name: one file each, which declares a factorisation and nothing more."""
