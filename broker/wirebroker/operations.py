"""What tests ask of a broker beside the wire: topics, stored records, seed data, producers' state, faults, waiting.

MockKafka and the HTTP control both sit on these. They are for the thread that the engine runs in, and times are ms since
the epoch; whoever changes something calls `changed` afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire.batches import Record, build_batch, iter_records, read_header
from kafkawire.errors import error_name
from wirebroker.core.cluster import Topic
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition
from wirebroker.core.producers import Key, ProducerEntry, unpack
from wirebroker.core.record_checks import RecordReject
from wirebroker.engine import Engine
from wirebroker.net.host import Host

if TYPE_CHECKING:
    from wirebroker.audit.stored import StoredPartition
    from wirebroker.faults.files import FaultFile
    from wirebroker.faults.rules import Rule
    from wirebroker.trace.rows import ProduceRow


class StoredRecord(NamedTuple):
    """One record as it is stored; −1 stands for "none"."""

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


class NoSuchTopic(KeyError):
    """The topic does not exist."""

    def __str__(self) -> str:  # a KeyError would put it in quotes
        return f"there is no topic {self.args[0]!r}"


class NoSuchPartition(IndexError):
    """The topic does not have this partition."""


class TopicExists(ValueError):
    """There is a topic of this name already."""


# Topics


def topic_named(engine: Engine, name: str) -> Topic:
    """The topic. Raises NoSuchTopic."""
    try:
        return engine.cluster.topics[name]
    except KeyError:
        raise NoSuchTopic(name) from None


def partition_of(topic: Topic, index: int) -> Partition:
    """The topic's partition. Raises NoSuchPartition."""
    if (found := topic.partition(index)) is None:
        last = len(topic.partitions) - 1
        raise NoSuchPartition(f"the topic {topic.name!r} has the partitions 0 to {last}, and no partition {index}")
    return found


def create_topic(
    engine: Engine, name: str, now: int, partitions: int | None = None, configs: Mapping[str, Any] | None = None,
    replication_factor: int | None = None,
) -> Topic:  # fmt: skip
    """Create a topic, with `num.partitions` partitions if they are not counted.

    Raises TopicExists, ValueError, OSError if it cannot be written down.
    """
    if (fault := topic_name_error(name)) is not None:
        raise ValueError(fault)
    if name in engine.cluster.topics:
        raise TopicExists(f"Topic '{name}' already exists.")
    if partitions is not None and partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    if replication_factor is not None and not 1 <= replication_factor <= len(engine.cluster.brokers):
        raise ValueError(f"{len(engine.cluster.brokers)} brokers cannot hold {replication_factor} replicas")
    if not any(map(engine.cluster.alive, engine.cluster.brokers)):
        raise ValueError(f"nobody could lead {name}: all brokers are down")
    overrides = {key: setting(value) for key, value in (configs or {}).items()}
    made = engine.cluster.create_topic(
        name, now, partitions=partitions, replication_factor=replication_factor, overrides=overrides
    )
    _write_down(engine, now)
    return made


def delete_topic(engine: Engine, name: str, now: int) -> None:
    """Delete a topic, as DeleteTopics does. Raises NoSuchTopic, OSError if that cannot be written down."""
    engine.cluster.delete_topic(topic_named(engine, name), now, lambda: engine.groups.topic_deleted(name, now))
    _write_down(engine, now)


def _write_down(engine: Engine, now: int) -> None:
    if (failed := engine.cluster.decisions.write_down(now)) is not None:
        raise failed


def setting(value: Any) -> str:
    """A setting as Kafka writes it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class PartitionState(NamedTuple):
    """Where one partition stands, in Kafka's terms. `leader` is −1 while nobody leads."""

    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    eligible: list[int]
    """Who may lead too while nobody is in sync (eligible leader replicas, KIP-966)."""
    offline: list[int]
    log_start_offset: int
    high_watermark: int
    log_end_offset: int


def partition_state(engine: Engine, topic: str, index: int) -> PartitionState:
    """Where a partition stands. Raises KeyError or IndexError if there is none."""
    held = engine.cluster.topics[topic].partitions[index]
    return PartitionState(
        held.leader, held.leader_epoch, list(held.replicas), list(held.in_sync), list(held.eligible),
        engine.cluster.offline(held), held.log_start_offset, held.high_watermark, held.log_end_offset,
    )  # fmt: skip


# Records


def records(engine: Engine, topic: str, partition: int | None = None) -> list[StoredRecord]:
    """Every record that is stored, by partition and offset. Raises NoSuchTopic."""
    held = topic_named(engine, topic).partitions
    return [record for each in held if partition in (None, each.index) for record in stored_records(each)]


def stored_records(partition: Partition, start_offset: int = 0) -> Iterator[StoredRecord]:
    """Every record of a partition from this offset on, or from its log start if that is later."""
    start = max(start_offset, partition.log_start_offset)
    for batch in partition.log.batches(start):
        header = read_header(batch)
        for record in iter_records(batch):
            offset = header.base_offset + record.offset_delta
            if offset < start:
                continue
            numbered = header.base_sequence >= 0
            yield StoredRecord(
                partition.topic, partition.index, offset,
                header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp_delta,
                record.key, record.value, tuple(record.headers), header.producer_id, header.producer_epoch,
                (header.base_sequence + record.offset_delta) % 2**31 if numbered else -1,
                header.is_transactional, header.is_control,
            )  # fmt: skip


def record_count(engine: Engine, topic: str) -> int:
    """How many offsets the topic's logs hold; 0 if there is no such topic."""
    found = engine.cluster.topics.get(topic)
    return sum(each.log_end_offset - each.log_start_offset for each in found.partitions) if found else 0


def store(engine: Engine, topic: str, partition: int, record: Record, timestamp: int, now: int) -> int:
    """Store a record without a client, creating the topic if there is none; its offset. ValueError if it is refused."""
    if topic not in engine.cluster.topics:
        create_topic(engine, topic, now)
    batch = build_batch([record], base_timestamp=timestamp)
    held = partition_of(topic_named(engine, topic), partition)
    if held.leader < 0:
        raise ValueError(f"nobody leads {topic}-{partition}, so that nothing can be stored there")
    appended = held.append(memoryview(batch), now, 9)
    if appended.error_code:
        why = appended.verdict.message if isinstance(appended.verdict, RecordReject) else None
        raise ValueError(f"the record was refused: {why or error_name(appended.error_code)}")
    return appended.base_offset


def producers(partition: Partition) -> dict[Key, ProducerEntry]:
    """The validator's state of one partition: producer id to epoch and latest batches."""
    return {key: unpack(state) for key, state in partition.producers.items()}


def evidence(
    engine: Engine, topics: Iterable[str] | None, now: int
) -> tuple[list[StoredPartition], list[ProduceRow]]:  # fmt: skip
    """What an audit of these topics, or of all, looks at: what is stored, and the verdicts. Raises NoSuchTopic."""
    from wirebroker.audit.stored import snapshot

    names = list(engine.cluster.topics) if topics is None else list(dict.fromkeys(topics))
    held = [topic_named(engine, name) for name in names]
    return snapshot(held, engine.configs.integer("producer.id.expiration.ms"), now), engine.trace.produce()


# Faults


def load_faults(engine: Engine, file: FaultFile) -> list[Rule]:
    """Load what a fault file says; its rules. Its seed, if it says one, holds from now on."""
    if file.seed is not None:
        engine.plan.reseed(file.seed)
    return [engine.plan.add(rule) for rule in file.rules]


# The host


def changed(host: Host) -> None:
    """Something was changed from outside: perform what comes of it, and tell those who wait."""
    host.flush()
    host.notify()


ASK_AGAIN_S = 0.05
"""Seconds after which somebody who waits asks again, though nothing has changed at the broker."""


async def until(host: Host, condition: Callable[[], bool], timeout: float) -> None:
    """Wait until the condition holds. TimeoutError after `timeout` s.

    It is asked after every change of the broker's, and every 50 ms for what comes true elsewhere.
    """
    happened, end = asyncio.Event(), host.loop.time() + timeout
    host.watchers.append(happened.set)
    try:
        while not condition():
            left = end - host.loop.time()
            if left <= 0:
                raise TimeoutError(f"the condition did not come true within {timeout} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(happened.wait(), min(left, ASK_AGAIN_S))
            happened.clear()
    finally:
        host.watchers.remove(happened.set)
