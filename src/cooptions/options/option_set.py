"""Option sets: the trained policies of joint options, with everything that is needed to execute them."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.subteam import env_for
from cooptions.envs.team import Team
from cooptions.errors import require
from cooptions.learners.exploration import greedy
from cooptions.learners.networks import Network, NetworkConfig, apply_team, init_networks
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.primitives import Primitives
from cooptions.options.sight import View
from cooptions.options.where_needed import where_needed
from cooptions.plots.rollout import Rollout


class OptionSet(AbstractOptions):
    """Trained joint options: policies that are greedy in learned values, one network per option and agent.

    Created by `co.train_options` or `co.load_options`.

        options = co.train_options(env, found, key=key)
        assert isinstance(options, co.OptionSet)
        options.play(env, "+e1", key=key, gif="gather.gif")
        options.save("my-options", env)
    """

    network: Network
    """The weights have leading axes [option, agent], or [option] if agents share a network."""
    options: tuple[Option, ...] = eqx.field(static=True)
    config: NetworkConfig = eqx.field(static=True)
    view: View = eqx.field(static=True)
    """What the policies observe."""
    primitives: Primitives = eqx.field(static=True)
    """The actions they choose from."""
    max_steps: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True)
    fixed_last: bool = eqx.field(static=True)
    """Whether the value of "terminate" is fixed at 0; otherwise it is the network's last output."""
    margin: float = eqx.field(static=True)
    """How much the value of an action must exceed those of standing still and terminating for it to be executed."""
    still_ends: bool = eqx.field(static=True)
    """Whether an agent that prefers to stand still votes to terminate."""

    def first(self, num: int) -> "OptionSet":
        """The first `num` options. Other leading axes of the weights, such as seeds, are kept."""
        axis = self.network.head.weights[0].ndim - (3 if self.config.shared else 4)  # [..., option, (agent,) in, out]
        network = jax.tree.map(lambda leaf: jax.lax.slice_in_dim(leaf, 0, num, axis=axis), self.network)
        return dataclasses.replace(self, network=network, options=self.options[:num])

    def roles(self, env: AbstractEnv) -> Bool[np.ndarray, "role agent"]:
        """Agents can take the roles of agents with the same features. The environment needs the set's features."""
        require(
            self.view.sight == "relation",
            f"options: {self.options[0].name} sees the observation of a task for {self.num_agents} agents and cannot "
            f'be placed among {env.num_agents}; train options with sight "relation"',
        )
        team, here = self.view.team, Team.of(env)
        require(
            team.features == here.features,
            f"options: {self.options[0].name} knows agents by {_told(team)}, the environment has {_told(here)}",
        )
        return np.array([[row == other for other in here.agent_features] for row in team.agent_features])

    def in_env(self, env: AbstractEnv) -> "OptionSet":
        """The same options for an environment whose actions are matched by name."""
        return dataclasses.replace(self, primitives=Primitives.of(env, self.primitives.names))

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        seen = self.view(agent_states, observation)
        return jax.vmap(lambda network: self._greedy(network, seen, action_mask))(self.network)

    def action_of(
        self,
        option: Int[Array, ""],
        agent: Int[Array, ""],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, ""]:
        """The action of one option for one agent. `where_needed` skips agents without an option. Each of the others
        copies its network."""

        def answer(
            networks: Network, option: Int[Array, ""], agent: Int[Array, ""], seen: Array, mask: Array
        ) -> Int[Array, ""]:
            place = (option,) if self.config.shared else (option, agent)
            network = jax.tree.map(lambda leaf: leaf[place], networks)
            return self._choose(network(jnp.zeros(0), seen[None], jnp.ones(1, bool))[1][0], mask)

        seen = self.view(agent_states, observation)[agent]
        return where_needed(answer, self.network, option >= 0, option, agent, seen, action_mask[agent])

    @jax.named_scope("options")
    def _greedy(
        self, network: Network, seen: Shaped[Array, "agent *seen"], action_mask: Bool[Array, "agent action"]
    ) -> Int[Array, " agent"]:
        """The greedy actions of one option's networks."""
        memory, begins = jnp.zeros((1, seen.shape[0], 0)), jnp.ones((1, 1), bool)
        _, values = apply_team(network, self.config, memory, seen[None, None], begins)
        return self._choose(values[0, 0], action_mask)

    def _choose(
        self, values: Float[Array, "*agent output"], action_mask: Bool[Array, "*agent action"]
    ) -> Int[Array, "*agent"]:
        """The best available action, or "terminate", given the networks' outputs."""
        agents, noop = values.shape[:-1], self.primitives.noop
        mask = jnp.concatenate([self.primitives.available(action_mask), jnp.ones((*agents, 1), bool)], axis=-1)
        if self.fixed_last:
            values = jnp.concatenate([values, jnp.zeros((*agents, 1))], axis=-1)
        rests = jnp.isin(jnp.arange(values.shape[-1]), jnp.array([noop, values.shape[-1] - 1]))
        best = greedy(jnp.where(rests, values, values - self.margin), mask)
        best = jnp.where(self.still_ends & (best == noop), values.shape[-1] - 1, best)
        return self.primitives.in_env(best)

    def play(
        self, env: AbstractEnv, name: str, *, key: PRNGKeyArray | None = None, gif: Path | str | None = None
    ) -> Rollout:
        """Follow the option `name` from a state that random play reached, and write a GIF if a path is given.

        Of 32 such starts, it chooses the one from which the option takes its median number of steps. If the environment
        has more agents than the options are for, the others act at random.
        """
        from cooptions.options.execution import play_option

        env = env_for(env, self.view.team)
        return play_option(env, self, name, key=jax.random.key(0) if key is None else key, gif=gif)

    def save(
        self,
        path: Path | str,
        env: AbstractEnv,
        *,
        scenario: str = "",
        license: str = "mit",
        overwrite: bool = False,
        key: PRNGKeyArray | None = None,
    ) -> None:
        """Write a directory that `co.load_options` reads, with a card that says what each option does in `env`.

        `scenario` is the environment's name for the card, if it has one. A directory with another set is replaced only
        if `overwrite` is true.
        """
        from cooptions.options.sharing.storage import publish

        told = {"scenario": scenario, "license": license, "overwrite": overwrite}
        publish(path, self, env, key=jax.random.key(0) if key is None else key, **told)

    def push(
        self,
        name: str,
        env: AbstractEnv,
        *,
        scenario: str = "",
        license: str = "mit",
        private: bool = False,
        key: PRNGKeyArray | None = None,
    ) -> str:
        """Upload what `save` writes to the Hugging Face Hub as `hf://owner/name`. Needs a token with write access.

        Returns the name at the new commit, from which `co.load_options` loads exactly these options.
        """
        from cooptions.options.sharing.storage import push_option_set

        told = {"scenario": scenario, "license": license, "private": private}
        return push_option_set(name, self, env, key=jax.random.key(0) if key is None else key, **told)


def _told(team: Team) -> str:
    """The features of a team's agents, with their ranges."""
    return ", ".join(f"{feature.name} {feature.low:g} to {feature.high:g}" for feature in team.features)


def init_policies(
    env: AbstractEnv, view: View, config: NetworkConfig, num_outputs: int, *, key: PRNGKeyArray
) -> Network:
    """The untrained networks of one option's agents."""
    return init_networks(env.num_agents, view.shape(env), config, num_outputs, key=key)
