"""Pictures for the card of an option set: each option's eigenfunction and one roll-out."""

import io

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from matplotlib.figure import Figure

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners
from cooptions.envs.team import Team
from cooptions.options.base import AbstractOptions
from cooptions.options.execution import Execution, follow_all, spreads
from cooptions.options.report import Value
from cooptions.options.sharing.cards import card_files
from cooptions.plots.maps import sweep
from cooptions.plots.rollouts import Panel, plot_card, plot_rollouts

DOTS_PER_INCH = 150


def card_pictures(
    env: AbstractEnv, options: AbstractOptions, begun: Runners, *, value: Value | None = None, key: PRNGKeyArray
) -> dict[str, bytes]:
    """A PNG for each option by file name: a map of the function it climbs as one agent moves, and one roll-out.

    All start from the most typical start, whose spreads are closest to the means. The map is left out if an option
    follows no eigenfunction or the agents' first two features are not positions in a plane.
    """
    chosen = _typical(env, jax.vmap(env.agent_states)(begun.state))
    start = jax.tree.map(lambda leaf: leaf[chosen][None], begun)
    joint = np.asarray(env.agent_states(jax.tree.map(lambda leaf: leaf[0], start.state)))
    maps = None
    if value is not None and _has_plane(env):
        maps = sweep(Team.of(env), value, joint[1:], at=joint[0, 2:])
    followed = follow_all(env, options, start, key=key)
    files = card_files([option.name for option in options.options])
    pictures = {}
    for index, option in enumerate(options.options):
        panel = _panel(env, jax.tree.map(lambda leaf, i=index: leaf[i, 0], followed))
        titles = f"{option.name}: one agent moves", f"roll-out, {panel.length} steps"
        if maps is None or option.eigenfunction == 0:
            canvas = plot_rollouts(env, [[panel]], [f"{option.name}: {titles[1]}"])
        else:
            values = option.sign * maps[option.eigenfunction - 1]
            canvas = plot_card(env, values, panel, others=joint[1:], titles=titles)
        pictures[files[option.name]] = _png(canvas)
    return pictures


def _panel(env: AbstractEnv, followed: Execution) -> Panel:
    """The panel of a roll-out, with the spread of each feature at its end."""
    states = np.asarray(followed.agent_states)
    apart = spreads(env.features, env.agent_features, states[-1])
    return Panel(states, int(followed.length), apart, tuple(feature.name for feature in env.features))


def _typical(env: AbstractEnv, agent_states: Float[Array, "start agent feature"]) -> int:
    """The index of the start whose spreads are closest to the means, in units of each feature's deviation."""
    apart = spreads(env.features, env.agent_features, agent_states)
    deviation = apart.std(axis=0)
    unlike = np.abs(apart - apart.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return int(np.argmin(unlike.sum(axis=1)))


def _has_plane(env: AbstractEnv) -> bool:
    return len(env.features) >= 2 and all(feature.kind != "categorical" for feature in env.features[:2])


def _png(canvas: Figure) -> bytes:
    content = io.BytesIO()
    canvas.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return content.getvalue()
