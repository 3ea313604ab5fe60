"""The records of consumer groups (KIP-848) in __consumer_offsets, in Kafka's format.

Kafka writes a record for each change of a request: of a member, a target, a current assignment, an epoch, the matches of a
regular expression. Here the changes are found afterwards: a group marks its changed members, and these are compared with
their last records. Kafka adds a hash of the topics to a group's epoch. Here it stays 0, which means unknown, because the
topics themselves are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from typing import Any

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import consumer_group_current_member_assignment as current
from kafkawire.coordinator_records import consumer_group_member_metadata as metadata
from kafkawire.coordinator_records.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kafkawire.coordinator_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kafkawire.coordinator_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kafkawire.coordinator_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kafkawire.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kafkawire.declare import Message
from wirebroker.common.slices import after
from wirebroker.core.groups.consumer import ConsumerGroup
from wirebroker.core.groups.members import ConsumerMember, MemberState, Owned

STATES = {MemberState.STABLE: 0, MemberState.UNREVOKED_PARTITIONS: 1, MemberState.UNRELEASED_PARTITIONS: 2}
METADATA = (
    "instance_id", "rack_id", "client_id", "client_host", "topics", "regex", "rebalance_timeout", "assignor", "classic",
)  # fmt: skip
CURRENT = ("epoch", "previous_epoch", "state", "assigned", "revoking")
"""The fields of a member in each of its two records."""


def mark_written(group: ConsumerGroup) -> None:
    """The records of `changes` were written."""
    written = group.written
    for member_id in group.touched:
        for held, kept in ((group.members, written.members), (group.targets, written.targets)):
            _copy(member_id, held, kept)
    group.touched.clear()
    written.resolved = dict(group.resolved)
    written.epoch = group.epoch
    if group.targets:
        written.assignment_epoch = group.assignment_epoch
    written.of_group = (group.epoch, group.assignment_epoch, group.assigned_at, group.facts)


def _copy(key: str, held: Mapping[str, Any], kept: dict[str, Any]) -> None:
    if key in held:
        kept[key] = held[key]
    else:
        kept.pop(key, None)


def changes(group: ConsumerGroup) -> Iterator[CoordinatorRecord | None]:
    """The records for all changes since the last write, with None where a slice ends. After writing them, call
    `mark_written`.
    """
    written, group_id, touched = group.written, group.group_id, group.touched
    gone = [member_id for member_id in touched if member_id in written.members and member_id not in group.members]
    present = [member_id for member_id in touched if member_id in group.members]
    yield from _member_tombstones(group_id, gone)
    for member_id in present:
        if _differ(written.members.get(member_id), group.members[member_id], METADATA):
            key = metadata.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
            yield CoordinatorRecord(key, _metadata(group.members[member_id]))
            yield from after(group.members[member_id].topics)
    yield from _regexes(group)
    if group.epoch != written.epoch:
        key_of_epoch = ConsumerGroupMetadataKey(group_id=group_id)
        yield CoordinatorRecord(key_of_epoch, ConsumerGroupMetadataValue(epoch=group.epoch))
    yield from _targets(group, present)
    for member_id in present:
        if _differ(written.members.get(member_id), group.members[member_id], CURRENT):
            owner = current.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
            yield CoordinatorRecord(owner, (yield from _current(group.members[member_id])))


def tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """The tombstones for all records of a group."""
    written, group_id = group.written, group.group_id
    if written.epoch is None:
        return []
    records = list(_member_tombstones(group_id, written.members))
    records += [_tombstone(_regex_key(group_id, regex)) for regex in written.resolved]
    records.append(_tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)))
    records.append(_tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id)))
    records.append(_tombstone(ConsumerGroupMetadataKey(group_id=group_id)))
    return records


def _differ(before: ConsumerMember | None, after: ConsumerMember, names: Iterable[str]) -> bool:
    return before is None or any(getattr(before, name) != getattr(after, name) for name in names)


def _member_tombstones(group_id: str, gone: Collection[str]) -> Iterator[CoordinatorRecord]:
    for kind in (
        current.ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        metadata.ConsumerGroupMemberMetadataKey,
    ):
        for member_id in gone:
            yield _tombstone(kind(group_id=group_id, member_id=member_id))


def _regexes(group: ConsumerGroup) -> Iterator[CoordinatorRecord | None]:
    written = group.written.resolved
    for regex in [each for each in written if each not in group.resolved]:
        yield _tombstone(_regex_key(group.group_id, regex))
    for regex, (topics, version, time) in group.resolved.items():
        if regex not in written or written[regex].time != time:
            value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=time)
            yield CoordinatorRecord(_regex_key(group.group_id, regex), value)
            yield from after(topics)


def _regex_key(group_id: str, regex: str) -> Message:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def _targets(group: ConsumerGroup, present: Iterable[str]) -> Iterator[CoordinatorRecord | None]:
    written = group.written
    for member_id in present:
        target = group.targets.get(member_id)
        if target is not None and target is not written.targets.get(member_id):
            held = [TopicPartition(topic_id=topic, partitions=list(indexes)) for topic, indexes in target.items()]
            yield from after(held)
            key = ConsumerGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id)
            yield CoordinatorRecord(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=held))
    if group.targets and group.assignment_epoch != written.assignment_epoch:
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=group.assignment_epoch, assignment_timestamp=group.assigned_at
        )
        yield CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def _tombstone(key: Message) -> CoordinatorRecord:
    return CoordinatorRecord(key, None)


def _metadata(member: ConsumerMember) -> metadata.ConsumerGroupMemberMetadataValue:
    classic = None
    if member.classic is not None:
        protocols = [metadata.ClassicProtocol(name=name, metadata=raw) for name, raw in member.classic.protocols]
        classic = metadata.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout, supported_protocols=protocols
        )
    return metadata.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )


def _current(member: ConsumerMember) -> Generator[None, Any, current.ConsumerGroupCurrentMemberAssignmentValue]:
    assigned = yield from _owned(member.assigned)
    revoking = yield from _owned(member.revoking)
    return current.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STATES[member.state],
        assigned_partitions=assigned,
        partitions_pending_revocation=revoking,
    )


def _owned(owned: Owned) -> Generator[None, Any, list[current.TopicPartitions]]:
    made = [
        current.TopicPartitions(topic_id=topic, partitions=list(held), assignment_epochs=list(held.values()))
        for topic, held in owned.items()
    ]
    yield from after(made)
    return made
