"""Reads a piece from a file, a folder or a live cluster. No Spark here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.reading.live_log import read_cluster
from wirebroker_audit.reading.live_segments import read_folder
from wirebroker_audit.reading.manifests import why_unreadable
from wirebroker_audit.reading.pieces import RESTARTED, Piece
from wirebroker_audit.reading.scan import Chunk, damage_row
from wirebroker_audit.reading.segments import read_file


def read_piece(piece: Piece, expiration_ms: int = EXPIRATION_MS) -> Iterator[Chunk]:
    """Yields the batches of the piece, and a row for each damaged place. Raises OSError only if a folder cannot be read; any
    other error becomes a row."""
    if piece.problem:
        position = RESTARTED if piece.problem == "deleted" else 0
        return iter([damage_row(piece, piece.problem, piece.detail, position=position, size=0, expected_offset=0)])
    if piece.manifest and (why := why_unreadable(piece.path, piece.manifest)):
        return read_piece(replace(piece, problem="unreadable", detail=why))
    if piece.bootstrap:
        return read_cluster(piece, expiration_ms)
    return read_file(piece, expiration_ms) if piece.file else read_folder(piece, expiration_ms)
