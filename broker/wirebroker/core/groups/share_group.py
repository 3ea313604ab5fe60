"""One share group: its members, its target assignments, its share partitions that have a state, and its records (KIP-932).

This is Kafka's ShareGroup. The class holds the state; `share_heartbeats` computes the result of each request and stores it
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import share_group_current_member_assignment as current
from kafkawire.coordinator_records import share_group_member_metadata as metadata
from kafkawire.coordinator_records import share_group_metadata as group_metadata
from kafkawire.coordinator_records import share_group_state_partition_metadata as state
from kafkawire.coordinator_records import share_group_target_assignment_member as target
from kafkawire.coordinator_records import share_group_target_assignment_metadata as assignment
from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.common.slices import after
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.group import Committer, Where
from wirebroker.core.groups.modern import EMPTY, STABLE, ModernGroup, ModernMember
from wirebroker.core.groups.modern_log import Format, OfGroup, OfMember, target_of_partitions
from wirebroker.core.groups.simple_assignor import Partitions

SHARE = "share"
NOTHING: Partitions = {}


class ShareMember(ModernMember, frozen=True):
    topics: frozenset[str] = frozenset()
    assigned: Partitions = {}


class Prepared(NamedTuple):
    """Share partitions of one topic. The initialization of their states has begun, or is complete; it began at `time` (ms since
    the epoch)."""

    name: str
    partitions: frozenset[int]
    time: int


class Preparation(Struct, frozen=True):
    """The topics of a share group, by topic id. The states of a topic's share partitions are being initialized, are
    initialized, or are being deleted."""

    initializing: Mapping[bytes, Prepared] = {}
    initialized: Mapping[bytes, Prepared] = {}
    deleting: Mapping[bytes, str] = {}

    @property
    def by_state(self) -> tuple[Mapping[bytes, Any], ...]:
        """The three mappings, in the order of the fields."""
        return self.initializing, self.initialized, self.deleting


# Records


def _metadata(member: ShareMember) -> Message:
    return metadata.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id, client_id=member.client_id, client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )  # fmt: skip


def _with_metadata(member: ShareMember, value: metadata.ShareGroupMemberMetadataValue) -> ShareMember:
    return replace(
        member, rack_id=value.rack_id, client_id=value.client_id, client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
    )  # fmt: skip


def _current(member: ShareMember) -> Message:
    held = [current.TopicPartitions(topic_id=topic, partitions=list(each)) for topic, each in member.assigned.items()]
    return current.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=0, assigned_partitions=held
    )


def _with_current(member: ShareMember, value: current.ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    assigned = {each.topic_id: tuple(each.partitions) for each in value.assigned_partitions}
    return replace(member, epoch=value.member_epoch, previous_epoch=value.previous_member_epoch, assigned=assigned)


def preparation_records(group_id: str, held: Preparation) -> Iterator[CoordinatorRecord | None]:
    """Yields None after each slice, and at the end the record of all share partitions that have a state."""
    initializing = _infos(held.initializing)
    yield from after(initializing)
    initialized = _infos(held.initialized)
    yield from after(initialized)
    value = state.ShareGroupStatePartitionMetadataValue(
        initializing_topics=initializing, initialized_topics=initialized,
        deleting_topics=[state.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in held.deleting.items()],
    )  # fmt: skip
    yield CoordinatorRecord(_STATE_KEY(group_id=group_id), value)


def _infos(topics: Mapping[bytes, Prepared]) -> list[state.TopicPartitionsInfo]:
    return [
        state.TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=sorted(each.partitions))
        for topic_id, each in topics.items()
    ]


def _prepared(topics: Iterable[state.TopicPartitionsInfo]) -> dict[bytes, Prepared]:
    return {each.topic_id: Prepared(each.topic_name, frozenset(each.partitions), 0) for each in topics}


_STATE_KEY = state.ShareGroupStatePartitionMetadataKey
_EPOCH = OfGroup(group_metadata.ShareGroupMetadataKey, group_metadata.ShareGroupMetadataValue)
_ASSIGNMENT = OfGroup(assignment.ShareGroupTargetAssignmentMetadataKey, assignment.ShareGroupTargetAssignmentMetadataValue)
FORMAT = Format(
    metadata=OfMember(metadata.ShareGroupMemberMetadataKey, _metadata, _with_metadata),
    current=OfMember(current.ShareGroupCurrentMemberAssignmentKey, _current, _with_current),
    target=target_of_partitions(
        target.ShareGroupTargetAssignmentMemberKey, target.ShareGroupTargetAssignmentMemberValue, target.TopicPartition
    ),
    epoch=_EPOCH,
    assignment=_ASSIGNMENT,
    group_keys=(_ASSIGNMENT.key, _STATE_KEY, _EPOCH.key),
)


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """A share group. Share groups have no committed offsets."""

    kind = SHARE
    expires = False
    form = FORMAT
    member_class = ShareMember
    nothing = NOTHING
    makes_way = False

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.preparation: Preparation | None = None

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    def change_times(self, changed: Callable[[int], int]) -> None:
        super().change_times(changed)
        if self.preparation is not None:
            begun = self.preparation.initializing.items()
            moved = {topic_id: each._replace(time=changed(each.time)) for topic_id, each in begun}
            self.preparation = replace(self.preparation, initializing=moved)

    def subscriptions(self, changed: ShareMember | None = None, without: Iterable[str] = ()) -> Counter[str]:
        """Returns the number of subscribers of each topic. In this count, `changed` replaces the member with the same id, and
        the members in `without` are left out."""
        members = {member_id: each for member_id, each in self.members.items() if member_id not in without}
        if changed is not None:
            members[changed.member_id] = changed
        return Counter(topic for member in members.values() for topic in member.topics)

    def topics(self) -> Iterable[str]:
        return self.subscriptions()

    def subscribes(self, topic: str) -> bool:
        """Returns False: a subscription matters only for committed offsets, and share groups have no committed offsets."""
        return False

    def commit_error(self, by: Committer, version: int | None, where: Iterable[Where], now: int) -> ErrorCode:
        """Returns an error, because no client may commit offsets for a share group."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Returns no error: any client may see that a share group has no offsets."""
        return ErrorCode.NONE

    def deletion_error(self) -> ErrorCode:
        """Returns an error, because a share group has no offsets to delete."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def replay_other(self, key: Message, value: Any) -> None:
        """Apply the record that lists the share partitions that have a state."""
        if isinstance(key, _STATE_KEY) and value is not None:
            deleting = {each.topic_id: each.topic_name for each in value.deleting_topics}
            initializing, initialized = _prepared(value.initializing_topics), _prepared(value.initialized_topics)
            self.preparation = Preparation(initializing, initialized, deleting)
