"""Loading groups from their records (GroupCoordinator's loader and OffsetMetadataManager.replay)."""

from __future__ import annotations

from kafkawire.batches import BatchHeader, iter_records, read_header, read_marker
from kafkawire.coordinator_log import read_record
from kafkawire.coordinator_records import GROUP_RECORDS
from kafkawire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkawire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkawire.coordinator_records.share_group_metadata import ShareGroupMetadataKey
from kafkawire.coordinator_records.streams_group_topology import StreamsGroupTopologyKey
from kafkawire.declare import Message
from wirebroker.core.groups.classic import Member, Snapshot
from wirebroker.core.groups.consumer_loading import WrittenGroup
from wirebroker.core.groups.offsets import Committed, OffsetStore
from wirebroker.core.groups.share_log import KEYS as SHARE_KEYS
from wirebroker.core.groups.streams_log import KEYS as STREAMS_KEYS


class GroupLog:
    """The groups of one partition of __consumer_offsets, read batch by batch; offsets go into the given store."""

    def __init__(self, home: int, offsets: OffsetStore) -> None:
        self._home = home
        self._offsets = offsets
        self.groups: dict[str, Snapshot] = {}
        """The classic groups as their latest records describe them."""
        self.consumer_groups: dict[str, WrittenGroup] = {}
        self.share_groups: dict[str, list[tuple[Message, Message | None]]] = {}
        """The records of share groups."""
        self.streams_groups: dict[str, list[tuple[Message, Message | None]]] = {}
        """The records of streams groups."""
        self.with_offsets: set[str] = set()
        """Groups that had an offset at some time."""

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
            self.groups.pop(key.group, None)
            if isinstance(value, GroupMetadataValue):
                self.groups[key.group] = _snapshot(value)
        elif isinstance(key, SHARE_KEYS):
            self.share_groups.setdefault(key.group_id, []).append((key, value))
            if isinstance(key, ShareGroupMetadataKey) and value is None:
                del self.share_groups[key.group_id]
        elif isinstance(key, STREAMS_KEYS):
            self._replay_streams(key.group_id, key, value)
        elif isinstance(group_id := getattr(key, "group_id", None), str):
            self.consumer_groups.setdefault(group_id, WrittenGroup()).replay(key, value)

    def _replay_streams(self, group_id: str, key: Message, value: Message | None) -> None:
        if value is not None or group_id in self.streams_groups:
            self.streams_groups.setdefault(group_id, []).append((key, value))
        if isinstance(key, StreamsGroupTopologyKey) and value is None:  # the last of a group's tombstones
            self.streams_groups.pop(group_id, None)

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


def _snapshot(value: GroupMetadataValue) -> Snapshot:
    members = [
        Member(
            member.member_id, member.group_instance_id, member.client_id, member.client_host, member.rebalance_timeout,
            member.session_timeout, [(value.protocol or "", member.subscription)], member.assignment, is_new=False,
        )
        for member in value.members
    ]  # fmt: skip
    return Snapshot(value.generation, value.protocol_type or None, value.protocol, value.leader, members)
