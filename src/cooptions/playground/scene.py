"""A scene: an environment with what one seed of a run has discovered, trained and learned in it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners
from cooptions.envs.wrapper import innermost
from cooptions.errors import ConfigError, require
from cooptions.options.base import AbstractOptions
from cooptions.options.execution import follow, spreads
from cooptions.playground.board import Board
from cooptions.playground.lens import Lens, numbers
from cooptions.playground.scenery import picture, scenery, shares_cells, value_names
from cooptions.plots import colours
from cooptions.runs.episodes import play_episode
from cooptions.runs.team import LearnedTeam


@dataclass(frozen=True, eq=False)
class Scene:
    """What the page shows. Everything but the environment and its board may be missing."""

    env: AbstractEnv
    board: Board
    lens: Lens | None
    options: AbstractOptions | None
    team: LearnedTeam | None

    def describe(self) -> dict[str, Any]:
        """Everything that does not change while the page is used."""
        names = value_names(self.env)
        features = [
            {"name": f.name, "kind": f.kind, "size": f.size, "low": f.low, "high": f.high, "names": names.get(f.name)}
            for f in self.env.features
        ]
        ground = self.board.floor.picture
        return {
            "board": self.board.describe(),
            "features": features,
            "num_agents": self.env.num_agents,
            "colours": ["#{:02x}{:02x}{:02x}".format(*colours.agent_colour(i)) for i in range(self.env.num_agents)],
            "actions": list(self.env.action_names),
            "shares_cells": shares_cells(self.env),
            "floor": None if ground is None else picture(ground),
            "found": None if self.lens is None else self.lens.describe(),
            "options": self._option_list(),
            "option_steps": 0 if self.options is None else self.options.max_steps,
            "learned": self.team is not None,
            "spread_scale": numbers(self._spread_scale),
        }

    def start(self, seed: int) -> dict[str, Any]:
        """The start of an episode with this seed."""
        state, _ = _reset(self.env, jax.random.key(seed))
        states = np.asarray(self.env.agent_states(state))
        return {"states": numbers(states), "scenery": scenery(self.env, jax.tree.map(lambda leaf: leaf[None], state))}

    def look(self, agent_states: Float[np.ndarray, "agent feature"], agent: int) -> dict[str, Any]:
        """Eigenfunctions and n-distances at one joint state, and maps of the eigenfunctions as one agent moves."""
        self.board.check(agent_states)
        told = self._along(agent_states[None])[0]
        return told if self.lens is None else told | {"maps": numbers(self.lens.maps(agent_states, agent))}

    def play(self, agent_states: Float[np.ndarray, "agent feature"], option: int, seed: int) -> dict[str, Any]:
        """Execute one option from the given states until it ends."""
        if self.options is None:
            raise ConfigError("this run has no options; `cooptions options RUN` trains them")
        require(0 <= option < self.options.num_options, f"option: there are 0 to {self.options.num_options - 1}")
        self.board.check(agent_states)
        key = jax.random.key(seed)
        begun = Runners(*self.env.reset_to(agent_states, key))
        done = jax.device_get(_follow(self.env, self.options, jnp.int32(option), begun, key=key))
        length, members = int(done.length), np.array(self.options.options[option].members)
        last = np.where(members & bool(done.terminated), self.env.num_actions, self.env.noop)
        actions = np.concatenate([done.actions[:length], last[None]])
        steps = self._along(done.agent_states)[: length + 1]
        names = (*self.env.action_names, "")
        for step, row in zip(steps, actions.tolist(), strict=True):
            step["votes"] = [action == self.env.num_actions for action in row]
            step["actions"] = [names[action] for action in row]
        shown = scenery(self.env, jax.tree.map(lambda leaf: leaf[: length + 1], done.states))
        over = "step limit" if length == self.options.max_steps else "the episode ended"
        return {"steps": steps, "ended": "the team" if done.terminated else over, "scenery": shown}

    def episode(self, seed: int) -> dict[str, Any]:
        """One episode of the learned team, with its votes and rewards."""
        if self.team is None:
            raise ConfigError("nothing was learned in this run; `cooptions train` or `cooptions run` does it")
        played = play_episode(self.team, jax.random.key(seed))
        names = self.team.env.action_names
        num_primitives = innermost(self.team.env).num_actions
        states = np.asarray(played.rollout.agent_states)
        steps: list[dict[str, Any]] = [{"states": numbers(row)} for row in states]
        for time, (row, options, votes, reward) in enumerate(
            zip(played.rollout.actions.tolist(), played.options, played.votes, played.rewards.tolist(), strict=True)
        ):
            acted = [names[action] if action < num_primitives else "" for action in row]
            steps[time] |= {
                "options": list(options),
                "votes": list(votes),
                "actions": acted,
                "reward": round(reward, 5),
            }
        return {"steps": steps, "scenery": scenery(innermost(self.env), played.rollout.states)}

    def warm_up(self) -> None:
        """Compile what dragging an agent needs."""
        states = np.asarray(self.start(0)["states"], np.float32)
        if self.lens is not None:
            _ = self.lens.scales
            for agent in range(self.env.num_agents):
                self.lens.maps(states, agent)
        self._along(states[None])

    def _along(self, agent_states: Float[np.ndarray, "time agent feature"]) -> list[dict[str, Any]]:
        states = np.asarray(agent_states)
        told = [{} for _ in states] if self.lens is None else self.lens.along(states)
        apart = spreads(self.env.features, self.env.agent_features, states)
        return [
            row | {"states": numbers(state), "spreads": numbers(spread)}
            for row, state, spread in zip(told, states, apart, strict=True)
        ]

    @cached_property
    def _spread_scale(self) -> Float[np.ndarray, " feature"]:
        states = self.board.random_states(256, np.random.default_rng(1))
        return np.maximum(spreads(self.env.features, self.env.agent_features, states).max(axis=0), 1e-6)

    def _option_list(self) -> list[dict[str, Any]]:
        return [
            {
                "name": option.name,
                "members": list(option.members),
                "eigenfunction": option.eigenfunction,
                "sign": option.sign,
            }
            for option in (self.options.options if self.options is not None else ())
        ]


@eqx.filter_jit
def _reset(env: AbstractEnv, key: PRNGKeyArray) -> Any:
    return env.reset(key)


@eqx.filter_jit
def _follow(env: AbstractEnv, options: AbstractOptions, option: Any, begun: Runners, *, key: PRNGKeyArray) -> Any:
    return follow(env, options, option, begun, key=key)
