"""`wirebroker diff`: two captured sessions side by side."""

from __future__ import annotations

import argparse

from kafkawire.printable import printable
from wirebroker.commands.arguments import Unread
from wirebroker.common.complaints import complain
from wirebroker_tools.capture.files import DamagedCapture
from wirebroker_tools.capture.outcomes import Lane, Outcomes, differences, table
from wirebroker_tools.capture.session import Session
from wirebroker_tools.decode.other_files import OtherFile, checked


def run(arguments: argparse.Namespace) -> int:
    """Print the differences.

    Returns the exit code: 0 if no difference matters, 1 if a difference matters, 2 if a session cannot be read.
    """
    sessions = []
    for name in (arguments.one, arguments.other):
        outcomes = Outcomes()
        session = Session(outcomes.row, outcomes.event)
        try:
            with open(name, "rb") as file:
                session.read(checked(file, name))
        except (OSError, DamagedCapture, OtherFile) as failure:
            complain("diff", f"{name}: {getattr(failure, 'strerror', None) or failure}")
            return 2
        for complaint in session.complaints:
            complain("diff", f"{name}: {complaint}")
        if session.is_empty:
            return 2
        sessions.append(outcomes.lanes())
    return report(*sessions)


def report(one: dict[Lane, list[str]], other: dict[Lane, list[str]]) -> int:
    """Print the differences between the outcomes of two sessions. Returns 0 if there is no difference, else 1."""
    found = list(differences(one, other))
    compared = len({*one, *other})
    with Unread():
        for lane, pairs in found:
            print("\n".join(map(printable, table(lane, pairs))))
        if found:
            print(f"{len(found)} of {compared} differ in errors, offsets or verdicts")
        else:
            print(f"no difference in errors, offsets and verdicts ({compared} compared)")
    return 1 if found else 0
