"""The paper's figures and claims from runs that are planned, made where they are missing, and kept as results."""
