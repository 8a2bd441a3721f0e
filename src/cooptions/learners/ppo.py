"""Proximal policy optimisation (PPO) for teams: IPPO with local critics, MAPPO with joint ones."""

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import training_reward
from cooptions.errors import require, require_number
from cooptions.learners.acting import Acting, Step, act, leading_option
from cooptions.learners.advantages import advantages, policy_losses, standardise, value_losses, weighted_mean
from cooptions.learners.base import LEARNERS, AbstractLearner, LearnerConfig
from cooptions.learners.exploration import draw_together, follow
from cooptions.learners.minibatches import minibatches
from cooptions.learners.networks import Network, NetworkConfig, apply_team, init_team
from cooptions.learners.option_credit import Merit, MeritConfig
from cooptions.training.loop import Metrics
from cooptions.types import TimeStep

Part = TypeVar("Part")


@dataclass(frozen=True)
class DrawingConfig(MeritConfig):
    """How often a team follows joint options. No effect in environments without options."""

    chance: float = 0.02
    """Initial probability per step that the team draws options, with one coin, for agents that follow none. It falls
    linearly to 0 over training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("choice.chance", self.chance, at_least=0, at_most=1)


@LEARNERS.register("ppo")
@dataclass(frozen=True)
class PpoConfig(LearnerConfig):
    """Hyperparameters of PPO. Gradients of the policy and of the critic are clipped separately."""

    steps: int = 5_000_000
    num_envs: int = 64
    rollout: int = 128
    learning_rate: float = 2e-3
    anneal: bool = True
    max_gradient_norm: float = 0.5
    network: NetworkConfig = field(
        default_factory=lambda: NetworkConfig(hidden=(128, 128), recurrent=True, shared=True)
    )
    """The layers of the policy, and of the critic."""
    epochs: int = 4
    """Passes over the roll-out per update."""
    minibatches: int = 4
    """Gradient steps per epoch, each on a part of the environments."""
    decay: float = 0.95
    """Lambda of generalised advantage estimation. 0 relies on the critic, 1 on the rewards."""
    clip: float = 0.2
    """Clipping range of the probability ratio between the new and the old policy."""
    value_clip: float | None = 0.2
    """Clipping range of the change of a value in one update. `None` means no clipping."""
    entropy: float = 0.01
    """Weight of the entropy bonus."""
    critic: Literal["local", "joint"] = "local"
    """The critic's input: the agent's own observation (`local`, IPPO), or the whole team's (`joint`, MAPPO)."""
    evaluation: Literal["greedy", "sampled"] = "greedy"
    """Whether agents take their most likely action during evaluation, or sample one as in training. Greedy teams can
    score far lower: see docs/findings/foraging-full-sight.md."""
    choice: DrawingConfig = field(default_factory=DrawingConfig)
    """How joint options are used, if the environment has any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_positive("epochs", "minibatches")
        require_number("decay", self.decay, at_least=0, at_most=1)
        require_number("clip", self.clip, above=0)
        require_number("entropy", self.entropy)
        require(
            self.value_clip is None or 0 < self.value_clip < float("inf"),
            f"value_clip must be positive or None, not {self.value_clip}",
        )
        require(
            self.num_envs % self.minibatches == 0,
            f"minibatches must divide num_envs = {self.num_envs}, which {self.minibatches} does not",
        )

    def build(self) -> "Ppo":
        return Ppo(self)

    @property
    def speed_name(self) -> str:
        return {"local": "ippo", "joint": "mappo"}[self.critic]

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return self.optimiser_over(self.num_updates * self.epochs * self.minibatches, eps=1e-5)


class Both(eqx.Module, Generic[Part]):
    """A pair: one part for the policy (the actor), the other for the critic."""

    actor: Part
    critic: Part


class Tick(eqx.Module):
    """A transition: an observation, the actions, and their outcome.

    `first` marks the beginning of an episode. A tick that is not `valid` is the end of one: its action is ignored, and
    the next tick begins another episode. `led` marks agents that followed an option or voted for one. Their
    `log_probability`, too, is that of the action under the agent's own policy.
    """

    observation: Shaped[Array, "*batch_agent_and_shape"]
    action_mask: Bool[Array, "*batch agent action"]
    first: Bool[Array, "*batch"]
    valid: Bool[Array, "*batch"]
    action: Int[Array, "*batch agent"]
    log_probability: Float[Array, "*batch agent"]
    led: Bool[Array, "*batch agent"]
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]


class Batch(eqx.Module):
    """The data of one roll-out."""

    ticks: Tick
    value: Float[Array, "time env agent"]
    """The critic's value at each tick."""
    advantage: Float[Array, "time env agent"]
    memory: Both[Float[Array, "env agent memory"]]
    """The memory of both networks at the beginning of the roll-out."""

    def of(self, index: Int[Array, " part"]) -> "Batch":
        """The data of some of the environments."""
        ticks, value, advantage = jax.tree.map(lambda leaf: leaf[:, index], (self.ticks, self.value, self.advantage))
        return Batch(ticks, value, advantage, jax.tree.map(lambda leaf: leaf[index], self.memory))


class PpoState(eqx.Module):
    """Everything that changes during training."""

    networks: Both[Network]
    optimiser: Both[Any]
    team: Acting
    """Its memory is that of the policy network."""
    critic_memory: Float[Array, "env agent memory"]
    merit: Merit
    updates: Int[Array, ""]


@dataclass(frozen=True)
class Ppo(AbstractLearner[PpoState]):
    """PPO on any environment. Policies choose among primitives only; joint options serve exploration.

    The team follows options now and then. Steps under an option are weighted by the probability that the policies
    would have taken the same actions (`own_share`). PPO's clipping limits their effect as for any other step. The
    critic estimates returns without options, so that possible interruptions do not devalue a plan. With `yields`,
    options that earn less than the team by itself are not used in some of the environments.
    """

    config: PpoConfig

    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> PpoState:
        config, env = self.config, data
        actor_key, critic_key, env_key = jax.random.split(key, 3)
        actor = init_team(env, config.network, _num_primitives(env), key=actor_key)
        critic = init_team(env, config.network, 1, key=critic_key, view=self._view)
        memory = self.init_memory(env, config.num_envs)
        return PpoState(
            networks=Both(actor, critic),
            optimiser=Both(config.optimiser.init(actor), config.optimiser.init(critic)),
            team=Acting.begin(env, memory, key=env_key),
            critic_memory=memory,
            merit=Merit.none(config.num_envs, env.option_kinds),
            updates=jnp.int32(0),
        )

    def step(self, state: PpoState, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[PpoState, Metrics]:
        """One update: a roll-out, then a few passes over it."""
        rollout_key, learn_key = jax.random.split(key)
        state, batch, metrics = self.collect(state, data, key=rollout_key)
        state, losses = self.learn(state, batch, key=learn_key)
        return eqx.tree_at(lambda s: s.updates, state, state.updates + 1), metrics | losses

    def policy(self, state: PpoState) -> Network:
        return state.networks.actor

    def act(
        self,
        policy: Network,
        memory: Float[Array, "env agent memory"],
        timestep: TimeStep,
        first: Bool[Array, " env"],
        *,
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, "env agent memory"], Int[Array, "env agent"]]:
        mask = _own_choices(timestep)
        memory, log_policy = self.log_policy(policy, memory, timestep.observation[None], mask[None], first[None])
        if self.config.evaluation == "greedy":
            return memory, jnp.argmax(log_policy[0], axis=-1)
        return memory, jax.random.categorical(key, log_policy[0])

    def collect(self, state: PpoState, env: AbstractEnv, *, key: PRNGKeyArray) -> tuple[PpoState, Batch, Metrics]:
        """Run the team for one roll-out, then compute the values and advantages of all its ticks together."""
        choice, frames = self.config.choice, state.updates * self.steps_per_update
        weights = choice.weights(state.merit)
        falling = choice.chance * (1 - state.updates / self.num_updates)
        chance = falling * _shared_out(weights.sum(), self.config.num_envs)

        def decide(memory: Array, timestep: TimeStep, first: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
            mask = _own_choices(timestep)
            memory, log_policy = self.log_policy(
                state.networks.actor, memory, timestep.observation[None], mask[None], first[None]
            )
            if timestep.macro is None:
                return memory, jax.random.categorical(key, log_policy[0]), log_policy[0]
            own_key, team_key = jax.random.split(key)
            own = jax.random.categorical(own_key, log_policy[0])
            drawn = draw_together(timestep, own, chance, key=team_key, weights=weights)
            return memory, follow(timestep, drawn), log_policy[0]

        def keep(step: Step, log_policy: Array) -> tuple[Tick, Array]:
            action, option = _executed(env, step), leading_option(step.after)
            tick = Tick(
                observation=step.before.observation,
                action_mask=_own_choices(step.before),
                first=step.first,
                valid=~step.before.last,
                action=action,
                log_probability=_taken(log_policy, action),
                led=(step.action >= _num_primitives(env)) | (option >= 0),
                reward=training_reward(env, step.after, frames),
                discount=step.after.discount,
            )
            return tick, option

        team, (ticks, option), metrics = act(env, state.team, self.config.rollout, decide, keep, key=key)
        critic_memory, value, advantage = self.judge(state, ticks, team)
        batch = Batch(ticks, value, advantage, Both(state.team.memory, state.critic_memory))
        merit = state.merit.after(option, ticks.first, ticks.reward)
        state = eqx.tree_at(lambda s: (s.team, s.critic_memory, s.merit), state, (team, critic_memory, merit))
        return state, batch, metrics | {"reward": ticks.reward.mean()}

    @jax.named_scope("target")
    def judge(
        self,
        state: PpoState,
        ticks: Tick,
        end: Acting,
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent"], Float[Array, "time env agent"]]:
        """The critic's memory after a roll-out, its values at each tick, and the advantages."""
        critic = state.networks.critic
        memory, value = self.values(critic, state.critic_memory, ticks.observation, ticks.first)
        _, final_value = self.values(critic, memory, end.timestep.observation[None], end.first[None])
        reward, discount, valid = (
            jnp.broadcast_to(part[..., None], value.shape)
            for part in (ticks.reward, self.config.discount * ticks.discount, ticks.valid)
        )
        values, decay = jnp.concatenate([value, final_value]), self.config.decay
        return memory, value, advantages(reward, discount, valid, values, decay=decay, trust=own_share(ticks))

    def learn(self, state: PpoState, batch: Batch, *, key: PRNGKeyArray) -> tuple[PpoState, Metrics]:
        """Take the gradient steps of one update. In each epoch, every environment is in one minibatch."""
        config = self.config

        def descend(carry: tuple[Both, Both], index: Int[Array, " part"]) -> tuple[tuple[Both, Both], Metrics]:
            networks, optimiser = carry
            gradient, metrics = jax.grad(self.loss, has_aux=True)(networks, batch.of(index))
            actor, actor_optimiser = self._improve(networks.actor, gradient.actor, optimiser.actor)
            critic, critic_optimiser = self._improve(networks.critic, gradient.critic, optimiser.critic)
            return (Both(actor, critic), Both(actor_optimiser, critic_optimiser)), metrics

        parts = minibatches(config.num_envs, config.epochs, config.minibatches, key=key)
        (networks, optimiser), metrics = jax.lax.scan(descend, (state.networks, state.optimiser), parts)
        state = eqx.tree_at(lambda s: (s.networks, s.optimiser), state, (networks, optimiser))
        return state, jax.tree.map(jnp.mean, metrics)

    @jax.named_scope("optimiser")
    def _improve(self, network: Network, gradient: Network, optimiser: Any) -> tuple[Network, Any]:
        updates, optimiser = self.config.optimiser.update(gradient, optimiser)
        return optax.apply_updates(network, updates), optimiser

    def log_policy(
        self,
        actor: Network,
        memory: Float[Array, "env agent memory"],
        observation: Shaped[Array, "time env agent *shape"],
        action_mask: Bool[Array, "time env agent action"],
        first: Bool[Array, "time env"],
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent action"]]:
        """The new memory, and the log-probability of each action under every agent's policy."""
        memory, logits = apply_team(actor, self.config.network, memory, observation, first)
        # Not -inf: in the entropy, its product with a probability of 0 would be NaN.
        return memory, jax.nn.log_softmax(jnp.where(action_mask, logits, UNAVAILABLE))

    def values(
        self,
        critic: Network,
        memory: Float[Array, "env agent memory"],
        observation: Shaped[Array, "time env agent *shape"],
        first: Bool[Array, "time env"],
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent"]]:
        """The new memory, and the value of every agent's critic."""
        memory, value = apply_team(critic, self.config.network, memory, self._view(observation), first)
        return memory, value[..., 0]

    def _view(self, observation: Shaped[Array, "time env agent *shape"]) -> Shaped[Array, "time env agent *seen"]:
        """The critics' input."""
        return joint_view(observation) if self.config.critic == "joint" else observation

    @jax.named_scope("loss")
    def loss(self, networks: Both[Network], batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """The loss of policy and critic, and metrics. The two share no weights, so the sum needs no coefficient."""
        ticks = batch.ticks
        _, log_policy = self.log_policy(
            networks.actor, batch.memory.actor, ticks.observation, ticks.action_mask, ticks.first
        )
        _, value = self.values(networks.critic, batch.memory.critic, ticks.observation, ticks.first)
        valid = jnp.broadcast_to(ticks.valid[..., None], value.shape).astype(jnp.float32)
        weight = valid * own_share(ticks)
        ratio = jnp.exp(_taken(log_policy, ticks.action) - ticks.log_probability)
        advantage = standardise(batch.advantage, weight)
        policy_loss = weighted_mean(policy_losses(ratio, advantage, self.config.clip), weight)
        goal = batch.value + batch.advantage
        value_loss = weighted_mean(value_losses(value, batch.value, goal, self.config.value_clip), weight)
        entropy = weighted_mean(-(jnp.exp(log_policy) * log_policy).sum(axis=-1), valid)
        clipped = weighted_mean((jnp.abs(ratio - 1) > self.config.clip).astype(jnp.float32), valid)
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "clipped": clipped}
        return policy_loss + value_loss - self.config.entropy * entropy, metrics


UNAVAILABLE = -1e9
"""The logit of an action that is not available."""


def joint_view(observation: Shaped[Array, "time env agent *shape"]) -> Shaped[Array, "time env agent *joint"]:
    """The team's observations for each agent: its own, then its teammates', concatenated along the last axis.

    For pictures, this axis is that of the channels. An agent's own observation comes first, so that a shared critic
    knows which agent it evaluates.
    """
    turned = [jnp.roll(observation, -agent, axis=2) for agent in range(observation.shape[2])]
    return jnp.concatenate(turned, axis=-1)


def own_share(ticks: Tick) -> Float[Array, "*batch agent"]:
    """The joint probability of the actions of `led` agents under their own policies; 1 if there are none.

    It is the importance ratio of the step, with options taken as deterministic. All agents get the same ratio: to each
    of them, its teammates are part of the environment.
    """
    own = jnp.where(ticks.led, ticks.log_probability, 0.0)
    return jnp.broadcast_to(jnp.exp(own.sum(axis=-1, keepdims=True)), own.shape)


def _shared_out(share: Float[Array, ""], num_envs: int) -> Float[Array, " env"]:
    """A factor for each environment's probability of drawing options: 1 in a `share` of them, a fraction in one, 0 in
    the others.

    A lower probability everywhere would interrupt episodes in all environments. This way, some are the team's own.
    """
    return jnp.clip(share * num_envs - jnp.arange(num_envs), 0.0, 1.0)


def _num_primitives(env: AbstractEnv) -> int:
    return env.num_actions - env.num_options


def _own_choices(timestep: TimeStep) -> Bool[Array, "env agent primitive"]:
    """The available primitives of an agent that follows no option."""
    if timestep.macro is None:
        return timestep.action_mask
    return timestep.macro.choices[..., : timestep.action_mask.shape[-1] - timestep.macro.continues.shape[-1]]


def _executed(env: AbstractEnv, step: Step) -> Int[Array, "env agent"]:
    """The primitives that agents executed, by their own choice or an option's. A failed vote is the no-op."""
    if step.after.macro is None:
        return step.action
    done = step.after.macro.action
    return jnp.where(done < _num_primitives(env), done, env.noop)


def _taken(log_policy: Float[Array, "*batch action"], action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The log-probabilities of the executed actions."""
    return jnp.take_along_axis(log_policy, action[..., None], axis=-1)[..., 0]
