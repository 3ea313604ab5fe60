"""Produce, versions 3–13. Releases before 4.0 also serve versions 0–2. Release 4.0 still announces versions 0–2 for old
librdkafka, but closes the connection when it gets such a request.

`Partition.append` judges the batch of each partition, and each partition has its own result. Produce never creates a topic.
From version 13 topics are named by id. A Produce with acks=0 gets no response; if it fails, the broker closes the connection. A
null record set gets INVALID_RECORD; Kafka itself never responds to a Produce with a null record set. A broker that does not
lead the partition returns NOT_LEADER_OR_FOLLOWER. From version 10 on, this response also names the leader. Versions 0 to 2
carry message sets, which are converted (`core.message_set_checks`).

acks=all is refused with NOT_ENOUGH_REPLICAS while fewer than min.insync.replicas replicas are in sync. Otherwise the response
waits until all in-sync replicas have the batch; a retry waits, too. If timeout_ms is over first, the response has
REQUEST_TIMED_OUT and the batch's offset. NOT_ENOUGH_REPLICAS_AFTER_APPEND does not occur: since Kafka 4 the high watermark does
not advance while too few replicas are in sync (KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from kafkawire.batches import first_header
from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.primitives import Buffer
from wirebroker.apis.delayed import Delayed
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.apis.produce_shape import remember_shape, response_of
from wirebroker.apis.produce_transaction import (
    REFUSALS,
    broken_records,
    check_transaction,
    message_of,
    produce_error,
    unreadable,
)
from wirebroker.apis.produce_twice import named_once, names_twice, respond_unread
from wirebroker.common.slices import pauses
from wirebroker.core.cluster import Topic
from wirebroker.core.leadership import leader_error
from wirebroker.core.partition import Appended, Partition
from wirebroker.core.quotas import PRODUCE
from wirebroker.core.record_checks import OLDEST_VERSION_OF_BATCHES, Checked, RecordReject, TakesLong, check, size_error
from wirebroker.core.releases.changes import until
from wirebroker.core.transactions.verification import Verified
from wirebroker.requests.effects import Outcome
from wirebroker.requests.parts import own_records

HIDES_STORAGE_ERRORS = until("2.8", "Produce before version 4 has error 56 instead of 6 if a disk has failed")

ALL = -1
"""The value of acks with which a producer waits for all in-sync replicas."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to Kafka's internal topics."""
_partitions = attrgetter("partition_data")
FIRST_OF_STORAGE_ERRORS = 4
"""The first version whose clients know KAFKA_STORAGE_ERROR."""


def handle(request: ProduceRequest, exchange: Exchange) -> Message | Outcome | Steps:
    if (broken := broken_records(request, exchange)) is not None:
        version = exchange.cluster.configs.release.version
        return exchange.close(f"Kafka {version} closes the connection for such record data: {broken}")
    damage = unreadable(request, exchange.version)
    if damage is not None:
        return _all_refused(request, damage[0], exchange, damage[1])
    checked = check_transaction(request, exchange)
    if isinstance(checked, ErrorCode):
        return _all_refused(request, checked, exchange, REFUSALS.get(checked))
    if request.acks not in (-1, 0, 1):
        return _invalid_acks(request, checked, exchange)
    return _append_all(request, checked, exchange)


def _append_all(request: ProduceRequest, checked: Verified | None, exchange: Exchange) -> Steps:
    response = ProduceResponse(responses=[])
    failed: list[int] = []
    awaited: list[Awaited] = []
    pause = pauses()
    unread = named_once(request, exchange.version) if names_twice(request) else {}
    for data in filter(_partitions, request.topic_data):  # the response leaves out topics without partitions
        topic = exchange.cluster.find_topic(data.name, data.topic_id)
        parts = []
        for partition_data in data.partition_data:
            if pause():
                _own_records(request, exchange)
                yield None
            try:
                part = _partition(topic, checked, partition_data, request.acks, exchange)
            except TakesLong:
                _own_records(request, exchange)
                found = yield Offload(_check_job(topic, partition_data, exchange))
                part = _partition(topic, checked, partition_data, request.acks, exchange, found)
            if part.error_code:
                part.error_code = _known_to(exchange, part.error_code)
                failed.append(part.error_code)
            elif (
                request.acks == ALL
                and part.base_offset >= 0
                and topic is not None
                and topic.partitions[part.index].held_at is not None
            ):
                awaited += _awaited(topic, part, partition_data)
            if part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                _add_leader(part, topic, response, exchange)
            parts.append(part)
        response.responses.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=parts))
    if unread:
        respond_unread(response.responses, unread)
        failed += [error.code for error in unread.values()]
    if awaited:
        return _wait(awaited, request.timeout_ms, response, exchange)
    if request.acks != 0:
        if not failed and checked is None:
            remember_shape(request, exchange)
        return response
    if failed:
        names = ", ".join(sorted({ErrorCode(code).name for code in failed}))
        return exchange.close(f"a Produce with acks=0 failed ({names}), and gets no response that could report it")
    return _unanswered(exchange)


def _known_to(exchange: Exchange, code: int) -> int:
    """Returns the error. If the client's version of the request is older than the error, returns an older error that the client
    knows."""
    hides = exchange.version < FIRST_OF_STORAGE_ERRORS and HIDES_STORAGE_ERRORS.of(exchange.cluster.configs.release)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if hides and code == ErrorCode.KAFKA_STORAGE_ERROR else code


def _unanswered(exchange: Exchange) -> Outcome:
    """Finish a Produce with acks=0, which gets no response.

    As in Kafka, a quota counts the size of the request, but not its handling time.
    """
    if exchange.cluster.quotas.on:
        exceeded = exchange.engine.throttle.use(exchange, PRODUCE, exchange.size, exchange.engine.now)
        if ms := exchange.throttled(exceeded):
            exchange.mute(ms)
    return Outcome.SILENT


def _own_records(request: ProduceRequest, exchange: Exchange) -> None:
    """Copy the request's records before the request waits, because later requests may overwrite the receive buffer."""
    if exchange.frame is not None:
        own_records(request)
        exchange.frame = None


def _check_job(
    topic: Topic | None, requested: PartitionProduceData, exchange: Exchange
) -> Callable[[], Checked | RecordReject]:
    """Returns a function that checks a batch, and needs no state of the broker."""
    partition = topic.partition(requested.index) if topic is not None else None
    assert partition is not None, "only an existing partition checks records"
    records = memoryview(requested.records) if requested.records is not None else None
    checks = check if exchange.version >= OLDEST_VERSION_OF_BATCHES else _check_message_set
    return partial(checks, records, partition.policy, exchange.now, exchange.version, partition.full_checks)


def _check_message_set(*args: Any, **options: Any) -> Checked | RecordReject:
    """Check the record data of a Produce of an old version.

    The module for old versions is imported here, because only releases before 4.0 need it.
    """
    from wirebroker.core.message_set_checks import check_any

    return check_any(*args, **options)


def _partition(
    topic: Topic | None, checked: Verified | None, requested: PartitionProduceData, acks: int, exchange: Exchange,
    found: Checked | RecordReject | None = None,
) -> PartitionProduceResponse:  # fmt: skip
    """Append one partition's batch. `found` is the result of the record check, if the check is already done."""
    partition = topic.partition(requested.index) if topic is not None else None
    if topic is None or partition is None:
        return _refuse(requested, _unknown(topic, requested.index, exchange.version))
    if topic.internal and exchange.client_id != ADMIN_CLIENT:
        return _refuse(requested, ErrorCode.INVALID_TOPIC_EXCEPTION)
    error = leader_error(partition, exchange.node_id)
    if error:
        return _refuse(requested, error)
    if checked is not None and (refused := _unverified(topic, checked, requested, exchange)) is not None:
        return refused
    replication = partition.replication
    if acks == ALL and (len(partition.in_sync) < len(partition.replicas) or replication.uncapped) and replication.too_few:
        refused = _refuse(requested, ErrorCode.NOT_ENOUGH_REPLICAS)
        refused.log_start_offset = partition.log_start_offset
        return refused
    verified = checked is not None and (topic.name, requested.index) in checked.first_writes
    return response_of(requested.index, append(partition, requested.records, acks, exchange, verified, found))


def _unverified(
    topic: Topic, checked: Verified, requested: PartitionProduceData, exchange: Exchange
) -> PartitionProduceResponse | None:
    """Returns the response for a partition that is not part of the producer's transaction, else None."""
    code = checked.errors.get((topic.name, requested.index))
    if not code:
        return None
    known = produce_error(code, exchange.version)
    return _refuse(requested, known, message_of(code, known, exchange.cluster.configs.release))


class Awaited(NamedTuple):
    """The result of one partition. The result waits until the high watermark reaches `required_offset`."""

    topic: Topic
    partition: Partition
    required_offset: int
    response: PartitionProduceResponse


def _awaited(topic: Topic, response: PartitionProduceResponse, requested: PartitionProduceData) -> list[Awaited]:
    """Returns a list with the result and an end offset: the result waits until the replicas have this offset. The list is empty
    if the result does not wait. After a retry, the end offset is the end of the stored batch."""
    partition = topic.partitions[response.index]
    records = requested.records
    header = first_header(records)
    if header is None:  # a message set is never a retry, so its end is the end of the log
        required = partition.log_end_offset
    else:
        required = response.base_offset + header.last_offset_delta + 1
    return [Awaited(topic, partition, required, response)] if partition.high_watermark < required else []


def _wait(awaited: list[Awaited], timeout_ms: int, response: ProduceResponse, exchange: Exchange) -> Message | Outcome:
    """Wait for all partitions; partitions without a response at the timeout get REQUEST_TIMED_OUT (Kafka's DelayedProduce)."""
    for each in awaited:
        each.response.error_code = ErrorCode.REQUEST_TIMED_OUT

    def is_over(each: Awaited, error: ErrorCode) -> bool:
        if not error and each.partition.high_watermark < each.required_offset:
            return False
        each.response.error_code = error
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _add_leader(each.response, each.topic, response, exchange)
        return True

    return Delayed(exchange, awaited, is_over, response).wait(timeout_ms)


def append(
    partition: Partition, records: Buffer | None, acks: int, exchange: Exchange, verified: bool = False,
    found: Checked | RecordReject | None = None,
) -> Appended:  # fmt: skip
    """Append the batch, and record the verdict in the trace. Raises TakesLong for a long check, unless `found` is given."""
    rules = partition.rules
    if exchange.version < OLDEST_VERSION_OF_BATCHES and records is not None and found is None:
        found = _check_message_set(
            memoryview(records), partition.policy, exchange.now, exchange.version, partition.full_checks, at_once=True
        )
    appended = partition.append(
        memoryview(records) if records is not None else None,
        exchange.now,
        exchange.version,
        client_id=exchange.client_id,
        issued=exchange.cluster.producer_ids.issued if rules.needs_issued else None,
        verified=verified,
        at_once=True,
        checked=found,
    )
    if exchange.engine.trace.verdicts:
        exchange.engine.trace.produced(
            exchange.now, exchange.connection, exchange.client_id, exchange.version, exchange.correlation_id, acks,
            partition, appended,
        )  # fmt: skip
    return appended


def _refuse(requested: PartitionProduceData, code: int, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=requested.index, error_code=code, base_offset=-1, error_message=message)


def _all_refused(
    request: ProduceRequest, code: ErrorCode, exchange: Exchange, message: str | None = None
) -> ProduceResponse | Outcome:
    """Returns a response with the same error for every partition in the request, even for a partition that does not exist."""
    if request.acks == 0:
        return exchange.close(f"a Produce with acks=0 failed ({code.name}), and gets no response that could report it")

    return _refuse_each(request, exchange, lambda _, requested: _refuse(requested, code, message))


def _invalid_acks(request: ProduceRequest, checked: Verified | None, exchange: Exchange) -> ProduceResponse:
    """Returns INVALID_REQUIRED_ACKS for each partition without an earlier error."""

    def refused(topic: Topic | None, requested: PartitionProduceData) -> PartitionProduceResponse:
        unknown = _unknown(topic, requested.index, exchange.version)
        if topic is None or unknown:
            return _refuse(requested, unknown)
        records = memoryview(requested.records) if requested.records is not None else None
        error = size_error(records, exchange.version)
        if error is not None:
            return _refuse(requested, error.code)
        unverified = _unverified(topic, checked, requested, exchange) if checked is not None else None
        return unverified or _refuse(requested, ErrorCode.INVALID_REQUIRED_ACKS)

    return _refuse_each(request, exchange, refused)


def _unknown(topic: Topic | None, index: int, version: int) -> ErrorCode:
    if topic is None and version >= 13:
        return ErrorCode.UNKNOWN_TOPIC_ID
    found = topic is not None and topic.partition(index) is not None
    return ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refuse_each(
    request: ProduceRequest, exchange: Exchange,
    refused: Callable[[Topic | None, PartitionProduceData], PartitionProduceResponse],
) -> ProduceResponse:  # fmt: skip
    """Returns a response that refuses each partition once, even if the request names it more than once."""
    if names_twice(request):
        named_once(request, exchange.version)
    topics = []
    for data in filter(_partitions, request.topic_data):
        topic = exchange.cluster.find_topic(data.name, data.topic_id)
        responses = [refused(topic, each) for each in data.partition_data]
        topics.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=responses))
    return ProduceResponse(responses=topics)


def _add_leader(part: PartitionProduceResponse, topic: Topic | None, response: ProduceResponse, exchange: Exchange) -> None:
    partition = topic.partition(part.index) if topic is not None else None
    if partition is None or exchange.version < 10:
        return
    part.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    exchange.name_endpoint(partition.leader, response.node_endpoints, NodeEndpoint)
