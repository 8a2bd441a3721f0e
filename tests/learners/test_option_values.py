"""Values of primitives and joint options, learned from steps, against value iteration over the semi-Markov process."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.probe import Corridors
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.macro import MacroEnv
from cooptions.training.loop import train

LENGTH, GAMMA = 6, 0.7
STEPS = np.array([0, -1, 1])
GOAL = LENGTH - 1


class Ways(AbstractOptions):
    """Of each sub-team, forth to a place, and back to the start; they end there."""

    forth: int = eqx.field(static=True)
    options: tuple[Option, ...] = eqx.field(static=True)
    max_steps: int = eqx.field(static=True, default=50)
    epsilon: float = eqx.field(static=True, default=0.0)

    def actions(self, agent_states, observation, action_mask):
        place = agent_states[:, 0]
        forth = jnp.where(place == self.forth, 3, jnp.where(place < self.forth, 2, 1))
        back = jnp.where(place == 0, 3, 1)
        return jnp.tile(jnp.stack([forth, back]), (self.num_options // 2, 1))


def corridor(num_agents, forth, pays=(1.0,)):
    """Options for each sub-team, of which there is one for each weight of its rewards."""
    env = Corridors(pays, num_agents)
    teams = np.repeat(np.eye(len(pays), dtype=bool), num_agents, axis=1).tolist()
    options = [
        Option(f"{way} {i}", tuple(team), num_agents) for i, team in enumerate(teams) for way in ("forth", "back")
    ]
    return MacroEnv(env, Ways(forth, tuple(options)))


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
    shown = jnp.broadcast_to(jnp.eye(LENGTH)[:, None], (LENGTH, env.num_agents, LENGTH))
    memory = learner.init_memory(env, LENGTH)
    _, values = learner.values(network, memory, shown[None], jnp.ones((1, LENGTH), bool))
    return np.asarray(values[0])


@pytest.mark.parametrize("keep", ["none", pytest.param("all", marks=pytest.mark.slow)])
def test_values_of_primitives_and_options_are_those_of_value_iteration(keep):
    exact = exact_values(3)
    values = learned_values(replace(corridor(1, 3), keep=keep), CONFIG)[:GOAL]
    np.testing.assert_allclose(values[:, 0], exact, atol=0.02 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("mixer", "recurrent"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in (("none", False), *TEAMS)],
)
def test_every_agent_of_a_team_knows_what_an_option_is_worth(mixer, recurrent):
    """To go forth together is best everywhere, and so options have exact values, whatever the mates explore alone."""
    exact = exact_values(GOAL)[:, 3:]
    network = replace(CONFIG.network, recurrent=recurrent)
    values = learned_values(corridor(2, GOAL), replace(CONFIG, mixer=mixer, network=network))[:GOAL, :, 3:]
    values = values.sum(axis=1, keepdims=True) if mixer == "sum" else values
    for agent in range(values.shape[1]):
        np.testing.assert_allclose(values[:, agent], exact, atol=0.02 * np.abs(exact).max())


def two_teams(mixer, mates, pays):
    """What the options of two sub-teams are worth to their members, as learned: [place, team, mate, forth or back]; and
    exactly."""
    choice = ChoiceConfig(valued=True, option_share=0.5, merit_share=0.0, yields=False)
    values = learned_values(corridor(mates, GOAL, pays), replace(CONFIG, mixer=mixer, choice=choice))
    own = values[..., 3:].reshape(LENGTH, 2, mates, 2, 2)  # [place, team, mate, option's team, forth or back]
    exact = np.concatenate([exact_values(GOAL)[:, 3:], np.zeros((1, 2))])  # nothing is left to gain at the end
    return np.stack([own[:, 0, :, 0], own[:, 1, :, 1]], axis=1), exact


@pytest.mark.slow
@pytest.mark.parametrize("mates", [1, 2])
def test_sub_teams_side_by_side_learn_what_their_options_are_worth_together(mates):
    """Values are summed over the team (VDN): those of both options add up, wherever each sub-team is."""
    own, exact = two_teams("sum", mates, (1.0, 1.0))
    first, second = own.sum(axis=2).swapaxes(0, 1)
    together = first[:, None, :, None] + second[None, :, None, :]
    expected = exact[:, None, :, None] + exact[None, :, None, :]
    both_there = np.zeros((LENGTH, LENGTH), bool)
    both_there[GOAL, GOAL] = True  # the episode is over
    np.testing.assert_allclose(together[~both_there], expected[~both_there], atol=0.02 * np.abs(expected).max())


@pytest.mark.slow
def test_what_one_sub_team_does_is_no_concern_of_another():
    """Every agent for itself (IQL): the first pair earns, the second walks in its own corridor for nothing."""
    own, exact = two_teams("none", 2, (1.0, 0.0))
    for member in (0, 1):
        np.testing.assert_allclose(own[:GOAL, 0, member], exact[:GOAL], atol=0.02 * np.abs(exact).max())


@pytest.mark.slow
def test_options_without_values_teach_primitives():
    config = replace(CONFIG, choice=ChoiceConfig(option_share=0.5, merit_share=0.0))
    values = learned_values(corridor(1, 3), config)[:GOAL]
    np.testing.assert_allclose(values[:, 0], exact_values(3)[:, :3], atol=0.02)
