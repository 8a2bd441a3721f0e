"""Named configurations. Any scenario is a preset too, with the paper's settings."""

from cooptions.config import Config
from cooptions.walks import WalkConfig

PRESETS: dict[str, Config] = {
    "quick": Config(scenario="lbf-8x8-2p-2f", walk=WalkConfig(transitions=100_000)),
}


def preset(name: str) -> Config:
    """The configuration of a preset or scenario name; a name that is neither is refused with the nearest ones."""
    config = PRESETS.get(name) or Config(scenario=name)
    _ = config.env
    return config
