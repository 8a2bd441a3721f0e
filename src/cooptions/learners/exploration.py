"""How a team chooses: greedily or exploring, among primitives and joint options, and whether to go on with one."""

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
    """What joint options are to a learner. Without options in the environment, nothing here matters."""

    valued: bool = False
    """Whether options have values of their own, learned on every step that is consistent with them, for which they
    can be chosen. Otherwise they only explore: the team follows them now and then, and learns about primitives."""
    exploration: Literal["independent", "shared"] = "shared"
    """Who draws an option when exploring: each agent for itself, and nothing happens unless all draw the same; or
    the team with one coin, the synchronisation of the paper's Assumption 2. Where options are for some of the agents,
    those that are free draw as many as fit beside each other."""
    option_share: float = 0.1
    """How many of the decisions that explore are options, where the coin is shared. An option lasts many steps, so
    that it leads its members for a much larger share of them."""
    patience: float = 0.5
    """How much less than the best choice, relative to that, an active option may be worth to a member before it
    votes against going on; the environment's `keep` says how many must. 0 with `keep=all` is the paper's rule."""
    evaluated: bool = False
    """Whether options may be chosen when the team is evaluated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("choice.option_share", self.option_share, at_least=0, at_most=1)
        require_number("choice.patience", self.patience, at_least=0)

    @property
    def when_evaluated(self) -> "ChoiceConfig":
        """The choice of a team that is evaluated: exploration, if any, is of primitives alone."""
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
    """The best available action, or with probability epsilon any one of those `explored`: by default, all available."""
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
    """What the team does. `values` are of the primitives, and of the options if they have any; `weights` say how
    likely each option is drawn, alike if left out; what is missing to 1 is that none is."""
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
    """With some chance, the agents that follow no option draw some together, and whoever can vote for one of them does.

    Drawn is an option whose members are all free, then another one among those whose members are free still, until none
    fits. `weights` say which more often than which.
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
    """Random numbers, minus infinity for what is not offered: the highest is at each action as often as its weight
    says, the highest of the others at each of these, and so on (the Gumbel trick)."""
    if weights is None:
        return jnp.where(offered, jax.random.uniform(key, offered.shape), -jnp.inf)
    logits = jnp.log(jnp.pad(weights, (offered.shape[-1] - weights.shape[0], 0)))
    logits = jnp.where(offered, logits, -jnp.inf)
    return logits + jax.random.gumbel(key, logits.shape, logits.dtype)


def follow(
    timestep: TimeStep, action: Int[Array, "env agent"], willing: Bool[Array, "env agent"] | None = None
) -> Int[Array, "env agent"]:
    """Members of active options vote for them, all or those who are willing; the others do what they chose."""
    macro, mask = timestep.macro, timestep.action_mask
    assert macro is not None, "there are no options to follow"
    going_on = _vote_to_go_on(timestep)
    led = (macro.active >= 0) & jnp.take_along_axis(mask, going_on, axis=2)[..., 0]
    return jnp.where(led if willing is None else led & willing, going_on[..., 0], action)


def _willing(
    config: ChoiceConfig, values: Float[Array, "env agent action"], timestep: TimeStep
) -> Bool[Array, "env agent"]:
    """To whom an active option is worth nearly as much as the best choice."""
    best = jnp.where(timestep.action_mask, values, -jnp.inf).max(axis=-1)
    value = jnp.take_along_axis(values, _vote_to_go_on(timestep), axis=2)[..., 0]
    return value >= best - config.patience * jnp.abs(best)


def _vote_to_go_on(timestep: TimeStep) -> Int[Array, "env agent 1"]:
    """The action that is a vote for the option that an agent follows, if there is one."""
    macro, mask = timestep.macro, timestep.action_mask
    assert macro is not None
    num_primitives = mask.shape[-1] - macro.continues.shape[-1]
    return (num_primitives + jnp.maximum(macro.active, 0))[..., None]


def _primitive(mask: Bool[Array, "env agent action"], macro: MacroStep) -> Bool[Array, " action"]:
    return jnp.arange(mask.shape[-1]) < mask.shape[-1] - macro.continues.shape[-1]


def _padded(
    values: Float[Array, "env agent valued"], mask: Bool[Array, "env agent action"]
) -> Float[Array, "env agent action"]:
    """Actions without values are worth less than anything."""
    missing = mask.shape[-1] - values.shape[-1]
    return jnp.pad(values, ((0, 0), (0, 0), (0, missing)), constant_values=-jnp.inf)
