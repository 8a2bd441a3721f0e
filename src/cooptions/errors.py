"""Errors a user can mend: one line that names the field or file and says what to do."""


class CooptionsError(Exception):
    """Base of all expected failures; the command line prints it and exits with 2."""


class ConfigError(CooptionsError):
    """A value in a configuration or scenario cannot be used."""


class ArtifactError(CooptionsError):
    """A file in a run directory is missing, damaged, held by another process, or of another run."""


class Interrupted(CooptionsError):
    """The user asked for a stop; everything up to the last chunk is on disk."""


def require(condition: bool, message: str) -> None:
    """Raise a `ConfigError` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)
