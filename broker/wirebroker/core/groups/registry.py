"""The groups by their ids, and the writing of their records to the log (Kafka's CoordinatorRuntime)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from kafkawire.batches import Record, build_batch
from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import EncodeError, ErrorCode
from wirebroker.common.changes import GroupRow
from wirebroker.common.slices import at_once, weighted_pauses
from wirebroker.core.cluster import GROUP_TOPIC, Cluster
from wirebroker.core.coordinator_errors import translate_error
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.group import AnyGroup
from wirebroker.core.java_order import abs_hash
from wirebroker.core.metadata_writes import check_texts

BYTES = 64 * 1024
"""The number of bytes of encoded records in one slice."""


class Registry:
    """All groups of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.changes = Changes(cluster.timers, lambda: cluster.configs.release)
        self.groups: dict[str, AnyGroup] = {}

    def enter(self, group: AnyGroup, now: int) -> bool:
        """Register a group whose records have been written. The group replaces an earlier group with the same id. Returns False
        if `group` was registered already."""
        before = self.groups.get(group.group_id)
        if before is group:
            return False
        if before is not None:
            before.die(now)
        self.groups[group.group_id] = group
        return True

    def new_classic(self, group_id: str, now: int) -> Group:
        """Returns a new classic group without registering it."""
        configs = self.cluster.configs
        return Group(
            group_id, self.cluster.timers, lambda: configs.integer("group.initial.rebalance.delay.ms"), now,
            lambda group, when: self.log(group.group_id, [group.record()], when), self.report,
            lambda: configs.release,
        )  # fmt: skip

    def create_classic(self, group_id: str, now: int) -> Group:
        """Returns a new classic group, and registers it. Raises UnwritableText for an id that no record can hold."""
        check_texts(group_id)
        group = self.groups[group_id] = self.new_classic(group_id, now)
        return group

    def report(self, group: AnyGroup) -> None:
        """Report the group's change to the watchers of the cluster."""
        change = GroupRow(group.group_id, group.state_name, group.generation_or_epoch, len(group.members))
        self.cluster.report(change)

    # Writing

    def home(self, group_id: str) -> int:
        """Returns the index of the partition of __consumer_offsets that has, or will have, the group's records."""
        index = self.cluster.coordinator_partition("group", group_id)
        return abs_hash(group_id) % self.cluster.configs.integer("offsets.topic.num.partitions") if index is None else index

    def log(self, group_id: str, records: Iterable[CoordinatorRecord | None], now: int) -> ErrorCode:
        """Append records to __consumer_offsets. Either all records are appended, or none. Returns NONE, or the error for the
        client.

        As in Kafka, the error is UNKNOWN_SERVER_ERROR if an id is longer than a record can hold.
        """
        return at_once(self.log_in_slices(group_id, records, now))

    def log_in_slices(
        self, group_id: str, records: Iterable[CoordinatorRecord | None], now: int
    ) -> Generator[None, Any, ErrorCode]:
        """Does the same as `log`, but in slices. A slice ends where `records` contains None. All records are encoded before the
        first record is written."""
        pause = weighted_pauses(BYTES)
        encoded = []
        try:
            for record in records:
                if record is None:
                    yield
                    continue
                key, value = record.encode()
                encoded.append((key, value))
                yield from pause(len(value or b""))
            batch = encoded_batch(encoded, now) if encoded else b""
        except EncodeError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return self.append(group_id, batch, now)[1]

    def append(self, group_id: str, batch: bytes, now: int, verified: bool = False) -> tuple[int, ErrorCode]:
        """Append a batch to __consumer_offsets. Returns two values: the batch's base offset, and the error for the client (NONE
        if there is no error)."""
        log = self.cluster.partition(GROUP_TOPIC, self.home(group_id))
        if log is None or not batch:
            return -1, ErrorCode.NONE
        base = log.log_end_offset
        return base, translate_error(log.append_own(batch, now, verified=verified))


def encoded_batch(records: Iterable[tuple[bytes, bytes | None]], now: int, producer: tuple[int, int] | None = None) -> bytes:
    """Returns one batch with these records. Each record is given as its encoded key and its encoded value. `producer` is the id
    and epoch of the producer whose transaction contains the records.

    As in Kafka's CoordinatorRuntime, the batch has the base sequence 0, even if it is not the producer's first batch.
    """
    producer_id, producer_epoch = producer or (-1, -1)
    return build_batch(
        [Record(i, 0, key, value) for i, (key, value) in enumerate(records)], base_timestamp=now,
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=producer is not None,
    )  # fmt: skip
