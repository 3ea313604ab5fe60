"""Reads exchanges as events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_model.events import (
    Add,
    Batch,
    CommitOffsets,
    Describe,
    DescribeProducer,
    End,
    Event,
    Forget,
    Id,
    Init,
    Mark,
    Part,
    Produce,
    Where,
)
from kafka_model.history import Exchange, Json
from kafkawire.batches import crc_of, iter_batches, iter_records, read_header
from kafkawire.errors import ProtocolError

SOUND = frozenset({"pid", "epoch", "seq", "n", "tag", "txn", "codec", "key"})
"""Fields of a symbolic batch. A batch that has only these fields is sound."""


def events_of(exchange: Exchange) -> Iterator[Event]:
    """Yields the events of an exchange, if the model knows its API."""
    read = READERS.get(exchange.api)
    if read is not None:
        yield from read(exchange, exchange.request, exchange.response)


def code_of(response: Json | None, field: str = "error_code") -> int | None:
    """Returns an error code. In a recorded response the code is a text, such as `47 INVALID_PRODUCER_EPOCH`."""
    return None if response is None else int(str(response.get(field, 0)).split()[0])


def _topic(exchange: Exchange, told: Json, field: str = "name") -> str:
    topic_id = told.get("topic_id")
    if told.get(field):
        return str(told[field])
    return str((exchange.names or {}).get(topic_id, topic_id))


def _id(told: Json, field: str = "producer_id", default: Id = -1) -> Id:
    found: Id = told.get(field, default)
    return found


def batches_of(records: Any) -> tuple[Batch, ...] | None:
    """Returns the batches of a Produce, or None if they cannot be read."""
    if records is None:
        return None
    if isinstance(records, list):
        return tuple(_symbolic(each) for each in records)
    try:
        return tuple(_real(batch) for batch in iter_batches(memoryview(records)))
    except (ProtocolError, ValueError, IndexError):
        return None


def _symbolic(told: Json) -> Batch:
    count = len(told["offset_deltas"]) if told.get("offset_deltas") else told.get("n", 1)
    return Batch(
        told.get("pid", -1), told.get("epoch", -1), told.get("seq", -1), count, bool(told.get("txn")), told.keys() <= SOUND,
        tuple(f"{told['tag']}{i}" for i in range(count)),
    )  # fmt: skip


def _real(batch: memoryview) -> Batch:
    header = read_header(batch)
    try:
        values = tuple((record.value or b"").decode("latin-1") for record in iter_records(batch))
    except (ProtocolError, ValueError):
        values = ()
    return Batch(
        header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset_delta + 1, header.is_transactional,
        header.crc == crc_of(batch) and len(values) == header.records_count, values,
    )  # fmt: skip


def _produce(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    answers = {
        (_topic(exchange, topic), part.get("index", 0)): part
        for topic in (response or {}).get("responses", ())
        for part in topic.get("partition_responses", ())
    }
    parts, times = [], 0
    for topic in request.get("topic_data", ()):
        for part in topic.get("partition_data", ()):
            where = _topic(exchange, topic), part.get("index", 0)
            answer, batches, times = answers.get(where), batches_of(part.get("records")), times + 1
            if batches is not None:
                offset = -1 if answer is None else answer.get("base_offset", 0)
                parts.append(Part(where, batches, code_of(answer), offset))
    if len({part.where for part in parts}) == times:  # other rules apply to a Produce that names a partition twice
        yield Produce(request.get("transactional_id"), exchange.version, request.get("acks", 0), tuple(parts))


def _init(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    current = _id(request), request.get("producer_epoch", -1)
    code = code_of(response)
    yield Init(
        request.get("transactional_id"), None if current == (-1, -1) else current, exchange.version,
        request.get("transaction_timeout_ms", 0), code, _id(response or {}), (response or {}).get("producer_epoch", 0),
    )  # fmt: skip


def _add(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    old = "v3_and_below_"
    asked = request.get("transactions") or [
        {
            "transactional_id": request.get(f"{old}transactional_id", ""), "producer_id": _id(request, f"{old}producer_id", 0),
            "producer_epoch": request.get(f"{old}producer_epoch", 0), "topics": request.get(f"{old}topics", ()),
        }
    ]  # fmt: skip
    told = (response or {}).get("results_by_transaction") or [
        {
            "transactional_id": asked[0].get("transactional_id", ""),
            "topic_results": (response or {}).get("results_by_topic_v3_and_below", ()),
        }
    ]
    results = {each.get("transactional_id", ""): each.get("topic_results", ()) for each in told}
    if response is not None and code_of(response):
        return
    names = [each.get("transactional_id", "") for each in asked]
    for each in asked if len(set(names)) == len(names) else ():
        codes = {
            (_topic(exchange, topic), part.get("partition_index", 0)): code_of(part, "partition_error_code")
            for topic in results.get(each.get("transactional_id", ""), ())
            for part in topic.get("results_by_partition", topic.get("results_by_partition", ()))
        }
        yield Add(
            each.get("transactional_id", ""), _id(each, default=0), each.get("producer_epoch", 0), exchange.version, codes,
            bool(each.get("verify_only")),
        )  # fmt: skip


OFFSETS = "the offsets of"
VARIOUS = -1
"""The code if the parts of a response have different error codes."""


def _add_offsets(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    where = OFFSETS, request.get("group_id", "")
    yield Add(
        request.get("transactional_id", ""), _id(request, default=0), request.get("producer_epoch", 0), exchange.version,
        {where: code_of(response)},
    )  # fmt: skip


def _commit_offsets(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    codes = {code_of(part) for topic in (response or {}).get("topics", ()) for part in topic.get("partitions", ())}
    if codes or response is None:  # unknown partitions have errors of their own
        code = None if response is None else 0 if 0 in codes else codes.pop() if len(codes) == 1 else VARIOUS
        yield CommitOffsets(
            request.get("transactional_id", ""), _id(request, default=0), request.get("producer_epoch", 0), exchange.version,
            (OFFSETS, request.get("group_id", "")), code,
        )  # fmt: skip


def _end(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    code = code_of(response)
    given = (_id(response or {}), (response or {}).get("producer_epoch", 0)) if exchange.version >= 5 and not code else None
    yield End(
        request.get("transactional_id", ""), _id(request, default=0), request.get("producer_epoch", 0), exchange.version,
        bool(request.get("committed")), code, given if response is not None else None,
    )  # fmt: skip


def _mark(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    markers = request.get("markers", ())
    if len(markers) != 1 or response is None or not response.get("markers"):
        return
    codes: dict[Where, int | None] = {
        (_topic(exchange, topic), part.get("partition_index", 0)): code_of(part)
        for topic in response["markers"][0].get("topics", ())
        for part in topic.get("partitions", ())
    }
    marker = markers[0]
    yield Mark(_id(marker, default=0), marker.get("producer_epoch", 0), marker.get("transaction_version", 0) >= 2, codes)


def _describe(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    for each in (response or {}).get("transaction_states", ()):
        code = code_of(each)
        name = each.get("transactional_id", "")
        if exchange.api == "ListTransactions":
            yield Describe(name, each.get("transaction_state"), _id(each))
        elif not code:
            yield Describe(name, each.get("transaction_state"), _id(each), each.get("producer_epoch", 0))
        elif code == 105:
            yield Describe(name, None)


def _describe_producers(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    for topic in (response or {}).get("topics", ()):
        for part in topic.get("partitions", ()):
            for each in part.get("active_producers", ()) if not code_of(part) else ():
                where = _topic(exchange, topic), part.get("partition_index", 0)
                yield DescribeProducer(
                    where, _id(each), each.get("producer_epoch", 0), each.get("last_sequence", -1),
                    each.get("current_txn_start_offset", -1),
                )  # fmt: skip


def _delete_topics(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    for each in (response or {}).get("responses", ()):
        if not code_of(each):
            yield Forget(_topic(exchange, each))


def _delete_records(exchange: Exchange, request: Json, response: Json | None) -> Iterator[Event]:
    for topic in (response or {}).get("topics", ()):
        yield Forget(_topic(exchange, topic), only_records=True)


READERS = {
    "Produce": _produce,
    "InitProducerId": _init,
    "AddPartitionsToTxn": _add,
    "AddOffsetsToTxn": _add_offsets,
    "TxnOffsetCommit": _commit_offsets,
    "EndTxn": _end,
    "WriteTxnMarkers": _mark,
    "DescribeTransactions": _describe,
    "ListTransactions": _describe,
    "DescribeProducers": _describe_producers,
    "DeleteTopics": _delete_topics,
    "DeleteRecords": _delete_records,
}
