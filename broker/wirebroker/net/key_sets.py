"""Loads the keys that check signed tokens, from files and URLs. A file is read again when it has changed, and a URL is queried
again at regular intervals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from kafkawire.extras import how_to_install
from wirebroker.security.web_tokens import KeySet

logger = logging.getLogger("wirebroker")

SETTING = "sasl.oauthbearer.jwks.endpoint.url"
MOST_BYTES = 1 << 20
ASKS_FOR_S = 10.0
KEY_ID_LENGTH, KEY_IDS = 1000, 16
"""Only a missing key whose id has at most KEY_ID_LENGTH characters causes another query of the URL. At most KEY_IDS missing key
ids are remembered."""
AGAIN_AFTER_S = 60.0
"""After a query because of a missing key, the same key causes no further query for this time in seconds, as in Kafka's
RefreshingHttpsJwks."""


class KeySetError(ValueError):
    """Raised if a key set cannot be read. The message names the file or URL and the reason."""


class KeySets:
    """The key sets of a broker, by their URLs."""

    def __init__(self) -> None:
        self._found: dict[str, _KeySetFile | _KeySetAddress] = {}

    async def open(self, url: str, refresh_ms: int) -> None:
        """Read a key set for the first time. Raises KeySetError."""
        if url in self._found:
            return
        if urlsplit(url).scheme.lower() == "file":
            from urllib.request import url2pathname

            self._found[url] = _KeySetFile(Path(url2pathname(urlsplit(url).path)))
        else:
            self._found[url] = address = _KeySetAddress(url, refresh_ms / 1000)
            await address.begin()

    def of(self, url: str) -> KeySet:
        """Returns the keys of a key set, as they were last read."""
        return self._found[url].keys()

    def missing(self, url: str, key_id: str) -> None:
        """Remember that a token names a key that the key set does not contain. Query the key set's URL again, in the
        background."""
        self._found[url].missing(key_id)

    def close(self) -> None:
        """Stop querying the URLs."""
        for each in self._found.values():
            each.close()


class _KeySetFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys = _read(str(path), self._text)
        self._seen = self._form()

    def _form(self) -> tuple[int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size

    def _text(self) -> str:
        return self._path.read_text(encoding="utf-8")

    def keys(self) -> KeySet:
        try:
            form = self._form()
            if form != self._seen:
                self._seen = form
                self._keys = _read(str(self._path), self._text)
        except (KeySetError, OSError) as wrong:
            logger.warning("the last key set stays in use: %s", wrong)
        return self._keys

    def missing(self, key_id: str) -> None:
        """Does nothing, because each token causes a check whether the file has changed."""

    def close(self) -> None:
        """Does nothing, because no file stays open."""


class _KeySetAddress:
    def __init__(self, url: str, refresh_s: float) -> None:
        self._url = url
        self._refresh_s = refresh_s
        self._loop = asyncio.get_running_loop()
        self._keys: KeySet
        self._asking: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._looked_for: dict[str, float] = {}

    async def begin(self) -> None:
        if urlsplit(self._url).scheme.lower() not in ("http", "https"):
            raise KeySetError(f"{SETTING}={self._url} does not begin with http://, https:// or file://")
        self._keys = await self._ask()
        self._set_alarm()

    async def _ask(self) -> KeySet:
        return await asyncio.to_thread(_read, self._url, lambda: _fetched(self._url))

    def keys(self) -> KeySet:
        return self._keys

    def missing(self, key_id: str) -> None:
        now = self._loop.time()
        if len(key_id) > KEY_ID_LENGTH or now < self._looked_for.get(key_id, now):
            return
        self._looked_for.pop(key_id, None)
        self._looked_for[key_id] = now + AGAIN_AFTER_S
        if len(self._looked_for) > KEY_IDS:
            del self._looked_for[next(iter(self._looked_for))]
        self._refresh()

    def _set_alarm(self) -> None:
        self._alarm = self._loop.call_later(self._refresh_s, self._refresh)

    def _refresh(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = self._loop.create_task(self._ask_again())

    async def _ask_again(self) -> None:
        try:
            self._keys = await self._ask()
        except KeySetError as wrong:
            logger.warning("the last key set stays in use: %s", wrong)
        self.close()
        self._set_alarm()

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()


def _fetched(url: str) -> str:
    from http.client import HTTPException  # these imports are only here, because these modules import many others
    from urllib.request import Request, urlopen

    asked = Request(url, headers={"Accept": "application/json"})
    try:
        with urlopen(asked, timeout=ASKS_FOR_S) as response:
            found: bytes = response.read(MOST_BYTES + 1)
    except HTTPException as wrong:  # a bad port in the address, or a response that is not HTTP
        raise ValueError(repr(wrong)) from None
    if len(found) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    return found.decode()


def _read(where: str, text: Callable[[], str]) -> KeySet:
    try:
        import jwt  # noqa: F401
    except ImportError:
        raise KeySetError(f"{SETTING}: to check signed tokens, {how_to_install('oauth')}") from None
    try:
        return KeySet(text())
    except (OSError, ValueError) as wrong:
        raise KeySetError(f"{SETTING}: the key set at {where} cannot be read: {wrong}") from None
