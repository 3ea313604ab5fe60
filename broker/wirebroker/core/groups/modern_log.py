"""The records of consumer, share and streams groups in __consumer_offsets, in Kafka's format (GroupCoordinatorRecordHelpers).

All three types of groups have five common kinds of records, and each type has further kinds. A `Format` lists the kinds of one
type. The record of a group's epoch has a hash of the subscribed topics (`metadata_hash`). When a group is loaded, this hash
shows whether the topics have changed since the record was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.declare import Message


class OfMember(NamedTuple):
    """A kind of record about one member: the class of its key, and the functions that make and read its value."""

    key: type[Any]
    write: Callable[[Any], Message]
    read: Callable[..., Any]


class OfGroup(NamedTuple):
    """A kind of record about the group itself: the classes of its key and of its value."""

    key: type[Any]
    value: Callable[..., Message]


class Format(NamedTuple):
    """The kinds of records of one type of group."""

    metadata: OfMember
    """The kind of record with the fields that a member has sent. `read(member, value)` puts these fields into the member."""
    current: OfMember
    """The kind of record with a member's epochs and assignment. `read(member, value)` puts these into the member, too."""
    target: OfMember
    """The kind of record with a member's target assignment. `read(value)` returns the target assignment."""
    epoch: OfGroup
    assignment: OfGroup
    """The kind of record with the epoch and the time of the target assignment."""
    group_keys: tuple[type[Any], ...]
    """The keys of the records about the group itself, in the order of the tombstones in the log."""
    other_keys: tuple[type[Any], ...] = ()
    """The keys of further records, whose tombstones are written separately."""

    @property
    def member_keys(self) -> tuple[type[Any], ...]:
        """The keys of the records about a member, in the order of the tombstones in the log."""
        return self.current.key, self.target.key, self.metadata.key

    @property
    def last_key(self) -> type[Any]:
        """The key of the last tombstone that is written when a group is deleted."""
        return self.group_keys[-1]


def target_of_partitions(key: type[Any], value: Callable[..., Message], partitions: Callable[..., Any]) -> OfMember:
    """Returns the kind of record for a target assignment of partitions. `partitions` is the class for one topic's
    partitions."""

    def write(target: Any) -> Message:
        return value(topic_partitions=[partitions(topic_id=topic, partitions=list(held)) for topic, held in target.items()])

    return OfMember(key, write, lambda read: {each.topic_id: tuple(each.partitions) for each in read.topic_partitions})


class GroupRecords:
    def __init__(self, group_id: str, form: Format) -> None:
        self.form = form
        self._group_id = group_id

    def metadata(self, member: Any) -> CoordinatorRecord:
        """Returns the record of the fields that a member has sent."""
        return self._of_member(self.form.metadata, member.member_id, member)

    def current(self, member: Any) -> CoordinatorRecord:
        """Returns the record of a member's epochs and assignment."""
        return self._of_member(self.form.current, member.member_id, member)

    def target(self, member_id: str, target: Any) -> CoordinatorRecord:
        """Returns the record of a member's target assignment."""
        return self._of_member(self.form.target, member_id, target)

    def epoch(self, epoch: int, hashed: int, **more: Any) -> CoordinatorRecord:
        """Returns the record of the group's epoch, with the hash of its topics and the fields that only this type of group
        has."""
        kind = self.form.epoch
        return CoordinatorRecord(kind.key(group_id=self._group_id), kind.value(epoch=epoch, metadata_hash=hashed, **more))

    def assignment(self, epoch: int, now: int) -> CoordinatorRecord:
        """Returns the record of the epoch and the time of a target assignment."""
        kind = self.form.assignment
        value = kind.value(assignment_epoch=epoch, assignment_timestamp=now)
        return CoordinatorRecord(kind.key(group_id=self._group_id), value)

    def member_tombstones(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        gone = list(member_ids)
        return [
            CoordinatorRecord(key(group_id=self._group_id, member_id=member_id), None)
            for key in self.form.member_keys
            for member_id in gone
        ]

    def group_tombstones(self) -> list[CoordinatorRecord]:
        """Returns the tombstones of the group's own records."""
        return [CoordinatorRecord(key(group_id=self._group_id), None) for key in self.form.group_keys]

    def _of_member(self, kind: OfMember, member_id: str, held: Any) -> CoordinatorRecord:
        return CoordinatorRecord(kind.key(group_id=self._group_id, member_id=member_id), kind.write(held))
