"""Produce, versions 3–13 (advertised from 0, which old librdkafka looks for; 0 to 2 close the connection).

Each partition's batch is judged by `Partition.append` and answered on its own. Produce never creates a topic. From
version 13 topics are named by id. acks=0 has no answer, and any error in it closes the connection. A null record set is
INVALID_RECORD (Kafka never answers it at all). At a broker that does not lead the partition the answer is
NOT_LEADER_OR_FOLLOWER, from version 10 with who does.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkawire.primitives import Buffer
from wirebroker.apis.produce_shape import remember_shape
from wirebroker.apis.produce_transaction import REFUSALS, check_transaction, message_of, told_by_produce
from wirebroker.core.cluster import Topic
from wirebroker.core.leadership import leader_fault
from wirebroker.core.partition import Appended, Partition
from wirebroker.core.record_checks import RecordReject
from wirebroker.core.transactions.verification import Verified
from wirebroker.exchange import Exchange, Outcome

ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write to its internal topics."""


def handle(request: ProduceRequest, exchange: Exchange) -> ProduceResponse | Outcome:
    """Append what is in order and answer each partition on its own."""
    checked = check_transaction(request, exchange)
    if isinstance(checked, ErrorCode):
        return _all_refused(request, checked, exchange, REFUSALS.get(checked))
    if request.acks not in (-1, 0, 1):
        return _all_refused(request, ErrorCode.INVALID_REQUIRED_ACKS, exchange)
    response = ProduceResponse(responses=[])
    failed: list[int] = []
    for data in request.topic_data:
        topic = _topic(data, exchange)
        answers = []
        for partition_data in data.partition_data:
            answer = _partition(topic, checked, partition_data, request.acks, exchange)
            if answer.error_code:
                failed.append(answer.error_code)
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                _tell_leader(answer, topic, response, exchange)
            answers.append(answer)
        response.responses.append(
            TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)
        )
    if request.acks != 0:
        if not failed and checked is None:
            remember_shape(request, exchange)
        return response
    if failed:
        names = ", ".join(sorted({ErrorCode(code).name for code in failed}))
        return exchange.close(f"a Produce with acks=0 failed ({names}), which a client can be told in no other way")
    return Outcome.SILENT


def _topic(data: TopicProduceData, exchange: Exchange) -> Topic | None:
    cluster = exchange.cluster
    if exchange.version >= 13:
        return cluster.topics_by_id.get(data.topic_id)
    return cluster.topics.get(data.name)


def _partition(
    topic: Topic | None, checked: Verified | None, asked: PartitionProduceData, acks: int, exchange: Exchange
) -> PartitionProduceResponse:
    if topic is None and exchange.version >= 13:
        return _refuse(asked, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partition(asked.index) if topic is not None else None
    if topic is None or partition is None:
        return _refuse(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal and exchange.client_id != ADMIN_CLIENT:
        return _refuse(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    fault = leader_fault(partition, exchange.node_id)
    if fault:
        return _refuse(asked, fault)
    where = (topic.name, asked.index)
    if checked is not None and (code := checked.errors.get(where)):
        refused = _refuse(asked, told_by_produce(code, exchange.version))
        refused.error_message = message_of(code, refused.error_code)
        return refused
    verified = checked is not None and where in checked.first_writes
    return answer_of(asked.index, append(partition, asked.records, acks, exchange, verified))


def append(
    partition: Partition, records: Buffer | None, acks: int, exchange: Exchange, verified: bool = False
) -> Appended:
    """Have the batch judged and stored, and the verdict recorded."""
    rules = partition.rules
    appended = partition.append(
        memoryview(records) if records is not None else None,
        exchange.now,
        exchange.version,
        client_id=exchange.client_id,
        issued=exchange.cluster.producer_ids.issued if rules.asks_whether_issued else None,
        verified=verified,
    )
    if exchange.engine.trace.verdicts:
        exchange.engine.trace.produced(
            exchange.now, exchange.connection, exchange.client_id, exchange.version, exchange.correlation_id, acks,
            partition, appended,
        )  # fmt: skip
    return appended


def answer_of(index: int, appended: Appended) -> PartitionProduceResponse:
    """The verdict as the client is told it."""
    answer = PartitionProduceResponse(
        index=index,
        error_code=appended.error_code,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start_offset,
    )
    if isinstance(appended.verdict, RecordReject):
        answer.error_message = appended.verdict.message
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text)
            for i, text in appended.verdict.record_errors
        ]
    return answer


def _refuse(asked: PartitionProduceData, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=asked.index, error_code=code, base_offset=-1)


def _all_refused(
    request: ProduceRequest, code: ErrorCode, exchange: Exchange, message: str | None = None
) -> ProduceResponse | Outcome:
    topics = []
    for data in request.topic_data:
        topic = _topic(data, exchange)
        answers = []
        for asked in data.partition_data:
            known = topic is not None and topic.partition(asked.index) is not None
            answer = _refuse(asked, code if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answer.error_message = message
            answers.append(answer)
        topics.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers))
    return ProduceResponse(responses=topics)


def _tell_leader(
    answer: PartitionProduceResponse, topic: Topic | None, response: ProduceResponse, exchange: Exchange
) -> None:
    partition = topic.partition(answer.index) if topic is not None else None
    if partition is None or exchange.version < 10:
        return
    answer.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    broker = exchange.cluster.brokers.get(partition.leader)
    if broker is not None and all(known.node_id != broker.node_id for known in response.node_endpoints):
        host, port = broker.address(exchange.connection.listener)
        response.node_endpoints.append(NodeEndpoint(node_id=broker.node_id, host=host, port=port, rack=broker.rack))
