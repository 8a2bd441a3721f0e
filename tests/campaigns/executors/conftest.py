"""A site that records what jobs report."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from cooptions.campaigns.executors import Site
from cooptions.campaigns.live import Watch


@pytest.fixture
def site(tmp_path):
    """A site that records finished blocks (`made`) and messages (`told`)."""
    made, told = [], io.StringIO()
    console = Console(width=200, file=told)
    watch = Watch({}, (), console, tmp_path / "logs")
    return SimpleNamespace(site=Site(tmp_path, console, made.extend, watch), made=made, told=told.getvalue)
