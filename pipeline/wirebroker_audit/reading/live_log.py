"""The log of a live partition, fetched batch by batch: what `segments` is for files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkawire.batches import HEADER_SIZE, read_header
from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker.client.settings import Access
from wirebroker_audit.reading.live_segments import RESTARTED
from wirebroker_audit.reading.scan import EVERYTHING, Chunk, Linker, Place, batch_rows, damage_row, stored_crc, walk
from wirebroker_audit.wire import EARLIEST, PLAINTEXT, BrokerError, Client, LivePartition

EMPTY_RESPONSES = 4
"""The number of successive Fetches that may return nothing although offsets remain."""


@dataclass(frozen=True, slots=True)
class Range:
    """The batches of a partition whose base offset is in a range of offsets."""

    number: int
    bootstrap: str
    topic: str
    partition: int
    start: int
    stop: int
    is_first: bool
    """whether a batch that begins before `start` belongs to it, as the log start may lie inside a batch"""
    compacted: bool
    """whether the topic is compacted, or may be"""
    access: Access = PLAINTEXT


@dataclass(frozen=True, slots=True)
class Restarted:
    """In place of a range: the partition was created again or truncated after it had been read up to this offset."""

    topic: str
    partition: int
    offset: int


def split_offsets(live: list[LivePartition], bootstrap: str, pieces: int, access: Access = PLAINTEXT) -> list[Range]:
    """About `pieces` ranges with about the same number of offsets; none for an empty partition."""
    total = sum(each.end - each.start for each in live)
    size = max(-(-total // max(pieces, 1)), 1)
    found: list[Range] = []
    for each in live:
        for start in range(each.start, each.end, size):
            stop = min(start + size, each.end)
            found.append(
                Range(
                    len(found),
                    bootstrap,
                    each.topic,
                    each.partition,
                    start,
                    stop,
                    start == each.start,
                    each.compacted is not False,
                    access,
                )
            )
    return found


def crc_before(client: Client, each: LivePartition, offset: int) -> int:
    """The checksum of the batch that ends before this offset, −1 if there is none."""
    fetched, _ = client.fetch(each.topic, each.partition, offset - 1)
    if len(fetched) < HEADER_SIZE or read_header(fetched, 0).last_offset + 1 != offset:
        return -1
    return stored_crc(fetched, 0)


def read_range(wanted: Range | Restarted, expiration_ms: int = EXPIRATION_MS) -> Iterator[Chunk]:
    """The batches of the range, and a row if it cannot be read to its end."""
    where = f"{wanted.topic}-{wanted.partition}"
    if isinstance(wanted, Restarted):
        detail = (
            f"the partition was created again or truncated after offset {wanted.offset} was read; it is read from its beginning"
        )
        place = Place(wanted.topic, wanted.partition, where, 0)
        yield damage_row(place, "deleted", detail, position=RESTARTED, size=0, expected_offset=0)
        return
    place = Place(
        wanted.topic, wanted.partition, where, wanted.number, cleaned_until=EVERYTHING if wanted.compacted else -1,
        by_offset=True,
    )  # fmt: skip
    linker = Linker(place, expiration_ms)
    client = Client(wanted.bootstrap, wanted.access)
    reader = _RangeReader(wanted, place, linker, client)
    try:
        yield from reader.read()
    except BrokerError as broken:
        yield reader.damage("unreadable", f"{where} at offset {reader.offset}: {broken}")
    finally:
        client.close()


class _RangeReader:
    """Fetches from offset to offset."""

    def __init__(self, wanted: Range, place: Place, linker: Linker, client: Client) -> None:
        self.wanted, self.place, self.linker, self.client = wanted, place, linker, client
        self.offset = wanted.start
        self.empty = 0

    def damage(self, problem: str, detail: str, size: int = 0) -> Chunk:
        self.linker.damaged(-1)
        return damage_row(self.place, problem, detail, position=self.offset, size=size, expected_offset=self.offset)

    def read(self) -> Iterator[Chunk]:
        first = self.wanted.start if not self.wanted.is_first else 0
        while self.offset < self.wanted.stop:
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
            if not found.positions:
                yield self.damage(
                    "bad_batch", f"the broker answered with {len(fetched)} bytes that hold no batch", len(fetched)
                )
                raise BrokerError("the batches after these bytes cannot be fetched")
            last = read_header(fetched, found.positions[-1])
            chosen = found.within(fetched, first, self.wanted.stop)
            if chosen.positions:
                rows = batch_rows(fetched, chosen, self.place, self.linker, 0)
                places = dict(zip(rows.column("position").to_pylist(), chosen.positions, strict=True))
                yield Chunk(fetched, rows, 0, places)
            self.offset = max(last.last_offset, self.offset) + 1

    def _is_over(self) -> bool:
        """Whether an answer without batches means that no more follow, because compaction removed the last ones."""
        self.empty += 1
        if self.empty < EMPTY_RESPONSES:
            return False
        if not self.wanted.compacted:
            raise BrokerError(f"{self.empty} answers without a batch, although the log reaches offset {self.wanted.stop - 1}")
        return True

    def _fetch(self) -> memoryview | Chunk:
        """Record data from the current offset on, or a row if retention deleted it meanwhile."""
        try:
            records, _ = self.client.fetch(self.wanted.topic, self.wanted.partition, self.offset)
        except BrokerError:
            start = self.client.offset(self.wanted.topic, self.wanted.partition, EARLIEST)
            if start <= self.offset:
                raise
            gone = self.damage("deleted", f"offsets {self.offset} to {start - 1} were deleted while they were read")
            self.offset = start
            return gone
        return memoryview(records)
