"""The rewards that joint options have earned, and those of the team without options.

An option is credited with the rewards of steps in which an agent follows it, and with a decaying part of the rewards
after that. Options of one kind (the same behaviour of different agents) share a record.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cooptions.errors import require_number

AFTERMATH = 0.9
"""The factor by which an option's credit decays with each step since an agent followed it."""
NEVER = 10_000
"""The number of steps after which no credit is left. It also stands for "never"."""
PATIENCE = 100.0
"""After this many steps under options of a kind, its reward rate counts half; before, less."""
GRACE = 1000.0
"""The number of prior steps under options, which earn as much as steps of the team by itself."""
FORGETTING = 0.999
"""The factor by which the record decays per update, because rewards change as the team learns."""


@dataclass(frozen=True)
class MeritConfig:
    """How the rewards that options have earned affect which ones the team draws with a shared coin."""

    merit_share: float = 0.8
    """Fraction of shared draws in proportion to the options' reward per step (`Merit`). The other draws are uniform."""
    yields: bool = True
    """Whether options are drawn less often if steps under them earn less than steps of the team by itself."""

    def __post_init__(self) -> None:
        require_number("choice.merit_share", self.merit_share, at_least=0, at_most=1)

    def weights(self, merit: "Merit") -> Float[Array, " option"]:
        """The probability of drawing each option. The rest, up to 1, is that of drawing none."""
        return merit.weights(self.merit_share, yields=self.yields)


class Merit(eqx.Module):
    """The record of every kind of option, and of the team by itself."""

    since: Int[Array, "env kind"]
    """Steps since an agent followed each kind, within the current episode of each environment."""
    earned: Float[Array, " kind"]
    led: Float[Array, " kind"]
    """Steps in which at least one agent followed it."""
    owed: Float[Array, ""]
    """The reward credited to options in total. A reward that is credited to several kinds counts once."""
    under: Float[Array, ""]
    """Steps credited to options, with the same weights as their rewards."""
    own: Float[Array, ""]
    """The other rewards, which the team earned by itself."""
    alone: Float[Array, ""]
    """The other steps."""
    kinds: tuple[int, ...] = eqx.field(static=True)
    """The kind of each option."""

    @classmethod
    def none(cls, num_envs: int, kinds: tuple[int, ...]) -> "Merit":
        """An empty record for options of these kinds."""
        zeros, zero = jnp.zeros(max(kinds, default=-1) + 1), jnp.zeros(())
        return cls(jnp.full((num_envs, len(zeros)), NEVER), zeros, zeros, zero, zero, zero, zero, kinds)

    def after(
        self,
        option: Int[Array, "time env agent"],
        first: Bool[Array, "time env"],
        reward: Float[Array, "time env"],
    ) -> "Merit":
        """The record after a roll-out in which the agents followed these options, -1 for none. `first` marks ticks that
        begin an episode; options followed before get no credit for rewards from there on."""
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
        """The probability of drawing each option: `share` in proportion to its kind's reward per step, the rest uniform
        over kinds.

        Options of one kind are equally likely. With `yields`, all probabilities are multiplied by `worth`. The rest, up
        to 1, is the probability of drawing none.
        """
        rate = jnp.maximum(self.earned, 0.0) / (self.led + PATIENCE)
        alike = jnp.full_like(rate, 1 / max(rate.shape[0], 1))
        total = rate.sum()
        weights = (1 - share) * alike + share * jnp.where(total > 0, rate / jnp.where(total > 0, total, 1.0), alike)
        weights = weights * self.worth if yields else weights
        return (weights / np.maximum(np.bincount(self.kinds, minlength=len(weights)), 1))[np.array(self.kinds, int)]

    @property
    def worth(self) -> Float[Array, ""]:
        """The reward per step under options divided by that of the team by itself; at most 1, and initially 1."""
        alone = jnp.maximum(self.own, 0.0) / jnp.maximum(self.alone, 1.0)
        under = (jnp.maximum(self.owed, 0.0) + GRACE * alone) / (self.under + GRACE)
        return jnp.minimum(jnp.where(alone > 0, under / jnp.where(alone > 0, alone, 1.0), 1.0), 1.0)
