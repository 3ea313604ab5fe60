"""Rules of earlier releases, found by playing random dialogues on real brokers of 2.8, 3.9 and 4.0."""

from __future__ import annotations

from typing import Any

import pytest

from requesting import plain
from responses import only
from wirebroker.client.wire import WireClient
from wirebroker.mock import MockKafka
from wirekit import client

TOPIC, SET = 2, 0


def ready(wire: WireClient) -> WireClient:
    """Waits until the coordinators of the group `g` and of the transactional id `t` are available. Returns the client."""
    for key, kind in (("g", 0), ("t", 1)):
        while wire.request(plain("FindCoordinator", key=key, key_type=kind), 3).error_code:
            pass
    return wire


def asked(profile: str, *requests: tuple[Any, int]) -> list[Any]:
    """Sends requests to a broker with the topic `orders` and available coordinators. Returns the responses."""
    with MockKafka(profile=profile, topics={"orders": 1}, clock="frozen") as kafka:  # type: ignore[arg-type]
        wire = ready(client(kafka))
        return [wire.request(request, version) for request, version in requests]


def altered(topic: str, name: str, value: str | None) -> dict[str, Any]:
    return {"resource_type": TOPIC, "resource_name": topic, "configs": [{"name": name, "value": value}]}


@pytest.mark.parametrize(
    ("topic", "name", "value", "zookeeper", "kraft"),
    [("orders", "retention.ms", "x", 42, 40), ("none", "retention.ms", "x", 3, 40), ("orders", "no.such", "1", 40, 40),
     ("orders", "retention.ms", None, -1, 42)],
)  # fmt: skip
def test_zookeepers_brokers_check_settings_themselves(
    topic: str, name: str, value: str | None, zookeeper: int, kraft: int
) -> None:
    request = plain("AlterConfigs", resources=[altered(topic, name, value)], validate_only=False), 1
    for profile, code in (("kafka-2.8", zookeeper), ("kafka-3.3", kraft)):
        (response,) = asked(profile, request)
        assert response.responses[0].error_code == code, profile


@pytest.mark.parametrize(("profile", "codes"), [("kafka-2.8", (0, [42])), ("kafka-3.3", (95, []))])
def test_zookeepers_brokers_refuse_each_feature(profile: str, codes: tuple[int, list[int]]) -> None:
    update = {"feature": "nope", "max_version_level": 1, "allow_downgrade": False}
    (response,) = asked(profile, (plain("UpdateFeatures", timeout_ms=1000, feature_updates=[update]), 0))
    assert (response.error_code, [each.error_code for each in response.results]) == codes


@pytest.mark.parametrize(("profile", "told"), [("kafka-2.8", (True, None)), ("kafka-3.3", (False, "text"))])
def test_messages_about_unknown_topics(profile: str, told: tuple[bool, str | None]) -> None:
    grown, deleted = asked(
        profile,
        (plain("CreatePartitions", topics=[{"name": "none", "count": 2}], timeout_ms=1000, validate_only=False), 2),
        (plain("DeleteTopics", topics=[{"name": "none"}], timeout_ms=1000), 6),
    )
    assert (grown.results[0].error_message is not None, deleted.responses[0].error_message and "text") == told


@pytest.mark.parametrize(("profile", "code"), [("kafka-3.9", 0), ("kafka-4.0", 69)])
def test_a_refused_commit_creates_the_group_before_4_0(profile: str, code: int) -> None:
    offsets = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]
    commit = plain("TxnOffsetCommit", transactional_id="t", group_id="g", producer_id=7, producer_epoch=0, topics=offsets)
    deletion = plain("OffsetDelete", group_id="g", topics=[{"name": "orders", "partitions": [{"partition_index": 0}]}])
    refused, deleted = asked(profile, (commit, 3), (deletion, 0))
    assert only(refused).error_code
    assert deleted.error_code == code


@pytest.mark.parametrize(("profile", "known"), [("kafka-4.0", True), ("kafka-4.1", False)])
def test_the_start_of_the_last_transaction_is_told_before_4_1(profile: str, known: bool) -> None:
    initialized = plain("InitProducerId", transactional_id="t", transaction_timeout_ms=60_000)
    with MockKafka(profile=profile, topics={"orders": 1}) as kafka:  # type: ignore[arg-type]
        wire = ready(client(kafka))
        producer = wire.request(initialized, 4)
        who = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        begun = {f"v3_and_below_{name}": value for name, value in who.items()} | {"v3_and_below_transactional_id": "t"}
        begun["v3_and_below_topics"] = [{"name": "orders", "partitions": [0]}]
        wire.request(plain("AddPartitionsToTxn", **begun), 3)
        wire.request(plain("EndTxn", transactional_id="t", committed=True, **who), 3)
        assert wire.request(initialized, 4).error_code == 0
        (state,) = wire.request(plain("DescribeTransactions", transactional_ids=["t"]), 0).transaction_states
    assert (state.transaction_state, state.transaction_start_time_ms >= 0) == ("Empty", known)


@pytest.mark.parametrize(("profile", "offset"), [("kafka-2.8", 0), ("kafka-4.4", -1)])
def test_a_negative_time_is_a_time_unless_it_stands_for_an_offset(profile: str, offset: int) -> None:
    with MockKafka(profile=profile, topics={"orders": 1}) as kafka:  # type: ignore[arg-type]
        kafka.produce("orders", value=b"v")
        parts = [{"partition_index": 0, "timestamp": -6, "current_leader_epoch": -1}]
        wanted = plain("ListOffsets", replica_id=-1, isolation_level=0, topics=[{"name": "orders", "partitions": parts}])
        response = client(kafka).request(wanted, 5 if offset == 0 else 11)
    assert only(response).offset == offset
