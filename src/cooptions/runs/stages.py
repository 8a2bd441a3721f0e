"""The stages of a run: what each one depends on, and their order."""

from collections.abc import Callable
from dataclasses import dataclass

from cooptions.files import Json
from cooptions.runs.config import Config


@dataclass(frozen=True)
class Stage:
    """A stage of a run, which has one artefact."""

    fields: tuple[str, ...]
    """The fields of the configuration that it depends on, besides those of the stages before it."""
    after: Callable[[Config], tuple[str, ...]]
    """All stages that it needs, in order."""


_DISCOVERY = ("walk", "representation", "spectrum", "options")

STAGES: dict[str, Stage] = {
    "walk": Stage(("walk",), lambda _: ()),
    "representation": Stage(("members", "representation"), lambda _: _DISCOVERY[:1]),
    "spectrum": Stage(("laplacian", "basis"), lambda _: _DISCOVERY[:2]),
    "options": Stage(("options",), lambda _: _DISCOVERY[:3]),
    "learning": Stage(("members", "learning"), lambda config: _DISCOVERY if config.discovers else ()),
}
"""Every stage in order."""


def stage_configs(config: Config, until: str) -> dict[str, Json]:
    """The configuration of each stage that is needed up to and including `until`."""

    discovering = config.discovering

    def config_of(name: str) -> Json:
        chain = (*STAGES[name].after(config), name)
        fields = (field for stage in chain for field in STAGES[stage].fields)
        return (discovering if name in _DISCOVERY else config).stage_config(*fields)

    return {name: config_of(name) for name in (*STAGES[until].after(config), until)}
