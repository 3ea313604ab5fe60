"""The records of consumer, share and streams groups in __consumer_offsets, in Kafka's format (GroupCoordinatorRecordHelpers).

All three types of groups have five common kinds of records, and each type has further kinds. The record of a group's epoch has
a hash of the subscribed topics (`metadata_hash`). wirebroker does not read the hash, because its groups compare the topics
themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.declare import Message
from wirebroker.core.groups.modern_member import ModernMember

M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")


class ModernRecords(ABC, Generic[M, T]):
    """Writes and reads the records of one type of group."""

    metadata_key: ClassVar[type[Any]]
    current_key: ClassVar[type[Any]]
    target_key: ClassVar[type[Any]]
    target_value: ClassVar[type[Any]]
    partitions: ClassVar[type[Any]]
    """The class that holds a topic's partitions in a target assignment. For streams groups, it holds tasks instead."""
    epoch_key: ClassVar[type[Any]]
    assignment_key: ClassVar[type[Any]]
    assignment_value: ClassVar[type[Any]]
    group_keys: ClassVar[tuple[type[Any], ...]]
    """The keys of the records about the group itself, in the order in which their tombstones are written."""
    other_keys: ClassVar[tuple[type[Any], ...]] = ()
    """The keys of further records, whose tombstones are written separately."""

    @property
    def member_keys(self) -> tuple[type[Any], ...]:
        """The keys of the records about a member, in the order in which their tombstones are written."""
        return self.current_key, self.target_key, self.metadata_key

    @property
    def last_key(self) -> type[Any]:
        """The key of the last tombstone that is written when a group is deleted."""
        return self.group_keys[-1]

    # Writing

    def metadata(self, group_id: str, member: M) -> CoordinatorRecord:
        """Returns the record of the fields that a member has sent."""
        return CoordinatorRecord(self.metadata_key(group_id=group_id, member_id=member.member_id), self._metadata(member))

    def current(self, group_id: str, member: M) -> CoordinatorRecord:
        """Returns the record of a member's epochs and assignment."""
        return CoordinatorRecord(self.current_key(group_id=group_id, member_id=member.member_id), self._current(member))

    def target(self, group_id: str, member_id: str, target: T) -> CoordinatorRecord:
        """Returns the record of a member's target assignment."""
        return CoordinatorRecord(self.target_key(group_id=group_id, member_id=member_id), self._target(target))

    def assignment(self, group_id: str, epoch: int, now: int) -> CoordinatorRecord:
        """Returns the epoch and the time of a target assignment."""
        value = self.assignment_value(assignment_epoch=epoch, assignment_timestamp=now)
        return CoordinatorRecord(self.assignment_key(group_id=group_id), value)

    def epoch(self, group_id: str, value: Message) -> CoordinatorRecord:
        """Returns a group's epoch."""
        return CoordinatorRecord(self.epoch_key(group_id=group_id), value)

    def member_tombstones(self, group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """Returns the tombstones of members."""
        gone = list(member_ids)
        return [
            CoordinatorRecord(kind(group_id=group_id, member_id=member_id), None)
            for kind in self.member_keys
            for member_id in gone
        ]

    def group_tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Returns the tombstones of a group's own records."""
        return [CoordinatorRecord(kind(group_id=group_id), None) for kind in self.group_keys]

    @abstractmethod
    def _metadata(self, member: M) -> Message: ...

    @abstractmethod
    def _current(self, member: M) -> Message: ...

    def _target(self, target: Any) -> Message:
        held = [self.partitions(topic_id=topic, partitions=list(indexes)) for topic, indexes in target.items()]
        return self.target_value(topic_partitions=held)  # type: ignore[no-any-return]

    # Reading

    @abstractmethod
    def with_metadata(self, member: M, value: Any) -> M:
        """Returns the member with the fields that it has sent."""

    @abstractmethod
    def with_assignment(self, member: M, value: Any) -> M:
        """Returns the member with its epochs and assignment."""

    def read_target(self, value: Any) -> Any:
        """Returns the target assignment that a record has."""
        return {each.topic_id: tuple(each.partitions) for each in value.topic_partitions}
