"""What joint options have earned: the rewards that came while one led the team, or soon after."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

AFTERMATH = 0.9
"""How much of a reward an option is credited with, for each step since it ended."""
PATIENCE = 100.0
"""Steps an option must have led before what it earned counts half."""
FORGETTING = 0.999
"""How much of the record is kept from one update to the next: a team that learns meets other rewards."""


class Merit(eqx.Module):
    """The record of every option."""

    trace: Float[Array, "env option"]
    """How much of a reward each would be credited with now."""
    earned: Float[Array, " option"]
    led: Float[Array, " option"]
    """Steps it led the team."""

    @classmethod
    def none(cls, num_envs: int, num_options: int) -> "Merit":
        return cls(jnp.zeros((num_envs, num_options)), jnp.zeros(num_options), jnp.zeros(num_options))

    def after(
        self,
        active: Int[Array, "time env"],
        first: Bool[Array, "time env"],
        reward: Float[Array, "time env"],
    ) -> "Merit":
        """The record after a rollout. `first` marks ticks that begin an episode, where nothing earlier counts."""
        leads = jax.nn.one_hot(active, self.earned.shape[0])

        def credit(trace: Array, tick: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            leads, first, reward = tick
            trace = jnp.maximum(leads, AFTERMATH * jnp.where(first[:, None], 0.0, trace))
            return trace, reward @ trace

        trace, earned = jax.lax.scan(credit, self.trace, (leads, first, reward))
        return Merit(
            trace, FORGETTING * self.earned + earned.sum(axis=0), FORGETTING * self.led + leads.sum(axis=(0, 1))
        )

    def weights(self, share: float) -> Float[Array, " option"]:
        """With which probability each is to be drawn: `share` of that by what it earned a step, the rest alike."""
        rate = jnp.maximum(self.earned, 0.0) / (self.led + PATIENCE)
        alike = jnp.full_like(rate, 1 / max(rate.shape[0], 1))
        total = rate.sum()
        return (1 - share) * alike + share * jnp.where(total > 0, rate / jnp.where(total > 0, total, 1.0), alike)
