"""Dead letters of share groups (KIP-1191, ShareGroupDLQStateManager).

A dead letter is written for a record that a member has rejected, or that was delivered too often. The dead letter is a record
in the topic that the group's errors.deadletterqueue.topic.name names. The headers of a dead letter have the place of the
original record, and the reason for the dead letter. If the group's settings ask for copies, the dead letter also has the key
and the value of the original record. If a dead letter cannot be written, the dead letter is lost, and the original record is
archived anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire.batches import HEADER_SIZE, Record, build_batch, iter_batches, iter_records, read_header, write_record
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.registry import PRODUCE, versions
from wirebroker.core.cluster import Cluster, Topic
from wirebroker.core.configs import ConfigError, check_topic_configs
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition
from wirebroker.core.share.settings import ShareSettings

REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."
ENABLED = "errors.deadletterqueue.group.enable"
"""A topic can get dead letters only if this topic setting is true."""
OVERRIDES = {ENABLED: "true", "message.timestamp.type": "CreateTime"}
"""The settings of a topic that the broker creates for dead letters."""
ATTEMPTS, FIRST_PAUSE_MS = 5, 2000
"""The number of attempts to find the topic's leader, and the pause after the first attempt. The pause doubles after each
attempt."""
READ_BYTES = 1 << 20
"""One read from the log returns at most this many bytes."""


class Letters(NamedTuple):
    """The dead letters for consecutive records of `partition`, from offset `first` to `last`.

    `held()` tells whether the leader still has the share partition. `done(why, now)` is called when the work has ended: `why`
    is the reason why a dead letter could not be written, or "" if all dead letters were written.
    """

    settings: ShareSettings
    partition: Partition
    first: int
    last: int
    delivery_count: int
    cause: str
    held: Callable[[], bool]
    done: Callable[[str, int], None]


class DeadLetters:
    """Writes the dead letters of all share groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def send(self, letters: Letters, now: int) -> None:
        """Write the letters, in slices. If the partition for the letters has no leader, the broker tries again later."""
        self._try(letters, 1, now)

    def _try(self, letters: Letters, attempt: int, now: int) -> None:
        self._cluster.timers.work(self._sent(letters, attempt, now))

    def _sent(self, letters: Letters, attempt: int, now: int) -> Iterator[None]:
        if not letters.held():
            return
        topic = self._topic(letters.settings.dead_letter_topic, now)
        if isinstance(topic, str):
            letters.done(topic, now)
            return
        to = topic.partitions[letters.partition.index % len(topic.partitions)]
        if to.leader == NO_LEADER or not self._cluster.alive(to.leader):
            if attempt == ATTEMPTS:
                letters.done(f"{topic.name}-{to.index} has no leader", now)
            else:
                again = now + (FIRST_PAUSE_MS << (attempt - 1))
                self._cluster.timers.at(again, lambda when: self._try(letters, attempt + 1, when))
            return
        for batch in _batches(letters, to.configs.integer("max.message.bytes"), now):
            error = ErrorCode.NOT_ENOUGH_REPLICAS if to.replication.too_few else self._append(to, batch, now)
            if error:
                letters.done(ErrorCode(error).name, now)
                return
            yield
        letters.done("", now)

    @staticmethod
    def _append(to: Partition, batch: bytes, now: int) -> int:
        return to.append(memoryview(batch), now, versions(PRODUCE)[1]).error_code

    def _topic(self, name: str, now: int) -> Topic | str:
        """Returns the topic for dead letters, or the reason why dead letters cannot be written to this topic. Creates the topic
        if the settings allow that."""
        configs = self._cluster.configs
        prefix = configs.text("errors.deadletterqueue.topic.name.prefix")
        topic = self._cluster.topics.get(name)
        if topic is not None and not topic.configs.value(ENABLED):
            return f"{ENABLED} of {name} is false"
        if topic is None and not configs.value("errors.deadletterqueue.auto.create.topics.enable"):
            return f"there is no topic {name}"
        if not name.startswith(prefix):
            return f"the name {name} does not begin with {prefix}"
        return self._created(name, now) if topic is None else topic

    def _created(self, name: str, now: int) -> Topic | str:
        cluster = self._cluster
        if error := topic_name_error(name) or cluster.cannot_replicate(cluster.configs.integer("default.replication.factor")):
            return error
        if alike := next(iter(cluster.topics_like(name)), ""):
            return f"Topic '{name}' collides with existing topic: {alike}"
        try:
            check_topic_configs(OVERRIDES, cluster.configs)
        except ConfigError as refused:
            return str(refused)
        cluster.create_default_topic(name, now, OVERRIDES)
        return cluster.topics.get(name) or f"the topic {name} could not be created"


def _batches(letters: Letters, most: int, now: int) -> Iterator[bytes]:
    """Yields the dead letters in batches of up to `most` bytes. If one dead letter is larger than that, it is alone in its
    batch."""
    at = letters.first
    while at <= letters.last:
        copies, resolved = _copies(letters, at, most)
        end = max(at, min(letters.last, resolved))
        records: list[Record] = []
        size = HEADER_SIZE
        for offset in range(at, end + 1):
            key, value = copies.get(offset, (None, None))
            record = Record(len(records), 0, key, value, _headers(letters, offset))
            taken = _size(record)
            if records and size + taken > most:
                break
            records.append(record)
            size += taken
            if size > most:
                break
        yield build_batch(records, base_timestamp=now)
        at += len(records)


def _headers(letters: Letters, offset: int) -> list[tuple[str, bytes]]:
    told = {
        "topic": letters.partition.topic, "partition": letters.partition.index, "offset": offset,
        "group": letters.settings.group_id, "delivery.count": letters.delivery_count, "message": letters.cause,
    }  # fmt: skip
    return [(f"__dlq.errors.{name}", str(value).encode()) for name, value in told.items()]


def _size(record: Record) -> int:
    out = bytearray()
    write_record(out, record)
    return len(out)


Copies = dict[int, tuple[bytes | None, bytes | None]]
"""The copies of the original records' keys and values, by the record's offset."""


def _copies(letters: Letters, first: int, most: int) -> tuple[Copies, int]:
    """Returns two values: copies of records from offset `first` on, which together have at most `most` bytes, and the last
    offset that was handled. As in Kafka's ShareGroupDLQRecordFetcher, a record that is larger than `most` is not copied. If a
    compressed batch is larger than `most` after decompression, none of its records is copied.
    """
    copies: Copies = {}
    if not letters.settings.copies_dead_letters:
        return copies, letters.last
    left, resolved = most, first - 1
    for batch in _stored(letters.partition, first, letters.last):
        header = read_header(batch)
        try:
            records = list(iter_records(batch, most))
        except ProtocolError:  # the decompressed batch is larger than `most`
            resolved = max(resolved, min(header.last_offset, letters.last))
            continue
        compressed = bool(header.compression)
        for record in records:
            offset = header.base_offset + record.offset_delta
            if not first <= offset <= letters.last:
                continue
            size = _size(record)
            if size > left and (compressed or size <= most):
                return copies, resolved
            if size <= most:
                copies[offset] = record.key, record.value
                left -= size
            resolved = offset
        if left <= 0:
            return copies, resolved
    return copies, letters.last


def _stored(partition: Partition, first: int, last: int) -> Iterator[memoryview]:
    """Yields the batches with the offsets from `first` to `last`, except batches that are no longer in the log."""
    at = first
    while at <= last:
        if not partition.log_start_offset <= at < partition.high_watermark:
            return
        try:
            read = partition.log.read(at, partition.high_watermark, READ_BYTES, True)
        except OSError:
            return
        before = at
        for batch in iter_batches(read.data):
            yield batch
            at = read_header(batch).last_offset + 1
        if at == before:
            return
