"""Loading groups from their records (GroupCoordinator's loader and OffsetMetadataManager.replay)."""

from __future__ import annotations

from typing import Any

from kafkawire.batches import BatchHeader, iter_records, read_header, read_marker
from kafkawire.coordinator_log import read_record
from kafkawire.coordinator_records import GROUP_RECORDS
from kafkawire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkawire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkawire.declare import Message
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.classic import Snapshot
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.groups.offsets import Committed, OffsetStore
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.groups.streams_group import StreamsGroup

AnyModern = ModernGroup[Any, Any]
MODERN: tuple[type[AnyModern], ...] = (ConsumerGroup, ShareGroup, StreamsGroup)
_KIND_OF = {key: kind for kind in MODERN for key in (*kind.form.member_keys, *kind.form.group_keys, *kind.form.other_keys)}
"""The type of group to which each type of record belongs."""


class GroupLog:
    """Reads the groups from one partition of __consumer_offsets, batch by batch. The committed offsets go into `offsets`."""

    def __init__(self, home: int, offsets: OffsetStore, changes: Changes) -> None:
        self._home = home
        self._offsets = offsets
        self._changes = changes
        self.classic: dict[str, Snapshot] = {}
        """The classic groups, each as its latest record describes it."""
        self.modern: dict[str, AnyModern] = {}
        self.with_offsets: set[str] = set()
        """The groups for which the log has a committed offset, even if a later record deletes the offset."""

    def read(self, batch: memoryview) -> None:
        """Apply the next batch. Raises ProtocolError."""
        header = read_header(batch)
        for record in iter_records(batch):
            if header.is_control:
                if (marker := read_marker(record)) is not None:
                    self._offsets.end_transaction(self._home, header.producer_id, marker.commit)
            elif (read := read_record(GROUP_RECORDS, record.key or b"", record.value)) is not None:
                self._replay(header, header.base_offset + record.offset_delta, read.key, read.value)

    def _replay(self, header: BatchHeader, offset: int, key: Message, value: Message | None) -> None:
        if isinstance(key, OffsetCommitKey):
            self._replay_offset(header, offset, key, value)
        elif isinstance(key, GroupMetadataKey):
            self.classic.pop(key.group, None)
            if isinstance(value, GroupMetadataValue):
                self.classic[key.group] = Snapshot.of(value)
        elif (kind := _KIND_OF.get(type(key))) is not None:
            self._replay_modern(kind, key, value)

    def _replay_modern(self, kind: type[AnyModern], key: Any, value: Message | None) -> None:
        group = self.modern.get(key.group_id)
        if not isinstance(group, kind):
            if value is None:
                return
            group = self.modern[key.group_id] = kind(key.group_id, self._changes)
        group.replay(key, value)
        if value is None and isinstance(key, kind.form.last_key):
            del self.modern[key.group_id]

    def _replay_offset(self, header: BatchHeader, offset: int, key: OffsetCommitKey, value: Message | None) -> None:
        where = (key.topic, key.partition)
        self.with_offsets.add(key.group)
        if not isinstance(value, OffsetCommitValue):
            self._offsets.delete(key.group, where)
            return
        expires = None if value.expire_timestamp == -1 else value.expire_timestamp
        committed = Committed(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, expires, recorded_at=offset
        )
        if header.is_transactional:
            self._offsets.commit_in_transaction(self._home, header.producer_id, key.group, {where: committed}, offset)
        else:
            self._offsets.commit(key.group, where, committed)
