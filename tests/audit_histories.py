"""Artificial logs of one partition with known faults, to check the audit. This module shares no code with the audit's checks.

`History(seed)` makes a log without faults. Its producers are plain, idempotent or transactional. Sequences wrap, epochs rise,
transactions abort and producers expire. Retention and compaction then remove batches. `plant` puts faults into the log;
`expected` lists exactly the faults that an audit must find.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from wirebroker.audit.findings import BatchRow, Damage

WRAP = 2**31
EXPIRATION = 86_400_000
START = 1_800_000_000_000
ALONE = (
    "duplicate",
    "overlap",
    "gap",
    "disorder",
    "epoch_regression",
    "epoch_gap",
    "open_transaction",
    "marker_without_data",
)
"""Faults in the batches that a producer writes."""
AFTERWARDS = ("crc", "bad_batch", "unreadable", "torn_tail", "offset_regression", "offset_gap")
"""Faults of the stored data."""
FAULTS = ALONE + AFTERWARDS


class Expected(NamedTuple):
    """The predicted fields of a finding."""

    kind: str
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass
class Sender:
    """A producer's own state."""

    pid: int
    epoch: int
    next: int
    transactional: bool = False
    bumps: bool = False
    """Tells whether each transaction increases the epoch, as transaction version 2 does."""
    open: bool = False
    spoiled: bool = False
    """Tells whether a fault was planted among this producer's batches."""
    sent: list[BatchRow] = field(default_factory=list)
    """The batches that were sent in this epoch, since the broker last forgot the producer."""


class History:
    """A log; see the module's docstring."""

    def __init__(self, seed: int, faults: tuple[str, ...] = (), *, trimmed: bool = True) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.end = self.chance.choice([0, 0, 1000])
        self.log_start = self.end or 0
        self.cleaned_to = 0
        self.entries: list[BatchRow | Damage] = []
        self.expected: list[Expected] = []
        self.damaged: set[int] = set()
        """The base offsets of damaged batches, which an audit does not trust."""
        self.first_fault = 10**9
        """Retention and compaction may not remove data at or after this offset."""
        self.senders = [self._sender(pid) for pid in self.chance.sample(range(5000), self.chance.randint(2, 5))]
        pending = [fault for fault in faults if fault in ALONE]
        for step in range(self.chance.randint(20, 60)):
            if pending and step > 8 and self.chance.random() < 0.3:
                self.plant(pending.pop())
            self._innocent()
        for fault in pending:
            self.plant(fault)
        self._finish()
        if trimmed:
            self._trim()
        for fault in faults:
            if fault in AFTERWARDS:
                self._damage(fault)
        self._tell_of_damage()

    def _sender(self, pid: int) -> Sender:
        transactional = self.chance.random() < 0.4
        near = self.chance.random() < 0.4
        return Sender(
            pid, self.chance.choice([0, 0, 7]), WRAP - self.chance.randint(1, 30) if near else 0, transactional,
            transactional and self.chance.random() < 0.5,
        )  # fmt: skip

    # Innocence

    def _innocent(self) -> None:
        roll = self.chance.random()
        sender = self.chance.choice(self.senders)
        if roll < 0.06:
            self.write(None, -1, self.chance.randint(1, 4))
        elif roll < 0.10 and not sender.open and not sender.transactional:
            self._bump(sender)
        elif roll < 0.13:
            self._time_passes()
        elif roll < 0.35 and sender.open:
            self._end(sender)
        else:
            self._send(sender)

    def _send(self, sender: Sender) -> BatchRow:
        if sender.transactional and not sender.open:
            sender.open = True
        return self.write(sender, sender.next, self.chance.randint(1, 6))

    def _bump(self, sender: Sender) -> None:
        sender.epoch, sender.next, sender.sent = sender.epoch + 1, 0, []

    def _end(self, sender: Sender) -> None:
        """Ends a transaction. The row of its marker does not say whether the transaction commits or aborts."""
        if sender.bumps:
            self._bump(sender)
        self._marker(sender)
        sender.open = False

    def _marker(self, sender: Sender) -> BatchRow:
        return self._append(sender.pid, sender.epoch, -1, 1, 0x30)

    def _time_passes(self) -> None:
        self.now += EXPIRATION + self.chance.randint(0, 10**6)
        for sender in self.senders:
            if sender.open:
                continue
            sender.sent = []
            if self.chance.random() < 0.7:  # the producer restarts at any sequence, perhaps with an old epoch
                sender.next = self.chance.choice([0, sender.next, 12345])
                sender.epoch = max(sender.epoch - self.chance.choice([0, 0, 1]), 0)

    def write(self, sender: Sender | None, first: int, count: int) -> BatchRow:
        """Appends a batch of `count` records to the log. The producer's next sequence then follows the batch."""
        if sender is None:
            return self._append(-1, -1, -1, count, 0)
        row = self._append(sender.pid, sender.epoch, first, count, 0x10 if sender.open else 0)
        sender.sent.append(row)
        sender.next = (first + count) % WRAP
        return row

    def _append(self, pid: int, epoch: int, first: int, count: int, attributes: int) -> BatchRow:
        self.now += self.chance.randint(0, 900)
        last = (first + count - 1) % WRAP if first >= 0 else -1
        size = self.chance.randint(70, 900)
        row = BatchRow(
            "orders", 0, self.end, self.end + count - 1, 0, pid, epoch, first, last, count, attributes, self.now, 7, 7,
            size, "0.log", self.end * 1000,
        )  # fmt: skip
        self.entries.append(row)
        self.end += count
        return row

    def _finish(self) -> None:
        for sender in self.senders:
            if sender.open and not any(
                each.kind == "open_transaction" and each.producer_id == sender.pid for each in self.expected
            ):
                self._end(sender)

    def _trim(self) -> None:
        """Apply retention and compaction. Both remove data at the beginning of the log, but no data that belongs to a fault."""
        rows = [row for row in self.entries if isinstance(row, BatchRow) and row.base_offset < self.first_fault]
        if rows and self.chance.random() < 0.5:
            row = self.chance.choice(rows[: len(rows) // 2 + 1])
            self.log_start = self.chance.randint(row.base_offset, row.last_offset)
            kept = self.chance.random() < 0.5  # the segment with the older batches may still be there
            self.entries = [e for e in self.entries if kept or isinstance(e, Damage) or e.last_offset >= self.log_start]
        if rows and self.chance.random() < 0.5:
            self.cleaned_to = self.chance.choice(rows).base_offset
            self.entries = [kept for entry in self.entries if (kept := self._compacted(entry)) is not None]

    def _compacted(self, entry: BatchRow | Damage) -> BatchRow | Damage | None:
        if isinstance(entry, Damage) or entry.last_offset >= self.cleaned_to or entry.attributes & 0x20:
            return entry
        left = self.chance.randint(0, entry.records)
        last_of_its_producer = not any(
            isinstance(other, BatchRow) and other.producer_id == entry.producer_id and other.base_offset > entry.base_offset
            for other in self.entries
        )
        return entry._replace(records=left) if left or last_of_its_producer else None

    # Faults

    def plant(self, fault: str) -> None:
        """Plants a fault among a producer's batches. After the fault, the producer continues normally."""
        sender = self.chance.choice([each for each in self.senders if not each.spoiled] or self.senders)
        while len(sender.sent) < 3:
            self._send(sender)
        sender.spoiled = True
        before = sender.sent[-1]
        getattr(self, f"_plant_{fault}")(sender, before)
        self._send(sender)

    def _expect(self, kind: str, sender: Sender, sequences: tuple[int, int], offsets: tuple[int, int], since: int) -> None:
        first, last = (number % WRAP if number >= 0 else -1 for number in sequences)
        self.expected.append(Expected(kind, sender.pid, sender.epoch, first, last, *offsets))
        self.first_fault = min(self.first_fault, since)

    def _plant_duplicate(self, sender: Sender, before: BatchRow) -> None:
        first = self.chance.choice(sender.sent)
        goes_on = sender.next
        row = self.write(sender, first.base_sequence, first.records)
        sender.next = goes_on
        sender.sent.pop()
        self._expect(
            "duplicate",
            sender,
            (row.base_sequence, row.last_sequence),
            (row.base_offset, row.last_offset),
            first.base_offset,
        )

    def _plant_overlap(self, sender: Sender, before: BatchRow) -> None:
        row = self.write(sender, before.last_sequence, 3)
        self._expect("duplicate", sender, (before.last_sequence,) * 2, (row.base_offset,) * 2, before.base_offset)

    def _plant_gap(self, sender: Sender, before: BatchRow) -> None:
        size, first = self.chance.choice([1, 2, 50, 100_000]), sender.next
        row = self.write(sender, (first + size) % WRAP, 2)
        missing = (first, first + size - 1)
        self._expect("gap", sender, missing, (before.last_offset, row.base_offset), before.base_offset)

    def _plant_disorder(self, sender: Sender, before: BatchRow) -> None:
        first = sender.next
        self.write(sender, (first + 4) % WRAP, 3)
        late = self.write(sender, first, 4)
        sender.next = (first + 7) % WRAP
        self._expect("disorder", sender, (first, first + 3), (late.base_offset, late.last_offset), before.base_offset)

    def _plant_epoch_regression(self, sender: Sender, before: BatchRow) -> None:
        old, old_next = sender.epoch, sender.next
        self._bump(sender)
        self.write(sender, 0, 2)
        sender.epoch, new = old, sender.epoch
        row = self.write(sender, old_next, 2)
        offsets = (row.base_offset, row.last_offset)
        self._expect("epoch_regression", sender, (old_next, old_next + 1), offsets, before.base_offset)
        sender.epoch, sender.next, sender.sent = new, 2, []

    def _plant_epoch_gap(self, sender: Sender, before: BatchRow) -> None:
        last = next(row for row in reversed(self.entries) if isinstance(row, BatchRow) and row.producer_id == sender.pid)
        self._bump(sender)
        row = self.write(sender, 5, 2)
        self._expect("gap", sender, (0, 4), (last.last_offset, row.base_offset), before.base_offset)

    def _plant_open_transaction(self, sender: Sender, before: BatchRow) -> None:
        if sender.open:
            self._end(sender)
        sender.transactional = sender.open = True
        row = self._send(sender)
        sequences, offsets = (row.base_sequence, row.last_sequence), (row.base_offset, row.last_offset)
        self._expect("open_transaction", sender, sequences, offsets, row.base_offset)
        self.senders.remove(sender)

    def _plant_marker_without_data(self, sender: Sender, before: BatchRow) -> None:
        if sender.open:
            self._end(sender)
        row = self._marker(sender)
        self._expect("marker_without_data", sender, (-1, -1), (row.base_offset, row.last_offset), before.base_offset)

    def _damage(self, fault: str) -> None:
        """Damages a batch whose producer has no other fault."""
        spoiled = {each.producer_id for each in self.expected}
        gaps = [each for each in self.expected if each.kind == "gap"]
        batches = [
            row
            for row in self.entries
            if isinstance(row, BatchRow)
            and row.producer_id not in spoiled
            and row.base_offset >= max(self.log_start, self.cleaned_to)
            and not any(gap.first_offset < row.base_offset < gap.last_offset for gap in gaps)
            and not (fault == "unreadable" and row.attributes)
        ]
        if fault == "torn_tail":
            self.entries.append(Damage("orders", 0, "torn_tail", "0.log", self.end * 1000, 40, "ends after 40 bytes"))
        elif fault == "offset_regression":
            self._move(-1)
        elif fault == "offset_gap":
            self._move(self.chance.choice([1, 2, 50]))
        elif batches:
            row = self.chance.choice(batches)
            at = self.entries.index(row)
            if fault == "unreadable":
                self.entries[at] = Damage("orders", 0, "bad_batch", "0.log", row.position, row.bytes, "has magic 9")
                return
            changed = {"crc_computed": 8} if fault == "crc" else {"records": row.records + self.chance.choice([1, 100])}
            self.entries[at] = row._replace(**changed)
            self.damaged.add(row.base_offset)
            self.expected.append(self._about(fault, row))

    def _tell_of_damage(self) -> None:
        """Adds the expected finding about each unreadable batch. The finding's offset is the offset after the last sound
        batch.
        """
        offset = self.log_start
        for entry in self.entries:
            if isinstance(entry, Damage):
                self.expected.append(Expected(entry.kind, -1, -1, -1, -1, offset, offset))
            elif entry.last_offset >= self.log_start and entry.base_offset not in self.damaged:
                offset = entry.last_offset + 1

    @staticmethod
    def _about(fault: str, row: BatchRow) -> Expected:
        sequences, offsets = (row.base_sequence, row.last_sequence), (row.base_offset, row.last_offset)
        return Expected(fault, row.producer_id, row.producer_epoch, *sequences, *offsets)

    def _move(self, distance: int) -> None:
        """Adds `distance` to the offsets of a batch and of all later batches. A log can have only one such fault. If `distance`
        is negative, some offset occurs twice.
        """
        rows = [e for e in self.entries if isinstance(e, BatchRow) and e.base_offset > max(self.log_start, self.cleaned_to)]
        if len(rows) < 2:
            return
        row = self.chance.choice(rows[1:])
        index = self.entries.index(row)
        for at in range(index, len(self.entries)):
            each = self.entries[at]
            assert isinstance(each, BatchRow)
            offsets = {"base_offset": each.base_offset + distance, "last_offset": each.last_offset + distance}
            self.entries[at] = each._replace(**offsets)
        moved = self.entries[index]
        assert isinstance(moved, BatchRow)
        if distance < 0:
            self.expected.append(self._about("offset_regression", moved))
        else:
            self.expected.append(Expected("offset_gap", -1, -1, -1, -1, row.base_offset, moved.base_offset - 1))
