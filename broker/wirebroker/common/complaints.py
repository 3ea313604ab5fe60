"""Reports failures on stderr and in the log, escaped so that they are safe to read there."""

from __future__ import annotations

import logging
import sys
from traceback import TracebackException

from kafkawire.printable import printable, printable_lines


class Complaint(Exception):
    """Raised if a command cannot be carried out. The message is for the user, and the command's exit code is 2."""


def complain(command: str, problem: object) -> None:
    """Print a command's error on stderr."""
    print(printable(f"wirebroker {command}: {problem}"), file=sys.stderr)


class PrintableRecords(logging.Filter):
    """Makes each log record safe for all handlers of a logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = printable(record.getMessage()), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = "\n".join(map(_part, TracebackException.from_exception(record.exc_info[1]).format()))
        return True


def _part(text: str) -> str:
    """Escapes a part of a traceback. Only headings and frames keep line breaks; an exception's message becomes one line."""
    own = text.startswith((" ", "\n", "Traceback "))
    return printable_lines(text.rstrip("\n")) if own else printable(text.rstrip("\n"))
