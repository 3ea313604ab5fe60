"""The records of consumer groups (KIP-848) in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import consumer_group_current_member_assignment as current
from kafkawire.coordinator_records import consumer_group_member_metadata as metadata
from kafkawire.coordinator_records import consumer_group_metadata as group_metadata
from kafkawire.coordinator_records import consumer_group_regular_expression as regular_expression
from kafkawire.coordinator_records import consumer_group_target_assignment_member as target
from kafkawire.coordinator_records import consumer_group_target_assignment_metadata as assignment
from kafkawire.coordinator_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kafkawire.declare import Message
from wirebroker.core.groups.consumer_member import ClassicSide, ConsumerMember, Owned
from wirebroker.core.groups.modern import MemberState
from wirebroker.core.groups.modern_log import Format, OfGroup, OfMember, target_of_partitions

REGEX_KEY = regular_expression.ConsumerGroupRegularExpressionKey


def _metadata(member: ConsumerMember) -> Message:
    classic = None
    if member.classic is not None:
        protocols = [metadata.ClassicProtocol(name=name, metadata=raw) for name, raw in member.classic.protocols]
        classic = metadata.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout, supported_protocols=protocols
        )
    return metadata.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id, rack_id=member.rack_id, client_id=member.client_id,
        client_host=member.client_host, subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex, rebalance_timeout_ms=member.rebalance_timeout,
        server_assignor=member.assignor, classic_member_metadata=classic,
    )  # fmt: skip


def _with_metadata(member: ConsumerMember, value: metadata.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    side = value.classic_member_metadata
    return replace(
        member, instance_id=value.instance_id, rack_id=value.rack_id, rebalance_timeout=value.rebalance_timeout_ms,
        client_id=value.client_id, client_host=value.client_host, topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "", assignor=value.server_assignor,
        classic=None if side is None else ClassicSide(
            side.session_timeout_ms, tuple((each.name, each.metadata) for each in side.supported_protocols)
        ),
    )  # fmt: skip


def _current(member: ConsumerMember) -> Message:
    return current.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=member.state.value,
        assigned_partitions=_owned(member.assigned), partitions_pending_revocation=_owned(member.revoking),
    )  # fmt: skip


def _with_current(member: ConsumerMember, value: current.ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    epoch = value.member_epoch
    return replace(
        member, epoch=epoch, previous_epoch=value.previous_member_epoch, state=MemberState(value.state),
        assigned=_read(value.assigned_partitions, epoch), revoking=_read(value.partitions_pending_revocation, epoch),
    )  # fmt: skip


def _owned(owned: Owned) -> list[current.TopicPartitions]:
    return [
        current.TopicPartitions(topic_id=topic, partitions=list(held), assignment_epochs=list(held.values()))
        for topic, held in owned.items()
    ]


def _read(partitions: Sequence[current.TopicPartitions], epoch: int) -> Mapping[bytes, Mapping[int, int]]:
    """Returns the epoch at which each partition was assigned.

    If the record has no assignment epochs, every partition has the member's epoch.
    """
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or [epoch] * len(each.partitions), strict=True))
        for each in partitions
    }


def regex_record(group_id: str, regex: str, topics: Iterable[str], version: int, time: int) -> CoordinatorRecord:
    """Returns the record of the topics that a regular expression matched at `time`.

    `version` is the number of topics that had been created before that time.
    """
    value = regular_expression.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=time)
    return CoordinatorRecord(REGEX_KEY(group_id=group_id, regular_expression=regex), value)


def regex_tombstones(group_id: str, regexes: Iterable[str]) -> list[CoordinatorRecord]:
    """Returns the tombstones of regular expressions."""
    return [CoordinatorRecord(REGEX_KEY(group_id=group_id, regular_expression=each), None) for each in regexes]


_EPOCH = OfGroup(group_metadata.ConsumerGroupMetadataKey, group_metadata.ConsumerGroupMetadataValue)
_ASSIGNMENT = OfGroup(
    assignment.ConsumerGroupTargetAssignmentMetadataKey, assignment.ConsumerGroupTargetAssignmentMetadataValue
)
FORMAT = Format(
    metadata=OfMember(metadata.ConsumerGroupMemberMetadataKey, _metadata, _with_metadata),
    current=OfMember(current.ConsumerGroupCurrentMemberAssignmentKey, _current, _with_current),
    target=target_of_partitions(
        target.ConsumerGroupTargetAssignmentMemberKey, target.ConsumerGroupTargetAssignmentMemberValue, target.TopicPartition
    ),
    epoch=_EPOCH,
    assignment=_ASSIGNMENT,
    group_keys=(_ASSIGNMENT.key, ConsumerGroupPartitionMetadataKey, _EPOCH.key),
    other_keys=(REGEX_KEY,),
)
