"""The primitive actions of option policies, and their numbers in an environment."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require


@dataclass(frozen=True)
class Primitives:
    """The actions that policies choose from, by name, and their numbers in the environment.

    An environment may have additional actions and another order. For example, a set trained on five moves works in a
    task with a sixth action to load, which the policies never choose.
    """

    names: tuple[str, ...]
    noop: int
    """The index of the action that stands still."""
    places: tuple[int, ...]
    """The number of each action in the environment."""
    num_actions: int
    """The number of the environment's actions. As an action, this number means "terminate"."""

    @classmethod
    def of(cls, env: AbstractEnv, names: tuple[str, ...] | None = None) -> "Primitives":
        """The actions with these names, or all actions of the environment."""
        names = env.action_names if names is None else names
        for name in (env.action_names[env.noop], *names):
            known = name in names and name in env.action_names
            require(known, f"actions: {name!r} must be one of {', '.join(names)} and of {', '.join(env.action_names)}")
        places = tuple(env.action_names.index(name) for name in names)
        return cls(names, names.index(env.action_names[env.noop]), places, env.num_actions)

    @property
    def is_everything(self) -> bool:
        """Whether they are all of the environment's actions in the same order."""
        return self.places == tuple(range(self.num_actions))

    def available(self, action_mask: Bool[Array, "*agent action"]) -> Bool[Array, "*agent primitive"]:
        """The environment's action mask, restricted to these actions."""
        return action_mask if self.is_everything else action_mask[..., np.array(self.places)]

    def in_env(self, choice: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
        """The environment's actions for choices among these. The choice after the last one is "terminate"."""
        return choice if self.is_everything else jnp.asarray((*self.places, self.num_actions))[choice]
