"""The records of share groups (KIP-932) in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import share_group_current_member_assignment as current
from kafkawire.coordinator_records import share_group_member_metadata as metadata
from kafkawire.coordinator_records import share_group_metadata as group_metadata
from kafkawire.coordinator_records import share_group_state_partition_metadata as state
from kafkawire.coordinator_records import share_group_target_assignment_member as target
from kafkawire.coordinator_records import share_group_target_assignment_metadata as assignment
from kafkawire.declare import Message
from wirebroker.common.slices import after
from wirebroker.core.groups.modern_log import ModernRecords
from wirebroker.core.groups.share_member import Preparation, Prepared, ShareMember
from wirebroker.core.groups.simple_assignor import Partitions


class ShareRecords(ModernRecords[ShareMember, Partitions]):
    """Writes and reads the records of share groups."""

    metadata_key = metadata.ShareGroupMemberMetadataKey
    current_key = current.ShareGroupCurrentMemberAssignmentKey
    target_key = target.ShareGroupTargetAssignmentMemberKey
    target_value = target.ShareGroupTargetAssignmentMemberValue
    partitions = target.TopicPartition
    epoch_key = group_metadata.ShareGroupMetadataKey
    assignment_key = assignment.ShareGroupTargetAssignmentMetadataKey
    assignment_value = assignment.ShareGroupTargetAssignmentMetadataValue
    state_key = state.ShareGroupStatePartitionMetadataKey
    group_keys = (assignment_key, state_key, epoch_key)

    def _metadata(self, member: ShareMember) -> Message:
        return metadata.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id, client_id=member.client_id, client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        )  # fmt: skip

    def _current(self, member: ShareMember) -> Message:
        held = [current.TopicPartitions(topic_id=topic, partitions=list(each)) for topic, each in member.assigned.items()]
        return current.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=0, assigned_partitions=held
        )

    def epoch_record(self, group_id: str, epoch: int, hashed: int) -> CoordinatorRecord:
        """Returns a group's epoch, with the hash of its topics."""
        return self.epoch(group_id, group_metadata.ShareGroupMetadataValue(epoch=epoch, metadata_hash=hashed))

    def preparation(self, group_id: str, held: Preparation) -> Iterator[CoordinatorRecord | None]:
        """Yields the record of all share partitions that have a state, and before it None after each slice."""
        initializing = _infos(held.initializing)
        yield from after(initializing)
        initialized = _infos(held.initialized)
        yield from after(initialized)
        value = state.ShareGroupStatePartitionMetadataValue(
            initializing_topics=initializing, initialized_topics=initialized,
            deleting_topics=[state.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in held.deleting.items()],
        )  # fmt: skip
        yield CoordinatorRecord(self.state_key(group_id=group_id), value)

    def with_metadata(self, member: ShareMember, value: metadata.ShareGroupMemberMetadataValue) -> ShareMember:
        """Returns the member with the fields that it has sent."""
        return replace(
            member, rack_id=value.rack_id, client_id=value.client_id, client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )  # fmt: skip

    def with_assignment(self, member: ShareMember, value: current.ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        """Returns the member with its epochs and assignment."""
        assigned = {each.topic_id: tuple(each.partitions) for each in value.assigned_partitions}
        return replace(member, epoch=value.member_epoch, previous_epoch=value.previous_member_epoch, assigned=assigned)

    @staticmethod
    def read_preparation(value: state.ShareGroupStatePartitionMetadataValue) -> Preparation:
        """Returns the share partitions that have a state according to a record."""
        return Preparation(
            _prepared(value.initializing_topics), _prepared(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )  # fmt: skip


def _infos(topics: Mapping[bytes, Prepared]) -> list[state.TopicPartitionsInfo]:
    return [
        state.TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=sorted(each.partitions))
        for topic_id, each in topics.items()
    ]


def _prepared(topics: Iterable[state.TopicPartitionsInfo]) -> dict[bytes, Prepared]:
    return {each.topic_id: Prepared(each.topic_name, frozenset(each.partitions), 0) for each in topics}
