"""What an audit can find. The kinds are shared with the audit on Spark, which must come to the same findings."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["certain", "likely", "info"]

CERTAIN: dict[str, str] = {
    "duplicate": "the same producer, epoch and sequences are stored twice",
    "gap": "sequences of a producer are missing between two stored batches",
    "disorder": "sequences of a producer are stored out of order",
    "epoch_regression": "a batch of an older epoch is stored behind one of a newer epoch",
    "crc": "the stored checksum is not that of the bytes",
    "torn_tail": "the log ends in the middle of a batch",
    "bad_batch": "length, magic or counts of a batch contradict each other",
    "offset_regression": "an offset is not above the one before it",
    "open_transaction": "a transaction has neither been committed nor aborted",
}
LIKELY: dict[str, str] = {
    "epoch_duplicate": "a record is stored again under a higher epoch of its producer",
    "session_duplicate": "a record is stored again under another producer id",
    "application_duplicate": "a record is stored again by the same producer with new sequences",
    "partition_duplicate": "a record is stored again on another partition",
    "lost": "a record that the application meant to send is not stored",
    "unacknowledged_stored": "a record is stored whose sending was reported as failed",
}
INFORMATION: dict[str, str] = {"marker_without_data": "a transaction ended here without a batch of it being stored"}
KINDS = CERTAIN | LIKELY | INFORMATION
"""Every kind, and what it says. A likely kind becomes certain where the application's journal names the records."""


def severity_of(kind: str) -> Severity:
    """How sure a finding of this kind is, as long as no journal says more."""
    return "certain" if kind in CERTAIN else "likely" if kind in LIKELY else "info"


class Finding(NamedTuple):
    """One finding; −1 stands for "none". `first_` and `last_` are inclusive.

    Where something is stored twice the fields are those of the later copy, and the evidence has both. Of a `gap` the
    sequences are the missing ones, and the offsets those of the last record before it and the first one behind it.
    """

    kind: str
    severity: Severity
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    evidence: str
    """What was seen, as a JSON object: offsets, sequences, keys, timestamps, file and position."""
    explanation: str
    """The finding as one sentence."""


class BatchRow(NamedTuple):
    """One stored record batch, as far as its header tells. Offsets and sequences are inclusive; −1 stands for "none"."""

    topic: str
    partition: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    records: int
    attributes: int
    """codec, timestamp type, transactional, control: as on the wire"""
    max_timestamp: int
    """ms since the epoch"""
    crc_stored: int
    crc_computed: int
    bytes: int
    segment: str
    """the file, or where else it came from"""
    position: int
    """of the batch in its segment, in bytes"""


class Damage(NamedTuple):
    """Bytes of a log that hold no batch; it stands between the batches where it was found."""

    topic: str
    partition: int
    kind: Literal["torn_tail", "bad_batch"]
    segment: str
    position: int
    bytes: int
    """how many there are"""
    reason: str
    """what is wrong with them, to follow "the batch at this position" """


class RecordRow(NamedTuple):
    """One stored record by its content; −1 stands for "none". The hashes are those of `audit.content`."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms since the epoch"""
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction: Literal["none", "committed", "aborted", "open"]
    key: bytes | None
    value_hash: str | None
    content: str
    """hash of key, value and headers"""
    value_head: str = ""
    """how the value begins, for explanations"""

    @property
    def counts(self) -> bool:
        """Whether a read_committed consumer is given it: what is aborted, or not committed yet, is not stored for it."""
        return self.transaction in ("none", "committed")
