"""ShareFetch, versions 1–2: a member of a share group acquires records, and acknowledges other records (KIP-932).

Epoch 0 begins a share session, and epoch −1 ends it. The response tells which of its records are acquired, because it may also
contain other records. The response waits until min_bytes can be acquired, max_wait_ms has passed, or a read fails.
Acknowledgements in the request are checked first and written down afterwards, so the fetch does not see their effect. Kafka
does the same. From version 2 on, a member may limit the records of a response to max_records ("record_limit"), and may renew
its locks in a request without a fetch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator
from copy import copy
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from kafkawire.batches import BatchSpan, batch_spans, iter_records, read_header, read_marker
from kafkawire.declare import Message
from kafkawire.disk.indexes import AbortedTransaction
from kafkawire.errors import ErrorCode
from kafkawire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from wirebroker.apis import share_acknowledge
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.apis.fetch import size_of, takes_too_much
from wirebroker.apis.share_acknowledge import (
    NAMES_LEADER,
    RENEWS_SINCE,
    Outcomes,
    everything,
    is_member_id,
    leader_of,
    may_read,
    names_unknown_topic,
)
from wirebroker.common.slices import Pause, at_once, pauses
from wirebroker.core.leadership import leader_error
from wirebroker.core.logs.interface import Slice
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import Timer
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since
from wirebroker.core.share.acquiring import Acquired, Acquisition, without
from wirebroker.core.share.in_flight import RecordState
from wirebroker.core.share.partition import Broken
from wirebroker.core.share.partitions import PARTITIONS, Held, Settling, SharePartitions
from wirebroker.core.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, ShareSession, Wanted
from wirebroker.requests.effects import Outcome

REFUSES_NULL_NAMES = since("4.3", "ShareFetch without a group id or a member id gets error 42 instead of −1")
RESPONDS_TO_DELETED_TOPICS = since("4.4", "ShareFetch of a deleted topic has error 3 for each partition")

NO_BYTES = memoryview(b"")
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
FIRST_READ, GROWTH = 128 * 1024, 16
"""The size of the first read of a partition in bytes. If these bytes have fewer records than the member asks for, the next read
is up to `GROWTH` times as large, and so on."""
Results = dict[Place, PartitionData]
Slices = Generator[None, Any, None]


def handle(request: ShareFetchRequest, exchange: Exchange) -> Steps:
    code = _request_error(request, exchange.version, exchange.cluster.configs.release)
    if code:
        return exchange.refused(code)
    shares = exchange.engine.shares
    pause = pauses(PARTITIONS)
    wanted, session, code = yield from _open(request, exchange, pause)
    if code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
        when = exchange.now + request.max_wait_ms
        shares_full = exchange.refused(code)
        exchange.engine.timers.at(when, lambda _: exchange.respond(shares_full))
        return Outcome.PARKED
    if code:
        return exchange.refused(code)
    readable = may_read(exchange)
    if readable is not everything and names_unknown_topic(request, exchange, wanted):
        return exchange.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        outcomes: Outcomes = {}
        settling: list[tuple[Place, Settling]] = []
        if _has_acknowledgements(request):
            outcomes, settling = yield from share_acknowledge.begin(request, exchange, readable, pause)
    except Broken:
        return exchange.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    fetch = ShareFetch(request, exchange, session, outcomes, readable, pause)
    fails = False
    if not (exchange.version >= RENEWS_SINCE and request.is_renew_ack):
        known_mode = request.share_acquire_mode in (BATCH_OPTIMIZED, RECORD_LIMIT)
        fails = not known_mode and any(map(fetch.exists, wanted))
        if not fails:
            yield from fetch.begin(wanted)
    else:
        fetch.is_done = True
    if settling:
        yield from fetch.finish(settling)
    if fails:
        return exchange.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    if request.share_session_epoch == FINAL_EPOCH:
        yield from shares.end_session(_member(request, exchange), exchange.now, pause)
    return (yield from fetch.end())


def _member(request: ShareFetchRequest, exchange: Exchange) -> tuple[int, str, str]:
    return exchange.node_id, request.group_id or "", request.member_id or ""


def _request_error(request: ShareFetchRequest, version: int, release: Release) -> ErrorCode:
    if None in (request.group_id, request.member_id) and not REFUSES_NULL_NAMES.of(release):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if request.group_id is None or not is_member_id(request.member_id):
        return ErrorCode.INVALID_REQUEST
    fetches = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    renews = version >= RENEWS_SINCE and request.is_renew_ack
    return ErrorCode.INVALID_REQUEST if renews and fetches else ErrorCode.NONE


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                return True
    return False


def _open(
    request: ShareFetchRequest, exchange: Exchange, pause: Pause
) -> Generator[None, Any, tuple[list[Wanted], ShareSession | None, ErrorCode]]:
    """Returns three values: the partitions to fetch, the session (None for a new session), and the error (NONE if the session
    can be used)."""
    sessions, topics = exchange.engine.shares.sessions, exchange.cluster.topics_by_id
    key, epoch = _member(request, exchange), request.share_session_epoch
    named = []
    for topic in request.topics:
        name = topics[topic.topic_id].name if topic.topic_id in topics else None
        for partition in topic.partitions:
            yield from pause()
            named.append(Wanted(name, (topic.topic_id, partition.partition_index)))
    if epoch == INITIAL_EPOCH:
        return named, None, (yield from _begin_session(request, exchange, named, pause))
    session = sessions.check(key, epoch)
    if isinstance(session, ErrorCode):
        return [], None, session
    if epoch == FINAL_EPOCH:
        return [], None, ErrorCode.NONE
    for each in named:
        yield from pause()
        session.add(each)
    session.forget((each.topic_id, index) for each in request.forgotten_topics_data for index in each.partitions)
    return session.wanted(), session, ErrorCode.NONE


def _begin_session(
    request: ShareFetchRequest, exchange: Exchange, named: list[Wanted], pause: Pause
) -> Generator[None, Any, ErrorCode]:
    sessions, key = exchange.engine.shares.sessions, _member(request, exchange)
    if _has_acknowledgements(request):
        return ErrorCode.INVALID_REQUEST
    session = ShareSession(key, exchange.connection.number)
    for each in named:
        yield from pause()
        session.add(each, shown=False)
    sessions.remove(key)
    if len(session.partitions) < len(named):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if sessions.count(exchange.node_id) >= exchange.cluster.configs.integer("group.share.max.share.sessions"):
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.enter(session)
    return ErrorCode.NONE


class Read(NamedTuple):
    """The result of reading a partition from its next offset on."""

    offset: int
    found: Slice | None
    """The first batches; None if the offset is before the start of the log."""
    limit: int = 0
    """The number of bytes that the request may read."""
    failed: bool = False

    @property
    def size(self) -> int:
        """The number of bytes that Kafka would have read."""
        if self.found is None or not len(self.found.records):
            return 0
        return max(len(self.found.records), min(self.found.available, self.limit))


class ShareFetch:
    """One ShareFetch in progress (Kafka's DelayedShareFetch)."""

    _timer: Timer | None = None

    def __init__(
        self, request: ShareFetchRequest, exchange: Exchange, session: ShareSession | None, outcomes: Outcomes,
        readable: Callable[[str], bool], pause: Pause,
    ) -> None:  # fmt: skip
        self.request = request
        self.exchange = exchange
        self.is_done = False
        self._session = session
        self._outcomes = outcomes
        self._readable = readable
        self._pause = pause
        self._results: Results = {}
        self._held: dict[Place, Held] = {}
        self._busy = True
        """Tells whether slices of this request are running.

        If a partition changes while slices run, the change is only noted, and the slices later try to complete the request.
        """
        self._woken = self._expired = False
        self._now = exchange.now

    @property
    def _shares(self) -> SharePartitions:
        return self.exchange.engine.shares

    def exists(self, wanted: Wanted) -> bool:
        """Tells whether the cluster has the partition."""
        return self._partition(wanted) is not None

    def _partition(self, wanted: Wanted) -> Partition | None:
        """Returns the partition of the topic with this name, as Kafka does. If the topic was deleted and created again, its id
        is not the id in the session, so the state of the share partition cannot be read."""
        return self.exchange.cluster.partition(wanted.topic, wanted.place[1]) if wanted.topic is not None else None

    def begin(self, wanted: list[Wanted]) -> Slices:
        """Acquire the available records, or wait."""
        request, exchange = self.request, self.exchange
        now = exchange.now
        request.max_bytes = min(request.max_bytes, exchange.cluster.configs.integer("fetch.max.bytes"))
        if exchange.cluster.quotas.on:
            request.max_bytes = min(request.max_bytes, exchange.engine.throttle.room(exchange))
        request.min_bytes = min(request.min_bytes, request.max_bytes)
        interested = yield from self._interesting(wanted)
        if not interested or request.max_records == 0 or request.max_bytes == 0:
            self.is_done = True
            return
        new = yield from self._open(self._rotated(interested))
        if not self._held:
            self.is_done = True
            return
        yield from self._try(now)
        if not self.is_done and request.max_wait_ms <= 0:
            yield from self._complete(now)
        if not self.is_done:
            yield from self._wait()
        if new:
            yield from self._load(new)

    def _interesting(self, wanted: list[Wanted]) -> Generator[None, Any, list[tuple[Place, Partition]]]:
        interested = []
        for each in wanted:
            yield from self._pause()
            if each.topic is None:
                self._fail(each.place, ErrorCode.UNKNOWN_TOPIC_ID)
            elif not self._readable(each.topic):
                self._fail(each.place, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif (partition := self._partition(each)) is None:
                self._fail(each.place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                interested.append((each.place, partition))
        return interested

    def _load(self, new: list[Held]) -> Slices:
        """Load share partitions. Kafka reads the state of the share partitions in the background, while the request waits."""
        for number, held in enumerate(new, 1):
            yield from self._pause()
            refused = self._shares.load(held, self.exchange.now)
            if refused is not None and not self.is_done:
                self._fail((held.share.topic_id, held.share.index), refused.code)
            self._shares.wake(held.key, self.exchange.now)
            yield from self._look_again(number, len(new))

    def finish(self, settling: list[tuple[Place, Settling]]) -> Slices:
        """Write down acknowledgements; the records that they release may be enough for a response."""
        for number, each in enumerate(settling, 1):
            yield from self._pause()
            share_acknowledge.finish(each, self._outcomes, self.exchange)
            yield from self._look_again(number, len(settling))

    def _look_again(self, number: int, last: int) -> Slices:
        """Try again if a partition has changed since the last try. A try looks at all partitions and takes long, so the request
        tries again only after its partitions 1, 2, 4, 8 … and after its last partition.
        """
        if self._woken and not self.is_done and (number & (number - 1) == 0 or number == last):
            self._woken = False
            yield from self._try(self.exchange.now)

    def end(self) -> Steps:
        """Returns the response, or `Outcome.PARKED` if the request has to wait."""
        while not self.is_done and (self._woken or self._expired):
            self._woken = False
            yield from (self._complete if self._expired else self._try)(self._now)
        if not self.is_done:
            self._busy = False
            return Outcome.PARKED
        response = yield from self._response()
        if self._timer is not None:
            yield from self._leave()
            for held in self._held.values():
                self._shares.wake(held.key, self._now)
        return response

    def _rotated(self, interested: list[tuple[Place, Partition]]) -> list[tuple[Place, Partition]]:
        """Returns the partitions, rotated so that each request begins with another partition."""
        epoch = self.request.share_session_epoch
        at = epoch % len(interested) if epoch >= 1 else 0
        return interested[at:] + interested[:at]

    def _open(self, interested: list[tuple[Place, Partition]]) -> Generator[None, Any, list[Held]]:
        """Find the share partitions; returns the partitions that must be loaded first."""
        new, shares, node_id, group_id = [], self._shares, self.exchange.node_id, self.request.group_id or ""
        for place, partition in interested:
            yield from self._pause()
            error = leader_error(partition, node_id)
            if error:
                self._fail(place, error)
                continue
            key = (group_id, *place)
            held = shares.find(key, node_id)
            if held is None:
                held = shares.open(key, partition, node_id)
                new.append(held)
            self._held[place] = held
        return new

    def _fail(self, place: Place, code: ErrorCode) -> PartitionData:
        result = self._results[place] = PartitionData(
            partition_index=place[1],
            error_code=code,
            acknowledge_error_code=0,
            records=NO_BYTES,
            acquired_records=[],
            current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        )
        return result

    # Waiting

    def _wait(self) -> Slices:
        if not self.exchange.alive:
            return
        now = self.exchange.now
        self._timer = self.exchange.engine.timers.at(now + self.request.max_wait_ms, self._expire)
        self.exchange.abandon = self._abandon
        for held in self._held.values():
            if self._pause():
                yield None
                if not self.exchange.alive:  # the client has gone meanwhile, and `_abandon` has ended the wait
                    return
            held.partition.waiting[self._appended] = None
            self._shares.watch(held.key, self._wake)

    def _appended(self, _: Partition, now: int) -> None:
        self._wake(now)

    def _wake(self, now: int) -> None:
        self._woken = True
        self._go_on(now)

    def _expire(self, now: int) -> None:
        self._expired = True
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        """Look at the partitions again."""
        self._now = now
        if self.exchange.alive and not self._busy:
            self._busy = True
            self.exchange.engine.go_on(self.exchange, self.end())

    def _abandon(self) -> None:
        at_once(self._leave())

    def _leave(self) -> Slices:
        if self._timer is not None:
            self._timer.cancel()
        for held in self._held.values():
            yield from self._pause()
            held.partition.waiting.pop(self._appended, None)
            self._shares.unwatch(held.key, self._wake)
        self.exchange.abandon = None  # not earlier, because the broker may stop between two slices

    # Acquiring

    def _acquirable(self) -> Generator[None, Any, dict[Place, Held]]:
        found = {}
        for place, held in self._held.items():
            yield from self._pause()
            if held.active and held.share.can_acquire():
                found[place] = held
        return found

    def _try(self, now: int) -> Slices:
        """Acquire the available records if they are enough for a response, or if a read fails.

        Kafka first reads the partitions that no request has read yet, and puts them first in the response.
        """
        acquirable = yield from self._acquirable()
        if not acquirable or self._fails(acquirable):
            return
        new = {place: held for place, held in acquirable.items() if held.looked_at != held.share.next_fetch_offset()}
        reads = yield from self._read(new, len(acquirable))
        fails = False
        for place, read in reads.items():
            if read.found is None:
                fails = True
            else:
                acquirable[place].looked_at = read.offset
        if not fails:
            fails = (yield from self._available(acquirable, reads)) >= self.request.min_bytes
        if fails:
            if len(reads) < len(acquirable):
                others = {place: held for place, held in acquirable.items() if place not in reads}
                reads = (yield from self._read(others, len(acquirable))) | reads
            yield from self._take(acquirable, reads, now)

    def _available(self, acquirable: dict[Place, Held], reads: dict[Place, Read]) -> Generator[None, Any, int]:
        """Returns the number of bytes that can be read, beginning at the next offset of each partition. Each partition counts
        only up to its share of max_bytes. If the last record of a partition is in a later segment, the bytes are enough for a
        response, as in Kafka's DelayedShareFetch."""
        at_most, total = self._share_of_bytes(len(acquirable)), 0
        for place, held in acquirable.items():
            yield from self._pause()
            read = reads[place] if place in reads else _read(held, 0, at_least_one=False)
            if read.found is not None and _ends_in_other_segment(held, read.offset):
                return self.request.min_bytes
            total += min(read.found.available, at_most) if read.found is not None else 0
        return total

    def _complete(self, now: int) -> Slices:
        """Called when the maximum wait is over: respond with the records read so far."""
        acquirable = yield from self._acquirable()
        if not self._fails(acquirable):
            yield from self._take(acquirable, (yield from self._read(acquirable, len(acquirable))), now)

    def _fails(self, acquirable: dict[Place, Held]) -> bool:
        """Fails all reads if max_bytes is negative. Kafka fails, too, because it divides max_bytes among the partitions.

        Returns True if the reads failed.
        """
        if not acquirable or self.request.max_bytes >= 0:
            return False
        for place in acquirable:
            self._fail(place, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.is_done = True
        return True

    def _share_of_bytes(self, partitions: int) -> int:
        return max(self.request.max_bytes // max(partitions, 1), 1)

    def _read(self, acquirable: dict[Place, Held], partitions: int) -> Generator[None, Any, dict[Place, Read]]:
        left, most = self.request.max_bytes, self._share_of_bytes(partitions)
        at_least_one = True
        reads = {}
        for place, held in acquirable.items():
            yield from self._pause()
            read = reads[place] = _read(held, min(left, most), at_least_one)
            size = read.size
            at_least_one = at_least_one and not size
            left = max(left - size, 0)
        return reads

    def _take(self, acquirable: dict[Place, Held], reads: dict[Place, Read], now: int) -> Slices:
        room = self.request.max_records
        for place, read in reads.items():
            if self._pause():
                yield None
                if not self.exchange.alive:
                    break
            held = acquirable[place]
            if read.failed:
                self._fail(place, ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            result = self._fail(place, ErrorCode.NONE)
            if read.found is None:
                self._shares.starts_at_log_start(held)
                continue
            acquired, result.records, count = self._acquire(held, read, read.found, room, now)
            room -= count
            result.acquired_records = [
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, _, count in acquired
            ]
        self.is_done = True

    def _acquire(self, held: Held, read: Read, found: Slice, room: int, now: int) -> tuple[list[Acquired], memoryview, int]:
        request = self.request
        data, batches = _in_reach(held, read, found, room)
        acquisition = Acquisition(
            held.share, request.member_id or "", batches, now,
            by_records=request.share_acquire_mode == RECORD_LIMIT, batch_size=request.batch_size,
        )  # fmt: skip
        acquired = acquisition.acquire(read.offset, room)
        count = acquisition.count
        if acquired and acquisition.limits.committed:
            aborted = _aborted(data, batches, held.partition.aborted_transactions(read.offset, Slice(data, found.available)))
            if aborted:
                for base, last, _, _ in aborted:
                    floor = held.share.batches.floor(base)
                    if floor is not None:
                        inside = held.share.batches.between(floor.first, last)
                        held.share.archive(base, last + 1, inside, RecordState.ACQUIRED, counted=True)
                acquired = without(acquired, aborted)
                count = sum(each.last - each.first + 1 for each in acquired)
        return acquired, _cut(data, batches, acquired) if acquired else NO_BYTES, count

    # The response

    @property
    def _counts_by_name(self) -> bool:
        return not RESPONDS_TO_DELETED_TOPICS.of(self.exchange.cluster.configs.release)

    def _has_topics(self) -> bool:
        known = self.exchange.cluster.topics_by_id
        return all(topic_id in known for topic_id in {topic_id for topic_id, _ in self._results})

    def _named(self, response: ShareFetchResponse) -> Generator[Offload | None, Any, Results]:
        """Returns the results in the response. In a continued session only changed partitions have a result, and a throttled
        client gets no results.

        Records are acquired before the quota is checked. If the quota then throttles the client, the records stay acquired,
        although they are not in the response. Kafka does the same.
        """
        session, named = self._session, {}
        for place, data in self._results.items():
            yield from self._pause()
            if session is None or session.names(place, data.error_code, bool(data.records)):
                named[place] = data
        if self.exchange.cluster.quotas.on:
            counted = copy(response)
            counted.responses = yield from self._by_topic(named)
            size = yield Offload(partial(size_of, counted, self.exchange.version))
            if takes_too_much(counted, self.exchange, size):
                return {}
        if session is not None:
            for place, data in self._results.items():
                yield from self._pause()
                session.responded(place, data.error_code, bool(data.records))
        return named

    def _response(self) -> Generator[Offload | None, Any, Message]:
        """Returns the response with the fetched and the acknowledged partitions."""
        response = ShareFetchResponse(error_code=ErrorCode.NONE, responses=[], node_endpoints=[])
        held = next(iter(self._held.values()), None)
        settings = self._shares.settings(self.request.group_id or "") if held is None else held.settings
        response.acquisition_lock_timeout_ms = settings.limits.lock_ms
        self._results = yield from self._named(response)
        if self._counts_by_name and not self._has_topics():
            # Kafka counts bytes by topic name, and fails without a name.
            return self.exchange.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        for place, (code, message) in self._outcomes.items():
            yield from self._pause()
            if place not in self._results:
                self._fail(place, ErrorCode.NONE)
            self._results[place].acknowledge_error_code = code
            self._results[place].acknowledge_error_message = message
        for place, data in self._results.items():
            yield from self._pause()
            if data.error_code in NAMES_LEADER:
                leader, epoch = leader_of(place, data.error_code, self.exchange, response.node_endpoints, NodeEndpoint)
                data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        response.responses = yield from self._by_topic(self._results)
        return response

    def _by_topic(self, results: Results) -> Generator[None, Any, list[ShareFetchableTopicResponse]]:
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for (topic_id, _), data in results.items():
            yield from self._pause()
            if topic_id not in topics:
                topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id, partitions=[])
            topics[topic_id].partitions.append(data)
        return list(topics.values())


def _read(held: Held, limit: int, at_least_one: bool) -> Read:
    """Read the first batches of a share partition, beginning at its next fetch offset."""
    partition, offset = held.partition, held.share.next_fetch_offset()
    if not partition.log_start_offset <= offset <= partition.log_end_offset:
        return Read(offset, None)
    log, visible = partition.log, _visible(held)
    try:
        found = log.read(offset, visible, min(limit, FIRST_READ), at_least_one)
        if limit > FIRST_READ and not len(found.records) and found.available:  # the first batch is larger than `FIRST_READ`
            found = log.read(offset, visible, limit, at_least_one)
        return Read(offset, found, limit)
    except OSError:  # the data directory cannot be read, or is damaged
        return Read(offset, None, failed=True)


def _ends_in_other_segment(held: Held, offset: int) -> bool:
    partition, end = held.partition, _visible(held)
    return end != offset and partition.segment_base(end) != partition.segment_base(offset)


def _visible(held: Held) -> int:
    return held.partition.last_stable_offset if held.settings.limits.committed else held.partition.high_watermark


_base = itemgetter(0)


def _in_reach(held: Held, read: Read, found: Slice, room: int) -> tuple[memoryview, list[BatchSpan]]:
    """Returns the batches that hold the first `room` records, and one more batch. Returns fewer batches if the request may not
    read so many bytes.

    Completed records, and records that other members have acquired, do not count towards `room`.
    """
    share, data, most = held.share, found.data, min(found.available, read.limit)
    if not len(data):
        return data, []
    enough = max(int.from_bytes(data[:8], "big"), share.start_offset, share.end_offset) + room
    spans = batch_spans(data, enough)
    while len(data) < most and not (spans and spans[-1].base >= enough):
        try:
            more = held.partition.log.read(read.offset, _visible(held), min(GROWTH * len(data), read.limit), True).data
        except OSError:  # the member gets the batches before the damage
            break
        if len(more) <= len(data):
            break
        data = more
        spans = batch_spans(data, enough)
    return data, spans


def _aborted(data: memoryview, batches: list[BatchSpan], transactions: list[AbortedTransaction]) -> list[BatchSpan]:
    pending = sorted(transactions, key=lambda each: each.first_offset)
    producers: set[int] = set()
    found = []
    for span in batches if pending else ():
        header = read_header(data, span.start)
        if header.producer_id < 0:
            continue
        while pending and pending[0].first_offset <= header.last_offset:
            producers.add(pending.pop(0).producer_id)
        if header.is_control:
            records = iter_records(data[span.start : span.stop])
            marker = next((read_marker(record) for record in records), None)
            if marker is not None and not marker.commit:
                producers.discard(header.producer_id)
                continue
        if header.is_transactional and header.producer_id in producers:
            found.append(span)
    return found


def _cut(data: memoryview, batches: list[BatchSpan], acquired: list[Acquired]) -> memoryview:
    """Returns the batches from the first batch with acquired records to the last batch with acquired records.

    If `data` has a single batch, returns all of `data`, including the bytes after the batch.
    """
    if len(batches) < 2:
        return data
    begin = max(bisect_right(batches, acquired[0].first, key=_base) - 1, 0)
    end = max(bisect_right(batches, acquired[-1].last, key=_base) - 1, begin)
    return data[batches[begin].start : batches[end].stop]
