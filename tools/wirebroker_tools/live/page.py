"""The live page: the page's own files, which need no build and load nothing from other hosts, and the files that users drop on
the page.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from wirebroker.control.app import app, check_sender, json_response, problem_response
from wirebroker.control.problems import Problem
from wirebroker_tools.live.saved_file import SavedFile
from wirebroker_tools.live.table import OF_FILES
from wirebroker_tools.pictures.marks import STYLE

MOST_OPENED = 16
"""At most this many files that users dropped on the live page can be open."""
LONGEST_NAME = 200
SPARE_BYTES = 1 << 30
"""After a dropped file is stored, at least this many bytes of the disk must be free."""
MEDIA = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""The response headers of the page.

With these headers a browser runs only the page's own scripts, even if the data of a Kafka client contain a script.
"""


def routes() -> Sequence[BaseRoute]:
    """Returns the page's routes. Users can drop files on the page."""
    return _routes(opens=True)


def _routes(*, opens: bool) -> Sequence[BaseRoute]:
    pages()  # read the files now: later all descriptors may be in use
    served = [Route("/live", _to_the_live_page), Route("/live/{file:path}", _live_file)]
    return [*served, *([Route("/open", _open, methods=["POST"])] if opens else [])]


async def _to_the_live_page(request: Request) -> Response:
    return RedirectResponse("/live/")


async def _live_file(request: Request) -> Response:
    try:
        check_sender(request)
    except Problem as problem:
        return problem_response(problem)
    found = pages().get(request.path_params["file"])
    if found is None:
        return problem_response(Problem(404, f"there is nothing at {request.url.path}; the live page is at /live/"))
    return Response(found[0], media_type=found[1], headers=HEADERS)


async def _open(request: Request) -> Response:
    """Handles a dropped file. The body of the request is a trace or a capture of any size. The control opens a page for the
    file."""
    try:
        check_sender(request)
        where = await _opened(request)
    except Problem as problem:
        return problem_response(problem, {"connection": "close"})
    return json_response({"page": where}, 201)


async def _opened(request: Request) -> str:
    """Stores the file and opens its page. Returns the page's path. Raises Problem."""
    state, controlled = request.app.state, request.app.state.controlled
    if state.opened >= MOST_OPENED:
        raise Problem(409, f"{MOST_OPENED} files are open; wirebroker trace show FILE --page opens another file")
    given = request.headers.get("content-length", "")
    if not given.isdigit():
        raise Problem(411, "the size of the file is missing (Content-Length)")
    name = request.query_params.get("name", "")[:LONGEST_NAME] or "a file"
    descriptor, path = tempfile.mkstemp(prefix="wirebroker-opened-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            if int(given) + SPARE_BYTES > shutil.disk_usage(path).free:
                raise Problem(507, f"{tempfile.gettempdir()} has no room for {int(given):,} bytes")
            async for part in request.stream():
                await asyncio.to_thread(file.write, part)
        saved = SavedFile(path, name, temporary=True)
    except BaseException as failure:
        os.unlink(path)
        if isinstance(failure, OSError | ValueError):
            raise Problem(422, str(failure)) from None
        raise
    state.opened += 1
    saved.begin()
    controlled.at_close.append(saved.close)
    mounted = f"/saved/{state.opened}"
    request.app.router.routes.insert(0, Mount(mounted, app=app(saved, OF_FILES, state.hosts, _routes(opens=False))))
    return f"{mounted}/live/"


@cache
def pages() -> dict[str, tuple[bytes, str]]:
    """For each path below `/live/`, returns the contents and the media type of the file; the path "" is the page itself."""
    found = dict(_below(files("wirebroker_tools.live") / "files", ""))
    return found | {"": found["index.html"], "pictures.css": (STYLE.encode(), MEDIA[".css"])}


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, tuple[bytes, str]]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{path}{each.name}/")
        elif (media := MEDIA.get("." + each.name.rpartition(".")[2])) is not None:
            yield path + each.name, (each.read_bytes(), media)
