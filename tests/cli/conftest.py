"""Runs that are made once for all tests of the command line."""

import contextlib

import pytest

from cooptions.cli.main import main

WALK = ["--walk.transitions", "200", "--walk.num-envs", "10"]
BRIEFLY = ["--steps", "640", "--learning.evaluations", "1", "--learning.episodes", "1"]
DISCOVERY = ["--laplacian.num-eigenfunctions", "1", "--representation.steps", "20", "--representation.batch", "32"]
OPTIONS = ["--options.learner.steps", "1280", "--options.learner.batch", "8", "--options.num-starts", "8"]


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


@pytest.fixture(scope="session")
def walked(tmp_path_factory):
    """A run directory with a walk."""
    out = tmp_path_factory.mktemp("runs") / "walk"
    main(["walk", "grid-5x5-2p", "--out", str(out), *WALK])
    return out


@pytest.fixture(scope="session")
def learned(tmp_path_factory):
    """A run directory with every stage."""
    out = tmp_path_factory.mktemp("runs") / "whole [/b]"
    main(["run", "grid-5x5-2p", "--out", str(out), *WALK, *DISCOVERY, *OPTIONS, *BRIEFLY])
    return out
