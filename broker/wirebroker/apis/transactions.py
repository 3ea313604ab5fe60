"""InitProducerId, versions 0–5.

Without a transactional id every request gets a new producer id with epoch 0. As in Kafka, a producer id and epoch in the
request are ignored: an idempotent producer either raises its epoch itself or starts over with a new id. With a transactional
id, the producer gets the next epoch. If a transaction of the last epoch is open, the broker aborts it and responds
CONCURRENT_TRANSACTIONS; the repeated request succeeds. A request with a producer id but no epoch, or the reverse, gets
INVALID_REQUEST. In versions 0 to 3, the error INVALID_PRODUCER_EPOCH takes the place of PRODUCER_FENCED.

AddPartitionsToTxn, versions 0–5.

In versions 0 to 3 a client adds partitions to its transaction. From version 4 on, a broker may name several transactions in one
request. With `verify_only`, the broker adds no partitions, and only checks whether the transaction includes them. If one
partition does not exist, no partition is added, and the existing partitions get OPERATION_NOT_ATTEMPTED. In versions 0 and 1,
the error INVALID_PRODUCER_EPOCH takes the place of PRODUCER_FENCED.

AddOffsetsToTxn, versions 0–4: the group's partition of __consumer_offsets joins the transaction.

EndTxn, versions 0–5: commit or abort.

The markers are written before the response is sent. From version 5 (transaction version 2) the response has the producer's next
epoch. In versions 0 and 1, the error INVALID_PRODUCER_EPOCH takes the place of PRODUCER_FENCED.

WriteTxnMarkers, versions 1–2: a coordinator writes the markers of transactions to partitions.

Admin clients use this API to abort transactions that their coordinator has forgotten. Each partition has its own result.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafkawire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, pauses
from wirebroker.core.cluster import GROUP_TOPIC
from wirebroker.core.leadership import leader_error
from wirebroker.core.partition import EndMarker
from wirebroker.core.releases.changes import since, until
from wirebroker.core.transactions.coordinator import MARKERS, NO_ID_YET, EndRequest, InitRequest, ProducerResult
from wirebroker.core.transactions.transaction import BUMPS_EPOCH, TopicPartition
from wirebroker.requests.errors import refuse_in_slices

INIT_FENCED_FROM, PRODUCER_FENCED_FROM = 4, 2
FINDS_PARTITIONS = until("1.0", "AddPartitionsToTxn accepts unknown partitions of a known topic").then(
    "2.0", True, "AddPartitionsToTxn refuses unknown partitions of a known topic"
)
NOTES_CLIENT_VERSIONS = since("4.0", "AddPartitionsToTxn from version 4 on needs transaction version 2", "KIP-890")

BATCHED_FROM, BUMPS_EPOCH_FROM = 4, 5

Codes = Mapping[TopicPartition, ErrorCode]

NOBODY, UNSPECIFIED = -1, -1
"""−1 as a producer id or epoch means that there is no producer; −1 as a transaction version means that the version is
unknown."""


def init_producer_id(request: InitProducerIdRequest, exchange: Exchange) -> InitProducerIdResponse:
    producer = _init(request, exchange)
    code = _epoch_error(producer.code, exchange, INIT_FENCED_FROM)
    return InitProducerIdResponse(error_code=code, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def _init(request: InitProducerIdRequest, exchange: Exchange) -> ProducerResult:
    current = (request.producer_id, request.producer_epoch)
    if (current[0] == -1) != (current[1] == -1):
        return ProducerResult(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        made = exchange.cluster.new_producer_id(exchange.node_id, exchange.now)
        return ProducerResult(NO_ID_YET) if made is None else ProducerResult(ErrorCode.NONE, made, 0)
    requested = InitRequest(
        request.transactional_id, request.transaction_timeout_ms, None if current == (-1, -1) else current,
        exchange.node_id,
    )  # fmt: skip
    return exchange.engine.transactions.init_producer_id(requested, exchange.now)


def add_partitions_to_txn(request: AddPartitionsToTxnRequest, exchange: Exchange) -> Steps:
    if exchange.version >= BATCHED_FROM:
        topics: dict[str, list[AddPartitionsToTxnTopic]] = {}
        for requested in request.transactions:  # if a transaction is named twice, only its first entry counts, as in Kafka
            topics.setdefault(requested.transactional_id, requested.topics)
        results, pause = [], pauses(IDS)
        for requested in request.transactions:
            yield from pause()
            answered = yield from _responses(requested, topics[requested.transactional_id], exchange)
            results.append(AddPartitionsToTxnResult(transactional_id=requested.transactional_id, topic_results=answered))
        return AddPartitionsToTxnResponse(error_code=ErrorCode.NONE, results_by_transaction=results)
    requested = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=(yield from _responses(requested, requested.topics, exchange))
    )


def _responses(
    requested: AddPartitionsToTxnTransaction, topics: Iterable[AddPartitionsToTxnTopic], exchange: Exchange
) -> Generator[None, Any, list[AddPartitionsToTxnTopicResult]]:
    """Add all partitions to one transaction, or none if a partition is refused. Returns the result of each partition."""
    wanted: dict[TopicPartition, ErrorCode] = {}
    pause = pauses()
    for topic in topics:
        yield from pause()
        for index in topic.partitions:
            yield from pause()
            there = exchange.cluster.partition(topic.name, index) is not None or (
                topic.name in exchange.cluster.topics and not FINDS_PARTITIONS.of(exchange.cluster.configs.release)
            )
            wanted[topic.name, index] = ErrorCode.NONE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    absent = any(wanted.values())
    codes: Codes = wanted if absent else _codes(requested, list(wanted), exchange)
    results: dict[tuple[int, str], AddPartitionsToTxnTopicResult] = {}
    if absent or requested.verify_only:
        answered: Iterable[tuple[int, TopicPartition]] = ((0, where) for where in codes)
    else:  # Kafka's response repeats the request, including duplicates (errorResponseForTransaction)
        answered = ((number, (topic.name, i)) for number, topic in enumerate(topics) for i in topic.partitions)
        for number, topic in enumerate(topics):
            results[number, topic.name] = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=[])
    for number, (name, index) in answered:
        yield from pause()
        code = codes[name, index]
        result = results.setdefault((number, name), AddPartitionsToTxnTopicResult(name=name, results_by_partition=[]))
        error = code or (ErrorCode.OPERATION_NOT_ATTEMPTED if absent else ErrorCode.NONE)
        response = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        result.results_by_partition.append(response)
    return list(results.values())


def _codes(requested: AddPartitionsToTxnTransaction, wanted: list[TopicPartition], exchange: Exchange) -> Codes:
    transactions = exchange.engine.transactions
    who = (requested.transactional_id, requested.producer_id, requested.producer_epoch)
    if error := transactions.coordinator_error(requested.transactional_id, exchange.node_id):
        return dict.fromkeys(wanted, error)
    if requested.verify_only:
        return transactions.verify_partitions(*who, wanted)
    notes = NOTES_CLIENT_VERSIONS.of(exchange.cluster.configs.release)
    version = BUMPS_EPOCH if notes and exchange.version >= BATCHED_FROM else 0
    code = transactions.add_partitions(*who, wanted, version, exchange.now)
    return dict.fromkeys(wanted, _epoch_error(code, exchange))


def add_offsets_to_txn(request: AddOffsetsToTxnRequest, exchange: Exchange) -> AddOffsetsToTxnResponse:
    """Add the group's partition of __consumer_offsets to the transaction, or respond with the error."""
    return AddOffsetsToTxnResponse(error_code=_epoch_error(_add(request, exchange), exchange))


def _add(request: AddOffsetsToTxnRequest, exchange: Exchange) -> ErrorCode:
    transactions = exchange.engine.transactions
    if error := transactions.coordinator_error(request.transactional_id, exchange.node_id):
        return error
    home = exchange.engine.groups.home(request.group_id)
    return transactions.add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, [(GROUP_TOPIC, home)], 0, exchange.now
    )


def end_txn(request: EndTxnRequest, exchange: Exchange) -> EndTxnResponse:
    transactions = exchange.engine.transactions
    requested = EndRequest(
        request.transactional_id, request.producer_id, request.producer_epoch, request.committed,
        2 if exchange.version >= BUMPS_EPOCH_FROM else 0,
    )  # fmt: skip
    error = transactions.coordinator_error(requested.transactional_id, exchange.node_id)
    producer = ProducerResult(error) if error else transactions.end(requested, exchange.now)
    return EndTxnResponse(
        error_code=_epoch_error(producer.code, exchange),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )


def _epoch_error(code: ErrorCode, exchange: Exchange, since: int = PRODUCER_FENCED_FROM) -> ErrorCode:
    """Returns INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED for clients before version `since`, which do not know
    PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED and exchange.version < since else code


def write_txn_markers(request: WriteTxnMarkersRequest, exchange: Exchange) -> Steps:
    pause = pauses(MARKERS)
    responses: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        yield from pause()
        if _cannot_be_built(marker, exchange):
            return (yield from refuse_in_slices(request, ErrorCode.UNKNOWN_SERVER_ERROR, exchange, pause))
        for topic in marker.topics:
            yield from pause()
            for index in topic.partition_indexes:
                yield from pause()
                topics = responses.setdefault(marker.producer_id, {})
                topics.setdefault(topic.name, {})[index] = _write(marker, topic.name, index, exchange)
    response = WriteTxnMarkersResponse(markers=[])
    for producer_id, topics in responses.items():
        result = WritableTxnMarkerResult(producer_id=producer_id, topics=[])
        response.markers.append(result)
        for name, codes in topics.items():
            answered = WritableTxnMarkerTopicResult(name=name, partitions=[])
            result.topics.append(answered)
            for index, code in codes.items():
                yield from pause()
                answered.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return response


def _cannot_be_built(marker: WritableTxnMarker, exchange: Exchange) -> bool:
    """Tells whether Kafka fails to build the records of this marker. Kafka has then already written the earlier markers."""
    return NOBODY in (marker.producer_id, marker.producer_epoch) and any(
        not leader_error(exchange.cluster.partition(topic.name, index), exchange.node_id)
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def _write(requested: WritableTxnMarker, topic: str, index: int, exchange: Exchange) -> ErrorCode:
    if leader_error(exchange.cluster.partition(topic, index), exchange.node_id):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if requested.transaction_version == UNSPECIFIED:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    marker = EndMarker(
        requested.producer_id, requested.producer_epoch, requested.transaction_result, requested.coordinator_epoch,
        requested.transaction_version,
    )  # fmt: skip
    return exchange.engine.transactions.write_marker(topic, index, marker, exchange.now)
