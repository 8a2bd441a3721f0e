"""Requests to an untrusted model hub, with limits on size and time and one-line errors.

The session (with proxies and certificates) and the token are those of `huggingface_hub`.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

from cooptions.errors import ArtifactError, require
from cooptions.files import shown

PATIENCE = 10.0
"""Seconds without a byte after which a request is aborted."""
SLOWEST = 1 << 16
"""The average number of bytes per second below which a request is aborted."""
MODEL_HUB = "https://huggingface.co"

LOG_IN = "`hf auth login`, or the variable HF_TOKEN, gives access"
REASONS = {
    "RepoNotFound": f"no such repository, or a private one: check the name; {LOG_IN}",
    "RevisionNotFound": "no such revision: name a branch, tag or commit that the repository has",
    "EntryNotFound": "a file that the hub lists is not there; try again",
    "GatedRepo": f"its owner asks for a request first: make it on the repository's page; {LOG_IN}",
}
"""Messages for the hub's error codes."""


def endpoint() -> str:
    """The address of the hub: the environment variable HF_ENDPOINT, or Hugging Face."""
    address = os.environ.get("HF_ENDPOINT", "").rstrip("/") or MODEL_HUB
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        known = False
    require(known, f"HF_ENDPOINT must be the address of a hub, such as {MODEL_HUB}, not {shown(address)}")
    return address


def token() -> str | None:
    """The user's token; None if there is none."""
    from huggingface_hub import constants, get_token

    return None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()


def get(where: str, path: str, largest: int) -> bytes:
    """The hub's response to a path, of at most `largest` bytes. `where` is the name used in errors."""
    from huggingface_hub import get_session

    begun, content = time.monotonic(), bytearray()
    with one_line_errors(where):
        url, headers = f"{endpoint()}/{path}", _headers()
        with get_session().stream("GET", url, headers=headers, timeout=PATIENCE, follow_redirects=True) as answer:
            _require_success(where, answer.status_code, answer.headers)
            for chunk in answer.iter_raw():
                content += chunk
                if len(content) > largest:
                    raise ArtifactError(f"{where}: the hub sends more than the {largest} bytes there may be")
                if time.monotonic() - begun > 2 * PATIENCE + len(content) / SLOWEST:
                    raise ArtifactError(f"{where}: the hub sends too slowly: {len(content)} bytes; try again later")
            _require_one_page(where, answer.headers)
    return bytes(content)


@contextmanager
def one_line_errors(where: str) -> Iterator[None]:
    """Convert errors of requests to the hub to an `ArtifactError` of one line that says what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError

    try:
        yield
    except HfHubHTTPError as error:
        _refuse(where, error.response.status_code, error.response.headers, error.server_message or "")
    except HTTPError as error:
        raise ArtifactError(
            f"{where}: {endpoint()} cannot be reached: {_message(error)}; check the connection and HF_ENDPOINT, or use "
            "a local copy"
        ) from None
    except (OSError, RuntimeError, ValueError, LookupError) as error:
        raise ArtifactError(
            f"{where}: {endpoint()} answers what cannot be used: {_message(error)}; try again"
        ) from None


def _headers() -> dict[str, str]:
    from cooptions import __version__

    known = token()
    access = {"authorization": f"Bearer {known}"} if known else {}
    return {"user-agent": f"cooptions/{__version__}", "accept-encoding": "identity", **access}


def _require_success(where: str, status: int, headers: Any) -> None:
    if status != 200:
        _refuse(where, status, headers)


def _refuse(where: str, status: int, headers: Any, message: str = "") -> NoReturn:
    """Raise the error for an unsuccessful response. Its body, which may be endless, is not read."""
    reason = REASONS.get(headers.get("X-Error-Code", ""))
    if reason is None and status in (401, 404):  # a private repository also answers 404
        reason = REASONS["RepoNotFound"]
    elif reason is None and status == 403:
        reason = f"access is refused: ask its owner; {LOG_IN}"
    elif reason is None and status == 429:
        reason = "too many requests: wait a few minutes"
    elif reason is None:
        reason = f"the hub answers {status}{f' ({shown(message)[1:-1]})' if message else ''}; try again later"
    raise ArtifactError(f"{where}: {reason}") from None


def _require_one_page(where: str, headers: Any) -> None:
    if 'rel="next"' in headers.get("Link", ""):
        raise ArtifactError(f"{where}: more files than fit one page of the hub: no folder that can be shared")


def _message(error: Exception) -> str:
    """The message of an error in printable form."""
    cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
    return shown(" ".join(str(cause).split()) or type(cause).__name__)[1:-1]
