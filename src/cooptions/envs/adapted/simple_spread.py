"""MPE's simple_spread: agents on a plane share out landmarks among themselves."""

from dataclasses import dataclass
from typing import ClassVar

from cooptions.envs.adapters.base import AbstractAdapter
from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.errors import require_whole
from cooptions.types import Feature

with quiet_import():
    from jaxmarl.environments.mpe import SimpleSpreadMPE

MOVES = ("stay", "x-1", "x+1", "y-1", "y+1")
REACH = 3.0
"""The limit of positions in agents' states; positions beyond it are clipped. Agents start between -1 and 1."""


@FAMILIES.register("mpe-simple_spread")
@dataclass(frozen=True)
class SimpleSpread(AbstractScenario):
    """Agents on a plane share out landmarks among themselves (MPE, JaxMARL).

    There are as many landmarks as agents. The reward increases as the team covers all landmarks and decreases with
    collisions.
    """

    pattern: ClassVar[str] = r"(?:(?P<num_agents>\d+)p)?"
    form: ClassVar[str] = "mpe-simple_spread[-Pp]"
    examples: ClassVar[tuple[str, ...]] = ("mpe-simple_spread", "mpe-simple_spread-5p")

    num_agents: int = 3
    time_limit: int = 25

    def adapt(self) -> AbstractAdapter:
        require_whole("num_agents", self.num_agents, at_least=2, at_most=32)
        require_whole("time_limit", self.time_limit)
        inner = SimpleSpreadMPE(self.num_agents, self.num_agents, max_steps=self.time_limit - 1)
        return FromJaxMARL(
            inner,
            features=(Feature.continuous("x", -REACH, REACH), Feature.continuous("y", -REACH, REACH)),
            factorise=lambda state: state.p_pos[: self.num_agents].clip(-REACH, REACH),
            action_names=MOVES,
            ground="MPE simple_spread",
            ends_by_time_limit=True,
            landmarks=lambda state: state.p_pos[self.num_agents :],
            axes=(1, 0),
        )
