"""Action selection by Q-values: exploration, joint options, and votes to continue an active option."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.rollout import uniform_action
from cooptions.errors import require_number
from cooptions.learners.option_credit import MeritConfig
from cooptions.learners.partition import first_fitting
from cooptions.types import MacroStep, TimeStep


@dataclass(frozen=True)
class ChoiceConfig(MeritConfig):
    """How joint options are chosen. No effect in environments without options."""

    valued: bool = False
    """Whether options have Q-values, by which agents choose them. Each is learned on every step that is consistent
    with the option. Otherwise options only serve exploration, and the team learns values of primitives only."""
    exploration: Literal["independent", "shared"] = "shared"
    """How options are drawn for exploration. `independent`: each agent draws alone, and an option starts only if
    enough members draw it. `shared`: the team draws with one coin (the paper's Assumption 2), and options with
    disjoint members are drawn together."""
    option_share: float = 0.1
    """Fraction of exploratory decisions that are options, with `shared` exploration. Options last many steps, so
    their share of all steps is much larger."""
    patience: float = 0.5
    """A member votes against its active option if the option's Q-value is below best - patience x |best|, where best is
    the highest Q-value. `keep` sets the votes needed to continue. 0 with `keep=all` is the paper's rule."""
    evaluated: bool = False
    """Whether options that have values may be chosen during evaluation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("choice.option_share", self.option_share, at_least=0, at_most=1)
        require_number("choice.patience", self.patience, at_least=0)

    @property
    def when_evaluated(self) -> "ChoiceConfig":
        """The configuration for evaluation, in which exploration never draws options."""
        return replace(self, valued=self.valued and self.evaluated, exploration="shared", option_share=0.0)


def greedy(values: Float[Array, "*batch action"], mask: Bool[Array, "*batch action"]) -> Int[Array, "*batch"]:
    """The best available action."""
    return jnp.argmax(jnp.where(mask, values, -jnp.inf), axis=-1)


def state_value(
    chooser: Float[Array, "*batch action"], values: Float[Array, "*batch action"], mask: Bool[Array, "*batch action"]
) -> Float[Array, "*batch"]:
    """The value of the available action that the chooser likes best."""
    return jnp.take_along_axis(values, greedy(chooser, mask)[..., None], axis=-1)[..., 0]


def epsilon_greedy(
    values: Float[Array, "*batch action"],
    mask: Bool[Array, "*batch action"],
    epsilon: Float[Array, ""],
    *,
    key: PRNGKeyArray,
    explored: Bool[Array, "*batch action"] | None = None,
) -> Int[Array, "*batch"]:
    """The best available action, or with probability epsilon a uniform draw from `explored` (by default `mask`)."""
    coin_key, action_key = jax.random.split(key)
    best = greedy(values, mask)
    explores = jax.random.uniform(coin_key, best.shape) < epsilon
    return jnp.where(explores, uniform_action(mask if explored is None else explored, key=action_key), best)


def choose(
    config: ChoiceConfig,
    values: Float[Array, "env agent valued"],
    timestep: TimeStep,
    epsilon: Float[Array, ""],
    *,
    key: PRNGKeyArray,
    weights: Float[Array, " option"] | None = None,
) -> Int[Array, "env agent"]:
    """The team's actions. `values` are those of the primitives, then those of options that have values. `weights` are
    the options' probabilities in a shared draw (by default equal); the rest, up to 1, is that of drawing none."""
    macro, mask = timestep.macro, timestep.action_mask
    if macro is None:
        return epsilon_greedy(values, mask, epsilon, key=key)
    own_key, team_key = jax.random.split(key)
    primitive = _primitive(mask, macro)
    values = _padded(values, mask)
    explored = mask if config.exploration == "independent" else mask & primitive
    own = epsilon_greedy(values, mask if config.valued else mask & primitive, epsilon, key=own_key, explored=explored)
    if config.exploration == "shared" and config.option_share > 0:
        chance = epsilon * config.option_share * (1.0 if weights is None else weights.sum())
        own = draw_together(timestep, own, chance, key=team_key, weights=weights)
    return follow(timestep, own, _willing(config, values, timestep) if config.valued else None)


def draw_together(
    timestep: TimeStep,
    action: Int[Array, "env agent"],
    chance: Float[Array, " env"] | Float[Array, ""] | float,
    *,
    key: PRNGKeyArray,
    weights: Float[Array, " option"] | None = None,
) -> Int[Array, "env agent"]:
    """With probability `chance`, replace actions of agents that follow no option by votes for options drawn for them.

    An option whose members are all free is drawn, then another whose members are still free, until none fits.
    `weights` are the options' relative probabilities.
    """
    macro, mask = timestep.macro, timestep.action_mask
    assert macro is not None, "there are no options to draw"
    coin_key, option_key = jax.random.split(key)
    num_primitives = mask.shape[-1] - macro.continues.shape[-1]
    preference = _preference(mask.any(axis=1) & ~_primitive(mask, macro), weights, key=option_key)[:, num_primitives:]
    fitting = jax.vmap(partial(first_fitting, rounds=macro.most_at_once))
    can_vote = jnp.swapaxes(mask[..., num_primitives:], 1, 2)
    drawn = fitting(preference, can_vote, macro.active < 0)
    draws = jax.random.uniform(coin_key, drawn.shape[:1]) < chance
    return jnp.where(draws[:, None] & (drawn >= 0), num_primitives + drawn, action)


def _preference(
    offered: Bool[Array, "env action"], weights: Float[Array, " option"] | None, *, key: PRNGKeyArray
) -> Float[Array, "env action"]:
    """Random numbers whose descending order is a weighted draw without replacement (the Gumbel trick). Actions that are
    not offered get -inf."""
    if weights is None:
        return jnp.where(offered, jax.random.uniform(key, offered.shape), -jnp.inf)
    logits = jnp.log(jnp.pad(weights, (offered.shape[-1] - weights.shape[0], 0)))
    logits = jnp.where(offered, logits, -jnp.inf)
    return logits + jax.random.gumbel(key, logits.shape, logits.dtype)


def follow(
    timestep: TimeStep, action: Int[Array, "env agent"], willing: Bool[Array, "env agent"] | None = None
) -> Int[Array, "env agent"]:
    """Replace actions of members of active options by votes to continue: of all members, or of the `willing` ones."""
    macro, mask = timestep.macro, timestep.action_mask
    assert macro is not None, "there are no options to follow"
    going_on = _vote_to_go_on(timestep)
    led = (macro.active >= 0) & jnp.take_along_axis(mask, going_on, axis=2)[..., 0]
    return jnp.where(led if willing is None else led & willing, going_on[..., 0], action)


def _willing(
    config: ChoiceConfig, values: Float[Array, "env agent action"], timestep: TimeStep
) -> Bool[Array, "env agent"]:
    """Which agents value their active option nearly as much as their best choice (see `patience`)."""
    best = jnp.where(timestep.action_mask, values, -jnp.inf).max(axis=-1)
    value = jnp.take_along_axis(values, _vote_to_go_on(timestep), axis=2)[..., 0]
    return value >= best - config.patience * jnp.abs(best)


def _vote_to_go_on(timestep: TimeStep) -> Int[Array, "env agent 1"]:
    """The action that votes for the option that an agent follows, if it follows one."""
    macro, mask = timestep.macro, timestep.action_mask
    assert macro is not None
    num_primitives = mask.shape[-1] - macro.continues.shape[-1]
    return (num_primitives + jnp.maximum(macro.active, 0))[..., None]


def _primitive(mask: Bool[Array, "env agent action"], macro: MacroStep) -> Bool[Array, " action"]:
    return jnp.arange(mask.shape[-1]) < mask.shape[-1] - macro.continues.shape[-1]


def _padded(
    values: Float[Array, "env agent valued"], mask: Bool[Array, "env agent action"]
) -> Float[Array, "env agent action"]:
    """The values of all actions, with -inf for actions that have none."""
    missing = mask.shape[-1] - values.shape[-1]
    return jnp.pad(values, ((0, 0), (0, 0), (0, missing)), constant_values=-jnp.inf)
