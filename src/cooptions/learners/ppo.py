"""Proximal policy optimisation for a team: each agent has a policy, and a critic that sees as much or more."""

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
    """How often a team follows joint options. Without options in the environment, nothing here matters."""

    chance: float = 0.02
    """With which chance the team, with one coin, draws an option at a step where none is active; at first, and falling
    to 0 over training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("choice.chance", self.chance, at_least=0, at_most=1)


@LEARNERS.register("ppo")
@dataclass(frozen=True)
class PpoConfig(LearnerConfig):
    """Hyperparameters of PPO. Gradients of the policy and of the critic are clipped each for itself."""

    steps: int = 5_000_000
    num_envs: int = 64
    rollout: int = 128
    learning_rate: float = 2e-3
    anneal: bool = True
    max_gradient_norm: float = 0.5
    network: NetworkConfig = field(
        default_factory=lambda: NetworkConfig(hidden=(128, 128), recurrent=True, shared=True)
    )
    """Of the policy, and of the critic."""
    epochs: int = 4
    """How often an update goes through its rollout."""
    minibatches: int = 4
    """Gradient steps of an epoch, each on some of the environments."""
    decay: float = 0.95
    """The lambda of generalised advantage estimation: 0 trusts the critic, 1 the rewards."""
    clip: float = 0.2
    """By how much an update may change the probability of an action before it no longer gains from it."""
    value_clip: float | None = 0.2
    """By how much an update may change a value before it no longer gains from it; `None` does not limit it."""
    entropy: float = 0.01
    """Weight of the policy's entropy: how much being undecided is worth."""
    critic: Literal["local", "joint"] = "local"
    """What an agent's critic sees: what the agent does (IPPO), or what the whole team does (MAPPO)."""
    evaluation: Literal["greedy", "sampled"] = "greedy"
    """Whether an evaluated agent takes its likeliest action, or draws one as in training. The likeliest actions
    can make far less of a team: see docs/findings/foraging-full-sight.md."""
    choice: DrawingConfig = field(default_factory=DrawingConfig)
    """What joint options are for, where the environment has any."""

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
    """Something of the policy (the actor), and the same of the critic."""

    actor: Part
    critic: Part


class Tick(eqx.Module):
    """An environment at one time, what was done there, and what that brought.

    `first` marks the beginning of an episode. A tick that is not `valid` is the end of one: what is done there is
    ignored, and leads to the beginning of the next. `log_probability` is that of the action by the agent's own policy,
    also where it was `led` by an option.
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
    """What a rollout gives to learn from."""

    ticks: Tick
    value: Float[Array, "time env agent"]
    """What the critic expected then."""
    advantage: Float[Array, "time env agent"]
    memory: Both[Float[Array, "env agent memory"]]
    """What was remembered when the rollout began."""

    def of(self, index: Int[Array, " part"]) -> "Batch":
        """Some of the environments, with all that happened there."""
        ticks, value, advantage = jax.tree.map(lambda leaf: leaf[:, index], (self.ticks, self.value, self.advantage))
        return Batch(ticks, value, advantage, jax.tree.map(lambda leaf: leaf[index], self.memory))


class PpoState(eqx.Module):
    """Everything that changes during training."""

    networks: Both[Network]
    optimiser: Both[Any]
    team: Acting
    """What it remembers is what the policy does."""
    critic_memory: Float[Array, "env agent memory"]
    merit: Merit
    updates: Int[Array, ""]


@dataclass(frozen=True)
class Ppo(AbstractLearner[PpoState]):
    """PPO on any environment. Policies are of primitives alone: joint options explore.

    The team follows one now and then. An option does what it does for certain; what it did counts as much as the team
    would have done it by itself (`own_share`), well or badly done, and like all else moves a policy by no more than
    PPO allows at a time. The critic expects what agents earn when left to themselves: that an option may interrupt a
    plan is no reason to drop it. Options that yield leave whole environments alone.
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
        """One update: a rollout, then a few passes over it."""
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
        """Let the team act for a rollout, and judge afterwards, all at once, how well it did."""
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

    def judge(
        self,
        state: PpoState,
        ticks: Tick,
        end: Acting,
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent"], Float[Array, "time env agent"]]:
        """What the critic remembers after a rollout, what it expected at each tick, and the advantages."""
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
        """Gradient steps: in each epoch, every environment is in one minibatch."""
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
        """Every agent's policy: the logarithm of the probability of each action."""
        memory, logits = apply_team(actor, self.config.network, memory, observation, first)
        # Not -inf: its product with a probability of 0, in the entropy, is not a number.
        return memory, jax.nn.log_softmax(jnp.where(action_mask, logits, UNAVAILABLE))

    def values(
        self,
        critic: Network,
        memory: Float[Array, "env agent memory"],
        observation: Shaped[Array, "time env agent *shape"],
        first: Bool[Array, "time env"],
    ) -> tuple[Float[Array, "env agent memory"], Float[Array, "time env agent"]]:
        """What every agent's critic expects of the future."""
        memory, value = apply_team(critic, self.config.network, memory, self._view(observation), first)
        return memory, value[..., 0]

    def _view(self, observation: Shaped[Array, "time env agent *shape"]) -> Shaped[Array, "time env agent *seen"]:
        """What critics see."""
        return joint_view(observation) if self.config.critic == "joint" else observation

    def loss(self, networks: Both[Network], batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """The loss of policy and critic. They share no weights, so that no factor need balance them."""
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
    """What the team sees, for each agent: its own observation, then its mates', side by side along the last axis.

    Vectors are strung together and pictures stacked by their channels. As an agent comes first in its own view, one
    critic for all knows whom it speaks for.
    """
    turned = [jnp.roll(observation, -agent, axis=2) for agent in range(observation.shape[2])]
    return jnp.concatenate(turned, axis=-1)


def own_share(ticks: Tick) -> Float[Array, "*batch agent"]:
    """How likely the team would have done by itself what was done: all of what its members chose, and of what an option
    did as much as the policies of those it led, together. That is the ratio by which importance sampling weighs what
    another policy did, and the same for every agent: to each of them its mates are a part of the world."""
    own = jnp.where(ticks.led, ticks.log_probability, 0.0)
    return jnp.broadcast_to(jnp.exp(own.sum(axis=-1, keepdims=True)), own.shape)


def _shared_out(share: Float[Array, ""], num_envs: int) -> Float[Array, " env"]:
    """How often options are drawn in each environment: in a share of them as ever, in one in part, in the others never.

    Where options are to yield, they leave whole episodes alone: one that is interrupted now and then, however seldom,
    is not what the team would have lived by itself.
    """
    return jnp.clip(share * num_envs - jnp.arange(num_envs), 0.0, 1.0)


def _num_primitives(env: AbstractEnv) -> int:
    return env.num_actions - env.num_options


def _own_choices(timestep: TimeStep) -> Bool[Array, "env agent primitive"]:
    """The primitives that an agent free to choose may do."""
    if timestep.macro is None:
        return timestep.action_mask
    return timestep.macro.choices[..., : timestep.action_mask.shape[-1] - timestep.macro.continues.shape[-1]]


def _executed(env: AbstractEnv, step: Step) -> Int[Array, "env agent"]:
    """What was done, by an agent's own choice or an option's; a vote in vain is to stand still."""
    if step.after.macro is None:
        return step.action
    done = step.after.macro.action
    return jnp.where(done < _num_primitives(env), done, env.noop)


def _taken(log_policy: Float[Array, "*batch action"], action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Of the actions taken."""
    return jnp.take_along_axis(log_policy, action[..., None], axis=-1)[..., 0]
