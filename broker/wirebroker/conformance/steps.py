"""The requests of each step of a scenario, and the form in which their answers are recorded."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkawire.batches import crc_of, iter_batches, iter_records, read_header, read_marker
from kafkawire.errors import error_name
from kafkawire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkawire.messages.delete_topics import DeleteTopicsRequest
from kafkawire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.end_txn import EndTxnRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.heartbeat import HeartbeatRequest
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkawire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkawire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkawire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkawire.registry import KEYS
from wirebroker.conformance.batches import record_data
from wirebroker.conformance.readiness import COORDINATOR_CODES, markers_written
from wirebroker.conformance.recording import Json

if TYPE_CHECKING:
    from wirebroker.conformance.replay import Run

NO_ANSWER_AFTER = 1.5
"""Seconds after which a step that Kafka left unanswered counts as unanswered."""
RETRY_PAUSE, RETRIES = 0.02, 250
_CONCURRENT = 51

Operation = Callable[["Run", Json], Json]
OPERATIONS: dict[str, Operation] = {}


def _operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__.removeprefix("op_")] = function
    return function


def shown(code: int) -> str:
    """A code as recordings write it: `45 OUT_OF_ORDER_SEQUENCE_NUMBER`."""
    return f"{code} {error_name(code)}"


def _repeat(ask: Callable[[], tuple[int, Json]], again: tuple[int, ...]) -> Json:
    """Repeat while the code is one of these."""
    for _ in range(RETRIES):
        code, observed = ask()
        if code not in again:
            break
        time.sleep(RETRY_PAUSE)
    return observed


# Topics


@_operation
def op_create_topic(run: Run, step: Json) -> Json:
    configs = [CreatableTopicConfig(name=name, value=str(value)) for name, value in (step.get("configs") or {}).items()]
    topic = CreatableTopic(
        name=run.topic(step), num_partitions=step.get("partitions", 1), replication_factor=step.get("rf", 1),
        assignments=[], configs=configs,
    )  # fmt: skip
    answer = run.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), step, 5).topics[0]
    observed = {"error": shown(answer.error_code)}
    if answer.error_code:
        return observed | {"message": answer.error_message}
    for index in range(topic.num_partitions):
        _repeat(lambda i=index: _leader_ready(run, topic.name, i), (3, 5, 6))  # type: ignore[misc]
    return observed


def _leader_ready(run: Run, topic: str, index: int) -> tuple[int, Json]:
    answer = _list_offsets(run, {}, topic, index, -1)
    return answer.error_code, {}


@_operation
def op_delete_topic(run: Run, step: Json) -> Json:
    request = DeleteTopicsRequest(topic_names=[run.topic(step)], timeout_ms=10_000)
    return {"error": shown(run.ask(request, step, 4).responses[0].error_code)}


@_operation
def op_alter_topic(run: Run, step: Json) -> Json:
    changes = [AlterableConfig(name=name, config_operation=0, value=str(value)) for name, value in step["configs"].items()]
    resource = AlterConfigsResource(resource_type=2, resource_name=run.topic(step), configs=changes)
    answer = run.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), step, 1)
    return {"error": shown(answer.responses[0].error_code)}


@_operation
def op_metadata(run: Run, step: Json) -> Json:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=run.topic(step))], allow_auto_topic_creation=bool(step.get("auto"))
    )
    topic = run.ask(request, step, 9).topics[0]
    leaders = [partition.leader_id for partition in topic.partitions]
    return {"error": shown(topic.error_code), "partitions": len(leaders), "leaders": leaders}


@_operation
def op_delete_records(run: Run, step: Json) -> Json:
    partition = DeleteRecordsPartition(partition_index=step.get("part", 0), offset=step["offset"])
    topic = DeleteRecordsTopic(name=run.topic(step), partitions=[partition])
    answer = run.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), step, 2).topics[0].partitions[0]
    return {"error": shown(answer.error_code), "low_watermark": answer.low_watermark}


# Producing


@_operation
def op_init_pid(run: Run, step: Json) -> Json:
    again: tuple[int, ...] = (*COORDINATOR_CODES, _CONCURRENT)
    if step.get("once"):
        again = ()
    elif step.get("no_retry"):
        again = COORDINATOR_CODES
    return _repeat(lambda: _init_pid(run, step), again)


def _init_pid(run: Run, step: Json) -> tuple[int, Json]:
    request = InitProducerIdRequest(
        transactional_id=run.name(step["txid"]) if step.get("txid") else step.get("txid"),
        transaction_timeout_ms=step.get("timeout_ms", 60_000),
        producer_id=step.get("pid", -1),
        producer_epoch=step.get("epoch", -1),
    )
    answer = run.ask(request, step, 4)
    observed = {"error": shown(answer.error_code), "pid": answer.producer_id, "epoch": answer.producer_epoch}
    return answer.error_code, observed


@_operation
def op_init_pid_many(run: Run, step: Json) -> Json:
    for _ in range(step["n"]):
        observed = op_init_pid(run, step)
    return observed


@_operation
def op_produce(run: Run, step: Json) -> Json:
    request, version = _produce_request(run, step)
    connection = step.get("conn", "main")
    unanswered_by_rule = request.acks == 0 and not step.get("expect_response")
    run.client.send(request, version, connection, answered=not unanswered_by_rule)
    if unanswered_by_rule:
        return {"sent": True}
    unanswered = NO_ANSWER_AFTER if step.get("raw_hex", "") is None else None
    answer = run.client.answer(connection, unanswered)
    return _produced(run, step, answer, version)


def _produce_request(run: Run, step: Json) -> tuple[ProduceRequest, int]:
    version = step.get("v", 9)
    entries = step.get("entries") or [step]
    topics: dict[str, TopicProduceData] = {}
    for entry in entries:
        name = run.topic(entry if "topic" in entry else step)
        data = topics.setdefault(name, TopicProduceData(name=name, partition_data=[]))
        if version >= 13:
            data.topic_id = run.topic_id(name)
        timestamp = run.batch_timestamp(entry)
        records = record_data(entry, timestamp)
        data.partition_data.append(PartitionProduceData(index=entry.get("part", 0), records=records))
    request = ProduceRequest(
        transactional_id=run.name(step["txid"]) if step.get("txid") else None,
        acks=step.get("acks", -1),
        timeout_ms=step.get("timeout_ms", 5000),
        topic_data=list(topics.values()),
    )
    return request, version


def _produced(run: Run, step: Json, answer: Any, version: int) -> Json:
    partitions = [
        (partition.index, _partition_produced(run, partition, version))
        for topic in answer.responses
        for partition in topic.partition_responses
    ]
    if "entries" in step:
        return {"partitions": [{"part": index} | observed for index, observed in partitions]}
    return partitions[0][1]


def _partition_produced(run: Run, answer: Any, version: int) -> Json:
    observed: Json = {
        "error": shown(answer.error_code),
        "base_offset": answer.base_offset,
        "log_append_time": run.append_time(answer.log_append_time_ms, answer.base_offset),
    }
    if version >= 5:
        observed["log_start_offset"] = answer.log_start_offset
    if answer.record_errors:
        observed["record_errors"] = [
            {"i": error.batch_index, "m": error.batch_index_error_message} for error in answer.record_errors
        ]
    if answer.error_message is not None:
        observed["message"] = answer.error_message
    return observed


@_operation
def op_produce_pipeline(run: Run, step: Json) -> Json:
    connection = step.get("conn", "main")
    sent = []
    for entry in step["reqs"]:
        request, version = _produce_request(run, entry)
        run.client.send(request, version, connection)
        sent.append((entry, version))
    return {"responses": [_produced(run, entry, run.client.answer(connection), version) for entry, version in sent]}


@_operation
def op_produce_internal(run: Run, step: Json) -> Json:
    entry = {"pid": -1, "epoch": -1, "seq": -1, "n": 1} | step
    records = record_data(entry, run.batch_timestamp(entry))
    data = TopicProduceData(name=step["name"], partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])
    return _produced(run, step, run.ask(request, step, 9), 9)


# Reading


@_operation
def op_fetch(run: Run, step: Json) -> Json:
    version = step.get("v", 11)
    name = run.topic(step)
    partition = FetchPartition(partition=step.get("part", 0), fetch_offset=step.get("offset", 0), partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=name, partitions=[partition])
    if version >= 13:
        topic.topic_id = run.topic_id(name)
    request = FetchRequest(
        max_wait_ms=step.get("wait", 100), min_bytes=1, max_bytes=1 << 24, isolation_level=step.get("iso", 0),
        session_epoch=-1, topics=[topic], forgotten_topics_data=[],
    )  # fmt: skip
    answer = run.ask(request, step, version).responses[0].partitions[0]
    aborted = answer.aborted_transactions
    return {
        "error": shown(answer.error_code),
        "hw": answer.high_watermark,
        "lso": answer.last_stable_offset,
        "log_start": answer.log_start_offset,
        "aborted": None if aborted is None else [{"ProducerId": a.producer_id, "FirstOffset": a.first_offset} for a in aborted],
        "batches": [_batch(view) for view in iter_batches(answer.records or b"")],
    }


def _batch(view: memoryview) -> Json:
    header = read_header(view)
    observed: Json = {
        "base_offset": header.base_offset, "last_offset_delta": header.last_offset_delta, "pid": header.producer_id,
        "epoch": header.producer_epoch, "seq": header.base_sequence, "count": header.records_count,
        "attrs": header.attributes, "leader_epoch": header.partition_leader_epoch, "crc_ok": crc_of(view) == header.crc,
    }  # fmt: skip
    records = list(iter_records(view))
    if not header.is_control:
        return observed | {"values": [(record.value or b"").decode() for record in records]}
    marker = read_marker(records[0])
    return observed | {
        "control_type": "?" if marker is None else "COMMIT" if marker.commit else "ABORT",
        "control_value_hex": (records[0].value or b"").hex(),
        "control_key_hex": (records[0].key or b"").hex(),
    }


def _list_offsets(run: Run, step: Json, topic: str, index: int, timestamp: int, isolation: int = 0) -> Any:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    return run.ask(request, step, 6).topics[0].partitions[0]


@_operation
def op_list_offsets(run: Run, step: Json) -> Json:
    answer = _list_offsets(run, step, run.topic(step), step.get("part", 0), step["ts"], step.get("iso", 0))
    return {"error": shown(answer.error_code), "offset": answer.offset, "timestamp": answer.timestamp}


@_operation
def op_state(run: Run, step: Json) -> Json:
    name, index = run.topic(step), step.get("part", 0)
    asked = {"earliest": (-2, 0), "latest": (-1, 0), "lso": (-1, 1)}
    observed: Json = {
        what: _list_offsets(run, {}, name, index, timestamp, isolation).offset for what, (timestamp, isolation) in asked.items()
    }
    request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[index])])
    answer = run.ask(request, {}, 0).topics[0].partitions[0]
    observed["producers"] = [
        {
            "pid": p.producer_id, "epoch": p.producer_epoch, "last_seq": p.last_sequence,
            "coord_epoch": p.coordinator_epoch, "txn_start": p.current_txn_start_offset,
        }
        for p in answer.active_producers
    ]  # fmt: skip
    return observed


# Transactions


@_operation
def op_find_coordinator(run: Run, step: Json) -> Json:
    transactional = "txid" in step
    key = run.name(step["txid"] if transactional else step["group"])
    request = FindCoordinatorRequest(key_type=int(transactional), coordinator_keys=[key])

    def ask() -> tuple[int, Json]:
        answer = run.ask(request, step, 4).coordinators[0]
        return answer.error_code, {"error": shown(answer.error_code), "node": answer.node_id}

    return _repeat(ask, () if step.get("once") else COORDINATOR_CODES)


def _again(step: Json) -> tuple[int, ...]:
    return () if step.get("no_retry") else (_CONCURRENT,)


@_operation
def op_add_partitions(run: Run, step: Json) -> Json:
    version = step.get("v", 3)
    topic = AddPartitionsToTxnTopic(name=run.topic(step), partitions=step.get("parts", [0]))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=run.name(step["txid"]), v3_and_below_producer_id=step["pid"],
        v3_and_below_producer_epoch=step["epoch"], v3_and_below_topics=[topic],
    )  # fmt: skip

    def ask() -> tuple[int, Json]:
        answer = run.ask(request, step, version)
        codes = [
            partition.partition_error_code
            for result in answer.results_by_topic_v3_and_below
            for partition in sorted(result.results_by_partition, key=lambda p: p.partition_index)
        ]
        return codes[0] if codes else 0, {"errors": [shown(code) for code in codes]}

    return _repeat(ask, _again(step))


@_operation
def op_add_offsets(run: Run, step: Json) -> Json:
    request = AddOffsetsToTxnRequest(
        transactional_id=run.name(step["txid"]), producer_id=step["pid"], producer_epoch=step["epoch"],
        group_id=run.name(step.get("group", "g")),
    )  # fmt: skip

    def ask() -> tuple[int, Json]:
        code = run.ask(request, step, 3).error_code
        return code, {"error": shown(code)}

    return _repeat(ask, _again(step))


@_operation
def op_txn_offset_commit(run: Run, step: Json) -> Json:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=step.get("part", 0), committed_offset=step["offset"], committed_metadata=step.get("meta", "")
    )
    request = TxnOffsetCommitRequest(
        transactional_id=run.name(step["txid"]), group_id=run.name(step.get("group", "g")), producer_id=step["pid"],
        producer_epoch=step["epoch"], generation_id=step.get("generation", -1), member_id=step.get("member", ""),
        topics=[TxnOffsetCommitRequestTopic(name=run.topic(step), partitions=[partition])],
    )  # fmt: skip

    def ask() -> tuple[int, Json]:
        codes = [p.error_code for t in run.ask(request, step, 3).topics for p in t.partitions]
        return codes[0], {"errors": [shown(code) for code in codes]}

    return _repeat(ask, _again(step))


@_operation
def op_end_txn(run: Run, step: Json) -> Json:
    version = step.get("v", 3)
    request = EndTxnRequest(
        transactional_id=run.name(step["txid"]), producer_id=step["pid"], producer_epoch=step["epoch"],
        committed=step["commit"],
    )  # fmt: skip

    def ask() -> tuple[int, Json]:
        answer = run.ask(request, step, version)
        observed: Json = {"error": shown(answer.error_code)}
        if version >= 5:
            observed |= {"pid": answer.producer_id, "epoch": answer.producer_epoch}
        return answer.error_code, observed

    ended = _repeat(ask, _again(step))
    if ended["error"] == shown(0):
        markers_written(run, run.name(step["txid"]))
    return ended


@_operation
def op_describe_txn(run: Run, step: Json) -> Json:
    request = DescribeTransactionsRequest(transactional_ids=[run.name(step["txid"])])
    state = run.ask(request, step, 0).transaction_states[0]
    return {
        "error": shown(state.error_code), "state": state.transaction_state, "pid": state.producer_id,
        "epoch": state.producer_epoch, "timeout": state.transaction_timeout_ms, "topics": len(state.topics),
    }  # fmt: skip


# Groups


@_operation
def op_join_group(run: Run, step: Json) -> Json:
    request = JoinGroupRequest(
        group_id=run.name(step.get("group", "g")), session_timeout_ms=step.get("session_ms", 30_000),
        rebalance_timeout_ms=step.get("rebalance_ms", 30_000), member_id=step.get("member", ""), protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    )  # fmt: skip
    answer = run.ask(request, step, 5)
    return {
        "error": shown(answer.error_code), "generation": answer.generation_id, "member": answer.member_id,
        "leader_is_me": bool(answer.member_id) and answer.leader == answer.member_id,
        "protocol": answer.protocol_name or "", "members": len(answer.members),
    }  # fmt: skip


@_operation
def op_sync_group(run: Run, step: Json) -> Json:
    assignments = []
    if step.get("lead"):
        assignments = [SyncGroupRequestAssignment(member_id=step["member"], assignment=b"assign")]
    request = SyncGroupRequest(
        group_id=run.name(step.get("group", "g")), generation_id=step["generation"], member_id=step["member"],
        assignments=assignments,
    )  # fmt: skip
    answer = run.ask(request, step, 3)
    return {"error": shown(answer.error_code), "assignment": bytes(answer.assignment).decode()}


@_operation
def op_heartbeat(run: Run, step: Json) -> Json:
    request = HeartbeatRequest(
        group_id=run.name(step.get("group", "g")), generation_id=step["generation"], member_id=step["member"]
    )
    return {"error": shown(run.ask(request, step, 3).error_code)}


@_operation
def op_leave_group(run: Run, step: Json) -> Json:
    version = step.get("v", 2)
    request = LeaveGroupRequest(group_id=run.name(step.get("group", "g")), member_id=step["member"])
    if version >= 3:
        request.members = [MemberIdentity(member_id=step["member"])]
    return {"error": shown(run.ask(request, step, version).error_code)}


@_operation
def op_offset_commit(run: Run, step: Json) -> Json:
    partition = OffsetCommitRequestPartition(
        partition_index=step.get("part", 0), committed_offset=step["offset"], committed_metadata=step.get("meta", "")
    )
    request = OffsetCommitRequest(
        group_id=run.name(step.get("group", "g")), generation_id_or_member_epoch=step.get("generation", -1),
        member_id=step.get("member", ""),
        topics=[OffsetCommitRequestTopic(name=run.topic(step), partitions=[partition])],
    )  # fmt: skip
    answer = run.ask(request, step, 8)
    return {"errors": [shown(p.error_code) for topic in answer.topics for p in topic.partitions]}


@_operation
def op_offset_fetch(run: Run, step: Json) -> Json:
    request = OffsetFetchRequest(
        group_id=run.name(step.get("group", "g")),
        topics=[OffsetFetchRequestTopic(name=run.topic(step), partition_indexes=[step.get("part", 0)])],
        require_stable=bool(step.get("stable")),
    )
    answer = run.ask(request, step, 7)
    parts = [
        {"offset": p.committed_offset, "error": shown(p.error_code), "meta": p.metadata}
        for topic in answer.topics
        for p in topic.partitions
    ]
    return {"error": shown(answer.error_code), "parts": parts}


# Connections and the broker itself


@_operation
def op_ping(run: Run, step: Json) -> Json:
    return {"error": shown(run.ask(ApiVersionsRequest(), step, 0).error_code)}


@_operation
def op_api_versions(run: Run, step: Json) -> Json:
    request = ApiVersionsRequest(client_software_name=step.get("name", "wirebroker"), client_software_version="1")
    answer = run.ask(request, step, step.get("v", 3))
    return {"error": shown(answer.error_code), "n": len(answer.api_keys)}


@_operation
def op_api_versions_raw(run: Run, step: Json) -> Json:
    connection = step.get("conn", "main")
    run.client.send_raw(KEYS["ApiVersions"], step["v"], b"\x02x\x02y\x00", 2, connection)
    frame = run.client.frame(connection)
    code, count = struct.unpack_from(">hi", frame, 4)
    return {"error": shown(code), "n_v0": count, "len": len(frame)}


@_operation
def op_unsupported(run: Run, step: Json) -> Json:
    api = step["api"]
    key = KEYS[api] if isinstance(api, str) else api
    connection = step.get("conn", "main")
    run.client.send_raw(key, step["v"], bytes.fromhex(step.get("body_hex", "")), 1, connection)
    run.client.frame(connection, NO_ANSWER_AFTER)
    return {"conn": "answered"}


@_operation
def op_raw_bytes(run: Run, step: Json) -> Json:
    connection = step.get("conn", "main")
    run.client.send_bytes(bytes.fromhex(step["hex"]), connection)
    run.client.frame(connection, NO_ANSWER_AFTER)
    return {"conn": "answered"}


@_operation
def op_sleep(run: Run, step: Json) -> Json:
    run.broker.sleep(step["s"])
    return {}


@_operation
def op_restart_broker(run: Run, step: Json) -> Json:
    mode = step.get("mode", "clean")
    run.client.close()
    run.broker.restart(mode)
    run.prepare()
    return {"restarted": mode}
