"""Named configurations. Any scenario is a preset too, with the paper's settings."""

from dataclasses import replace
from typing import Any

from cooptions.config import Config
from cooptions.laplacian import Allo, Kronecker, Nystrom
from cooptions.options.train import OURS, recipe
from cooptions.representations import Cmi, Hit, Mask, RawJoint, Scalar
from cooptions.walks import WalkConfig

PRESETS: dict[str, Config] = {
    "quick": Config(
        scenario="lbf-8x8-2p-2f",
        walk=WalkConfig(transitions=100_000),
        laplacian=Nystrom(num_eigenfunctions=2),
        options=replace(OURS, learner=replace(OURS.learner, steps=150_000, batch=64)),
    ),
}

FAMILY_PARTS: dict[str, dict[str, Any]] = {"overcooked": {"laplacian": Nystrom(num_eigenfunctions=20)}}
"""What the paper sets otherwise for a whole family of scenarios."""

METHODS: dict[str, dict[str, Any]] = {
    "iaro": {"representation": Cmi(), "laplacian": Allo()},
    "iaro-scalar": {"representation": Scalar(), "laplacian": Allo()},
    "iaro-paper": {"representation": Cmi.paper(), "laplacian": Allo()},
    "iaro-scalar-paper": {"representation": Scalar.paper(), "laplacian": Allo()},
    "mask": {"representation": Mask(), "laplacian": Nystrom()},
    "hit": {"representation": Hit(), "laplacian": Nystrom()},
    "rjs": {"representation": RawJoint(), "laplacian": Allo(), "basis": "learned"},
    "kron": {"representation": RawJoint(), "laplacian": Kronecker(single=Allo()), "basis": "learned"},
}
"""Ways of discovery, as the parts of a configuration they set: the paper's two, ours, and its two baselines."""


def preset(name: str) -> Config:
    """The configuration of a preset or scenario name; a name that is neither is refused with the nearest ones."""
    if name in PRESETS:
        return PRESETS[name]
    config = Config(scenario=name, **FAMILY_PARTS.get(name.partition("-")[0], {}))
    return replace(config, options=recipe("ours", config.env))


def with_parts(config: Config, parts: dict[str, Any]) -> Config:
    """The configuration with other parts; how many eigenfunctions are wanted stays as it was."""
    swapped = replace(config, **parts)
    num = config.laplacian.num_eigenfunctions
    return replace(swapped, laplacian=replace(swapped.laplacian, num_eigenfunctions=num))
