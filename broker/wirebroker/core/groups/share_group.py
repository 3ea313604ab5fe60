"""One share group: its members, its epochs, its target assignment, and which partitions have a state (Kafka's ShareGroup)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.simple_assignor import Partitions
from wirebroker.core.groups.timed import TimedGroup

SHARE = "share"
EMPTY, STABLE = "Empty", "Stable"
FIRST_EPOCH = 1
NOTHING: Partitions = {}


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group. It never changes; the group replaces it."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)


class Prepared(NamedTuple):
    """Partitions of a topic whose state is or will be initialized, since `time` (ms since the epoch)."""

    name: str
    partitions: frozenset[int]
    time: int


@dataclass(frozen=True, slots=True)
class Preparation:
    """The topics of a group by their ids: those being initialized, those with a state, those whose state is being deleted."""

    initializing: Mapping[bytes, Prepared] = field(default_factory=dict)
    initialized: Mapping[bytes, Prepared] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def by_state(self) -> tuple[Mapping[bytes, Any], ...]:
        """The three, in the order of the fields."""
        return self.initializing, self.initialized, self.deleting


class ShareGroup(TimedGroup):
    """A share group."""

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at = 0
        """The time of the last assignment, in ms since the epoch; 0 if there was none."""
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.facts: Mapping[str, tuple[bytes, int]] = {}
        """The ids and numbers of partitions of the subscribed topics when the epoch last rose (Kafka keeps a hash)."""
        self.preparation: Preparation | None = None

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return STABLE if self.members else EMPTY

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms`: what is being initialized is tried again when it would have been."""
        if self.preparation is not None:
            begun = self.preparation.initializing.items()
            moved = {topic_id: each._replace(time=each.time + ms) for topic_id, each in begun}
            self.preparation = replace(self.preparation, initializing=moved)

    def subscriptions(self, changed: ShareMember | None = None, without: str = "") -> Counter[str]:
        """The number of subscribers of each topic, with another version of a member or without one."""
        members = {member_id: each for member_id, each in self.members.items() if member_id != without}
        if changed is not None:
            members[changed.member_id] = changed
        return Counter(topic for member in members.values() for topic in member.topics)
