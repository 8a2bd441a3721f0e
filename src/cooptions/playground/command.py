"""`cooptions play`: serve the page, or write it as one file."""

import logging
import secrets
import socket
import threading
import webbrowser
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cooptions.errors import ConfigError, require

if TYPE_CHECKING:
    from rich.console import Console

    from cooptions.playground.library import Library

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class PlayArguments:
    """Open a local page: drag a team, see its eigenfunctions, play its options, watch what it has learned."""

    runs: tuple[Path, ...] = field(default=(), metadata={"positional": True})
    """Run directories or option sets that the page can show. By default, the newest run in `runs/`."""
    scenario: str = ""
    """The scenario in which the options of a set are played, if the set is not inside its run."""
    host: str = "127.0.0.1"
    """The address to listen on. Any but a local one gives access to other machines, if they know the token."""
    port: int = 0
    """The port to listen on; 0 chooses a free one."""
    browser: bool = True
    """Do not open the page in the browser."""
    export: Path | None = None
    """Write the first run as one self-contained HTML file instead, with results that are computed in advance."""
    trust: bool = False
    """Import code from outside that a run names, for example its scenario."""

    def __post_init__(self) -> None:
        require(0 <= self.port < 2**16, f"port must be 0 to 65535, not {self.port}")


def play(arguments: PlayArguments, console: "Console") -> None:
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


def _serve(library: "Library", arguments: PlayArguments, console: "Console") -> None:
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"play: {' and '.join(missing)} not installed: pip install 'cooptions[play]'")
    import uvicorn

    from cooptions.playground.server import make_app

    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    token = secrets.token_urlsafe(24)
    sock = _listen(arguments.host, arguments.port)  # first, because it may fail
    with console.status("compiling ..."):
        library.scene(0)
    address = f"http://{_shown(arguments.host)}:{sock.getsockname()[1]}/{token}/"
    if arguments.host not in LOOPBACK:
        console.print("Other machines can reach this page. Whoever has its address can use it.")
    console.print(f"open {address}", soft_wrap=True)
    console.print("stop with ctrl-c")
    if arguments.browser:
        webbrowser.open(address)
    threading.Thread(target=library.prepare, daemon=True).start()
    config = uvicorn.Config(make_app(library, token), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[sock])


def _listen(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        remedy = "give another --host" if isinstance(error, (socket.gaierror, UnicodeError)) else "give another --port"
        raise ConfigError(f"play: cannot listen at {host} port {port}: {reason}; {remedy}") from None
    return sock


def _shown(host: str) -> str:
    """A host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host
