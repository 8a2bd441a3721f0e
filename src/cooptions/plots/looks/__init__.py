"""How each environment looks: one file each, named like its module or folder in `envs`, imported when first drawn."""

import importlib
from importlib.util import find_spec


def load_look(kind: type) -> bool:
    """Import the look of an environment's class, or of the nearest class it derives from that has one.

    Returns whether there is one. A look registers itself with `frames.register` and `floor.register`.
    """
    for base in kind.__mro__:
        name = base.__module__.removeprefix("cooptions.envs.").partition(".")[0]
        look = f"{__name__}.{name}"
        if base.__module__.startswith("cooptions.envs.") and find_spec(look) is not None:
            importlib.import_module(look)
            return True
    return False
