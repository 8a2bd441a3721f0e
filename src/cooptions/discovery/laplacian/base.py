"""The interface of Laplacian estimators: the slowest functions of z along a walk, in order of eigenvalue."""

import abc
from typing import Generic, TypeVar

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.envs.team import Team
from cooptions.parts import Registry
from cooptions.training.loop import Metrics

State = TypeVar("State")
Solution = TypeVar("Solution")


class Pairs(eqx.Module):
    """Standardised relative states before and after each transition of a walk."""

    z: Float[Array, "*seed transition z"]
    next_z: Float[Array, "*seed transition z"]


class AbstractLaplacian(abc.ABC, Generic[State, Solution]):
    """A frozen dataclass of hyperparameters. All methods are for one seed.

    Eigenfunctions minimise E[(e(z') - e(z))^2] / 2 subject to unit variance and zero correlation under the walk's
    visitation distribution. The constant one is left out. They are in ascending order of eigenvalue, slowest first.
    """

    num_eigenfunctions: int

    def for_team(self, team: Team, num_z: int) -> "AbstractLaplacian":
        """The estimator for a team with `num_z` components of z. Most estimators return themselves."""
        return self

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """The number of gradient steps; 0 if `init` returns a closed-form solution."""

    @abc.abstractmethod
    def init(self, data: Pairs, *, key: PRNGKeyArray) -> State: ...

    @abc.abstractmethod
    def step(self, state: State, data: Pairs, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...

    @abc.abstractmethod
    def solution(self, state: State) -> Solution:
        """The part of the final training state that is kept."""

    @abc.abstractmethod
    def eigenfunctions(self, solution: Solution, z: Float[Array, " z"]) -> Float[Array, " k"]: ...

    @abc.abstractmethod
    def eigenvalues(self, solution: Solution) -> Float[Array, " k"]:
        """The eigenvalues of I - (P + P*)/2, where P* is the time reversal, in ascending order. Near 0 is slow."""


LAPLACIANS: Registry[type[AbstractLaplacian]] = Registry(
    "laplacian", "cooptions.discovery.laplacian", AbstractLaplacian
)
"""Estimators by name. Each registers itself in its own file."""
