"""The looks of environments: one file each, named like the module in `envs`, imported when first drawn."""

import importlib
from importlib.util import find_spec


def load_look(kind: type) -> bool:
    """Import the look of an environment class or of its nearest base class that has one. Returns whether there is one.

    A look registers itself with `frames.register` and `floor.register`.
    """
    for base in kind.__mro__:
        name = base.__module__.removeprefix("cooptions.envs.").partition(".")[0]
        look = f"{__name__}.{name}"
        if base.__module__.startswith("cooptions.envs.") and find_spec(look) is not None:
            importlib.import_module(look)
            return True
    return False
