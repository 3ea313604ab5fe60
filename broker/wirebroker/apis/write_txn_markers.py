"""WriteTxnMarkers, versions 1–2: a coordinator writes the markers of transactions to partitions.

Admin clients use this API to abort transactions that their coordinator has forgotten. Each partition has its own result.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.leadership import leader_error
from wirebroker.core.partition import EndMarker
from wirebroker.core.transactions.coordinator import MARKERS
from wirebroker.requests.errors import refuse_in_slices

NOBODY, UNSPECIFIED = -1, -1
"""−1 as a producer id or epoch means that there is no producer; −1 as a transaction version means that the version is
unknown."""


def handle(request: WriteTxnMarkersRequest, exchange: Exchange) -> Steps:
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
