"""Named configurations. Any scenario is a preset too, with the paper's settings."""

from typing import Any

from cooptions.config import Config
from cooptions.laplacian import Allo, Kronecker, Nystrom
from cooptions.representations import Cmi, Hit, Mask, RawJoint, Scalar
from cooptions.walks import WalkConfig

PRESETS: dict[str, Config] = {
    "quick": Config(scenario="lbf-8x8-2p-2f", walk=WalkConfig(transitions=100_000)),
}


METHODS: dict[str, dict[str, Any]] = {
    "iaro": {"representation": Cmi(), "laplacian": Allo()},
    "iaro-scalar": {"representation": Scalar(), "laplacian": Allo()},
    "mask": {"representation": Mask(), "laplacian": Nystrom()},
    "hit": {"representation": Hit(), "laplacian": Nystrom()},
    "rjs": {"representation": RawJoint(), "laplacian": Allo(), "basis": "learned"},
    "kron": {"representation": RawJoint(), "laplacian": Kronecker(single=Allo()), "basis": "learned"},
}
"""Ways of discovery, as the parts of a configuration they set: the paper's two, ours, and its two baselines."""


def preset(name: str) -> Config:
    """The configuration of a preset or scenario name; a name that is neither is refused with the nearest ones."""
    config = PRESETS.get(name) or Config(scenario=name)
    _ = config.env
    return config
