"""Run directories that are there already. None of these commands makes one."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cooptions.errors import ArtifactError, ConfigError
from cooptions.options.train import recipe
from cooptions.runs.config import Config
from cooptions.runs.run import Run
from cooptions.training.progress import Progress


def require_run(command: str, path: Path) -> None:
    """Refuse a place that holds no run."""
    if not (path / "config.json").is_file():
        raise ConfigError(f"{command}: {path} is not a run directory; `cooptions discover SCENARIO` makes one")


@contextlib.contextmanager
def reopened(command: str, path: Path, progress: Progress | None = None, *, trust: bool = False) -> Iterator[Run]:
    """A run as it was configured. Code from outside that its files name is only imported if it is trusted."""
    require_run(command, path)
    with Run.reopen(path, progress, trust=trust) as run:
        yield run


def configuration_with_options(path: Path, *, trust: bool = False) -> Config:
    """What a run directory was made with; options that it has none of yet are to be trained as we recommend."""
    with reopened("options", path, trust=trust) as run:
        known = run.directory.configs
        if "spectrum" not in known:
            raise ArtifactError(
                f"{path}: nothing was discovered here: `cooptions discover SCENARIO --out {path}` comes first"
            )
        return run.config if "options" in known else replace(run.config, options=recipe("ours", run.config.env))
