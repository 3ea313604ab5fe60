"""ListOffsets, versions 1–11, and 0 of releases before 4.0.

Times are in ms since the epoch, or constants. −1 is the end of the log, −2 the beginning of the log, −3 the record with the
largest timestamp (from version 7), −4 the beginning of the local log (from 8), −5 the end of the tiered log (from 9), and −6
the first offset that is not tiered yet (from 11). Without tiered storage, −4 is the beginning of the log, and −5 and −6 find no
offset. A partition named twice gets INVALID_REQUEST. Until the first offset of a new leader's epoch is replicated, a request
for the end, or for a time without a record, gets OFFSET_NOT_AVAILABLE (before version 5 LEADER_NOT_AVAILABLE). Version 0 does
not look up record times: it returns the start offsets of the last segments written before a time, and the end of the log.

OffsetForLeaderEpoch, versions 2–4.

Returns the largest known leader epoch at or below the requested epoch, and the offset after the last record of this epoch. A
consumer compares its position with this offset: a smaller offset means that records which the consumer has read were truncated
(KIP-320). The epoch and the offset are −1 if no epoch matches.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from kafkawire.errors import ErrorCode
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.leadership import leader_error
from wirebroker.core.offset_lookup import ISOLATION_LEVELS, LATEST, offsets_before
from wirebroker.core.releases.changes import ByRelease, since
from wirebroker.requests.errors import refuse_in_slices

REPEATS_LISTED_TOPICS = since("2.8", "ListOffsets has a result for each repetition of a topic's name").then(
    "4.0", False, "ListOffsets has one result for a topic named twice"
)
STAND_INS = (
    ByRelease(-2)
    .then("3.0", -3, "in ListOffsets, timestamp −3 asks for the record with the largest timestamp", "KIP-734")
    .then("3.5", -4, "in ListOffsets, timestamp −4 is a special value", "KIP-405")
    .then("3.9", -(2**63), "in ListOffsets, timestamps of −5 and below are special values or are refused", "KIP-1005")
)
"""The timestamps from this value up to −1 are constants, such as LATEST (−1). Smaller timestamps are ordinary times."""
VERSIONS_STAND_INS = since(
    "3.9", "ListOffsets refuses a special value in versions before the version that introduced the value", "KIP-1005"
)
TELLS_OFFSET_EPOCHS = since("2.3", "ListOffsets returns the leader epoch of an offset")

CONSUMER, DEBUGGING_CONSUMER = -1, -2
OFFSET_NOT_AVAILABLE_FROM, NEVER = 5, 2**15
SEARCHES = 32
"""The number of partitions in a slice; a lookup by time reads the log."""
OLDEST_VERSION_OF_STAND_IN = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}


def list_offsets(request: ListOffsetsRequest, exchange: Exchange) -> Steps:
    """Respond with an offset for each partition. A partition that is named more than once gets a single INVALID_REQUEST."""
    if refuses_whole(request):
        return refuse_in_slices(request, ErrorCode.UNKNOWN_SERVER_ERROR, exchange, pauses())
    return (_old_style if exchange.version == 0 else _offsets)(request, exchange)


def _offsets(request: ListOffsetsRequest, exchange: Exchange) -> Steps:
    pause, pause_for_search = pauses(), pauses(SEARCHES)
    requested: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        yield from pause()
        for partition in topic.partitions:
            yield from pause()
            requested[topic.name, partition.partition_index] += 1
    committed = request.isolation_level == 1
    repeats = REPEATS_LISTED_TOPICS.of(exchange.cluster.configs.release)
    topics: dict[tuple[str, int], dict[tuple[int, int], ListOffsetsPartitionResponse]] = {}
    for number, topic in enumerate(request.topics):
        if repeats or topic.partitions:
            topics.setdefault((topic.name, number if repeats else 0), {})
        for place, partition in enumerate(topic.partitions):
            yield from pause_for_search()
            index = partition.partition_index
            if requested[topic.name, index] > 1:
                found = _response(partition, ErrorCode.INVALID_REQUEST)
            else:
                found = _one(topic.name, partition, committed, request.replica_id, exchange)
            topics[topic.name, number if repeats else 0][index, place if repeats else 0] = found
    response = ListOffsetsResponse(topics=[])
    for (name, _), responses in topics.items():
        yield from pause()
        response.topics.append(ListOffsetsTopicResponse(name=name, partitions=list(responses.values())))
    return response


def refuses_whole(request: ListOffsetsRequest, _: int = 0) -> bool:
    """Tells whether the request has an isolation level that does not exist."""
    return request.isolation_level not in ISOLATION_LEVELS


def _one(
    topic: str, requested: ListOffsetsPartition, committed: bool, replica_id: int, exchange: Exchange
) -> ListOffsetsPartitionResponse:
    release = exchange.cluster.configs.release
    known = STAND_INS.of(release)
    too_old = exchange.version < OLDEST_VERSION_OF_STAND_IN.get(requested.timestamp, NEVER) and VERSIONS_STAND_INS.of(release)
    if known <= requested.timestamp < 0 and too_old:
        return _response(requested, ErrorCode.UNSUPPORTED_VERSION)
    partition = exchange.cluster.partition(topic, requested.partition_index)
    error = leader_error(partition, exchange.node_id, requested.current_leader_epoch)
    if error or partition is None:
        return _response(requested, error)
    timestamp = max(requested.timestamp, 0) if requested.timestamp < known else requested.timestamp  # a time before all records
    try:
        found = partition.offset_for(timestamp, committed)
    except OSError:  # the data directory cannot be read, or is damaged
        return _response(requested, ErrorCode.KAFKA_STORAGE_ERROR)
    if partition.epochs.latest_start > partition.high_watermark and (requested.timestamp == LATEST or found.offset < 0):
        known = exchange.version >= OFFSET_NOT_AVAILABLE_FROM
        return _response(requested, ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)
    epoch = found.leader_epoch if TELLS_OFFSET_EPOCHS.of(release) else -1
    return _response(requested, ErrorCode.NONE, found.offset, found.timestamp, epoch)


def _old_style(request: ListOffsetsRequest, exchange: Exchange) -> Steps:
    """Responds to version 0, in which a partition may be named more than once (KafkaApis.handleListOffsetRequestV0)."""
    pause, topics = pauses(SEARCHES), []
    for topic in request.topics:
        responses = []
        for requested in topic.partitions:
            yield from pause()
            found = _one(topic.name, requested, False, request.replica_id, exchange)
            partition = exchange.cluster.partition(topic.name, requested.partition_index)
            if not found.error_code and partition is not None:
                end = partition.high_watermark if request.replica_id == CONSUMER else partition.log_end_offset
                start, time = partition.log_start_offset, requested.timestamp
                offsets = offsets_before(partition.log, start, end, time, exchange.now)
                found.old_style_offsets = offsets[: max(requested.max_num_offsets, 0)]
            responses.append(found)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=responses))
    return ListOffsetsResponse(topics=topics)


def _response(
    requested: ListOffsetsPartition, code: int, offset: int = -1, timestamp: int = -1, leader_epoch: int = -1
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        error_code=code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, exchange: Exchange) -> Steps:
    pause = pauses()
    topics = []
    for topic in request.topics:
        ends = yield from mapped(partial(_end, exchange, topic.topic), topic.partitions, pause)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        yield from pause()
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(exchange: Exchange, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = exchange.cluster.partition(topic, requested.partition)
    error = leader_error(partition, exchange.node_id, requested.current_leader_epoch)
    if error or partition is None:
        return EpochEndOffset(error_code=error, partition=requested.partition)
    epoch, end = partition.end_offset_for_epoch(requested.leader_epoch)
    return EpochEndOffset(error_code=ErrorCode.NONE, partition=requested.partition, leader_epoch=epoch, end_offset=end)
