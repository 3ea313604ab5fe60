"""The files of the live page. The page consists of HTML and ES modules, needs no build, and loads nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from wirebroker.pictures.marks import STYLE

MEDIA = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""The response headers of the page.

With these headers a browser runs only the page's own scripts, even if a client's data contain a script.
"""


def pages() -> dict[str, tuple[bytes, str]]:
    """Returns the contents and the media type of each file, by its path below `/live/`; "" is the page itself."""
    found = dict(_below(files("wirebroker.control") / "live", ""))
    return found | {"": found["index.html"], "pictures.css": (STYLE.encode(), MEDIA[".css"])}


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, tuple[bytes, str]]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{path}{each.name}/")
        elif (media := MEDIA.get("." + each.name.rpartition(".")[2])) is not None:
            yield path + each.name, (each.read_bytes(), media)
