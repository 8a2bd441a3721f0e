"""Export of any environment, joint options included, as a JaxMARL environment."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, Shaped

from cooptions.envs.adapters.entries import entries
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.base import AbstractEnv
from cooptions.types import TimeStep

with quiet_import():
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv
    from jaxmarl.environments.spaces import Box, Discrete

PerAgent = dict[str, Array]


class Exported(eqx.Module):
    """Our state with its observations and action masks, because JaxMARL computes both from the state alone."""

    inner: Any
    observation: Shaped[Array, "agent ..."]
    action_mask: Bool[Array, "agent action"]


class ToJaxMARL(MultiAgentEnv):
    """An environment for JaxMARL's learners: agents `agent_0`, `agent_1`, ..., each with the team's reward.

    `step` resets automatically, as in JaxMARL; `step_env` does not. Every entry of `info` has a value per agent, and
    all but `votes` are the same for every agent. The entries are every score by name and `discount`, which is 1 if a
    time limit ended the episode. With joint options there are also `option` (the one that continues in the next step,
    or -1), its `age`, and `votes` (how many agents chose the same option as this agent; 0 if it chose a primitive
    action). Shaped rewards are in `info["shaped_reward"]`, by agent, as in JaxMARL's Overcooked.

        exported = co.to_jaxmarl(co.MacroEnv(env, options))
        observations, state = exported.reset(key)
    """

    def __init__(self, env: AbstractEnv) -> None:
        super().__init__(num_agents=env.num_agents)
        self.env = env
        _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
        seen = timestep.observation
        self.observation_spaces = {agent: Box(-jnp.inf, jnp.inf, seen.shape[1:], seen.dtype) for agent in self.agents}
        self.action_spaces = {agent: Discrete(env.num_actions) for agent in self.agents}

    @property
    def name(self) -> str:
        """The name by which JaxMARL's Q-learning scripts (`CTRolloutManager`) decide how to treat an environment.

        They use action masks only if the name contains Hanabi or SMAX. The treatment of Hanabi is the right one: the
        mask comes from `get_legal_moves`, and the team's reward is that of any agent instead of the sum over agents.
        """
        return f"{type(self.env).__name__} (masked like Hanabi)"

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """The agents by class. Agents with the same features are in one class."""
        kinds: dict[str, list[str]] = {}
        for agent, kind in zip(self.agents, self.env.agent_types, strict=True):
            kinds.setdefault(f"type_{kind}", []).append(agent)
        return kinds

    def observation_space(self, agent: str = "agent_0") -> Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str = "agent_0") -> Discrete:
        return self.action_spaces[agent]

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: PRNGKeyArray) -> tuple[PerAgent, Exported]:
        inner, timestep = self.env.reset(key)
        state = Exported(inner, timestep.observation, timestep.action_mask)
        return self.get_obs(state), state

    def step_env(
        self, key: PRNGKeyArray, state: Exported, actions: PerAgent
    ) -> tuple[PerAgent, Exported, PerAgent, PerAgent, dict[str, Any]]:
        # Some of JaxMARL's scripts leave an axis of length 1 on an agent's action.
        action = jnp.stack([jnp.reshape(actions[agent], ()) for agent in self.agents]).astype(jnp.int32)
        inner, timestep = self.env.step(state.inner, action, key)
        state = Exported(inner, timestep.observation, timestep.action_mask)
        rewards = self._to_all(timestep.reward)
        dones = self._to_all(timestep.last) | {"__all__": timestep.last}
        return self.get_obs(state), state, rewards, dones, self._info(timestep, action)

    def get_obs(self, state: Exported) -> PerAgent:
        return dict(zip(self.agents, state.observation, strict=True))

    @partial(jax.jit, static_argnums=0)
    def get_avail_actions(self, state: Exported) -> PerAgent:
        return dict(zip(self.agents, state.action_mask, strict=True))

    def get_legal_moves(self, state: Exported) -> PerAgent:
        """The action masks, under Hanabi's name for them."""
        return self.get_avail_actions(state)

    def _to_all(self, value: Array) -> PerAgent:
        return dict.fromkeys(self.agents, value)

    def _info(self, timestep: TimeStep, action: Int[Array, " agent"]) -> dict[str, Any]:
        # Per agent, because JaxMARL's scripts reshape or mask every entry like `returned_episode`.
        info: dict[str, Any] = dict(entries(self.env, timestep, action))
        if self.env.shaping_horizon > 0:
            info["shaped_reward"] = self._to_all(timestep.shaped_reward)
        return info
