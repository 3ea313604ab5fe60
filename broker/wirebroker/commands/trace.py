"""`wirebroker trace show`: the verdicts in a file of JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from wirebroker.trace.rows import FaultRow, Row, row_from_json
from wirebroker.trace.sinks import has_colour, line


def run(options: argparse.Namespace) -> int:
    """Print the rows that are asked for: 0, or 2 if the file cannot be read. A damaged line is named and left out."""
    path = Path(options.file)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as refused:
        print(f"wirebroker trace show: {path}: {getattr(refused, 'strerror', None) or refused}", file=sys.stderr)
        return 2
    colour, damaged = has_colour(sys.stdout), 0
    for number, text in enumerate(lines, 1):
        try:
            row = row_from_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as wrong:
            damaged += 1
            print(f"{path}:{number}: this is no row of a trace ({wrong!r})", file=sys.stderr)
            continue
        if _wanted(row, options):
            print(line(row, colour))
    return 2 if damaged and damaged == len(lines) else 0


def _wanted(row: Row, options: argparse.Namespace) -> bool:
    asked = {
        "topic": options.topic, "partition": options.partition, "producer_id": options.producer,
        "verdict": options.verdict,
    }  # fmt: skip
    if isinstance(row, FaultRow):  # shown beside the rest, unless something else is asked for
        return all(value is None for value in asked.values())
    return all(value is None or getattr(row, name) == value for name, value in asked.items())
