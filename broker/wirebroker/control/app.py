"""Handles one request of the control. The endpoint's forms check the request, and every error becomes a problem document.

Handlers run on the event loop of the broker or proxy, so they can use the broker or proxy without locks.
"""

from __future__ import annotations

import asyncio
import json
import json.scanner
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from inspect import isawaitable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkawire.compression import CodecMissing
from wirebroker.control import openapi, page
from wirebroker.control.controlled import Readable
from wirebroker.control.endpoint import JSON, TEXT, TOML, Endpoint
from wirebroker.control.forms import Form, Misfit, read
from wirebroker.control.hosts import Hosts, plain_host
from wirebroker.control.problems import PROBLEM, Problem
from wirebroker.deeds.errors import Unfit

logger = logging.getLogger("wirebroker")

MOST_BYTES = 16 * 1024 * 1024
"""The largest size of a body in bytes. A larger body is refused with 413."""
MOST_AT_ONCE = 64 * 1024
"""The largest size in bytes of a JSON body that is parsed on the event loop. A larger body is parsed in a thread."""
MOST_TOML_BYTES = 64 * 1024
"""The largest size of a fault file in bytes. A larger file is refused with 413, because the broker's event loop parses the
file, and needs a microsecond per byte."""
MOST_REQUESTS = 256
"""The largest number of concurrent requests, including requests that wait for a condition. Further requests get 503."""
Responder = Callable[[Request], Awaitable[Response]]


class _Number(Convertor[int]):
    """A number in a path, of up to 18 digits. A path with a longer number gets 404."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


class _Id(Convertor[str]):
    """An id in a path: any text, even with slashes and line breaks. Starlette's own converter `path` refuses line breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("number", _Number())
register_url_convertor("id", _Id())


def app(controlled: Readable, endpoints: tuple[Endpoint, ...], hosts: Hosts, live_page: Sequence[BaseRoute] = ()) -> Starlette:
    """Returns an ASGI application with these endpoints of a broker, a proxy or a file, and with the live page. The application
    responds only to requests for these host names."""
    made = Starlette(
        routes=[*_routes(endpoints), *live_page], exception_handlers={HTTPException: _refused_by_the_router},
        middleware=[Middleware(_Limit)],
    )  # fmt: skip
    made.router.redirect_slashes = False
    made.state.controlled = controlled
    made.state.hosts = hosts
    made.state.reading = asyncio.Lock()
    made.state.opened = 0
    return made


class _Limit:
    """Refuses further requests while MOST_REQUESTS requests are being handled. uvicorn's own limit would also count idle
    connections, and its response is not JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._running = app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._running >= MOST_REQUESTS:
            refused = Problem(503, f"{self._running} requests are waiting already; end some of them, and try again")
            await problem_response(refused, {"connection": "close"})(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


@cache
def _routes(endpoints: tuple[Endpoint, ...]) -> tuple[Route, ...]:
    described = [
        Route("/", _described(lambda: HTMLResponse(page.page(endpoints)))),
        Route("/openapi.json", _described(lambda: json_response(openapi.described(endpoints)))),
    ]
    # With one route for each path, a wrong method gets 405, and a wrong path gets 404.
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return (*described, *(Route(path, _responder(by), methods=list(by)) for path, by in paths.items()))


def _described(make: Callable[[], Response]) -> Responder:
    made = cache(make)

    async def response(request: Request) -> Response:
        return made()

    return response


def _responder(by_method: Mapping[str, Endpoint]) -> Responder:
    async def response(request: Request) -> Response:
        endpoint = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            return await _response(endpoint, request)
        except Problem as problem:
            # If the body is too large, close the connection, and do not read the remaining bytes.
            return problem_response(problem, {"connection": "close"} if problem.status == 413 else None)
        except Misfit as wrong:
            return problem_response(Problem(422, str(wrong), wrong.field))
        except Unfit as wrong:
            return problem_response(Problem(wrong.status, str(wrong), wrong.field))
        except (ValueError, CodecMissing) as wrong:
            return problem_response(Problem(422, str(wrong)))
        except OSError as failure:
            return problem_response(Problem(503, f"the data directory cannot be used: {failure.strerror or failure}"))
        except ClientDisconnect:
            return Response(status_code=499)  # the client has disconnected
        except Exception:
            logger.exception("%s %s failed because of an error in wirebroker", endpoint.method, request.url.path)
            return problem_response(Problem(500, "an error in wirebroker; its log has the traceback"))

    return response


async def _response(endpoint: Endpoint, request: Request) -> Response:
    controlled: Readable = request.app.state.controlled
    check_sender(request)
    asked = await _asked(endpoint, request)
    controlled.catch_up()
    if endpoint.method != "GET":
        controlled.set_time()
    result = endpoint.handler(controlled, **asked)
    if isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        return StreamingResponse(result, endpoint.status, media_type=endpoint.media)
    if endpoint.as_text is not None and JSON not in request.headers.get("accept", ""):
        return Response(endpoint.as_text(result), endpoint.status, media_type=TEXT)
    if endpoint.media != JSON:
        return Response(result, endpoint.status, media_type=endpoint.media)
    return json_response({} if result is None else msgspec.to_builtins(result), endpoint.status)


async def _asked(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    """Returns the handler's arguments. Raises Problem, Misfit."""
    hints = endpoint.hints
    asked: dict[str, Any] = dict(request.path_params)
    if "query" in hints or request.query_params:
        asked |= _query(hints.get("query"), request)
    body = await _body(request, MOST_TOML_BYTES if endpoint.takes == TOML else MOST_BYTES)
    if "text" in hints:
        try:
            asked["text"] = body.decode()
        except UnicodeDecodeError as wrong:
            raise Problem(400, f"the body is not UTF-8: {wrong}") from None
    elif "body" in hints:
        asked["body"] = _fitted(hints["body"], await _read(body, request.app.state.reading))
    elif body.strip() and await _read(body, request.app.state.reading) != {}:
        raise Problem(400, "this endpoint takes no body, or an empty object")
    return asked


def _query(form: Any, request: Request) -> dict[str, Any]:
    given = request.query_params.multi_items()
    for name, times in Counter(name for name, _ in given).items():
        if form is None:
            raise Problem(422, f"there is no {name!r} here; this endpoint takes no query", name)
        if times > 1:
            raise Problem(422, f"{name} is given more than once", name)
    return {"query": read(form, dict(given), as_text=True)}


def _fitted(form: Any, value: Any) -> Any:
    if issubclass(form, Form):
        return read(form, value)
    if not isinstance(value, dict):
        raise Problem(422, "the body is a JSON object")
    return value


async def _body(request: Request, most: int) -> bytes:
    """Returns the body. Raises Problem if the body has more than `most` bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Problem(413, f"a body has at most {most} bytes")
        parts.append(part)
    return b"".join(parts)


class _Slowly(json.JSONDecoder):
    """Parses JSON in Python, so that other threads can run in the meantime.

    The decoder in C would block the other threads until it is done.
    """

    def __init__(self, **hooks: Any) -> None:
        super().__init__(**hooks)
        decoder: Any = json.decoder  # these names are not documented, but have not changed since Python 2.6
        scanner: Any = json.scanner
        self.parse_object, self.parse_array = decoder.JSONObject, decoder.JSONArray
        self.scan_once = scanner.py_make_scanner(self)


async def _read(body: bytes, reading: asyncio.Lock) -> Any:
    """Returns the JSON value in the body. An empty or blank body means an empty object. Only one large body is read at a time.
    Raises Problem."""
    if len(body) <= MOST_AT_ONCE:
        return _parsed(body, json.JSONDecoder)
    async with reading:
        return await asyncio.to_thread(_parsed, body, _Slowly)


def _parsed(body: bytes, decoder: type[json.JSONDecoder]) -> Any:
    try:
        text = (body if body.strip() else b"{}").decode(json.detect_encoding(body))
        value = decoder(parse_constant=_no_number, parse_int=_whole, parse_float=_finite).decode(text)
        if "\\u" in text:
            for part in json.JSONEncoder(ensure_ascii=False).iterencode(value):
                part.encode()
    except UnicodeEncodeError:
        raise Problem(400, "the body has half of a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError) as damage:
        raise Problem(400, f"the body is not JSON: {damage}") from None
    return value


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(f"{digits[:20]}… does not fit into 64 bits")
    return int(digits)


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


def check_sender(request: Request) -> None:
    """Refuse a request that a browser sends for a page of another site. Raises Problem.

    Any web page can send requests to localhost, but the browser names the page's site in the header Origin. A site can let its
    own host name resolve to this machine. Then Origin names the same host as the request, but `wirebroker.control.hosts`
    refuses a host name that is not the control's.
    """
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise Problem(403, f"a page of {origin[:100]} sent this request; only the control's pages may send requests", "Origin")
    if not request.app.state.hosts.takes(host, request.scope["server"][0]):
        name = plain_host(host)[:100]
        raise Problem(
            403, f"the control does not respond under the name {name!r}; use localhost, or start the broker with "
            f"--control-allow-host {name or 'NAME'}", "Host",
        )  # fmt: skip


async def _refused_by_the_router(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, HTTPException)
    sentence = refused.detail
    if refused.status_code == 404:
        sentence = f"there is nothing at {request.url.path}; / and /openapi.json list all paths"
    elif refused.status_code == 405:
        allowed = sorted((refused.headers or {}).get("Allow", "").split(", "))
        sentence = f"{request.url.path} takes no {request.method}, only {', '.join(allowed)}"
    return problem_response(Problem(refused.status_code, sentence), refused.headers)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a problem document (RFC 9457)."""
    return json_response(problem.described(), problem.status, PROBLEM, headers)


def json_response(value: Any, status: int = 200, media: str = JSON, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(value, separators=(",", ":"))  # the JSON is in ASCII, because UTF-8 cannot encode lone surrogates
    return Response(text.encode(), status, dict(headers or {}), media)
