"""Open existing run directories for reading, without a lock."""

from dataclasses import replace
from pathlib import Path

from cooptions.errors import ArtifactError, ConfigError
from cooptions.options.sharing import storage
from cooptions.options.train import recipe
from cooptions.runs import team_storage
from cooptions.runs.config import Config, config_of_run
from cooptions.runs.directory import read_run
from cooptions.runs.recipe import NAME, apply_recipe, read_recipe
from cooptions.runs.run import Run
from cooptions.training.progress import Progress

OTHERS = {storage.DESCRIPTION: "an option set", team_storage.DESCRIPTION: "a learned team"}
"""Other kinds of directories, by the file that identifies them."""


def require_run(command: str, path: Path) -> None:
    """Raise `ConfigError` unless the path is a run directory."""
    for file, noun in OTHERS.items():
        if (path / file).is_file():
            raise ConfigError(f"{command}: {path} is {noun}, not a run directory; give the run that it was made in")
    if not any((path / name).is_file() for name in ("config.json", "manifest.json")):
        raise ConfigError(f"{command}: {path} is not a run directory; `cooptions discover SCENARIO` makes one")


def reopened(command: str, path: Path, progress: Progress | None = None, *, trust: bool = False) -> Run:
    """Open a run for reading. Code from outside that its files name is imported only if `trust` is true."""
    require_run(command, path)
    progress = progress or Progress.silent()
    directory = read_run(path, progress.warn)
    return Run(config_of_run(directory, trust=trust), directory, progress)


def configuration_with_options(path: Path, *, trust: bool = False) -> Config:
    """The configuration of a run directory. If it has no options yet, the recommended recipe is used for them."""
    run = reopened("options", path, trust=trust)
    known = run.directory.configs
    if "spectrum" not in known:
        raise ArtifactError(
            f"{path}: nothing was discovered here: `cooptions discover SCENARIO --out {path}` comes first"
        )
    config = run.config if "options" in known else replace(run.config, options=recipe("ours", run.config.option_env))
    return config if "learning" in known else _as_to_be_learned(config, path / NAME, trust)


def _as_to_be_learned(config: Config, file: Path, trust: bool) -> Config:
    """The configuration with the learning part of `run.yaml`, which no finished stage depends on yet."""
    learning = read_recipe(file).get("learning") if file.exists() else None
    return config if learning is None else apply_recipe(config, {"learning": learning}, file, trust=trust)
