"""`wirebroker encode`: converts the output of `decode --json`, edited or not, to bytes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from wirebroker.commands.arguments import is_of_output, write_output
from wirebroker.common.complaints import complain
from wirebroker_tools.commands.decode import given
from wirebroker_tools.decode.forms import written
from wirebroker_tools.decode.frames import encode_plain
from wirebroker_tools.decode.plain import PlainError


def run(arguments: argparse.Namespace) -> int:
    """Print the bytes of all frames, or write them to a file. Returns the exit code: 0, or 2 if a frame cannot be encoded."""
    try:
        text = given(arguments.input).decode("utf-8")
        data = b"".join(encode_plain(plain) for plain in frames_in(text))
        if arguments.out:
            write_output(arguments.out, data if arguments.form == "binary" else written(data, arguments.form))
        elif arguments.form == "binary":
            sys.stdout.buffer.write(data)
        else:
            print(written(data, arguments.form))
    except OSError as refused:
        if is_of_output(refused):
            raise
        complain("encode", f"{refused.filename or arguments.input}: {refused.strerror}")
    except RecursionError:
        complain("encode", "this JSON is nested too deeply")
    except ValueError as wrong:
        reason = wrong if isinstance(wrong, PlainError) else f"this is not the JSON of a frame: {wrong}"
        complain("encode", reason)
    else:
        return 0
    return 2


def frames_in(text: str) -> Iterator[Any]:
    """Yields the JSON values in a text. The values stand one after another, or in a list. Raises ValueError."""
    decoder, pos = json.JSONDecoder(), 0
    while (pos := len(text) - len(text[pos:].lstrip())) < len(text):
        value, pos = decoder.raw_decode(text, pos)
        yield from value if isinstance(value, list) else [value]
    if not text.strip():
        raise ValueError("there is nothing")
