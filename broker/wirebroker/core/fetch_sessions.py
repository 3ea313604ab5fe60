"""Incremental fetch sessions (KIP-227): the broker remembers a consumer's partitions, and its responses contain only partitions
that have changed.

A session belongs to the broker, not to a connection. `FetchSessions.open` returns the partitions that a request fetches.
`FetchContext.response` chooses the partitions in the response.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from copy import copy
from functools import partial
from typing import Any

from msgspec import Struct

from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchPartition, FetchRequest, PartitionData
from wirebroker.common.slices import sliced
from wirebroker.core.releases.changes import since

KEEPS_FETCH_EPOCHS = since("2.5", "a fetch session remembers the leader epoch that a request names")

KEPT_MS = 120_000
"""A session that was not used for this time in ms may be evicted for a new session (min.incremental.fetch.session.eviction.ms).

A new session with more partitions may also evict a session that is in use, but is older than this time.
"""
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_EPOCH = -1
"""The leader epoch in a request that names no leader epoch."""
LARGEST_EPOCH = 2**31 - 1
BY_TOPIC_ID_SINCE = 13

TopicKey = str | bytes
PartitionKey = tuple[TopicKey, int]
Results = list[tuple[PartitionKey, PartitionData]]
Named = tuple[PartitionKey, FetchPartition]
Requested = dict[PartitionKey, FetchPartition]


class Cached(Struct):
    """One partition of a session, with the fields that the last request and the last response had for the partition."""

    requested: FetchPartition
    topic: str | None
    """The topic's name when the partition was added; None if the broker did not know the topic id."""
    high_watermark: int = -1
    log_start_offset: int = -1


Kept = dict[PartitionKey, tuple[Cached, int, int]]
"""The partitions of a session before a response, each with its high watermark and log start offset."""


class Session(Struct):
    """A fetch session. `epoch` is the session epoch that the next request must have."""

    session_id: int
    by_topic_id: bool
    used: int
    """the time of the session's last use, in ms since the epoch"""
    created: int
    """the time at which the session was made, in ms since the epoch"""
    epoch: int = 1
    partitions: dict[PartitionKey, Cached] = {}
    keeps_epochs: bool = True
    """Tells whether the session remembers the leader epoch that a request names (`KEEPS_FETCH_EPOCHS`)."""

    def hold(self, name_of: Callable[[TopicKey], str | None], named: Iterable[Named]) -> None:
        """Add these partitions to the session, or update the fields with which they are fetched."""
        for key, partition in named:
            if not self.keeps_epochs:
                partition = copy(partition)
                partition.current_leader_epoch = NO_EPOCH
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = Cached(partition, name_of(key[0]))
            else:
                cached.requested = partition

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            self.partitions.pop(key, None)


class FetchContext(Struct):
    """The partitions of one Fetch request, in the order in which they are served."""

    partitions: list[Named]
    session: Session | None = None
    incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    def topic_of(self, key: PartitionKey) -> str | None:
        """Returns the name that the partition's topic had when the partition was added to the session."""
        cached = self.session.partitions.get(key) if self.session is not None else None
        return cached.topic if cached is not None else None

    def response(self, results: Results) -> Results:
        """Returns the results that the response contains: all results of a full fetch, but only the changed results of an
        incremental fetch."""
        if self.session is None:
            return results
        named = []
        for key, data in results:
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
            if data.records and self.incremental and key in self.session.partitions:  # move the partition to the end
                self.session.partitions[key] = self.session.partitions.pop(key)
        return named

    def kept(self) -> Kept:
        """Returns a copy of the session's partitions before a response, for `FetchSessions.restore`."""
        held = self.session.partitions if self.session is not None else {}
        return {key: (cached, cached.high_watermark, cached.log_start_offset) for key, cached in held.items()}


class FetchSessions:
    """All sessions of the cluster's brokers. Each broker keeps at most `slots` sessions (FetchSessionCacheShard)."""

    def __init__(
        self, random_bytes: Callable[[int], bytes], slots: int, keeps_epochs: Callable[[], bool],
        name_of: Callable[[bytes], str | None],
    ) -> None:  # fmt: skip
        """`keeps_epochs` tells whether new sessions remember the leader epochs that a request names. `name_of` returns the
        topic name for a topic id."""
        self._random_bytes, self._keeps_epochs, self._name_of_id = random_bytes, keeps_epochs, name_of
        self._slots = slots
        self._sessions: dict[tuple[int, int], Session] = {}

    def clear(self) -> None:
        """Forget all sessions, as a restarted broker does."""
        self._sessions.clear()

    def clear_at(self, node_id: int) -> None:
        """Forget the sessions of one broker."""
        self._sessions = {key: session for key, session in self._sessions.items() if key[0] != node_id}

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms` (negative if it was moved back). Move the times of all sessions by `ms`."""
        for session in self._sessions.values():
            session.used += ms
            session.created += ms

    def restore(self, context: FetchContext, kept: Kept, node_id: int) -> None:
        """Undo a request whose response was not sent: restore the session, or remove the session if this request created it."""
        session = context.session
        if session is None:
            return
        if not context.incremental:
            self._sessions.pop((node_id, session.session_id), None)
        session.partitions = {key: cached for key, (cached, _, _) in kept.items()}
        for cached, high_watermark, log_start_offset in kept.values():
            cached.high_watermark, cached.log_start_offset = high_watermark, log_start_offset

    def held(self, request: FetchRequest, node_id: int) -> list[PartitionKey]:
        """Returns the partitions that an incremental request fetches but does not name; empty if the session is unknown."""
        session = self._sessions.get((node_id, request.session_id))
        if session is None or session.epoch != request.session_epoch:
            return []
        forgotten = set(_forgotten(request, session))
        return [key for key in session.partitions if key not in forgotten]

    def open(self, request: FetchRequest, version: int, node_id: int, now: int) -> FetchContext:
        """Find the partitions that a request fetches. The result has an `error` if the session cannot continue. `now` is in ms
        since the epoch."""
        requested = dict(_named(request, version))
        context = self._find(request, requested, version, node_id, now)
        if context.session is not None:
            if requested:
                context.session.hold(self._name_of, requested.items())
            if context.incremental:
                if request.forgotten_topics_data:
                    context.session.drop(_forgotten(request, context.session))
                self._resume(context, context.session, node_id)
        return context

    def open_in_slices(self, request: FetchRequest, version: int, node_id: int, now: int) -> Generator[None, Any, FetchContext]:
        """Like `open`, in slices. No other request can use the session between slices, because the session already expects the
        next epoch."""
        requested: Requested = {}
        yield from sliced(requested.update, _named(request, version))
        context = self._find(request, requested, version, node_id, now)
        if context.session is not None:
            yield from sliced(partial(context.session.hold, self._name_of), requested.items())
            if context.incremental:
                yield from sliced(context.session.drop, _forgotten(request, context.session))
                self._resume(context, context.session, node_id)
        return context

    def _name_of(self, topic: TopicKey) -> str | None:
        return topic if isinstance(topic, str) else self._name_of_id(topic)

    def _find(self, request: FetchRequest, requested: Requested, version: int, node_id: int, now: int) -> FetchContext:
        """Finds or creates the session of a request. The requested partitions are not added to the session yet."""
        if version < 7 or request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id:
                self._sessions.pop((node_id, request.session_id), None)
            context = FetchContext(list(requested.items()))
            if version >= 7 and request.session_epoch == INITIAL_EPOCH:
                context.session = self._create(len(requested), node_id, version >= BY_TOPIC_ID_SINCE, now)
            return context
        session = self._sessions.get((node_id, request.session_id))
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != (version >= BY_TOPIC_ID_SINCE):
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.used = now
        session.epoch = 1 if session.epoch == LARGEST_EPOCH else session.epoch + 1
        return FetchContext(list(requested.items()), session, incremental=True)

    def _create(self, size: int, node_id: int, by_topic_id: bool, now: int) -> Session | None:
        """Returns a new session, or None if the broker has no room for another session. Without a session, each fetch of the
        client is a full fetch."""
        if not self._has_room(size, node_id, now):
            return None
        session_id = 0
        while session_id == 0 or (node_id, session_id) in self._sessions:
            session_id = int.from_bytes(self._random_bytes(4), "big") & 0x7FFFFFFF
        session = Session(session_id, by_topic_id, now, now, keeps_epochs=self._keeps_epochs())
        self._sessions[node_id, session_id] = session
        return session

    def _has_room(self, size: int, node_id: int, now: int) -> bool:
        """Tells whether this broker has room for a session of `size` partitions. Evicts another session if necessary and
        allowed."""
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

    def _resume(self, context: FetchContext, session: Session, node_id: int) -> None:
        """Make an incremental request fetch all partitions of its session."""
        place = (node_id, session.session_id)
        known = self._sessions.pop(place, None)
        if not session.partitions:
            # An empty session ends. The request then fetches only the partitions that it names, including partitions that it
            # also removes from the session.
            context.session, context.incremental = None, False
            return
        if known is not None:
            self._sessions[place] = known  # move the session to the end: the dict is in the order of the last use
        context.partitions = [(key, cached.requested) for key, cached in session.partitions.items()]


def _named(request: FetchRequest, version: int) -> Iterator[Named]:
    """Yields the partitions that the request names. As in FetchRequest.fetchData, if the request names a partition twice, the
    partition keeps its first place and takes the fields of its last mention.
    """
    for topic in request.topics:
        name = topic.topic_id if version >= BY_TOPIC_ID_SINCE else topic.topic
        for partition in topic.partitions:
            yield (name, partition.partition), partition


def _forgotten(request: FetchRequest, session: Session) -> Iterator[PartitionKey]:
    """Yields the partitions that a request removes from its session."""
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            yield (forgotten.topic_id if session.by_topic_id else forgotten.topic), index
