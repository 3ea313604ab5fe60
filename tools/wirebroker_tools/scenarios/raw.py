"""Uses the wire client to play the other applications and the administrators of a scenario."""

from __future__ import annotations

import time
from contextlib import closing

from kafkawire.batches import Record, build_batch
from kafkawire.errors import ProtocolError, error_name
from kafkawire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkawire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkawire.messages.end_txn import EndTxnRequest
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wirebroker.client.wire import WireClient

OTHER = "other"
"""The transactional id of the other application."""
TIMEOUT = 60_000
"""After this many ms, the coordinator aborts the other application's open transaction."""
PATIENCE = 3.0
"""Wait at most this many seconds for a response."""


def _begin(wire: WireClient, topic: str) -> tuple[int, int]:
    """Begin a transaction of another application on partition 0 of the topic. Returns the other application's producer id and
    epoch.
    """
    wire.request(FindCoordinatorRequest(key=OTHER, key_type=1), 3)
    given = wire.request(InitProducerIdRequest(transactional_id=OTHER, transaction_timeout_ms=TIMEOUT), 4)
    _well(given.error_code, "InitProducerId")
    added = wire.request(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=OTHER, v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        ), 3,
    )  # fmt: skip
    _well(added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, "AddPartitionsToTxn")
    return given.producer_id, given.producer_epoch


def open_transaction(address: str, topic: str, records: int) -> None:
    """Write records in a transaction of another application, and leave the transaction open."""
    with closing(WireClient.at(address, PATIENCE)) as wire:
        producer_id, epoch = _begin(wire, topic)
        data = build_batch(
            [Record(i, 0, None, b"of another") for i in range(records)], base_timestamp=time.time_ns() // 1_000_000,
            producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True,
        )  # fmt: skip
        part = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])
        request = ProduceRequest(transactional_id=OTHER, acks=-1, timeout_ms=1000, topic_data=[part])
        _well(wire.request(request, 11).responses[0].partition_responses[0].error_code, "Produce")


def empty_transaction(address: str, topic: str) -> None:
    """Begin a transaction of another application, and abort it without records."""
    with closing(WireClient.at(address, PATIENCE)) as wire:
        producer_id, epoch = _begin(wire, topic)
        request = EndTxnRequest(transactional_id=OTHER, producer_id=producer_id, producer_epoch=epoch, committed=False)
        _well(wire.request(request, 3).error_code, "EndTxn")


def delete_records(address: str, topic: str, partitions: int) -> None:
    """Delete all records of the topic, like an administrator or retention."""
    with closing(WireClient.at(address, PATIENCE)) as wire:
        parts = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(partitions)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=parts)], timeout_ms=1000)
        for part in wire.request(request, 2).topics[0].partitions:
            _well(part.error_code, "DeleteRecords")


def _well(code: int, what: str) -> None:
    if code:
        raise ProtocolError(f"{what}: {error_name(code)}")
