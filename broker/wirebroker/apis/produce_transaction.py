"""The checks of a Produce with transactional batches, before a batch is stored.

A request is transactional if its batches are transactional. The partitions of these batches must be part of a transaction that
the coordinator knows. In versions before 12, the coordinator verifies this. From 12 on (transaction version 2), the request
itself adds the partitions to the transaction.
"""

from __future__ import annotations

import struct

from kafkawire.batches import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    CorruptBatch,
    next_batch_size,
    read_header,
    transactional_header,
)
from kafkawire.compression import ZSTD
from kafkawire.errors import ErrorCode, error_name
from kafkawire.messages.produce import ProduceRequest
from wirebroker.apis.exchange import Exchange
from wirebroker.core.leadership import leader_error
from wirebroker.core.partition import Partition
from wirebroker.core.record_checks import OLDEST_VERSION_OF_ZSTD, size_error
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since
from wirebroker.core.transactions.verification import Speaks, TransactionalProducer, Verified, verify

RESPONDS_TO_CUT_RECORDS = since("2.8", "Produce with record data that ends early gets a response")
RESPONDS_TO_WRONG_RECORDS = since("2.0", "Produce with several batches or old messages gets a response")
NEEDS_TRANSACTIONAL_ID = since("2.0", "a transactional batch without a transactional id is refused with error 53")
EXPLAINS_FENCING = since("3.6", "the errors 47 and 49 of a transactional batch have a message", "KIP-890").then(
    "3.7", False, "the errors 47 and 49 of a transactional batch have no message", "KIP-890"
)
VERIFIES_TRANSACTIONS = since("3.6", "transactional batches are verified, and can get the errors 47, 48 and 49", "KIP-890")

NEW_ERRORS_FROM, IMPLICIT_ADDS_FROM = 11, 12
MAGIC, MAGIC_AT, ATTRIBUTES_END = 2, 16, 23
_FIRST = struct.Struct(">8xi4xb4xh").unpack_from
"""Reads the length, the magic and the attributes of a batch."""
RETRIED_AS = (
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS,
)  # fmt: skip
"""Coordinator errors that become NOT_ENOUGH_REPLICAS in the response, so that every client tries again."""

REFUSALS = {ErrorCode.INVALID_PRODUCER_ID_MAPPING: "Transactional records contained more than one producer ID"}
"""The messages of errors that refuse the whole request."""

FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer attempted to use a producer id which is not currently assigned to its "
    "transactional id.",
}
"""The messages of the coordinator errors that Kafka 3.6 passes on to the client."""
CUT_RECORDS = ("null_records", "no_batch", "corrupt_batch")
"""Truncated record data breaks a rule whose name begins with one of these words."""
WRONG_RECORDS = ("old_message_format", "more_than_one_batch")
"""The rules that record data can break even if it is not truncated."""
NOT_FORESEEN = (ErrorCode.UNKNOWN_SERVER_ERROR, "The server experienced an unexpected error when processing the request.")


def broken_records(request: ProduceRequest, exchange: Exchange) -> str | None:
    """Some releases close the connection if a request's record data breaks a rule (ProduceRequest). Returns this rule, or None
    if the connection stays open."""
    release = exchange.cluster.configs.release
    if RESPONDS_TO_CUT_RECORDS.of(release):
        return None
    closing = CUT_RECORDS if RESPONDS_TO_WRONG_RECORDS.of(release) else CUT_RECORDS + WRONG_RECORDS
    for data in request.topic_data:
        for requested in data.partition_data:
            records = None if requested.records is None else memoryview(requested.records)
            error = size_error(records, exchange.version)
            if error is not None and error.rule.startswith(closing):
                return error.rule
    return None


def unreadable(request: ProduceRequest, version: int) -> tuple[ErrorCode, str | None] | None:
    """Kafka may fail while it looks for transactions in the request. Returns the error that the whole request then gets, or
    None if Kafka does not fail.

    Kafka reads the first batch of each partition until it finds a transactional batch (RequestUtils.hasTransactionalRecords).
    """
    for data in request.topic_data:
        for requested in data.partition_data:
            records = requested.records
            if records is None:
                continue
            if len(records) >= HEADER_SIZE:
                length, magic, attributes = _FIRST(records)
                if magic == MAGIC and length == len(records) - LOG_OVERHEAD and not attributes & TRANSACTIONAL:
                    continue  # nearly every request of a client ends here
            try:
                size = next_batch_size(memoryview(records), 0)
            except CorruptBatch as corrupt:
                return ErrorCode.CORRUPT_MESSAGE, str(corrupt)
            if size is None or size > len(records):
                continue
            if size < ATTRIBUTES_END:
                return NOT_FORESEEN
            if records[ATTRIBUTES_END - 1] & TRANSACTIONAL and records[MAGIC_AT] == MAGIC:
                return _unknown_codec(request, version)
    return _unknown_codec(request, version)


def _unknown_codec(request: ProduceRequest, version: int) -> tuple[ErrorCode, str | None] | None:
    """Returns an error if a batch has an unknown codec and the version is before 7. In these versions Kafka checks whether
    a batch uses zstd, and this check fails if the codec is unknown."""
    if version >= OLDEST_VERSION_OF_ZSTD:
        return None
    firsts = [requested.records for data in request.topic_data for requested in data.partition_data]
    unknown = any(
        first is not None and len(first) >= HEADER_SIZE and first[MAGIC_AT] == MAGIC and read_header(first).compression > ZSTD
        for first in firsts
    )
    return NOT_FORESEEN if unknown else None


def check_transaction(request: ProduceRequest, exchange: Exchange) -> Verified | ErrorCode | None:
    """Returns the coordinator's result for the request's transactional batches, or None if the request has no such batches.

    The result is an error code if the whole request is refused: TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional
    id, INVALID_PRODUCER_ID_MAPPING for batches of several producers.
    """
    batches = [
        (data, requested.index, header)
        for data in request.topic_data
        for requested in data.partition_data
        if (header := transactional_header(requested.records)) is not None
    ]
    if not batches:
        return None
    release = exchange.cluster.configs.release
    if request.transactional_id is None and NEEDS_TRANSACTIONAL_ID.of(release):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    producers = {(header.producer_id, header.producer_epoch) for _, _, header in batches if header.producer_id >= 0}
    if len(producers) > 1 and VERIFIES_TRANSACTIONS.of(release):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    wanted: list[tuple[Partition, int]] = []
    for data, index, header in batches:
        topic = exchange.cluster.find_topic(data.name, data.topic_id)
        partition = topic.partition(index) if topic is not None else None
        if partition is not None and header.producer_id >= 0 and not leader_error(partition, exchange.node_id):
            wanted.append((partition, header.base_sequence))
    if not producers or not VERIFIES_TRANSACTIONS.of(release) or request.transactional_id is None:
        return Verified(frozenset((partition.topic, partition.index) for partition, _ in wanted), {})
    producer = TransactionalProducer(request.transactional_id, *producers.pop(), _speaks(exchange.version))
    return verify(producer, wanted, exchange.engine.transactions, exchange.cluster, exchange.now)


def _speaks(version: int) -> Speaks:
    if version >= IMPLICIT_ADDS_FROM:
        return Speaks.IMPLICIT_ADDS
    return Speaks.NEW_ERRORS if version >= NEW_ERRORS_FROM else Speaks.OLD_ERRORS


def produce_error(code: ErrorCode, version: int) -> ErrorCode:
    """Returns the error in the response to a Produce if the coordinator returned the error `code`."""
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= IMPLICIT_ADDS_FROM:
        return code
    return ErrorCode.NOT_ENOUGH_REPLICAS if code in RETRIED_AS else code


def message_of(code: ErrorCode, told: int, release: Release) -> str | None:
    """Returns the message for a translated error code."""
    if code in FENCED and EXPLAINS_FENCING.of(release):
        return FENCED[code]
    if code is ErrorCode.INVALID_TXN_STATE:
        return "Partition was not added to the transaction"
    if told == ErrorCode.NOT_ENOUGH_REPLICAS:
        return f"Unable to verify the partition has been added to the transaction: {error_name(code)}"
    return None
