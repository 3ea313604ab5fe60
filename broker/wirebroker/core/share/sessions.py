"""Share sessions: a broker remembers the partitions that a member of a share group fetches (Kafka's ShareSessionCache).

Each session belongs to one member. The session ends when the member sends a final request, or when the connection on which it
began is closed. The broker then releases all records that the member has acquired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from kafkawire.errors import ErrorCode

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
LARGEST_EPOCH = 2**31 - 1
Place = tuple[bytes, int]
"""The topic id and the partition number."""
MemberKey = tuple[int, str, str]
"""The broker's id, the group id and the member id."""


class Wanted(NamedTuple):
    """A partition that a request names; `topic` is None for an unknown topic id."""

    topic: str | None
    place: Place


class Cached(Struct):
    """A partition of a share session. If `shown` is set, the next response names the partition even if it has no records to
    return."""

    topic: str | None
    shown: bool


class ShareSession(Struct):
    """A member's share session: the partitions that the member fetches, in order. The member's next request must have the
    session epoch `epoch`."""

    key: MemberKey
    connection: int
    epoch: int = 1
    partitions: dict[Place, Cached] = {}

    def wanted(self) -> list[Wanted]:
        """Returns the partitions in order."""
        return [Wanted(cached.topic, place) for place, cached in self.partitions.items()]

    def add(self, wanted: Wanted, *, shown: bool = True) -> None:
        """Add a partition to the session. If `shown` is set, the next response names the partition even if it has no records to
        return."""
        self.partitions.setdefault(wanted.place, Cached(wanted.topic, shown))

    def forget(self, forgotten: Iterable[Place]) -> None:
        """Remove the partitions in `forgotten` from the session."""
        for place in forgotten:
            self.partitions.pop(place, None)

    def names(self, place: Place, error: int, has_records: bool) -> bool:
        """Tells whether the response names the partition. `error` is the partition's error, and `has_records` tells whether the
        partition has records to return."""
        cached = self.partitions.get(place)
        return cached is not None and (cached.shown or has_records or bool(error))

    def responded(self, place: Place, error: int, has_records: bool) -> None:
        """Register the partition's result in a response: the error, and whether the response has records."""
        cached = self.partitions.get(place)
        if cached is not None:
            cached.shown = bool(error)
            if has_records:  # the partition becomes the last partition of the session
                self.partitions[place] = self.partitions.pop(place)

    def advance(self) -> None:
        """Increase the epoch that the next request must have."""
        self.epoch = 1 if self.epoch == LARGEST_EPOCH else self.epoch + 1


class Ended(NamedTuple):
    """What has ended because a connection was closed. `session` is the share session on the connection, or None if it had ended
    before. `last_of_group` tells whether the group has no further session on the broker."""

    session: ShareSession | None
    node_id: int
    group_id: str
    last_of_group: bool


class _Began(Struct):
    """The member that was the last to begin a session on a connection. If `stale` is set, this session has ended."""

    key: MemberKey
    stale: bool = False


class ShareSessions:
    def __init__(self) -> None:
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._connections: dict[int, _Began] = {}
        self._members: Counter[tuple[int, str]] = Counter()
        """The number of members with a session, for each broker and group."""

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(list(self._sessions.values()))

    def clear(self) -> None:
        """Forget all sessions, because the brokers restart."""
        self._sessions.clear()
        self._connections.clear()
        self._members.clear()

    def clear_at(self, node_id: int) -> None:
        """Forget the sessions of one broker."""
        for key in [key for key in self._sessions if key[0] == node_id]:
            self.remove(key)

    def get(self, key: MemberKey) -> ShareSession | None:
        return self._sessions.get(key)

    def count(self, node_id: int) -> int:
        """Returns the number of sessions at a broker."""
        return sum(number for (node, _), number in self._members.items() if node == node_id)

    def of_group(self, node_id: int, group_id: str) -> int:
        """Returns the number of a group's sessions at a broker."""
        return self._members.get((node_id, group_id), 0)

    def enter(self, session: ShareSession) -> None:
        """Begin a member's session. The caller must have removed the member's earlier session."""
        self._sessions[session.key] = session
        self._members[session.key[:2]] += 1
        self._connections[session.connection] = _Began(session.key)

    def remove(self, key: MemberKey) -> ShareSession | None:
        """End a member's session. Returns None if the member has no session."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._members[key[:2]] -= 1
            began = self._connections.get(session.connection)
            if began is not None:
                began.stale = True
        return session

    def check(self, key: MemberKey, epoch: int) -> ShareSession | ErrorCode:
        """Returns the session of a request, or the error if `epoch` (the request's session epoch) is wrong. If `epoch` is
        right, increases the epoch that the next request must have. `epoch` must not be the initial epoch."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.advance()
        return session

    def disconnected(self, connection: int) -> Ended | None:
        """Handle the close of a connection. Returns None if the connection never began a session."""
        began = self._connections.pop(connection, None)
        if began is None:
            return None
        session = None if began.stale else self._sessions.get(began.key)
        if session is not None:
            self.remove(began.key)
        node_id, group_id, _ = began.key
        last = self._members[node_id, group_id] == 0
        if last:
            del self._members[node_id, group_id]
        return Ended(session, node_id, group_id, last)
