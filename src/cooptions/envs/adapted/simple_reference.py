"""MPE's simple_reference: two agents tell each other where to go."""

from dataclasses import dataclass
from typing import ClassVar

from cooptions.envs.adapted.simple_spread import MOVES, REACH
from cooptions.envs.adapters.base import AbstractAdapter
from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.envs.adapters.quiet import quiet_import
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.envs.base import FAMILIES
from cooptions.errors import require_whole
from cooptions.types import Feature

with quiet_import():
    from jaxmarl.environments.mpe import SimpleReferenceMPE

NUM_AGENTS, NUM_WORDS = 2, 10


@FAMILIES.register("mpe-simple_reference")
@dataclass(frozen=True)
class SimpleReference(AbstractScenario):
    """Two agents on a plane tell each other which of three landmarks to go to (MPE, JaxMARL).

    An action is a move and one of ten words, which the teammate observes in the next step.
    """

    examples: ClassVar[tuple[str, ...]] = ("mpe-simple_reference",)

    time_limit: int = 25

    def adapt(self) -> AbstractAdapter:
        require_whole("time_limit", self.time_limit)
        return FromJaxMARL(
            SimpleReferenceMPE(max_steps=self.time_limit - 1),
            features=(Feature.continuous("x", -REACH, REACH), Feature.continuous("y", -REACH, REACH)),
            factorise=lambda state: state.p_pos[:NUM_AGENTS].clip(-REACH, REACH),
            action_names=tuple(f"{move}, word {word}" for word in range(NUM_WORDS) for move in MOVES),
            ground="MPE simple_reference",
            ends_by_time_limit=True,
            landmarks=lambda state: state.p_pos[NUM_AGENTS:],
            axes=(1, 0),
        )
