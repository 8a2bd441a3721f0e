"""The values that joint options make, against value iteration over the semi-Markov process in plain numbers."""

import itertools
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from cooptions.envs.base import AbstractEnv
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.macro import MacroEnv
from cooptions.options.smdp import SmdpEnv
from cooptions.types import Feature, TimeStep, restart

KEY = jax.random.key(0)
LENGTH, GAMMA = 4, 0.9
PLACES = list(itertools.product(range(LENGTH), repeat=2))
GOAL = (LENGTH - 1, LENGTH - 1)
STEPS = (0, -1, 1)  # by primitive
CHOICES = np.array(list(itertools.product(range(5), repeat=2)))  # three primitives and two votes for each agent


class Walkers(eqx.Module):
    place: Int[Array, " agent"]


@dataclass(frozen=True)
class Corridor(AbstractEnv[Walkers]):
    """Two agents in a corridor pay for each step until both are at its end."""

    num_agents: int = 2
    num_actions: int = 3
    noop: int = 0
    score_names: tuple[str, ...] = ()
    features: tuple[Feature, ...] = (Feature.coordinate("x", LENGTH),)

    def reset(self, key):
        state = Walkers(jnp.zeros(2, int))
        return state, restart(self.agent_states(state), jnp.ones((2, 3), bool), num_scores=0)

    def step(self, state, action, key):
        state = Walkers(jnp.clip(state.place + jnp.array(STEPS)[action], 0, LENGTH - 1))
        there = (state.place == LENGTH - 1).all()
        reward, discount = jnp.where(there, 1.0, -0.1), 1.0 - there
        mask = jnp.ones((2, 3), bool)
        return state, TimeStep(self.agent_states(state), mask, reward, discount, there, jnp.zeros(0))

    def agent_states(self, state):
        return state.place[:, None].astype(jnp.float32)


def wants(option, place):
    """To the end, each for itself; or the first agent to the second."""
    if option == 0:
        return [2 if x < LENGTH - 1 else 3 for x in place]
    return [3 if place[0] == place[1] else 1 if place[0] > place[1] else 2, 3]


class Walks(AbstractOptions):
    table: Int[Array, "x x option agent"]
    max_steps: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True, default=0.0)

    @property
    def options(self):
        return Option("end", (True, True), 2), Option("meet", (True, True), 2)

    def actions(self, agent_states, observation, action_mask):
        x, y = agent_states[:, 0].astype(int)
        return self.table[x, y]


def corridor(limit):
    table = np.array([[wants(option, place) for option in (0, 1)] for place in PLACES]).reshape(LENGTH, LENGTH, 2, 2)
    return MacroEnv(Corridor(), Walks(jnp.asarray(table), limit))


def move(place, action):
    """The corridor once more, in plain numbers: where a step leads, its reward, and whether that is the end."""
    after = tuple(
        int(np.clip(x + (0 if a == 3 else STEPS[a]), 0, LENGTH - 1)) for x, a in zip(place, action, strict=True)
    )
    return after, (1.0 if after == GOAL else -0.1), after == GOAL


def model(choice, place, limit):
    """Discounted reward, discount to the state it leads to, and that state, for a joint primitive or an option."""
    if choice[0] < 3:
        after, reward, over = move(place, choice)
        return reward, 0.0 if over else GAMMA, after
    option, total, steps, over = choice[0] - 3, 0.0, 0, False
    while True:
        place, reward, over = move(place, wants(option, place))
        total, steps = total + GAMMA**steps * reward, steps + 1
        if over or steps == limit or wants(option, place) == [3, 3]:
            return total, 0.0 if over else GAMMA**steps, place


def exact_values(limit):
    """Values of all joint primitives and options by value iteration over the semi-Markov process."""
    choices = [*itertools.product(range(3), repeat=2), (3, 3), (4, 4)]
    values = {(place, choice): 0.0 for place in PLACES for choice in choices}
    outcomes = {key: model(key[1], key[0], limit) for key in values}
    for _ in range(60):
        best = {place: max(values[place, choice] for choice in choices) for place in PLACES}
        values = {key: reward + discount * best[after] for key, (reward, discount, after) in outcomes.items()}
    return values


def every_step(env, macro):
    """Where each joint choice leads from each state: [place, choice, ...]."""

    def begun(place):
        inner = Walkers(place)
        _, timestep = macro.env.reset(KEY)
        return macro._state(inner, timestep)

    each = jax.vmap(jax.vmap(env.step, in_axes=(None, 0, None)), in_axes=(0, None, None))
    state, timestep = jax.jit(lambda places: each(jax.vmap(begun)(places), CHOICES, KEY))(jnp.array(PLACES))
    after = np.asarray(state.inner.place) @ np.array([LENGTH, 1])
    return after, jax.tree.map(np.asarray, timestep)


@pytest.mark.parametrize("limit", [50, 2])
def test_smdp_steps_have_the_values_of_value_iteration(limit):
    macro = corridor(limit)
    after, timestep = every_step(SmdpEnv(macro, GAMMA), macro)
    values = np.zeros((len(PLACES), len(CHOICES)))
    for _ in range(60):
        values = timestep.reward + GAMMA * timestep.discount * values.max(axis=1)[after]
    for (place, choice), value in exact_values(limit).items():
        row, column = PLACES.index(place), CHOICES.tolist().index(list(choice))
        assert values[row, column] == pytest.approx(value, abs=1e-5)
        assert timestep.macro.action[row, column].tolist() == list(choice)
    lengths = timestep.macro.age[..., 0][:, CHOICES.tolist().index([3, 3])]
    assert lengths[PLACES.index((0, 1))] == min(limit, 3)
    assert (timestep.macro.active == -1).all()


def test_single_steps_teach_the_values_of_value_iteration():
    """What was executed and every consistent option, learned one step at a time, as `QLearner.loss` does."""
    macro = corridor(50)
    after, timestep = every_step(macro, macro)
    discount, told = GAMMA * timestep.discount, timestep.macro
    primitive = (told.action < 3).all(axis=-1)
    assert told.consistent[..., 0].any(axis=1).all()  # every option can be learned everywhere,
    assert told.consistent[:, -1, 1].all()  # while it is executed at the latest
    done, options = np.zeros((len(PLACES), 3, 3)), np.zeros((len(PLACES), 2))
    for _ in range(60):
        best = np.maximum(done.max(axis=(1, 2)), options.max(axis=1))[after]
        follow = np.where(told.continues, options[after], best[..., None])
        targets = timestep.reward[..., None] + discount[..., None] * follow
        options = np.stack(
            [[targets[row, told.consistent[row, :, w], w].mean() for w in (0, 1)] for row in range(len(PLACES))]
        )
        row, column = np.nonzero(primitive)
        first, second = told.action[row, column].T
        done[row, first, second] = (timestep.reward + discount * best)[row, column]
    for (place, choice), value in exact_values(50).items():
        row = PLACES.index(place)
        learned = done[row, choice[0], choice[1]] if choice[0] < 3 else options[row, choice[0] - 3]
        assert learned == pytest.approx(value, abs=1e-5)
