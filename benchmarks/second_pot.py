"""Why cooks go on to fill one pot at a time: how often they come by what would be better, and what it is worth to them.

python -m benchmarks.second_pot --options none wander runs/pots/option_sets/seed-0 > results/learning/second_pot.json

The runs are made by `python -m benchmarks.learning loops --only "iql, 0.05" "iql, 0.05, seeds 3 to 5"`, the options by
cooptions discover overcooked-forced_coord --method hit --seeds 1 --out runs/pots
cooptions options runs/pots
"""

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from rich.console import Console

from benchmarks.frontier import wilson
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.overcooked import Overcooked
from cooptions.envs.rollout import Runners, start
from cooptions.learners.exploration import ChoiceConfig, choose
from cooptions.learners.networks import Network
from cooptions.learners.q_learning import QConfig
from cooptions.options.macro import MacroConfig, MacroEnv
from cooptions.runs.config import Config, config_of_run
from cooptions.runs.directory import open_run, provenance
from cooptions.runs.stages import given_options, learning_stage
from cooptions.training.progress import Progress

with quiet_import():
    from jaxmarl.environments.overcooked.common import OBJECT_TO_INDEX
    from jaxmarl.environments.overcooked.overcooked import POT_EMPTY_STATUS, POT_FULL_STATUS

EVENTS = "fetched", "filled", "both"
"""What is counted: an onion taken while a pot cooks, one put into another pot meanwhile, two pots that cook at once."""
NEVER = -1
NO_POT = 255


@dataclass(frozen=True)
class Arguments:
    """Let teams play on without learning: exploring, and given onions for a pot beside one that cooks."""

    runs: tuple[Path, ...] = (
        Path("runs/learning/loops/iql, 0.05"),
        Path("runs/learning/loops/iql, 0.05, seeds 3 to 5"),
    )
    """Teams that were trained by Q-learning without memory and without options."""
    options: tuple[str, ...] = ("none", "wander")
    """What a team that explores draws from besides primitives: nothing, `wander`, or the directory of an option set."""
    epsilon: float = 0.05
    episodes: int = 128
    """Of each team that explores."""
    gifts: tuple[int, ...] = (0, 1, 2, 3)
    """How many onions are given, once an episode."""
    times: tuple[int, int] = (80, 240)
    """Between which steps: an episode for each of them."""


def pots(runners: Runners) -> Int[Array, "env cell"]:
    """What every pot holds: from 23, empty, by one for each onion; at most 20 once it cooks, until it is emptied."""
    maze = runners.state.inner.inner.maze_map
    return jnp.where(maze[..., 0] == OBJECT_TO_INDEX["pot"], maze[..., 2], NO_POT).reshape(maze.shape[0], -1)


def cooking(pots: Int[Array, "env cell"]) -> Bool[Array, "env cell"]:
    return pots <= POT_FULL_STATUS


def fetched(before: Runners, after: Runners) -> Bool[Array, " env"]:
    """Whether a cook took an onion while a pot cooked."""
    had, has = (runners.state.inner.inner.agent_inv == OBJECT_TO_INDEX["onion"] for runners in (before, after))
    return (has & ~had).any(axis=1) & cooking(pots(before)).any(axis=1)


def filled(before: Int[Array, "env cell"], after: Int[Array, "env cell"]) -> Bool[Array, " env"]:
    """Whether an onion went into a pot while another cooked."""
    return (~cooking(before) & (after < before)).any(axis=1) & cooking(before).any(axis=1)


def give(runners: Runners, to: Bool[Array, " env"], onions: int) -> Runners:
    """The same kitchens, at least so many onions in every pot that does not cook."""

    def more(maze: Array) -> Array:
        waits = (maze[..., 0] == OBJECT_TO_INDEX["pot"]) & (maze[..., 2] > POT_FULL_STATUS) & to[:, None, None]
        held = jnp.minimum(maze[..., 2], POT_EMPTY_STATUS - onions)
        return maze.at[..., 2].set(jnp.where(waits, held, maze[..., 2]).astype(maze.dtype))

    return eqx.tree_at(lambda runners: runners.state.inner.inner.maze_map, runners, replace_fn=more)


@partial(jax.jit, static_argnames=("config", "choice", "epsilon", "onions"))
def play(
    config: Config,
    network: Network,
    env: MacroEnv,
    choice: ChoiceConfig,
    epsilon: float,
    given_at: Int[Array, " env"],
    onions: int,
    *,
    key: PRNGKeyArray,
) -> tuple[dict[str, Bool[Array, "time env"]], Float[Array, " env"]]:
    """What happened at each step of whole episodes of one team, and what it delivered in each."""
    assert isinstance(config.env, Overcooked), "only kitchens have pots"
    assert isinstance(config.learning.learner, QConfig), "only Q-learners draw options by epsilon"
    learner, num = config.learning.learner.build(), len(given_at)
    start_key, play_key = jax.random.split(key)
    memory = learner.init_memory(env, num)

    def step(now: Runners, time: Int[Array, ""]) -> tuple[Runners, dict[str, Array]]:
        action_key, env_key = jax.random.split(jax.random.fold_in(play_key, time))
        beside = cooking(pots(now)).any(axis=1) & (given_at == time)
        now = give(now, beside, onions)
        _, values = learner.values(network, memory, now.timestep.observation[None], jnp.zeros((1, num), bool))
        action = choose(choice, values[0], now.timestep, jnp.float32(epsilon), key=action_key)
        then = Runners(*jax.vmap(env.step)(now.state, action, jax.random.split(env_key, num)))
        return then, {
            "given": beside,
            "fetched": fetched(now, then),
            "filled": filled(pots(now), pots(then)),
            "both": cooking(pots(then)).sum(axis=1) > 1,
            "led": now.state.active >= 0,
        }

    last, seen = jax.lax.scan(step, start(env, num, key=start_key), jnp.arange(config.env.time_limit))
    return seen, last.timestep.score[:, 0]


def played(
    config: Config, networks: Network, name: str, epsilon: float, given_at: np.ndarray, onions: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What every team did, with teams in front. Options, where there are any, are drawn as in training, but alike."""
    options = given_options("wander" if name == "none" else name, config.env)  # none are drawn where the share is 0
    env = MacroConfig().around(config.env, options, foresight=False)
    choice = ChoiceConfig(option_share=0.0 if name == "none" else ChoiceConfig().option_share)

    def one_team(network: Network, key: PRNGKeyArray) -> tuple[dict[str, Array], Array]:
        return play(config, network, env, choice, epsilon, jnp.asarray(given_at), onions, key=key)

    keys = jax.random.split(jax.random.key(0), config.seeds)
    return jax.tree.map(np.asarray, jax.vmap(one_team)(networks, keys))


def exploring(config: Config, networks: Network, name: str, arguments: Arguments) -> dict[str, Any]:
    """In how many episodes of each team that explores, with an interval, another pot comes in meanwhile."""
    num = arguments.episodes
    seen, delivered = played(config, networks, name, arguments.epsilon, np.full(num, NEVER), 0)
    shares = {event: [wilson(int(n), num) for n in seen[event].any(axis=1).sum(axis=1)] for event in EVENTS}
    deliveries = [round(float(mean), 1) for mean in delivered.mean(axis=1)]
    return {"options": name, "led": round(float(seen["led"].mean()), 3), "deliveries": deliveries, "percent": shares}


def given(config: Config, networks: Network, onions: int, epsilon: float, arguments: Arguments) -> dict[str, Any]:
    """What each team delivers, in how many episodes, if onions are given while another pot cooks."""
    seen, delivered = played(config, networks, "none", epsilon, np.arange(*arguments.times), onions)
    teams = [each[given] for each, given in zip(delivered, seen["given"].any(axis=1), strict=True)]
    means, nums = [round(float(team.mean()), 1) for team in teams], [len(team) for team in teams]
    return {"onions": onions, "epsilon": epsilon, "deliveries": means, "episodes": nums}


def asked(path: Path, arguments: Arguments) -> dict[str, Any]:
    """All that is asked of the teams of one run."""
    with open_run(path, {}) as run:
        config = config_of_run(run)
        networks, _ = learning_stage(config, run, Progress(Console(quiet=True)))
    rows = [exploring(config, networks, name, arguments) for name in arguments.options]
    noises = (0.0, arguments.epsilon)
    gifts = [given(config, networks, num, epsilon, arguments) for epsilon in noises for num in arguments.gifts]
    for each in (*rows, *gifts):
        print(path, json.dumps(each), file=sys.stderr)
    return {"run": str(path), "scenario": config.scenario, "exploring": rows, "gifts": gifts}


def main(arguments: Arguments) -> None:
    runs = [asked(path, arguments) for path in arguments.runs]
    about = {"epsilon": arguments.epsilon, "episodes": arguments.episodes}
    print(json.dumps({**about, "runs": runs, **provenance()}, indent=1))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
