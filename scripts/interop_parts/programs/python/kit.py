"""The shared parts of the Python clients' programs: the arguments, one JSON line per check, and small helpers.

A program is called with the broker's address, a prefix for all names it uses, and the ids of checks. It prints
`{"client": …, "version": …}` and then, for each check in the order given, `{"check": …, "result": …, "detail": …,
"seconds": …}` with the result "pass", "fail" or "not offered" (by the client). Programs in other languages do the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SECURED = ("tls", "mtls", "sasl-plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
"""The checks that differ only in how the client connects and logs in."""
REFUSED = "interop-refused"
"""A topic that bob may not write."""
OVER = 115_000
"""Bytes that use up a quota of 10,000 bytes a second for 1.5 s."""
WAITS = 1.0
"""The least number of seconds that a client must wait after it has used up its quota."""
LIMIT = 20.0
"""The most seconds that a program waits for anything."""


class NotOffered(Exception):
    """Raised if the client has no call for this; the text names what is missing."""


def run(client: str, version: str, checks: Mapping[str, Callable[[str, str], str | None]]) -> None:
    """Run the checks named on the command line; each gets the broker's address and a prefix for its names."""
    bootstrap, prefix, *wanted = sys.argv[1:]
    _say(client=client, version=version)
    for name in wanted:
        began = time.monotonic()
        try:
            if name not in checks:
                raise NotOffered
            result, detail = "pass", checks[name](bootstrap, f"{prefix}-{name}") or ""
        except NotOffered as missing:
            result, detail = "not offered", str(missing)
        except Exception as error:
            traceback.print_exc()
            result, detail = "fail", f"{type(error).__name__}: {error}"
        _say(check=name, result=result, detail=detail, seconds=round(time.monotonic() - began, 2))


def access(name: str) -> Any:
    """Returns the listener and the login with which the check of this name reaches a secured broker."""
    from wirebroker.security.protocols import SecurityProtocol
    from wirebroker.testing.client_settings import Access

    check = _forms(name)["access"]
    files = {file: Path(check[file]) if check[file] else None for file in ("ca", "client")}
    token = check["token"]
    return Access(**check | files | {"protocol": SecurityProtocol[check["protocol"]], "token": lambda: token})


def settings(name: str, library: str) -> dict[str, Any]:
    """Returns the settings with which this library reaches a secured broker for the check."""
    found: dict[str, Any] = _forms(name)[library]
    return found


def _forms(name: str) -> Any:
    known = json.loads(Path(os.environ["INTEROP_ACCESS"]).read_text())
    return next(forms for check, forms in known.items() if name.endswith(check))


def _say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def same(found: object, expected: object, what: str = "found") -> None:
    """Raise AssertionError unless both are equal."""
    if found != expected:
        raise AssertionError(f"{what} {found!r}, expected {expected!r}")


def until(condition: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
    """Call `condition` again and again until it holds; AssertionError after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {limit:.0f} s this is still not so: {what}")


def waited_since(began: float, least: float = WAITS) -> str:
    """Returns in words how long a client waited after it used up its quota. Raises AssertionError if the wait is too short."""
    waited = time.monotonic() - began
    if waited < least:
        raise AssertionError(f"the next acknowledgement came after {waited:.2f} s, not as late as {least:.0f} s")
    return f"waited {waited:.1f} s"


def numbered(word: str, count: int) -> list[bytes]:
    """word-0, word-1, …"""
    return [f"{word}-{number}".encode() for number in range(count)]
