"""Fetch, versions 4–18. `apis.fetch_old` has versions 0–3, which only releases before 4.0 serve, with converted records.

Fetch returns batches from each partition up to the high watermark, or with read_committed up to the last stable offset. The
limit of the response may cut off the last batch. Kafka cuts it off, too: it sends a part of a log file, and does not look at
the batches. The response waits until min_bytes are available, max_wait_ms has passed, or a partition has an error. The first
batch of the first partition with records is sent even if it is larger than the limits (KIP-74). Sessions work as in KIP-227,
and topic ids as in KIP-516 (from version 13). From version 16 on, a response with an error about the leader names the present
leader (KIP-951). From version 11 clients may read from any replica (KIP-392); a lagging replica returns only the records that
it has. With the RackAwareReplicaSelector, if a replica is in the consumer's rack, the leader returns the id of this replica
instead of records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkawire.errors import ErrorCode
from kafkawire.frames import encode_response
from kafkawire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kafkawire.primitives import ZERO_UUID, format_uuid
from kafkawire.registry import response_header_version
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.apis.fetch_old import LISTS_ABORTED
from wirebroker.common.slices import sliced
from wirebroker.core.acls import CLUSTER_NAME, Operation, ResourceType
from wirebroker.core.fetch_sessions import BY_TOPIC_ID_SINCE, FetchContext, Kept, Named, PartitionKey, Results, TopicKey
from wirebroker.core.leadership import leader_error
from wirebroker.core.offset_lookup import ISOLATION_LEVELS
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import Timer
from wirebroker.core.quotas import FETCH as CONSUMER_BYTE_RATE
from wirebroker.core.racks import RACK_AWARE, preferred_replica
from wirebroker.core.releases.changes import since
from wirebroker.requests.effects import Outcome
from wirebroker.requests.errors import refuse
from wirebroker.trace.rows import DELETED

if TYPE_CHECKING:
    from kafkawire.messages.share_fetch import ShareFetchResponse

WAITS_AT_END_ONLY = since("3.8", "a Fetch from an offset after the last readable one does not wait")
LOWERS_MIN_BYTES = since("2.5", "a Fetch does not wait for more bytes than its response may have", "KAFKA-9677")
SHARDS_FETCH_SESSIONS = since("3.8", "a Fetch with a session id from 2147483640 on gets error −1", "KAFKA-9401")
TELLS_LAST_STABLE_OFFSET = since("2.0", "Fetch returns the last stable offset to read_uncommitted consumers, too")
STOPS_AT_STABLE_OFFSET = since("2.5", "a read_committed Fetch at the last stable offset lists no aborted transactions")

FEW = 256
"""A Fetch of at most this many partitions is handled at once, a larger Fetch in slices."""
READ = 64
"""The number of partitions read in a slice."""
NO_BYTES = memoryview(b"")
NO_EPOCH, NO_LEADER, NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()
"""Empty structures that all responses share, because creating them for each response would take a microsecond.

A response replaces such a structure, and never changes its contents.
"""
OLDEST_VERSION_WITH_ZSTD = 10
FROM_FOLLOWERS_SINCE = 11
AT_LEAST_ONE_SINCE = 3
"""From this version on, a response has the first batch even if the batch is larger than the limits."""
SHARD = (2**31 - 1) // 8
BEYOND_SHARDS = 8 * SHARD
"""Kafka keeps its sessions in eight shards of `SHARD` session ids each, and fails on an id that belongs to none of the
shards."""
NAMES_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(request: FetchRequest, exchange: Exchange) -> FetchResponse | Outcome | Steps:
    sessions = exchange.engine.fetch_sessions
    if not -SHARD < request.session_id < BEYOND_SHARDS and SHARDS_FETCH_SESSIONS.of(exchange.cluster.configs.release):
        return _failed(request, exchange)
    if exchange.frame is None:  # the frame is long, so a thread has decoded it
        return _open_in_slices(request, exchange)
    context = sessions.open(request, exchange.version, exchange.node_id, exchange.now)
    if context.error:
        return within_quota(FetchResponse(error_code=context.error, session_id=0, responses=[]), request, exchange)
    fetch = Fetch(request, exchange, context)
    if request.isolation_level not in ISOLATION_LEVELS and fetch.finds_any():
        return _failed(request, exchange)
    if len(context.partitions) > FEW:
        return _in_slices(fetch)
    found = fetch.read()
    if not fetch.may_wait(found):
        return fetch.response(fetch.results(found))
    fetch.watch(context.partitions)
    if fetch.behind:
        fetch.leave()
        return fetch.response(fetch.results(found))
    return fetch.wait()


def _open_in_slices(request: FetchRequest, exchange: Exchange) -> Steps:
    sessions = exchange.engine.fetch_sessions
    context = yield from sessions.open_in_slices(request, exchange.version, exchange.node_id, exchange.now)
    if context.error:
        return within_quota(FetchResponse(error_code=context.error, session_id=0, responses=[]), request, exchange)
    fetch = Fetch(request, exchange, context)
    if request.isolation_level not in ISOLATION_LEVELS and fetch.finds_any():
        return _failed(request, exchange)
    return (yield from _in_slices(fetch))


def _failed(request: FetchRequest, exchange: Exchange) -> FetchResponse:
    """Makes the response to a request on which Kafka fails. The response repeats the session's id."""
    response = refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, exchange)
    assert isinstance(response, FetchResponse)
    response.error_code, response.session_id = ErrorCode.UNKNOWN_SERVER_ERROR, request.session_id
    if exchange.version >= BY_TOPIC_ID_SINCE:
        response.responses = []
    return response


def _compares_names(results: Results) -> bool:
    """Tells whether Kafka compares a topic's name with the name of the previous topic. Kafka does so if the previous topic has
    no id. Then the previous topic has no name either, and Kafka fails (FetchResponse.matchingTopic)."""
    return any(topic == ZERO_UUID for (topic, _), _ in results[:-1])


def _in_slices(fetch: Fetch) -> Steps:
    """Respond to a Fetch of many partitions.

    The partitions are watched before the read, because they may change while other partitions are read.
    """
    partitions = fetch.context.partitions
    try:
        yield from sliced(fetch.watch, partitions)
        found = yield from fetch.read_in_slices()
        if fetch.may_wait(found):
            if not fetch.has_changed() and not fetch.behind:
                return fetch.wait()
            found = yield from fetch.read_in_slices()
        yield from fetch.leave_in_slices()
        return (yield from fetch.respond_in_slices(found))
    except GeneratorExit:  # the broker stops
        fetch.leave()
        raise


def from_follower(request: FetchRequest) -> bool:
    """Tells whether the client is a broker that fetches in order to replicate."""
    return max(request.replica_id, request.replica_state.replica_id) >= 0


def within_quota(response: FetchResponse, request: FetchRequest, exchange: Exchange, size: int | None = None) -> FetchResponse:
    """Returns the response, or an empty response to a throttled client (ClientQuotaManager, in KafkaApis.handleFetchRequest).
    `size` is the response's size if it is known."""
    if not exchange.cluster.quotas.on:
        return response
    if from_follower(request):
        exchange.throttle_ms = 0
        return response
    if not takes_too_much(response, exchange, size):
        return response
    return FetchResponse(error_code=ErrorCode.NONE, session_id=0, responses=[], node_endpoints=response.node_endpoints)


def takes_too_much(response: FetchResponse | ShareFetchResponse, exchange: Exchange, size: int | None = None) -> bool:
    """Count the response for the client's quotas. `size` is the response's size if it is known.

    A throttled client gets an empty response, which does not count towards the quota.
    """
    engine, now = exchange.engine, exchange.engine.now
    size = size_of(response, exchange.version) if size is None else size
    timed = engine.throttle.handled(exchange, now)
    if not exchange.throttled(engine.throttle.use(exchange, CONSUMER_BYTE_RATE, size, now), timed):
        return False
    engine.throttle.unuse(exchange, CONSUMER_BYTE_RATE, size, now)
    return True


def size_of(response: FetchResponse | ShareFetchResponse, version: int) -> int:
    """Returns the size of a response as Kafka counts it: without the correlation id, the tags and the leaders' addresses."""
    counted = copy(response)
    counted.node_endpoints = []
    key = type(response).__schema__.key
    return sum(map(len, encode_response(0, counted, version))) - 4 - response_header_version(key, version)


class Found:
    """The results of a Fetch so far."""

    __slots__ = ("at_least_one", "enough", "left", "readable", "results")

    def __init__(self, fetch: Fetch) -> None:
        self.left = fetch.max_bytes
        """The response may grow by this many bytes."""
        self.readable = 0
        self.enough = False
        self.at_least_one = fetch.exchange.version >= AT_LEAST_ONE_SINCE
        """Tells whether the next batch is read even if it is larger than the limits of the response."""
        self.results: Results = []


class Fetch:
    """One Fetch in progress: it reads, perhaps parks and reads again, and responds."""

    _named: TopicKey | None = None
    """The last topic in the response."""
    _offsets: dict[PartitionKey, int] | None = None
    """The requested offsets, for the trace."""
    _timer: Timer | None = None
    _topics: dict[TopicKey, str] | None = None
    """The names of the topics that the request waits for."""
    _waits = False
    _knows_absent = False
    """Tells whether `_absent` is complete. If so, a partition that is missing but not in `_absent` was deleted while the
    request was handled."""
    behind = False
    """Tells whether `_is_behind` is true for at least one watched partition. If so, the request does not wait
    (DelayedFetch.tryComplete, case F)."""

    def __init__(self, request: FetchRequest, exchange: Exchange, context: FetchContext) -> None:
        self.request = request
        self.exchange = exchange
        self.context = context
        self.cluster = exchange.engine.cluster
        self.node_id = exchange.connection.node_id
        self.committed = request.isolation_level == 1
        self._tells_stable = self.committed or TELLS_LAST_STABLE_OFFSET.of(self.cluster.configs.release)
        self._rack = self._rack_of_consumer() if request.rack_id else ""
        self.max_bytes = min(request.max_bytes, self.cluster.configs.integer("fetch.max.bytes"))
        if self.cluster.quotas.on and not from_follower(request):
            self.max_bytes = min(self.max_bytes, exchange.engine.throttle.room(exchange))
        self._min_bytes = request.min_bytes
        if self._min_bytes > self.max_bytes and LOWERS_MIN_BYTES.of(self.cluster.configs.release):
            self._min_bytes = self.max_bytes
        self._follower = request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
        """The id of the follower; −1 for a consumer."""
        self._readable: dict[str, bool] | None = {} if exchange.access is not None else None
        """For each checked topic, whether the client may read it; None without an authorizer."""
        self._absent: dict[PartitionKey, PartitionData] = {}
        """The results for the partitions that were missing when the request arrived. Such results come last in the response,
        and do not end the request's wait."""
        self._available: dict[PartitionKey, int] = {}
        """The available bytes of each partition, up to its limit in the request."""
        self._watched: dict[Partition, tuple[PartitionKey, FetchPartition, int]] = {}
        """For each partition: its key, its part of the request, and the base offset of the segment with the requested
        offset."""
        self._changed: dict[Partition, None] = {}
        """The partitions that changed before the request began to wait."""

    def _rack_of_consumer(self) -> str:
        """Returns the rack of the client. Returns "" for a follower, and if only the leader may serve the read."""
        request = self.request
        if from_follower(request):
            return ""
        return request.rack_id if self.cluster.configs.text("replica.selector.class") == RACK_AWARE else ""

    def finds_any(self) -> bool:
        """Tells whether the request names any partition that exists."""
        return any(self._find(key, requested)[0] is not None for key, requested in self.context.partitions)

    def read(self) -> Found:
        found = Found(self)
        self._read(found, self.context.partitions)
        self._knows_absent = True
        return found

    def may_wait(self, found: Found) -> bool:
        """Tells whether the request may wait for more records after the first read."""
        return not found.enough and self.request.max_wait_ms > 0 and bool(found.results)

    def results(self, found: Found) -> Results:
        """Returns the results of a read in the order of the response: unknown topic ids and other missing partitions come
        last."""
        if not self._absent:
            return found.results
        by_id = [(key, data) for key, data in self._absent.items() if data.error_code == ErrorCode.UNKNOWN_TOPIC_ID]
        others = [(key, data) for key, data in self._absent.items() if data.error_code != ErrorCode.UNKNOWN_TOPIC_ID]
        return found.results + by_id + others

    def read_in_slices(self) -> Generator[None, Any, Found]:
        """Read the partitions in slices. The caller must watch the partitions already."""
        self._knows_absent = True
        found = Found(self)
        yield from sliced(partial(self._read, found), self.context.partitions, READ)
        return found

    def _read(self, found: Found, partitions: Sequence[Named]) -> None:
        absent = self._absent
        for key, requested in partitions:
            if absent and key in absent:
                continue
            partition, error = self._find(key, requested)
            if partition is None and not self._knows_absent:
                absent[key] = self._refuse(requested, partition, error)
                continue
            if partition is None or error:
                data, available = self._refuse(requested, partition, error), 0
                found.enough = True
            elif self._rack and (nearer := self._preferred_replica(requested, partition)) is not None:
                data, available = nearer, 0
                found.enough = True
            else:
                data, available = self._records(requested, partition, found.left, found.at_least_one)
                found.enough |= bool(data.error_code) or data.diverging_epoch.epoch >= 0
            size = len(data.records or NO_BYTES)
            if size:
                found.at_least_one = False
            found.left = max(found.left - size, 0)
            found.readable += min(available, max(requested.partition_max_bytes, size))
            self._available[key] = min(available, requested.partition_max_bytes)
            found.results.append((key, data))
        if found.readable >= self._min_bytes:
            found.enough = True

    def _find(self, key: PartitionKey, requested: FetchPartition) -> tuple[Partition | None, ErrorCode]:
        """Returns two values: the partition (None if it cannot be found), and the error if this broker cannot read the
        partition."""
        cluster = self.cluster
        name, index = key
        if self._follower >= 0 and self._readable is not None and not self._may_read("", self._readable):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED  # a missing topic gets this error, too
        if isinstance(name, bytes):
            topic = cluster.topics_by_id.get(name)
            if topic is None:
                return self._find_deleted(key)
            name = topic.name
        else:
            topic = cluster.topics.get(name)
        if self._readable is not None and not self._may_read(name, self._readable):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = topic.partition(index) if topic is not None else None
        followers = self.exchange.version >= FROM_FOLLOWERS_SINCE
        epoch = -1 if requested.current_leader_epoch < 0 else requested.current_leader_epoch
        error = leader_error(partition, self.node_id, epoch, or_follower=followers)
        if self._follower >= 0 and not error and partition is not None and self._is_no_follower(partition):
            error = ErrorCode.UNKNOWN_LEADER_EPOCH if epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition, error

    def _find_deleted(self, key: PartitionKey) -> tuple[Partition | None, ErrorCode]:
        """Like `_find`, for a topic id that the cluster does not have. If Kafka remembers the name that belonged to the id, it
        looks for a topic of this name. Such a topic was created later, and has another id.
        """
        name = self._former_name(key)
        if name is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        if self._readable is not None and not self._may_read(name, self._readable):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = self.cluster.partition(name, key[1])
        if partition is None:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return partition, leader_error(partition, self.node_id, or_follower=True) or ErrorCode.INCONSISTENT_TOPIC_ID

    def _former_name(self, key: PartitionKey) -> str | None:
        """Returns the name that belonged to a topic id when the request began to wait, or when the session began."""
        return (self._topics or {}).get(key[0]) or self.context.topic_of(key)

    def _is_no_follower(self, partition: Partition) -> bool:
        """Tells whether the broker that fetches is not a follower of this partition."""
        return self._follower == self.node_id or self._follower not in partition.replicas

    def _may_read(self, topic: str, known: dict[str, bool]) -> bool:
        """Tells whether the authorizer allows the fetch: a consumer needs READ on the topic, and a follower needs
        CLUSTER_ACTION."""
        if topic not in known:
            exchange, request = self.exchange, self.request
            if from_follower(request):
                needed = Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
            else:
                needed = Operation.READ, ResourceType.TOPIC, topic
            known[topic] = exchange.engine.authorizer.may(exchange.connection, *needed)
        return known[topic]

    def _refuse(self, requested: FetchPartition, partition: Partition | None, error: ErrorCode) -> PartitionData:
        absent = partition is None and not self._knows_absent
        data = PartitionData(
            partition_index=requested.partition, error_code=error, high_watermark=-1, records=NO_BYTES,
            # The code that handles absent partitions in Kafka has another default for `aborted_transactions`.
            aborted_transactions=[] if absent and LISTS_ABORTED.of(self.cluster.configs.release) else None,
        )  # fmt: skip
        if error in NAMES_LEADER and self.exchange.version >= 16 and partition is not None:
            data.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        return data

    def _preferred_replica(self, requested: FetchPartition, partition: Partition) -> PartitionData | None:
        """Returns the leader's result with the preferred read replica, or None if this broker returns the records itself."""
        if partition.leader != self.node_id:
            return None
        preferred = preferred_replica(self.cluster.brokers, partition, self._rack, requested.fetch_offset)
        if preferred < 0:
            return None
        return PartitionData(
            partition_index=requested.partition, error_code=ErrorCode.NONE, high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset, log_start_offset=partition.log_start_offset,
            aborted_transactions=None, preferred_read_replica=preferred, records=NO_BYTES,
        )  # fmt: skip

    def _records(
        self, requested: FetchPartition, partition: Partition, left: int, at_least_one: bool
    ) -> tuple[PartitionData, int]:
        seen = partition.seen_at(self.node_id)
        high_watermark = seen.high_watermark
        data = PartitionData(
            partition_index=requested.partition, error_code=ErrorCode.NONE, high_watermark=high_watermark,
            last_stable_offset=seen.last_stable_offset if self._tells_stable else -1, log_start_offset=seen.log_start_offset,
            aborted_transactions=[] if self.committed else None, records=NO_BYTES,
            diverging_epoch=NO_EPOCH, current_leader=NO_LEADER, snapshot_id=NO_SNAPSHOT,
        )  # fmt: skip
        offset = requested.fetch_offset
        known = offset >= seen.log_start_offset
        if not known and (later := partition.after_emptied(offset)) is not None:  # a soft reset has deleted the records
            offset, known = later, True
        if requested.last_fetched_epoch >= 0:
            epoch, end = partition.end_offset_for_epoch(requested.last_fetched_epoch)
            known &= end >= 0
            if known and (epoch < requested.last_fetched_epoch or end < requested.fetch_offset):
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=min(end, seen.log_end_offset))
                data.aborted_transactions = None
                return data, 0
        if not known or (offset > high_watermark and offset > seen.log_end_offset):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
            data.aborted_transactions = None
            return data, 0
        visible = data.last_stable_offset if self.committed else high_watermark
        limit = min(left, requested.partition_max_bytes)
        if limit < 0 and offset < visible:
            return self._refuse(requested, partition, ErrorCode.UNKNOWN_SERVER_ERROR), 0
        try:
            found = partition.log.read(offset, visible, limit, at_least_one)
        except OSError:  # the data directory cannot be read, or is damaged
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return data, 0
        data.records = found.records  # type: ignore[assignment]  # the response may also have its records in pieces
        if found.available and not found.records and limit > 0:
            data.aborted_transactions = None  # the next batch was larger than the remaining limit
        elif self.committed and found.records:
            aborted = partition.aborted_transactions(offset, found)
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted
            ]
        elif self.committed and offset == visible and not STOPS_AT_STABLE_OFFSET.of(self.cluster.configs.release):
            aborted = partition.transactions.aborted_between(offset, seen.log_end_offset)
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted
            ]
        return data, found.available

    def response(self, results: Results) -> FetchResponse:
        """Makes the response with these results. In a session, the response omits results that have not changed."""
        if self._absent and _compares_names(results):
            return _failed(self.request, self.exchange)
        session = self.context.session
        response = FetchResponse(error_code=ErrorCode.NONE, session_id=session.session_id if session else 0, responses=[])
        kept = self.context.kept() if self.cluster.quotas.on else None
        self._add(response, results)
        return response if kept is None else self._within_quota(response, kept)

    def _within_quota(self, response: FetchResponse, kept: Kept, size: int | None = None) -> FetchResponse:
        """Returns the response, or an empty response to a throttled client. The session of a throttled client gets back its
        earlier state."""
        limited = within_quota(response, self.request, self.exchange, size)
        if limited is not response:
            self.exchange.engine.fetch_sessions.restore(self.context, kept, self.node_id)
            limited.session_id = response.session_id if self.context.incremental else 0
        return limited

    def respond_in_slices(self, found: Found) -> Generator[Offload | None, Any, FetchResponse]:
        """Like `response`, but in slices."""
        results = self.results(found)
        if self._absent and _compares_names(results):
            return _failed(self.request, self.exchange)
        session = self.context.session
        response = FetchResponse(error_code=ErrorCode.NONE, session_id=session.session_id if session else 0, responses=[])
        kept = self.context.kept() if self.cluster.quotas.on else None
        yield from sliced(partial(self._add, response), results)
        if kept is None:
            return response
        return self._within_quota(response, kept, (yield Offload(partial(size_of, response, self.exchange.version))))

    def _add(self, response: FetchResponse, results: Results) -> None:
        named = self.context.response(results)
        if self.exchange.version < OLDEST_VERSION_WITH_ZSTD:
            named = self._converted(named)
        if self.exchange.engine.trace.exchanges:
            self._trace(named)
        for (name, _), data in named:
            if name != self._named:  # as in Kafka, a topic appears several times if its partitions are not consecutive
                self._named = name
                topic = FetchableTopicResponse(partitions=[])
                if isinstance(name, bytes):
                    topic.topic_id = name
                else:
                    topic.topic = name
                response.responses.append(topic)
            response.responses[-1].partitions.append(data)
            if data.current_leader.leader_id >= 0 and self._follower < 0:
                self.exchange.name_endpoint(data.current_leader.leader_id, response.node_endpoints, NodeEndpoint)

    def _converted(self, results: Results) -> Results:
        from wirebroker.apis.fetch_old import convert

        wanted, topics = dict(self.context.partitions), self.cluster.topics
        converted = []
        for (name, index), data in results:
            topic = topics.get(name) if isinstance(name, str) else None
            partition = topic.partition(index) if topic is not None else None
            if partition is not None and (self.node_id not in partition.replicas or self.node_id in partition.offline_at):
                partition = None
            release = self.cluster.configs.release
            converted.append(((name, index), convert(data, partition, wanted[name, index], self.exchange.version, release)))
        return converted

    def _trace(self, results: Results) -> None:
        if self._offsets is None:
            self._offsets = {key: requested.fetch_offset for key, requested in self.context.partitions}
        for key, data in results:
            name = key[0]
            if isinstance(name, bytes):
                former = self._former_name(key)
                deleted = f"id {format_uuid(name)}" if former is None else f"{former}{DELETED}"
                name = self.cluster.topic_name(name) or deleted
            self.exchange.engine.trace.fetched(self.exchange, name, self._offsets[key], self.committed, data)

    # Waiting

    def watch(self, partitions: Iterable[Named]) -> None:
        # The callback is not an attribute, because a Fetch that refers to itself stays in memory until the garbage collector
        # runs.
        callback = self._appended
        topics = self._topics = self._topics or {}
        for key, requested in partitions:
            if key in self._absent:
                continue
            partition, error = self._find(key, requested)
            if partition is None:
                self._absent[key] = self._refuse(requested, partition, error)
            else:
                if isinstance(key[0], bytes):
                    topics[key[0]] = partition.topic
                partition.waiting[callback] = None
                segment = partition.segment_base(requested.fetch_offset)
                self._watched[partition] = key, requested, segment
                self.behind |= self._is_behind(partition, requested, segment)

    def _is_behind(self, partition: Partition, requested: FetchPartition, segment: int) -> bool:
        """Tells whether the readable records end before the requested offset, or end in a segment that does not contain this
        offset. A response has records of one segment only.
        """
        seen = partition.seen_at(self.node_id)
        end = seen.last_stable_offset if self.committed else seen.high_watermark
        if end < requested.fetch_offset and WAITS_AT_END_ONLY.of(self.cluster.configs.release):
            return True
        return end != requested.fetch_offset and partition.segment_base(end) != segment

    def has_changed(self) -> bool:
        """Some partitions have changed since the read. Tells whether there are now enough bytes for a response."""
        self._total = sum(self._available.values())
        return any(self._enough_with(partition) for partition in self._changed)

    def wait(self) -> Outcome:
        """Park the request until enough is appended or the maximum wait is over."""
        timers = self.cluster.timers
        self._timer = timers.at(self.exchange.now + self.request.max_wait_ms, self._finish)
        self._total = sum(self._available.values())
        self._waits = True
        self.exchange.abandon = self._abandon
        return Outcome.PARKED

    def _abandon(self) -> None:
        self._stop()
        self.leave()

    def _appended(self, partition: Partition, now: int) -> None:
        if not self._waits:  # either the partitions are being read now, or another append has already answered this request
            self._changed[partition] = None
        elif self._enough_with(partition):
            self._finish(now)

    def _enough_with(self, partition: Partition) -> bool:
        """Tells whether to respond after a change of this partition (DelayedFetch.tryComplete). The other partitions have not
        changed since the last call."""
        key, requested, segment = self._watched[partition]
        found, error = self._find(key, requested)
        if found is None or error:
            return True
        if self._is_behind(found, requested, segment):
            return True
        data, available = self._records(requested, found, self.max_bytes, at_least_one=False)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # Kafka still counts the records after the deleted offset
            available = found.log.read(requested.fetch_offset, found.high_watermark, 0, False).available
        elif data.error_code or data.diverging_epoch.epoch >= 0:
            return True
        available = min(available, requested.partition_max_bytes)
        self._total += available - self._available.get(key, 0)
        self._available[key] = available
        return self._total >= self._min_bytes

    def _finish(self, now: int) -> Any:
        self._stop()
        if self.exchange.alive and len(self._watched) > FEW:
            self.exchange.engine.go_on(self.exchange, self._respond_late())
            return
        self.leave()
        if self.exchange.alive:
            found = self.read()
            self.exchange.respond(self.response(self.results(found)))

    def _respond_late(self) -> Generator[Offload | None, Any, FetchResponse]:
        try:
            yield from self.leave_in_slices()
        except GeneratorExit:  # the broker stops
            self.leave()
            raise
        found = yield from self.read_in_slices()
        return (yield from self.respond_in_slices(found))

    def _stop(self) -> None:
        self._waits = False
        self.exchange.abandon = None
        if self._timer is not None:
            self._timer.cancel()

    def leave(self) -> None:
        """Stop watching the partitions."""
        self._leave(self._watched)
        self._watched.clear()

    def leave_in_slices(self) -> Generator[None, Any, None]:
        """Stop watching the partitions, in slices."""
        yield from sliced(self._leave, list(self._watched))
        self._watched.clear()

    def _leave(self, partitions: Iterable[Partition]) -> None:
        callback = self._appended
        for partition in partitions:
            partition.waiting.pop(callback, None)
