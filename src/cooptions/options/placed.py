"""Place the options of a small team on every sub-team of a larger team whose agents can take the roles."""

import dataclasses
from collections.abc import Iterator
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.options.base import AbstractOptions, Option

# Pyright takes the abstract attributes of `AbstractOptions` for arguments of the classes below: hence the ignores.

Place = tuple[int, ...]
"""The agents of a sub-team, in the order of the roles."""


def placed(options: AbstractOptions, env: AbstractEnv) -> AbstractOptions:
    """The options for an environment's agents: unchanged if they are for as many, else on every fitting sub-team."""
    if isinstance(options, JoinedOptions):
        return JoinedOptions(tuple(placed(part, env) for part in options.parts))  # pyright: ignore[reportCallIssue]
    if options.num_agents == env.num_agents:
        return options
    name = options.options[0].name
    require(
        options.num_agents < env.num_agents,
        f"options: {name} is for {options.num_agents} agents, the environment has {env.num_agents}",
    )
    places = tuple(placements(options.roles(env)))
    require(
        len(places) > 0,
        f"options: {name} is for {options.num_agents} agents of which the environment has none, or too few: their "
        "features differ",
    )
    return PlacedOptions(options.in_env(env), places, env.num_agents)  # pyright: ignore[reportCallIssue]


def placements(fits: Bool[np.ndarray, "role agent"]) -> Iterator[Place]:
    """Every assignment of different agents to all roles. Roles that fit the same agents are assigned in ascending order
    of agents, so that two agents that are alike have one placement, not two."""

    def extend(place: Place) -> Iterator[Place]:
        role = len(place)
        if role == len(fits):
            yield place
            return
        alike = [agent for other, agent in enumerate(place) if (fits[other] == fits[role]).all()]
        for agent in np.flatnonzero(fits[role]).tolist():
            if agent not in place and agent > max(alike, default=-1):
                yield from extend((*place, agent))

    return extend(())


class PlacedOptions(AbstractOptions):
    """The options of a team, repeated for every sub-team of a larger team that can follow them.

    Options of one kind are consecutive, in the order of their places. Their names contain their members, counted from
    1: `+e1 of 1,3`.
    """

    team: AbstractOptions
    places: tuple[Place, ...] = eqx.field(static=True)
    team_size: int = eqx.field(static=True)
    """The number of agents of the larger team."""

    @property
    def options(self) -> tuple[Option, ...]:
        return _described(self.team.options, self.places, self.team_size)

    @property
    def max_steps(self) -> int:
        return self.team.max_steps

    @property
    def epsilon(self) -> float:
        return self.team.epsilon

    @property
    def kinds(self) -> tuple[int, ...]:
        return tuple(kind for kind in self.team.kinds for _ in self.places)

    @property
    def callers(self) -> tuple[int | None, ...]:
        return tuple(None if role is None else place[role] for role in self.team.callers for place in self.places)

    def first(self, num: int) -> "PlacedOptions":
        """A set of the first `num` options, which must include each option at all of its places."""
        kinds, rest = divmod(num, len(self.places))
        require(rest == 0, f"options: the first {num} are no multiple of {len(self.places)} places")
        return dataclasses.replace(self, team=self.team.first(kinds))

    def action_of(
        self,
        option: Int[Array, ""],
        agent: Int[Array, ""],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, ""]:
        """The action of one option for one agent, from the members' states only, with the network of one role."""
        kind, place = option // len(self.places), option % len(self.places)
        members = jnp.array(self.places)[place]
        role = jnp.argmax(members == agent)
        kind = jnp.where(option >= 0, kind, -1)
        return self.team.action_of(kind, role, agent_states[members], observation[members], action_mask[members])

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        """The actions of all placed options. Many times as expensive as `actions_of`. Other agents take action 0."""

        def at_place(members: Int[Array, " role"]) -> Int[Array, "kind agent"]:
            told = self.team.actions(agent_states[members], observation[members], action_mask[members])
            return jnp.zeros((told.shape[0], self.team_size), told.dtype).at[:, members].set(told)

        by_place = jax.vmap(at_place, out_axes=1)(jnp.array(self.places))
        return by_place.reshape(self.num_options, self.team_size)


class JoinedOptions(AbstractOptions):
    """The options of several sets in one, such as those of pairs and those of the whole team."""

    parts: tuple[AbstractOptions, ...]

    def __check_init__(self) -> None:
        for name in ("max_steps", "epsilon"):
            values = [getattr(part, name) for part in self.parts]
            require(len(set(values)) == 1, f"options: sets that are joined must have one {name}, not {values}")
        names = [option.name for option in self.options]
        twice = sorted({name for name in names if names.count(name) > 1})
        alike = len({part.num_agents for part in self.parts}) == 1
        require(not (alike and twice), f"options: several that are joined are called {', '.join(twice)}")

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for part in self.parts for option in part.options)

    @property
    def max_steps(self) -> int:
        return self.parts[0].max_steps

    @property
    def epsilon(self) -> float:
        return self.parts[0].epsilon

    @property
    def kinds(self) -> tuple[int, ...]:
        found: list[int] = []
        for part in self.parts:
            begin = max(found, default=-1) + 1
            found += [begin + kind for kind in part.kinds]
        return tuple(found)

    @property
    def callers(self) -> tuple[int | None, ...]:
        return tuple(caller for part in self.parts for caller in part.callers)

    def first(self, num: int) -> "JoinedOptions":
        """A set of the first `num` options: whole parts, then the first options of the next part."""
        kept: list[AbstractOptions] = []
        for part in self.parts:
            if num > 0:
                kept.append(part if num >= part.num_options else part.first(num))
            num -= part.num_options
        return JoinedOptions(tuple(kept))  # pyright: ignore[reportCallIssue]

    def action_of(
        self,
        option: Int[Array, ""],
        agent: Int[Array, ""],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, ""]:
        """The action of one option for one agent, from the part that contains the option."""
        action, begin = jnp.int32(0), 0
        for part in self.parts:
            is_asked = (option >= begin) & (option < begin + part.num_options)
            asked = jnp.where(is_asked, option - begin, -1)
            told = part.action_of(asked, agent, agent_states, observation, action_mask)
            action, begin = jnp.where(is_asked, told, action), begin + part.num_options
        return action

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        return jnp.concatenate([part.actions(agent_states, observation, action_mask) for part in self.parts])


def join(*sets: AbstractOptions) -> JoinedOptions:
    """Join several sets into one for `MacroEnv`, which places the options of small teams.

    task = co.MacroEnv(env, join(options_of_pairs, options_of_the_team))
    """
    return JoinedOptions(sets)  # pyright: ignore[reportCallIssue]


@lru_cache
def _described(options: tuple[Option, ...], places: tuple[Place, ...], team_size: int) -> tuple[Option, ...]:
    """The placed options: first all places of the first option."""

    def at(option: Option, place: Place) -> Option:
        taking_part = [agent for agent, is_member in zip(place, option.members, strict=True) if is_member]
        members = tuple(agent in taking_part for agent in range(team_size))
        told = ",".join(str(agent + 1) for agent in taking_part)
        return dataclasses.replace(option, name=f"{option.name} of {told}", members=members)

    return tuple(at(option, place) for option in options for place in places)
