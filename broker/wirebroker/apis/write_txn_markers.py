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


def handle(request: WriteTxnMarkersRequest, exchange: Exchange) -> Steps:
    """Write the markers, and respond for each producer."""
    pause = pauses(MARKERS)
    responses: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        if pause():
            yield None
        for topic in marker.topics:
            if pause():
                yield None
            for index in topic.partition_indexes:
                if pause():
                    yield None
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
                if pause():
                    yield None
                answered.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return response


def _write(requested: WritableTxnMarker, topic: str, index: int, exchange: Exchange) -> ErrorCode:
    if leader_error(exchange.cluster.partition(topic, index), exchange.node_id):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    marker = EndMarker(
        requested.producer_id, requested.producer_epoch, requested.transaction_result, requested.coordinator_epoch,
        requested.transaction_version,
    )  # fmt: skip
    return exchange.engine.transactions.write_marker(topic, index, marker, exchange.now)
