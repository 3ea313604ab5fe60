"""The sentences of both audits, each written once.

Two basic steps make the sentences, `text` and `choose`. In `Wording` these steps work on Python values; the audit on Spark has
a subclass in which they work on SQL columns. A `row` is an object with the named fields as attributes: a tuple in memory, or a
struct of columns on Spark.
"""

from __future__ import annotations

from typing import Any


class Wording:
    """Makes the explanations of findings from Python values."""

    # The basic steps

    def text(self, template: str, **parts: Any) -> Any:
        """Returns the template with its fields filled in."""
        return template.format(**parts)

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """Returns one of two texts."""
        return yes if condition else no

    def checksum(self, number: Any) -> Any:
        """Returns a CRC in hexadecimal."""
        return f"{number:#010x}"

    def seconds(self, ms: Any) -> Any:
        """Seconds with one decimal."""
        return f"{ms / 1000:,.1f}"

    # Parts of sentences

    def partition(self, topic: Any, partition: Any) -> Any:
        """`orders-0`; the topic alone if the partition is −1."""
        return self.choose(partition < 0, topic, self.text("{topic}-{partition}", topic=topic, partition=partition))

    def range(self, first: Any, last: Any) -> Any:
        """`5` or `5–7`."""
        return self.choose(first == last, self.text("{n}", n=first), self.text("{first}–{last}", first=first, last=last))

    def offsets(self, first: Any, last: Any) -> Any:
        """`offset 5` or `offsets 5–7`."""
        return self._numbered("offset", first, last)

    def _numbered(self, noun: str, first: Any, last: Any) -> Any:
        return self.text("{noun} {n}", noun=self.choose(first == last, noun, f"{noun}s"), n=self.range(first, last))

    def producer(self, row: Any) -> Any:
        """`producer 12 epoch 0`."""
        return self.text("producer {id} epoch {epoch}", id=row.producer_id, epoch=row.producer_epoch)

    def sequences(self, row: Any, first: Any, last: Any) -> Any:
        """`sequences 5–7 of producer 12 epoch 0 are`."""
        numbers, verb = self._numbered("sequence", first, last), self.choose(first == last, "is", "are")
        return self.text("{numbers} of {who} {verb}", numbers=numbers, who=self.producer(row), verb=verb)

    def batch(self, row: Any, is_marker: Any = False) -> Any:
        """Returns the batch as the subject of a sentence. A batch with sequences is named by its sequences."""
        plain = self.text("a {kind} of {who} is", kind=self.choose(is_marker, "marker", "batch"), who=self.producer(row))
        return self.choose(row.base_sequence < 0, plain, self.sequences(row, row.base_sequence, row.last_sequence))

    # Damage

    def crc(self, row: Any) -> Any:
        """The checksum of a batch does not match."""
        return self.text(
            "the batch at offset {offset}, position {position} of {segment}, fails its checksum: its header has {stored}, its "
            "bytes have {computed}",
            offset=row.base_offset, position=row.position, segment=row.segment, stored=self.checksum(row.crc_stored),
            computed=self.checksum(row.crc_computed),
        )  # fmt: skip

    def damaged(self, segment: Any, position: Any, offset: Any, reason: Any) -> Any:
        """Bytes are not a batch, or contradict each other; the reason is a clause."""
        return self.text(
            "the batch at position {position} of {segment}, near offset {offset}, is damaged: {reason}",
            position=position, segment=segment, offset=offset, reason=reason,
        )  # fmt: skip

    def offset_regression(self, row: Any, last_offset: Any) -> Any:
        """A batch begins at or before the last offset of the batch before it."""
        return self.text(
            "a batch begins at offset {offset}, but the batch before it ends at offset {last}",
            offset=row.base_offset, last=last_offset,
        )  # fmt: skip

    def offset_gap(self, first: Any, last: Any) -> Any:
        """Offsets are missing for no known reason."""
        return self.text(
            "{offsets} {verb} missing, and neither retention nor compaction explains that",
            offsets=self.offsets(first, last), verb=self.choose(first == last, "is", "are"),
        )  # fmt: skip

    # Epochs and sequences

    def epoch_regression(self, row: Any, is_marker: Any, before: Any) -> Any:
        """A batch of an older epoch comes after a batch of a newer epoch."""
        return self.text(
            "{batch} stored at {offsets}, after epoch {epoch} of the same producer at {before}",
            batch=self.batch(row, is_marker), offsets=self.offsets(row.base_offset, row.last_offset),
            epoch=before.producer_epoch, before=self.offsets(before.base_offset, before.last_offset),
        )  # fmt: skip

    def duplicate(self, row: Any, numbers: tuple[Any, Any], doubled: Any, once: tuple[Any, Any], again: tuple[Any, Any]) -> Any:
        """`doubled` of the sequences from first to last (`numbers`) are stored twice: at the offsets `once`, and at the offsets
        `again`."""
        first, last = numbers
        length = again[1] - again[0] + 1
        every = doubled == length
        side_by_side = self.text("at {once} and at {again}", once=self.offsets(*once), again=self.range(*again))
        scattered = self.text(
            "from {first} at offset {once_first} to {last} at offset {once_last}, and again at {again}",
            first=first, once_first=once[0], last=last, once_last=once[1], again=self.offsets(*again),
        )  # fmt: skip
        return self.text(
            "{part}{sequences} stored twice: {where}",
            part=self.choose(every, "", self.text("{n} of ", n=doubled)), sequences=self.sequences(row, first, last),
            where=self.choose(every & (once[1] - once[0] + 1 == length), side_by_side, scattered),
        )  # fmt: skip

    def gap(self, row: Any, numbers: tuple[Any, Any], before: Any, after: Any) -> Any:
        """These sequences are missing between two stored batches."""
        return self.text(
            "{missing} missing: {low} is stored at offset {low_offset} and {high} at offset {high_offset}",
            missing=self.sequences(row, *numbers), low=before.last_sequence, low_offset=before.last_offset,
            high=after.base_sequence, high_offset=after.base_offset,
        )  # fmt: skip

    def late_start(self, row: Any, numbers: tuple[Any, Any], before: Any, after: Any) -> Any:
        """A new epoch does not begin at sequence 0."""
        return self.text(
            "{missing} missing: the epoch begins after offset {low_offset}, at offset {high_offset} with sequence {high}",
            missing=self.sequences(row, *numbers), low_offset=before.last_offset, high=after.base_sequence,
            high_offset=after.base_offset,
        )  # fmt: skip

    def disorder(self, row: Any, before: Any) -> Any:
        """A batch has earlier sequences than the previous stored batch of the same epoch."""
        return self.text(
            "{batch} stored out of order: at {offsets}, after {numbers} at {before}",
            batch=self.sequences(row, row.base_sequence, row.last_sequence),
            offsets=self.offsets(row.base_offset, row.last_offset),
            numbers=self.range(before.base_sequence, before.last_sequence),
            before=self.offsets(before.base_offset, before.last_offset),
        )

    # Transactions

    def open_transaction(self, row: Any, ms: Any) -> Any:
        """A transaction has no end."""
        duration = self.choose(ms < 1000, self.text("{ms} ms", ms=ms), self.text("{s} s", s=self.seconds(ms)))
        return self.text(
            "the transaction that {who} began at offset {offset} has been neither committed nor aborted; it is still open "
            "{duration} later, at the end of the log",
            who=self.producer(row), offset=row.base_offset, duration=duration,
        )  # fmt: skip

    def marker_without_data(self, row: Any) -> Any:
        """The log has a transaction's end, but no batch of the transaction."""
        return self.text(
            "the marker at offset {offset} ends a transaction of {who}, but no batch of it is stored here",
            offset=row.base_offset, who=self.producer(row),
        )  # fmt: skip

    # Contents

    def kind(self, first: Any, again: Any) -> Any:
        """Returns the kind of finding for a copy. Both copies have a partition, a producer and a sequence.

        another partition                       partition_duplicate
        another producer id                     session_duplicate
        both without a producer id              application_duplicate: it, or a retry without idempotence
        the same id, another epoch              epoch_duplicate
        the same id and epoch, other sequences  application_duplicate
        the same id, epoch and sequence         duplicate, which the checks of batches may already have reported
        """
        same = (first.base_sequence == again.base_sequence) & (again.base_sequence >= 0)
        kind = self.choose(same, "duplicate", "application_duplicate")
        kind = self.choose(first.producer_epoch != again.producer_epoch, "epoch_duplicate", kind)
        kind = self.choose(first.producer_id < 0, "application_duplicate", kind)
        kind = self.choose(first.producer_id != again.producer_id, "session_duplicate", kind)
        return self.choose(first.partition != again.partition, "partition_duplicate", kind)

    def stored_twice(self, run: Any) -> Any:
        """Records are stored again. `run` has a `kind`, the number of `records`, a `label`, and the partition, producer,
        sequences and offsets of the copy. The fields of the earlier copy have the same names with the prefix `first_`."""
        return self.text(
            "{subject} stored twice: {where}{label}",
            subject=self._records(run), where=self._copies(run),
            label=self.choose(run.records == 1, run.label, ""),
        )  # fmt: skip

    def label(self, has_key: Any, key: Any, value: Any) -> Any:
        """Returns the key of a single record, or the value of a record without a key."""
        return self.choose(has_key, self.text("; key {key}", key=key), self.text("; value {value}", value=value))

    def _records(self, run: Any) -> Any:
        """Returns the subject, such as `records 125–132 of producer 12 are`; the numbers are the sequences of the first
        copies."""
        first, last = run.first_base_sequence, run.first_last_sequence
        single = run.records == 1
        verb = self.choose(single, "is", "are")
        owner = self.text(" of producer {id}", id=run.first_producer_id)
        numbered = self.text(
            "{record} {numbers}{owner} {verb}",
            record=self.choose(single, "record", "records"), numbers=self.range(first, last),
            owner=self.choose(run.kind == "session_duplicate", "", owner), verb=verb,
        )  # fmt: skip
        counted = self.choose(single, "a record is", self.text("{n} records are", n=run.records))
        return self.choose((first < 0) | (run.first_producer_id < 0), counted, numbered)

    def _copies(self, run: Any) -> Any:
        """Returns the places and producers of both copies. If the later copy has other sequences, the text names these
        sequences, too."""
        once = self.text("at {offsets}", offsets=self.offsets(run.first_base_offset, run.first_last_offset))
        again = self.range(run.base_offset, run.last_offset)
        differs = (run.base_sequence != -1) & (run.base_sequence != run.first_base_sequence)
        renumbered = self.text(" with {numbers}", numbers=self._numbered("sequence", run.base_sequence, run.last_sequence))
        there = self.choose(differs, renumbered, "")
        sentences = {
            "partition_duplicate": self.text(
                "{once} of partition {first} and at {again} of partition {partition}",
                once=once, first=run.first_partition, again=self.offsets(run.base_offset, run.last_offset),
                partition=run.partition,
            ),
            "session_duplicate": self.text(
                "{once} by {first} and at {again} by {producer}{there}",
                once=once, first=self._sender(run.first_producer_id), again=again, producer=self._sender(run.producer_id),
                there=there,
            ),
            "epoch_duplicate": self.text(
                "{once} under epoch {first} and at {again} under epoch {epoch}{there}",
                once=once, first=run.first_producer_epoch, again=again, epoch=run.producer_epoch, there=there,
            ),
        }  # fmt: skip
        same_epoch = self.text(
            "{once} and at {again}, in the same epoch {epoch}{there}",
            once=once, again=again, epoch=run.producer_epoch, there=there,
        )  # fmt: skip
        no_producer = self.text(
            "{once} and at {again}, without a producer id: a retry without idempotence, or the application sent {them} twice",
            once=once, again=again, them=self.choose(run.records == 1, "it", "them"),
        )  # fmt: skip
        where = self.choose(run.producer_id >= 0, same_epoch, no_producer)
        for kind, sentence in sentences.items():
            where = self.choose(run.kind == kind, sentence, where)
        return where

    def _sender(self, producer_id: Any) -> Any:
        return self.choose(producer_id < 0, "a producer without an id", self.text("producer {id}", id=producer_id))

    # The journal

    def record(self, has_key: Any, key: Any, value: Any) -> Any:
        """Returns a record as a journal names it."""
        with_key = self.text("key {key}, value {value}", key=key, value=value)
        return self.choose(has_key, with_key, self.text("value {value}", value=value))

    def unacknowledged_stored(self, record: Any, offset: Any) -> Any:
        """A record is stored although its sending failed."""
        return self.text(
            "the record with {record} is stored at offset {offset}, although its sending was reported as failed",
            record=record, offset=offset,
        )  # fmt: skip

    def lost(self, record: Any, acknowledged: Any, reason: Any, missing: Any, deleted: Any) -> Any:
        """A record is not stored. `missing` records of its partition are not stored, and `deleted` offsets of the partition
        were deleted.
        """
        among = self.text("; it may be among the {deleted} offsets that were deleted", deleted=deleted)
        beyond = self.text("; {missing} are missing, but at most {deleted} were deleted", missing=missing, deleted=deleted)
        return self.text(
            "the record with {record} {acknowledged}is not stored{reason}{deleted}",
            record=record, acknowledged=self.choose(acknowledged, "was acknowledged and ", ""), reason=reason,
            deleted=self.choose(deleted == 0, "", self.choose(missing <= deleted, among, beyond)),
        )  # fmt: skip

    def in_transaction(self, partition: Any, offset: Any, is_aborted: Any) -> Any:
        """Returns a reason why a record is lost: the record's transaction was not committed."""
        return self.text(
            ": the transaction that holds it at offset {offset} of partition {partition} {state}",
            offset=offset, partition=partition, state=self.choose(is_aborted, "was aborted", "is open"),
        )  # fmt: skip
