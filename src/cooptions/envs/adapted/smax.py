"""SMAX: units fight together against a scripted army."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from cooptions.envs.adapters.base import AbstractAdapter
from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.errors import require, require_whole
from cooptions.types import Feature

with quiet_import():
    from jaxmarl.environments.smax import HeuristicEnemySMAX
    from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO

MOVES = ("y+1", "x+1", "y-1", "x-1", "stop")


@FAMILIES.register("smax")
@dataclass(frozen=True)
class Smax(AbstractScenario):
    """Units fight side by side against an army that follows a script (SMAX, JaxMARL).

    An agent's state is its position and its health. The team is rewarded for damage, and receives 1 for a victory.
    """

    pattern: ClassVar[str] = (
        r"(?P<units>3m|2s3z|25m|3s5z|8m|5m_vs_6m|10m_vs_11m|27m_vs_30m|3s5z_vs_3s6z|3s_vs_5z|6h_vs_8z"
        r"|smacv2_5_units|smacv2_10_units|smacv2_20_units)"
    )
    form: ClassVar[str] = "smax-UNITS"
    examples: ClassVar[tuple[str, ...]] = ("smax-3m", "smax-2s3z", "smax-5m_vs_6m", "smax-smacv2_5_units")

    units: str = "3m"
    time_limit: int = 100

    def adapt(self) -> AbstractAdapter:
        require(self.units in MAP_NAME_TO_SCENARIO, f"units: there are no {self.units!r} in the installed JaxMARL")
        require_whole("time_limit", self.time_limit)
        inner = HeuristicEnemySMAX(scenario=MAP_NAME_TO_SCENARIO[self.units], max_steps=self.time_limit - 1)
        allies, smax = inner.num_allies, inner._env
        return FromJaxMARL(
            inner,
            features=(
                Feature.continuous("x", 0.0, float(smax.map_width)),
                Feature.continuous("y", 0.0, float(smax.map_height)),
                Feature.continuous("health", 0.0, 1.0),
            ),
            factorise=lambda state: _units(smax, state.state)[:allies],
            noop=MOVES.index("stop"),
            action_names=(*MOVES, *(f"attack {enemy + 1}" for enemy in range(inner.num_enemies))),
            ground=f"smax {self.units}",
            score=lambda state: _scores(state.state, allies),
            score_names=("percent_won", "percent_defeated"),
            timed_out=lambda state: ~_is_over(state.state, allies),
            landmarks=lambda state: _standing(smax, state.state)[allies:],
            axes=(1, 0),
        )


def _units(smax: Any, state: Any) -> Float[Array, "unit 3"]:
    """Position and fraction of health of every unit, enemies last. Positions off the map are clipped."""
    size = jnp.array([smax.map_width, smax.map_height], jnp.float32)
    health = state.unit_health / smax.unit_type_health[state.unit_types]
    return jnp.concatenate([state.unit_positions.clip(0.0, size), health[:, None].clip(0.0, 1.0)], axis=1)


def _standing(smax: Any, state: Any) -> Float[Array, "unit 3"]:
    """The states of the living units. Dead units are NaN, which hides them."""
    return jnp.where(state.unit_alive[:, None], _units(smax, state), jnp.nan)


def _is_over(state: Any, allies: int) -> Any:
    return ~state.unit_alive[:allies].any() | ~state.unit_alive[allies:].any()


def _scores(state: Any, allies: int) -> Float[Array, "2"]:
    """In percent: whether all enemies are dead and an ally is alive, and the fraction of enemies that are dead."""
    defeated = 1.0 - state.unit_alive[allies:].mean()
    won = (defeated == 1.0) & state.unit_alive[:allies].any()
    return 100.0 * jnp.stack([won.astype(jnp.float32), defeated])
