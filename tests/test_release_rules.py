"""Rules of earlier releases. They were found with random dialogues on real brokers of 2.8, 3.9 and 4.0."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Any

import pytest

from actors import TransactionalProducer
from inprocess import InProcess
from kafkawire.batches import Record, build_batch
from kafkawire.errors import ErrorCode
from kafkawire.frames import SIZE
from kafkawire.primitives import format_uuid
from requesting import (
    add_partitions,
    create_topics,
    delete_records,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    list_offsets,
    named,
    offset_commit,
    offset_delete,
    offset_fetch,
    plain,
    produce_request,
    sync_group,
    txn_offset_commit,
)
from responses import only, sole
from wirebroker.client.wire import Connection, ConnectionClosed, NoResponse, address_of
from wirebroker.mock import MockKafka
from wirebroker.requests.authentication import Ignoring
from wirekit import batch, client

TOPIC, LOGGERS, SET = 2, 8, 0
Ask = Callable[[Any, int], Any]
WAITS, WRONG_STATE, FENCED = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH


def broker(profile: str) -> InProcess:
    """Returns a broker with the topic `orders` and available coordinators."""
    return InProcess(profile=profile, topics={"orders": 1}, warm=True)


def asked(profile: str, *requests: tuple[Any, int]) -> list[Any]:
    """Sends requests to a new `broker`. Returns the responses."""
    wire = client(broker(profile))
    return [wire.request(request, version) for request, version in requests]


def by_release(told: dict[str, Any]) -> pytest.MarkDecorator:
    """Runs a test with each profile. `told` has what its clients are told."""
    return pytest.mark.parametrize(("profile", "told"), told.items())


@pytest.fixture
def ask(profile: str) -> Ask:
    """Sends a request to a new `broker`."""
    return client(broker(profile)).request


def altered(topic: str, name: str, value: str | None, **fields: int) -> dict[str, Any]:
    return {"resource_type": TOPIC, "resource_name": topic, "configs": [{"name": name, "value": value, **fields}]}


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


@by_release({"kafka-3.0": (0, "2"), "kafka-3.3": (42, "604800000")})
def test_a_setting_given_twice(ask: Ask, told: tuple[int, str]) -> None:
    """librdkafka's test 0092 gives message.format.version twice, and passes on Kafka 2.8."""
    resource = {"resource_type": TOPIC, "resource_name": "orders"}
    configs = [{"name": "retention.ms", "value": value} for value in ("1", "2")]
    changed = ask(plain("AlterConfigs", resources=[resource | {"configs": configs}], validate_only=False), 1)
    described = ask(plain("DescribeConfigs", resources=[resource | {"configuration_keys": ["retention.ms"]}]), 1)
    assert (changed.responses[0].error_code, described.results[0].configs[0].value) == told


@by_release({"kafka-2.6": (-1, None), "kafka-2.7": (3, "")})
def test_the_settings_of_an_unknown_topic_in_zookeeper(ask: Ask, told: tuple[int, str | None]) -> None:
    response = ask(plain("AlterConfigs", resources=[altered("none", "retention.ms", "1")], validate_only=False), 1)
    none = {"resource_type": TOPIC, "resource_name": "none", "configuration_keys": None}
    (shown,) = ask(plain("DescribeConfigs", resources=[none]), 1).results
    assert (response.responses[0].error_code, shown.error_message) == told
    assert shown.error_code == 3


@by_release({"kafka-1.1": -1, "kafka-2.1": ConnectionClosed, "kafka-2.5": ConnectionClosed, "kafka-2.6": -1})
def test_a_setting_without_a_value(ask: Ask, told: Any) -> None:
    with nullcontext() if told == -1 else pytest.raises(told):
        response = ask(plain("AlterConfigs", resources=[altered("orders", "retention.ms", None)], validate_only=False), 0)
        assert response.responses[0].error_code == told


@by_release({"kafka-2.4": [], "kafka-2.5": [75]})
def test_the_leader_epoch_of_a_partition_in_a_fetch_session(ask: Ask, told: list[int]) -> None:
    def fetched(leader_epoch: int, **session: int) -> Any:
        return ask(fetch(part={"current_leader_epoch": leader_epoch}, **session), 11)

    opened = fetched(-1, session_epoch=0)
    responses = fetched(9, session_id=opened.session_id, session_epoch=1).responses
    assert [each.error_code for topic in responses for each in topic.partitions] == told


@by_release({"kafka-2.1": 37, "kafka-2.3": 36})
def test_the_first_check_of_a_new_topic_before_2_3(ask: Ask, told: int) -> None:
    assert ask(create_topics(new_topic("orders", num_partitions=0)), 2).topics[0].error_code == told


@by_release({"kafka-1.1": (0, 1), "kafka-2.1": (3, 0)})
def test_the_settings_of_an_unknown_topic_before_2_0(ask: Ask, told: tuple[int, int]) -> None:
    none = {"resource_type": TOPIC, "resource_name": "none", "configuration_keys": ["retention.ms"]}
    (found,) = ask(plain("DescribeConfigs", resources=[none]), 1).results
    assert (found.error_code, len(found.configs)) == told


@by_release({"kafka-2.1": -1, "kafka-2.3": 0})
def test_the_leader_epoch_of_an_offset_before_2_3(ask: Ask, told: int) -> None:
    assert only(ask(produce_request("orders", batch()), 7)).error_code == 0
    assert only(ask(list_offsets(-1), 4)).leader_epoch == told


@by_release({"kafka-2.4": 1, "kafka-2.5": 0})
def test_aborted_transactions_after_the_last_stable_offset(ask: Ask, told: int) -> None:
    for txid, ends in (("t", False), ("u", True)):
        who = begun(ask, txid)
        data = batch(0, pid=who[0], epoch=who[1], transactional=True)
        assert only(ask(produce_request("orders", data, txid=txid), 3)).error_code == 0
        if ends:
            ask(end_txn(txid, who, False), 1)
    assert len(only(ask(fetch(isolation_level=1), 4)).aborted_transactions) == told


def begun(ask: Ask, txid: str = "t", version: int = 1, timeout_ms: int = 60_000) -> tuple[int, int]:
    """Begins a transaction with a partition. Returns the producer's id and epoch."""
    producer = ask(init_producer_id(txid, timeout_ms), version)
    who = producer.producer_id, producer.producer_epoch
    assert only(ask(add_partitions(txid, who), min(version, 3))).partition_error_code == 0
    return who


@by_release({"kafka-2.7": [17, 3], "kafka-2.8": [17, 17]})
def test_metadata_of_a_topic_with_an_invalid_name(ask: Ask, told: list[int]) -> None:
    requests = [plain("Metadata", topics=[{"name": "."}], allow_auto_topic_creation=each) for each in (True, False)]
    assert [ask(request, 4).topics[0].error_code for request in requests] == told


@by_release({"kafka-3.8": 0, "kafka-3.9": 35})
def test_a_special_time_in_an_older_version_of_list_offsets(ask: Ask, told: int) -> None:
    assert only(ask(list_offsets(-3), 6)).error_code == told


@by_release({"kafka-2.7": (0, None), "kafka-2.8": (0, "")})
def test_the_message_of_described_quotas(ask: Ask, told: tuple[int, str | None]) -> None:
    response = ask(*quotas_of(("user", 0, "u")))
    assert (response.error_code, response.error_message) == told


@by_release({"kafka-2.7": 1, "kafka-2.8": 0})
def test_an_aborted_transaction_without_batches(ask: Ask, told: int) -> None:
    ask(end_txn("t", begun(ask), False), 1)
    assert len(only(ask(fetch(wait_ms=500, isolation_level=1), 4)).aborted_transactions) == told


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
@pytest.mark.parametrize("kind", [0, 16, 32, 99])
def test_zookeepers_brokers_do_not_name_a_kind_of_resource_that_came_later(api: str, kind: int) -> None:
    """A real 2.8 sends the expected message if the Java client alters a group's settings (kind 32)."""
    configs = [{"name": "share.auto.offset.reset", "value": "earliest"}]
    resource = {"resource_type": kind, "resource_name": "g", "configs": configs}
    (response,) = asked("kafka-2.8", (plain(api, resources=[resource], validate_only=False), 1))
    (found,) = response.responses
    assert (found.error_code, found.error_message) == (42, "Unexpected resource type UNKNOWN")


def test_zookeepers_brokers_alter_loggers_only_incrementally() -> None:
    resource = {"resource_type": LOGGERS, "resource_name": "1", "configs": [{"name": "kafka", "value": "INFO"}]}
    (response,) = asked("kafka-2.8", (plain("AlterConfigs", resources=[resource], validate_only=False), 1))
    (found,) = response.responses
    message = "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
    assert (found.error_code, found.error_message) == (42, message)


@by_release({"kafka-2.8": (0, [42]), "kafka-3.3": (0, [95]), "kafka-4.0": (95, [])})
def test_brokers_before_4_0_refuse_each_feature(ask: Ask, told: tuple[int, list[int]]) -> None:
    update = {"feature": "nope", "max_version_level": 1, "allow_downgrade": False}
    response = ask(plain("UpdateFeatures", timeout_ms=1000, feature_updates=[update]), 0)
    assert (response.error_code, codes(response)) == told


@by_release({"kafka-3.0": False, "kafka-3.3": True, "kafka-3.5": True})
def test_kraft_shows_internal_settings_of_a_new_topic_before_3_6(ask: Ask, told: bool) -> None:
    (created,) = ask(create_topics(new_topic("t")), 5).topics
    resource = {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None}
    (described,) = ask(plain("DescribeConfigs", resources=[resource]), 4).results
    shown = ["local.retention.ms" in [each.name for each in one.configs] for one in (created, described)]
    assert shown == [told, False]


UNKNOWN = "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."
LOWER = "Refusing to perform the requested downgrade because it might delete metadata information."


def _updated(profile: str, *updates: tuple[str, int, int]) -> tuple[Any, dict[str, int]]:
    """Returns the response to `updates` (feature, level, type), and the levels after the updates."""
    named = [dict(zip(("feature", "max_version_level", "upgrade_type"), each, strict=True)) for each in updates]
    about = plain("ApiVersions", client_software_name="test", client_software_version="1")
    response, versions = asked(profile, (plain("UpdateFeatures", timeout_ms=1000, feature_updates=named), 1), (about, 3))
    return response, {each.name: each.max_version_level for each in versions.finalized_features}


def test_a_refused_update_does_not_prevent_the_others_before_4_0() -> None:
    response, levels = _updated("kafka-3.9", ("nope", 1, 1), ("metadata.version", 19, 2))
    assert (response.error_code, response.error_message) == (0, "")
    told = [(each.feature, each.error_code, each.error_message) for each in response.results]
    assert told == [("metadata.version", 0, None), ("nope", 95, UNKNOWN)]
    assert levels["metadata.version"] == 19


def test_updates_are_refused_in_the_order_of_javas_hash_map() -> None:
    response, levels = _updated("kafka-4.1", ("metadata.version", 25, 2), ("b", 1, 1), ("ec", 1, 1), ("b", -1, 1))
    assert "update version -1 for feature b." in response.error_message
    assert levels["metadata.version"] == 27


@pytest.mark.parametrize(
    ("profile", "level", "words"),
    [
        ("kafka-3.6", 13, f"Invalid metadata.version 13. {LOWER} Retry using UNSAFE_DOWNGRADE if you want"),
        ("kafka-3.7", 16, f"Invalid metadata.version 16. {LOWER}"),
        ("kafka-3.9", 3, "Invalid metadata.version 3. Unable to set a metadata.version less than 3.3-IV0"),
        ("kafka-4.1", 22, f"Invalid metadata.version 22. {LOWER}"),
        ("kafka-4.2", 22, f"Unsupported metadata.version downgrade from 29 to 22. {LOWER}"),
    ],
)
def test_a_lower_level_of_metadata_is_refused_only_if_metadata_has_changed(profile: str, level: int, words: str) -> None:
    response, _ = _updated(profile, ("metadata.version", level, 2))
    told = response.results[0].error_message if response.results else response.error_message
    assert words in told
    allowed, _ = _updated(profile, ("metadata.version", max(level, 16) + 1, 2))
    assert (allowed.error_code, [each.error_code for each in allowed.results]) == (0, [0]) or profile == "kafka-3.6"


@by_release({"kafka-3.7": [48], "kafka-3.8": [120]})
def test_a_partition_outside_of_a_transaction_is_error_48_before_3_8(ask: Ask, told: list[int]) -> None:
    producer = ask(init_producer_id("t"), 4)
    entry = {
        "transactional_id": "t", "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch,
        "verify_only": True, "topics": [{"name": "orders", "partitions": [0]}],
    }  # fmt: skip
    (found,) = ask(plain("AddPartitionsToTxn", transactions=[entry]), 4).results_by_transaction
    assert [each.partition_error_code for each in found.topic_results[0].results_by_partition] == told


@by_release({"kafka-3.9": [0, 0], "kafka-4.0": [0, 47]})
def test_a_newer_epoch_may_write_in_an_open_transaction_before_4_0(ask: Ask, told: list[int]) -> None:
    pid, epoch = begun(ask, version=4)
    written = (batch(0, pid=pid, epoch=epoch + more, transactional=True) for more in (0, 1))
    assert [only(ask(produce_request("orders", each, txid="t"), 8)).error_code for each in written] == told


@by_release({"kafka-3.6": [95], "kafka-3.7": [0]})
def test_an_unknown_feature_may_go_to_level_0_from_3_7_on(profile: str, told: list[int]) -> None:
    assert codes(_updated(profile, ("nope", 0, 2))[0]) == told


@by_release({"kafka-4.0": 95, "kafka-4.1": 0, "kafka-4.2": 0})
def test_streams_version_may_go_to_level_0_from_4_1_on(profile: str, told: int) -> None:
    assert _updated(profile, ("streams.version", 0, 2))[0].error_code == told


@by_release({"kafka-2.8": (True, None), "kafka-3.3": (False, "text")})
def test_messages_about_unknown_topics(ask: Ask, told: tuple[bool, str | None]) -> None:
    grown = ask(plain("CreatePartitions", topics=[{"name": "none", "count": 2}], timeout_ms=1000, validate_only=False), 2)
    deleted = ask(plain("DeleteTopics", topics=[{"name": "none"}], timeout_ms=1000), 6)
    assert (grown.results[0].error_message is not None, deleted.responses[0].error_message and "text") == told


@by_release({"kafka-3.9": 0, "kafka-4.0": 69})
def test_a_refused_commit_creates_the_group_before_4_0(ask: Ask, told: int) -> None:
    assert only(ask(txn_offset_commit("t", (7, 0), "g", 1), 3)).error_code
    assert ask(offset_delete("g"), 0).error_code == told


@by_release({"kafka-4.0": True, "kafka-4.1": False})
def test_the_start_of_the_last_transaction_is_told_before_4_1(ask: Ask, told: bool) -> None:
    ask(end_txn("t", begun(ask, version=4), True), 3)
    assert ask(init_producer_id("t"), 4).error_code == 0
    (state,) = ask(plain("DescribeTransactions", transactional_ids=["t"]), 0).transaction_states
    assert (state.transaction_state, state.transaction_start_time_ms >= 0) == ("Empty", told)


@by_release({"kafka-2.8": 0, "kafka-3.8": 0, "kafka-3.9": -1, "kafka-4.4": -1})
def test_a_negative_time_is_a_time_unless_it_stands_for_an_offset(ask: Ask, told: int) -> None:
    assert only(ask(produce_request("orders", batch()), 7)).error_code == 0
    assert only(ask(list_offsets(-6), 5)).offset == told


def new_topic(name: str, *assigned: list[int], settings: tuple[tuple[str, str | None], ...] = (), **counts: int) -> Any:
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1} | counts
    topic["assignments"] = [{"partition_index": i, "broker_ids": each} for i, each in enumerate(assigned)]
    topic["configs"] = [{"name": name, "value": value} for name, value in settings]
    return topic


def created(*topics: Any, timeout_ms: int = 1000) -> tuple[Any, int]:
    return plain("CreateTopics", topics=list(topics), timeout_ms=timeout_ms, validate_only=False), 3


def codes(response: Any) -> list[int]:
    (results,) = (getattr(response, name) for name in ("topics", "results", "responses") if hasattr(response, name))
    return [each.error_code for each in results]


ONE, FIVE = {"num_partitions": 1, "replication_factor": 1}, {"num_partitions": 1, "replication_factor": 5}


@by_release({
    "kafka-2.3": [38, 40, -1, 37, 7, 0], "kafka-2.5": [38, 40, -1, 0, 7, 0], "kafka-2.6": [38, 40, 42, 0, 7, 0],
    "kafka-2.8": [38, 38, 42, 0, 7, 0], "kafka-3.3": [17, 40, 40, 0, 39, 39],
})  # fmt: skip
def test_new_topics_are_checked_in_the_order_of_the_release(ask: Ask, told: list[int]) -> None:
    topics = [
        new_topic("bad name", **FIVE), new_topic("a", settings=(("retention.ms", "x"),), **FIVE),
        new_topic("b", settings=(("retention.ms", None),), **ONE), new_topic("default"), new_topic("elsewhere", [7]),
        new_topic("half", [1, 7]),
    ]  # fmt: skip
    assert codes(ask(*created(*topics))) == told


@by_release({"kafka-2.8": [7, 36, 7, 36], "kafka-3.3": [39, 0, 7, 0]})
def test_zookeepers_brokers_keep_topics_whose_time_is_over(ask: Ask, told: list[int]) -> None:
    late = created(new_topic("b", **ONE), timeout_ms=0)
    requests = (created(new_topic("a", [7])), created(new_topic("a", **ONE)), late, created(new_topic("b", **ONE)))
    assert [code for request in requests for code in codes(ask(*request))] == told


@by_release({"kafka-3.0": ["delete"] * 2, "kafka-3.3": ["compact", "delete"], "kafka-3.4": ["delete"] * 2})
def test_the_settings_of_a_topic_whose_assignment_was_refused(ask: Ask, told: list[str]) -> None:
    compacted = new_topic("a", settings=(("cleanup.policy", "compact"),))
    refused = compacted | {"assignments": [{"partition_index": 1, "broker_ids": [1]}]}
    assert codes(ask(*created(refused))) == [39]
    assert codes(ask(create_topics(refused | {"name": "b"}, validate_only=True), 3)) == [39]
    ask(*created(new_topic("a", **ONE), new_topic("b", **ONE)))
    described = ask(plain("DescribeConfigs", resources=[policy_of("a"), policy_of("b")]), 1)
    assert [each.configs[0].value for each in described.results] == told


def policy_of(topic: str) -> dict[str, Any]:
    return {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["cleanup.policy"]}


@by_release({"kafka-2.6": [["cleanup.policy"]], "kafka-2.7": [["retention.ms"], ["cleanup.policy"]]})
def test_a_resource_that_describe_configs_names_twice(ask: Ask, told: list[list[str]]) -> None:
    resources = [policy_of("orders") | {"configuration_keys": ["retention.ms"]}, policy_of("orders")]
    described = ask(plain("DescribeConfigs", resources=resources), 1)
    assert [[config.name for config in each.configs] for each in described.results] == told


@by_release({"kafka-2.5": True, "kafka-2.6": False})
def test_the_message_about_a_topic_that_zookeeper_cannot_name(ask: Ask, told: bool) -> None:
    more = [{"name": ".", "count": 2, "assignments": None}]
    response = ask(plain("CreatePartitions", topics=more, timeout_ms=1000), 0)
    assert (codes(response), bool(response.results[0].error_message)) == ([-1], told)


@by_release({"kafka-3.0": False, "kafka-3.3": True})
def test_the_id_of_a_topic_that_is_only_validated(ask: Ask, told: bool) -> None:
    response = ask(create_topics({"name": "a", **ONE}, validate_only=True), 7)
    assert (codes(response), any(response.topics[0].topic_id)) == ([0], told)


@by_release({"kafka-2.1": ([42], [0]), "kafka-2.8": ([42, 42], [0, 0]), "kafka-3.3": ([42], [42])})
def test_results_for_a_topic_that_is_named_twice(ask: Ask, told: tuple[list[int], list[int]]) -> None:
    refused = ask(*created(new_topic("a"), new_topic("a")))
    deleted = ask(plain("DeleteTopics", topic_names=["orders", "orders"], timeout_ms=1000), 3)
    assert (codes(refused), codes(deleted)) == told


@pytest.mark.parametrize(
    ("profile", "operation", "value"),
    [("kafka-2.8", 2, "compact,compact"), ("kafka-3.3", 2, "compact"), ("kafka-4.1", SET, "compact,compact"),
     ("kafka-4.2", SET, "compact")],
)  # fmt: skip
def test_a_list_with_an_item_twice(ask: Ask, operation: int, value: str) -> None:
    for how, item in ((SET, "compact"), (operation, "compact" if operation else "compact,compact")):
        changed = {"name": "cleanup.policy", "config_operation": how, "value": item}
        resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [changed]}
        ask(plain("IncrementalAlterConfigs", resources=[resource]), 0)
    described = ask(plain("DescribeConfigs", resources=[policy_of("orders")]), 1)
    assert described.results[0].configs[0].value == value


@by_release({"kafka-4.0": [0], "kafka-4.1": [0], "kafka-4.2": [40]})
def test_empty_items_of_a_list(ask: Ask, told: list[int]) -> None:
    changed = {"name": "metrics", "config_operation": SET, "value": ","}
    resource = {"resource_type": 16, "resource_name": "s", "configs": [changed]}
    assert codes(ask(plain("IncrementalAlterConfigs", resources=[resource]), 1)) == told


@pytest.mark.parametrize(("count", "code"), [(1, 37), (2, 3)])
def test_a_topic_without_brokers_has_partitions_in_zookeeper(count: int, code: int) -> None:
    more = [{"name": "a", "count": count, "assignments": None}]
    _, response = asked("kafka-2.8", created(new_topic("a", [7])), (plain("CreatePartitions", topics=more, timeout_ms=1000), 1))
    assert codes(response) == [code]


@by_release({"kafka-2.8": ([7, 3], [0]), "kafka-3.3": ([7, 7], [36])})
def test_zookeepers_brokers_delete_topics_whose_time_is_over(ask: Ask, told: tuple[list[int], list[int]]) -> None:
    late = ask(plain("DeleteTopics", topic_names=["orders", "none"], timeout_ms=0), 3)
    assert (codes(late), codes(ask(*created(new_topic("orders", **ONE))))) == told


@pytest.mark.parametrize("name", [".", "", "a//b", "a/", "\x01", "\uf8ff", "a/b", "none"])
def test_names_that_zookeeper_cannot_have_in_a_path(name: str) -> None:
    is_path = name in ("a/b", "none")
    more = [{"name": each, "count": 2, "assignments": None} for each in (name, "orders")]
    change = {"name": "retention.ms", "config_operation": 0, "value": "1"}
    altered = plain("IncrementalAlterConfigs", resources=[{"resource_type": TOPIC, "resource_name": name, "configs": [change]}])
    grown, refused = asked("kafka-2.8", (plain("CreatePartitions", topics=more, timeout_ms=1000), 1), (altered, 0))
    assert codes(grown) == ([3, 0] if is_path else [-1, -1])
    assert codes(refused) == [3 if is_path else 42]


@by_release({"kafka-2.8": [-1, 0], "kafka-3.3": [-1, -1]})
def test_an_unknown_operation_fails_its_resource_with_zookeeper(ask: Ask, told: list[int]) -> None:
    resources = [
        altered(name, "retention.ms", "1", config_operation=operation) for name, operation in (("orders", 9), ("others", 1))
    ]
    ask(*created(new_topic("others", **ONE)))
    assert codes(ask(plain("IncrementalAlterConfigs", resources=resources), 0)) == told


def quota(kind: str, name: str, *changes: tuple[str, float | None]) -> tuple[Any, int]:
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes]
    entries = [{"entity": [{"entity_type": kind, "entity_name": name}], "ops": ops}]
    return plain("AlterClientQuotas", entries=entries, validate_only=False), 0


def quotas_of(*parts: tuple[str, int, str | None]) -> tuple[Any, int]:
    components = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in parts]
    return plain("DescribeClientQuotas", components=components, strict=False), 0


@by_release({"kafka-2.8": [100.0, 0.0], "kafka-3.3": [100.0000005]})
def test_zookeeper_keeps_whole_rates(ask: Ask, told: list[float]) -> None:
    changes = [("producer_byte_rate", 100.0000005)] + ([("consumer_byte_rate", math.nan)] if len(told) > 1 else [])
    ask(*quota("user", "u", *changes))
    assert [each.value for each in ask(*quotas_of(("user", 0, "u"))).entries[0].values] == told


@by_release({"kafka-2.8": 42, "kafka-3.3": 0})
def test_zookeeper_keeps_no_quotas_of_ipv6_addresses(ask: Ask, told: int) -> None:
    assert ask(*quota("ip", "::1", ("connection_creation_rate", 3.0))).entries[0].error_code == told


def test_zookeepers_brokers_change_quotas_one_by_one() -> None:
    rate = "producer_byte_rate"
    changes = quota("user", "u", (rate, 1.5), (rate, 2.0)), quota("user", "u", (rate, 2.0), (rate, None))
    wrong, removed, described = asked("kafka-2.8", *changes, quotas_of(("user", 0, "u")))
    assert [each.entries[0].error_code for each in (wrong, removed)] == [42, 0]
    assert described.entries == []


@pytest.mark.parametrize("parts", [(("user", 0, "a"), ("user", 0, None)), (("", 0, "a"), ("user", 7, None))])
def test_an_unreadable_filter_fails_before_its_parts_are_checked(parts: tuple[Any, ...]) -> None:
    for profile, code in (("kafka-2.8", -1), ("kafka-3.3", 42)):
        (response,) = asked(profile, quotas_of(*parts))
        assert response.error_code == code, profile


@by_release({
    "kafka-2.3": ([2, 3, 4, 11, 13], [0, 1, 6, 8, 10]), "kafka-2.8": ([0, 5, 7, 8, 10], [1, 3, 4, 6, 13]),
    "kafka-3.9": ([1, 4, 6, 11, 13], [0, 2, 7, 9, 12]),
})  # fmt: skip
def test_new_logs_are_placed_in_the_order_of_the_releases_hash_table(profile: str, told: tuple[list[int], list[int]]) -> None:
    kafka = InProcess(profile=profile, configs={"log.dirs": "/a,/b,/c"}, topics={"many": 14})
    response = client(kafka).request(plain("DescribeLogDirs", topics=None), 1)
    held = {each.log_dir: sorted(part.partition_index for part in each.topics[0].partitions) for each in response.results}
    assert (held["/a"], held["/b"]) == told


@pytest.mark.parametrize(("profile", "code"), [("kafka-2.8", 36), ("kafka-3.3", 0)])
def test_the_name_of_a_deleted_topic_is_still_taken_with_zookeeper(profile: str, code: int) -> None:
    deletion = plain("DeleteTopics", topic_names=["orders"], timeout_ms=1000)
    kafka = InProcess(profile=profile, topics={"orders": 1}, cold_start=True)
    kafka.engine.cluster.deletion_ms = 60_000
    wire = client(kafka)
    assert codes(wire.request(deletion, 1)) == [0]
    again, version = created(new_topic("orders", **ONE))
    assert codes(wire.request(again, version)) == [code]
    kafka.clock.advance(minutes=1)
    assert codes(wire.request(again, version)) == [36 - code]


@pytest.mark.parametrize(("profile", "closes"), [("kafka-2.3", False), ("kafka-2.4", True)])
def test_a_request_after_the_end_of_a_session(profile: str, closes: bool) -> None:
    with short_sessions(profile) as kafka, closing(log_in(kafka, bare=False)) as connection:
        kafka.clock.advance(minutes=2)
        connection.send(plain("Metadata", topics=[]), 1)
        kafka.wait_until(lambda: [row.outcome for row in kafka.trace.events("authentication")] == ["succeeded", "expired"])
        if closes:
            with pytest.raises(ConnectionClosed):
                connection.response()
        else:
            [left] = kafka._call(lambda engine: list(engine.connections))
            assert isinstance(left.interceptor, Ignoring)


@pytest.mark.parametrize(("profile", "ends"), [("kafka-2.4", False), ("kafka-2.5", True)])
def test_the_end_of_a_session_whose_tokens_had_no_headers(profile: str, ends: bool) -> None:
    with short_sessions(profile) as kafka, closing(log_in(kafka, bare=True)) as connection:
        kafka.clock.advance(minutes=2)
        with pytest.raises(ConnectionClosed) if ends else nullcontext():
            assert connection.request(plain("Metadata", topics=[]), 1)


@by_release({"kafka-2.7": (42, 35), "kafka-2.8": (0, 0)})
def test_quotas_of_addresses(ask: Ask, told: tuple[int, int]) -> None:
    altered = ask(*quota("ip", "10.0.0.1", ("connection_creation_rate", 5.0)))
    assert (altered.entries[0].error_code, ask(*quotas_of(("ip", 2, None))).error_code) == told


@by_release({"kafka-2.6": 42, "kafka-2.7": 0})
def test_quotas_of_mutations(ask: Ask, told: int) -> None:
    assert ask(*quota("user", "u", ("controller_mutation_rate", 5.0))).entries[0].error_code == told


@by_release({"kafka-2.5": (0, 0), "kafka-2.6": (32, 0), "kafka-2.7": (32, 32)})
def test_responses_about_an_unknown_kind_of_resource(ask: Ask, told: tuple[int, int]) -> None:
    resource = {"resource_type": 32, "resource_name": "g"}
    altered = ask(plain("AlterConfigs", resources=[resource | {"configs": []}]), 1)
    described = ask(plain("DescribeConfigs", resources=[resource]), 1)
    assert (altered.responses[0].resource_type, described.results[0].resource_type) == told


@by_release({"kafka-2.5": (0, 1), "kafka-2.6": (47, -1)})
def test_the_producer_of_a_transaction_that_timed_out_gets_the_new_epoch_in_2_5(profile: str, told: tuple[int, int]) -> None:
    kafka = broker(profile)
    ask = client(kafka).request
    who = begun(ask, timeout_ms=1000)
    kafka.clock.advance(seconds=30)
    again = ask(init_producer_id("t", 1000, who), 3)
    assert (again.error_code, again.producer_epoch) == told


class Ended:
    """A producer of Kafka 2.5 whose commit with a newer epoch was refused, after the coordinator had prepared the commit."""

    def __init__(self) -> None:
        self.kafka = broker("kafka-2.5")
        self.wire = client(self.kafka)
        first = self.init()
        self.pid, self.epoch = first.producer_id, first.producer_epoch
        assert self.add() == 0
        assert self.end(commit=True, epoch=self.epoch + 1) == FENCED

    def init(self, current: tuple[int, int] = (-1, -1)) -> Any:
        return self.wire.request(init_producer_id("t", current=current), 3)

    def add(self) -> int:
        return int(only(self.wire.request(add_partitions("t", (self.pid, self.epoch)), 1)).partition_error_code)

    def end(self, *, commit: bool, epoch: int | None = None) -> int:
        producer = self.pid, self.epoch if epoch is None else epoch
        return int(self.wire.request(end_txn("t", producer, commit), 1).error_code)


def test_a_commit_with_a_newer_epoch_leaves_the_transaction_prepared_before_2_6() -> None:
    """No change is in progress. So the coordinator first compares the producer's id, and then tells that it must wait."""
    ended = Ended()
    assert [ended.end(commit=commits) for commits in (True, False)] == [WAITS, WRONG_STATE]
    assert ended.add() == WAITS
    assert ended.init((ended.pid, ended.epoch)).error_code == WAITS
    assert ended.init((ended.pid + 5, 0)).error_code == FENCED


def test_a_commit_with_a_newer_epoch_ends_when_the_coordinator_starts_again() -> None:
    ended = Ended()
    ended.kafka.restart()
    ended.wire = client(ended.kafka)
    assert [ended.end(commit=commits) for commits in (True, False)] == [0, WRONG_STATE]
    assert ended.add() == 0
    assert ended.end(commit=True) == 0


def test_the_restarted_coordinator_of_such_a_commit_writes_its_markers_later() -> None:
    ended = Ended()
    partition = ended.kafka.engine.cluster.topics["orders"].partitions[0]
    partition.go_offline(1)
    ended.kafka.engine.transactions.restart(ended.kafka.clock.now())
    assert [ended.end(commit=commits) for commits in (True, False)] == [WAITS] * 2


@by_release({"kafka-2.7": "INFO", "kafka-2.8": "DEBUG"})
def test_a_logger_tells_the_level_of_its_parent_from_2_8_on(ask: Ask, told: str) -> None:
    change = {"name": "kafka", "config_operation": SET, "value": "DEBUG"}
    resource = {"resource_type": LOGGERS, "resource_name": "1"}
    ask(plain("IncrementalAlterConfigs", resources=[resource | {"configs": [change]}], validate_only=False), 0)
    described = ask(plain("DescribeConfigs", resources=[resource | {"configuration_keys": ["kafka.server.KafkaApis"]}]), 1)
    assert described.results[0].configs[0].value == told


def short_sessions(profile: str) -> MockKafka:
    configs = {"connections.max.reauth.ms": 60_000}
    users = {"alice": "secret"}
    return MockKafka(profile=profile, security="sasl_plaintext", users=users, configs=configs, clock="frozen")  # type: ignore[arg-type]


def log_in(kafka: MockKafka, *, bare: bool) -> Connection:
    """Logs in with PLAIN. If `bare` is true, the token has no request header."""
    connection, token = Connection(address_of(kafka.bootstrap_servers), 5), b"\0alice\0secret"
    assert connection.request(plain("SaslHandshake", mechanism="PLAIN"), 0 if bare else 1).error_code == 0
    if bare:
        connection.send_bytes(SIZE.pack(len(token)) + token)
        assert connection.frame() == b""
    else:
        assert connection.request(plain("SaslAuthenticate", auth_bytes=token), 1).error_code == 0
    return connection


@pytest.mark.parametrize(("profile", "responds"), [("kafka-2.3", True), ("kafka-2.4", False), ("kafka-2.5", True)])
def test_metadata_during_a_login(profile: str, responds: bool) -> None:
    with short_sessions(profile) as kafka, closing(Connection(address_of(kafka.bootstrap_servers), 5)) as connection:
        connection.request(plain("SaslHandshake", mechanism="PLAIN"), 1)
        with nullcontext() if responds else pytest.raises(ConnectionClosed):
            response = connection.request(plain("Metadata", topics=[{"name": "x"}]), 8 if profile == "kafka-2.3" else 9)
            assert response.topics[0].error_code == 34


@pytest.mark.parametrize("value", [",", "a,a", "a, b,"])
def test_a_list_of_client_metrics_is_shown_as_it_was_given(value: str) -> None:
    resource = {"resource_type": 16, "resource_name": "s"}
    change = plain("IncrementalAlterConfigs", resources=[
        resource | {"configs": [{"name": "metrics", "config_operation": SET, "value": value}]}
    ])  # fmt: skip
    wanted = plain("DescribeConfigs", resources=[resource | {"configuration_keys": ["metrics"]}])
    changed, described = asked("kafka-4.1", (change, 1), (wanted, 1))
    assert codes(changed) == [0]
    assert described.results[0].configs[0].value == value.replace(" ", "")


def share_state(profile: str, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """Sends requests about the state of the share partition orders-0 of the group `g`. Returns the results."""
    wire = client(broker(profile))
    topic_id = sole(wire.request(plain("Metadata", topics=[{"name": "orders"}]), 12).topics).topic_id
    assert not sole(wire.request(find_coordinator(f"g:{format_uuid(topic_id)}:0", kind=2), 6).coordinators).error_code
    places = [(api, [{"topic_id": topic_id, "partitions": [{"partition": 0, **fields}]}]) for api, fields in requests]
    responses = [wire.request(plain(f"{api}ShareGroupState", group_id="g", topics=place), 0) for api, place in places]
    return [response.results[0].partitions[0] for response in responses]


@by_release({"kafka-4.2": [0, 74, 0, 0, 0], "kafka-4.3": [0] * 5, "kafka-4.4": [0] + [42] * 4})
def test_a_negative_epoch_in_requests_about_a_share_partition(profile: str, told: list[int]) -> None:
    written = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0}
    results = share_state(
        profile, ("Initialize", {"state_epoch": 1, "start_offset": 0}), ("Read", {"leader_epoch": -1}),
        ("Write", written | {"leader_epoch": -1}), ("Write", written | {"state_epoch": -1}),
        ("Initialize", {"state_epoch": -1, "start_offset": 0}),
    )  # fmt: skip
    assert [each.error_code for each in results] == told


@by_release({"kafka-4.3": 3, "kafka-4.4": 5})
def test_a_write_with_an_earlier_start_offset_of_a_share_partition(profile: str, told: int) -> None:
    *_, read = share_state(
        profile, ("Initialize", {"state_epoch": 1, "start_offset": 5}),
        ("Write", {"state_epoch": 1, "leader_epoch": 0, "start_offset": 3}), ("Read", {"leader_epoch": 0}),
    )  # fmt: skip
    assert (read.error_code, read.start_offset) == (0, told)


@by_release({"kafka-4.1": [3], "kafka-4.2": [0, 3]})
def test_the_offsets_of_a_new_share_group(ask: Ask, told: list[int]) -> None:
    enable = {"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}
    ask(plain("UpdateFeatures", timeout_ms=1000, feature_updates=[enable]), 1)
    topics = [{"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in ("orders", "none")]
    response = ask(plain("AlterShareGroupOffsets", group_id="shared", topics=topics), 0)
    assert response.error_code == 0
    assert [each.partitions[0].error_code for each in response.responses] == told


@by_release({"kafka-1.0": 1, "kafka-1.1": 0})
def test_records_of_a_compacted_topic_are_deleted_before_1_1(ask: Ask, told: int) -> None:
    ask(create_topics(new_topic("c", [1], settings=(("cleanup.policy", "compact"),))), 2)
    assert only(ask(produce_request("c", build_batch([Record(0, 0, b"k", b"v")])), 3)).error_code == 0
    assert only(ask(delete_records(1, topic="c"), 0)).error_code == 44
    assert only(ask(list_offsets(-2, topic="c"), 1)).offset == told


@pytest.mark.parametrize(("profile", "code", "message"), [("kafka-2.1", 34, None), ("kafka-2.3", 0, "")])
def test_a_login_and_another_one_before_2_2(profile: str, code: int, message: str | None) -> None:
    with short_sessions(profile) as kafka, closing(Connection(address_of(kafka.bootstrap_servers), 5)) as connection:
        handshake = plain("SaslHandshake", mechanism="PLAIN")
        assert connection.request(handshake, 1).error_code == 0
        response = connection.request(plain("SaslAuthenticate", auth_bytes=b"\0alice\0secret"), 0)
        assert (response.error_code, response.error_message) == (0, message)
        assert connection.request(handshake, 1).error_code == code


@pytest.mark.parametrize(("profile", "code"), [("kafka-2.1", 0), ("kafka-2.3", 58)])
def test_a_login_with_plain_that_ends_with_a_nul(profile: str, code: int) -> None:
    with short_sessions(profile) as kafka, closing(Connection(address_of(kafka.bootstrap_servers), 5)) as connection:
        connection.request(plain("SaslHandshake", mechanism="PLAIN"), 1)
        assert connection.request(plain("SaslAuthenticate", auth_bytes=b"\0alice\0secret\0"), 0).error_code == code


FETCHES = {"kafka-2.1": (0, 10), "kafka-2.3": (0, 11), "kafka-3.9": (0, 17), "kafka-4.0": (4, 17), "kafka-4.4": (4, 18)}
"""For each profile, the oldest and the newest version of Fetch."""


@pytest.mark.parametrize("profile", FETCHES)
def test_zstd_is_hidden_from_old_consumers_before_4_0(profile: str) -> None:
    """Kafka looks only at the topic's setting, not at the batches in the topic. So a Fetch gets UNSUPPORTED_COMPRESSION_TYPE
    even if the topic is empty or the offset is out of range."""
    broker = InProcess(profile=profile, topics={"z": {"partitions": 1, "configs": {"compression.type": "zstd"}}, "plain": 1})
    wire = client(broker)
    oldest, newest = FETCHES[profile]
    for version in range(oldest, newest + 1):
        codes = [
            only(wire.request(fetch(at, topic=topic) if version < 13 else fetch_by_id(broker, topic, at), version)).error_code
            for topic, at in (("z", 0), ("z", 5), ("plain", 0), ("plain", 5))
        ]
        hides = version < 10 and profile < "kafka-4"
        assert codes == [76 if hides else 0, 76 if hides else 1, 0, 1], version


def fetch_by_id(broker: InProcess, topic: str, offset: int) -> Any:
    request = fetch(offset, topic=topic)
    sole(request.topics).topic_id = broker.engine.cluster.topics[topic].topic_id
    return request


@pytest.mark.parametrize(
    ("profile", "produce", "fetches"),
    [("kafka-2.7", {3: 6, 4: 56}, {0: 6, 5: 6, 6: 56}), ("kafka-2.8", {3: 56, 4: 56}, {0: 6, 5: 6, 6: 56}),
     ("kafka-4.4", {3: 56, 4: 56}, {4: 6, 5: 6, 6: 56})],
)  # fmt: skip
def test_old_clients_do_not_see_storage_errors(profile: str, produce: dict[int, int], fetches: dict[int, int]) -> None:
    broker = InProcess(profile=profile, topics={"orders": 1})
    broker.engine.cluster.topics["orders"].partitions[0].go_offline(1)
    wire = client(broker)
    told = {version: only(wire.request(produce_request("orders", batch()), version)).error_code for version in produce}
    assert told == produce
    assert {version: only(wire.request(fetch(), version)).error_code for version in fetches} == fetches


@pytest.mark.parametrize(
    ("profile", "least", "past_end", "waits"),
    [("kafka-2.4", 1 << 20, False, True), ("kafka-2.5", 1 << 20, False, False), ("kafka-3.7", 1, True, True),
     ("kafka-3.8", 1, True, False)],
)  # fmt: skip
def test_what_a_fetch_waits_for(profile: str, least: int, past_end: bool, waits: bool) -> None:
    """Since 2.5, a Fetch does not wait for more than max_bytes, even if its min_bytes is larger than max_bytes. Since 3.8, a
    Fetch of an offset after the last stable offset does not wait."""
    broker = InProcess(profile=profile, topics={"orders": 1})
    wire = client(broker)
    if past_end:
        producer = TransactionalProducer(broker, version=7)
        assert (producer.init(1), producer.add(version=0)) == (0, 0)
        assert [producer.send("v").error_code for _ in range(3)] == [0, 0, 0]
    else:
        assert [only(wire.request(produce_request("orders", batch()), 7)).error_code for _ in range(3)] == [0, 0, 0]
    request = fetch(2 if past_end else 0, wait_ms=60_000, isolation_level=int(past_end))
    request.min_bytes, request.max_bytes = least, 100
    with pytest.raises(NoResponse) if waits else nullcontext():
        assert only(wire.request(request, 10)).error_code == 0


# Classic groups. These rules are also from the sources of the releases.


def led(ask: Ask, version: int = 2, instance: str | None = None, protocols: str = "range") -> Any:
    """Returns the response to the JoinGroup of the only member. Afterwards the group waits for the member's SyncGroup."""
    return ask(join_group("g", protocols=protocols, instance=instance), version)


@pytest.mark.parametrize(
    ("profile", "names", "chosen"),
    [("kafka-4.0", "range roundrobin", "range"), ("kafka-3.9", "range roundrobin", "roundrobin"),
     ("kafka-4.0", "range cooperative-sticky", "range"), ("kafka-3.9", "range cooperative-sticky", "cooperative-sticky"),
     ("kafka-4.0", "range sticky", "sticky"), ("kafka-3.9", "range sticky", "range")],
)  # fmt: skip
def test_equal_votes_for_two_protocols(profile: str, names: str, chosen: str) -> None:
    kafka = broker(profile)
    one, other = client(kafka), client(kafka)
    leader = led(one.request, protocols=names)
    other.send(join_group("g", protocols=" ".join(reversed(names.split()))), 2)
    again = one.request(join_group("g", leader.member_id, names), 2)
    assert (again.protocol_name, other.response().protocol_name) == (chosen, chosen)


@by_release({"kafka-2.5": 27, "kafka-2.6": 0})
def test_a_heartbeat_while_the_group_waits_for_its_leader(ask: Ask, told: int) -> None:
    member = led(ask)
    assert ask(heartbeat("g", member.member_id, member.generation_id), 1).error_code == told


@by_release({"kafka-2.3": 27, "kafka-2.4": 25})
def test_a_strangers_commit_while_the_group_waits_for_its_leader(ask: Ask, told: int) -> None:
    member = led(ask)
    assert only(ask(offset_commit("g", 1, "stranger", member.generation_id), 2)).error_code == told
    assert only(ask(offset_commit("g", 1, member.member_id, member.generation_id), 2)).error_code == 27


@by_release({"kafka-2.8": 0, "kafka-3.0": 25, "kafka-3.3": 0})
def test_a_commit_that_names_a_member_of_an_empty_group(ask: Ask, told: int) -> None:
    assert only(ask(offset_commit("g", 1, "somebody"), 2)).error_code == told


@by_release({"kafka-2.4": 1, "kafka-2.5": 2})
def test_a_static_member_returns_while_its_group_waits_for_it(ask: Ask, told: int) -> None:
    assert led(ask, 5, "i").generation_id == 1
    again = led(ask, 5, "i")
    assert (again.error_code, again.generation_id) == (0, told)


@by_release({"kafka-2.5": (1, "range"), "kafka-2.6": (2, "other")})
def test_a_static_member_returns_with_other_protocols(ask: Ask, told: tuple[int, str]) -> None:
    member = led(ask, 5, "i")
    ask(sync_group("g", member.member_id, 1, {member.member_id: b"a"}, "i"), 3)
    again = led(ask, 5, "i", "other range")
    assert (again.generation_id, again.protocol_name) == told


@pytest.mark.parametrize("profile", ["kafka-2.7", "kafka-3.0"])
def test_a_member_that_joins_again_with_an_unknown_instance(ask: Ask) -> None:
    assert ask(join_group("g", led(ask).member_id, instance="i"), 5).error_code == 25


@by_release({"kafka-2.4": 0, "kafka-2.5": 35, "kafka-3.0": 35, "kafka-3.3": 0})
def test_a_response_that_cannot_name_instances(ask: Ask, told: int) -> None:
    member = led(ask, 5, "i")
    response = ask(join_group("g", member.member_id), 4)
    assert (response.error_code, len(response.members)) == (told, 0 if told else 1)


@by_release({"kafka-3.7": [], "kafka-3.8": ["g"]})
def test_the_case_of_a_state_in_the_filter_of_list_groups(ask: Ask, told: list[str]) -> None:
    led(ask)
    for state, expected in (("CompletingRebalance", ["g"]), ("completingrebalance", told)):
        groups = ask(plain("ListGroups", states_filter=[state]), 4).groups
        assert [each.group_id for each in groups] == expected


@by_release({"kafka-3.9": [], "kafka-4.0": ["g"]})
def test_blanks_in_the_filter_of_list_groups(ask: Ask, told: list[str]) -> None:
    led(ask)
    groups = ask(plain("ListGroups", states_filter=[" CompletingRebalance "]), 4).groups
    assert [each.group_id for each in groups] == told


@by_release({"kafka-3.3": 24, "kafka-3.4": 35, "kafka-3.5": 24})
def test_a_refused_leave_group_before_version_3(ask: Ask, told: int) -> None:
    assert ask(plain("LeaveGroup", group_id="", member_id="m"), 2).error_code == told


@by_release({"kafka-2.1": b"meta range", "kafka-2.3": b"a", "kafka-2.4": b"meta range"})
def test_the_metadata_of_a_described_member(ask: Ask, told: bytes) -> None:
    member = led(ask)
    ask(sync_group("g", member.member_id, 1, {member.member_id: b"a"}), 1)
    (described,) = ask(plain("DescribeGroups", groups=["g"]), 1).groups[0].members
    assert (described.member_metadata, described.member_assignment) == (told, b"a")


@by_release({"kafka-2.4": 0, "kafka-2.5": -(2**31)})
def test_operations_that_nobody_asked_for(ask: Ask, told: int) -> None:
    assert ask(plain("DescribeGroups", groups=["g"]), 3).groups[0].authorized_operations == told
    response = ask(plain("Metadata", topics=named(["orders"])), 8)
    assert response.cluster_authorized_operations == told
    assert response.topics[0].topic_authorized_operations == told


@by_release({"kafka-2.5": 2, "kafka-2.6": 1})
def test_a_topic_with_two_partitions_whose_offsets_are_deleted(ask: Ask, told: int) -> None:
    ask(offset_commit("g", 1), 2)
    (*topics,) = ask(offset_delete("g", partitions=(0, 7)), 0).topics
    assert [[each.error_code for each in topic.partitions] for topic in topics] == [[0, 3]] * told


@by_release({"kafka-3.0": 1, "kafka-3.4": 1, "kafka-3.5": 2})
def test_a_group_that_offset_fetch_names_twice(ask: Ask, told: int) -> None:
    wanted = named(["g", "g"], "group_id", topics=named(["orders"], partition_indexes=[0]))
    response = ask(plain("OffsetFetch", groups=wanted), 8)
    assert [each.group_id for each in response.groups] == ["g"] * told


@by_release({"kafka-3.6": 5, "kafka-3.7": -1})
def test_a_transactional_commit_without_a_producer_id(ask: Ask, told: int) -> None:
    ask(txn_offset_commit("t", (-1, 0), "g", 5), 2)
    assert only(ask(offset_fetch("g"), 5)).committed_offset == told


@by_release({"kafka-1.1": (25, 25, 25, 0), "kafka-2.1": (24, 24, 24, 24)})
def test_requests_of_members_with_an_empty_group_id(ask: Ask, told: tuple[int, ...]) -> None:
    ask(offset_commit("", 1), 2)
    requests = heartbeat("", "m", 1), sync_group("", "m", 1), plain("LeaveGroup", group_id="", member_id="m")
    found = [ask(request, 1).error_code for request in requests]
    assert (*found, only(ask(txn_offset_commit("t", (1, 0), "", 5), 0)).error_code) == told


@by_release({"kafka-1.0": "AwaitingSync", "kafka-1.1": "CompletingRebalance"})
def test_the_name_of_the_state_in_which_a_group_waits_for_its_leader(ask: Ask, told: str) -> None:
    led(ask)
    assert ask(plain("DescribeGroups", groups=["g"]), 1).groups[0].group_state == told


@by_release({"kafka-2.1": (0, 27), "kafka-2.3": (-1, 22)})
def test_wrong_generations_before_2_3(ask: Ask, told: tuple[int, int]) -> None:
    refused = ask(join_group("g", session_ms=1), 2)
    assert (refused.generation_id, ask(heartbeat("g", led(ask).member_id, 9), 1).error_code) == told


@by_release({"kafka-1.1": 0, "kafka-2.1": 3})
def test_a_commit_to_an_unknown_partition_of_a_known_topic(ask: Ask, told: int) -> None:
    assert only(ask(offset_commit("g", 5, partition=7), 2)).error_code == told
    assert only(ask(offset_fetch("g", partitions=(7,)), 2)).committed_offset == (-1 if told else 5)


@by_release({"kafka-2.1": 1, "kafka-2.3": 2})
def test_a_group_that_describe_groups_names_twice(ask: Ask, told: int) -> None:
    response = ask(plain("DescribeGroups", groups=["g", "g"]), 1)
    assert [each.group_id for each in response.groups] == ["g"] * told


@by_release({"kafka-3.9": 0, "kafka-4.0": 27})
def test_a_client_leaves_before_it_has_joined(ask: Ask, told: int) -> None:
    member = led(ask)
    issued = ask(join_group("g"), 5)
    assert issued.error_code == 79
    assert ask(plain("LeaveGroup", group_id="g", member_id=issued.member_id), 1).error_code == 0
    assert ask(sync_group("g", member.member_id, member.generation_id), 2).error_code == told
