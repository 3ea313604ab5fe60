"""The records of share groups in __consumer_offsets, in Kafka's format, and loading groups from them.

Kafka adds a hash of the topics to a group's epoch. Here it stays 0, which means unknown, because the topics are compared.
"""

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
from wirebroker.core.groups.share_group import Preparation, Prepared, ShareGroup, ShareMember
from wirebroker.core.groups.simple_assignor import Partitions

MEMBER_KEYS = (
    current.ShareGroupCurrentMemberAssignmentKey, target.ShareGroupTargetAssignmentMemberKey,
    metadata.ShareGroupMemberMetadataKey,
)  # fmt: skip
"""The kinds of the records of a member, in the order of their tombstones."""
KEYS = (
    *MEMBER_KEYS, group_metadata.ShareGroupMetadataKey, state.ShareGroupStatePartitionMetadataKey,
    assignment.ShareGroupTargetAssignmentMetadataKey,
)  # fmt: skip


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """What a member has sent."""
    value = metadata.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id, client_id=member.client_id, client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )  # fmt: skip
    key = metadata.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    """A group's epoch."""
    value = group_metadata.ShareGroupMetadataValue(epoch=epoch, metadata_hash=0)
    return CoordinatorRecord(group_metadata.ShareGroupMetadataKey(group_id=group_id), value)


def target_records(
    group: ShareGroup, targets: Mapping[str, Partitions], epoch: int, now: int
) -> Iterable[CoordinatorRecord]:  # fmt: skip
    """The changed targets, and the epoch of the assignment."""
    for member_id, partitions in targets.items():
        if group.targets.get(member_id) != partitions:
            held = [target.TopicPartition(topic_id=topic, partitions=list(each)) for topic, each in partitions.items()]
            key = target.ShareGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id)
            yield CoordinatorRecord(key, target.ShareGroupTargetAssignmentMemberValue(topic_partitions=held))
    value = assignment.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now)
    yield CoordinatorRecord(assignment.ShareGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """A member's assignment and epochs."""
    value = current.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=0,
        assigned_partitions=[
            current.TopicPartitions(topic_id=topic, partitions=list(each)) for topic, each in member.assigned.items()
        ],
    )  # fmt: skip
    key = current.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def preparation_record(group_id: str, held: Preparation) -> Iterator[CoordinatorRecord | None]:
    """The record that tells which partitions have a state; None before it where a slice ends."""
    initializing = _infos(held.initializing)
    yield from after(initializing)
    initialized = _infos(held.initialized)
    yield from after(initialized)
    value = state.ShareGroupStatePartitionMetadataValue(
        initializing_topics=initializing, initialized_topics=initialized,
        deleting_topics=[state.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in held.deleting.items()],
    )  # fmt: skip
    yield CoordinatorRecord(state.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _infos(topics: Mapping[bytes, Prepared]) -> list[state.TopicPartitionsInfo]:
    return [
        state.TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=sorted(each.partitions))
        for topic_id, each in topics.items()
    ]


def member_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """The tombstones of members."""
    gone = list(member_ids)
    return [
        CoordinatorRecord(kind(group_id=group_id, member_id=member_id), None) for kind in MEMBER_KEYS for member_id in gone
    ]  # fmt: skip


def tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    """The tombstones for all records of a group without members."""
    return [
        CoordinatorRecord(kind(group_id=group.group_id), None)
        for kind in (
            assignment.ShareGroupTargetAssignmentMetadataKey, state.ShareGroupStatePartitionMetadataKey,
            group_metadata.ShareGroupMetadataKey,
        )
    ]  # fmt: skip


def replay(group: ShareGroup, key: Message, value: Message | None) -> None:
    """Apply a record to its group."""
    member_id: str = getattr(key, "member_id", "")
    member = group.members.get(member_id) or ShareMember(member_id)
    if isinstance(value, group_metadata.ShareGroupMetadataValue):
        group.epoch = value.epoch
    elif isinstance(value, assignment.ShareGroupTargetAssignmentMetadataValue):
        group.assignment_epoch, group.assigned_at = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(value, metadata.ShareGroupMemberMetadataValue):
        group.members[member_id] = replace(
            member, rack_id=value.rack_id, client_id=value.client_id, client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )  # fmt: skip
    elif isinstance(value, current.ShareGroupCurrentMemberAssignmentValue):
        assigned = {each.topic_id: tuple(each.partitions) for each in value.assigned_partitions}
        group.members[member_id] = replace(
            member, epoch=value.member_epoch, previous_epoch=value.previous_member_epoch, assigned=assigned
        )
    elif isinstance(value, target.ShareGroupTargetAssignmentMemberValue):
        group.targets[member_id] = {each.topic_id: tuple(each.partitions) for each in value.topic_partitions}
    elif isinstance(value, state.ShareGroupStatePartitionMetadataValue):
        group.preparation = Preparation(
            _prepared(value.initializing_topics), _prepared(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )  # fmt: skip
    elif isinstance(key, metadata.ShareGroupMemberMetadataKey):
        group.members.pop(member_id, None)
    elif isinstance(key, target.ShareGroupTargetAssignmentMemberKey):
        group.targets.pop(member_id, None)


def _prepared(topics: Iterable[state.TopicPartitionsInfo]) -> dict[bytes, Prepared]:
    return {each.topic_id: Prepared(each.topic_name, frozenset(each.partitions), 0) for each in topics}
