"""Fetch, versions 0–9: results for consumers that do not know all errors, codecs and formats.

Batches are converted to magic 0 for versions 0 and 1, and to magic 1 for versions 2 and 3.

The result is as long as the batches were before the conversion, or as long as the first converted batch if this batch is
longer. Converted messages beyond this length are left out. If the converted messages are shorter, the rest is filled with the
beginning of a message that is longer than the response. Consumers drop such a message (KIP-283, LazyDownConversionRecords).
Control batches and headers are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkawire.batches import HEADER_SIZE, iter_batches
from kafkawire.compression import CodecMissing
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.message_sets import Unconvertible, down_converted
from kafkawire.messages.fetch import FetchPartition, PartitionData
from kafkawire.primitives import Buffer, in_one_buffer
from wirebroker.core.partition import Partition
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since, until

FINDS_TOPICS_FIRST = until("2.1", "for an unknown topic, Fetch before version 10 gets error 76", "KIP-110").then(
    "2.3", True, "for an unknown topic, Fetch before version 10 gets error 3 instead of 76"
)
HIDES_ZSTD = since("2.1", "Fetch before version 10 of a topic with compression.type=zstd gets error 76", "KIP-110").then(
    "4.0", False, "Fetch before version 10 also returns records of topics with compression.type=zstd", "KIP-896"
)
LISTS_ABORTED = since("3.0", "after an error, Fetch returns an empty list of aborted transactions instead of null")
CUTS_FIRST_BATCH = until("3.0", "Fetch before version 3 returns nothing if the first batch exceeds the limit")
FILLS_CONVERTED = since("2.0", "records converted for Fetch before version 4 may end with a truncated message", "KIP-283")

_OVERFLOW = struct.Struct(">qi")
"""The layout of a message's first two fields: the offset and the size."""
DOWN_CONVERSION = "message.downconversion.enable"
FIRST_OF_STORAGE_ERRORS, FIRST_OF_BATCHES, AT_LEAST_ONE_SINCE, FIRST_OF_MAGIC_1 = 6, 4, 3, 2
"""The first versions in which Fetch returns (in this order): KAFKA_STORAGE_ERROR, batches of magic 2, a first batch that
exceeds the limits, and messages of magic 1."""


def convert(
    data: PartitionData, partition: Partition | None, requested: FetchPartition, version: int, release: Release
) -> PartitionData:
    """Returns a partition's result in the form of versions before 10. `partition` is None if this broker has no replica of the
    partition.

    Before version 3, the caller has left out the first batch if this batch is larger than the limits.
    """
    if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < FIRST_OF_STORAGE_ERRORS:
        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition is None:
        finds = FINDS_TOPICS_FIRST.of(release)
        return data if finds else _refused(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, release)
    if HIDES_ZSTD.of(release) and partition.configs.text("compression.type") == "zstd":
        return _refused(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, release)
    if version >= FIRST_OF_BATCHES or data.error_code or data.records is None:
        return data
    return _down_converted(data, data.records, partition, requested, version)


def _down_converted(
    data: PartitionData, stored: Buffer, partition: Partition, requested: FetchPartition, version: int
) -> PartitionData:
    """Returns the result with a message set, or with an error if the topic does not allow down-conversion or has records in
    zstd."""
    release, magic = partition.configs.release, int(version >= FIRST_OF_MAGIC_1)
    if not data.records and version < AT_LEAST_ONE_SINCE and CUTS_FIRST_BATCH.of(release):
        data.records = _cut_batch(partition, requested)
        return data
    if not _may_convert(partition):
        return _refused(data, ErrorCode.UNSUPPORTED_VERSION, release)
    records = in_one_buffer(stored)
    converted = _converted(records, magic, requested.fetch_offset)
    try:
        first = next(converted, b"")
    except (Unconvertible, CodecMissing):
        return _refused(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, release)
    if not first:
        whole = next(iter_batches(records), None) is not None
        data.records = _overflow(_OVERFLOW.size) if whole else b""
        return data
    fills = FILLS_CONVERTED.of(release)
    made, size = bytearray(first), max(len(first), len(records))
    try:
        while (len(made) < size or not fills) and (more := next(converted, b"")):
            made += more
    except (Unconvertible, CodecMissing):
        pass  # the consumer fetches this batch next and gets the error
    if fills and len(made) < size:
        made += _overflow(size - len(made))
    data.records = memoryview(made)[:size] if fills else made
    return data


def _cut_batch(partition: Partition, requested: FetchPartition) -> memoryview:
    """Returns the first bytes of the stored batch. From these bytes the consumer learns the batch's size."""
    offset, limit = requested.fetch_offset, requested.partition_max_bytes
    return memoryview(partition.log.read(offset, partition.high_watermark, limit, True).data)[:limit]


def _may_convert(partition: Partition) -> bool:
    """Tells whether the topic allows down-conversion; Kafka 4 has no setting for down-conversion."""
    try:
        return partition.configs.value(DOWN_CONVERSION) is not False
    except KeyError:
        return True


def _converted(records: memoryview, magic: int, fetch_offset: int) -> Iterator[bytes]:
    for batch in iter_batches(records):
        if len(batch) < HEADER_SIZE:
            return
        try:
            made = down_converted(batch, magic, fetch_offset)
        except Unconvertible:
            raise
        except ProtocolError:
            return
        if made:
            yield made


def _overflow(size: int) -> bytes:
    head: bytes = _OVERFLOW.pack(-1, max(size + 1, HEADER_SIZE))
    return head.ljust(size, b"\0")[:size]


def _refused(data: PartitionData, code: ErrorCode, release: Release) -> PartitionData:
    return PartitionData(
        partition_index=data.partition_index, error_code=code, high_watermark=-1, records=b"",
        aborted_transactions=[] if LISTS_ABORTED.of(release) else None,
    )  # fmt: skip
