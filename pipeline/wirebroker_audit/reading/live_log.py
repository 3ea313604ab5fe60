"""Reads the log of a live partition by fetching batch by batch, as `segments` reads files."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.batches import HEADER_SIZE, read_header
from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.reading.linker import Linker
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.reading.scan import Chunk, batch_rows, damage_row, stored_crc
from wirebroker_audit.reading.walking import walk
from wirebroker_audit.wire import EARLIEST, BrokerError, Client, LivePartition

EMPTY_RESPONSES = 4
"""This many successive Fetches may return nothing although offsets remain."""


def crc_before(client: Client, each: LivePartition, offset: int) -> int:
    """Returns the checksum of the batch that ends before this offset, −1 if there is no such batch."""
    fetched, _ = client.fetch(each.topic, each.partition, offset - 1)
    if len(fetched) < HEADER_SIZE or read_header(fetched, 0).last_offset + 1 != offset:
        return -1
    return stored_crc(fetched, 0)


def read_cluster(piece: Piece, expiration_ms: int = EXPIRATION_MS) -> Iterator[Chunk]:
    """Yields the batches whose base offset lies in the piece, and a row if the piece cannot be read to its end."""
    client = Client(piece.bootstrap, piece.access)
    reader = _Reader(piece, Linker(piece.number, piece.topic, expiration_ms), client)
    try:
        yield from reader.read()
    except BrokerError as broken:
        yield reader.damage("unreadable", f"{piece.segment} at offset {reader.offset}: {broken}")
    finally:
        client.close()


class _Reader:
    """Fetches the batches of a piece, one response after the other."""

    def __init__(self, piece: Piece, linker: Linker, client: Client) -> None:
        self.piece, self.linker, self.client = piece, linker, client
        self.offset, self.stop = piece.begin.offset, piece.end.offset
        self.empty = 0

    def damage(self, problem: str, detail: str, size: int = 0) -> Chunk:
        self.linker.damaged(-1)
        return damage_row(self.piece, problem, detail, position=self.offset, size=size, expected_offset=self.offset)

    def read(self) -> Iterator[Chunk]:
        # the log start offset may lie inside a batch
        first = self.offset if self.offset > self.piece.begin.start else 0
        while self.offset < self.stop:
            fetched = self._fetch()
            if isinstance(fetched, Chunk):
                yield fetched
                continue
            if not fetched:
                if self._is_over():
                    return
                continue
            self.empty = 0
            found = walk(fetched, 0, len(fetched))
            if not len(found.positions):
                yield self.damage(
                    "bad_batch", f"the broker responded with {len(fetched)} bytes that hold no batch", len(fetched)
                )
                raise BrokerError("the batches after these bytes cannot be fetched")
            last = read_header(fetched, int(found.positions[-1]))
            chosen = found.within(fetched, first, self.stop)
            if len(chosen.positions):
                rows = batch_rows(fetched, chosen, self.piece, self.linker, 0)
                places = dict(zip(rows.column("position").to_pylist(), chosen.positions.tolist(), strict=True))
                yield Chunk(memoryview(fetched), rows, 0, places)
            self.offset = max(last.last_offset, self.offset) + 1

    def _is_over(self) -> bool:
        """Called after a response without batches. Returns True after several such responses if the log is compacted:
        compaction has removed the log's last batches."""
        self.empty += 1
        if self.empty < EMPTY_RESPONSES:
            return False
        if not self.piece.begin.compacted:
            raise BrokerError(f"{self.empty} responses without a batch, although the log reaches offset {self.stop - 1}")
        return True

    def _fetch(self) -> bytes | Chunk:
        """Returns record data from the current offset on, or a `deleted` row if retention has removed this data."""
        try:
            records, _ = self.client.fetch(self.piece.topic, self.piece.partition, self.offset)
        except BrokerError:
            start = self.client.offset(self.piece.topic, self.piece.partition, EARLIEST)
            if start <= self.offset:
                raise
            gone = self.damage("deleted", f"offsets {self.offset} to {start - 1} were deleted while they were read")
            self.offset = start
            return gone
        return bytes(records)
