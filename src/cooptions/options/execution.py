"""Execute options: roll-outs from many starts, and the spreads of features among agents."""

from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, uniform_action
from cooptions.errors import require
from cooptions.options.base import AbstractOptions
from cooptions.options.task import collect_starts
from cooptions.plots import Rollout, add_captions, frames, save_gif, step_captions
from cooptions.types import Feature

START_STEPS = 100
"""The maximum number of random steps before an option is followed."""

PICTURE_STARTS = 32
"""The number of starts from which the one that a picture shows is chosen."""


class Execution(eqx.Module):
    """The roll-out of one option from one start until it ends. After `length` steps, the last state is repeated."""

    states: Any
    """The environment's states, [time + 1, ...]."""
    agent_states: Float[Array, "*batch time_and_one agent feature"]
    actions: Int[Array, "*batch time agent"]
    """The agents' actions; the number of actions means "terminate"."""
    length: Int[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    """Whether the team ended it, not the step limit or the environment."""

    @property
    def rollout(self) -> Rollout:
        """The record that pictures are drawn from."""
        return Rollout(self.states, self.agent_states, self.actions, self.length)


def follow(
    env: AbstractEnv, options: AbstractOptions, option: Int[Array, ""], begun: Runners, *, key: PRNGKeyArray
) -> Execution:
    """Follow one option from one state. With the options' epsilon, a member takes a random action; termination depends
    on the greedy actions only. Other agents stand still."""
    members = jnp.asarray(options.members)[option]

    def wanted_at(now: Runners) -> Int[Array, " agent"]:
        seen = env.agent_states(now.state), now.timestep.observation, now.timestep.action_mask
        return jnp.where(members, options.actions_of(jnp.where(members, option, -1), *seen), env.noop)

    def step(carry: tuple[Runners, Array, Array], time: Array) -> tuple[tuple[Runners, Array, Array], Any]:
        now, over, terminated = carry
        coin_key, action_key, env_key = jax.random.split(jax.random.fold_in(key, time), 3)
        mask, wanted = now.timestep.action_mask, wanted_at(now)
        ends = ~over & jnp.all((wanted == env.num_actions) | ~members)
        explores = members & (jax.random.uniform(coin_key, (env.num_agents,)) < options.epsilon)
        action = jnp.where(explores, uniform_action(mask, key=action_key), wanted)
        executed = jnp.where(action == env.num_actions, env.noop, action)
        over, terminated = over | ends, terminated | ends
        stepped = Runners(*env.step(now.state, executed, env_key))
        onward = jax.tree.map(lambda new, old: jnp.where(over, old, new), stepped, now)
        recorded = jnp.where(over, env.num_actions, action)
        final = over | (stepped.timestep.discount == 0)
        return (onward, final, terminated), (onward.state, recorded, ~over)

    begin = (begun, jnp.bool_(False), jnp.bool_(False))
    (end, over, terminated), (states, actions, active) = jax.lax.scan(step, begin, jnp.arange(options.max_steps))
    terminated |= ~over & jnp.all((wanted_at(end) == env.num_actions) | ~members)
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), begun.state, states)
    return Execution(states, jax.vmap(env.agent_states)(states), actions, active.sum(), terminated)


@partial(jax.jit, static_argnums=0)
def follow_all(env: AbstractEnv, options: AbstractOptions, begun: Runners, *, key: PRNGKeyArray) -> Execution:
    """Follow every option from every start: [option, start, ...]."""
    num_starts = begun.timestep.last.shape[0]

    def one_option(option: Int[Array, ""]) -> Execution:
        keys = jax.random.split(jax.random.fold_in(key, option), num_starts)
        return jax.vmap(lambda begun, key: follow(env, options, option, begun, key=key))(begun, keys)

    return jax.lax.map(one_option, jnp.arange(options.num_options))


def spreads(
    features: tuple[Feature, ...],
    agent_features: Bool[np.ndarray, "agent feature"],
    agent_states: Float[Array | np.ndarray, "*batch agent feature"],
) -> Float[np.ndarray, "*batch feature"]:
    """The spread of each feature over the agents that have it.

    For ordered features, it is the sum of distances to the median; for categorical ones, the number of agents that
    differ from the most common value.
    """
    columns = []
    for index, feature in enumerate(features):
        values = np.asarray(agent_states)[..., agent_features[:, index], index]
        if feature.kind == "categorical":
            counts = (values[..., None] == np.arange(feature.size)).sum(axis=-2)
            columns.append(values.shape[-1] - counts.max(axis=-1))
        else:
            middle = np.median(values, axis=-1, keepdims=True)
            columns.append(np.abs(values - middle).sum(axis=-1))
    return np.stack(columns, axis=-1).astype(np.float64)


def play_option(
    env: AbstractEnv, options: AbstractOptions, name: str, *, key: PRNGKeyArray, gif: Path | str | None = None
) -> Rollout:
    """Follow the option `name` from a state that random play reached, and write a GIF if a path is given."""
    begun = collect_starts(env, PICTURE_STARTS, START_STEPS, key=key)
    return draw_option(env, options, name, begun, key=key, gif=gif)


@partial(jax.jit, static_argnums=0)
def follow_one(
    env: AbstractEnv, options: AbstractOptions, option: Int[Array, ""], begun: Runners, *, key: PRNGKeyArray
) -> Execution:
    """Follow one option from every start: [start, ...]."""
    keys = jax.random.split(key, begun.timestep.last.shape[0])
    return jax.vmap(lambda begun, key: follow(env, options, option, begun, key=key))(begun, keys)


def median_start(lengths: Int[Array | np.ndarray, " start"]) -> int:
    """The index of the first start from which an option takes its (upper) median number of steps."""
    ordered = np.sort(np.asarray(lengths))
    return int(np.argmax(np.asarray(lengths) == ordered[len(ordered) // 2]))


def draw_option(
    env: AbstractEnv,
    options: AbstractOptions,
    name: str,
    begun: Runners,
    *,
    key: PRNGKeyArray,
    gif: Path | str | None = None,
    fps: float = 6.0,
) -> Rollout:
    """Follow the option `name` from several states. Returns the roll-out of median length, and writes a GIF of it if a
    path is given.

    From some states, an option ends at once, so a GIF from a single start may show nothing.
    """
    names = [option.name for option in options.options]
    require(name in names, f"option: unknown {name!r}; there are {', '.join(names)}")
    followed = follow_one(env, options, jnp.int32(names.index(name)), begun, key=key)
    chosen = median_start(followed.length)
    rollout = jax.tree.map(lambda leaf: leaf[chosen], followed).rollout.trim()
    if gif is not None:
        captions = step_captions(name, rollout, env.num_actions)
        Path(gif).parent.mkdir(parents=True, exist_ok=True)
        save_gif(Path(gif), add_captions(frames(env, rollout.states), captions), fps=fps)
    return rollout
