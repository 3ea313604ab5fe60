"""MockKafka and the pytest plugin, used as in users' tests."""

from __future__ import annotations

import asyncio
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from mypy import api

from kafkawire.errors import ErrorCode
from kafkawire.names import ApiName, ErrorName
from kafkawire.registry import KEYS
from requesting import find_coordinator, init_producer_id, plain, produce_request
from responses import sole
from wirebroker import MockKafka, ProxyKafka, faults
from wirebroker.client.wire import ConnectionClosed, address_of
from wirebroker.core.configs import ConfigError
from wirebroker.core.profile import PROFILES, ProfileName
from wirebroker.faults import FaultError
from wirebroker.mock import Settings
from wirebroker.net import driver
from wirebroker.net.clock import CLOCKS, ClockName
from wirebroker.net.host import Host
from wirebroker.net.listener import Listener
from wirebroker.net.protocol import BrokerProtocol
from wirebroker.net.proxy_host import ProxyHost
from wirebroker.net.thread import LoopThread
from wirebroker.security.mechanisms import SERVED
from wirebroker.security.protocols import protocol_named
from wirebroker.testing.client_settings import Access, Library, MechanismName, client_settings
from wirebroker.testing.goals import RecordsExpected
from wirebroker.testing.option_table import Options
from wirebroker.testing.options import CHOICES
from wirebroker.testing.topic_specs import Topics
from wirebroker.trace.levels import LEVELS, Level
from wirebroker.trace.rows import EVENTS, EventName
from wirekit import RawProducer, batch, client


def test_records_have_every_field_of_the_wire() -> None:
    with MockKafka(topics={"orders": 2}) as kafka:
        producer = RawProducer(kafka, partition=1)
        producer.send(0, 2)
        first, *_, last = kafka.records("orders")
        assert (first.partition, first.offset, first.value, first.sequence, first.producer_epoch) == (1, 0, b"v0", 0, 0)
        assert (last.offset, last.sequence, last.producer_id) == (2, 2, producer.pid)
        assert (last.transactional, last.control, last.headers, last.key) == (False, False, (), None)
        assert kafka.records("orders", 0) == []
        with pytest.raises(KeyError):
            kafka.records("nothing")


def test_producers_shows_the_validators_state() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        for first in range(0, 12, 2):
            producer.send(first, first + 1)
        (entry,) = kafka.producers("orders", 0).values()
        assert [(b.first_sequence, b.last_sequence, b.first_offset) for b in entry.batches] == [
            (first, first + 1, first) for first in range(2, 12, 2)
        ]


def test_topics_have_partitions_replicas_and_settings() -> None:
    policy = {"cleanup.policy": "compact"}
    words = {"partitions": 2, "replication_factor": 3, "configs": policy}
    for topics in ("orders:2:rf=3:cleanup.policy=compact", ["orders:2:rf=3:cleanup.policy=compact"], {"orders": words}):
        with MockKafka(brokers=3, topics=topics) as kafka:  # type: ignore[arg-type]
            assert list(kafka.topics()) == ["orders"]
            orders = kafka.topics()["orders"]
            assert (orders.configs, [each.replicas for each in orders.partitions]) == (policy, [[1, 2, 3], [2, 3, 1]])
    throttled = "leader.replication.throttled.replicas"
    with MockKafka(topics=["one", f"many:4:{throttled}=0:1,1:2"], configs={"num.partitions": 2}) as kafka:
        assert {name: len(each.partitions) for name, each in kafka.topics().items()} == {"one": 2, "many": 4}
        assert kafka.topics()["many"].configs == {throttled: "0:1,1:2"}
        kafka.create_topic("later")
        assert len(kafka.topics()["later"].partitions) == 2


def test_a_topic_has_one_replica_unless_more_are_asked_for() -> None:
    """As in Kafka, default.replication.factor is 1."""
    with MockKafka(brokers=3, topics=["orders", "pay:1:rf=2"]) as kafka:
        assert kafka.partition("orders").replicas == [1]
        why = "broker 2 has no replica of orders-0, which is on broker 1 alone; create the topic with a replication factor of 3"
        with pytest.raises(ValueError, match=why):
            kafka.move_leader("orders", to=2)
        with pytest.raises(ValueError, match=r"broker 3 has no replica of pay-0, which is on \[1, 2\]"):
            kafka.move_leader("pay", to=3)
        with pytest.raises(ValueError, match="there is no broker 7"):
            kafka.move_leader("pay", to=7)
        kafka.move_leader("pay", to=2)
        assert kafka.partition("pay").leader == 2
    with MockKafka(brokers=3, configs={"default.replication.factor": 3}, topics="orders") as kafka:
        assert kafka.partition("orders").replicas == [1, 2, 3]


def test_groups_offsets_and_transactions() -> None:
    with MockKafka(topics="orders:2") as kafka:
        for value in ("tea", "coffee"):
            kafka.produce("orders", value=value)
        assert (kafka.groups(), kafka.transactions(), kafka.committed_offsets("team")) == ({}, {}, {})
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "team", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        assert consumer.consume(2, timeout=10)[0].value() == b"tea"
        consumer.commit(asynchronous=False)
        team = kafka.groups()["team"]
        assert (team.state, len(team.members), kafka.committed_offsets("team")) == ("Stable", 1, {("orders", 0): 2})
        assert [(each.topic, each.partitions) for each in team.members[0].assignment or ()] == [("orders", [0, 1])]
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till"})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("orders", b"open", partition=1)
        producer.flush(10)
        till = kafka.transactions()["till"]
        assert (till.state, [(each.topic, each.partitions) for each in till.partitions]) == ("Ongoing", [("orders", [1])])
        producer.abort_transaction(10)
        assert kafka.connection_count() > 0
        consumer.close()
        assert kafka.groups()["team"].state == "Empty"
        assert kafka.brokers()[1].listeners == {"PLAINTEXT": kafka.bootstrap_servers}


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        ({"value": {"a": {1}}}, "Object of type set is not JSON serializable"),
        ({"key": 5}, "key is bytes, a text, a dict or a list for JSON, or None, not 5; serialize it first"),
        ({"headers": "name"}, "headers are a dict, or pairs of a name and its value, not 'name'"),
        ({"headers": [("a", "b", "c")]}, "headers are a dict, or pairs"),
        ({"headers": {"a": 5}}, "the header 'a' is bytes, a text, a dict or"),
    ],
)
def test_seed_data_that_cannot_be_stored_is_refused(record: dict[str, Any], wrong: str) -> None:
    with MockKafka() as kafka, pytest.raises(TypeError, match=wrong):
        kafka.produce("orders", **record)


def test_seed_data_as_text() -> None:
    with MockKafka() as kafka:
        kafka.produce("orders", key="käse", value=bytearray(b"tea"), headers={"a": "b", "none": None})
        (record,) = kafka.records("orders")
        assert (record.key, record.value, record.headers) == ("käse".encode(), b"tea", (("a", b"b"), ("none", None)))
        with pytest.raises(IndexError, match="the topic 'orders' has no partition 5"):
            kafka.records("orders", 5)


def test_a_second_start_is_refused_and_a_restart_is_not() -> None:
    kafka = MockKafka()
    assert not kafka.running
    with kafka:
        with pytest.raises(RuntimeError, match="already running"):
            kafka.start()
        assert kafka.running
        kafka.produce("orders", value="it still runs")
    with kafka:
        assert kafka.topics() == {}


def test_choices_that_type_checkers_know_are_all_that_there_are() -> None:
    assert set(get_args(ProfileName)) == set(PROFILES)
    assert get_args(ClockName) == tuple(CLOCKS)
    assert get_args(Level) == tuple(LEVELS)
    assert get_args(ApiName) == tuple(KEYS)
    assert get_args(ErrorName) == tuple(ErrorCode.__members__)
    assert get_args(EventName) == tuple(EVENTS)
    assert get_args(MechanismName) == SERVED
    access = Access("127.0.0.1:9092", protocol_named("plaintext"))
    assert all(client_settings(library, access) for library in get_args(Library))
    hints = get_type_hints(Options, localns={"Topics": Topics, "ProfileName": ProfileName, "Level": Level})
    assert {name: get_args(hints[name]) for name in CHOICES} == CHOICES


@pytest.mark.timeout(300)  # the first time, mypy has no cache
def test_mypy_finds_a_misspelled_word(tmp_path: Path) -> None:
    """mypy checks the options of each kind of fault. These options are checked at run time as well."""
    (tmp_path / "typo.py").write_text(
        "from wirebroker import MockKafka, faults\n"
        "faults.error(1, ntn=1)\n"
        "MockKafka(clock='frosen')\n"
        "faults.lose_akc(api='Produce')\n"
        "faults.lose_ack(api='Produce', nth=[1, 2])\n"
        "MockKafka(topics=['orders:3'], profile='kafka-2.3', trace='all').restart('kill')\n"
        "faults.lose_ack(api='Prodce')\n"
        "faults.lose_ack(api=['Produce', 'Fecth'])\n"
        "faults.error('NOT_LEEDER')\n"
        "faults.error('NOT_LEADER_OR_FOLLOWER', api=['Produce', 'Fetch'])\n"
        "MockKafka().client_settings('kafka-pyton')\n"
        "MockKafka().trace.events('repyl')\n"
    )
    root = Path(__file__).parents[1]
    response, _, _ = api.run(["--config-file", str(root / "pyproject.toml"), "--cache-dir", str(root / ".mypy_cache"),
                            str(tmp_path / "typo.py")])  # fmt: skip
    found = re.findall(r"typo.py:(\d+): error: (.*)", response)
    assert [int(line) for line, _ in found] == [2, 3, 4, 7, 8, 9, 11, 12]
    assert found[0][1] == 'Unexpected keyword argument "ntn" for "error"  [call-arg]'
    with pytest.raises(FaultError, match="error has no option 'ntn'; did you mean 'nth'?"):
        faults.error(1, ntn=1)  # type: ignore[call-arg]


def test_a_misspelled_name_gets_the_nearest_one() -> None:
    with MockKafka(topics="orders") as kafka, MockKafka(security="sasl_plaintext", users={"alice": "x"}) as secured:
        wire = client(kafka)
        wire.request(find_coordinator("till", kind=1), 4)
        wire.request(init_producer_id("till", 1000), 4)
        for call, advice in (
            (lambda: kafka.records("oders"), "there is no topic 'oders'; did you mean 'orders'?"),
            (lambda: kafka.audit("oders"), "there is no topic 'oders'; did you mean 'orders'?"),
            (lambda: kafka.expire_producer(7, "oders"), "there is no topic 'oders'; did you mean 'orders'?"),
            (lambda: kafka.truncate("oders", 0, 0), "there is no partition oders-0; did you mean 'orders'?"),
            (lambda: kafka.move_leader("oders", to=1), "there is no partition oders-0; did you mean 'orders'?"),
            (lambda: kafka.fence("tlil"), "there is no transactional id 'tlil'; did you mean 'till'?"),
            (lambda: secured.client_settings("java", "alcie"), "there is no user 'alcie'; did you mean 'alice'?"),
            (lambda: secured.client_settings("java", mechanism="SCRAM-SHA-265"), "did you mean 'SCRAM-SHA-256'?"),
        ):
            with pytest.raises((LookupError, ValueError)) as refused:
                call()
            assert advice in str(refused.value)


def test_every_object_that_users_get_shows_what_it_is() -> None:
    kafka = MockKafka(topics=["orders", "pay"], telemetry=True)
    assert repr(kafka) == "MockKafka(not running)"
    with kafka, ProxyKafka(upstream=kafka.bootstrap_servers) as proxy:
        producer = RawProducer(kafka)
        producer.send(0, 1)
        kafka.produce("orders", key="k", value="tea", headers={"h": b"\xff"})
        kafka.faults.add(faults.lose_ack(nth=9))
        kafka.quotas.set(client_id="till", producer_byte_rate=5)
        first, _, last = kafka.records("orders")
        shown = {
            kafka: rf"MockKafka\({kafka.bootstrap_servers}, topics: orders, pay\)",
            proxy: rf"ProxyKafka\(127.0.0.1:\d+ before {kafka.bootstrap_servers}\)",
            kafka.faults: r"Faults\(lose_ack\(nth=9, then=disconnect\) fired 0 of 0\)",
            proxy.faults: r"Faults\(none\)",
            kafka.trace: r"TraceView\(level verdicts, \d rows\)",
            kafka.clock: r"ClockControl\(20\d\d-\d\d-\d\d .*\)",
            kafka.quotas: r"Quotas\({'client-id': 'till'}: {'producer_byte_rate': 5.0}\)",
            kafka.telemetry: r"TelemetryView\(0 pushes\)",
            kafka.audit(): r"AuditReport\(no finding\)",
            first: r"StoredRecord\(orders-0 offset 0, key null, value 'v0', producer 0 epoch 0 sequence 0\)",
            last: r"StoredRecord\(orders-0 offset 2, key 'k', value 'tea', h: 1 bytes\)",
        }
        for each, pattern in shown.items():
            assert re.fullmatch(pattern, repr(each)), repr(each)
    assert repr(kafka.faults) == "Faults(none)"


def test_seed_data_without_a_client() -> None:
    with MockKafka() as kafka:
        assert kafka.produce("orders", key=b"k", value=b"v", headers=[("h", b"x")], timestamp=5) == 0
        assert kafka.produce("orders", value=b"w") == 1
        (first, second) = kafka.records("orders")
        assert (first.key, first.value, first.headers, first.timestamp, first.producer_id) == (
            b"k",
            b"v",
            (("h", b"x"),),
            5,
            -1,
        )
        assert second.timestamp > 1_600_000_000_000


def test_a_connection_that_is_accepted_while_the_broker_is_reset_belongs_to_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = BrokerProtocol.__init__
    with MockKafka() as kafka:

        def accept(self: BrokerProtocol, host: Host, listener: Listener) -> None:
            made(self, host, listener)
            host.replace(kafka._new_engine())

        monkeypatch.setattr(BrokerProtocol, "__init__", accept)
        assert client(kafka).request(plain("ApiVersions"), 0, timeout=2).error_code == 0


def test_wait_for_records_wakes_up_when_they_come() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        waited: list[int] = []
        waiter = threading.Thread(target=lambda: waited.append(len(kafka.wait_for_records("orders", 3, timeout=10))))
        waiter.start()
        RawProducer(kafka).send(0, 2)
        waiter.join(10)
        assert waited == [3]


def test_wait_for_records_says_how_many_came() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka.produce("orders", value=b"v")
        with pytest.raises(TimeoutError, match="1 of 2 records were stored in 'orders' within 0.01 s"):
            kafka.wait_for_records("orders", 2, timeout=0.01)


def test_a_wait_reads_a_restored_log_from_its_start() -> None:
    with MockKafka(topics=["orders"]) as kafka:
        snapshot = kafka.snapshot()
        goal = RecordsExpected("orders", ["new", "newer"], None, in_order=True, committed=True)
        kafka.produce("orders", value="old")
        assert not kafka._call(goal.reached)
        kafka.restore(snapshot)
        for value in ("new", "newer"):
            kafka.produce("orders", value=value)
        assert kafka._call(goal.reached)
        goal.verdict(kafka._call(goal.result))


def test_reset_closes_the_connections_and_empties_the_broker() -> None:
    with MockKafka(topics={"orders": 1}, trace="all") as kafka:
        before = kafka.bootstrap_servers
        producer = RawProducer(kafka)
        producer.send(0)
        kafka.create_topic("more", 2)
        kafka.clock.advance(days=8)
        kafka.reset()
        with pytest.raises(ConnectionClosed):
            producer.send(1)
        assert kafka.bootstrap_servers == before
        assert kafka.records("orders") == []
        assert kafka.trace.produce() == []
        assert abs(kafka.clock.now() - time.time() * 1000) < 60_000, "a reset sets the clock back to the real time"
        topics = client(kafka).request(plain("Metadata", topics=None), 9).topics
        assert [topic.name for topic in topics] == ["orders"]
        assert RawProducer(kafka).pid == 0
        first = kafka.trace.events("connection")[0]
        assert (first.connection, getattr(first, "change", "")) == (1, "opened"), (
            "the new broker's trace begins with a new connection"
        )


def test_restart_keeps_the_address_and_the_records() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        producer.send(0)
        for mode in ("clean", "kill"):
            kafka.restart(mode)
            with pytest.raises(ConnectionClosed):
                producer.send(1)
            assert producer.send(0).base_offset == 0
        assert len(kafka.records("orders")) == 1
        with pytest.raises(ValueError, match="'clean' or 'kill'"):
            kafka.restart("softly")


def test_a_frozen_clock_moves_only_by_advance() -> None:
    with MockKafka(clock="frozen") as kafka:
        now = kafka.clock.now()
        assert kafka.clock.now() == now
        kafka.clock.advance(timedelta(days=8), hours=1)
        assert kafka.clock.now() - now == (8 * 24 + 1) * 3_600_000
        with pytest.raises(ValueError, match="only moves forward"):
            kafka.clock.advance(seconds=-1)
        with pytest.raises(TypeError, match="advance takes a timedelta, or arguments such as days=8, not '8 days'"):
            kafka.clock.advance("8 days")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="there is no event 'prodcue'; did you mean 'produce'"):
            kafka.trace.events("prodcue")


def test_a_variable_names_the_profile_of_a_whole_suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WIREBROKER_PROFILE", "kafka-3.9")
    (learned := tmp_path / "prod.toml").write_text('format = 1\nrelease = "3.3"\n[[broker]]\nnode_id = 1\n')
    made = MockKafka(), MockKafka(profile="kafka-2.8"), MockKafka(like=learned)
    releases = [kafka._options.new_rules().release for kafka in made]
    assert releases == ["3.9", "2.8", "3.3"]
    monkeypatch.setenv("WIREBROKER_PROFILE", "kafka")
    with pytest.raises(ValueError, match="^WIREBROKER_PROFILE: .*'kafka'"):
        MockKafka()


def test_one_seed_makes_ids_repeatable() -> None:
    def topic_id() -> bytes:
        with MockKafka(topics={"orders": 1}, random_seed=5) as kafka:
            found: bytes = sole(client(kafka).request(plain("Metadata", topics=None), 12).topics).topic_id
            return found

    assert topic_id() == topic_id()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"configs": {"num.partitons": 3}}, ConfigError, "num.partitions"),
        ({"profile": "kafka"}, ValueError, "there is no profile 'kafka'"),
        ({"profile": 3.9}, ValueError, "profile: the name of a profile must be a string such as 'kafka-4.4', not 3.9"),
        ({"profile": {"kafka-3.9"}}, ValueError, "profile: the name of a profile must be a string"),
        ({"rules": {"window": 0}}, ValueError, "at least 1"),
        ({"record_checks": "none"}, ValueError, "record_checks: 'none' is not one of full, header"),
        ({"clock": "fast"}, ValueError, "clock: 'fast' is not one of system, frozen"),
        ({"max_versions": {"Prodce": 3}}, ValueError, "no API named 'Prodce'"),
        ({"topics": 5}, ValueError, "topics: give a name, a list of names, or a dict of names and partition counts, not 5"),
        ({"topics": [5]}, ValueError, "topics: the name of a topic must be a string, not 5"),
        ({"topics": ["a", "a:3"]}, ValueError, "topics: the topic 'a' is named twice"),
        ({"topics": "a:x"}, ValueError, "topics: a:x: the number of partitions is 'x'"),
        ({"topics": "a:rf=0"}, ValueError, "topics: a:rf=0: the number of replicas is '0'"),
        ({"topics": "a:1:2"}, ValueError, "topics: a:1:2: '2' is not KEY=VALUE"),
        ({"topics": "a:rf=1:rf=1"}, ValueError, "topics: a:rf=1:rf=1: rf is set twice"),
        ({"topics": {"a": "3"}}, ValueError, "topics: 'a' needs at least 1 partition, not '3'"),
        ({"topics": {"a": {"partitons": 3}}}, ValueError, "no 'partitons'; did you mean 'partitions'?"),
        ({"topics": {"a": {"retention.ms": 3}}}, ValueError, "no 'retention.ms'; Kafka's settings go into its 'configs'"),
        ({"topics": {"a": {"configs": "x"}}}, ValueError, "the configs of 'a' must be a dict of Kafka's topic settings"),
        ({"topics": "a:rf=2"}, ValueError, "topics: a: 1 broker cannot hold 2 replicas of 'a'"),
        ({"topics": "a:clenup.policy=compact"}, ValueError, r"no setting 'clenup.policy'; did you mean 'cleanup.policy'\?"),
        ({"topics": "a:cleanup.policy=compat"}, ValueError, "topics: a: Invalid value .*compat"),
        ({"topics": {"bad/name": 1}}, ValueError, "characters other than"),
        ({"topics": {"orders": 0}}, ValueError, "topics: 'orders' needs at least 1 partition, not 0"),
        ({"rules": ["window=3"]}, ValueError, r"rules: give a value of the type .*Mapping.* \| None, not \['window=3'\]"),
        ({"users": [("al", "secret")]}, ValueError, r"users: give a value of the type .*Mapping.*, not of the type list$"),
        ({"data": {"a": 1}}, ValueError, "data: give a value of the type str"),
        ({"topics": "a:10001"}, ValueError, "topics: 'a' can have at most 10000 partitions, not 10001"),
    ],
)
def test_a_wrong_setting_says_what_is_wrong(settings: dict[str, object], error: type[Exception], message: str) -> None:
    threads = threading.active_count()
    with pytest.raises(error, match=message), MockKafka(**settings):  # type: ignore[arg-type]
        pass
    assert threading.active_count() == threads


@pytest.mark.parametrize("option", [each.name for each in fields(Settings)])
@pytest.mark.parametrize("value", [object(), [object()]], ids=["an object", "a list"])
def test_a_value_of_another_type_is_refused_with_the_options_name(option: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="^add a rule such as" if option == "faults" else f"^{option}: "):
        MockKafka(**{option: value})


def test_max_versions_caps_what_is_offered() -> None:
    with MockKafka(max_versions={"Produce": 8}) as kafka:
        offered = {api.api_key: api.max_version for api in client(kafka).request(plain("ApiVersions"), 0).api_keys}
        assert offered[0] == 8
        with pytest.raises(ConnectionClosed):
            client(kafka).request(produce_request("orders", batch()), 9)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda kafka: kafka.records(None), KeyError, "there is no topic None"),
    (lambda kafka: kafka.create_topic("wide", 10_001), ValueError, "a topic has at least 1 and at most 10000 partitions"),
    (lambda kafka: kafka.faults.add(faults.lose_ack), TypeError, "add a rule such as faults.lose_ack"),
    (lambda kafka: kafka.faults.add([faults.lose_ack()]), TypeError, "add a rule such as faults.lose_ack"),
    (lambda kafka: kafka.faults["lost"], KeyError, "^no loaded rule has the name 'lost'$"),
], ids=["no topic", "too wide", "a class", "a list", "no rule"])  # fmt: skip
def test_a_wrong_argument_says_what_is_wrong(
    call: Callable[[MockKafka], object], error: type[Exception], message: str, mock_kafka: MockKafka
) -> None:
    with pytest.raises(error, match=message):
        call(mock_kafka)


def test_a_broker_that_is_not_running_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        MockKafka().records("orders")


def test_many_threads_may_stop_a_broker_and_only_one_may_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, refusals, close = MockKafka(), list[str](), Host.close

    async def close_slowly(host: Host) -> None:
        await asyncio.sleep(0.1)
        await close(host)

    monkeypatch.setattr(Host, "close", close_slowly)

    def at_once(act: Callable[[], None]) -> None:
        def try_it() -> None:
            try:
                act()
            except RuntimeError as refusal:
                refusals.append(str(refusal))

        threads = [threading.Thread(target=try_it, daemon=True) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
        assert not any(each.is_alive() for each in threads)

    before = threading.active_count()
    kafka.start()
    at_once(kafka.start)
    assert len(refusals) == 8
    at_once(kafka.stop)
    assert (len(refusals), kafka.running, threading.active_count()) == (8, False, before)


def test_a_call_that_would_wait_for_ever_is_refused() -> None:
    with MockKafka(topics=["orders"]) as kafka:

        def stop() -> None:
            with pytest.raises(RuntimeError, match="call it outside of the loop's thread"):
                kafka.stop()

        kafka._call(lambda _: stop())
        assert kafka.records("orders") == []
    loop = asyncio.new_event_loop()
    kafka = loop.run_until_complete(MockKafka(topics=["orders"]).__aenter__())
    with pytest.raises(RuntimeError, match="the event loop of this broker does not run"):
        kafka.records("orders")
    loop.run_until_complete(kafka.__aexit__())
    loop.close()


def test_a_call_that_comes_when_the_loop_ends_is_refused() -> None:
    thread, refusals = LoopThread(), list[str]()

    def call() -> None:
        try:
            thread.call(lambda: None)
        except RuntimeError as refusal:
            refusals.append(str(refusal))

    late = threading.Thread(target=call, daemon=True)
    run, thread.loop.close = thread.loop.close, lambda: (late.start(), time.sleep(0.2), run())  # type: ignore[method-assign]
    thread.stop()
    late.join(10)
    assert "the event loop of this broker does not run" in refusals[0]


def test_a_broker_ends_with_its_event_loop() -> None:
    async def begin() -> MockKafka:
        return await MockKafka(topics=["orders"]).__aenter__()

    thread = LoopThread()
    threaded = MockKafka(topics=["orders"], loop_thread=thread)
    threaded.start()
    thread.stop()
    thread.stop()
    for kafka in (asyncio.run(begin()), threaded):
        assert (kafka.running, repr(kafka)) == (False, "MockKafka(not running)")
        with pytest.raises(RuntimeError, match="this MockKafka is not running"):
            kafka.records("orders")
        kafka.stop()
    with pytest.raises(RuntimeError, match="the event loop of this broker does not run"):
        threaded.start()


def test_a_proxy_is_started_and_stopped_as_a_broker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    close = ProxyHost.close

    async def close_slowly(host: ProxyHost) -> None:
        await asyncio.sleep(0.1)
        await close(host)

    monkeypatch.setattr(ProxyHost, "close", close_slowly)
    before, proxy = threading.active_count(), ProxyKafka(upstream="127.0.0.1:1")
    proxy.start()
    with pytest.raises(RuntimeError, match="this ProxyKafka is already running"):
        proxy.start()

    def stop() -> None:
        with pytest.raises(RuntimeError, match="call it outside of the loop's thread"):
            proxy.stop()

    proxy._call(lambda _: stop())
    assert proxy.connection_count() == 0
    threads = [threading.Thread(target=proxy.stop, daemon=True) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert threading.active_count() == before
    thread = LoopThread()
    proxy = ProxyKafka(upstream="127.0.0.1:1", loop_thread=thread)
    proxy.start()
    thread.stop()
    with pytest.raises(RuntimeError, match="this ProxyKafka is not running"):
        proxy.connection_count()
    proxy.stop()


@pytest.mark.parametrize("front", ["broker", "control", "proxy"])
def test_a_connection_that_is_accepted_while_its_server_stops_is_closed(front: str) -> None:
    thread = LoopThread()
    with MockKafka() as upstream:
        for turns in range(5):  # the loop accepts a connection in one turn, and makes its transport in the next turn
            mock = MockKafka(control=True, loop_thread=thread)
            proxy = ProxyKafka(upstream=upstream.bootstrap_servers, loop_thread=thread)
            stopping = proxy if front == "proxy" else mock
            stopping.start()
            where = mock.control_url.removeprefix("http://") if front == "control" else stopping.bootstrap_servers

            async def stop(where: str = where, stopping: Any = stopping, turns: int = turns) -> socket.socket:
                connection = socket.create_connection(address_of(where), 5)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await stopping._stop()
                return connection

            with thread.await_(stop()) as connection, suppress(ConnectionResetError):
                assert connection.recv(1) == b""
            stopping.stop()
    thread.stop()


def test_async_in_the_callers_loop() -> None:
    async def scenario() -> None:
        async with MockKafka(topics={"orders": 1}) as kafka:
            work = asyncio.to_thread(lambda: RawProducer(kafka).send(0, 4))
            task = asyncio.create_task(work)
            assert len(await kafka.wait_for_records_async("orders", 5)) == 5
            await task
            with pytest.raises(RuntimeError, match=r"await kafka.wait_until_async\(…\) instead"):
                kafka.wait_until(lambda: True)
            with pytest.raises(TimeoutError, match="did not come true within 0.01 s"):
                await kafka.wait_until_async(lambda: False, timeout=0.01)
            with pytest.raises(TimeoutError, match="5 of 6 records were stored in 'orders' within 0.01 s"):
                await kafka.wait_for_records_async("orders", 6, timeout=0.01)

    asyncio.run(scenario())


def test_wait_until_notices_a_condition_outside_the_broker() -> None:
    """`wait_until` checks the condition again even if nothing happens in the broker."""
    with MockKafka() as kafka:
        found = iter([False, True])
        kafka.wait_until(lambda: next(found), timeout=0.5)

    async def scenario() -> None:
        async with MockKafka() as kafka:
            found = iter([False, True])
            await kafka.wait_until_async(lambda: next(found), timeout=0.5)

    asyncio.run(scenario())


def test_waiting_in_another_loop_than_the_brokers() -> None:
    """The broker runs in a thread. The client runs in the test's event loop. A wait must not block the loop, and must end as
    soon as its condition holds.
    """

    async def scenario(kafka: MockKafka) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        sent = [asyncio.ensure_future(producer.send_and_wait("orders", b"tea")) for _ in range(3)]
        assert len(await kafka.wait_for_records_async("orders", 3)) == 3
        await asyncio.gather(*sent)
        for blocking in (lambda: kafka.wait_for_records("orders", 3), lambda: kafka.wait_until(lambda: True)):
            with pytest.raises(RuntimeError, match="would block the event loop that runs here; await kafka.wait_.*_async"):
                blocking()
        with pytest.raises(TimeoutError, match="3 of 4 records were stored in 'orders' within 0.01 s"):
            await kafka.wait_for_records_async("orders", 4, timeout=0.01)
        await producer.stop()

    with MockKafka(topics="orders") as kafka:
        asyncio.run(scenario(kafka))


@pytest.mark.parametrize("own_loop", [True, False])
def test_a_waiter_is_woken_by_a_change_and_not_by_the_recheck(own_loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "RECHECK_S", 60)

    async def scenario(kafka: MockKafka) -> None:
        waiting = asyncio.ensure_future(kafka.wait_for_records_async("orders", 1, timeout=30))
        await asyncio.sleep(0)
        loop, woken = asyncio.get_running_loop(), list[object]()
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: (woken.append(call), wake(*call)))
        threading.Thread(target=kafka.produce, args=["orders"], kwargs={"value": "tea"}).start()
        assert len(await asyncio.wait_for(waiting, 10)) == 1
        assert woken, "the loop must be woken with call_soon_threadsafe"

    async def in_its_loop() -> None:
        async with MockKafka() as kafka:
            await scenario(kafka)

    if own_loop:
        asyncio.run(in_its_loop())
    else:
        with MockKafka() as kafka:
            asyncio.run(scenario(kafka))


def test_a_waiter_whose_loop_has_ended_does_no_harm() -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    with MockKafka(topics="orders") as kafka:
        kafka._running.watchers.append(partial(driver._call_in, ended, print))
        kafka.produce("orders", value="tea")
        assert len(kafka.wait_for_records("orders", 1)) == 1


def test_many_threads_at_once() -> None:
    with MockKafka(topics={"orders": 4}) as kafka:

        def work(partition: int) -> None:
            producer = RawProducer(kafka, partition=partition)
            for i in range(20):
                assert producer.send(i).base_offset == i
                kafka.records("orders", partition)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(kafka.records("orders")) == 80


def test_it_starts_within_milliseconds() -> None:
    times = []
    for _ in range(20):
        began = time.process_time()  # the CPU time of all threads: other work on the machine does not count
        with MockKafka(topics={"orders": 1}):
            times.append(time.process_time() - began)
    assert statistics.median(times) < 0.02  # the start takes 2 ms on an idle machine (scripts/bench)


def test_importing_wirebroker_does_not_import_the_broker() -> None:
    script = "import sys, wirebroker; sys.exit('asyncio' in sys.modules or 'wirebroker.mock' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_trace_by_topic_and_partition(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    kafka = mock_kafka_factory(topics=["orders"])
    RawProducer(kafka).send(0)
    assert [row.verdict for row in kafka.trace.produce("orders", 0)] == ["accepted"]
    assert kafka.trace.produce("other") == []
