"""Operations that tests call directly, without a client: on topics, stored records, seed data, producer state and fault files.

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
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.cluster import Topic
from wirebroker.core.config_resources import Alteration, Change, ResourceType
from wirebroker.core.config_resources import Operation as AlterOperation
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition
from wirebroker.core.producers import Key, ProducerEntry, unpack
from wirebroker.core.quotas import entity_error, entity_of, kept, value_error
from wirebroker.core.record_checks import RecordReject
from wirebroker.core.setting_definitions import TOPIC_SETTINGS, ConfigError
from wirebroker.engine.engine import Engine

if TYPE_CHECKING:
    from wirebroker.audit.stored import StoredPartition
    from wirebroker.trace.rows import ProduceRow

__tracebackhide__ = True  # pytest shows the caller's line
Fate = Literal["committed", "aborted", "open", "held back"]
"""The state of a stored record: its transaction was committed (or it has none), was aborted, or is open. A record that is held
back is committed, but read_committed consumers do not get it yet, because an earlier transaction is open."""
COMMIT = 1
"""The marker type of a commit, which is the second number in the marker's key."""


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


class NoSuchTopic(KeyError):
    """Raised if the topic does not exist. `known` are the existing topics."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(name)
        self._advice = did_you_mean(name, known)

    def __str__(self) -> str:  # a KeyError would put the message in quotes
        return f"there is no topic {self.args[0]!r}{self._advice}"


class NoSuchPartition(IndexError):
    """Raised if the topic has no such partition."""


class TopicExists(ValueError):
    """Raised if a topic of this name already exists."""


class NoSuchSetting(ConfigError):
    """Raised for a name that is not the name of a topic setting."""

    def __init__(self, name: str) -> None:
        super().__init__(f"topics have no setting {name!r}", suggestion=did_you_mean(name, TOPIC_SETTINGS))
        self.name = name


# The cluster


def upgrade(
    engine: Engine, now: int, to: str, node_id: int | None = None, *, finalize: bool = True, pause: float = 0,
    told: Callable[[int], None] = lambda _: None,
) -> None:  # fmt: skip
    """Begin a rolling upgrade of all brokers, or of the broker `node_id`, with a pause of `pause` seconds after each stop and
    each start. Raises ValueError if the upgrade is refused.
    """
    if not isinstance(pause, int | float) or not 0 <= pause < inf:
        raise ValueError(f"a pause must be a number of at least 0 seconds, not {pause!r}")
    pause_ms, only = round(pause * 1000), node_id is not None
    engine.new_upgrade(to, first=node_id, only=only, finalize=finalize, pause_ms=pause_ms, told=told).proceed(now)


# Topics


def topic_named(engine: Engine, name: str) -> Topic:
    """Returns the topic. Raises NoSuchTopic."""
    try:
        return engine.cluster.topics[name]
    except KeyError:
        raise NoSuchTopic(name, engine.cluster.topics) from None


def partition_of(topic: Topic, index: int) -> Partition:
    """Returns the topic's partition. Raises NoSuchPartition."""
    if (found := topic.partition(index)) is None:
        last = len(topic.partitions) - 1
        raise NoSuchPartition(f"the topic {topic.name!r} has no partition {index}, only 0 to {last}")
    return found


def create_topic(
    engine: Engine, name: str, now: int, partitions: int | None = None, configs: Mapping[str, Any] | None = None,
    replication_factor: int | None = None,
) -> Topic:  # fmt: skip
    """Create a topic, with `num.partitions` partitions if `partitions` is None.

    Raises TopicExists, NoSuchSetting and ValueError, and OSError if the broker cannot write to its data directory.
    """
    if (error := topic_name_error(name)) is not None:
        raise ValueError(error)
    if name in engine.cluster.topics or name in engine.cluster.growing:
        raise TopicExists(f"Topic '{name}' already exists.")
    if partitions is not None and partitions < 1:
        raise ValueError(f"a topic needs at least 1 partition, not {partitions}")
    brokers = len(engine.cluster.brokers)
    if replication_factor is not None and not 1 <= replication_factor <= brokers:
        raise ValueError(f"{brokers} broker{'s' * (brokers > 1)} cannot hold {replication_factor} replicas of {name!r}")
    for key in configs or {}:
        if not engine.cluster.configs.definitions.has_topic_setting(key):
            raise NoSuchSetting(key)
    if not any(map(engine.cluster.alive, engine.cluster.brokers)):
        raise ValueError(f"{name!r} cannot be created, because all brokers are down")
    overrides = {key: setting(value) for key, value in (configs or {}).items()}
    made = engine.cluster.create_topic(
        name, now, partitions=partitions, replication_factor=replication_factor, overrides=overrides
    )
    _write_down(engine, now)
    return made


def delete_topic(engine: Engine, name: str, now: int) -> None:
    """Delete a topic, as DeleteTopics does. Raises NoSuchTopic, and OSError if the broker cannot write to its data
    directory."""
    topic = topic_named(engine, name)
    engine.cluster.delete_topic(topic, now, lambda: engine.topic_deleted(name, topic.topic_id))
    _write_down(engine, now)
    engine.groups.forget_topics(now)


def warm(engine: Engine, now: int) -> None:
    """Create the coordinators' internal topics and mark all coordinators as loaded, so that they respond without delay. Raises
    ValueError and OSError.
    """
    engine.cluster.warm(now)
    _write_down(engine, now)


def subscribe(engine: Engine, name: str, wanted: Mapping[str, str], now: int) -> None:
    """Create a client metrics subscription with these settings, so that the broker asks clients for their metrics. Raises
    RuntimeError, ValueError and OSError.
    """
    if not engine.telemetry.on:
        raise RuntimeError(
            "clients are not asked for metrics here; make it with MockKafka(telemetry=True), or serve --telemetry"
        )
    changes = [Change(key, AlterOperation.SET, value) for key, value in wanted.items() if value]
    node = min(engine.cluster.brokers)
    made = Alteration(engine.cluster, node, ResourceType.CLIENT_METRICS, name, changes, replaces=True)
    if (refusal := made.alter(validate_only=False)) is not None:
        raise ValueError(refusal.message)
    _write_down(engine, now)


DEFAULT = "<default>"
"""In quotas, this name stands for the default entity of a type."""


def set_quota(engine: Engine, entity: Mapping[str, str | None], limits: Mapping[str, float | None], now: int) -> None:
    """Set the quota limits of an entity. `entity` has a name for each entity type. A limit of None removes the limit.
    ValueError, OSError.
    """
    names = {kind: None if name == DEFAULT else name for kind, name in entity.items() if name is not None}
    release = engine.cluster.configs.release
    error = entity_error(names, names, release)
    for key, value in limits.items():
        error = error or (None if value is None else value_error(names, key, value, release))
    if error is not None:
        raise ValueError(error)
    engine.cluster.alter_quotas(
        [(entity_of(names), key, None if value is None else kept(key, value, release)) for key, value in limits.items()]
    )
    _write_down(engine, now)


def remove_quota(engine: Engine, entity: Mapping[str, str | None], now: int) -> None:
    """Remove all limits of an entity. Raises OSError if the broker cannot write to its data directory."""
    names = {kind: None if name == DEFAULT else name for kind, name in entity.items() if name is not None}
    held = engine.cluster.quotas.limits.get(entity_of(names), {})
    engine.cluster.alter_quotas([(entity_of(names), key, None) for key in held])
    _write_down(engine, now)


def _write_down(engine: Engine, now: int) -> None:
    if (failed := engine.cluster.decisions.write_down(now)) is not None:
        raise failed


def setting(value: Any) -> str:
    """Returns the value of a setting in Kafka's form, such as `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# Records


def records(
    engine: Engine, topic: str, partition: int | None = None, *, committed: bool = False
) -> list[StoredRecord]:  # fmt: skip
    """Returns every stored record, or with `committed` only the committed records, by partition and offset. Raises
    NoSuchTopic, NoSuchPartition."""
    found = topic_named(engine, topic)
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
    """Returns a function that tells for each record of a partition whether read_committed consumers get it."""
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
    """Tells whether a marker is a commit marker; otherwise it is an abort marker."""
    return marker.key is not None and marker.key[2:4] == COMMIT.to_bytes(2, "big")


def record_count(engine: Engine, topic: str) -> int:
    """Returns the number of offsets in the topic's logs, or 0 if the topic does not exist."""
    found = engine.cluster.topics.get(topic)
    return sum(each.log_end_offset - each.log_start_offset for each in found.partitions) if found else 0


def store(engine: Engine, topic: str, partition: int, record: Record, timestamp: int | None, now: int) -> int:
    """Store a record without a client. Creates the topic if it does not exist. Returns the record's offset. Raises ValueError
    if the record is refused.
    """
    if topic not in engine.cluster.topics:
        create_topic(engine, topic, now)
    batch = build_batch([record], base_timestamp=now if timestamp is None else timestamp)
    held = partition_of(topic_named(engine, topic), partition)
    if held.leader < 0:
        raise ValueError(f"{topic}-{partition} has no leader, so nothing can be stored there")
    appended = held.append(memoryview(batch), now, 9)
    if appended.error_code:
        why = appended.verdict.message if isinstance(appended.verdict, RecordReject) else None
        raise ValueError(f"the record was refused: {why or error_name(appended.error_code)}")
    return appended.base_offset


def expire_producer(engine: Engine, producer_id: int, topic: str | None, partition: int | None) -> int:
    """Remove a producer's state from partitions. Returns the number of partitions that had a state of the producer. Raises
    NoSuchTopic, NoSuchPartition.
    """
    if topic is not None:
        named = topic_named(engine, topic)
        if partition is not None:
            partition_of(named, partition)
    return engine.fault_broker.expire_producer(producer_id, topic, partition)


def producers(partition: Partition) -> dict[Key, ProducerEntry]:
    """Returns the producer states of one partition: the epoch and the latest batches of each producer id."""
    return {key: unpack(state) for key, state in partition.producers.items()}


def evidence(
    engine: Engine, topics: Iterable[str] | None, now: int
) -> tuple[list[StoredPartition], list[ProduceRow]]:  # fmt: skip
    """Returns the evidence for an audit of these topics, or of all topics: the stored batches, and the verdicts. Raises
    NoSuchTopic."""
    from wirebroker.audit.stored import snapshot

    names = list(engine.cluster.topics) if topics is None else list(dict.fromkeys(topics))
    held = [topic_named(engine, name) for name in names]
    return snapshot(held, engine.configs.producer_expiration_ms, now), engine.trace.produce()


# Faults
