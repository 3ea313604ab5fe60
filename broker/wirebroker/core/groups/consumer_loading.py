"""Loading consumer groups (KIP-848) from their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kafkawire.coordinator_records import consumer_group_current_member_assignment as current
from kafkawire.coordinator_records import consumer_group_member_metadata as metadata
from kafkawire.coordinator_records import consumer_group_metadata as group_metadata
from kafkawire.coordinator_records import consumer_group_regular_expression as regular_expression
from kafkawire.coordinator_records import consumer_group_target_assignment_member as target
from kafkawire.coordinator_records import consumer_group_target_assignment_metadata as assignment
from kafkawire.declare import Message
from wirebroker.core.groups.assignors import Partitions
from wirebroker.core.groups.consumer_log import STATES
from wirebroker.core.groups.members import ClassicSide, ConsumerMember

M = TypeVar("M", bound=Message)
STATE_OF = {number: state for state, number in STATES.items()}


@dataclass(slots=True)
class WrittenGroup:
    """A consumer group as its records describe it."""

    epoch: int | None = None
    assignment_epoch: int = 0
    assigned_at: int = 0
    members: dict[str, metadata.ConsumerGroupMemberMetadataValue] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    current: dict[str, current.ConsumerGroupCurrentMemberAssignmentValue] = field(default_factory=dict)
    regexes: dict[str, tuple[frozenset[str], int]] = field(default_factory=dict)
    """For each regular expression: the topics that match it, and the time of matching (ms since the epoch)."""

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
        """The members, in the order of their records."""
        for member_id, record in self.members.items():
            yield _member(member_id, record, self.current.get(member_id))


def _put(held: dict[str, M], member_id: str, value: Message | None, kind: type[M]) -> None:
    if isinstance(value, kind):
        held[member_id] = value
    else:
        held.pop(member_id, None)


def _member(
    member_id: str, record: metadata.ConsumerGroupMemberMetadataValue,
    has: current.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerMember:  # fmt: skip
    side = record.classic_member_metadata
    member = ConsumerMember(
        member_id, instance_id=record.instance_id, rack_id=record.rack_id, rebalance_timeout=record.rebalance_timeout_ms,
        client_id=record.client_id, client_host=record.client_host, topics=frozenset(record.subscribed_topic_names),
        regex=record.subscribed_topic_regex or "", assignor=record.server_assignor,
        classic=None if side is None else ClassicSide(
            side.session_timeout_ms, tuple((each.name, each.metadata) for each in side.supported_protocols)
        ),
    )  # fmt: skip
    return member if has is None else member.with_assignment(
        has.member_epoch, has.previous_member_epoch, STATE_OF[has.state],
        _read(has.assigned_partitions, has.member_epoch), _read(has.partitions_pending_revocation, has.member_epoch),
    )  # fmt: skip


def _read(partitions: Sequence[current.TopicPartitions], epoch: int) -> Mapping[bytes, Mapping[int, int]]:
    """Partitions and the epochs at which they were assigned; without these, the member's epoch."""
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or [epoch] * len(each.partitions), strict=True))
        for each in partitions
    }
