"""`wirebroker explain` reports every error because of which a client's work fails for good. It does not report an error after
which a retry succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from kafkawire.errors import RETRIABLE, ErrorCode
from kafkawire.messages import APIS
from requesting import fetch, init_producer_id, produce_request
from responses import sole
from wirebroker import MockKafka, faults
from wirebroker.trace.levels import Level
from wirebroker.trace.rows import ReplyRow, Row
from wirebroker_tools.explain.explanation import Explanation
from wirebroker_tools.explain.findings import Finding
from wirekit import batch, client

START, SECOND = 1_800_000_000_000, 1000
OF_CLUSTERS = {
    "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "AlterPartition", "Envelope",
    "AllocateProducerIds", "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState",
    "DeleteShareGroupState", "ReadShareGroupStateSummary", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot",
    "BrokerRegistration", "BrokerHeartbeat", "ControllerRegistration", "AssignReplicasToDirs", "UpdateRaftVoter",
}  # fmt: skip
"""The APIs that only brokers and controllers use."""
APIS_OF_CLIENTS = sorted({api.name for api in APIS.values()} - OF_CLUSTERS)
CODES = [code.name for code in ErrorCode if code] + ["UNKNOWN(9999)"]
GOES_ON = {code.name for code in RETRIABLE} | {
    "UNSUPPORTED_VERSION", "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID",
    "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "OFFSET_OUT_OF_RANGE", "OFFSET_MOVED_TO_TIERED_STORAGE",
    "DUPLICATE_SEQUENCE_NUMBER", "INVALID_RECORD_STATE", "UNKNOWN_SUBSCRIPTION_ID", "REBOOTSTRAP_REQUIRED",
    "STREAMS_INVALID_TOPOLOGY_EPOCH", "NEW_LEADER_ELECTED", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID",
    "INVALID_PRODUCER_EPOCH", "TRANSACTION_ABORTABLE",
}  # fmt: skip
"""The errors after which Kafka's own clients continue by themselves."""
LONG = {"CONCURRENT_TRANSACTIONS", "UNSTABLE_OFFSET_COMMIT"} | (GOES_ON - {code.name for code in RETRIABLE})
"""Errors that can last in a healthy cluster until a transaction or a rebalance ends."""
GROUP = {"GROUP_ID_NOT_FOUND"}
ANSWERS = {
    "CreateTopics": {"TOPIC_ALREADY_EXISTS"},
    "DescribeGroups": GROUP,
    "ConsumerGroupDescribe": GROUP,
    "ShareGroupDescribe": GROUP,
    "StreamsGroupDescribe": GROUP,
    "DescribeShareGroupOffsets": GROUP,
    "DeleteShareGroupOffsets": GROUP,
    "DeleteGroups": GROUP,
    "OffsetDelete": GROUP,
    "DescribeTransactions": {"TRANSACTIONAL_ID_NOT_FOUND"},
    "DescribeUserScramCredentials": {"RESOURCE_NOT_FOUND"},
    "AlterUserScramCredentials": {"RESOURCE_NOT_FOUND"},
    "DescribeAcls": {"SECURITY_DISABLED"},
    "DeleteAcls": {"SECURITY_DISABLED"},
    "DescribeDelegationToken": {"DELEGATION_TOKEN_AUTH_DISABLED"},
    "ExpireDelegationToken": {"DELEGATION_TOKEN_NOT_FOUND"},
    "AlterPartitionReassignments": {"NO_REASSIGNMENT_IN_PROGRESS"},
    "ApiVersions": {"UNSUPPORTED_VERSION"},
}
"""These errors tell an administrator that there is nothing to do or to show. A client first sends its newest version of
ApiVersions, which the broker may not know."""


def reply(api: str, client: int, second: float, *errors: str, about: tuple[str, ...] = ("orders-0",)) -> ReplyRow:
    return ReplyRow(
        START + int(second * SECOND), 1, client, f"client-{client}", "", api, 9, 1, 50, 0, errors, about,
        principal="User:ANONYMOUS", client_host="10.0.0.1",
    )  # fmt: skip


def explained(rows: Iterator[Row] | list[Row]) -> list[Finding]:
    return Explanation().take_all(sorted(rows, key=lambda row: row.time)).findings()


def codes_found(api: str, rows: Callable[[str, int, str], list[ReplyRow]]) -> set[str]:
    """For each error, makes the rows of one client that gets this error. Returns the errors for which `explain` has a
    finding.
    """
    found = explained([row for client, code in enumerate(CODES, 1) for row in rows(api, client, code)])
    return {CODES[int(name.removeprefix("client-")) - 1] for each in found for name in each.as_json()["about"]["client"]}


def between_successes(api: str, client: int, code: str) -> list[ReplyRow]:
    return [reply(api, client, 0), reply(api, client, 1, code), reply(api, client, 2)]


def without_end(api: str, client: int, code: str) -> list[ReplyRow]:
    every = 5 if code not in LONG else 201
    return [reply(api, client, 0), *(reply(api, client, 1 + every * step, code) for step in range(4))]


def test_an_error_that_refuses_for_good_is_found_although_others_succeed() -> None:
    missed, wrong = {}, {}
    for api in APIS_OF_CLIENTS:
        found = codes_found(api, between_successes)
        healthy = GOES_ON | ANSWERS.get(api, set())
        missed[api] = set(CODES) - healthy - found
        wrong[api] = found & healthy - ({"UNSUPPORTED_VERSION"} - ANSWERS.get(api, set()))
    assert {api: codes for api, codes in missed.items() if codes} == {}, "not found"
    assert {api: codes for api, codes in wrong.items() if codes} == {}, "found, although it has healed"


def test_an_error_that_never_ends_is_found_however_rare() -> None:
    missed = {api: set(CODES) - codes_found(api, without_end) - ANSWERS.get(api, set()) for api in APIS_OF_CLIENTS}
    assert {api: codes for api, codes in missed.items() if codes} == {}


@pytest.mark.parametrize("api", ["Produce", "AddPartitionsToTxn", "EndTxn", "TxnOffsetCommit", "InitProducerId"])
def test_a_write_that_its_client_gives_up_is_found(api: str) -> None:
    retried = [code.name for code in RETRIABLE]
    for code in retried:
        failed, other = reply(api, 1, 1, code), reply("Metadata", 2, 60)
        assert [each.kind for each in explained([failed, other])] == ["denied"], code
        assert explained([failed, reply(api, 1, 2), other]) == [], code
        assert explained([failed, reply(api, 1, 2, about=("other-0",)), other]), code
        sibling = replace(reply(api, 2, 2), client_id="client-1")
        assert explained([failed, sibling, other]), "another client with the same id succeeded"


# On the wire


def told(kafka: MockKafka) -> list[tuple[str, str]]:
    return [(each.kind, f"{each.sentence} {each.cause}") for each in kafka.trace.explain()]


def test_acks_that_kafka_does_not_have() -> None:
    with MockKafka(topics={"orders": 1}, trace="all") as kafka:
        client(kafka).request(produce_request("orders", batch(), acks=2), 9)
        ((kind, text),) = told(kafka)
    assert kind == "denied"
    assert "INVALID_REQUIRED_ACKS from Produce for orders-0 once" in text
    assert "acks has a value that Kafka does not have" in text


@pytest.mark.parametrize("level", ["verdicts", "exchanges", "all"])
def test_a_refused_batch_of_a_producer_that_gets_no_response(level: Level) -> None:
    topic = {"partitions": 1, "configs": {"max.message.bytes": 100}}
    with MockKafka(topics={"orders": topic}, trace=level) as kafka:
        client(kafka).send(produce_request("orders", batch(tag="x" * 500), acks=0), 9)
        kafka.wait_until(lambda: bool(kafka.trace.where("verdict=rejected")))
        ((kind, text),) = told(kafka)
    assert kind == "denied"
    assert "MESSAGE_TOO_LARGE from Produce for orders-0 once" in text
    assert "1 record is lost" in text


def test_a_batch_that_its_producer_splits_is_not_lost() -> None:
    topic = {"partitions": 1, "configs": {"max.message.bytes": 300}}
    with MockKafka(topics={"orders": topic}, trace="all") as kafka:
        wire = client(kafka)
        who = wire.request(init_producer_id(None), 4)
        for count, kinds in ((2, ["denied"]), (1, [])):
            records = batch(0, count, pid=who.producer_id, epoch=who.producer_epoch, tag="x" * 200)
            wire.request(produce_request("orders", records), 9)
            assert [kind for kind, _ in told(kafka)] == kinds


def test_a_topic_that_was_made_again() -> None:
    with MockKafka(topics={"orders": 1}, trace="all") as kafka:
        wire = client(kafka)
        for _ in range(2):
            wire.request(produce_request("orders", batch()), 9)
        kafka.delete_topic("orders")
        wire.request(fetch(1), 12)
        assert told(kafka) == [], "the client may notice it by itself"
        kafka.create_topic("orders", partitions=1)
        for offset, error in ((0, ErrorCode.NONE), (1, ErrorCode.OFFSET_OUT_OF_RANGE)):
            assert sole(sole(wire.request(fetch(offset), 12).responses).partitions).error_code == error
            ((kind, text),) = told(kafka)
            assert kind == "denied"
            assert "Topic orders was deleted at" in text
            assert "and made again at" in text
            assert "belong to the deleted topic" in text


def test_a_fence_without_a_successor() -> None:
    with MockKafka(topics={"orders": 1}, trace="all") as kafka:
        kafka.faults.add(faults.error("PRODUCER_FENCED", api="Produce"))
        client(kafka).request(produce_request("orders", batch()), 9)
        ((kind, text),) = told(kafka)
    assert kind == "denied"
    assert "PRODUCER_FENCED from Produce" in text
    assert "A fault caused it" in text
