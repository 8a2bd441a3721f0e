"""Exact values of joint options on small grids: of the optimal joint policy, and of a given one."""

from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from cooptions.envs.grid import Grid, State


@dataclass(frozen=True)
class JointModel:
    """The joint states and joint actions of a grid, with the transitions. "Terminate" is each agent's last action."""

    positions: Int[np.ndarray, "state agent 2"]
    actions: Int[np.ndarray, "joint agent"]
    following: Int[np.ndarray, "state joint"]
    allowed: Bool[np.ndarray, "state joint"]
    movers: Int[np.ndarray, " joint"]
    terminate: int


def joint_model(env: Grid) -> JointModel:
    """The model of a grid, made by stepping the environment from every joint state with every joint action."""
    cells = np.argwhere(env.free)
    numbers = np.array(list(product(range(len(cells)), repeat=env.num_agents)))
    actions = np.array(list(product(range(env.num_actions + 1), repeat=env.num_agents)))
    ends = actions == env.num_actions
    executed = np.where(ends, env.noop, actions)
    states = jax.vmap(env.place)(jnp.asarray(cells[numbers]))

    def outcomes(state: State) -> tuple[jax.Array, jax.Array]:
        step = jax.vmap(lambda action: env.step(state, action, jax.random.key(0))[0].position)
        available = jnp.all(env.action_mask(state)[jnp.arange(env.num_agents), executed] | ends, axis=1)
        return step(jnp.asarray(executed)), available

    positions, allowed = jax.lax.map(outcomes, states, batch_size=64)
    index = np.full(env.free.shape, -1)
    index[tuple(cells.T)] = np.arange(len(cells))
    cell = index[np.asarray(positions[..., 0]), np.asarray(positions[..., 1])]
    following = np.ravel_multi_index(tuple(np.moveaxis(cell, -1, 0)), (len(cells),) * env.num_agents)
    movers = ((actions != env.noop) & ~ends).sum(axis=1)
    return JointModel(cells[numbers], actions, following, np.asarray(allowed), movers, env.num_actions)


def step_rewards(
    model: JointModel, value: Float[np.ndarray, " state"], step_cost: float, effort: float
) -> Float[np.ndarray, "state joint"]:
    """The reward of each joint action for climbing `value`. Terminating together has reward 0."""
    reward = value[model.following] - value[:, None] - step_cost - effort * model.movers
    return np.where(_all_end(model), 0.0, reward)


def optimal_values(
    model: JointModel, reward: Float[np.ndarray, "state joint"], discount: float, tolerance: float = 1e-9
) -> Float[np.ndarray, " state"]:
    """The optimal values of the joint MDP, by value iteration."""
    carries_on = discount * ~_all_end(model)
    values = np.zeros(len(reward))
    while True:
        update = np.where(model.allowed, reward + carries_on * values[model.following], -np.inf).max(axis=1)
        if np.abs(update - values).max() < tolerance:
            return update
        values = update


def policy_values(
    model: JointModel,
    reward: Float[np.ndarray, "state joint"],
    joint: Int[np.ndarray, "state agent"],
    discount: float,
    num_steps: int,
) -> Float[np.ndarray, " state"]:
    """The discounted return of a deterministic joint policy over at most `num_steps` steps."""
    chosen = np.ravel_multi_index(tuple(joint.T), (model.terminate + 1,) * joint.shape[1])
    rows = np.arange(len(joint))
    carries_on = discount * ~_all_end(model)[chosen]
    values = np.zeros(len(joint))
    for _ in range(num_steps):
        values = reward[rows, chosen] + carries_on * values[model.following[rows, chosen]]
    return values


def _all_end(model: JointModel) -> Bool[np.ndarray, " joint"]:
    return np.all(model.actions == model.terminate, axis=1)
