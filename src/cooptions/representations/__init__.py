"""Representations of a team's state, one file each; `base.py` says what one is and how to write another."""

from cooptions.representations.base import AbstractRepresentation as AbstractRepresentation
from cooptions.representations.base import OfTeam as OfTeam
from cooptions.representations.base import Team as Team
from cooptions.representations.base import informative as informative
from cooptions.representations.cmi import Cmi as Cmi
from cooptions.representations.hit import Hit as Hit
from cooptions.representations.mask import Mask as Mask
from cooptions.representations.raw import RawJoint as RawJoint
from cooptions.representations.scalar import Scalar as Scalar

Representation = Scalar | Cmi | Mask | Hit | RawJoint

REPRESENTATIONS: dict[str, type[AbstractRepresentation]] = {
    "scalar": Scalar,
    "cmi": Cmi,
    "mask": Mask,
    "hit": Hit,
    "raw_joint": RawJoint,
}
