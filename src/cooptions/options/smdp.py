"""Joint options as temporally extended actions (SMDP): one time step for all the steps of an option."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from cooptions.envs.wrapper import AbstractWrapper
from cooptions.errors import require
from cooptions.options.macro import MacroEnv, MacroState
from cooptions.types import MacroStep, TimeStep


class SmdpEnv(AbstractWrapper[MacroState]):
    """A `MacroEnv` in which one step lasts until the chosen option ends (k steps).

    The reward is the sum of gamma^j r_j. Learners multiply the value of the next state by their own gamma once per
    step. `discount` is therefore gamma^(k-1) times the environment's, and their product is gamma^k. In the `MacroStep`,
    `action` is the vote for the executed option (without one, the primitive or the failed vote), and `age` is k. No
    option is `consistent`, because the steps within an option are hidden.
    """

    env: MacroEnv
    gamma: float = eqx.field(static=True)
    """The learner's discount."""

    def __check_init__(self) -> None:
        require(0 <= self.gamma <= 1, f"gamma must lie in [0, 1], not {self.gamma}")
        for option in self.env.options.options:
            require(all(option.members), f"options: {option.name} leaves agents without a choice; use MacroEnv")

    def step(self, state: MacroState, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[MacroState, TimeStep]:
        option, _ = self.env.decide(state, action)
        begun = self.env.step(state, action, jax.random.fold_in(key, 0))
        choice = jnp.where(option >= 0, self.env.num_primitives + option, action).astype(jnp.int32)

        def goes_on(carry: tuple[MacroState, TimeStep, Int[Array, ""]]) -> Bool[Array, ""]:
            return carry[0].active[0] >= 0

        def go_on(carry: tuple[MacroState, TimeStep, Int[Array, ""]]) -> tuple[MacroState, TimeStep, Int[Array, ""]]:
            state, so_far, steps = carry
            state, timestep = self.env.step(state, choice, jax.random.fold_in(key, steps))
            return state, self._join(so_far, timestep), steps + 1

        state, timestep, steps = jax.lax.while_loop(goes_on, go_on, (*begun, jnp.int32(1)))
        nothing, age = jnp.zeros(self.num_options, bool), jnp.broadcast_to(steps, option.shape)
        macro = MacroStep(state.active, age, option, choice, nothing, nothing, self.env.free_choices(state))
        return state, dataclasses.replace(timestep, macro=macro)

    def inner_state(self, state: MacroState) -> MacroState:
        return state

    def _join(self, so_far: TimeStep, timestep: TimeStep) -> TimeStep:
        """Join two consecutive time steps into one, with the later rewards discounted."""
        weight = self.gamma * so_far.discount
        return dataclasses.replace(
            timestep,
            reward=so_far.reward + weight * timestep.reward,
            shaped_reward=so_far.shaped_reward + weight * timestep.shaped_reward,
            discount=weight * timestep.discount,
        )
