"""Operations that tests call directly, without a client: on stored records, seed data and producer state.

MockKafka and the HTTP control both use these functions, in the thread of the engine. Times are ms since the
epoch. After an operation that changes something, the caller must call `Host.changed`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafkawire.batches import Record, build_batch, iter_records, read_header
from kafkawire.errors import error_name
from kafkawire.primitives import Buffer
from kafkawire.printable import printable
from wirebroker.audit.content import head
from wirebroker.common.slices import at_once
from wirebroker.core.partition import Partition
from wirebroker.core.producers import Key, ProducerEntry, unpack
from wirebroker.core.record_checks import RecordReject
from wirebroker.deeds.broker import EngineBroker
from wirebroker.deeds.declaring import partition_of, topic_named, write_down
from wirebroker.engine.engine import Engine
from wirebroker.testing.topic_specs import TopicSpec

if TYPE_CHECKING:
    from wirebroker.audit.stored import StoredPartition
    from wirebroker.engine.upgrading import Upgrading
    from wirebroker.trace.rows import ProduceRow

__tracebackhide__ = True  # pytest shows the caller's line
Fate = Literal["committed", "aborted", "open", "held back"]
"""The state of a stored record. A record in a transaction is committed, aborted or open, like the transaction. A record without
a transaction is committed. A record is held back if it is committed, but read_committed consumers do not get it yet because an
earlier transaction is open."""
COMMIT = 1
"""The marker type of a commit, which is the second number in the marker's key."""


class CutOff(RuntimeError):
    """Raised if the broker was reset, or a snapshot was restored, while a caller waited for the end of a change."""

    def __init__(self, change: str) -> None:
        super().__init__(f"{change} was cut off, because the broker was reset or a snapshot was restored")


class StoredRecord(NamedTuple):
    """One stored record. A number is −1 if the record does not have it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool

    def text(self) -> str:
        """Returns the value as text. Raises ValueError for a value that is not UTF-8, and for a tombstone, which has no
        value.
        """
        if self.value is None:
            raise ValueError(f"{self.place} is a tombstone: it has no value")
        try:
            return bytes(self.value).decode()
        except UnicodeDecodeError as wrong:
            raise ValueError(f"the value of {self.place} is not UTF-8: {wrong}") from None

    def json(self) -> Any:
        """Returns the value, read as JSON. Raises ValueError for a value that is not JSON, and for a tombstone."""
        text = self.text()
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as wrong:
            raise ValueError(f"the value of {self.place} is not JSON: {wrong}") from None

    @property
    def place(self) -> str:
        """The place of the record, such as `orders-0 offset 3`."""
        return f"{self.topic}-{self.partition} offset {self.offset}"

    def __repr__(self) -> str:
        if self.control:
            return f"StoredRecord({self.place}, the end of a transaction of producer {self.producer_id})"
        parts = [self.place, f"key {shown(self.key)}", f"value {shown(self.value)}"]
        parts += [printable(f"{name}: {shown(value)}") for name, value in self.headers]
        if self.producer_id >= 0:
            number = f" sequence {self.sequence}" if self.sequence >= 0 else ""
            parts.append(f"producer {self.producer_id} epoch {self.producer_epoch}{number}")
        return f"StoredRecord({', '.join(parts)}{', transactional' if self.transactional else ''})"


def shown(data: bytes | None) -> str:
    """Returns a readable form of some bytes: the beginning of the text if they are text, else their size."""
    try:
        (b"" if data is None else bytes(data)).decode()
    except UnicodeDecodeError as wrong:
        return f"{len(wrong.object)} bytes"
    return head(data)


# The cluster


def upgrade(
    engine: Engine, now: int, to: str, node_id: int | None = None, *, finalize: bool = True, pause: float = 0,
    told: Callable[[int], None] = lambda _: None,
) -> Upgrading:  # fmt: skip
    """Begin a rolling upgrade of all brokers. With `node_id`, upgrade only this broker. After each stop and each start, pause
    for `pause` seconds. Returns the upgrade, for `is_upgraded`. Raises ValueError if the upgrade is refused.
    """
    if not isinstance(pause, int | float) or not 0 <= pause < inf:
        raise ValueError(f"a pause must be a number of seconds of at least 0, not {pause!r}")
    pause_ms, only = round(pause * 1000), node_id is not None
    begun = engine.new_upgrade(to, first=node_id, only=only, finalize=finalize, pause_ms=pause_ms, told=told)
    begun.proceed(now)
    return begun


def is_upgraded(begun: Upgrading, engine: Engine) -> bool:
    """Tells whether an upgrade is complete. `engine` is the broker's present engine. Raises CutOff if the broker was reset
    during the upgrade, and OSError if the new feature levels could not be written."""
    if begun.engine.upgrading is begun:
        if begun.engine is not engine:
            raise CutOff(f"the upgrade to {begun.rules.name}")
        return False
    if begun.failed is not None:
        raise begun.failed
    return True


# Records


def records(engine: Engine, topic: str, partition: int | None = None, *, committed: bool = False) -> list[StoredRecord]:
    """Returns the stored records in the order of partitions and offsets. With `committed`, returns only the committed records.
    Raises NoSuchTopic, NoSuchPartition."""
    found = topic_named(engine.cluster, topic)
    held = found.partitions if partition is None else [partition_of(found, partition)]
    read = committed_records if committed else stored_records
    return [record for each in held for record in read(each)]


def committed_records(partition: Partition, start_offset: int = 0) -> Iterator[StoredRecord]:
    """Yields the records that a read_committed consumer gets from this offset on. Records of open or aborted transactions, and
    markers, are left out.
    """
    stop, fate = partition.last_stable_offset, fates(partition)
    for record in stored_records(partition, start_offset):
        if record.offset >= stop:
            return
        if not record.control and fate(record) == "committed":
            yield record


def fates(partition: Partition) -> Callable[[StoredRecord], Fate]:
    """Returns a function that returns the state of a partition's record."""
    transactions, stop = partition.transactions, partition.last_stable_offset
    aborted: dict[int, list[tuple[int, int]]] = {}
    for each in transactions.ended_between(partition.log_start_offset, partition.log_end_offset):
        aborted.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def fate(record: StoredRecord) -> Fate:
        spans = aborted.get(record.producer_id, []) if record.transactional else []
        before = bisect_right(spans, record.offset, key=lambda span: span[0])
        if before and record.offset <= spans[before - 1][1]:
            return "aborted"
        if record.transactional and not record.control and transactions.has(record.producer_id, record.offset):
            return "open"
        return "committed" if record.offset < stop else "held back"

    return fate


def stored_records(partition: Partition, start_offset: int = 0) -> Iterator[StoredRecord]:
    """Yields every record of a partition from this offset on, or from the log start if the log start is later."""
    start = max(start_offset, partition.log_start_offset)
    for batch in partition.log.batches(start):
        for record in records_in(batch, partition.topic, partition.index, named_producers=partition.rules.key == "client_id"):
            if record.offset >= start:
                yield record


def records_in(batch: Buffer, topic: str, partition: int, *, named_producers: bool = False) -> Iterator[StoredRecord]:
    """Yields every record of a stored batch. With `named_producers`, the records have sequence numbers even if the batch has no
    producer id.
    """
    header = read_header(batch)
    for record in iter_records(batch):
        numbered = header.base_sequence >= 0 and (header.producer_id >= 0 or named_producers)
        yield StoredRecord(
            topic, partition, header.base_offset + record.offset_delta,
            header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp_delta,
            record.key, record.value, tuple(record.headers), header.producer_id, header.producer_epoch,
            (header.base_sequence + record.offset_delta) % 2**31 if numbered else -1,
            header.is_transactional, header.is_control,
        )  # fmt: skip


def visible(records: Iterable[StoredRecord]) -> tuple[list[StoredRecord], list[StoredRecord]]:
    """Returns two lists: the committed records in order of offset, and the records in open transactions. `records` are all
    stored records of a partition.
    """
    pending: dict[int, list[StoredRecord]] = {}
    shown: list[StoredRecord] = []
    for record in records:
        if record.control:
            of_producer = pending.pop(record.producer_id, [])
            if commits(record):
                shown += of_producer
        elif record.transactional:
            pending.setdefault(record.producer_id, []).append(record)
        else:
            shown.append(record)
    shown.sort(key=lambda record: record.offset)
    return shown, [record for each in pending.values() for record in each]


def commits(marker: StoredRecord) -> bool:
    """Tells whether a marker is a commit marker (and not an abort marker)."""
    return marker.key is not None and marker.key[2:4] == COMMIT.to_bytes(2, "big")


def record_count(engine: Engine, topic: str) -> int:
    """Returns the number of offsets in the topic's logs, or 0 if the topic does not exist."""
    found = engine.cluster.topics.get(topic)
    return sum(each.log_end_offset - each.log_start_offset for each in found.partitions) if found else 0


def create_missing(engine: Engine, topics: Mapping[str, TopicSpec]) -> None:
    """Create the missing topics. If the broker refuses a topic, raises a ValueError that names the topic."""
    for name, spec in topics.items():
        if name not in engine.cluster.topics:
            try:
                EngineBroker(engine).create_topic(
                    name, spec.partitions, spec.configs, replication_factor=spec.replication_factor
                )
            except ValueError as refused:
                raise ValueError(f"{name}: {refused}") from None


def provide(engine: Engine, topics: Mapping[str, TopicSpec]) -> None:
    """Create the topics that do not exist. If a topic exists with too few partitions, add the missing partitions. Raises
    ValueError."""
    create_missing(engine, topics)
    for name, spec in topics.items():
        topic = engine.cluster.topics[name]
        if len(topic.partitions) < (spec.partitions or 1):
            factor = len(topic.partitions[0].replicas)
            at_once(engine.cluster.adding_partitions(topic, spec.partitions or 1, engine.now, factor))
            write_down(engine.cluster, engine.now)


def store(engine: Engine, topic: str, partition: int, record: Record, timestamp: int | None, now: int) -> int:
    """Store a record without a client. Creates the topic if it does not exist. Returns the record's offset. Raises ValueError
    if the record is refused.
    """
    if topic not in engine.cluster.topics:
        EngineBroker(engine).create_topic(topic)
    batch = build_batch([record], base_timestamp=now if timestamp is None else timestamp)
    held = partition_of(topic_named(engine.cluster, topic), partition)
    if held.leader < 0:
        raise ValueError(f"{topic}-{partition} has no leader, so nothing can be stored there")
    appended = held.append(memoryview(batch), now, 9)
    if appended.error_code:
        why = appended.verdict.message if isinstance(appended.verdict, RecordReject) else None
        raise ValueError(f"the record was refused: {why or error_name(appended.error_code)}")
    return appended.base_offset


def producers(partition: Partition) -> dict[Key, ProducerEntry]:
    """Returns the producer states of a partition: the epoch and the latest batches of each producer id."""
    return {key: unpack(state) for key, state in partition.producers.items()}


def evidence(engine: Engine, topics: Iterable[str] | None, now: int) -> tuple[list[StoredPartition], list[ProduceRow]]:
    """Returns the stored batches and the verdicts as evidence for an audit. If `topics` is None, the audit covers all topics.
    Raises NoSuchTopic."""
    from wirebroker.audit.stored import snapshot

    names = list(engine.cluster.topics) if topics is None else list(dict.fromkeys(topics))
    held = [topic_named(engine.cluster, name) for name in names]
    return snapshot(held, engine.configs.producer_expiration_ms, now), engine.trace.produce()


# Faults
