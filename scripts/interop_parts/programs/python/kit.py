"""The shared parts of the Python clients' programs: the arguments, one JSON line per check, and small helpers.

A program is called with the broker's address, a prefix for all names it uses, and the ids of checks. It prints
`{"client": …, "version": …}` and then, for each check in the order given, `{"check": …, "result": …, "detail": …,
"seconds": …}` with the result "pass", "fail" or "not offered" (by the client). Programs in other languages do the same.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping

LIMIT = 20.0
"""Seconds that a program waits for anything."""


class NotOffered(Exception):
    """The client has no call for this; the text says what is missing."""


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
            raise AssertionError(f"after {limit:.0f} s not yet: {what}")


def numbered(word: str, count: int) -> list[bytes]:
    """word-0, word-1, …"""
    return [f"{word}-{number}".encode() for number in range(count)]
