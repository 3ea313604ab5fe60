"""Settings: their valid values, the sources of values, and the descriptions.

The tables were recorded from Kafka 4.3.1. The messages are from its responses to CreateTopics and AlterConfigs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirebroker
from default_settings import defaults
from wirebroker.common.java_texts import parse_duration
from wirebroker.core.configs import (
    INVALID,
    OVERRIDES,
    BrokerConfigs,
    ConfigError,
    Source,
    Synonym,
    TopicConfigs,
    connections_by_host,
)
from wirebroker.core.releases import release
from wirebroker.core.releases.changes import RELEASES
from wirebroker.core.setting_definitions import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    TOPIC_SYNONYMS,
    ConfigType,
    Setting,
    ignored,
    ignored_patterns,
)
from wirebroker.mock import MockKafka
from wirekit import client

TAKEN = [
    ("cleanup.policy", "compact, delete", ["compact", "delete"], "compact,delete"),
    ("cleanup.policy", "compact, compact", ["compact"], "compact"),
    ("cleanup.policy", "", [], ""),
    ("retention.ms", " 5 ", 5, "5"),
    ("retention.ms", "-1", -1, "-1"),
    ("max.message.bytes", "+5", 5, "5"),
    ("preallocate", "TRUE", True, "true"),
    ("compression.gzip.level", "-1", -1, "-1"),
    ("compression.zstd.level", "-131072", -131072, "-131072"),
    ("min.cleanable.dirty.ratio", "1e-1", 0.1, "0.1"),
    ("min.cleanable.dirty.ratio", "1e-5", 1e-5, "1.0E-5"),
    ("min.cleanable.dirty.ratio", "0.5f", 0.5, "0.5"),
    ("leader.replication.throttled.replicas", "*", ["*"], "*"),
    ("leader.replication.throttled.replicas", "0:1, 1:1", ["0:1", "1:1"], "0:1,1:1"),
    ("leader.replication.throttled.replicas", "0:1,0:1", ["0:1", "0:1"], "0:1,0:1"),
    ("internal.segment.bytes", "100", 100, "100"),
]

REFUSED = [
    ("nope", "1", "Unknown topic config name: nope"),
    ("message.format.version", "2.0", "Unknown topic config name: message.format.version"),
    ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    (
        "cleanup.policy",
        "foo",
        "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    ("cleanup.policy", "compact,", "Configuration 'cleanup.policy' values must not be empty."),
    (
        "compression.type",
        "lzma",
        "Invalid value lzma for configuration compression.type: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        "compression.gzip.level",
        "10",
        "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    (
        "compression.lz4.level",
        "18",
        "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
    ),
    (
        "min.cleanable.dirty.ratio",
        "2",
        "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    (
        "min.cleanable.dirty.ratio",
        "x",
        "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
    ),
    (
        "preallocate",
        "maybe",
        "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
    ),
    ("segment.bytes", "5", "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576"),
    (
        "max.message.bytes",
        "99999999999",
        "Invalid value 99999999999 for configuration max.message.bytes: Not a number of type INT",
    ),
    (
        "retention.ms",
        "9" * 5000,
        f"Invalid value {'9' * 5000} for configuration retention.ms: Not a number of type LONG",
    ),
    ("max.message.bytes", "1_0", "Invalid value 1_0 for configuration max.message.bytes: Not a number of type INT"),
    (
        "remote.storage.enable",
        "true",
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
    ),
    (
        "leader.replication.throttled.replicas",
        "0:x",
        "Invalid value [0:x] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
]


@pytest.mark.parametrize(("name", "raw", "value", "shown"), TAKEN)
def test_a_topic_accepts_the_values_that_kafka_accepts(name: str, raw: str, value: object, shown: str) -> None:
    topic = TopicConfigs(BrokerConfigs({}), {name: raw})
    assert topic.value(name) == value
    assert topic.text(name) == shown
    assert topic.overrides == {name: raw}


@pytest.mark.parametrize(("name", "raw", "sentence"), REFUSED)
def test_a_topic_refuses_the_values_that_kafka_refuses_with_its_messages(name: str, raw: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        TopicConfigs(BrokerConfigs({}), {name: raw})
    assert str(error.value) == sentence


def test_compaction_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError) as error:
        TopicConfigs(BrokerConfigs({}), {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})
    assert str(error.value) == "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"


def test_every_default_is_a_valid_value() -> None:
    settings = [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values(), *GROUP_SETTINGS.values()]
    settings += CLIENT_METRICS_SETTINGS.values()
    assert len(settings) == 34 + 365 + 17 + 3
    for setting in settings:
        if setting.default is not None:
            assert setting.text(setting.parse(setting.default)) == setting.default, setting.name


@given(st.integers())
def test_an_integer_is_valid_exactly_within_java_s_range(number: int) -> None:
    setting = TOPIC_SETTINGS["retention.bytes"]
    if -(2**63) <= number < 2**63:
        assert setting.parse(str(number)) == number
    else:
        with pytest.raises(ConfigError, match="Not a number of type LONG"):
            setting.parse(str(number))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_value_in_java_s_notation(number: float) -> None:
    assert float(Setting.text(number)) == number


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.5, "0.5"),
        (100.0, "100.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (12345678.9, "1.23456789E7"),
        (1e22, "1.0E22"),
        (0.00012, "1.2E-4"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_are_written_as_java_writes_them(number: float, written: str) -> None:
    assert Setting.text(number) == written


# The broker's settings


def test_defaults_are_kafka_s_except_where_a_test_should_not_wait() -> None:
    configs = BrokerConfigs({})
    differing = {
        name: configs.value(name) for name, setting in BROKER_SETTINGS.items() if configs.value(name) != setting.default_value()
    }
    assert differing == {
        "connection.failed.authentication.delay.ms": 0,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
    }


def test_the_defaults_are_those_that_a_recorded_kafka_tells(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    """If wirebroker's value differs from Kafka's default, DescribeConfigs shows a static setting. The setting's synonyms still
    show Kafka's default.
    """
    recorded = json.loads((Path(__file__).parent / "data" / "defaults-4.3.1.json").read_text(encoding="utf-8"))
    found = defaults(client(mock_kafka_factory(topics=["t"], profile="kafka-4.3")))
    ours = {name for name in BrokerConfigs({}, of=release("4.3")).static if name in recorded["broker"]}
    assert len(ours) == 10
    assert found == recorded


def test_with_several_brokers_the_coordinators_topics_are_replicated_as_kafka_does() -> None:
    configs = BrokerConfigs({}, brokers=5)
    assert configs.integer("offsets.topic.replication.factor") == 3
    assert configs.integer("transaction.state.log.replication.factor") == 3
    assert configs.integer("default.replication.factor") == 1


@pytest.mark.parametrize(
    ("name", "value", "last", "error"),
    [
        ("segment.bytes", "200", "4.0", "Value must be at least 1048576"),
        ("flush.messages", "0", "3.0", "Value must be at least 1"),
        ("segment.index.bytes", "0", "3.0", "Value must be at least 4"),
        ("retention.ms", "-2", "2.1", "Value must be at least -1"),
        ("segment.ms", "0", "1.1", "Value must be at least 1"),
    ],
)
def test_older_releases_accept_smaller_values(name: str, value: str, last: str, error: str) -> None:
    """The ConfigDef of each release names the valid values. `last` is the last release that accepts the value."""
    newer = RELEASES[RELEASES.index(last) + 1]
    TopicConfigs(BrokerConfigs({}, of=release(last)), {name: value})
    with pytest.raises(ConfigError, match=error):
        TopicConfigs(BrokerConfigs({}, of=release(newer)), {name: value})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"retension.ms": "1"}, "Unknown config name: retension.ms; did you mean 'retention.ms'?"),
        ({"num.partition": "1"}, "Unknown config name: num.partition; did you mean 'num.partitions'?"),
        ({"qqqqqqqq": "1"}, "Unknown config name: qqqqqqqq"),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"retention.ms": "1", "log.retention.ms": "2"}, "log.retention.ms is set twice, to 1 and to 2"),
    ],
)
def test_a_broker_does_not_start_with_unknown_settings(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfigs(given)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"max.message.bytes": "7"}, "message.max.bytes", 7),
        ({"message.max.bytes": "7"}, "max.message.bytes", 7),
        ({"retention.ms": "1000"}, "retention.ms", 1000),
        ({"log.retention.hours": "1"}, "retention.ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, "retention.ms", 60_000),
        ({"log.retention.minutes": "1", "log.retention.ms": "5"}, "retention.ms", 5),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.roll.hours": "2"}, "segment.ms", 7_200_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"internal.segment.bytes": "100"}, "internal.segment.bytes", 100),
        ({"cleanup.policy": "compact"}, "log.cleanup.policy", ["compact"]),
    ],
)
def test_a_broker_setting_is_the_default_of_topics(given: dict[str, str], name: str, value: object) -> None:
    broker = BrokerConfigs(given)
    assert broker.value(name) == value
    if name in TOPIC_SETTINGS:
        assert TopicConfigs(broker, {}).value(name) == value


def test_an_integer_setting_is_read_as_an_integer() -> None:
    configs = BrokerConfigs({})
    with pytest.raises(TypeError, match=r"auto\.create\.topics\.enable is not a whole number but True"):
        configs.integer("auto.create.topics.enable")
    with pytest.raises(KeyError):
        configs.value("nope")


# Changing


def test_the_version_rises_with_every_change_of_the_topic_or_the_broker() -> None:
    broker = BrokerConfigs({})
    topic = TopicConfigs(broker, {})
    seen = [topic.broker.version]
    topic.replace({"retention.ms": "5"})
    seen.append(topic.broker.version)
    broker.alter({"message.max.bytes": "900"})
    seen.append(topic.broker.version)
    assert seen == sorted(set(seen))
    assert (topic.value("retention.ms"), topic.value("max.message.bytes")) == (5, 900)


def test_a_refused_change_leaves_everything_as_it_was() -> None:
    broker = BrokerConfigs({})
    topic = TopicConfigs(broker, {"retention.ms": "5"})
    version = topic.broker.version
    with pytest.raises(ConfigError):
        topic.replace({"retention.ms": "6", "nope": "1"})
    with pytest.raises(ConfigError):
        broker.alter({"message.max.bytes": "900", "log.retention.ms": "0"})
    assert (topic.value("retention.ms"), topic.value("max.message.bytes")) == (5, 1048588)
    assert (topic.broker.version, topic.overrides) == (version, {"retention.ms": "5"})


def test_a_change_for_one_broker_takes_precedence_over_one_for_all() -> None:
    broker = BrokerConfigs({"message.max.bytes": "100"})
    broker.alter({"message.max.bytes": "300"}, broker=1)
    broker.alter({"message.max.bytes": "200"})
    assert broker.value("message.max.bytes") == 300
    broker.alter({"message.max.bytes": None}, broker=1)
    assert broker.value("message.max.bytes") == 200
    broker.alter({"message.max.bytes": None})
    assert broker.value("message.max.bytes") == 100


def test_a_change_hides_a_value_in_other_units() -> None:
    broker = BrokerConfigs({"log.roll.ms": "77"})
    broker.alter({"log.retention.ms": "1000"})
    assert (broker.value("retention.ms"), broker.value("segment.ms")) == (1000, 77)
    broker.alter({"log.retention.ms": None})
    assert broker.value("retention.ms") == 604_800_000


@pytest.mark.parametrize(
    ("change", "broker", "sentence"),
    [
        ({"num.partitions": "3"}, 1, "Cannot update these configs dynamically: [num.partitions]"),
        ({"num.partitions": "3"}, None, "Cannot update these configs dynamically: [num.partitions]"),
        (
            {"listeners": "PLAINTEXT://:1"},
            None,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            {"ssl.keystore.type": "x"},
            1,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.type]",
        ),
        (
            {"num.io.threads": "100"},
            1,
            f"{INVALID}Dynamic thread count update validation failed for num.io.threads=100, "
            "value should not be greater than double the current value 8 for configuration Invalid dynamic configuration",
        ),
        (
            {"num.io.threads": "3"},
            1,
            f"{INVALID}Dynamic thread count update validation failed for num.io.threads=3, "
            "value should be at least half the current value 8 for configuration Invalid dynamic configuration",
        ),
        ({"num.io.threads": "0"}, 1, "Invalid value 0 for configuration num.io.threads: Value must be at least 1"),
        (
            {"listener.name.a.max.connections": "x"},
            None,
            "Invalid value x for configuration max.connections: Not a number of type INT",
        ),
        (
            {"listener.name.a.plain.max.connections": "1", "listener.name.a.max.connections": "1"},
            None,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listener.name.a.plain.max.connections]",
        ),
    ],
)
def test_only_some_settings_change_while_the_broker_runs(
    change: dict[str, str | None], broker: int | None, sentence: str
) -> None:
    configs = BrokerConfigs({})
    with pytest.raises(ConfigError) as error:
        configs.alter(change, broker)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("10.0.0.1", f"Error parsing configuration property '{OVERRIDES}': begin 0, end -1, length 8"),
        ("10.0.0.1:5,,b:3", f"Error parsing configuration property '{OVERRIDES}': begin 0, end -1, length 0"),
        ("10.0.0.1:x", 'For input string: "x"'), ("10.0.0.1:", 'For input string: ""'),
        ("10.0.0.1:\u00b2", 'For input string: "\u00b2"'), ("10.0.0.1:2147483648", 'For input string: "2147483648"'),
        ("a/b:5,x y:3", f"{OVERRIDES} contains invalid addresses : a/b,x y"),
        ("[::1]:5", f"{OVERRIDES} contains invalid addresses : [::1]"),
    ],
)  # fmt: skip
def test_limits_of_hosts_that_kafka_refuses(value: str, sentence: str) -> None:
    """The messages are from Kafka 4.4.0."""
    configs = BrokerConfigs({})
    with pytest.raises(ConfigError) as altered:
        configs.alter({OVERRIDES: value}, 1)
    with pytest.raises(ConfigError) as static:
        BrokerConfigs({OVERRIDES: value})
    assert str(altered.value) == str(static.value) == sentence


NETWORK = "Dynamic thread count update validation failed for num.network.threads="


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("socket.send.buffer.bytes", "x",
         "Invalid value x for configuration socket.send.buffer.bytes: Not a number of type INT"),
        ("plain.connections.max.reauth.ms", "x",
         "Invalid value x for configuration connections.max.reauth.ms: Not a number of type LONG"),
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.network.threads", "7", f"{NETWORK}7, value should not be greater than double the current value 3"),
        ("max.connections", "0", "Invalid max.connections 0"),
        ("max.connection.creation.rate", "0", "Invalid max.connection.creation.rate 0"),
    ],
)  # fmt: skip
def test_a_listener_refuses_wrong_values_of_all_its_settings(name: str, value: str, sentence: str) -> None:
    """The messages are from Kafka 4.4.0. A listener that the broker does not have refuses nothing."""
    configs = BrokerConfigs({})
    with pytest.raises(ConfigError) as error:
        configs.check({f"listener.name.inside.{name}": value}, 1, ["OUTSIDE", "INSIDE"])
    assert str(error.value) == f"{INVALID}{sentence} for configuration Invalid dynamic configuration"
    for other in ("nope", "INSIDE"):
        configs.check({f"listener.name.{other}.{name}": value}, 1, ["OUTSIDE", "INSIDE"])


def test_a_listener_with_threads_of_its_own_does_not_follow_the_broker() -> None:
    configs = BrokerConfigs({})
    own = {f"listener.name.{each}.num.network.threads": "6" for each in ("inside", "outside")}
    own |= {f"listener.name.{each}.max.connections": "5" for each in ("inside", "outside")}
    configs.check(own | {"num.network.threads": "99", "max.connections": "0"}, 1, ["INSIDE", "OUTSIDE"])
    configs.put(own, 1)
    for threads in ("2", "13"):
        with pytest.raises(ConfigError, match=f"{NETWORK}{threads}, value should .* the current value 6"):
            configs.check(own | {"listener.name.inside.num.network.threads": threads}, 1, ["INSIDE"])
    configs.check(own | {"listener.name.inside.num.network.threads": "12"}, 1, ["INSIDE"])


@pytest.mark.parametrize("value", ["PLAIN,PLAIN", "PLAIN,,PLAIN"])
@pytest.mark.parametrize("broker", [1, None])
def test_a_listener_refuses_mechanisms_that_are_named_twice(value: str, broker: int | None) -> None:
    with pytest.raises(ConfigError, match=r"Configuration 'sasl.enabled.mechanisms' values must not be duplicated\."):
        BrokerConfigs({}).check({"listener.name.nope.sasl.enabled.mechanisms": value}, broker)


def test_limits_of_hosts_that_kafka_takes() -> None:
    limits = {"10.0.0.1": 5, "0:0:0:0:0:0:0:1": 3, "host_name": -1, "127.0.0.1": 2}  # addresses as Java writes them
    assert connections_by_host(" 10.0.0.1 : 5 , ::1:+3,host_name:-1,localhost:2,") == limits
    assert connections_by_host(",") == connections_by_host("") == {}


def test_the_value_for_the_first_of_several_brokers_is_in_effect() -> None:
    broker = BrokerConfigs({}, brokers=3)
    for node in (2, 1, 3):
        broker.alter({"message.max.bytes": str(node * 100)}, broker=node)
    assert broker.value("message.max.bytes") == 100


# Showing


def test_a_topic_setting_shows_all_its_synonyms() -> None:
    broker = BrokerConfigs({"log.retention.hours": "1"})
    broker.alter({"log.retention.ms": "1000"})
    (entry,) = TopicConfigs(broker, {"retention.ms": "5"}).describe(1, ["retention.ms"])
    assert (entry.value, entry.source, entry.read_only) == ("5", Source.TOPIC, False)
    assert entry.synonyms == [
        Synonym("retention.ms", "5", Source.TOPIC),
        Synonym("log.retention.ms", "1000", Source.ALL_BROKERS),
        Synonym("log.retention.hours", "1", Source.STATIC),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_a_setting_given_in_other_units_only_is_shown_as_kafka_shows_it() -> None:
    broker = BrokerConfigs({"log.retention.hours": "1"})
    (entry,) = TopicConfigs(broker, {}).describe(1, ["retention.ms"])
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", Source.DEFAULT, [])
    assert TopicConfigs(broker, {}).source("retention.ms", 1) is Source.STATIC


def test_a_hidden_setting_is_shown_with_its_default() -> None:
    broker = BrokerConfigs({"log.retention.hours": "1"})
    broker.alter({"log.retention.ms": "5000"})
    shown = {entry.name: entry for entry in broker.describe(1)}
    assert shown["log.retention.ms"].value == "5000"
    assert (shown["log.retention.hours"].value, shown["log.retention.hours"].source) == ("168", Source.STATIC)


def test_a_change_for_one_broker_is_shown_at_that_broker_only() -> None:
    broker = BrokerConfigs({}, brokers=2)
    broker.alter({"message.max.bytes": "888"}, broker=1)
    sources = [next(entry.source for entry in broker.describe(node) if entry.name == "message.max.bytes") for node in (1, 2)]
    assert sources == [Source.BROKER, Source.DEFAULT]


def test_secrets_are_never_shown() -> None:
    broker = BrokerConfigs({"ssl.key.password": "open sesame"})
    broker.alter({"my.own.setting": "open sesame"}, broker=1)
    shown = {entry.name: entry for entry in broker.describe(1)}
    assert "open sesame" not in repr(shown)
    assert [shown[name].sensitive for name in ("ssl.key.password", "my.own.setting", "log.dir")] == [True, True, False]
    assert shown["ssl.key.password"].synonyms == [Synonym("ssl.key.password", None, Source.STATIC)]


def test_internal_settings_are_shown_only_if_they_are_set() -> None:
    name = "producer.id.expiration.check.interval.ms"
    assert name not in {entry.name for entry in BrokerConfigs({}).describe(1)}
    assert name in {entry.name for entry in BrokerConfigs({name: "500"}).describe(1)}
    topic = TopicConfigs(BrokerConfigs({}), {"internal.segment.bytes": "100"})
    assert "internal.segment.bytes" in {entry.name for entry in topic.describe(1)}
    assert len(TopicConfigs(BrokerConfigs({}, of=release("4.3")), {}).describe(1)) == 33


def test_our_own_defaults_are_shown_as_options_at_start_before_kafka_s() -> None:
    (entry,) = [e for e in BrokerConfigs({}).describe(1) if e.name == "offsets.topic.num.partitions"]
    assert (entry.value, entry.source, entry.read_only) == ("4", Source.STATIC, True)
    assert entry.synonyms[-1] == Synonym("offsets.topic.num.partitions", "50", Source.DEFAULT)


def test_topics_without_overrides_share_their_description_until_a_setting_changes() -> None:
    broker = BrokerConfigs({})
    plain, other = TopicConfigs(broker, {}), TopicConfigs(broker, {"retention.ms": "5"})
    assert plain.describe(1) is TopicConfigs(broker, {}).describe(1)
    assert [each.name for each in plain.describe(1)] == [each.name for each in other.describe(1)]
    assert sum(mine is not its for mine, its in zip(plain.describe(1), other.describe(1), strict=True)) == 1
    before = broker.describe(1)
    broker.alter({"log.retention.ms": "7"})
    assert {each.name: each.value for each in plain.describe(1)}["retention.ms"] == "7"
    assert {each.name: each.value for each in broker.describe(1)}["log.retention.ms"] == "7"
    assert before is not broker.describe(1) is broker.describe(1)


def test_a_list_with_many_spaces_takes_no_time() -> None:
    begun = time.process_time()
    with pytest.raises(ConfigError):
        TOPIC_SETTINGS["cleanup.policy"].parse("compact" + " " * 32_000 + "delete")
    assert time.process_time() - begun < 0.5
    assert TOPIC_SETTINGS["cleanup.policy"].parse(" compact \t,\n delete ") == ["compact", "delete"]


# Settings without effect


def test_every_setting_of_kafka_is_used_or_named_as_ignored() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(wirebroker.__file__).parent.rglob("*.py"))
    topic_names = {name: topic for topic, names in TOPIC_SYNONYMS.items() for name in names}
    composed = re.compile(
        r"compression\..*\.level|flush\.ms|group\.((consumer|share|streams)\.)?(min|max)\..*|"
        r"(offsets\.topic|transaction\.state\.log|share\.coordinator\.state\.topic|sasl\.oauthbearer)\..*"
    )
    newest = release("4.4").settings
    settings = {*TOPIC_SETTINGS, *BROKER_SETTINGS, *newest["topic"], *newest["broker"]}
    without_effect = set(ignored(settings))
    for name in settings - without_effect:
        of_all_groups = re.sub(r"^group\.(consumer|share|streams)\.", "", name)
        names = {name, topic_names.get(name, name), name.removeprefix("group."), of_all_groups}
        assert composed.fullmatch(name) or any(f'"{each}"' in code for each in names), f"{name} has no effect"
    for patterns in ignored_patterns().values():
        for pattern in patterns:
            assert any(fnmatchcase(name, pattern) for name in settings), pattern


def test_the_docs_name_the_settings_without_effect() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z`].*?) \| (.*) \|$", page, re.MULTILINE)
    assert {why: re.findall("`(.*?)`", names) for why, names in rows} == ignored_patterns()


def test_settings_without_effect_are_named_in_a_warning() -> None:
    configs = {"num.io.threads": 4, "num.partitions": 2, "ssl.cipher.suites": "keys"}
    with pytest.warns(UserWarning, match="no effect here: num.io.threads, ssl.cipher.suites ") as warned:
        MockKafka(configs=configs)
    assert [each.filename for each in warned] == [__file__]


def test_settings_of_a_listener_are_described_as_those_that_they_replace() -> None:
    """In Kafka 4.3.1's description, a listener's setting is read-only, and has the type and the synonyms of the setting that it
    replaces.
    """
    client_auth, jaas = "listener.name.ssl.ssl.client.auth", "listener.name.sasl_ssl.plain.sasl.jaas.config"
    configs = BrokerConfigs({client_auth: "required", "ssl.client.auth": "requested", jaas: "a secret"})
    shown = {entry.name: entry for entry in configs.describe(1)}
    entry = shown[client_auth]
    assert (entry.value, entry.read_only, entry.sensitive, entry.type) == ("required", True, False, ConfigType.STRING)
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        (client_auth, "required", Source.STATIC),
        ("ssl.client.auth", "requested", Source.STATIC),
        ("ssl.client.auth", "none", Source.DEFAULT),
    ]
    assert (shown[jaas].value, shown[jaas].sensitive, shown[jaas].type) == (None, True, ConfigType.PASSWORD)
    assert [(each.name, each.value) for each in shown[jaas].synonyms] == [(jaas, None)]


def test_durations_are_read_as_by_java() -> None:
    read = {
        "P1DT2H": 93_600_000_000_000, "PT-0.5S": -500_000_000, "-PT1M": -60_000_000_000, "PT1H-30M": 1_800_000_000_000,
        "PT1,5S": 1_500_000_000, "-PT-1.25S": 1_250_000_000, "PT0.000000001S": 1,
        "P106751991167300DT15H30M7.9S": 9_223_372_036_854_775_807_900_000_000, "P106751991167301D": None, "PT": None,
    }  # fmt: skip
    assert {text: parse_duration(text) for text in read} == read
