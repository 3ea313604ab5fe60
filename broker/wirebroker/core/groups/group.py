"""The interface of all types of groups for the coordinator (Kafka's Group)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.core.groups.offsets import Committed


class Committer(NamedTuple):
    """The member that an OffsetCommit names. A client that is not a member sends the generation −1 and no ids."""

    member_id: str
    instance_id: str | None
    generation: int
    """The generation of a classic group, or the member's epoch."""

    @property
    def anonymous(self) -> bool:
        """Tells whether the commit names no member."""
        return self.generation < 0 and not self.member_id and self.instance_id is None


class Where(NamedTuple):
    """A partition of a commit; `topic` is None if the topic does not exist."""

    topic_id: bytes
    topic: str | None
    partition: int


class AnyGroup(ABC):
    """A group: classic, consumer, share or streams."""

    kind: ClassVar[str]
    """Kafka's name of the group's type."""
    expires: ClassVar[bool] = True
    """Tells whether the group is deleted when it has no members and loses its last offset."""
    group_id: str
    protocol_type: str | None
    """The members' protocol type; None for a classic group that never had a member."""
    members: Mapping[str, Any]
    """The members by their ids."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Kafka's name of the state."""

    @property
    @abstractmethod
    def generation_or_epoch(self) -> int:
        """The generation of a classic group, or the epoch of a group of another type. This number rises when members or
        subscriptions change."""

    @property
    def is_empty(self) -> bool:
        """Tells whether the group has no members. Then it may be deleted."""
        return not self.members

    @property
    def makes_way(self) -> bool:
        """Tells whether a new classic group may replace the group."""
        return self.is_empty

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """Returns the tombstones for all records of the group."""

    @abstractmethod
    def unload(self) -> None:
        """Stop the group's timers and answer its waiting requests, because the broker no longer coordinates the group."""

    @abstractmethod
    def die(self, now: int) -> None:
        """Stop the group's timers, because the group is deleted or replaced."""

    @abstractmethod
    def change_times(self, changed: Callable[[int], int]) -> None:
        """Replace each stored time (ms since the epoch), because the clock was moved."""

    @abstractmethod
    def subscribes(self, topic: str) -> bool:
        """Tells whether members subscribe to the topic."""

    @abstractmethod
    def commit_error(self, by: Committer, version: int | None, where: Iterable[Where], now: int) -> ErrorCode:
        """Returns the error if the client `by` must not commit offsets of these partitions, else NONE. `version` is the version
        of the OffsetCommit request, or None for a transactional commit.
        """

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Returns the error if a client must not see the group's offsets, else NONE."""
        return ErrorCode.NONE

    def deletion_error(self) -> ErrorCode:
        """Returns the error if offsets of the group must not be deleted, else NONE. The offsets of a subscribed topic must not
        be deleted. If the coordinator cannot read the members' subscriptions, every topic may be subscribed, so an error is
        returned."""
        return ErrorCode.NONE

    def kept_since(self, committed: Committed) -> int | None:
        """Returns the time at which the retention of an offset began, in ms since the epoch. Returns None if the offset cannot
        expire at present."""
        return committed.time
