"""One share group: its members, its target assignments, and its share partitions that have a state (Kafka's ShareGroup)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.group import Committer, Where
from wirebroker.core.groups.modern import EMPTY, STABLE, ModernGroup
from wirebroker.core.groups.share_log import ShareRecords
from wirebroker.core.groups.share_member import Preparation, ShareMember
from wirebroker.core.groups.simple_assignor import Partitions

SHARE = "share"
NOTHING: Partitions = {}


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """A share group. Share groups have no committed offsets."""

    kind = SHARE
    expires = False
    log = ShareRecords()
    member_class = ShareMember
    nothing = NOTHING
    makes_way = False

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.preparation: Preparation | None = None

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return STABLE if self.members else EMPTY

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms`. Move all stored times by `ms`, so that the time until an initialization is tried again
        stays the same."""
        super().move_time(ms)
        if self.preparation is not None:
            begun = self.preparation.initializing.items()
            moved = {topic_id: each._replace(time=each.time + ms) for topic_id, each in begun}
            self.preparation = replace(self.preparation, initializing=moved)

    def subscriptions(self, changed: ShareMember | None = None, without: Iterable[str] = ()) -> Counter[str]:
        """Returns the number of subscribers of each topic after the member `changed` is replaced, or after the members
        `without` are removed."""
        members = {member_id: each for member_id, each in self.members.items() if member_id not in without}
        if changed is not None:
            members[changed.member_id] = changed
        return Counter(topic for member in members.values() for topic in member.topics)

    def subscribes(self, topic: str) -> bool:
        """Returns False: a subscription matters only for committed offsets, and share groups have none."""
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
        if isinstance(key, self.log.state_key) and value is not None:
            self.preparation = self.log.read_preparation(value)
