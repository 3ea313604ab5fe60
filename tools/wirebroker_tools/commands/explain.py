"""`wirebroker explain`: finds what is wrong in a trace, in a capture, or at a running broker or proxy."""

from __future__ import annotations

import argparse
import io
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPException
from typing import Any, BinaryIO, TextIO

from kafkawire.printable import printable
from wirebroker.audit.findings import plural
from wirebroker.commands.arguments import Unread, is_of_output, write_output
from wirebroker.common.complaints import complain
from wirebroker.trace.layout import line
from wirebroker.trace.rows import Row, row_from_json
from wirebroker_tools.capture.files import is_capture
from wirebroker_tools.commands.trace import captured, read_rows
from wirebroker_tools.decode.other_files import checked
from wirebroker_tools.explain.explanation import Explanation
from wirebroker_tools.explain.findings import KINDS, command_of, picture_of

TIMEOUT_S = 30.0
PATH = "/explain"
"""The path in the HTTP control that returns the findings."""
Told = dict[str, Any]
"""A finding as JSON."""


def run(options: argparse.Namespace) -> int:
    """Print the findings.

    Returns the exit code: 0 if nothing is wrong, 1 if there is a finding, 2 if the source cannot be read.
    """
    try:
        told = _of_control(options.source) if "://" in options.source else _of_file(options.source)
        for each in told["findings"]:
            each["command"] = command_of(each, options.source)
            each["picture"] = picture_of(each, options.source)
        if options.json:
            written = {"findings": told["findings"], "rows": told["rows"]}
            write_output(options.json, json.dumps(written, indent=2) + "\n")
    except OSError as refused:
        if is_of_output(refused):
            raise
        reason = getattr(refused, "reason", None) or refused  # the reason of a URLError
        complain("explain", f"{refused.filename or options.source}: {getattr(reason, 'strerror', None) or reason}")
        return 2
    except ValueError as wrong:
        complain("explain", f"{options.source}: {wrong}")
        return 2
    with Unread():
        _print(told)
    return 1 if told["findings"] else 0


def _of_file(name: str) -> Told:
    with ExitStack() as resources:
        file = sys.stdin.buffer if name == "-" else resources.enter_context(open(name, "rb"))
        unread = io.StringIO()
        explanation = Explanation().take_all(_rows(name, checked(file, name), unread))
    if not explanation.rows:
        raise ValueError(unread.getvalue().strip().removeprefix(f"{name}: ") or "the input has no row")
    sys.stderr.write(unread.getvalue())
    return {
        "is_partial": bool(unread.getvalue()),
        "rows": explanation.rows,
        "blind": explanation.blind,
        "findings": [each.as_json() for each in explanation.findings()],
    }


def _rows(name: str, file: BinaryIO, unread: TextIO) -> Iterator[Row]:
    """Yields the rows of a trace or a capture, and writes a message to `unread` for each part of a capture that cannot be
    read."""
    if isinstance(file, io.BufferedReader) and is_capture(file.peek(4)[:4]):
        return captured(name, file, unread)
    return read_rows(name, file)


def _of_control(url: str) -> Told:
    """Get the findings from a running HTTP control. Raises OSError, ValueError."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("this is neither a file nor an address like http://127.0.0.1:8080")
    try:
        with urllib.request.urlopen(url.rstrip("/") + PATH, timeout=TIMEOUT_S) as response:
            told = json.load(response)
    except urllib.error.HTTPError as refused:
        raise ValueError(f"this is not a control of wirebroker ({refused.code} {refused.reason})") from None
    except HTTPException as wrong:  # a bad port in the address, or a response that is not HTTP
        raise ValueError(f"this is not a control of wirebroker ({wrong!r})") from None
    if not isinstance(told, dict) or not isinstance(told.get("findings"), list):
        raise ValueError("this is not a control of wirebroker")
    return told


def _print(told: Told) -> None:
    for number, each in enumerate(told["findings"], 1):
        if number > 1:
            print()
        print(printable(f"{number}. {each['kind']}: {each['sentence']}"))
        print(printable(f"   usual cause: {each['cause']}"))
        print(printable(f"   look at:     {each['look_at']}"))
        print(printable(f"   show more:   {each['command']}"))
        if each["picture"]:
            print(printable(f"   picture:     {each['picture']}"))
        for row in each["rows"]:
            print(f"   | {line(row_from_json(row))}")
        hidden = each["count"] - len(each["rows"])
        if hidden:
            print(f"   | and {plural(hidden, 'more row')}")
    if not told["findings"]:
        what = "no finding in the part that could be read," if told.get("is_partial") else "nothing is wrong in"
        print(f"{what} {told['rows']:,} rows: none of {len(KINDS)} kinds of findings")
    if told.get("blind"):
        print(told["blind"], file=sys.stderr)
