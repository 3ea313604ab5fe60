"""The requests of each step of a scenario, and the form in which their responses are recorded."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafkawire.batches import crc_of, iter_batches, iter_records, read_header, read_marker
from kafkawire.entities import values
from kafkawire.errors import error_name
from kafkawire.frames import SIZE
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.registry import KEYS, versions
from wirebroker.client.login import Tokens, tokens
from wirebroker.security.mechanisms import OAUTHBEARER
from wirebroker.security.scram import BY_NUMBER
from wirebroker.security.web_tokens import unsecured_token
from wirebroker_tools.conformance.any_request import exchange, own_names
from wirebroker_tools.conformance.batches import record_data
from wirebroker_tools.conformance.readiness import COORDINATOR_CODES, markers_written, prepare
from wirebroker_tools.conformance.recording import NO_ERROR, Json
from wirebroker_tools.conformance.run import Run

NO_RESPONSE_AFTER = 1.5
"""A replay waits this many seconds for a response that Kafka never sent."""
RETRY_PAUSE = 0.02
NO_LEADER_YET, CONCURRENT = (3, 5, 6), 51

Operation = Callable[[Run, Json], Json]
Codes = tuple[int, ...]
OPERATIONS: dict[str, Operation] = {}


def _operation(function: Operation) -> Operation:
    OPERATIONS[function.__name__.removeprefix("op_")] = function
    return function


def _repeated(again: Callable[[Json], Codes]) -> Callable[[Operation], Operation]:
    """Decorates an operation: it is repeated while its error is one of the codes that `again` returns for the step."""

    def decorate(function: Operation) -> Operation:
        def operation(run: Run, step: Json) -> Json:
            return _repeat(run, lambda: function(run, step), again(step))

        OPERATIONS[function.__name__.removeprefix("op_")] = operation
        return operation

    return decorate


def shown(code: int) -> str:
    """Returns an error code in the form of recordings: `45 OUT_OF_ORDER_SEQUENCE_NUMBER`."""
    return f"{code} {error_name(code)}"


def _repeat(run: Run, ask: Callable[[], Json], again: Codes) -> Json:
    for _ in range(run.broker.retries):
        observed = ask()
        errors = [observed["error"]] if "error" in observed else observed["errors"]
        if not any(error in map(shown, again) for error in errors[:1]):
            break
        time.sleep(RETRY_PAUSE)
    return observed


def _concurrent(step: Json) -> Codes:
    """Returns the error after which a step is repeated: CONCURRENT_TRANSACTIONS, which a producer gets while its last
    transaction is still ending."""
    return () if step.get("no_retry") else (CONCURRENT,)


def _group(run: Run, step: Json) -> str:
    return run.name(step.get("group", "g"))


def _shown_parts(response: Any) -> list[str]:
    return [shown(part.error_code) for topic in response.topics for part in topic.partitions]


# Topics


@_operation
def op_create_topic(run: Run, step: Json) -> Json:
    name, partitions = run.topic(step), step.get("partitions", 1)
    configs = [{"name": name, "value": str(value)} for name, value in (step.get("configs") or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": step.get("rf", 1), "configs": configs}
    response = run.ask("CreateTopics", step, 5, topics=[topic], timeout_ms=10_000).topics[0]
    observed = {"error": shown(response.error_code)}
    if response.error_code:
        return observed | {"message": response.error_message}
    for index in range(partitions):
        _repeat(run, lambda i=index: {"error": shown(_list_offsets(run, {}, name, i, -1).error_code)}, NO_LEADER_YET)  # type: ignore[misc]
    return observed


@_operation
def op_delete_topic(run: Run, step: Json) -> Json:
    response = run.ask("DeleteTopics", step, 4, topic_names=[run.topic(step)], timeout_ms=10_000)
    return {"error": shown(response.responses[0].error_code)}


@_operation
def op_alter_topic(run: Run, step: Json) -> Json:
    changes = [{"name": name, "config_operation": 0, "value": str(value)} for name, value in step["configs"].items()]
    resource = {"resource_type": 2, "resource_name": run.topic(step), "configs": changes}
    response = run.ask("IncrementalAlterConfigs", step, 1, resources=[resource], validate_only=False)
    return {"error": shown(response.responses[0].error_code)}


@_operation
def op_metadata(run: Run, step: Json) -> Json:
    topics, auto = [{"name": run.topic(step)}], bool(step.get("auto"))
    topic = run.ask("Metadata", step, 9, topics=topics, allow_auto_topic_creation=auto).topics[0]
    leaders = [partition.leader_id for partition in topic.partitions]
    return {"error": shown(topic.error_code), "partitions": len(leaders), "leaders": leaders}


@_operation
def op_delete_records(run: Run, step: Json) -> Json:
    partition = {"partition_index": step.get("part", 0), "offset": step["offset"]}
    topics = [{"name": run.topic(step), "partitions": [partition]}]
    response = run.ask("DeleteRecords", step, 2, topics=topics, timeout_ms=10_000).topics[0].partitions[0]
    return {"error": shown(response.error_code), "low_watermark": response.low_watermark}


# Producing


def _init_again(step: Json) -> Codes:
    if step.get("once"):
        return ()
    return COORDINATOR_CODES if step.get("no_retry") else (*COORDINATOR_CODES, CONCURRENT)


@_repeated(_init_again)
def op_init_pid(run: Run, step: Json) -> Json:
    response = run.ask(
        "InitProducerId", step, 4,
        transactional_id=run.name(step["txid"]) if step.get("txid") else step.get("txid"),
        transaction_timeout_ms=step.get("timeout_ms", 60_000),
        producer_id=step.get("pid", -1),
        producer_epoch=step.get("epoch", -1),
    )  # fmt: skip
    return {"error": shown(response.error_code), "pid": response.producer_id, "epoch": response.producer_epoch}


@_operation
def op_init_pid_many(run: Run, step: Json) -> Json:
    for _ in range(step["n"]):
        observed = op_init_pid(run, step)
    return observed


@_operation
def op_produce(run: Run, step: Json) -> Json:
    request, version = _produce_request(run, step)
    connection = step.get("conn", "main")
    has_no_response = request.acks == 0 and not step.get("expect_response")
    run.client.send(request, version, connection, awaits_response=not has_no_response)
    if has_no_response:
        return {"sent": True}
    unanswered = NO_RESPONSE_AFTER if step.get("raw_hex", "") is None else None
    response = run.client.response(connection, unanswered)
    return _produced(run, step, response, version)


def _produce_request(run: Run, step: Json) -> tuple[ProduceRequest, int]:
    version = run.version("Produce", step, 9)
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


def _produced(run: Run, step: Json, response: Any, version: int) -> Json:
    partitions = [
        (partition.index, _partition_produced(run, partition, version))
        for topic in response.responses
        for partition in topic.partition_responses
    ]
    if "entries" in step:
        return {"partitions": [{"part": index} | observed for index, observed in partitions]}
    return partitions[0][1]


def _partition_produced(run: Run, response: Any, version: int) -> Json:
    observed: Json = {
        "error": shown(response.error_code),
        "base_offset": response.base_offset,
        "log_append_time": run.append_time(response.log_append_time_ms, response.base_offset),
    }
    if version >= 5:
        observed["log_start_offset"] = response.log_start_offset
    if response.record_errors:
        observed["record_errors"] = [
            {"i": error.batch_index, "m": error.batch_index_error_message} for error in response.record_errors
        ]
    if response.error_message is not None:
        observed["message"] = response.error_message
    return observed


@_operation
def op_produce_pipeline(run: Run, step: Json) -> Json:
    connection = step.get("conn", "main")
    sent = []
    for entry in step["reqs"]:
        request, version = _produce_request(run, {"op": step["op"]} | entry)
        run.client.send(request, version, connection)
        sent.append((entry, version))
    return {"responses": [_produced(run, entry, run.client.response(connection), version) for entry, version in sent]}


@_operation
def op_produce_internal(run: Run, step: Json) -> Json:
    entry = {"pid": -1, "epoch": -1, "seq": -1, "n": 1} | step
    records = record_data(entry, run.batch_timestamp(entry))
    data = {"name": step["name"], "partition_data": [{"index": 0, "records": records}]}
    return _produced(run, step, run.ask("Produce", step, 9, acks=-1, timeout_ms=5000, topic_data=[data]), 9)


# Reading


@_operation
def op_fetch(run: Run, step: Json) -> Json:
    version = run.version("Fetch", step, 11)
    name = run.topic(step)
    partition = {
        "partition": step.get("part", 0), "fetch_offset": step.get("offset", 0), "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    topic = {"topic": name, "partitions": [partition]} | ({"topic_id": run.topic_id(name)} if version >= 13 else {})
    response = run.ask(
        "Fetch", step, version, max_wait_ms=step.get("wait", 100), min_bytes=1, max_bytes=1 << 24,
        isolation_level=step.get("iso", 0), session_epoch=-1, topics=[topic],
    ).responses[0].partitions[0]  # fmt: skip
    aborted = response.aborted_transactions
    if step.get("records"):
        return {"error": shown(response.error_code), "records": _records(run, response.records or b"")}
    return {
        "error": shown(response.error_code),
        "hw": response.high_watermark,
        "lso": response.last_stable_offset,
        "log_start": response.log_start_offset,
        "aborted": None if aborted is None else [{"ProducerId": a.producer_id, "FirstOffset": a.first_offset} for a in aborted],
        "batches": [_batch(view) for view in iter_batches(response.records or b"")],
    }


def _records(run: Run, data: bytes) -> list[Json]:
    """Returns every record with its offset, key, value and headers."""
    return [
        {
            "offset": read_header(batch).base_offset + record.offset_delta,
            "key": _text(run, record.key), "value": _text(run, record.value),
            "headers": [[name, _text(run, value)] for name, value in record.headers],
        }
        for batch in iter_batches(data)
        for record in iter_records(batch)
    ]  # fmt: skip


def _text(run: Run, value: bytes | None) -> str | None:
    """Returns the bytes as text. The names of the run are replaced by `@T`, `@g` and so on, as in the step `exchange`."""
    return None if value is None else own_names(value.decode(), run)


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
    topics = [{"name": topic, "partitions": [{"partition_index": index, "timestamp": timestamp}]}]
    return run.ask("ListOffsets", step, 6, replica_id=-1, isolation_level=isolation, topics=topics).topics[0].partitions[0]


@_operation
def op_list_offsets(run: Run, step: Json) -> Json:
    response = _list_offsets(run, step, run.topic(step), step.get("part", 0), step["ts"], step.get("iso", 0))
    return {"error": shown(response.error_code), "offset": response.offset, "timestamp": response.timestamp}


@_operation
def op_state(run: Run, step: Json) -> Json:
    name, index = run.topic(step), step.get("part", 0)
    asked = {"earliest": (-2, 0), "latest": (-1, 0), "lso": (-1, 1)}
    observed: Json = {
        what: _list_offsets(run, {}, name, index, timestamp, isolation).offset for what, (timestamp, isolation) in asked.items()
    }
    response = (
        run.ask("DescribeProducers", {}, 0, topics=[{"name": name, "partition_indexes": [index]}]).topics[0].partitions[0]
    )
    observed["producers"] = [
        {
            "pid": p.producer_id, "epoch": p.producer_epoch, "last_seq": p.last_sequence,
            "coord_epoch": p.coordinator_epoch, "txn_start": p.current_txn_start_offset,
        }
        for p in response.active_producers
    ]  # fmt: skip
    return observed


# Transactions


@_repeated(lambda step: () if step.get("once") else COORDINATOR_CODES)
def op_find_coordinator(run: Run, step: Json) -> Json:
    transactional = "txid" in step
    key = run.name(step["txid" if transactional else "group"])
    response = run.ask("FindCoordinator", step, 4, key_type=int(transactional), key=key, coordinator_keys=[key])
    found = response.coordinators[0] if response.coordinators else response  # versions before 4 have no list
    return {"error": shown(found.error_code), "node": found.node_id}


@_repeated(_concurrent)
def op_add_partitions(run: Run, step: Json) -> Json:
    response = run.ask(
        "AddPartitionsToTxn", step, 3,
        v3_and_below_transactional_id=run.name(step["txid"]),
        v3_and_below_producer_id=step["pid"],
        v3_and_below_producer_epoch=step["epoch"],
        v3_and_below_topics=[{"name": run.topic(step), "partitions": step.get("parts", [0])}],
    )  # fmt: skip
    codes = [
        partition.partition_error_code
        for result in response.results_by_topic_v3_and_below
        for partition in sorted(result.results_by_partition, key=lambda p: p.partition_index)
    ]
    return {"errors": [shown(code) for code in codes]}


@_repeated(_concurrent)
def op_add_offsets(run: Run, step: Json) -> Json:
    response = run.ask(
        "AddOffsetsToTxn", step, 3, transactional_id=run.name(step["txid"]), producer_id=step["pid"],
        producer_epoch=step["epoch"], group_id=_group(run, step),
    )  # fmt: skip
    return {"error": shown(response.error_code)}


def _committed(run: Run, step: Json) -> list[Json]:
    """Returns the field `topics` of a request that commits one offset."""
    partition = {
        "partition_index": step.get("part", 0), "committed_offset": step["offset"],
        "committed_metadata": step.get("meta", ""),
    }  # fmt: skip
    return [{"name": run.topic(step), "partitions": [partition]}]


@_repeated(_concurrent)
def op_txn_offset_commit(run: Run, step: Json) -> Json:
    response = run.ask(
        "TxnOffsetCommit", step, 3, transactional_id=run.name(step["txid"]), group_id=_group(run, step),
        producer_id=step["pid"], producer_epoch=step["epoch"], generation_id=step.get("generation", -1),
        member_id=step.get("member", ""), topics=_committed(run, step),
    )  # fmt: skip
    return {"errors": _shown_parts(response)}


@_repeated(_concurrent)
def op_end_txn(run: Run, step: Json) -> Json:
    version = run.version("EndTxn", step, 3)
    response = run.ask(
        "EndTxn", step, version, transactional_id=run.name(step["txid"]), producer_id=step["pid"],
        producer_epoch=step["epoch"], committed=step["commit"],
    )  # fmt: skip
    if not response.error_code:
        markers_written(run, run.name(step["txid"]))
    observed: Json = {"error": shown(response.error_code)}
    return observed | ({"pid": response.producer_id, "epoch": response.producer_epoch} if version >= 5 else {})


@_operation
def op_describe_txn(run: Run, step: Json) -> Json:
    state = run.ask("DescribeTransactions", step, 0, transactional_ids=[run.name(step["txid"])]).transaction_states[0]
    return {
        "error": shown(state.error_code), "state": state.transaction_state, "pid": state.producer_id,
        "epoch": state.producer_epoch, "timeout": state.transaction_timeout_ms, "topics": len(state.topics),
    }  # fmt: skip


# Groups


@_operation
def op_join_group(run: Run, step: Json) -> Json:
    response = run.ask(
        "JoinGroup", step, 5, group_id=_group(run, step), session_timeout_ms=step.get("session_ms", 30_000),
        rebalance_timeout_ms=step.get("rebalance_ms", 30_000), member_id=step.get("member", ""), protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"meta"}],
    )  # fmt: skip
    return {
        "error": shown(response.error_code), "generation": response.generation_id, "member": response.member_id,
        "leader_is_me": bool(response.member_id) and response.leader == response.member_id,
        "protocol": response.protocol_name or "", "members": len(response.members),
    }  # fmt: skip


@_operation
def op_sync_group(run: Run, step: Json) -> Json:
    assignments = [{"member_id": step["member"], "assignment": b"assign"}] if step.get("lead") else []
    response = run.ask(
        "SyncGroup", step, 3, group_id=_group(run, step), generation_id=step["generation"], member_id=step["member"],
        assignments=assignments,
    )  # fmt: skip
    return {"error": shown(response.error_code), "assignment": bytes(response.assignment).decode()}


@_operation
def op_heartbeat(run: Run, step: Json) -> Json:
    who = {"generation_id": step["generation"], "member_id": step["member"]}
    return {"error": shown(run.ask("Heartbeat", step, 3, group_id=_group(run, step), **who).error_code)}


@_operation
def op_leave_group(run: Run, step: Json) -> Json:
    version, member = run.version("LeaveGroup", step, 2), {"member_id": step["member"]}
    members = [member] if version >= 3 else []
    return {
        "error": shown(run.ask("LeaveGroup", step, version, group_id=_group(run, step), members=members, **member).error_code)
    }


@_operation
def op_offset_commit(run: Run, step: Json) -> Json:
    response = run.ask(
        "OffsetCommit", step, 8, group_id=_group(run, step), generation_id_or_member_epoch=step.get("generation", -1),
        member_id=step.get("member", ""), topics=_committed(run, step),
    )  # fmt: skip
    return {"errors": _shown_parts(response)}


@_operation
def op_offset_fetch(run: Run, step: Json) -> Json:
    topics = [{"name": run.topic(step), "partition_indexes": [step.get("part", 0)]}]
    stable = bool(step.get("stable"))
    response = run.ask("OffsetFetch", step, 7, group_id=_group(run, step), topics=topics, require_stable=stable)
    parts = [
        {"offset": p.committed_offset, "error": shown(p.error_code), "meta": p.metadata}
        for topic in response.topics
        for p in topic.partitions
    ]
    return {"error": shown(response.error_code), "parts": parts}


# Authentication


@_operation
def op_sasl_handshake(run: Run, step: Json) -> Json:
    response = run.ask("SaslHandshake", step, 1, mechanism=step["mechanism"])
    return {"error": shown(response.error_code), "mechanisms": list(response.mechanisms)}


@_operation
def op_sasl_token(run: Run, step: Json) -> Json:
    return _token_taken(run, step, step["token"].encode("latin-1"))[0]


def _token_taken(run: Run, step: Json, token: bytes) -> tuple[Json, bytes]:
    response = run.ask("SaslAuthenticate", step, 2, auth_bytes=token)
    lifetime = (
        {"some_lifetime": response.session_lifetime_ms > 0} if "lasts" in step else {"lifetime": response.session_lifetime_ms}
    )
    observed: Json = {"error": shown(response.error_code)} | lifetime
    message = {} if response.error_message is None else {"message": response.error_message}
    return observed | message, bytes(response.auth_bytes)


@_operation
def op_sasl_log_in(run: Run, step: Json) -> Json:
    hello = op_sasl_handshake(run, step | {"v": step.get("handshake_v", 1)})
    if hello["error"] != NO_ERROR:
        return hello
    user = run.name(step["user"]) if step.get("own") else step["user"]
    secret = _web_token(run, step) if step["mechanism"] == OAUTHBEARER else step["password"]
    responses = tokens_taken(run, step, tokens(step["mechanism"], user, secret, step.get("extensions", "")))
    return {"error": responses[-1].get("error", NO_ERROR), "answers": responses}


def tokens_taken(run: Run, step: Json, dialogue: Tokens) -> list[Json]:
    """Send the tokens of a login. Returns the responses."""
    token, responses = next(dialogue), []
    with suppress(StopIteration):
        while True:
            observed, response = (
                _bare_token_taken(run, step, token) if step.get("handshake_v") == 0 else _token_taken(run, step, token)
            )
            responses.append(observed)
            token = dialogue.send(response)
    return responses


def _web_token(run: Run, step: Json) -> str:
    """Returns a token for the step's user. The token expires after `lasts` seconds."""
    return unsecured_token({"sub": step["user"], "exp": run.broker.now() / 1000 + step["lasts"]})


def _bare_token_taken(run: Run, step: Json, token: bytes) -> tuple[Json, bytes]:
    client, connection = run.client_of(step), step.get("conn", "main")
    client.send_bytes(SIZE.pack(len(token)) + token, connection)
    response = bytes(client.frame(connection, NO_RESPONSE_AFTER))
    return {"empty": not response}, response


@_operation
def op_ask(run: Run, step: Json) -> Json:
    """Send any request. Returns the names of all errors in the response."""
    response = run.ask(step["api"], step, versions(KEYS[step["api"]])[1], **step.get("fields", {}))
    return {"errors": [shown(code) for code in values(response, "errorCode")]}


@_operation
def op_exchange(run: Run, step: Json) -> Json:
    return exchange(run, step)


@_operation
def op_alter_scram(run: Run, step: Json) -> Json:
    upsertions = []
    for name, mechanism, iterations in step.get("upsert", []):
        digest = BY_NUMBER[mechanism].digest if mechanism in BY_NUMBER else "sha256"
        salted = hashlib.pbkdf2_hmac(digest, b"secret", b"salt", iterations)
        upsertions.append(
            {
                "name": run.name(name),
                "mechanism": mechanism,
                "iterations": iterations,
                "salt": b"salt",
                "salted_password": salted,
            }
        )
    deletions = [{"name": run.name(name), "mechanism": mechanism} for name, mechanism in step.get("delete", [])]
    response = run.ask("AlterUserScramCredentials", step, 0, upsertions=upsertions, deletions=deletions)
    names = {run.name(each[0]): each[0] for each in (*step.get("upsert", []), *step.get("delete", []))}
    results = [{"user": names[each.user], "error": shown(each.error_code)} for each in response.results]
    return {"results": sorted(results, key=lambda each: each["user"])}


@_operation
def op_describe_scram(run: Run, step: Json) -> Json:
    users = [{"name": run.name(name)} for name in step["users"]]
    response = run.ask("DescribeUserScramCredentials", step, 0, users=users)
    known = {run.name(name): name for name in step["users"]}
    results = [
        {"user": known[each.user], "error": shown(each.error_code),
         "credentials": sorted([info.mechanism, info.iterations] for info in each.credential_infos)}
        for each in response.results
    ]  # fmt: skip
    return {"error": shown(response.error_code), "results": sorted(results, key=lambda each: each["user"])}


# Connections and the broker itself


@_operation
def op_ping(run: Run, step: Json) -> Json:
    return {"error": shown(run.ask("ApiVersions", step, 0).error_code)}


@_operation
def op_api_versions(run: Run, step: Json) -> Json:
    software = {"client_software_name": step.get("name", "wirebroker"), "client_software_version": "1"}
    response = run.ask("ApiVersions", step, 3, **software)
    return {"error": shown(response.error_code), "n": len(response.api_keys)}


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
    client = run.client_of(step)
    client.send_raw(key, step["v"], bytes.fromhex(step.get("body_hex", "")), 1, connection)
    client.frame(connection, NO_RESPONSE_AFTER)
    return {"conn": "answered"}


@_operation
def op_raw_bytes(run: Run, step: Json) -> Json:
    client, connection = run.client_of(step), step.get("conn", "main")
    client.send_bytes(bytes.fromhex(step["hex"]), connection)
    client.frame(connection, NO_RESPONSE_AFTER)
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
    prepare(run)
    return {"restarted": mode}
