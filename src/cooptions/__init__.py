"""Options that a whole team of agents executes together: discover them, train them, learn with them.

    import cooptions as co

    env = co.make_env("lbf-15x15-4p-3f")
    walk = co.walk(env, transitions=500_000, key=key)
    found = co.discover(walk, co.Hit(), co.Nystrom(10), key=key)
    options = co.train_options(env, found, key=key)
    task = co.MacroEnv(env, options)
    team = co.learn(task, co.mappo(steps=10_000_000), key=key)

Names are imported when they are first used: `import cooptions` alone takes a few milliseconds.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# XLA's default CPU scheduler deadlocks now and then on programs with many small independent operations (seen with
# jaxlib 0.10.2 on two cores: all workers asleep, in `cmi` each time). It is read when JAX first needs a device.
_SAFE_SCHEDULER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
if "concurrency_optimized_scheduler" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_SAFE_SCHEDULER}".strip()

if TYPE_CHECKING:
    from cooptions.discovery.discovered import Discovered as Discovered
    from cooptions.discovery.discovered import discover as discover
    from cooptions.discovery.laplacian.allo import Allo as Allo
    from cooptions.discovery.laplacian.exact import Exact as Exact
    from cooptions.discovery.laplacian.kronecker import Kronecker as Kronecker
    from cooptions.discovery.laplacian.nystrom import Nystrom as Nystrom
    from cooptions.discovery.representations.cmi import Cmi as Cmi
    from cooptions.discovery.representations.hit import Hit as Hit
    from cooptions.discovery.representations.mask import Mask as Mask
    from cooptions.discovery.representations.raw import RawJoint as RawJoint
    from cooptions.discovery.representations.scalar import Scalar as Scalar
    from cooptions.discovery.walks import walk as walk
    from cooptions.envs.adapters.jaxmarl import FromJaxMARL as FromJaxMARL
    from cooptions.envs.adapters.jumanji import FromJumanji as FromJumanji
    from cooptions.envs.adapters.to_jaxmarl import ToJaxMARL as to_jaxmarl  # noqa: N813
    from cooptions.envs.base import AbstractEnv as AbstractEnv
    from cooptions.envs.scenarios import make_env as make_env
    from cooptions.envs.subteam import SubteamEnv as SubteamEnv
    from cooptions.options.macro import MacroEnv as MacroEnv
    from cooptions.options.option_set import OptionSet as OptionSet
    from cooptions.options.sharing.storage import load_option_set as load_options
    from cooptions.options.train import OptionsConfig as OptionsConfig
    from cooptions.options.train import train_options as train_options
    from cooptions.plots.exported import to_pettingzoo as to_pettingzoo
    from cooptions.runs.team import LearnedTeam as LearnedTeam
    from cooptions.runs.team import compare_teams as compare
    from cooptions.runs.team import ippo as ippo
    from cooptions.runs.team import iql as iql
    from cooptions.runs.team import learn as learn
    from cooptions.runs.team import load_team as load_team
    from cooptions.runs.team import mappo as mappo
    from cooptions.runs.team import pqn as pqn
    from cooptions.runs.team import vdn as vdn

_WHERE = {
    # environments
    "make_env": "envs.scenarios",
    "AbstractEnv": "envs.base",
    "SubteamEnv": "envs.subteam",
    "FromJaxMARL": "envs.adapters.jaxmarl",
    "FromJumanji": "envs.adapters.jumanji",
    "to_jaxmarl": "envs.adapters.to_jaxmarl:ToJaxMARL",
    "to_pettingzoo": "plots.exported",
    # discovery
    "walk": "discovery.walks",
    "discover": "discovery.discovered",
    "Discovered": "discovery.discovered",
    "Hit": "discovery.representations.hit",
    "Mask": "discovery.representations.mask",
    "Cmi": "discovery.representations.cmi",
    "Scalar": "discovery.representations.scalar",
    "RawJoint": "discovery.representations.raw",
    "Nystrom": "discovery.laplacian.nystrom",
    "Allo": "discovery.laplacian.allo",
    "Exact": "discovery.laplacian.exact",
    "Kronecker": "discovery.laplacian.kronecker",
    # options
    "train_options": "options.train",
    "OptionsConfig": "options.train",
    "OptionSet": "options.option_set",
    "load_options": "options.sharing.storage:load_option_set",
    "MacroEnv": "options.macro",
    # learning
    "learn": "runs.team",
    "iql": "runs.team",
    "vdn": "runs.team",
    "pqn": "runs.team",
    "ippo": "runs.team",
    "mappo": "runs.team",
    "LearnedTeam": "runs.team",
    "load_team": "runs.team",
    "compare": "runs.team:compare_teams",
}
"""Where each public name is defined, in the order of the flow."""

__all__ = list(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _WHERE:
        raise AttributeError(f"module 'cooptions' has no attribute {name!r}; there are {', '.join(_WHERE)}")
    module, _, attribute = _WHERE[name].partition(":")
    found = getattr(importlib.import_module(f"cooptions.{module}"), attribute or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("cooptions")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
