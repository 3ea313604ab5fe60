"""What is written down of consumer groups of KIP-848, in Kafka's format, and how it is read back.

A group notes in its journal which of its parts have changed; what it then says of them is written down together, before
anybody is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from kafkawire.coordinator_log import key_bytes, value_bytes
from kafkawire.coordinator_records import consumer_group_current_member_assignment as current
from kafkawire.coordinator_records import consumer_group_member_metadata as metadata
from kafkawire.coordinator_records import consumer_group_metadata as group_metadata
from kafkawire.coordinator_records import consumer_group_regular_expression as regular_expression
from kafkawire.coordinator_records import consumer_group_target_assignment_member as target
from kafkawire.coordinator_records import consumer_group_target_assignment_metadata as assignment
from kafkawire.declare import Message
from wirebroker.core.groups.assignors import Partitions
from wirebroker.core.groups.members import ClassicSide, ConsumerMember, MemberState, Owned


class Part(Enum):
    """What of a group is written down on its own; all but the first two are of a member, or of a regular expression."""

    EPOCH = "epoch"
    ASSIGNMENT = "assignment epoch"
    MEMBER = "member"
    TARGET = "target"
    CURRENT = "current assignment"
    REGEX = "regular expression"


M = TypeVar("M", bound=Message)
Change = tuple[Part, str]
KeyValue = tuple[bytes, bytes | None]


def key_of(group_id: str, change: Change) -> bytes:
    """The key under which this is written down."""
    part, name = change
    keys: dict[Part, Message] = {
        Part.EPOCH: group_metadata.ConsumerGroupMetadataKey(group_id=group_id),
        Part.ASSIGNMENT: assignment.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        Part.MEMBER: metadata.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name),
        Part.TARGET: target.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name),
        Part.CURRENT: current.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name),
        Part.REGEX: regular_expression.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=name),
    }
    return key_bytes(keys[part])


def tombstones(group_id: str, changes: Iterable[Change]) -> list[KeyValue]:
    """The end of all of these."""
    return [(key_of(group_id, change), None) for change in changes]


def epoch_value(epoch: int) -> bytes:
    """The group's epoch."""
    return value_bytes(group_metadata.ConsumerGroupMetadataValue(epoch=epoch), 0)


def assignment_value(epoch: int, time: int) -> bytes:
    """The epoch for which the targets were worked out, and when."""
    value = assignment.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=time)
    return value_bytes(value, 0)


def member_value(member: ConsumerMember) -> bytes:
    """What a member says of itself."""
    side = member.classic
    value = metadata.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id, rack_id=member.rack_id, client_id=member.client_id,
        client_host=member.client_host, subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex, rebalance_timeout_ms=member.rebalance_timeout,
        server_assignor=member.assignor, classic_member_metadata=None if side is None else metadata.ClassicMemberMetadata(
            session_timeout_ms=side.session_timeout,
            supported_protocols=[metadata.ClassicProtocol(name=name, metadata=raw) for name, raw in side.protocols],
        ),
    )  # fmt: skip
    return value_bytes(value, 0)


def target_value(partitions: Partitions) -> bytes:
    """What a member should have."""
    made = [target.TopicPartition(topic_id=topic, partitions=list(indexes)) for topic, indexes in partitions.items()]
    return value_bytes(target.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=made), 0)


def current_value(member: ConsumerMember) -> bytes:
    """What a member has, and what it was asked to give up."""
    value = current.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch,
        state=list(MemberState).index(member.state), assigned_partitions=_owned(member.assigned),
        partitions_pending_revocation=_owned(member.revoking),
    )  # fmt: skip
    return value_bytes(value, 0)


def _owned(owned: Owned) -> list[current.TopicPartitions]:
    return [
        current.TopicPartitions(topic_id=topic, partitions=list(held), assignment_epochs=list(held.values()))
        for topic, held in owned.items()
    ]


def regex_value(topics: Iterable[str], version: int, time: int) -> bytes:
    """Which topics a regular expression matched."""
    value = regular_expression.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=time)
    return value_bytes(value, 0)


# Reading back


@dataclass(slots=True)
class WrittenGroup:
    """A consumer group as it was last written down."""

    epoch: int | None = None
    assignment_epoch: int = 0
    assigned_at: int = 0
    members: dict[str, metadata.ConsumerGroupMemberMetadataValue] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    current: dict[str, current.ConsumerGroupCurrentMemberAssignmentValue] = field(default_factory=dict)
    regexes: dict[str, tuple[frozenset[str], int]] = field(default_factory=dict)
    """By regular expression: the topics it matched, and when (ms since the epoch)."""

    def replay(self, key: Message, value: Message | None) -> None:
        """The next record."""
        if isinstance(key, group_metadata.ConsumerGroupMetadataKey):
            self.epoch = value.epoch if isinstance(value, group_metadata.ConsumerGroupMetadataValue) else None
        elif isinstance(value, assignment.ConsumerGroupTargetAssignmentMetadataValue):
            self.assignment_epoch, self.assigned_at = value.assignment_epoch, value.assignment_timestamp
        elif isinstance(key, metadata.ConsumerGroupMemberMetadataKey):
            _put(self.members, key.member_id, value, metadata.ConsumerGroupMemberMetadataValue)
        elif isinstance(key, current.ConsumerGroupCurrentMemberAssignmentKey):
            _put(self.current, key.member_id, value, current.ConsumerGroupCurrentMemberAssignmentValue)
        elif isinstance(key, target.ConsumerGroupTargetAssignmentMemberKey):
            self.targets.pop(key.member_id, None)
            if isinstance(value, target.ConsumerGroupTargetAssignmentMemberValue):
                made = {each.topic_id: tuple(each.partitions) for each in value.topic_partitions}
                self.targets[key.member_id] = made
        elif isinstance(key, regular_expression.ConsumerGroupRegularExpressionKey):
            self.regexes.pop(key.regular_expression, None)
            if isinstance(value, regular_expression.ConsumerGroupRegularExpressionValue):
                self.regexes[key.regular_expression] = frozenset(value.topics), value.timestamp

    def as_members(self) -> Iterator[ConsumerMember]:
        """The members, in the order in which they were written down."""
        for member_id, said in self.members.items():
            yield _member(member_id, said, self.current.get(member_id))


def _put(held: dict[str, M], member_id: str, value: Message | None, kind: type[M]) -> None:
    if isinstance(value, kind):
        held[member_id] = value
    else:
        held.pop(member_id, None)


def _member(
    member_id: str, said: metadata.ConsumerGroupMemberMetadataValue,
    has: current.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerMember:  # fmt: skip
    side = said.classic_member_metadata
    member = ConsumerMember(
        member_id, instance_id=said.instance_id, rack_id=said.rack_id, rebalance_timeout=said.rebalance_timeout_ms,
        client_id=said.client_id, client_host=said.client_host, topics=frozenset(said.subscribed_topic_names),
        regex=said.subscribed_topic_regex or "", assignor=said.server_assignor,
        classic=None if side is None else ClassicSide(
            side.session_timeout_ms, tuple((each.name, each.metadata) for each in side.supported_protocols)
        ),
    )  # fmt: skip
    return member if has is None else member.with_assignment(
        has.member_epoch, has.previous_member_epoch, list(MemberState)[has.state],
        _read(has.assigned_partitions, has.member_epoch), _read(has.partitions_pending_revocation, has.member_epoch),
    )  # fmt: skip


def _read(partitions: Sequence[current.TopicPartitions], epoch: int) -> Mapping[bytes, Mapping[int, int]]:
    """Partitions and the epochs at which they were assigned; where those are not said, that of the member."""
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or [epoch] * len(each.partitions), strict=True))
        for each in partitions
    }
