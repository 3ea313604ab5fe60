"""Makes Kafka log directories with known faults, byte by byte. This module shares no code with the audit.

made = make_directory(folder, seed=1, partitions=40)
made.faults      # kind, topic, partition, first sequence, first offset of each fault
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

TRANSACTIONAL, CONTROL = 16, 32
WRAP = 1 << 31
DAY = 86_400_000


def varint(number: int) -> bytes:
    """Encodes an integer as a zigzag varint."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while True:
        low, rest = rest & 127, rest >> 7
        out.append(low | (128 if rest else 0))
        if not rest:
            return bytes(out)


def record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """Returns one record without headers."""
    body = b"\0" + varint(0) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def batch(
    offset: int, values: list[bytes], *, pid: int = -1, epoch: int = -1, seq: int = -1, time: int = 0,
    attributes: int = 0, key: bytes | None = None, count: int | None = None, left: list[int] | None = None,
) -> bytes:  # fmt: skip
    """Returns a batch with one record for each of `values`. `count` replaces the number of records in the header, to make it
    wrong. With `left`, the batch has only the records with the indexes in `left`, as if the cleaner had removed the other
    records.
    """
    kept = range(len(values)) if left is None else left
    body = b"".join(record(index, key, values[index]) for index in kept)
    told = len(kept) if count is None else count
    tail = struct.pack(">hiqqqhii", attributes, len(values) - 1, time, time, pid, epoch, seq, told) + body
    crc = crc32c(tail)
    return struct.pack(">qiibI", offset, len(tail) + 9, 0, 2, crc) + tail


def marker(offset: int, *, pid: int, epoch: int, commit: bool, time: int = 0) -> bytes:
    """Returns the marker of a transaction."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    return batch(offset, [value], pid=pid, epoch=epoch, time=time, attributes=TRANSACTIONAL | CONTROL, key=key)


class Fault(NamedTuple):
    """A fault and its place. −1 means that the sequence or the offset is not compared."""

    kind: str
    topic: str
    partition: int
    first_sequence: int = -1
    first_offset: int = -1


@dataclass
class Writer:
    """Writes the log of one partition."""

    topic: str
    partition: int
    rng: random.Random
    time: int = 1_700_000_000_000
    offset: int = 0
    pieces: list[bytes] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    written: int = 0
    segments: list[tuple[int, int]] = field(default_factory=list)
    """One element for each segment after the first: the segment's first offset, and the index of its first piece in
    `pieces`."""

    def fault(self, kind: str, sequence: int = -1, offset: int = -1) -> None:
        self.faults.append(Fault(kind, self.topic, self.partition, sequence, offset))

    def values(self, count: int) -> list[bytes]:
        self.written += count
        tag = f"{self.topic}-{self.partition}"
        return [f"{tag} record {self.written - count + index}".encode() for index in range(count)]

    def put(self, raw: bytes, offsets: int) -> None:
        self.pieces.append(raw)
        self.offset += offsets

    def data(
        self, pid: int, epoch: int = 0, *, count: int = 0, seq: int | None = None, attributes: int = 0,
        values: list[bytes] | None = None, advance: bool = True,
    ) -> int:  # fmt: skip
        """Writes a batch with the producer's next sequences, or with sequences from `seq` on. Returns the batch's offset."""
        self.time += self.rng.randint(0, 50)
        values = values or self.values(count or self.rng.randint(1, 6))
        first = self.sequences.get((pid, epoch), 0) if seq is None else seq
        at = self.offset
        self.put(batch(at, values, pid=pid, epoch=epoch, seq=first, time=self.time, attributes=attributes), len(values))
        if advance:
            self.sequences[pid, epoch] = (first + len(values)) % WRAP
        return at

    def end(self, pid: int, epoch: int, commit: bool) -> int:
        at = self.offset
        self.put(marker(at, pid=pid, epoch=epoch, commit=commit, time=self.time), 1)
        return at

    def roll(self) -> None:
        """Begins a new segment."""
        self.segments.append((self.offset, len(self.pieces)))

    def save(self, folder: Path) -> None:
        path = folder / f"{self.topic}-{self.partition}"
        path.mkdir(parents=True)
        starts = [(0, 0), *[each for each in self.segments if each[1] > 0]]
        for (first, begin), (_, end) in zip(starts, [*starts[1:], (0, len(self.pieces))], strict=True):
            (path / f"{first:020d}.log").write_bytes(b"".join(self.pieces[begin:end]))


# Events that are not faults


def ordinary(log: Writer) -> None:
    """A few producers write batches; each time, the next producer is chosen at random. Sometimes a segment ends."""
    producers = [log.partition * 100 + number for number in range(log.rng.randint(1, 3))]
    for _ in range(log.rng.randint(2, 12)):
        log.data(log.rng.choice(producers))
        if log.rng.random() < 0.15:
            log.roll()


def plain(log: Writer) -> None:
    """A producer without idempotence, whose sequences have no meaning."""
    for sequence in (-1, -5, 3):
        log.put(batch(log.offset, values := log.values(2), seq=sequence, time=log.time), len(values))


def wraps(log: Writer) -> None:
    """A producer's sequences wrap after 2³¹ − 1, also within a batch."""
    log.sequences[7001, 0] = WRAP - 5
    for _ in range(5):
        log.data(7001, count=log.rng.randint(2, 4))


def bumped(log: Writer) -> None:
    """The sequences of each new epoch begin at zero."""
    for epoch in (0, 1, 4):
        log.data(7002, epoch)
        log.data(7002, epoch)


def expired(log: Writer) -> None:
    """A producer's state expires after a day. The producer may then continue at any sequence."""
    log.data(7003)
    log.data(7003)
    log.time += DAY + 1000
    log.data(7003, seq=log.rng.choice((0, 1, 40)))
    log.data(7003)


def transacted(log: Writer) -> None:
    """A producer commits and aborts transactions, and each transaction increases its epoch (transaction version 2)."""
    for epoch in range(3):
        values = log.values(2)
        log.data(7004, epoch, values=values, attributes=TRANSACTIONAL)
        aborted = log.rng.random() < 0.4
        log.end(7004, epoch + 1, not aborted)
        if aborted:  # another producer sends the aborted records again
            log.data(7005, 0, values=values, attributes=TRANSACTIONAL)
            log.end(7005, 0, True)


def late_first(log: Writer) -> None:
    """If the broker has no state of a producer, the producer's first sequence may be any number."""
    log.data(7006, seq=17)
    log.data(7006)


def without_epoch(log: Writer) -> None:
    """The sequences of a producer with an id but no epoch are not checked. The producer's first epoch may begin at any
    sequence."""
    log.data(7007, -1, seq=7)
    log.data(7007, -1, seq=7)
    log.data(7007, 0, seq=3)
    log.data(7007, 0)


def compacted(log: Writer) -> None:
    """A follower's copy of a compacted log. There is no cleaner checkpoint, so only missing offsets show the compaction."""
    log.faults = [each for each in log.faults if each.kind != "offset_gap"]  # a compacted log may have missing offsets
    log.data(7010, count=1, attributes=TRANSACTIONAL)
    log.end(7010, 0, commit=True)
    log.offset += 2  # as if the cleaner had removed this producer's next transaction
    log.sequences[7010, 0] += 2
    seq = 0
    for left in ([1, 3], None, [], [2], None, [4]):
        values = log.values(5)
        if left is None:  # as if the cleaner had removed the whole batch
            log.offset += len(values)
        else:
            raw = batch(log.offset, values, pid=7008, epoch=0, seq=seq, time=log.time, key=b"k", left=left)
            log.put(raw, len(values))
        seq += len(values)
    log.sequences[7008, 0] = seq
    log.end(7010, 0, commit=True)


INNOCENT: tuple[Callable[[Writer], None], ...] = (
    ordinary,
    ordinary,
    plain,
    wraps,
    bumped,
    expired,
    transacted,
    late_first,
    without_epoch,
    compacted,
)


# Faults


def duplicate(log: Writer) -> None:
    values = log.values(3)
    log.data(8001, values=values)
    if log.rng.random() < 0.5:
        log.data(8001)
    again = log.data(8001, seq=0, values=values, advance=False)
    log.fault("duplicate", 0, again)
    log.data(8001)


def gap(log: Writer) -> None:
    log.data(8002)
    last = log.offset - 1
    missing = log.sequences[8002, 0]
    log.sequences[8002, 0] += 4
    log.fault("gap", missing, last)
    log.data(8002)
    log.data(8002)


def disorder(log: Writer) -> None:
    log.data(8003, count=2)
    log.data(8003, seq=4, count=2)
    log.data(8003, seq=6, count=1)
    log.fault("disorder", 2, log.data(8003, seq=2, count=2))
    log.sequences[8003, 0] = 7
    log.data(8003)


def epoch_regression(log: Writer) -> None:
    log.data(8004, 0)
    log.data(8004, 1)
    log.fault("epoch_regression", log.sequences[8004, 0], log.data(8004, 0))


def old_marker(log: Writer) -> None:
    """The marker of a transaction has an older epoch than the transaction's batches."""
    log.data(8019, 1, attributes=TRANSACTIONAL)
    log.fault("epoch_regression", -1, log.end(8019, 0, True))


def crc(log: Writer) -> None:
    log.data(8005)
    at, sequence = log.data(8005), log.sequences[8005, 0]
    raw = bytearray(log.pieces[-1])
    raw[-3] ^= 0x40
    log.pieces[-1] = bytes(raw)
    log.fault("crc", -1, at)
    del sequence
    log.data(8005)


def bad_length(log: Writer) -> None:
    log.data(8006)
    at = log.data(8006)
    raw = bytearray(log.pieces[-1])
    struct.pack_into(">i", raw, 8, log.rng.choice((3, 48, -7, 2**31 - 1, len(raw) - 12 + 5)))
    log.pieces[-1] = bytes(raw)
    log.fault("bad_batch", -1, at)
    log.data(8006)


def bad_magic(log: Writer) -> None:
    log.data(8007)
    at = log.data(8007)
    raw = bytearray(log.pieces[-1])
    raw[16] = log.rng.choice((0, 1, 3, 255))
    log.pieces[-1] = bytes(raw)
    log.fault("bad_batch", -1, at)
    log.data(8007)


def bad_count(log: Writer) -> None:
    log.data(8008)
    values = log.values(3)
    at = log.offset
    first = log.sequences[8008, 0]
    log.put(batch(at, values, pid=8008, epoch=0, seq=first, time=log.time, count=9), len(values))
    log.sequences[8008, 0] += len(values)
    log.fault("bad_batch", first, at)
    log.data(8008)


def offset_regression(log: Writer) -> None:
    log.data(8009, count=4)
    log.offset -= 2
    at = log.data(8009)
    log.fault("offset_regression", -1, at)
    log.data(8009, count=4)


def open_transaction(log: Writer) -> None:
    sequence = log.sequences.get((8010, 0), 0)
    at = log.data(8010, attributes=TRANSACTIONAL)
    log.data(8010, attributes=TRANSACTIONAL)
    log.fault("open_transaction", sequence, at)


def epoch_duplicate(log: Writer) -> None:
    values = log.values(3)
    log.data(8011, 0, values=values)
    log.fault("epoch_duplicate", 0, log.data(8011, 1, values=values))


def session_duplicate(log: Writer) -> None:
    values = log.values(2)
    log.data(8012, values=values)
    log.fault("session_duplicate", 0, log.data(8013, values=values))


def application_duplicate(log: Writer) -> None:
    values = log.values(2)
    log.data(8014, values=values)
    log.fault("application_duplicate", 2, log.data(8014, values=values))


def resend(log: Writer, pid: int, first: int, count: int, *, known: int | None = None) -> int:
    """Writes a batch whose records depend only on the producer and the sequences. Returns the batch's offset. If sequences of
    the batch are already stored, `known` is the first such sequence. The audit must report a duplicate from there on.
    """
    values = [f"{log.topic}-{log.partition} {pid} {(first + each) % WRAP}".encode() for each in range(count)]
    at = log.data(pid, seq=first % WRAP, values=values, advance=False)
    if known is not None:
        log.fault("duplicate", known % WRAP, at + known - first)
    return at


def apart(log: Writer) -> None:
    """Makes a producer's batches not adjacent: sometimes writes a batch of another producer, and sometimes begins a segment."""
    if log.rng.random() < 0.3:
        log.data(log.partition * 100)
    if log.rng.random() < 0.3:
        log.roll()


def rebatched(log: Writer) -> None:
    """The records of several batches are stored again: as one batch, as two batches with another boundary, and unchanged."""
    pid, first = 8016, log.rng.choice((0, WRAP - 4))
    stretches = [(0, 3), (3, 2), (5, 1), (6, 4)]
    for start, count in stretches:
        resend(log, pid, first + start, count)
        apart(log)
    for start, count in ((0, 10), (0, 4), (4, 6), (3, 2), *stretches[2:]):
        resend(log, pid, first + start, count, known=first + start)
        apart(log)
    resend(log, pid, first + 10, 2)


def overlapping(log: Writer) -> None:
    """In each batch some sequences are already stored; the new sequences are before or after them. A gap follows."""
    pid, first = 8017, log.rng.choice((0, WRAP - 6))
    resend(log, pid, first + 5, 3)
    apart(log)
    resend(log, pid, first + 3, 4, known=first + 5)
    apart(log)
    last = resend(log, pid, first + 6, 4, known=first + 6) + 3
    apart(log)
    resend(log, pid, first, 10, known=first + 3)
    log.fault("gap", (first + 10) % WRAP, last)
    resend(log, pid, first + 12, 1)


def scattered(log: Writer) -> None:
    """The first and the last sequences of a batch are already stored. The last sequences were stored before the first
    sequences. The other sequences are new."""
    pid, first = 8018, log.rng.choice((0, WRAP - 5))
    resend(log, pid, first + 6, 2)
    apart(log)
    log.fault("disorder", first, resend(log, pid, first, 3))
    apart(log)
    resend(log, pid, first, 8, known=first)
    apart(log)
    resend(log, pid, first + 2, 8, known=first + 2)


def cut(log: Writer) -> None:
    """Some offsets between two batches without a producer id are missing."""
    log.put(batch(log.offset, values := log.values(2), time=log.time), len(values))
    log.fault("offset_gap", -1, log.offset)
    log.offset += log.rng.randint(1, 3)
    log.put(batch(log.offset, values := log.values(2), time=log.time), len(values))


FAULTS: tuple[Callable[[Writer], None], ...] = (
    duplicate, gap, disorder, epoch_regression, crc, bad_length, bad_magic, bad_count, offset_regression, open_transaction,
    epoch_duplicate, session_duplicate, application_duplicate, rebatched, overlapping, scattered, old_marker, cut,
)  # fmt: skip


def torn_tail(log: Writer) -> None:
    """The last batch is not complete. Only the end of a log can have this fault."""
    at = log.data(8015)
    log.fault("torn_tail", -1, at)
    raw = log.pieces[-1]
    log.pieces[-1] = raw[: log.rng.randint(13, len(raw) - 1)]  # fewer bytes might all be zero


def unwritten(log: Writer) -> None:
    """A power failure has left zeros in the place of new batches. Only the end of a log can have this fault."""
    log.fault("torn_tail", -1, log.offset)
    log.pieces.append(bytes(log.rng.randint(1, 5000)))


def zeros(log: Writer) -> None:
    """The last segment ends with unused preallocated space, which is not a fault. Only the end of a log can have such space."""
    begin = log.segments[-1][1] if log.segments else 0
    log.pieces.append(bytes(-sum(map(len, log.pieces[begin:])) % (1 << 20)))


@dataclass
class Made:
    """A log directory and its faults."""

    folder: Path
    faults: list[Fault]


def make_directory(
    folder: Path, seed: int, partitions: int = 20, faults: tuple[Callable[[Writer], None], ...] = FAULTS
) -> Made:
    """Makes a log directory. Each partition has up to three faults, and events that are not faults."""
    rng = random.Random(seed)
    found: list[Fault] = []
    for number in range(partitions):
        log = Writer(f"topic{number % 3}", number // 3, rng)
        chosen = rng.sample(faults, min(len(faults), rng.randint(0, 3)))
        innocent = rng.sample(INNOCENT[1:], 3)
        events = [ordinary, *chosen, *innocent]
        rng.shuffle(events)
        for event in events:
            event(log)
            if rng.random() < 0.3:
                log.roll()
        if faults and rng.random() < 0.4:
            rng.choice((torn_tail, torn_tail, unwritten))(log)
        elif rng.random() < 0.3:
            zeros(log)
        log.save(folder)
        found += log.faults
    return Made(folder, found)
