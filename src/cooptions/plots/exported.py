"""Export of environments to PettingZoo, with pictures."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import UInt8

from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import innermost, innermost_state
from cooptions.errors import ConfigError
from cooptions.plots.frames import frames

if TYPE_CHECKING:
    from cooptions.envs.adapters.to_pettingzoo import ToPettingZoo


def to_pettingzoo(
    env: AbstractEnv,
    *,
    render_mode: str | None = None,
    masks: str = "infos",
) -> "ToPettingZoo":
    """An environment as a PettingZoo `ParallelEnv`: agents `agent_0`, `agent_1`, ..., each with the team's reward.

    `render_mode` is `"rgb_array"` for pictures, or None. Action masks are in `infos[agent]["action_mask"]`; with
    `masks="observations"` an observation is a dictionary of `observation` and `action_mask` instead. Each agent's info
    also has every score by name, `discount`, and, if the environment shapes rewards, `shaped_reward`. With joint
    options it has `option` (the one that continues in the next step, or -1), its `age`, and `votes` (how many agents
    chose the same option as this agent; 0 if it chose a primitive action).

        exported = co.to_pettingzoo(task, render_mode="rgb_array")
        observations, infos = exported.reset(seed=0)
        actions = {agent: exported.action_space(agent).sample(infos[agent]["action_mask"]) for agent in exported.agents}
        observations, rewards, terminations, truncations, infos = exported.step(actions)
        picture = exported.render()
    """
    try:
        from cooptions.envs.adapters.to_pettingzoo import ToPettingZoo
    except ModuleNotFoundError as error:
        if error.name not in ("gymnasium", "pettingzoo"):
            raise
        raise ConfigError(
            f"to_pettingzoo: {error.name} is not installed; pip install 'cooptions[pettingzoo]'"
        ) from None
    return ToPettingZoo(env, render_mode, masks, picture if render_mode is not None else None)


def picture(env: AbstractEnv, state: Any) -> UInt8[np.ndarray, "height width 3"]:
    """A picture of one state, drawn with the look of the innermost environment."""
    inner = jax.tree.map(lambda leaf: leaf[None], innermost_state(env, state))
    return frames(innermost(env), inner)[0]
