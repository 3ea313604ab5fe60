"""The admin APIs, tested with encoded requests.

Error codes and messages in the tables were recorded from Kafka 4.3.1 (one broker, node 1). If the order in Kafka's response is
the order of a hash map, the tables have wirebroker's order.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inprocess import InProcess
from kafkawire.declare import Message
from kafkawire.frames import decode_response, encode_request
from kafkawire.primitives import format_uuid
from kafkawire.registry import KEYS
from requesting import Plain, create_topics, new_topic, plain
from responses import sole
from wirebroker import apis
from wirebroker.client.wire import ConnectionClosed
from wirebroker.core.profile import ProfileName
from wirebroker.core.releases import release
from wirebroker.core.setting_definitions import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    meanings,
)

TOPIC, BROKER, LOGGERS, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
KAFKA_4_3: ProfileName = "kafka-4.3"
"""The numbers in the tables were recorded on this release."""
SET, DELETE, APPEND, SUBTRACT = range(4)
FEW = 100
HERE = "This server does not host this topic-partition."


class Admin:
    """A cluster, and a client of one of its brokers."""

    def __init__(
        self, brokers: int = 1, node_id: int = 1, profile: ProfileName | None = None, data: Path | None = None, **settings: str
    ) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.broker = InProcess(brokers=brokers, configs=given, cold_start=True, profile=profile, data=data)
        self.engine = self.broker.engine
        for broker in self.engine.cluster.brokers.values():
            broker.addresses["PLAINTEXT"] = ("127.0.0.1", 9091 + broker.node_id)
        self.wire = self.broker.link(node_id - 1)

    def at(self, node_id: int) -> Admin:
        """Returns a client of another broker in the same cluster."""
        other = copy(self)
        other.wire = self.broker.link(node_id - 1)
        return other

    def ask(self, request: Message, version: int) -> Any:
        return self.wire.request(request, version)

    def create(self, *topics: Plain, version: int = 7, validate_only: bool = False) -> list[Any]:
        return list(self.ask(create_topics(*topics, validate_only=validate_only), version).topics)

    def add_partitions(self, *topics: Plain, validate_only: bool = False) -> list[Any]:
        request = plain("CreatePartitions", topics=list(topics), timeout_ms=1000, validate_only=validate_only)
        return list(self.ask(request, 3).results)

    def describe(self, kind: int, name: str, keys: list[str] | None = None, version: int = 4) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        request = plain("DescribeConfigs", resources=[resource], include_synonyms=True)
        return sole(self.ask(request, version).results)

    def value(self, kind: int, name: str, key: str) -> tuple[str | None, int]:
        (config,) = self.describe(kind, name, [key]).configs
        return config.value, config.config_source

    def alter(
        self, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1, validate_only: bool = False
    ) -> tuple[int, str | None]:
        configs = [{"name": k, "config_operation": op, "value": v} for k, op, v in changes]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        request = plain("IncrementalAlterConfigs", resources=[resource], validate_only=validate_only)
        (response,) = self.ask(request, version).responses
        assert (response.resource_type, response.resource_name) == (kind, name)
        return response.error_code, response.error_message

    def replace(self, kind: int, name: str, *given: tuple[str, str | None], **asked: Any) -> tuple[int, str | None]:
        configs = [{"name": k, "value": v} for k, v in given]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        request = plain("AlterConfigs", resources=[resource], validate_only=asked.get("validate_only", False))
        (response,) = self.ask(request, 2).responses
        return response.error_code, response.error_message


def said(responses: Sequence[Any]) -> list[tuple[str, int, str | None]]:
    return [(response.name, response.error_code, response.error_message) for response in responses]


# CreateTopics

MANUAL = "The manual partition assignment includes"
NOT_CREATED = [
    (new_topic("taken.name"), 36, "Topic 'taken.name' already exists."),
    (new_topic("taken_name"), 17, "Topic 'taken_name' collides with existing topic: taken.name"),
    (new_topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
    (new_topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
    (
        new_topic("a/b"),
        17,
        "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    ),
    (new_topic("new", partitions=0), 37, "Number of partitions was set to an invalid non-positive value."),
    (new_topic("new", partitions=-2), 37, "Number of partitions was set to an invalid non-positive value."),
    (new_topic("new", factor=0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    (new_topic("new", partitions=0, factor=0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    (
        new_topic("new", factor=2),
        38,
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
        "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
    ),
    (
        new_topic("new", partitions=-1, factor=1, on=[(0, [1])]),
        42,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        new_topic("new", partitions=1, factor=-1, on=[(0, [1])]),
        42,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        new_topic("new", partitions=-1, factor=-1, on=[(0, [1]), (0, [1])]),
        39,
        "Found multiple manual partition assignments for partition 0",
    ),
    (
        new_topic("new", partitions=-1, factor=-1, on=[(0, [1]), (2, [1])]),
        39,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (new_topic("new", partitions=-1, factor=-1, on=[(0, [])]), 39, f"{MANUAL} an empty replica list."),
    (new_topic("new", partitions=-1, factor=-1, on=[(0, [7])]), 39, f"{MANUAL} broker 7, but no such broker is registered."),
    (new_topic("new", partitions=-1, factor=-1, on=[(0, [1, 1])]), 39, f"{MANUAL} the broker 1 more than once."),
    (new_topic("new", nope="5"), 40, "Unknown topic config name: nope"),
    (new_topic("new", partitions=0, nope="5"), 40, "Unknown topic config name: nope"),
    (new_topic("new", retention_ms="x"), 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    (new_topic("new", retention_ms=None, nope=None), 40, "Null value not supported for topic configs: retention.ms,nope"),
    (new_topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    (new_topic("new", partitions=10_000), 44, "Unable to perform excessively large batch operation."),
    (new_topic("new", partitions=10_001), 44, "Excessively large number of partitions per request."),
    (new_topic("a/b", partitions=10_001), 44, "Excessively large number of partitions per request."),
    (new_topic("new", partitions=9_999, retention_ms="1"), 44, "Unable to perform excessively large batch operation."),
]


@pytest.mark.parametrize(("asked", "code", "sentence"), NOT_CREATED)
def test_a_topic_that_kafka_would_not_create(asked: Plain, code: int, sentence: str) -> None:
    admin = Admin()
    admin.create(new_topic("taken.name"))
    (response,) = admin.create(asked)
    assert (response.error_code, response.error_message) == (code, sentence)
    assert (response.num_partitions, response.replication_factor, response.configs) == (-1, -1, [])
    assert list(admin.engine.cluster.topics) == ["taken.name"]


def test_minus_one_means_the_brokers_defaults() -> None:
    admin = Admin(brokers=3, num_partitions="6", default_replication_factor="2")
    (response,) = admin.create(new_topic("orders", -1, -1))
    assert (response.num_partitions, response.replication_factor) == (6, 2)
    assert {partition.leader for partition in admin.engine.cluster.topics["orders"].partitions} == {1, 2, 3}


def test_replicas_are_placed_on_the_requested_brokers() -> None:
    admin = Admin(brokers=3)
    (response,) = admin.create(new_topic("orders", -1, -1, on=[(1, [3, 1]), (0, [2, 3])]))
    assert (response.num_partitions, response.replication_factor) == (2, 2)
    assert [partition.replicas for partition in admin.engine.cluster.topics["orders"].partitions] == [[2, 3], [3, 1]]
    (response,) = admin.create(new_topic("uneven", -1, -1, on=[(0, [2, 3]), (1, [3])]))
    assert (response.error_code, response.error_message) == (
        39,
        f"{MANUAL} a partition with 1 replica(s), but this is not consistent with previous partitions, "
        "which have 2 replica(s).",
    )


# DeleteTopics


def delete(admin: Admin, *asked: Plain, version: int = 6) -> list[Any]:
    names = [state.get("name", "") for state in asked]
    return list(admin.ask(plain("DeleteTopics", topics=list(asked), topic_names=names, timeout_ms=1000), version).responses)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ([{"name": "nope"}], [("nope", 3, HERE)]),
        ([{"name": "a/b"}], [("a/b", 3, HERE)]),
        ([{"topic_id": b"1" * 16}], [(None, 100, "This server does not host this topic ID.")]),
        ([{"topic_id": b"1" * 16}] * 2, [(None, 42, "Duplicate topic id.")]),
        ([{}], [(None, 42, "Neither topic name nor id were specified.")]),
        (
            [{"name": "orders", "topic_id": b"2" * 16}],
            [("orders", 42, "You may not specify both topic name and topic id.")],
        ),
        (
            [{"name": "orders"}, {"name": "nope"}, {"name": "orders"}],
            [("orders", 42, "Duplicate topic name."), ("nope", 3, HERE)],
        ),
    ],
)
def test_topics_that_are_not_deleted(asked: list[Plain], answered: list[tuple[str | None, int, str]]) -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    assert said(delete(admin, *asked)) == answered
    assert list(admin.engine.cluster.topics) == ["orders"]


def test_a_topic_named_and_identified_at_once_stays() -> None:
    admin = Admin()
    (created,) = admin.create(new_topic("orders"))
    responses = delete(admin, {"name": "orders"}, {"topic_id": created.topic_id})
    assert said(responses) == [("orders", 42, "The provided topic name maps to an ID that was already supplied.")]
    assert list(admin.engine.cluster.topics) == ["orders"]


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    admin = Admin(delete_topic_enable="false")
    admin.create(new_topic("orders"))
    (response,) = delete(admin, {"name": "orders"}, version=version)
    assert (response.name, response.error_code) == ("orders", code)
    assert "orders" in admin.engine.cluster.topics


# CreatePartitions


def more(name: str, total: int, on: Sequence[Sequence[int]] | None = None) -> Plain:
    nodes = None if on is None else [{"broker_ids": list(each)} for each in on]
    return {"name": name, "count": total, "assignments": nodes}


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        (more("nope", 3), 3, None),
        (more("a/b", 3), 3, None),
        (more("orders", 2), 37, "Topic already has 2 partition(s)."),
        (more("orders", 1), 37, "The topic orders currently has 2 partition(s); 1 would not be an increase."),
        (more("orders", -1), 37, "The topic orders currently has 2 partition(s); -1 would not be an increase."),
        (
            more("orders", 5, [[1]]),
            39,
            "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            more("orders", 3, []),
            39,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (more("orders", 3, [[9]]), 39, f"{MANUAL} broker 9, but no such broker is registered."),
        (more("orders", 3, [[1, 1]]), 39, f"{MANUAL} the broker 1 more than once."),
        (more("orders", 3, [[]]), 39, f"{MANUAL} an empty replica list."),
        (more("orders", 10_003), -1, None),
    ],
)
def test_partitions_that_kafka_would_not_add(asked: Plain, code: int, sentence: str | None) -> None:
    admin = Admin(profile=KAFKA_4_3)
    admin.create(new_topic("orders", 2))
    (response,) = admin.add_partitions(asked)
    assert (response.name, response.error_code, response.error_message) == (asked["name"], code, sentence)
    assert len(admin.engine.cluster.topics["orders"].partitions) == 2


def test_partitions_are_added() -> None:
    admin = Admin(brokers=3)
    admin.create(new_topic("orders", 1, 2), new_topic("other"))
    assert said(admin.add_partitions(more("orders", 3, [[3, 1], [2, 3]]), validate_only=True)) == [("orders", 0, None)]
    assert len(admin.engine.cluster.topics["orders"].partitions) == 1
    responses = admin.add_partitions(more("orders", 3, [[3, 1], [2, 3]]), more("other", 2))
    assert said(responses) == [("orders", 0, None), ("other", 0, None)]
    assert [partition.replicas for partition in admin.engine.cluster.topics["orders"].partitions[1:]] == [
        [3, 1],
        [2, 3],
    ]
    assert [len(partition.replicas) for partition in admin.engine.cluster.topics["other"].partitions] == [1, 1]


# DescribeConfigs

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


@pytest.mark.parametrize(
    ("kind", "name", "code", "sentence", "entries"),
    [
        (TOPIC, "orders", 0, "", 33),
        (TOPIC, "nope", 3, "", 0),
        (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed", 0),
        (BROKER, "1", 0, "", 340),
        (BROKER, "", 0, "", 1),
        (BROKER, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2", 0),
        (BROKER, "x", 42, "Broker id must be an integer, but it is: x", 0),
        (LOGGERS, "2", 42, "Unexpected broker id, expected 1 but received 2", 0),
        (LOGGERS, "", 42, "Broker id must not be empty", 0),
        (LOGGERS, "z", 42, "Broker id must be an integer, but it is: z", 0),
        (LOGGERS, "1", 0, "", 163),
        (CLIENT_METRICS, "cm", 0, "", 3),
        (CLIENT_METRICS, "", 42, "Client metrics subscription name must not be empty", 0),
        (GROUP, "workers", 0, "", 17),
        (GROUP, "", 42, "Group name must not be empty", 0),
        (99, "z", 42, MALFORMED, 0),
    ],
)
def test_resources_that_can_be_described(kind: int, name: str, code: int, sentence: str, entries: int) -> None:
    admin = Admin(profile=KAFKA_4_3)
    admin.create(new_topic("orders"))
    result = admin.describe(kind, name)
    assert (result.error_code, result.error_message, len(result.configs)) == (code, sentence, entries)
    assert (result.resource_type, result.resource_name) == (kind, name)


ORDERS = json.loads(lzma.decompress((Path(__file__).parent / "data/setting-orders.json.xz").read_bytes()))
"""For each release and kind of resource: the names in the response to DescribeConfigs, in Kafka's order. The broker's internal
and unknown settings, which come first, are left out."""


@pytest.mark.parametrize("kind", [TOPIC, BROKER, LOGGERS, CLIENT_METRICS, GROUP])
@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_settings_have_the_order_of_kafkas_hash_table(release: str, kind: int) -> None:
    admin = Admin(profile=f"kafka-{release}", log_initial_task_delay_ms="100", super_users="User:a")  # type: ignore[arg-type]
    admin.create(new_topic("orders"))
    shown = [each.name for each in admin.describe(kind, "1" if kind in (BROKER, LOGGERS) else "orders").configs]
    if kind == BROKER:
        assert set(shown[:2]) == {"log.initial.task.delay.ms", "super.users"}
        shown = shown[2:]
    assert shown == ORDERS[release][str(kind)]


def test_a_new_topics_settings_are_in_alphabetical_order() -> None:
    (created,) = Admin().create(new_topic("orders", segment_bytes="2000000"))
    names = [each.name for each in created.configs]
    assert names == sorted(names)
    assert "errors.deadletterqueue.group.enable" in names


@pytest.mark.parametrize(("profile", "topic", "broker", "group"), [(KAFKA_4_3, 33, 340, 17), ("kafka-4.4", 37, 350, 21)])
def test_every_setting_is_documented_on_request(profile: ProfileName, topic: int, broker: int, group: int) -> None:
    """Each number says how many settings have documentation in a real Kafka's response."""
    admin = Admin(profile=profile)
    admin.create(new_topic("orders"))
    sizes = {
        (TOPIC, "orders"): topic, (BROKER, "1"): broker, (BROKER, ""): 1, (GROUP, "g"): group, (CLIENT_METRICS, "m"): 3,
    }  # fmt: skip
    for (kind, name), size in sizes.items():
        resource = {"resource_type": kind, "resource_name": name}
        (result,) = admin.ask(plain("DescribeConfigs", resources=[resource], include_documentation=True), 4).results
        assert len(result.configs) == size
        assert [config.name for config in result.configs if not config.documentation] == []
    tables = (TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS, CLIENT_METRICS_SETTINGS)
    newer = {name for changes in release("4.4").settings.values() for name in changes}
    assert {name for table in tables for name in table} | newer == set(meanings())


# IncrementalAlterConfigs and AlterConfigs


def test_a_change_of_settings_counts_as_a_change_of_the_metadata() -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    before = admin.engine.cluster.version
    admin.alter(TOPIC, "orders", ("retention.ms", SET, "7"), validate_only=True)
    assert (admin.engine.cluster.version, admin.value(TOPIC, "orders", "retention.ms")) == (before, ("604800000", 5))
    admin.alter(TOPIC, "orders", ("retention.ms", SET, "7"))
    assert admin.engine.cluster.version > before


NOT_ALTERED = [
    (TOPIC, "orders", [("nope", SET, "5")], 40, "Unknown topic config name: nope"),
    (TOPIC, "orders", [("nope", DELETE, None)], 0, None),
    (TOPIC, "orders", [("nope", APPEND, "5")], 40, "Can't APPEND to key nope because its type is not LIST."),
    (
        TOPIC,
        "orders",
        [("retention.ms", SUBTRACT, "5")],
        40,
        "Can't SUBTRACT to key retention.ms because its type is not LIST.",
    ),
    (TOPIC, "orders", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
    (TOPIC, "orders", [("retention.ms", 9, "1")], -1, None),
    (
        TOPIC,
        "orders",
        [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        42,
        "Error due to duplicate config keys",
    ),
    (TOPIC, "nope", [("retention.ms", SET, "1")], 3, "The topic 'nope' does not exist."),
    (TOPIC, "nope", [("nope", SET, "1")], 40, "Unknown topic config name: nope"),
    (TOPIC, "nope", [], 3, "The topic 'nope' does not exist."),
    (TOPIC, "", [("retention.ms", SET, "1")], 42, "Default topic resources are not allowed."),
    (0, "x", [], 42, "Unknown resource type 0"),
    (99, "x", [], 42, "Unknown resource type 99"),
    (LOGGERS, "1", [("nolog", SET, "INFO")], 40, "Logger nolog does not exist!"),
    (LOGGERS, "2", [("nolog", SET, "INFO")], 42, "Unexpected node id. Expected 1, but received 2"),
    (LOGGERS, "", [("nolog", SET, "INFO")], 42, "Node id must be an integer, but it is: "),
    (BROKER, "1", [("num.partitions", SET, "3")], 42, "Cannot update these configs dynamically: [num.partitions]"),
    (BROKER, "", [("num.partitions", SET, "3")], 42, "Cannot update these configs dynamically: [num.partitions]"),
    (BROKER, "2", [("num.io.threads", SET, "4")], 42, "Unexpected broker id, expected 1, but received 2"),
    (BROKER, "x", [("num.io.threads", SET, "4")], 42, "Node id must be an integer, but it is: x"),
    (BROKER, "1", [("num.io.threads", 9, "4")], 42, "Unknown operations type 9"),
    (
        BROKER,
        "1",
        [("num.io.threads", SET, "x")],
        42,
        "Invalid value x for configuration num.io.threads: Not a number of type INT",
    ),
    (
        BROKER,
        "",
        [("log.cleaner.threads", APPEND, "1")],
        40,
        "Config value append is not allowed for config key: log.cleaner.threads",
    ),
    (BROKER, "", [("nope", APPEND, "1")], 40, "Unknown config name: nope"),
    (
        BROKER,
        "1",
        [("min.insync.replicas", SET, "2")],
        40,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    ),
    (
        BROKER,
        "",
        [("min.insync.replicas", DELETE, None)],
        40,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    ),
    (GROUP, "g", [("nope", SET, "5")], 40, "Unknown group config name: nope"),
    (GROUP, "", [("nope", SET, "5")], 42, "Default group resources are not allowed."),
    (
        GROUP,
        "g",
        [("consumer.session.timeout.ms", SET, "5")],
        40,
        "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
    ),
    (
        GROUP,
        "g",
        [("consumer.session.timeout.ms", SET, "70000")],
        40,
        "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
    ),
    (
        GROUP,
        "g",
        [("streams.num.standby.replicas", SET, "5")],
        40,
        "streams.num.standby.replicas must be less than or equal to 2",
    ),
    (CLIENT_METRICS, "m", [("nope", SET, "5")], 42, "Unknown client metrics configuration: nope"),
    (
        CLIENT_METRICS,
        "m",
        [("interval.ms", SET, "5")],
        42,
        "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
    ),
    (CLIENT_METRICS, "m", [("match", SET, "client_id=[")], 40, "Illegal client matching pattern: client_id=["),
    (CLIENT_METRICS, "m", [("metrics", APPEND, "c")], 40, "Can't APPEND to key metrics because its type is not LIST."),
    (CLIENT_METRICS, "", [("interval.ms", SET, "500")], 42, "Subscription name can't be empty"),
]


@pytest.mark.parametrize(("kind", "name", "changes", "code", "sentence"), NOT_ALTERED)
def test_alterations_that_kafka_refuses(
    kind: int, name: str, changes: list[tuple[str, int, str | None]], code: int, sentence: str | None
) -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    before = [admin.describe(*each) for each in ((TOPIC, "orders"), (BROKER, "1"), (GROUP, "g"), (CLIENT_METRICS, "m"))]
    assert admin.alter(kind, name, *changes) == (code, sentence)
    after = [admin.describe(*each) for each in ((TOPIC, "orders"), (BROKER, "1"), (GROUP, "g"), (CLIENT_METRICS, "m"))]
    assert after == before


REFUSALS = json.loads(lzma.decompress((Path(__file__).parent / "data/setting-refusals.json.xz").read_bytes()))
"""For each release and kind of resource: Kafka's responses to requests that alter each dynamic setting to each of 25 values.
Settings with Java classes and listeners, and the settings of tiered storage, are left out."""


@pytest.mark.parametrize(("release", "kind"), [(each, int(kind)) for each, told in REFUSALS.items() for kind in told])
def test_each_value_of_each_setting_gets_kafkas_response(release: str, kind: int) -> None:
    admin = Admin(profile=f"kafka-{release}")  # type: ignore[arg-type]
    admin.create(new_topic("b"))
    name = {TOPIC: "b", BROKER: "1", GROUP: "g", CLIENT_METRICS: "m"}[kind]
    told = {key: dict.fromkeys(values) for key, values in REFUSALS[release][str(kind)].items()}
    for key, values in told.items():
        for value in values:
            values[value] = list(admin.alter(kind, name, (key, SET, value), validate_only=True))
    expected = REFUSALS[release][str(kind)]
    assert {key: values for key, values in told.items() if values != expected[key]} == {}


def test_on_an_unknown_operation_the_controller_fails_on_all_that_the_request_changes_there() -> None:
    """As in a real Kafka, the controller's failure does not affect settings that a broker changes by itself."""
    admin = Admin()
    admin.create(new_topic("orders"), new_topic("other"))

    def asked(kind: int, name: str, setting: str, value: str, operation: int) -> Plain:
        config = {"name": setting, "config_operation": operation, "value": value}
        return {"resource_type": kind, "resource_name": name, "configs": [config]}

    resources = [
        asked(TOPIC, "other", "retention.ms", "1", SET), asked(TOPIC, "nope", "retention.ms", "1", SET),
        asked(GROUP, "g", "consumer.session.timeout.ms", "50000", SET), asked(BROKER, "9", "num.io.threads", "9", SET),
        asked(LOGGERS, "1", "kafka", "WARN", SET), asked(TOPIC, "orders", "retention.ms", "1", 9),
    ]  # fmt: skip
    request = plain("IncrementalAlterConfigs", resources=resources, validate_only=False)
    assert [each.error_code for each in admin.ask(request, 1).responses] == [-1, -1, -1, 42, 0, -1]
    assert admin.value(TOPIC, "other", "retention.ms") == ("604800000", 5)
    assert admin.value(LOGGERS, "1", "kafka") == ("WARN", 6)


def test_a_change_that_no_record_can_hold_changes_nothing_else_either() -> None:
    """As on Kafka 4.4.0. Each invalid byte of the value becomes three bytes, so no record can hold the value."""
    admin, placeholder = Admin(), "Q" * 20_000
    for validate_only, code, left in ((True, 0, []), (False, -1, [])):
        resources = [
            {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": [{"name": "metrics", "value": value}]}
            for name, value in (("first", "a"), ("second", placeholder), ("third", "a"))
        ]
        request = plain("IncrementalAlterConfigs", resources=resources, validate_only=validate_only)
        admin.wire.send_bytes(encode_request(7, "", request, 1).replace(placeholder.encode(), b"\xff" * len(placeholder)))
        _, response = decode_response(memoryview(admin.wire.frame()), KEYS["IncrementalAlterConfigs"], 1)
        assert [(each.error_code, each.error_message) for each in response.responses] == [(code, None)] * 3
        assert admin.ask(plain("ListConfigResources"), 0).config_resources == left


def write_few(monkeypatch: pytest.MonkeyPatch, *apis: str) -> None:
    """For a request Kafka writes up to 10,000 records. So many would take seconds, so here these APIs write up to `FEW`."""
    for api in apis:
        module = import_module(f"wirebroker.apis.{api}")
        assert module.MOST_RECORDS == 10_000
        monkeypatch.setattr(module, "MOST_RECORDS", FEW)


def test_more_changes_than_kafka_writes_for_one_request_are_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Kafka 4.4.0, the receiving broker first refuses what it can refuse by itself. A change to the value that a setting
    already has does not count."""
    write_few(monkeypatch, "configs")
    admin, session = Admin(), ("consumer.session.timeout.ms", "50000")

    def altered(api: str, groups: int, version: int, *others: tuple[int, str], **options: Any) -> set[tuple[int, str | None]]:
        named = [*((GROUP, f"g{i}") for i in range(groups)), *others]
        configs = [dict(zip(("name", "value"), session, strict=True))]
        resources = [{"resource_type": kind, "resource_name": name, "configs": configs} for kind, name in named]
        response = admin.ask(plain(api, resources=resources, **options), version)
        return {(each.error_code, each.error_message) for each in response.responses}

    too_many = (44, "Unable to perform excessively large batch operation.")
    for api, version in (("IncrementalAlterConfigs", 1), ("AlterConfigs", 2)):
        assert altered(api, FEW + 1, version, validate_only=True) == {too_many}
    elsewhere = (42, "Unexpected broker id, expected 1, but received 99")
    assert altered("IncrementalAlterConfigs", FEW + 1, 1, (BROKER, "99"), (TOPIC, "nope")) == {too_many, elsewhere}
    for groups in (FEW, FEW + 1):
        assert altered("IncrementalAlterConfigs", groups, 1) == {(0, None)}


def test_more_quotas_and_users_than_kafka_writes_for_one_request_are_refused_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_few(monkeypatch, "client_quotas", "scram_credentials")
    admin, many = Admin(), range(FEW + 1)
    ops = [{"key": "producer_byte_rate", "value": 10.0}]
    entries: Any = [{"entity": [{"entity_type": "user", "entity_name": f"u{i}"}], "ops": ops} for i in many]
    told = admin.ask(plain("AlterClientQuotas", entries=entries), 1).entries
    policy = (44, "Request parameters do not satisfy the configured policy.")
    assert {(each.error_code, each.error_message) for each in told} == {policy}
    assert {each.error_code for each in admin.ask(plain("AlterClientQuotas", entries=entries[1:]), 1).entries} == {0}
    users = [{"name": f"u{i}", "mechanism": 1, "iterations": 4096, "salted_password": b"p"} for i in many]
    told = admin.ask(plain("AlterUserScramCredentials", upsertions=users), 0).results
    assert {(each.error_code, each.error_message) for each in told} == {(-1, None)}
    assert not admin.engine.cluster.scram


def test_users_are_described_in_the_order_of_kafkas_hash_table() -> None:
    admin = Admin()
    for name in ("admin", "alice", *(f"u{i}" for i in range(14)), "e1", "e3"):
        admin.engine.authenticator.add_user(name, "secret")
    recorded = "u5 u6 u7 u8 u9 admin alice e1 e3 u11 u10 u13 u12 u0 u1 u2 u3 u4"
    assert described_users(admin) == recorded.split()
    assert described_users(admin, "u3", "zz", "u1", "u12", "u3", "", "yy") == ["zz", "", "yy", "u12", "u1", "u3"]


def described_users(admin: Admin, *names: str) -> list[str]:
    users = [{"name": name} for name in names]
    return [each.user for each in admin.ask(plain("DescribeUserScramCredentials", users=users), 0).results]


@pytest.mark.parametrize("value", ["abc", " 5 "])
def test_the_setting_of_an_unknown_listener_is_shown_as_it_was_given(value: str) -> None:
    """Kafka 4.4.0 reads the settings of the listeners that the broker has, and no others."""
    admin, name = Admin(), "listener.name.nope.socket.send.buffer.bytes"
    assert admin.alter(BROKER, "1", (name, SET, value)) == (0, None)
    assert admin.value(BROKER, "1", name) == (value, 2)
    code, message = admin.alter(BROKER, "1", ("listener.name.plaintext.socket.send.buffer.bytes", SET, "abc"))
    assert (code, "Invalid value abc for configuration socket.send.buffer.bytes" in (message or "")) == (42, True)


def test_numbers_of_threads_that_rose_step_by_step_survive_a_restart(tmp_path: Path) -> None:
    admin = Admin(data=tmp_path)
    for threads in ("16", "32"):
        assert admin.alter(BROKER, "", ("num.io.threads", SET, threads)) == (0, None)
    admin.engine.store.close(admin.broker.clock.now())
    assert Admin(data=tmp_path).value(BROKER, "1", "num.io.threads") == ("32", 3)


def test_a_change_of_threads_that_the_disk_refuses_is_taken_back() -> None:
    """From 3 to 1 is a valid alteration of threads, and from 1 to 3 is not."""

    def refuse(*_: Any) -> None:
        raise OSError("the disk is full")

    admin = Admin()
    admin.engine.cluster.decisions.write_with(refuse)
    assert admin.alter(BROKER, "", ("num.network.threads", SET, "1"))[0] == 56
    assert admin.value(BROKER, "1", "num.network.threads") == ("3", 5)


def test_directories_are_not_cordoned_before_metadata_version_4_3() -> None:
    """The responses are those of Kafka 4.4.0 with metadata.version 29 and 30."""
    admin, name = Admin(), "cordoned.log.dirs"
    refused = (40, f"The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0")
    changes: list[tuple[str, int, str | None]] = [(name, SET, "*"), (name, SET, ""), (name, DELETE, None)]
    admin.engine.alter_features({"metadata.version": 29})
    assert [admin.alter(BROKER, "1", change, validate_only=dry) for change in changes for dry in (True, False)] == [refused] * 6
    assert admin.alter(BROKER, "", (name, DELETE, None)) == refused
    assert admin.alter(BROKER, "1", (name, SET, "/nope"))[0] == 42
    admin.engine.alter_features({"metadata.version": 30})
    assert [admin.alter(BROKER, "1", change) for change in changes] == [(0, None)] * 3


def test_a_broker_setting_reaches_the_topics() -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    assert admin.alter(BROKER, "", ("message.max.bytes", SET, "999")) == (0, None)
    assert admin.alter(BROKER, "1", ("message.max.bytes", SET, "888")) == (0, None)
    assert admin.value(TOPIC, "orders", "max.message.bytes") == ("888", 2)
    (config,) = admin.describe(TOPIC, "orders", ["max.message.bytes"]).configs
    assert [(s.value, s.source) for s in config.synonyms] == [("888", 2), ("999", 3), ("1048588", 5)]
    assert {config.name for config in admin.describe(BROKER, "").configs} == {
        "message.max.bytes",
        "min.insync.replicas",
    }
    admin.alter(BROKER, "1", ("message.max.bytes", DELETE, None))
    assert admin.value(TOPIC, "orders", "max.message.bytes") == ("999", 3)


def test_min_insync_replicas_begins_as_a_setting_of_the_cluster() -> None:
    admin = Admin(min_insync_replicas="2")
    admin.create(new_topic("orders"))
    assert admin.value(TOPIC, "orders", "min.insync.replicas") == ("2", 3)
    assert admin.alter(BROKER, "", ("min.insync.replicas", SET, "1")) == (0, None)
    assert admin.value(TOPIC, "orders", "min.insync.replicas") == ("1", 3)


@pytest.mark.parametrize(
    ("kind", "name", "given", "code", "sentence"),
    [
        (TOPIC, "orders", [("retention.ms", None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "orders", [("nope", "1")], 40, "Unknown topic config name: nope"),
        (TOPIC, "orders", [("retention.ms", "1")] * 2, 42, "Error due to duplicate config keys"),
        (TOPIC, "nope", [("retention.ms", "1")], 3, "The topic 'nope' does not exist."),
        (BROKER, "1", [("num.partitions", "7")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (
            BROKER,
            "",
            [("message.max.bytes", "700")],
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (LOGGERS, "1", [("nolog", "INFO")], 42, "Unknown resource type 8"),
        (99, "x", [], 42, "Unknown resource type 99"),
    ],
)
def test_alterations_that_the_older_form_refuses(
    kind: int, name: str, given: list[tuple[str, str | None]], code: int, sentence: str
) -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    assert admin.replace(kind, name, *given) == (code, sentence)


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(version: int) -> None:
    response = Admin(brokers=2).ask(plain("DescribeCluster", include_cluster_authorized_operations=version == 2), version)
    assert (response.error_code, response.error_message, response.endpoint_type) == (0, None, 1)
    assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in response.brokers] == [
        (1, "127.0.0.1", 9092, None, False),
        (2, "127.0.0.1", 9093, None, False),
    ]
    assert response.cluster_authorized_operations == (8096 if version == 2 else -(2**31))
    assert response.controller_id in (1, 2)


# DescribeTopicPartitions


class Page(NamedTuple):
    topics: list[tuple[str, int, list[int]]]
    next: tuple[str, int] | None


def page(admin: Admin, names: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Page:
    request = plain(
        "DescribeTopicPartitions",
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor={"topic_name": cursor[0], "partition_index": cursor[1]} if cursor else None,
    )
    response = admin.ask(request, 0)
    following = response.next_cursor
    return Page(
        [(each.name, each.error_code, [p.partition_index for p in each.partitions]) for each in response.topics],
        (following.topic_name, following.partition_index) if following else None,
    )


@pytest.fixture
def paged() -> Admin:
    admin = Admin()
    admin.create(new_topic("b", 4), new_topic("a", 3))
    return admin


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        (["b", "a", "a"], 2000, None, Page([("a", 0, [0, 1, 2]), ("b", 0, [0, 1, 2, 3])], None)),
        ([], 2000, None, Page([("a", 0, [0, 1, 2]), ("b", 0, [0, 1, 2, 3])], None)),
        (["b", "a"], 4, None, Page([("a", 0, [0, 1, 2]), ("b", 0, [0])], ("b", 1))),
        (["b", "a"], 3, None, Page([("a", 0, [0, 1, 2])], ("b", 0))),
        (["a", "ab", "b"], 3, None, Page([("a", 0, [0, 1, 2])], ("ab", 0))),
        (["b", "a"], 0, None, Page([("a", 0, [0])], ("a", 1))),
        (["b", "a"], 2, ("b", 1), Page([("b", 0, [1, 2])], ("b", 3))),
        (["b", "a"], 2, ("b", 50), Page([("b", 0, [])], None)),
        (["b", "a"], 2, ("a", 3), Page([("a", 0, []), ("b", 0, [0, 1])], ("b", 2))),
        ([], 2, ("aa", 1), Page([("b", 0, [0, 1])], ("b", 2))),
        (["b", "zz"], 2, ("zz", 0), Page([("zz", 3, [])], None)),
        (["b", "a"], 2, ("b", -1), Page([("b", 42, []), ("a", 42, [])], None)),
        (["b", "a"], 2, ("c", 0), Page([("b", 42, []), ("a", 42, [])], None)),
        (["nope", "a/b"], 2, None, Page([("a/b", 17, []), ("nope", 3, [])], None)),
        (["a", ""], 2, None, Page([("a", -1, []), ("", -1, [])], None)),
    ],
)
def test_partitions_come_in_pages(
    paged: Admin, names: list[str], limit: int, cursor: tuple[str, int] | None, expected: Page
) -> None:
    assert page(paged, names, limit, cursor) == expected


def test_the_broker_limits_a_page_too() -> None:
    admin = Admin(max_request_partition_size_limit="2")
    admin.create(new_topic("a", 3))
    assert page(admin, ["a"]) == Page([("a", 0, [0, 1])], ("a", 2))


# DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_are_those_of_the_partitions_that_the_broker_holds(version: int) -> None:
    admin = Admin(brokers=2, node_id=2, log_dirs="/data/kafka")
    admin.create(
        new_topic("orders", -1, -1, on=[(0, [1]), (1, [2]), (2, [2, 1][:1])]), new_topic("other", -1, -1, on=[(0, [1])])
    )
    held = admin.ask(plain("DescribeLogDirs", topics=None), version)
    (result,) = held.results
    assert (held.error_code, result.error_code, result.log_dir) == (0, 0, "/data/kafka")
    sizes = [(each.name, [(p.partition_index, p.partition_size) for p in each.partitions]) for each in result.topics]
    assert sizes == [("orders", [(1, 0), (2, 0)])]
    assert (result.total_bytes, result.usable_bytes, result.is_cordoned) == (-1, -1, False)
    wanted = [
        {"topic": "orders", "partitions": [1, 7]},
        {"topic": "no", "partitions": [0]},
    ]
    (result,) = admin.ask(plain("DescribeLogDirs", topics=wanted), version).results
    assert [(each.name, [p.partition_index for p in each.partitions]) for each in result.topics] == [("orders", [1])]
    assert sole(admin.ask(plain("DescribeLogDirs", topics=[]), version).results).topics == []


def in_dirs(admin: Admin, *names: str) -> list[list[tuple[str, int]]]:
    """For each of the broker's log directories, returns the replicas of the topics `names`."""
    results = admin.ask(plain("DescribeLogDirs", topics=None), 5).results
    return [[(t.name, p.partition_index) for t in each.topics if t.name in names for p in t.partitions] for each in results]


def moved(admin: Admin, path: str, *indexes: int) -> list[int]:
    """Ask the broker to move its replicas of `orders` to the directory `path`. Returns the error codes."""
    topics = [{"name": "orders", "partitions": list(indexes)}]
    response = admin.ask(plain("AlterReplicaLogDirs", dirs=[{"path": path, "topics": topics}]), 2)
    return [each.error_code for each in sole(response.results).partitions]


def test_each_broker_spreads_its_replicas_over_its_log_directories() -> None:
    first = Admin(brokers=2, log_dirs="/a,/b, /a")
    second = first.at(2)
    first.create(new_topic("orders", -1, -1, on=[(0, [1]), (1, [2]), (2, [1])]), new_topic("other", -1, -1, on=[(0, [2, 1])]))
    assert in_dirs(first, "orders", "other") == [[("orders", 0), ("other", 0)], [("orders", 2)]]
    assert in_dirs(second, "orders", "other") == [[("orders", 1)], [("other", 0)]]
    assert moved(first, "/b", 0, 1) == [0, 9]
    assert in_dirs(first, "orders") == [[], [("orders", 0), ("orders", 2)]]
    assert in_dirs(second, "orders") == [[("orders", 1)], []], "a broker moves only its own replicas"
    reassigned(first, ("orders", 1, [1]))
    assert in_dirs(first, "orders") == [[], [("orders", 0), ("orders", 1), ("orders", 2)]], "broker 1 remembers the directory"
    reassigned(first, ("orders", 2, [2]))
    assert in_dirs(second, "orders", "other") == [[("orders", 2)], [("other", 0)]], "deleted replicas do not count"


def test_a_restart_forgets_where_new_replicas_were_wanted() -> None:
    admin = Admin(log_dirs="/a,/b")
    assert moved(admin, "/b", 0) == [3]
    admin.broker.restart()
    admin = admin.at(1)
    admin.create(new_topic("orders", 1))
    assert in_dirs(admin, "orders") == [[("orders", 0)], []]


def test_a_partition_with_a_negative_index_is_unknown() -> None:
    admin = Admin(log_dirs="/a,/b")
    admin.create(new_topic("orders", 1))
    assert moved(admin, "/b", -1, -5) == [3, 3]


def test_a_replica_whose_directory_has_failed_is_not_moved() -> None:
    admin = Admin(log_dirs="/a,/b")
    admin.create(new_topic("orders", 1))
    admin.engine.cluster.topics["orders"].partitions[0].go_offline(1)
    assert moved(admin, "/b", 0) == [56]
    assert in_dirs(admin, "orders") == [[("orders", 0)], []]


def test_a_broker_starts_only_with_cordoned_directories_that_it_has() -> None:
    Admin(log_dirs="/a,/b", cordoned_log_dirs="/b")
    for names, why in (("/c", "Missing entries : /c"), ("*,/a", "must not contain other values")):
        with pytest.raises(ValueError, match=why):
            Admin(log_dirs="/a,/b", cordoned_log_dirs=names)


# DeleteRecords


def delete_records(admin: Admin, name: str, *asked: tuple[int, int], version: int = 2) -> list[tuple[int, int, int]]:
    partitions = [{"partition_index": index, "offset": offset} for index, offset in asked]
    request = plain("DeleteRecords", topics=[{"name": name, "partitions": partitions}], timeout_ms=1000)
    (response,) = admin.ask(request, version).topics
    assert response.name == name
    return [(each.partition_index, each.error_code, each.low_watermark) for each in response.partitions]


def test_records_of_compacted_and_internal_topics_stay() -> None:
    admin = Admin(brokers=2)
    admin.create(new_topic("compacted", cleanup_policy="compact"), new_topic("both", cleanup_policy="compact,delete"))
    assert delete_records(admin, "compacted", (0, 0)) == [(0, 44, -1)]
    assert delete_records(admin, "both", (0, 0)) == [(0, 0, 0)]
    admin.engine.cluster.create_internal_topic("__consumer_offsets", admin.broker.clock.now())
    assert delete_records(admin, "__consumer_offsets", (0, 0)) == [(0, 17, -1)]


def test_records_are_deleted_by_the_leader_only() -> None:
    admin = Admin(brokers=2, node_id=2)
    admin.create(new_topic("orders", -1, -1, on=[(0, [1]), (1, [2])]))
    assert delete_records(admin, "orders", (0, 0), (1, 0)) == [(0, 6, -1), (1, 0, 0)]


# DescribeProducers


def test_producers_are_described_only_on_existing_partitions() -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    wanted = [("orders", [0, 7]), ("nope", [0]), ("a/b", [0])]
    request = plain("DescribeProducers", topics=[{"name": name, "partition_indexes": i} for name, i in wanted])
    response = admin.ask(request, 0)
    found = [(each.name, [(p.error_code, p.error_message) for p in each.partitions]) for each in response.topics]
    assert found == [
        ("orders", [(0, None), (3, None)]),
        ("nope", [(3, HERE)]),
        (
            "a/b",
            [
                (
                    17,
                    "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, "
                    "'.', '_' and '-'",
                )
            ],
        ),
    ]


# ApiVersions


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("apache-kafka-java", "4.3.1", 0),
        ("a", "1", 0),
        ("", "1", 42),
        ("a", "", 42),
        ("-a", "1", 42),
        ("a.", "1", 42),
        ("a b", "1", 42),
        ("a", "1\n", 42),
    ],
)
def test_software_must_have_a_name_and_a_version(name: str, version: str, code: int) -> None:
    admin = Admin()
    response = admin.ask(plain("ApiVersions", client_software_name=name, client_software_version=version), 3)
    assert response.error_code == code
    assert bool(response.api_keys) is (code == 0)
    assert admin.wire.connection.software == ((name, version) if code == 0 else ("", ""))


# Elections, reassignments, and APIs that need an authorizer


def elected(admin: Admin, asked: list[tuple[str, list[int]]] | None, kind: int = 0) -> Any:
    topics = None if asked is None else [{"topic": name, "partitions": of} for name, of in asked]
    response = admin.ask(plain("ElectLeaders", election_type=kind, topic_partitions=topics, timeout_ms=1), 2)
    assert response.error_code == (0 if kind < 2 else 42)
    return [
        (topic.topic, each.partition_id, each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


def test_leaders_that_need_no_election() -> None:
    admin = Admin()
    admin.create(new_topic("orders", 2))
    not_needed = (84, "Leader election not needed for topic partition.")
    assert elected(admin, [("orders", [1, 7]), ("nope", [0])]) == [
        ("orders", 1, *not_needed),
        ("orders", 7, 3, "No such partition as orders-7"),
        ("nope", 0, 3, "No such topic as nope"),
    ]
    assert elected(admin, [("orders", [0])], kind=1) == [("orders", 0, *not_needed)]
    assert elected(admin, None) == []
    assert elected(admin, [("orders", [0])], kind=9) == [("orders", 0, 42, "Unknown election type 9")]
    assert elected(admin, None, kind=9) == []


def reassigned(admin: Admin, *asked: tuple[str, int, list[int] | None], any_number: bool = True) -> Any:
    topics = [{"name": name, "partitions": [{"partition_index": i, "replicas": to}]} for name, i, to in asked]
    request = plain("AlterPartitionReassignments", allow_replication_factor_change=any_number, topics=topics)
    response = admin.ask(request, 1)
    assert (response.error_code, response.error_message) == (0, None)
    assert response.allow_replication_factor_change is any_number
    return [(each.error_code, each.error_message) for one in response.responses for each in one.partitions]


def test_replicas_that_cannot_move() -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    assert reassigned(
        admin, ("orders", 0, [1]), ("orders", 0, None), ("orders", 0, []), ("orders", 0, [5]), ("orders", 0, [1, 1]),
        ("orders", 9, [1]), ("nope", 0, [1]),
    ) == [
        (0, None),
        (85, None),
        (39, f"{MANUAL} an empty replica list."),
        (39, f"{MANUAL} broker 5, but no such broker is registered."),
        (39, f"{MANUAL} the broker 1 more than once."),
        (3, "Unable to find partition orders:9."),
        (3, "Unable to find a topic named nope."),
    ]  # fmt: skip
    listed = admin.ask(plain("ListPartitionReassignments", topics=None), 0)
    assert (listed.error_code, listed.topics) == (0, [])


def test_replicas_move_and_the_preferred_leader_leads_again() -> None:
    admin = Admin(brokers=3)
    admin.create(new_topic("orders", 1, 2))
    (partition,) = admin.engine.cluster.topics["orders"].partitions
    before = admin.engine.cluster.version
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ([1, 2], 1, 0)
    assert reassigned(admin, ("orders", 0, [2, 1, 3])) == [(0, None)]
    assert (partition.replicas, partition.in_sync, partition.leader) == ([2, 1, 3], [1, 2, 3], 1)
    assert elected(admin, None) == [("orders", 0, 0, None)]
    assert (partition.leader, partition.leader_epoch) == (2, 1)
    refused = reassigned(admin, ("orders", 0, [3]), any_number=False)
    assert refused == [(38, "The replication factor is changed from 3 to 1")]
    assert reassigned(admin, ("orders", 0, [3])) == [(0, None)]
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ([3], 3, 2)
    assert admin.engine.cluster.version == before + 3, "each change increases the version"


def test_replicas_stay_in_the_one_log_directory() -> None:
    admin = Admin(brokers=2, log_dirs="/data/kafka")
    admin.create(new_topic("orders", 2))
    long = "n" * 249

    def moved(path: str) -> list[tuple[str, int, int]]:
        wanted = [{"name": n, "partitions": of} for n, of in (("orders", [0, 1, 9]), (long, [0]))]
        request = plain("AlterReplicaLogDirs", dirs=[{"path": path, "topics": wanted}])
        results = admin.ask(request, 2).results
        return [(one.topic_name, each.partition_index, each.error_code) for one in results for each in one.partitions]

    assert moved("/data/kafka") == [("orders", 0, 0), ("orders", 1, 9), ("orders", 9, 3), (long, 0, 17)]
    assert moved("/nowhere") == [("orders", 0, 57), ("orders", 1, 57), ("orders", 9, 57), (long, 0, 17)]


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_all_brokers(version: int) -> None:
    admin = Admin(brokers=3)

    def asked(name: str, *indexes: int) -> Any:
        partitions = [{"partition_index": index} for index in indexes]
        topics = [{"topic_name": name, "partitions": partitions}]
        response = admin.ask(plain("DescribeQuorum", topics=topics), version)
        assert response.error_code == 0
        return response

    response = asked("__cluster_metadata", 0)
    (told,) = sole(response.topics).partitions
    assert (told.error_code, told.error_message, told.leader_id, told.observers) == (0, "", 1, [])
    assert [each.replica_id for each in told.current_voters] == [1, 2, 3]
    assert [each.node_id for each in response.nodes] == ([1, 2, 3] if version == 2 else [])
    for name, indexes in (("__cluster_metadata", [0, 1]), ("x", [0])):
        unknown = sole(asked(name, *indexes).topics).partitions
        assert [(each.partition_index, each.error_code) for each in unknown] == [(index, 3) for index in indexes]


def quorum_of(admin: Admin) -> Any:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    return admin.ask(plain("DescribeQuorum", topics=topics), 2)


def test_the_quorum_shows_its_controllers_addresses_and_when_they_were_seen() -> None:
    settings = {"controller.quorum.voters": "1@127.0.0.9:9090,2@[::1]:9099"}
    admin = Admin(brokers=3, **{name.replace(".", "_"): value for name, value in settings.items()})
    at = admin.broker.clock.now()
    admin.engine.controller.broker_down(3, at)
    admin.broker.clock.advance(seconds=5)
    admin.create(new_topic("orders"))
    response = quorum_of(admin)
    listeners = [(each.name, each.host, each.port) for node in response.nodes for each in node.listeners]
    assert listeners == [("CONTROLLER", "127.0.0.9", 9090), ("CONTROLLER", "::1", 9099), ("CONTROLLER", "127.0.0.1", 9094)]
    (told,) = sole(response.topics).partitions
    shown = [(each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp) for each in told.current_voters]
    present = (told.high_watermark, at + 5000, at + 5000)
    assert shown[:2] == [present, present]
    assert shown[2] < present
    assert shown[2][1:] == (at, at)
    assert {each.replica_directory_id for each in told.current_voters} == {bytes(16)}
    assert admin.value(BROKER, "1", "listeners")[0] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.9:9090"


def test_voters_of_a_dynamic_quorum_have_directories() -> None:
    admin = Admin(brokers=2)
    admin.engine.cluster.configs.features["kraft.version"] = 1
    (told,) = sole(quorum_of(admin).topics).partitions
    ids = [each.replica_directory_id for each in told.current_voters]
    assert len({*ids, bytes(16)}) == 3
    listed = ", ".join(f"ReplicaKey(id={node}, directoryId={format_uuid(each)})" for node, each in enumerate(ids, 1))
    other = bytes(15) + b"\x03"
    named = {"cluster_id": None, "voter_id": 2, "voter_directory_id": other}
    removed = admin.ask(plain("RemoveRaftVoter", **named), 0)
    assert (removed.error_code, removed.error_message) == (
        127, f"Cannot remove voter ReplicaKey(id=2, directoryId={format_uuid(other)}) from the set of voters [{listed}]",
    )  # fmt: skip
    listeners = [{"name": "CONTROLLER", "host": "h", "port": 1}]
    added = admin.ask(plain("AddRaftVoter", **named, timeout_ms=1000, listeners=listeners), 1)
    assert (added.error_code, added.error_message) == (
        126,
        f"The voter id for ReplicaKey(id=2, directoryId={format_uuid(other)}) is already part of the set of voters [{listed}].",
    )


@pytest.mark.parametrize("mode", ["clean", "kill", "new process"])
def test_the_offset_of_the_metadata_never_falls(tmp_path: Path, mode: str) -> None:
    seen = []
    asking = plain("ApiVersions", client_software_name="test", client_software_version="1")
    admin = Admin(data=tmp_path)
    for number in range(3):
        admin.create(*(new_topic(f"t{number}-{each}") for each in range(20)))
        for _ in range(2):
            (told,) = sole(quorum_of(admin).topics).partitions
            assert told.high_watermark == sole(told.current_voters).log_end_offset
            seen += [told.high_watermark, admin.ask(asking, 4).finalized_features_epoch]
        if mode == "new process":
            assert admin.engine.store is not None
            admin.engine.store.close(admin.broker.clock.now())
            admin = Admin(data=tmp_path)
        else:
            admin.broker.restart(mode)
            admin.wire = admin.broker.link()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_resources_with_settings_are_listed() -> None:
    admin = Admin(brokers=2)
    admin.create(new_topic("orders"))
    admin.alter(GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000"))

    def listed(kinds: Sequence[int], version: int = 1) -> Any:
        response = admin.ask(plain("ListConfigResources", resource_types=list(kinds)), version)
        return [(each.resource_type, each.resource_name) for each in response.config_resources] or response.error_code

    loggers, brokers = ([(kind, "1"), (kind, "2")] for kind in (LOGGERS, BROKER))
    assert listed([]) == [(GROUP, "readers"), *loggers, *brokers, (TOPIC, "orders")]
    assert listed([TOPIC, BROKER]) == [*brokers, (TOPIC, "orders")]
    assert listed([LOGGERS]) == loggers
    assert (listed([1]), listed([TOPIC, 99]), listed([], version=0)) == (35, 35, 0)
    admin.alter(CLIENT_METRICS, "latency", ("interval.ms", SET, "1000"))
    assert listed([], version=0) == [(CLIENT_METRICS, "latency")]


@pytest.mark.parametrize("version", range(1, 4))
def test_without_an_authorizer_there_are_no_acls(version: int) -> None:
    admin = Admin()
    acl = {"resource_name": "x", "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    found = {f"{name}_filter" if isinstance(value, str) else name: value for name, value in acl.items()}
    described = admin.ask(plain("DescribeAcls", resource_type_filter=2, **found), version)
    said = (described.error_code, described.error_message, described.resources)
    assert said == (54, "No Authorizer is configured on the broker", [])
    created = admin.ask(plain("CreateAcls", creations=[{"resource_type": 2, **acl}] * 2), version).results
    filters = [{"resource_type_filter": 2, **found}] * 2
    deleted = admin.ask(plain("DeleteAcls", filters=filters), version).filter_results
    assert [(each.error_code, each.error_message) for each in (*created, *deleted)] == [
        (54, "No Authorizer is configured.")
    ] * 4


# What is absent


def test_every_api_of_kafka_is_served_or_listed_as_skipped() -> None:
    text = (Path(apis.__file__).parent / "skipped.md").read_text(encoding="utf-8")
    skipped = {int(key): name for key, name in re.findall(r"^\| (\d+) \| (\w+) \| .+ \|$", text, re.MULTILINE)}
    served = {KEYS[name]: name for name in apis.SERVED}
    recorded = json.loads((Path(__file__).parent / "data" / "apiversions-4.3.1.json").read_text(encoding="utf-8"))
    kafka = {each["key"]: each["name"] for each in recorded["api_keys"]}
    assert not skipped.keys() & served.keys()
    assert skipped | {key: name for key, name in served.items() if key in release("4.3").announced} == kafka


def test_every_api_is_served_in_the_versions_of_kafka() -> None:
    recorded = json.loads((Path(__file__).parent / "data" / "apiversions-4.3.1.json").read_text(encoding="utf-8"))
    admin = Admin(profile=KAFKA_4_3)
    response = admin.ask(plain("ApiVersions", client_software_name="a", client_software_version="1"), 4)
    kafka = {each["key"]: (each["min"], each["max"]) for each in recorded["api_keys"]}
    for each in response.api_keys:
        assert (each.min_version, each.max_version) == kafka[each.api_key]


# Empty requests, and requests with unknown kinds

ANY_ACL = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
NEW_ACL = {
    "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip
UNEXPECTED = "The server experienced an unexpected error when processing the request."
AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


def with_zeros(fields: Plain) -> list[Plain]:
    """For each number in the fields, returns the fields with 0 in place of this number. Kafka reserves 0 for unknown values."""
    return [fields | {name: 0} for name, value in fields.items() if isinstance(value, int)]


@pytest.mark.parametrize("settings", [{}, AUTHORIZER])
@pytest.mark.parametrize(
    ("api", "fields"),
    [
        *(("DescribeAcls", each) for each in with_zeros(ANY_ACL)),
        *(("DeleteAcls", {"filters": [each]}) for each in with_zeros(ANY_ACL)),
        *(("CreateAcls", {"creations": [each]}) for each in with_zeros(NEW_ACL)),
    ],
)
def test_an_unknown_kind_in_an_acl_closes_the_connection(api: str, fields: Plain, settings: dict[str, str]) -> None:
    admin = Admin(**settings)
    with pytest.raises(ConnectionClosed):
        admin.ask(plain(api, **fields), 3)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("resource_type_filter", "patternFilter"), ("pattern_type_filter", "patternFilter"), ("operation", "entryFilter"),
        ("permission_type", "entryFilter"),
    ],
)  # fmt: skip
def test_a_filter_of_acls_with_a_number_beyond_kafkas_deletes_nothing(name: str, part: str) -> None:
    deleted = Admin(**AUTHORIZER).ask(plain("DeleteAcls", filters=[ANY_ACL | {name: 77}, ANY_ACL]), 3).filter_results
    assert [(each.error_code, each.error_message) for each in deleted] == [(42, f"Unknown {part}."), (0, None)]


@pytest.mark.parametrize("timeout_ms", [0, 5000])
def test_nothing_is_never_overdue(timeout_ms: int) -> None:
    admin = Admin()
    moved = admin.ask(plain("AlterPartitionReassignments", topics=[], timeout_ms=timeout_ms), 1)
    assert (moved.error_code, moved.error_message, moved.responses) == (0, "", [])
    elected = admin.ask(plain("ElectLeaders", election_type=0, topic_partitions=[], timeout_ms=timeout_ms), 2)
    assert (elected.error_code, elected.replica_election_results) == (0, [])


def test_a_coordinator_of_an_unknown_kind_is_refused_in_words() -> None:
    found = sole(Admin().ask(plain("FindCoordinator", key_type=9, coordinator_keys=["g"]), 6).coordinators)
    assert (found.error_code, found.error_message) == (42, MALFORMED)


@pytest.mark.parametrize(("group", "partitions"), [("", [0]), ("", []), ("g", [])])
def test_offsets_of_a_group_or_topic_without_content_are_an_unexpected_error(group: str, partitions: list[int]) -> None:
    admin = Admin()
    admin.create(new_topic("orders"))
    topics = [{"topic_name": "orders", "partitions": partitions}]
    told = sole(admin.ask(plain("DescribeShareGroupOffsets", groups=[{"group_id": group, "topics": topics}]), 1).groups)
    assert (told.error_code, told.error_message, told.topics) == (-1, UNEXPECTED, [])
    unknown = [{"topic_name": "absent", "partitions": partitions}]
    told = sole(admin.ask(plain("DescribeShareGroupOffsets", groups=[{"group_id": group, "topics": unknown}]), 1).groups)
    assert (told.error_code, told.error_message, len(told.topics)) == (0, None, 1)
