"""The records of consumer groups (KIP-848) in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import consumer_group_current_member_assignment as current
from kafkawire.coordinator_records import consumer_group_member_metadata as metadata
from kafkawire.coordinator_records import consumer_group_metadata as group_metadata
from kafkawire.coordinator_records import consumer_group_regular_expression as regular_expression
from kafkawire.coordinator_records import consumer_group_target_assignment_member as target
from kafkawire.coordinator_records import consumer_group_target_assignment_metadata as assignment
from kafkawire.coordinator_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kafkawire.declare import Message
from wirebroker.core.groups.assignors import Partitions
from wirebroker.core.groups.consumer_member import ClassicSide, ConsumerMember, Owned
from wirebroker.core.groups.modern_log import ModernRecords
from wirebroker.core.groups.modern_member import MemberState


class ConsumerRecords(ModernRecords[ConsumerMember, Partitions]):
    """Writes and reads the records of consumer groups."""

    metadata_key = metadata.ConsumerGroupMemberMetadataKey
    current_key = current.ConsumerGroupCurrentMemberAssignmentKey
    target_key = target.ConsumerGroupTargetAssignmentMemberKey
    target_value = target.ConsumerGroupTargetAssignmentMemberValue
    partitions = target.TopicPartition
    epoch_key = group_metadata.ConsumerGroupMetadataKey
    assignment_key = assignment.ConsumerGroupTargetAssignmentMetadataKey
    assignment_value = assignment.ConsumerGroupTargetAssignmentMetadataValue
    group_keys = (assignment_key, ConsumerGroupPartitionMetadataKey, epoch_key)
    regex_key = regular_expression.ConsumerGroupRegularExpressionKey
    other_keys = (regex_key,)

    def _metadata(self, member: ConsumerMember) -> Message:
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

    def _current(self, member: ConsumerMember) -> Message:
        return current.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=member.state.value,
            assigned_partitions=_owned(member.assigned), partitions_pending_revocation=_owned(member.revoking),
        )  # fmt: skip

    def epoch_record(self, group_id: str, epoch: int, hashed: int) -> CoordinatorRecord:
        """Returns a group's epoch, with the hash of its topics."""
        return self.epoch(group_id, group_metadata.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=hashed))

    def regex(self, group_id: str, regex: str, topics: Iterable[str], version: int, time: int) -> CoordinatorRecord:
        """Returns the record of the topics that a regular expression matched at `time`.

        `version` is the number of topics that had been created at that time.
        """
        key = self.regex_key(group_id=group_id, regular_expression=regex)
        value = regular_expression.ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=time
        )  # fmt: skip
        return CoordinatorRecord(key, value)

    def regex_tombstones(self, group_id: str, regexes: Iterable[str]) -> list[CoordinatorRecord]:
        """Returns the tombstones of regular expressions."""
        return [CoordinatorRecord(self.regex_key(group_id=group_id, regular_expression=each), None) for each in regexes]

    def with_metadata(self, member: ConsumerMember, value: metadata.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """Adds the fields that the member has sent, in the form that a record has."""
        side = value.classic_member_metadata
        return replace(
            member, instance_id=value.instance_id, rack_id=value.rack_id, rebalance_timeout=value.rebalance_timeout_ms,
            client_id=value.client_id, client_host=value.client_host, topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "", assignor=value.server_assignor,
            classic=None if side is None else ClassicSide(
                side.session_timeout_ms, tuple((each.name, each.metadata) for each in side.supported_protocols)
            ),
        )  # fmt: skip

    def with_assignment(
        self, member: ConsumerMember, value: current.ConsumerGroupCurrentMemberAssignmentValue
    ) -> ConsumerMember:  # fmt: skip
        """Returns the member with its epochs and assignment."""
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
