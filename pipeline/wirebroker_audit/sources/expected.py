"""Estimates how long the stages of an audit take in relation to each other: first from the sizes of segments, then from the
numbers of rows. The estimates are seconds of processor time, as scripts/bench-audit measured them. The progress bar corrects
them when it sees how much time the stages really take.
"""

from __future__ import annotations

from collections.abc import Sequence

from wirebroker_audit.reading.pieces import Piece

REPORT = 6.0
"""The time in seconds to write even the smallest report."""
BATCH_BYTES, JOURNAL_BYTES, RECORD_OFFSETS = 500, 150, 200
"""Typical sizes, to estimate numbers of rows before anything is read: the bytes of a small batch, the bytes of a journal's row,
and the bytes of a record in a live cluster's log."""
PIECE, BATCH, CHECK, RECORD, ROW, NAMED = 2e-3, 4e-6, 1e-6, 12e-6, 5e-6, 5e-6
"""The seconds of processor time for a piece, for scanning a batch, for checking a batch, for a record, for a row of the
journal, and for matching a record with the journal."""

JOURNAL, SCAN, CHECKS = "reading the journal", "scanning batches", "checking sequences, epochs and transactions"
RECORDS, BATCHES, WRITING = "comparing the contents of records", "comparing the contents of batches", "writing the report"


def by_size(pieces: Sequence[Piece], journal_bytes: int, *, by_record: bool) -> dict[str, float]:
    """Estimates the seconds that each stage takes, before anything is read."""
    size = sum(each.size * (RECORD_OFFSETS if each.bootstrap else 1) for each in pieces)
    batches = size // BATCH_BYTES
    rows = journal_bytes // JOURNAL_BYTES
    return _stages(len(pieces), batches, batches, rows, by_record=by_record)


def by_rows(pieces: Sequence[Piece], batches: int, records: int, rows: int, *, by_record: bool) -> dict[str, float]:
    """Estimates the seconds that each stage takes, after the batches are counted."""
    return _stages(len(pieces), batches, records, rows, by_record=by_record)


def _stages(pieces: int, batches: int, records: int, rows: int, *, by_record: bool) -> dict[str, float]:
    checks = batches * CHECK
    seconds = {JOURNAL: rows * ROW, SCAN: pieces * PIECE + batches * BATCH, CHECKS: 2 + checks, WRITING: REPORT + checks}
    if by_record:
        return seconds | {RECORDS: pieces * PIECE + records * RECORD + (records + rows) * NAMED * bool(rows)}
    return seconds | {BATCHES: 1 + batches * CHECK}
