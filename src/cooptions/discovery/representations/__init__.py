"""Representations of a team's state, one file each; `base.py` says what one is and how to write another."""

from cooptions.discovery.representations.base import AbstractRepresentation as AbstractRepresentation
from cooptions.discovery.representations.base import OfTeam as OfTeam
from cooptions.discovery.representations.base import informative as informative
from cooptions.discovery.representations.cmi import Cmi as Cmi
from cooptions.discovery.representations.hit import Hit as Hit
from cooptions.discovery.representations.mask import Mask as Mask
from cooptions.discovery.representations.raw import RawJoint as RawJoint
from cooptions.discovery.representations.scalar import Scalar as Scalar

Representation = Scalar | Cmi | Mask | Hit | RawJoint

REPRESENTATIONS: dict[str, type[AbstractRepresentation]] = {
    "scalar": Scalar,
    "cmi": Cmi,
    "mask": Mask,
    "hit": Hit,
    "raw_joint": RawJoint,
}
