"""The record of one episode or one execution of an option, from which pictures are drawn."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from cooptions.errors import require


class Rollout(eqx.Module):
    """States and the actions between them. The first `length` actions are real; the rest is padding."""

    states: Any
    """The environment's states. The leading axis is time, with one entry more than `actions`."""
    agent_states: Float[Array | np.ndarray, "states agent feature"]
    actions: Int[Array | np.ndarray, "time agent"]
    """The primitive actions; `env.num_actions` stands for "terminate"."""
    length: Int[Array | np.ndarray, ""]

    def trim(self) -> "Rollout":
        """The roll-out without padding, as NumPy arrays. Not for batches."""
        steps, entries = int(self.length), len(self.agent_states)
        require(
            entries == len(self.actions) + 1 and 0 <= steps < entries,
            f"Rollout: {entries} states, {len(self.actions)} actions and length {steps} do not fit together; "
            "give one state more than actions, and a length within them",
        )
        states = jax.tree.map(lambda leaf: leaf[: steps + 1], self.states)
        return Rollout(
            states=states,
            agent_states=np.asarray(self.agent_states)[: steps + 1],
            actions=np.asarray(self.actions)[:steps],
            length=np.asarray(steps),
        )
