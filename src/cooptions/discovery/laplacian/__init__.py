"""Laplacian estimators, which find the slowest functions of z along a random walk (paper, Sections 2.2 and 3.2)."""
