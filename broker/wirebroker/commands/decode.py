"""`wirebroker decode`: converts bytes to named fields."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kafkawire.errors import ProtocolError
from kafkawire.printable import printable, printable_lines
from wirebroker.capture.files import is_capture
from wirebroker.common.complaints import complain
from wirebroker.decode.forms import UnknownForm, read_bytes
from wirebroker.decode.frames import decode_all
from wirebroker.decode.show import lines


def run(arguments: argparse.Namespace) -> int:
    """Print the frames. Returns the exit code: 0, or 1 if record data is damaged, or 2 if the bytes cannot be read."""
    complaints = []
    try:
        if (arguments.api is None) != (arguments.version is None):
            raise UnknownForm("a response needs both --api and --version")
        data = given(arguments.input)
        if arguments.form is None and is_capture(data[:4]):
            raise UnknownForm(f"this is a capture; `wirebroker trace show {arguments.input}` reads it")
        data = read_bytes(data, arguments.form)
        for decoded in decode_all(data, arguments.api, arguments.version):
            if arguments.json:
                print(printable_lines(json.dumps(decoded.plain, ensure_ascii=False, indent=2)))
            else:
                print("\n".join(map(printable, lines(decoded))))
            complaints += decoded.complaints
    except OSError as refused:
        if isinstance(refused, BrokenPipeError):
            raise
        complain("decode", f"{arguments.input}: {refused.strerror}")
        return 2
    except (UnknownForm, ProtocolError) as wrong:
        complaints.append(str(wrong))
        return 2
    finally:
        sys.stdout.flush()
        for sentence in complaints:
            complain("decode", sentence)
    return 1 if complaints else 0


def given(text: str) -> bytes:
    """Returns the input that an argument stands for: standard input for `-`, the content of a file, or the argument itself.

    Raises OSError.
    """
    if text == "-":
        return sys.stdin.buffer.read()
    try:
        is_file = Path(text).is_file()
    except (OSError, ValueError):  # too long for a path
        is_file = False
    return Path(text).read_bytes() if is_file else text.encode(errors="replace")
