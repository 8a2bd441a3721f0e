"""The server of the page: static files and a few questions, at an address with a secret token."""

import hmac
import json
import logging
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from cooptions.errors import CooptionsError
from cooptions.playground.library import Library
from cooptions.playground.pages import KINDS, static_files
from cooptions.playground.requests import LARGEST_BODY, QUESTIONS, Refused, answer

log = logging.getLogger("cooptions.playground")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(library: Library, token: str) -> Starlette:
    """The application: the page under `/TOKEN/`. Any other address is refused."""
    files = static_files()

    async def page(request: Request) -> Response:
        _require_token(request, token)
        name = request.path_params.get("file", "index.html")
        if name not in files:
            raise Refused(404, "there is no such file")
        return Response(files[name], media_type=KINDS[name.rpartition(".")[2]], headers=HEADERS)

    async def question(request: Request) -> Response:
        _require_token(request, token)
        name = request.path_params["question"]
        if name != "subjects" and name not in QUESTIONS:
            raise Refused(404, f"unknown question; there are subjects, {', '.join(QUESTIONS)}")
        body = await _body(request)
        try:
            return _json(200, await run_in_threadpool(answer, library, name, body))
        except CooptionsError:
            raise
        except Exception as error:  # the server survives any error in a question
            log.error("%s could not be answered", name, exc_info=error)
            return _json(500, {"error": "the server could not answer; its log says why"})

    async def nowhere(request: Request) -> Response:
        _require_token(request, token)
        raise Refused(404, "there is nothing here")

    routes = [
        Route("/{token}/api/{question}", question, methods=["POST"]),
        Route("/{token}/{file}", page, methods=["GET"]),
        Route("/{token}/", page, methods=["GET"]),
        Route("/{rest:path}", nowhere, methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    ]
    return Starlette(routes=routes, exception_handlers={CooptionsError: _refuse, HTTPException: _refuse})


def _require_token(request: Request, token: str) -> None:
    """Refuse an address without the token. Comparing in constant time prevents guessing the token letter by letter."""
    given = request.url.path.lstrip("/").partition("/")[0]
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        raise Refused(403, "the address lacks the token that `cooptions play` printed")


async def _body(request: Request) -> bytes:
    """The whole body. It is refused if it is larger than any that the page sends."""
    content = b""
    try:
        async for part in request.stream():
            content += part
            if len(content) > LARGEST_BODY:
                raise Refused(413, f"the body is larger than {LARGEST_BODY} bytes")
    except ClientDisconnect:
        raise Refused(400, "the connection ended before the body did") from None
    return content


async def _refuse(request: Request, error: Exception) -> Response:
    status, reason = 400, str(error)
    if isinstance(error, HTTPException):
        status, reason = error.status_code, error.detail
    elif isinstance(error, Refused):
        status = error.status
    log.warning("%s refused (%d): %s", request.method[:10], status, reason)
    return _json(status, {"error": reason})


def _json(status: int, value: Any) -> Response:
    content = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Response(content, status, media_type="application/json", headers=HEADERS)
