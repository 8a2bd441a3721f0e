"""The record of one episode or one execution of an option: what every picture is drawn from."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from cooptions.errors import require


class Rollout(eqx.Module):
    """States, and the actions between them, of which the first `length` are real; the rest is padding."""

    states: Any
    """The environment's own states; the leading axis is time, with one entry more than `actions`."""
    agent_states: Float[Array | np.ndarray, "states agent feature"]
    actions: Int[Array | np.ndarray, "time agent"]
    """The primitive actions; `env.num_actions` stands for "terminate"."""
    length: Int[Array | np.ndarray, ""]

    def trim(self) -> "Rollout":
        """The real steps alone, on the host; of one roll-out, not of a batch."""
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
