"""What joint options have earned: the rewards that came while one led the team, or soon after."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

AFTERMATH = 0.9
"""How much of a reward an option is credited with, for each step since it led the team."""
NEVER = 10_000
"""Steps after which nothing is left of that."""
PATIENCE = 100.0
"""Steps an option must have led before what it earned counts half."""
FORGETTING = 0.999
"""How much of the record is kept from one update to the next: a team that learns meets other rewards."""


class Merit(eqx.Module):
    """The record of every option."""

    since: Int[Array, "env option"]
    """Steps since each led the team in an environment, in the episode that goes on there."""
    earned: Float[Array, " option"]
    led: Float[Array, " option"]
    """Steps it led the team."""

    @classmethod
    def none(cls, num_envs: int, num_options: int) -> "Merit":
        return cls(jnp.full((num_envs, num_options), NEVER), jnp.zeros(num_options), jnp.zeros(num_options))

    def after(
        self,
        active: Int[Array, "time env"],
        first: Bool[Array, "time env"],
        reward: Float[Array, "time env"],
    ) -> "Merit":
        """The record after a rollout. `first` marks ticks that begin an episode, where nothing earlier counts."""
        length, num_options = active.shape[0], self.earned.shape[0]
        time = jnp.arange(length)[:, None, None]
        leads = active[..., None] == jnp.arange(num_options)
        led_at = jax.lax.cummax(jnp.where(leads, time, -NEVER), axis=0)
        led_at = jnp.maximum(led_at, -1 - self.since)
        begun_at = jax.lax.cummax(jnp.where(first[..., None], time, -NEVER), axis=0)
        since = jnp.minimum(jnp.where(led_at >= begun_at, time - led_at, NEVER), NEVER)
        earned = jnp.einsum("te,teo->o", reward, AFTERMATH**since)
        return Merit(since[-1], FORGETTING * self.earned + earned, FORGETTING * self.led + leads.sum(axis=(0, 1)))

    def weights(self, share: float) -> Float[Array, " option"]:
        """With which probability each is to be drawn: `share` of that by what it earned a step, the rest alike."""
        rate = jnp.maximum(self.earned, 0.0) / (self.led + PATIENCE)
        alike = jnp.full_like(rate, 1 / max(rate.shape[0], 1))
        total = rate.sum()
        return (1 - share) * alike + share * jnp.where(total > 0, rate / jnp.where(total > 0, total, 1.0), alike)
