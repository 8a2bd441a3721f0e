"""How commands answer in tests."""

import contextlib

import pytest

from cooptions.cli.main import main


@pytest.fixture
def refused(capsys):
    """The line that a refused command prints on standard error."""

    def fail(*words):
        with pytest.raises(SystemExit) as stopped:
            main(list(words))
        assert stopped.value.code == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    return fail


@pytest.fixture
def printed(capsys):
    """The standard output of a command."""

    def succeed(*words):
        capsys.readouterr()
        with contextlib.suppress(SystemExit):  # `--help` exits
            main(list(words))
        return capsys.readouterr().out

    return succeed
