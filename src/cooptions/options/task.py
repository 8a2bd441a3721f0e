"""The task on which an option is trained: climb an eigenfunction, and terminate when little is left to gain."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.discovery.discover import Evaluator
from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, advance, select, start, uniform_action
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.options.sight import View
from cooptions.types import TimeStep, restart


class TaskState(eqx.Module):
    """The environment's state, the eigenfunction's value there, the option's age, and its return so far."""

    inner: Any
    value: Float[Array, ""]
    age: Int[Array, ""]
    gain: Float[Array, ""]


class OptionTask(AbstractWrapper[TaskState]):
    """An environment with one more action, "terminate", and the reward e(s') - e(s) (paper, Section 2.2).

    e is a weighted sum of eigenfunctions: plus or minus one of them for an eigenoption. A step may have a cost, and a
    further one for each agent that does not stand still. The episode ends when all agents choose to terminate. An agent
    that does so alone stands still. Time limits of the environment are ignored. Agents observe what `View` returns.
    """

    env: AbstractEnv = eqx.field(static=True)
    view: View = eqx.field(static=True)
    """The agents' observation."""
    step_cost: float = eqx.field(static=True)
    effort: float = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    evaluate: Evaluator
    """The eigenfunctions at a joint state."""
    weights: Float[Array, "*seed_option k"]
    pace: Float[Array, "*seed_option"]
    """The unit of costs: the typical change of e by one agent's move, or 1."""
    starts: Runners
    """The start states of the environment, with their time steps."""
    start_values: Float[Array, "*seed start k"]
    """The eigenfunctions at the start states."""

    @property
    def num_actions(self) -> int:
        return self.env.num_actions + 1

    @property
    def action_names(self) -> tuple[str, ...]:
        return (*self.env.action_names, "terminate")

    @property
    def shaping_horizon(self) -> int:
        return 0

    @property
    def score_names(self) -> tuple[str, ...]:
        return "gain", "length"

    def value(self, inner: Any) -> Float[Array, ""]:
        """The value of e at a state of the environment."""
        return self.weights @ self.evaluate(self.env.agent_states(inner))

    def reset(self, key: PRNGKeyArray) -> tuple[TaskState, TimeStep]:
        index = jax.random.randint(key, (), 0, self.start_values.shape[0])
        begun = jax.tree.map(lambda leaf: leaf[index], self.starts)
        state = TaskState(begun.state, self.weights @ self.start_values[index], jnp.int32(0), jnp.float32(0.0))
        seen = self.view(self.agent_states(state), begun.timestep.observation)
        return state, restart(seen, self._with_terminate(begun.timestep.action_mask), num_scores=2)

    def step(self, state: TaskState, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[TaskState, TimeStep]:
        wants_end = action == self.env.num_actions
        inner, timestep = self.env.step(state.inner, jnp.where(wants_end, self.env.noop, action), key)
        value, ends, age = self.value(inner), jnp.all(wants_end), state.age + 1
        movers = jnp.sum(~wants_end & (action != self.env.noop))
        cost = self.pace * (self.step_cost + self.effort * movers)
        reward = jnp.where(ends, 0.0, value - state.value - cost)
        state = TaskState(inner, value, age, state.gain + reward)
        return state, TimeStep(
            observation=self.view(self.agent_states(state), timestep.observation),
            action_mask=self._with_terminate(timestep.action_mask),
            reward=reward,
            discount=1.0 - ends.astype(jnp.float32),
            last=ends | (age >= self.max_steps) | (timestep.discount == 0),
            score=jnp.stack([state.gain, age.astype(jnp.float32)]),
        )

    def agent_states(self, state: TaskState) -> Float[Array, "agent feature"]:
        return self.env.agent_states(state.inner)

    def _with_terminate(self, mask: Bool[Array, "agent action"]) -> Bool[Array, "agent action_or_end"]:
        return jnp.concatenate([mask, jnp.ones((self.env.num_agents, 1), bool)], axis=1)


@partial(jax.jit, static_argnums=(0, 1, 2))
def collect_starts(env: AbstractEnv, num: int, max_steps: int, *, key: PRNGKeyArray) -> Runners:
    """The states that random play reaches after up to `max_steps` steps.

    Options must work from any state, but many environments always begin in the same one.
    """
    start_key, length_key, walk_key = jax.random.split(key, 3)
    lengths = jax.random.randint(length_key, (num,), 0, max_steps + 1)
    runners = start(env, num, key=start_key)

    def step(runners: Runners, time: Array) -> tuple[Runners, None]:
        _, onward = random_advance(env, runners, key=jax.random.fold_in(walk_key, time))
        return select(time < lengths, onward, runners), None

    return jax.lax.scan(step, runners, jnp.arange(max_steps))[0]


def random_advance(env: AbstractEnv, runners: Runners, *, key: PRNGKeyArray) -> tuple[Runners, Runners]:
    """One step of random play: its outcome, and the states from which to continue (see `advance`)."""
    policy_key, step_key = jax.random.split(key)
    return advance(env, runners, uniform_action(runners.timestep.action_mask, key=policy_key), key=step_key)
