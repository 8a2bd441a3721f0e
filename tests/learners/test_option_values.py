"""Values of primitives and joint options, learned from steps, against value iteration over the semi-Markov process."""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from cooptions.envs.base import AbstractEnv
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.macro import MacroEnv
from cooptions.training.loop import train
from cooptions.types import Feature, TimeStep, restart

LENGTH, GAMMA = 6, 0.7
STEPS = np.array([0, -1, 1])
GOAL = LENGTH - 1


class Walker(eqx.Module):
    place: Int[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Corridor(AbstractEnv[Walker]):
    """A team that moves where all agree, and else stays. Each step costs 0.1; the end of the corridor pays 1."""

    num_agents: int = 1
    num_actions: int = 3
    noop: int = 0
    score_names: tuple[str, ...] = ("steps",)
    features: tuple[Feature, ...] = (Feature.coordinate("x", LENGTH),)

    def reset(self, key):
        state = Walker(jax.random.randint(key, (), 0, GOAL), jnp.int32(0))
        return state, restart(self._shown(state), jnp.ones((self.num_agents, 3), bool), num_scores=1)

    def step(self, state, action, key):
        agreed = jnp.where((action == action[0]).all(), jnp.asarray(STEPS)[action[0]], 0)
        place = jnp.clip(state.place + agreed, 0, GOAL)
        state = Walker(place, state.time + 1)
        there, late = place == GOAL, state.time >= 30
        return state, TimeStep(
            observation=self._shown(state),
            action_mask=jnp.ones((self.num_agents, 3), bool),
            reward=jnp.where(there, 1.0, -0.1),
            discount=1.0 - there,
            last=there | late,
            score=state.time[None].astype(jnp.float32),
        )

    def _shown(self, state):
        return jnp.broadcast_to(jax.nn.one_hot(state.place, LENGTH), (self.num_agents, LENGTH))

    def agent_states(self, state):
        return jnp.full((self.num_agents, 1), state.place, jnp.float32)


class Ways(AbstractOptions):
    """Forth to a place, and back to the start; they end there."""

    forth: int = eqx.field(static=True)
    options: tuple[Option, ...] = eqx.field(static=True)
    max_steps: int = eqx.field(static=True, default=50)
    epsilon: float = eqx.field(static=True, default=0.0)

    def actions(self, agent_states, observation, action_mask):
        place = agent_states[0, 0]
        forth = jnp.where(place == self.forth, 3, jnp.where(place < self.forth, 2, 1))
        back = jnp.where(place == 0, 3, 1)
        return jnp.broadcast_to(jnp.stack([forth, back])[:, None], (2, agent_states.shape[0]))


def corridor(num_agents, forth):
    members = (True,) * num_agents
    options = (Option("forth", members, num_agents), Option("back", members, num_agents))
    return MacroEnv(Corridor(num_agents), Ways(forth, options))


def exact_values(forth):
    """Values [place, action] of three primitives and two options, by value iteration."""

    def primitive(place, action):
        after = int(np.clip(place + STEPS[action], 0, GOAL))
        return (1.0, 0.0, after) if after == GOAL else (-0.1, GAMMA, after)

    def option(place, goal):
        total, weight = 0.0, 1.0
        while True:
            toward = 0 if place == goal else 2 if place < goal else 1
            reward, discount, place = primitive(place, toward)
            total, weight = total + weight * reward, weight * discount
            if place == goal or weight == 0:
                return total, weight, place

    outcomes = [[*(primitive(p, a) for a in range(3)), option(p, forth), option(p, 0)] for p in range(GOAL)]
    values = np.zeros((LENGTH, 5))
    for _ in range(200):
        best = values.max(axis=1)
        values[:GOAL] = [[r + d * best[after] for r, d, after in row] for row in outcomes]
    return values[:GOAL]


CONFIG = QConfig(
    steps=32_000,
    num_envs=4,
    rollout=4,
    batch=64,
    capacity=4000,
    learning_starts=200,
    learning_rate=3e-3,
    anneal=True,
    target_interval=4,
    max_gradient_norm=10.0,
    discount=GAMMA,
    epsilon_finish=1.0,
    choice=ChoiceConfig(valued=True, option_share=0.5, merit_share=0.0),
    network=NetworkConfig(hidden=(64, 64)),
)


TEAMS = (("sum", False), ("none", True), ("sum", True))


def learned_values(env, config):
    """Values [place, agent, action] of a trained learner."""
    learner = QLearner(config)
    keys = jax.random.split(jax.random.key(0), 1)
    data = jax.tree.map(lambda leaf: leaf[None], env)
    trained = train(learner, data, keys, name="q", num_steps=config.num_updates, log_steps=config.num_updates)
    network = jax.tree.map(lambda leaf: leaf[0], trained.state.network)
    shown = jnp.broadcast_to(jnp.eye(LENGTH)[:GOAL, None], (GOAL, env.num_agents, LENGTH))
    memory = learner.init_memory(env, GOAL)
    _, values = learner.values(network, memory, shown[None], jnp.ones((1, GOAL), bool))
    return np.asarray(values[0])


@pytest.mark.parametrize("keep", ["none", pytest.param("all", marks=pytest.mark.slow)])
def test_values_of_primitives_and_options_are_those_of_value_iteration(keep):
    exact = exact_values(3)
    values = learned_values(replace(corridor(1, 3), keep=keep), CONFIG)
    np.testing.assert_allclose(values[:, 0], exact, atol=0.02 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("mixer", "recurrent"),
    [("none", False), *(pytest.param(*case, marks=pytest.mark.slow) for case in TEAMS)],
)
def test_every_agent_of_a_team_knows_what_an_option_is_worth(mixer, recurrent):
    """To go forth together is best everywhere, and so options have exact values, whatever the mates explore alone."""
    exact = exact_values(GOAL)[:, 3:]
    network = replace(CONFIG.network, recurrent=recurrent)
    values = learned_values(corridor(2, GOAL), replace(CONFIG, mixer=mixer, network=network))[..., 3:]
    values = values.sum(axis=1, keepdims=True) if mixer == "sum" else values
    for agent in range(values.shape[1]):
        np.testing.assert_allclose(values[:, agent], exact, atol=0.02 * np.abs(exact).max())


@pytest.mark.slow
def test_options_without_values_teach_primitives():
    config = replace(CONFIG, choice=ChoiceConfig(option_share=0.5, merit_share=0.0))
    values = learned_values(corridor(1, 3), config)
    np.testing.assert_allclose(values[:, 0], exact_values(3)[:, :3], atol=0.02)
