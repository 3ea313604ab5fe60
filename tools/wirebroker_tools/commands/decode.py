"""`wirebroker decode`: converts bytes to named fields."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from string import hexdigits

from kafkawire.errors import ProtocolError
from kafkawire.printable import printable, printable_lines
from wirebroker.commands.arguments import is_of_output
from wirebroker.common.complaints import complain
from wirebroker_tools.capture.files import is_capture
from wirebroker_tools.decode.forms import UnknownForm, read_bytes
from wirebroker_tools.decode.frames import decode_all
from wirebroker_tools.decode.other_files import LONGEST_START, other_file
from wirebroker_tools.decode.show import lines

LONGEST_NAME = 256
"""If an argument is longer than this, it is not the name of a file."""


def run(arguments: argparse.Namespace) -> int:
    """Print the frames. Returns the exit code: 0, or 1 if record data is damaged, or 2 if the bytes cannot be read."""
    complaints = []
    try:
        if (arguments.api is None) != (arguments.version is None):
            raise UnknownForm("a response needs both --api and --version")
        data = given(arguments.input)
        if arguments.form is None:
            _check(arguments.input, data)
        data = read_bytes(data, arguments.form)
        for decoded in decode_all(data, arguments.api, arguments.version):
            if arguments.json:
                print(printable_lines(json.dumps(decoded.plain, ensure_ascii=False, indent=2)))
            else:
                print("\n".join(map(printable, lines(decoded))))
            complaints += decoded.complaints
    except OSError as refused:
        if is_of_output(refused):
            raise
        complain("decode", f"{arguments.input}: {refused.strerror}")
        return 2
    except (UnknownForm, ProtocolError) as wrong:
        complaints.append(f"{wrong}{_absent(arguments.input)}")
        return 2
    finally:
        sys.stdout.flush()
        for sentence in complaints:
            complain("decode", sentence)
    return 1 if complaints else 0


def _check(name: str, data: bytes) -> None:
    """Raises UnknownForm if the data, such as a capture, certainly has no requests, responses or record batches."""
    if is_capture(data[:4]):
        raise UnknownForm(f"this is a capture; `wirebroker trace show {name}` reads it")
    if sentence := other_file(name if os.path.lexists(name) else "", data[:LONGEST_START]):
        raise UnknownForm(sentence)
    if data[:1] == b"{":
        raise UnknownForm("this is JSON; `wirebroker trace show` reads a trace, and `wirebroker encode` the JSON of frames")
    if data and not any(data):
        raise UnknownForm(f"all {len(data)} bytes are 0, as in a part of a file that was never written")


def _absent(text: str) -> str:
    """Returns the end of the error message: a remark if the argument may be the name of a file that does not exist, else ""."""
    may_be_name = text != "-" and len(text) < LONGEST_NAME and not any(map(str.isspace, text)) and set(text) - set(hexdigits)
    return "; there is no file of this name" if may_be_name and not os.path.lexists(text) else ""


def given(text: str) -> bytes:
    """Returns the input that an argument stands for: standard input for `-`, the content of a file, or the argument itself.

    Raises OSError.
    """
    if text == "-":
        return sys.stdin.buffer.read()
    return Path(text).read_bytes() if os.path.lexists(text) else text.encode(errors="replace")
