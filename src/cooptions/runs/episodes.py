"""Episodes of a learned team: play one, and write it as a GIF with captions."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import innermost, innermost_state
from cooptions.learners.acting import leading_option
from cooptions.plots import Rollout, add_captions, frames, save_gif

if TYPE_CHECKING:
    from cooptions.runs.team import LearnedTeam

LONGEST_EPISODE = 10_000


@dataclass(frozen=True)
class Episode:
    """One episode of a team: its roll-out, rewards, options and votes."""

    rollout: Rollout
    rewards: Float[np.ndarray, " time"]
    options: tuple[tuple[str, ...], ...]
    """The option that each agent followed at each step; empty for none."""
    votes: tuple[tuple[str, ...], ...]
    """The option that each agent voted for at each step; empty if it chose a primitive action."""


class _Played(eqx.Module):
    """The data that is kept of a step."""

    state: Any
    agent_states: Float[Array, "agent feature"]
    action: Array
    reward: Array
    option: Array
    last: Array


def play_episode(team: "LearnedTeam", key: PRNGKeyArray) -> Episode:
    """Play one episode, of at most `LONGEST_EPISODE` steps."""
    env, learner = team.env, team.config.build()
    start_key, play_key = jax.random.split(key)
    state, timestep = _begin(env, start_key)
    memory = learner.init_memory(env, 1)
    begun = innermost_state(env, state), env.agent_states(state)
    played: list[_Played] = []
    while not played or not (bool(played[-1].last) or len(played) >= LONGEST_EPISODE):
        time = jnp.int32(len(played))
        memory, state, timestep, kept = _go_on(env, team.policy, (memory, state, timestep), time, play_key, learner)
        played.append(jax.device_get(kept))
    whole = jax.tree.map(lambda *leaves: _numpy_of(leaves[0]).stack(leaves), *played)
    states = jax.tree.map(lambda first, rest: _numpy_of(first).concatenate([first[None], rest]), begun[0], whole.state)
    places = np.concatenate([np.asarray(begun[1])[None], whole.agent_states])
    rollout, names = Rollout(states, places, whole.action, np.asarray(len(played))), option_names(env)
    led = tuple(tuple(names[option] for option in row) for row in whole.option.tolist())
    own = innermost(env).num_actions  # higher numbers are votes for options
    votes = tuple(tuple(names[max(action - own, -1)] for action in row) for row in whole.action.tolist())
    return Episode(rollout, whole.reward, led, votes)


def _numpy_of(leaf: Any) -> Any:
    """The module that combines leaves. NumPy lacks random keys, which are part of some environments' states."""
    return jnp if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np


@eqx.filter_jit
def _begin(env: AbstractEnv, key: PRNGKeyArray) -> Any:
    return env.reset(key)


@eqx.filter_jit
def _go_on(
    env: AbstractEnv, policy: Any, now: tuple[Any, Any, Any], time: Array, key: PRNGKeyArray, learner: Any
) -> tuple[Any, Any, Any, _Played]:
    """Take one step. All episodes of a team share the compiled program."""
    memory, state, timestep = now
    action_key, step_key = jax.random.split(jax.random.fold_in(key, time))
    one = jax.tree.map(lambda leaf: leaf[None], timestep)
    memory, action = learner.act(policy, memory, one, (time == 0)[None], key=action_key)
    state, timestep = env.step(state, action[0], step_key)
    option = leading_option(jax.tree.map(lambda leaf: leaf[None], timestep))[0]
    inner = innermost_state(env, state)
    kept = _Played(inner, env.agent_states(state), action[0], timestep.reward, option, timestep.last)
    return memory, state, timestep, kept


def write_episode(path: Path, episode: Episode, env: AbstractEnv) -> None:
    """Write an episode as a GIF, with captions for the step, the options in effect, and the agents' votes."""
    images = frames(innermost(env), episode.rollout.states)
    if getattr(env, "options", None) is not None:
        images = add_captions(images, vote_captions(episode))
    save_gif(path, add_captions(images, episode_captions(episode)), fps=6.0)


def option_names(env: AbstractEnv) -> dict[int, str]:
    """The names of an environment's options by number. The name for -1, no option, is empty."""
    options = getattr(env, "options", None)
    names = [option.name for option in options.options] if options is not None else []
    return {-1: "", **dict(enumerate(names))}


def episode_captions(episode: Episode) -> list[str]:
    """A caption for each state: the step, the options that led to it, and the reward so far."""
    steps, total = len(episode.rewards), np.cumsum(episode.rewards)
    lines = [f"step 0/{steps}"]
    for step, options in enumerate(episode.options):
        names = dict.fromkeys(option for option in options if option)  # each once, in the order of the agents
        led = f"   {', '.join(names)}" if names else ""
        lines.append(f"step {step + 1}/{steps}{led}   reward {total[step]:.2f}")
    return lines


def vote_captions(episode: Episode) -> list[str]:
    """A caption for each state: the option that each agent voted for in the step before."""
    lines = [
        "   ".join(f"{agent}: {option}" for agent, option in enumerate(row, start=1) if option) for row in episode.votes
    ]
    return ["votes", *(f"votes   {line or 'none'}" for line in lines)]
