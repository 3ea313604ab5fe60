"""The vocabulary of both audits: the kinds of findings, their severities, and the rows that the checks read."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Severity = Literal["certain", "likely", "info"]
SEVERITIES: tuple[str, ...] = get_args(Severity)
"""The severities, the gravest first."""
EXPIRATION_MS = 86_400_000
"""Kafka's default of producer.id.expiration.ms."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""The coordinators' topics. Kafka writes every transactional batch of `__consumer_offsets` with sequence 0, so these sequences
identify nothing."""
PREALLOCATED = 1024 * 1024
"""With log.preallocate, a broker fills a segment with zeros up to the size segment.bytes.

In practice segment.bytes is a multiple of this constant.
"""
WINDOWS = (1, 2, 5, 10)
"""Both audits judge arrivals again with these window sizes."""

CERTAIN: dict[str, str] = {
    "duplicate": "the same producer, epoch and sequences are stored twice",
    "gap": "sequences of a producer are missing between two stored batches",
    "disorder": "sequences of a producer are stored out of order",
    "epoch_regression": "a batch of an older epoch is stored after a batch of a newer epoch",
    "crc": "the checksum in a batch's header does not match its bytes",
    "torn_tail": "the log ends in the middle of a batch",
    "bad_batch": "the length, magic byte or counts of a batch contradict each other",
    "offset_regression": "a batch begins at or before the last offset of the batch before it",
    "offset_gap": "offsets are missing, and neither retention nor compaction can have removed them",
    "open_transaction": "a transaction has been neither committed nor aborted",
    "truncated": "the log ends below the high watermark that its broker wrote down",
    "replica_divergence": "replicas, or a replica and its remote copy, hold different batches below the high watermark",
    "replica_damage": "a batch is damaged in a replica or remote copy that was not read",
    "lost": "a record that the application meant to send is not stored",
    "unacknowledged_stored": "a record is stored although its sending was reported as failed",
    "input_unprocessed": "a pipeline has no output for an input that its group has committed, or too few outputs",
    "commit_beyond_output": "a pipeline's group has committed inputs after the last input with an output",
    "processed_twice": "a pipeline has more outputs for an input than its policy allows",
    "output_without_input": "an output of a pipeline belongs to no input",
    "output_disorder": "a pipeline's outputs for one key have another order than their inputs",
}
LIKELY: dict[str, str] = {
    "epoch_duplicate": "a record is stored again under a higher epoch of its producer",
    "session_duplicate": "a record is stored again under another producer id",
    "application_duplicate": "a record is stored again by the same producer with new sequences",
    "partition_duplicate": "a record is stored again on another partition",
    "commit_regression": "a group committed a lower offset than before",
    "unclean_election": "a replica that was not in sync became the leader, so records of the former leader are lost",
}
INFORMATION: dict[str, str] = {
    "marker_without_data": "a marker ends a transaction that has no batch in this log",
    "replica_behind": "a replica ends before the high watermark",
    "group_skipped": "a group's committed offset lies outside the log, so records never reach it",
    "commit_jump": "a group's commit passed far more records than any commit before it",
}
KINDS = CERTAIN | LIKELY | INFORMATION
"""Every kind and its meaning. A likely kind becomes certain if the application's journal names the records."""
EXCEPTIONS = {
    "offset_gap": "likely if nothing says whether the topic is compacted, for example if a partition's folder was copied alone",
    "open_transaction": "info while the transaction's timeout is not over",
    "truncated": "likely if the broker was not shut down cleanly",
    "lost": "likely or info if the beginning of the log was deleted",
    "unclean_election": "certain if a replica still has the records; info if the former leader's log shows no loss",
    "input_unprocessed": "likely without a group, or if outputs were removed or damaged",
    "commit_beyond_output": "likely if outputs were removed or damaged",
    "processed_twice": "likely if inputs were removed or damaged",
    "output_without_input": "likely if inputs were removed or damaged, or the output has no identity",
    "output_disorder": "likely if batches were damaged",
    "commit_jump": "certain if a pipeline has no output for records that the commit passed",
}
"""For some kinds: when the severity of a finding differs from the severity of its kind."""
OF_DIRECTORIES = frozenset(
    {
        "truncated", "replica_divergence", "replica_damage", "replica_behind", "unclean_election",
        "commit_regression", "group_skipped", "commit_jump",
        "input_unprocessed", "commit_beyond_output", "processed_twice", "output_without_input", "output_disorder",
    }
)  # fmt: skip
"""The kinds that only the audit on Spark reports: kinds about replicas and elections, about groups' commits, and about
pipelines."""
DAMAGE = ("crc", "bad_batch", "torn_tail")
"""The kinds of findings after which a batch's header cannot be trusted."""
COPIES = frozenset(kind for kind in KINDS if kind.endswith("duplicate"))
"""The kinds of findings that mean "stored again"."""


def severity_of(kind: str) -> Severity:
    """Returns the severity that findings of a kind have without a journal."""
    return "certain" if kind in CERTAIN else "likely" if kind in LIKELY else "info"


def weight(severity: str, kind: str) -> tuple[int, int]:
    """Returns the sort key of a finding in a report: certain findings come before likely findings, and kinds have the order of
    `KINDS`.
    """
    return SEVERITIES.index(severity), list(KINDS).index(kind)


def plural(count: int, what: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class Finding(NamedTuple):
    """One finding; −1 stands for "none". `first_` and `last_` are inclusive.

    If a batch or record is stored twice, the fields describe the later copy, and the evidence has both. The sequences of a
    `gap` finding are the missing sequences. Its offsets are the offset of the last record before the gap and the offset of the
    first record after the gap.
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
    """The evidence as a JSON object: offsets, sequences, keys, timestamps, file and position."""
    explanation: str
    """The finding as one sentence."""


class BatchRow(NamedTuple):
    """The header of one stored record batch. Offsets and sequences are inclusive; −1 stands for "none"."""

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
    """the attributes as on the wire: codec, timestamp type, transactional, control"""
    max_timestamp: int
    """ms since the epoch"""
    crc_stored: int
    crc_computed: int
    bytes: int
    segment: str
    """the file, or another name of the source"""
    position: int
    """the batch's position in its segment, in bytes"""


class Damage(NamedTuple):
    """Bytes of a log that are not a batch. The object stands between the batches, at the place of the bytes."""

    topic: str
    partition: int
    kind: Literal["torn_tail", "bad_batch"]
    segment: str
    position: int
    bytes: int
    """the number of the bytes"""
    reason: str
    """what is wrong with the bytes, as a clause"""


class RecordRow(NamedTuple):
    """One stored record; −1 stands for "none". The hashes are computed by `audit.content`."""

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
    """the beginning of the value, for explanations"""

    @property
    def counts(self) -> bool:
        """Tells whether a read_committed consumer gets the record. Records of aborted or open transactions do not count as
        stored."""
        return self.transaction in ("none", "committed")

    @property
    def base_sequence(self) -> int:
        """The first sequence, under the name that the field has in `BatchRow`."""
        return self.sequence
