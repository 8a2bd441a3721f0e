"""`cooptions play`: serve the page, or write it as one file."""

import secrets
import webbrowser
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import tyro
from rich.console import Console

from cooptions.errors import ConfigError, require

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class PlayArguments:
    """Open a local page: drag a team, see its eigenfunctions answer, play its options, watch what it has learned."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run directories or option sets, between which the page can switch; the newest run in `runs/` if none is named."""
    scenario: str = ""
    """Where the options of a set are played, if it does not lie in its run."""
    host: str = "127.0.0.1"
    """The address to listen at. Any other than this one lets other machines in, if they know the token."""
    port: int = 0
    """The port to listen at; 0 takes a free one."""
    browser: bool = True
    """Whether to open the page in the browser."""
    export: Path | None = None
    """Write the first run named as one self-contained HTML file instead, with what can be worked out beforehand."""
    trust: bool = False
    """Import a scenario or part from outside the package that a run names."""

    def __post_init__(self) -> None:
        require(0 <= self.port < 2**16, f"port must be 0 to 65535, not {self.port}")


def play(arguments: PlayArguments, console: Console) -> None:
    """Serve the page until it is interrupted, or write it to a file."""
    from cooptions.playground.library import Library, newest_run

    paths = arguments.runs or (newest_run(),)
    library = Library.of(paths, scenario=arguments.scenario, trust=arguments.trust)
    if arguments.export is not None:
        from cooptions.playground.export import export

        for line in export(library.scene(0), library.describe()[0], arguments.export):
            console.print(line, markup=False, soft_wrap=True)
        return
    _serve(library, arguments, console)


def _serve(library, arguments: PlayArguments, console: Console) -> None:  # noqa: ANN001
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"play: {' and '.join(missing)} not installed: pip install 'cooptions[play]'")
    import uvicorn

    from cooptions.playground.server import make_app

    token = secrets.token_urlsafe(24)
    with console.status("compiling ..."):
        library.scene(0)
    config = uvicorn.Config(
        make_app(library, token), arguments.host, arguments.port, log_level="warning", access_log=False
    )
    sock = config.bind_socket()
    address = f"http://{_shown(arguments.host)}:{sock.getsockname()[1]}/{token}/"
    if arguments.host not in LOOPBACK:
        console.print("Other machines can reach this page. Whoever has its address can use it.")
    console.print(f"open {address}", soft_wrap=True)
    console.print("stop with ctrl-c")
    if arguments.browser:
        webbrowser.open(address)
    uvicorn.Server(config).run(sockets=[sock])


def _shown(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
