"""The code that the programs of the Python clients share: it parses arguments, runs checks, prints a line of JSON for each
check, and has helpers for checks.

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
"""After a record of this many bytes, a quota of 10,000 bytes a second delays the client by 1.5 s."""
WAITS = 1.0
"""A client that has used up its quota must wait at least this many seconds."""
LIMIT = 20.0
"""A program waits at most this many seconds for anything."""


class NotOffered(Exception):
    """Raised if the client does not offer what a check needs; the text names the missing call."""


def run(client: str, version: str, checks: Mapping[str, Callable[[str, str], str | None]]) -> None:
    """Run the checks that the command line names. Each check gets the broker's address and a prefix for the names it uses."""
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
    """Returns the listener and the login that the check `name` uses on a secured broker."""
    from wirebroker.security.protocols import SecurityProtocol
    from wirebroker.testing.client_settings import Access

    check = _forms(name)["access"]
    files = {file: Path(check[file]) if check[file] else None for file in ("ca", "client")}
    token = check["token"]
    return Access(**check | files | {"protocol": SecurityProtocol[check["protocol"]], "token": lambda: token})


def settings(name: str, library: str) -> dict[str, Any]:
    """Returns the settings that the check `name` needs on a secured broker, in the form of this library."""
    found: dict[str, Any] = _forms(name)[library]
    return found


def _forms(name: str) -> Any:
    known = json.loads(Path(os.environ["INTEROP_ACCESS"]).read_text())
    return next(forms for check, forms in known.items() if name.endswith(check))


def _say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def same(found: object, expected: object, what: str = "found") -> None:
    """Raise AssertionError unless both values are equal."""
    if found != expected:
        raise AssertionError(f"{what} {found!r}, expected {expected!r}")


def until(condition: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
    """Call `condition` repeatedly until it returns true. Raises AssertionError after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {limit:.0f} s this is still not so: {what}")


def waited_since(began: float, least: float = WAITS) -> str:
    """Returns a text that says how long the client waited after it used up its quota. Raises AssertionError if the wait is too
    short."""
    waited = time.monotonic() - began
    if waited < least:
        raise AssertionError(f"the next acknowledgement came after {waited:.2f} s; with a quota it takes {least:.0f} s or more")
    return f"waited {waited:.1f} s"


def numbered(word: str, count: int) -> list[bytes]:
    """Returns word-0, word-1, … as bytes."""
    return [f"{word}-{number}".encode() for number in range(count)]
