"""Fetch, versions 0–3, for consumers that read message sets. Batches are converted to magic 0 (versions 0 and 1) or 1.

The converted response is as large as the batches. If the first converted batch is larger, the response has the size of this
batch. Converted messages beyond this size are left out. If the converted messages are smaller, the rest of the response is
filled with the beginning of a message that is longer than the response; consumers drop this message (KIP-283,
LazyDownConversionRecords). Control batches and headers are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkawire.batches import HEADER_SIZE, iter_batches
from kafkawire.compression import CodecMissing
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.message_sets import Unconvertible, down_converted
from kafkawire.messages.fetch import FetchPartition, PartitionData
from wirebroker.core.partition import Partition

_OVERFLOW = struct.Struct(">qi")
"""The offset and size at the beginning of a message that does not fit into the response."""
DOWN_CONVERSION = "message.downconversion.enable"


def convert(
    data: PartitionData, partition: Partition | None, requested: FetchPartition, magic: int, may_be_cut: bool
) -> PartitionData:
    """The partition's result: a message set, or the error of a topic without down-conversion or with zstd.

    With `may_be_cut`, the caller has left out the first batch if this batch is larger than the limits.
    """
    if data.error_code or data.records is None or partition is None:
        return data
    if not data.records and may_be_cut and partition.configs.behaviour.cuts_first_batch:
        data.records = _cut_batch(partition, requested)
        return data
    if not _may_convert(partition):
        return _refused(data, ErrorCode.UNSUPPORTED_VERSION)
    records = memoryview(data.records)
    converted = _converted(records, magic, requested.fetch_offset)
    try:
        first = next(converted, b"")
    except (Unconvertible, CodecMissing):
        return _refused(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if not first:
        whole = next(iter_batches(records), None) is not None
        data.records = _overflow(_OVERFLOW.size) if whole else b""
        return data
    fills = partition.configs.behaviour.fills_converted
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
    """The first bytes of the batch as stored: the consumer reads the batch's size from them."""
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


def _refused(data: PartitionData, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=data.partition_index, error_code=code, high_watermark=-1, records=b"")
