"""What joint options have earned, and the team without them: options get the rewards that came while one led an agent,
and a part of those soon after. Options of one kind, the same behaviour of different agents, share a record."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cooptions.errors import require_number

AFTERMATH = 0.9
"""How much of a reward an option is credited with, for each step since it led the team."""
NEVER = 10_000
"""Steps after which nothing is left of that."""
PATIENCE = 100.0
"""Steps an option must have led before what it earned counts half."""
GRACE = 1000.0
"""Steps under options for which they are taken to earn what the team does by itself."""
FORGETTING = 0.999
"""How much of the record is kept from one update to the next: a team that learns meets other rewards."""


@dataclass(frozen=True)
class MeritConfig:
    """Which joint options a team draws with one coin, by what they have earned."""

    merit_share: float = 0.8
    """How many of the options drawn with a shared coin are drawn by what each has earned (`Merit`); the others are
    drawn alike."""
    yields: bool = True
    """Whether options are drawn the less often, the less a step under them earns than one of the team by itself."""

    def __post_init__(self) -> None:
        require_number("choice.merit_share", self.merit_share, at_least=0, at_most=1)

    def weights(self, merit: "Merit") -> Float[Array, " option"]:
        """With which probability each is to be drawn; what is missing to 1 is that of none."""
        return merit.weights(self.merit_share, yields=self.yields)


class Merit(eqx.Module):
    """The record of every kind of option, and of the team by itself."""

    since: Int[Array, "env kind"]
    """Steps since each led an agent of an environment, in the episode that goes on there."""
    earned: Float[Array, " kind"]
    led: Float[Array, " kind"]
    """Steps it led anybody."""
    owed: Float[Array, ""]
    """What is owed to options in all: a reward that several had a part in counts once."""
    under: Float[Array, ""]
    """Steps that options had a part in, each counted as far as its reward is."""
    own: Float[Array, ""]
    """The rest of the rewards: what the team earned by itself."""
    alone: Float[Array, ""]
    """The rest of the steps."""
    kinds: tuple[int, ...] = eqx.field(static=True)
    """Of which kind each option is."""

    @classmethod
    def none(cls, num_envs: int, kinds: tuple[int, ...]) -> "Merit":
        """The record before anything happened; `kinds` says of which kind each option is."""
        zeros, zero = jnp.zeros(max(kinds, default=-1) + 1), jnp.zeros(())
        return cls(jnp.full((num_envs, len(zeros)), NEVER), zeros, zeros, zero, zero, zero, zero, kinds)

    def after(
        self,
        option: Int[Array, "time env agent"],
        first: Bool[Array, "time env"],
        reward: Float[Array, "time env"],
    ) -> "Merit":
        """The record after a rollout in which these options led the agents, -1 for none. `first` marks ticks that begin
        an episode, where nothing earlier counts."""
        length, num_kinds = option.shape[0], self.earned.shape[0]
        time = jnp.arange(length)[:, None, None]
        kind = jnp.array((*self.kinds, -1))[option]
        leads = jnp.any(kind[..., None] == jnp.arange(num_kinds), axis=2)
        led_at = jax.lax.cummax(jnp.where(leads, time, -NEVER), axis=0)
        led_at = jnp.maximum(led_at, -1 - self.since)
        begun_at = jax.lax.cummax(jnp.where(first[..., None], time, -NEVER), axis=0)
        since = jnp.minimum(jnp.where(led_at >= begun_at, time - led_at, NEVER), NEVER)
        credit = AFTERMATH**since
        part = credit.max(axis=-1, initial=0.0)
        seen = (
            jnp.einsum("te,teo->o", reward, credit),
            leads.sum(axis=(0, 1)),
            (reward * part).sum(),
            part.sum(),
            (reward * (1 - part)).sum(),
            (1 - part).sum(),
        )
        kept = (self.earned, self.led, self.owed, self.under, self.own, self.alone)
        sums = (FORGETTING * old + new for old, new in zip(kept, seen, strict=True))
        return Merit(since[-1], *sums, kinds=self.kinds)

    def weights(self, share: float, *, yields: bool = False) -> Float[Array, " option"]:
        """With which probability each is to be drawn: `share` of that by what its kind earned a step, the rest alike.

        Options of one kind are equally likely. What is missing to 1 is the probability of none: if options are to
        yield, that of how much less they earn.
        """
        rate = jnp.maximum(self.earned, 0.0) / (self.led + PATIENCE)
        alike = jnp.full_like(rate, 1 / max(rate.shape[0], 1))
        total = rate.sum()
        weights = (1 - share) * alike + share * jnp.where(total > 0, rate / jnp.where(total > 0, total, 1.0), alike)
        weights = weights * self.worth if yields else weights
        return (weights / np.maximum(np.bincount(self.kinds, minlength=len(weights)), 1))[np.array(self.kinds, int)]

    @property
    def worth(self) -> Float[Array, ""]:
        """What a step under options earns, relative to one of the team by itself; at most 1, and 1 at first."""
        alone = jnp.maximum(self.own, 0.0) / jnp.maximum(self.alone, 1.0)
        under = (jnp.maximum(self.owed, 0.0) + GRACE * alone) / (self.under + GRACE)
        return jnp.minimum(jnp.where(alone > 0, under / jnp.where(alone > 0, alone, 1.0), 1.0), 1.0)
