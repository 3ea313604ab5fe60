"""Incremental fetch sessions (KIP-227): the broker remembers a consumer's partitions and answers only with news.

A session belongs to the broker, not to a connection. `open` decides which partitions a request is about;
`FetchContext.answer` decides which of them the response names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchPartition, FetchRequest, PartitionData
from wirebroker.slices import pauses

SLOTS = 1000
"""The largest number of sessions that a broker keeps, by default (max.incremental.fetch.session.cache.slots)."""
KEPT_MS = 120_000
"""Milliseconds after its last use until another session may evict a session (min.incremental.fetch.session.eviction.ms).

A larger session may also evict one that was still in use at that age.
"""
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
LARGEST_EPOCH = 2**31 - 1

TopicKey = str | bytes
PartitionKey = tuple[TopicKey, int]
Results = list[tuple[PartitionKey, PartitionData]]
Requested = dict[PartitionKey, FetchPartition]


@dataclass(slots=True)
class Cached:
    """One partition of a session, as last requested and as last answered."""

    requested: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class Session:
    """A remembered fetch. `epoch` is the one that the next request must carry."""

    session_id: int
    by_topic_id: bool
    used: int
    """when it was last used, in ms since the epoch"""
    created: int
    """when it was made, in ms since the epoch"""
    epoch: int = 1
    partitions: dict[PartitionKey, Cached] = field(default_factory=dict)


@dataclass(slots=True)
class FetchContext:
    """The partitions of one Fetch request, in the order in which they are served."""

    partitions: list[tuple[PartitionKey, FetchPartition]]
    session: Session | None = None
    incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    def answer(self, results: Results) -> Generator[None, Any, Results]:
        """The results that the response names, in slices: all in a full fetch, the changed ones in an incremental one."""
        if self.session is None:
            return results
        pause = pauses()
        named = []
        for key, data in results:
            if pause():
                yield
            cached = self.session.partitions.get(key)
            if cached is None:
                continue
            changed = (
                bool(data.error_code)
                or bool(data.records)
                or data.high_watermark != cached.high_watermark
                or data.log_start_offset != cached.log_start_offset
                or data.diverging_epoch.epoch >= 0
                or data.preferred_read_replica >= 0
            )
            cached.high_watermark = -1 if data.error_code else data.high_watermark
            cached.log_start_offset = data.log_start_offset
            if changed or not self.incremental:
                named.append((key, data))
            if data.records and self.incremental and key in self.session.partitions:  # it goes to the end of the line
                self.session.partitions[key] = self.session.partitions.pop(key)
        return named


class FetchSessions:
    """All sessions of the cluster's brokers, each of which keeps at most `slots` (FetchSessionCacheShard)."""

    def __init__(self, random_bytes: Callable[[int], bytes], slots: int = SLOTS) -> None:
        self._random_bytes = random_bytes
        self._slots = slots
        self._sessions: dict[tuple[int, int], Session] = {}

    def clear(self) -> None:
        """Forget all sessions, as a restarted broker does."""
        self._sessions.clear()

    def clear_at(self, node_id: int) -> None:
        """Forget the sessions of one broker."""
        self._sessions = {key: session for key, session in self._sessions.items() if key[0] != node_id}

    def held(self, request: FetchRequest, node_id: int) -> list[PartitionKey]:
        """The partitions that an incremental request fetches besides those it names; empty if the session is unknown."""
        session = self._sessions.get((node_id, request.session_id))
        if session is None or session.epoch != request.session_epoch:
            return []
        forgotten = set(_forgotten(request, session))
        return [key for key in session.partitions if key not in forgotten]

    def size(self, request: FetchRequest, node_id: int) -> int:
        """The approximate number of partitions that the request fetches."""
        session = self._sessions.get((node_id, request.session_id))
        held = 0 if session is None else len(session.partitions)
        return held + len(request.topics) + sum(len(topic.partitions) for topic in request.topics)

    def open(self, request: FetchRequest, version: int, node_id: int, now: int) -> Generator[None, Any, FetchContext]:
        """Find the request's partitions, in slices; `error` is set if its session cannot continue. `now` is in ms since the
        epoch.
        """
        by_topic_id = version >= 13
        requested = yield from _named(request, by_topic_id)
        if version < 7 or request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop((node_id, request.session_id), None)
            if version < 7 or request.session_epoch == FINAL_EPOCH or not requested:
                return FetchContext(list(requested.items()))
            session = yield from self._create(requested, node_id, by_topic_id, now)
            return FetchContext(list(requested.items()), session)
        session = self._sessions.get((node_id, request.session_id))
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.used = now
        return (yield from self._resume(session, requested, request, node_id))

    def _create(self, requested: Requested, node_id: int, by_topic_id: bool, now: int) -> Generator[None, Any, Session | None]:
        """A new session; None if there is no room, and the client then fetches without a session."""
        if not self._has_room(len(requested), node_id, now):
            return None
        session_id = 0
        while session_id == 0 or (node_id, session_id) in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4), "big") & 0x7FFFFFFF
        session = Session(session_id, by_topic_id, now, now)
        self._sessions[node_id, session_id] = session
        pause = pauses()
        for key, partition in requested.items():
            if pause():
                yield
            session.partitions[key] = Cached(partition)
        return session

    def _has_room(self, size: int, node_id: int, now: int) -> bool:
        """Whether this broker has room for a session of so many partitions; evicts another session if necessary."""
        if len(self._sessions) < self._slots:
            return True
        held = [(key, session) for key, session in self._sessions.items() if key[0] == node_id]
        if len(held) < self._slots:
            return True
        if not held:
            return False
        gone, oldest = held[0]
        if now - oldest.used <= KEPT_MS:
            lasting = [(len(each.partitions), key) for key, each in held if each.used - each.created > KEPT_MS]
            smallest, gone = min(lasting, default=(size, gone))
            if smallest >= size:
                return False
        del self._sessions[gone]
        return True

    def _resume(
        self, session: Session, requested: Requested, request: FetchRequest, node_id: int
    ) -> Generator[None, Any, FetchContext]:
        # No other request can use the session between the slices: it already has its next epoch.
        session.epoch = 1 if session.epoch == LARGEST_EPOCH else session.epoch + 1
        pause = pauses()
        for key, partition in requested.items():
            if pause():
                yield
            if key in session.partitions:
                session.partitions[key].requested = partition
            else:
                session.partitions[key] = Cached(partition)
        for key in _forgotten(request, session):
            if pause():
                yield
            session.partitions.pop(key, None)
        place = (node_id, session.session_id)
        known = self._sessions.pop(place, None)
        if not session.partitions:
            # without a session, although the request has just removed a partition that it names
            return FetchContext(list(requested.items()))
        if known is not None:
            self._sessions[place] = known  # used last
        everything = [(key, cached.requested) for key, cached in session.partitions.items()]
        return FetchContext(everything, session, incremental=True)


def _named(request: FetchRequest, by_topic_id: bool) -> Generator[None, Any, Requested]:
    """The partitions that the request names. As in FetchRequest.fetchData, a partition named twice keeps its first place and
    has the fields of its last mention.
    """
    pause = pauses()
    requested: Requested = {}
    for topic in request.topics:
        if pause():
            yield
        name = topic.topic_id if by_topic_id else topic.topic
        for partition in topic.partitions:
            if pause():
                yield
            requested[name, partition.partition] = partition
    return requested


def _forgotten(request: FetchRequest, session: Session) -> Iterator[PartitionKey]:
    """The partitions that a request removes from its session."""
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            yield (forgotten.topic_id if session.by_topic_id else forgotten.topic), index
