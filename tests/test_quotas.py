"""Client quotas limit the right clients, delay a client for the right time, and have no other effect. The clock is frozen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.frames import encode_request
from requesting import fetch, plain, produce_request
from responses import sole
from wirebroker import MockKafka
from wirebroker.client.wire import Connection, ConnectionClosed, NoResponse, address_of
from wirebroker.core.java_order import signed
from wirebroker.core.quotas import KeyedQuotas, Measured, Quotas, Rate, TokenBucket, Window, entity_of, java_round
from wirebroker.testing.options import BrokerOptions, OptionError
from wirebroker.trace.layout import line
from wirekit import batch

AT_ONCE = 0.3
"""Seconds after which a test concludes that there is no response."""
T0 = 1_800_000_000_000
WINDOW = Window(11, 1000)


@pytest.fixture
def kafka() -> Any:
    with MockKafka(topics="orders", clock="frozen") as kafka:
        yield kafka


def connect(kafka: MockKafka, client_id: str = "app") -> Connection:
    return Connection(address_of(kafka.bootstrap_servers), client_id=client_id)


def ask(connection: Connection, api: str, version: int, **fields: Any) -> Any:
    return connection.request(plain(api, **fields), version)


def create(connection: Connection, name: str, partitions: int, version: int = 7, **fields: Any) -> Any:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    return ask(connection, "CreateTopics", version, topics=[topic], timeout_ms=1000, **fields)


def muted(connection: Connection) -> bool:
    """Sends a request. Returns true if the broker throttles the connection, and so does not respond."""
    connection.send(plain("ApiVersions"), 0)
    try:
        connection.response(AT_ONCE)
    except NoResponse:
        return True
    return False


# Bytes


def produced(connection: Connection, count: int = 500, acks: int = -1) -> tuple[int, int]:
    """Sends a Produce. Returns two values: its size in bytes, and the throttle time in the response."""
    request = produce_request("orders", batch(count=count), acks=acks)
    size = len(encode_request(1, connection.client_id, request, 9)) - 4
    response = connection.request(request, 9)
    return size, response.throttle_time_ms


def expected_ms(size: int, limit: float) -> int:
    """Returns Kafka 4.3.1's throttle time after the first request under a quota. The rate is an average over ten seconds."""
    return round((size / 10 - limit) / limit * 10_000)


def test_a_producer_waits_as_long_as_in_kafka(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", producer_byte_rate=100)
    connection = connect(kafka)
    size, ms = produced(connection)
    assert ms == expected_ms(size, 100) > 0
    assert muted(connection)
    kafka.clock.advance(milliseconds=ms - 1)
    with pytest.raises(NoResponse):
        connection.response(AT_ONCE)
    kafka.clock.advance(milliseconds=1)
    connection.response()
    row = kafka.trace.events("throttle")[-1]
    assert (row.quota, row.whose, row.limit, row.ms, row.api) == ("producer_byte_rate", "client-id app", 100, ms, "Produce")
    assert f"User:ANONYMOUS waits {ms} ms: producer_byte_rate of client-id app is 100" in line(row)


def test_nobody_else_waits(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", producer_byte_rate=100)
    other = connect(kafka, "other")
    assert produced(other)[1] == 0
    assert not muted(other)


def test_a_produce_without_a_response_mutes_the_connection(kafka: MockKafka) -> None:
    kafka.quotas.set(user="ANONYMOUS", producer_byte_rate=100)
    connection = connect(kafka)
    connection.send(produce_request("orders", batch(count=500), acks=0), 9, awaits_response=False)
    assert muted(connection)
    kafka.clock.advance(minutes=10)
    connection.response()
    assert len(kafka.records("orders")) == 500


def test_the_fast_path_is_for_clients_without_quotas(kafka: MockKafka) -> None:
    connection = connect(kafka)
    assert [produced(connection)[1] for _ in range(3)] == [0, 0, 0]
    kafka.quotas.set(client_id="app", producer_byte_rate=100)
    assert produced(connection)[1] > 0
    kafka.clock.advance(minutes=10)
    kafka.quotas.remove(client_id="app")
    assert [produced(connection)[1] for _ in range(3)] == [0, 0, 0]


def test_a_consumer_that_waits_gets_nothing(kafka: MockKafka) -> None:
    produced(connect(kafka, "other"))
    kafka.quotas.set(client_id="app", consumer_byte_rate=100)
    connection = connect(kafka)
    response = connection.request(fetch(), 11)
    assert response.throttle_time_ms > 0
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert muted(connection)
    kafka.clock.advance(milliseconds=response.throttle_time_ms)
    connection.response()
    kafka.quotas.remove(client_id="app")
    assert sole(sole(connection.request(fetch(), 11).responses).partitions).records


def test_a_session_forgets_what_was_not_sent(kafka: MockKafka) -> None:
    produced(connect(kafka, "other"), 5)
    first = connect(kafka).request(fetch(session_epoch=0), 11)
    kafka.produce("orders", value="one more")
    kafka.quotas.set(client_id="app", consumer_byte_rate=1)
    throttled = connect(kafka).request(fetch(session_id=first.session_id, session_epoch=1), 11)
    assert (throttled.throttle_time_ms > 0, throttled.session_id, throttled.responses) == (True, first.session_id, [])
    kafka.quotas.remove(client_id="app")
    response = connect(kafka).request(fetch(session_id=first.session_id, session_epoch=2), 11)
    assert sole(sole(response.responses).partitions).high_watermark == 6


def test_a_session_does_not_begin_with_a_response_that_is_not_sent(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", consumer_byte_rate=1)
    assert connect(kafka).request(fetch(session_epoch=0), 11).session_id == 0
    assert kafka._call(lambda engine: len(engine.fetch_sessions._sessions)) == 0


# Requests


def test_a_request_takes_its_time(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", request_percentage=1)
    kafka.quotas.count_requests_as(milliseconds=200)
    response = ask(connect(kafka), "ListGroups", 4)
    assert response.throttle_time_ms == 1000, "a throttle time is at most one window"
    kafka.clock.advance(minutes=1)
    kafka.quotas.count_requests_as(milliseconds=110)
    assert ask(connect(kafka), "DescribeCluster", 1).throttle_time_ms == 1000
    kafka.clock.advance(minutes=1)
    kafka.quotas.count_requests_as(milliseconds=101)
    assert ask(connect(kafka), "DescribeCluster", 1).throttle_time_ms == 100
    kafka.clock.advance(minutes=1)
    kafka.quotas.count_requests_as(milliseconds=99)
    assert ask(connect(kafka), "DescribeCluster", 1).throttle_time_ms == 0


def test_markers_of_brokers_do_not_wait(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", request_percentage=1)
    kafka.quotas.count_requests_as(milliseconds=1000)
    connection = connect(kafka)
    ask(connection, "WriteTxnMarkers", 1, markers=[])
    assert not muted(connection)


def test_the_machines_time_is_measured(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", request_percentage=1e-9)
    assert ask(connect(kafka), "ListGroups", 4).throttle_time_ms == 1000


# Changes of topics


def test_changes_of_topics_are_refused_in_versions_that_know_it(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", controller_mutation_rate=1)
    connection = connect(kafka)
    assert sole(create(connection, "a", 20).topics).error_code == 0, (
        "the token bucket has 11 tokens, so after 20 partitions 9 are owed"
    )
    response = create(connection, "b", 1)
    assert (sole(response.topics).error_code, sole(response.topics).error_message, response.throttle_time_ms) == (
        89,
        None,
        9000,
    )
    kafka.clock.advance(milliseconds=9000)
    assert sole(create(connection, "b", 1).topics).error_code == 0
    assert create(connect(kafka), "c", 3, version=5).throttle_time_ms == 4000, "older versions are not refused, but throttled"
    response = ask(connect(kafka), "DeleteTopics", 6, topics=[{"name": "c"}], timeout_ms=1000)
    assert (sole(response.responses).error_code, response.throttle_time_ms) == (89, 4000)
    more = {"name": "a", "count": 21, "assignments": None}
    response = ask(connect(kafka), "CreatePartitions", 3, topics=[more], timeout_ms=1000)
    assert (sole(response.results).error_code, response.throttle_time_ms) == (89, 4000)
    assert len(kafka.topics()["a"].partitions) == 20
    assert kafka.trace.events("throttle")[-1].quota == "controller_mutation_rate"


def test_a_topic_that_is_only_checked_counts(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", controller_mutation_rate=1)
    create(connect(kafka), "a", 20, validate_only=True)
    assert sole(create(connect(kafka), "b", 1, validate_only=True).topics).error_code == 89


def test_no_topic_is_created_for_a_client_that_has_to_wait(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", controller_mutation_rate=1)
    create(connect(kafka), "a", 20)
    ask(connect(kafka), "Metadata", 9, topics=[{"name": "b"}], allow_auto_topic_creation=True)
    assert "b" not in kafka.topics()


# Connections


def test_a_connection_that_is_one_too_many_is_closed_later(kafka: MockKafka) -> None:
    kafka.quotas.set(ip="127.0.0.1", connection_creation_rate=1)
    served = [connect(kafka) for _ in range(10)]
    assert not any(muted(each) for each in served)
    late = connect(kafka)
    assert muted(late)
    kafka.clock.advance(seconds=1)
    with pytest.raises(ConnectionClosed):
        late.response()
    row = kafka.trace.events("throttle")[-1]
    assert (row.quota, row.whose, row.ms, row.api) == ("connection_creation_rate", "ip 127.0.0.1", 1000, "")


@pytest.mark.parametrize(
    ("names", "limit"),
    [
        (["::1"], "::1"), (["[::1]", "0::1"], "0::1"), (["0:0:0:0:0:0:0:1", None], "0:0:0:0:0:0:0:1"), (["::2", None], None),
        (["::2"], ""),
    ],
)  # fmt: skip
def test_a_limit_of_connections_counts_for_an_address_in_every_form(names: list[str | None], limit: str | None) -> None:
    """Kafka resolves the name of each entity, and keeps one limit for each address: the limit that was set last."""
    quotas = Quotas()
    for name in names:
        quotas.alter([((("ip", name),), "connection_creation_rate", 3.0)])
    found = quotas.connecting("0:0:0:0:0:0:0:1")
    assert found == (None if limit == "" else (("ip", limit),))
    quotas.alter([((("ip", names[0]),), "connection_creation_rate", None)])
    assert quotas.connecting("0:0:0:0:0:0:0:1") == ((("ip", None),) if None in names else None)


# Whom


def limits(*entities: dict[str, str | None]) -> KeyedQuotas:
    """Returns quotas for `entities`: the first entity has the limit 1, the second entity has the limit 2, and so on."""
    quotas = Quotas()
    quotas.alter([(entity_of(each), "producer_byte_rate", float(i)) for i, each in enumerate(entities, 1)])
    return quotas.keyed["producer_byte_rate"]


NARROWER: list[dict[str, str | None]] = [
    {"user": "u", "client-id": "c"}, {"user": "u", "client-id": None}, {"user": "u"}, {"user": None, "client-id": "c"},
    {"user": None, "client-id": None}, {"user": None}, {"client-id": "c"}, {"client-id": None},
]  # fmt: skip
"""The entities whose quotas apply to the user u with the client id c. An earlier entity has precedence."""


@pytest.mark.parametrize("first", range(len(NARROWER)))
def test_the_narrowest_quota_decides(first: int) -> None:
    keyed = limits(*NARROWER[first:])
    found = keyed.limit(keyed.measured("u", "c"))
    assert found is not None
    assert found[1] == entity_of(NARROWER[first])


def test_clients_are_measured_together_by_what_the_quotas_name() -> None:
    assert limits({"user": "u"}).measured("u", "c") == Measured("u", "")
    assert limits({"client-id": "c"}).measured("u", "c") == Measured("", "c")
    assert limits({"user": "u", "client-id": None}).measured("u", "c") == Measured("u", "c")
    assert limits({"user": "u"}, {"client-id": "c"}).measured("v", "c") == Measured("", "c")
    assert limits({"user": "u"}, {"client-id": "c"}).limit(Measured("", None)) is None


# The measures


def test_a_rate_has_a_window_of_samples() -> None:
    rate = Rate()
    for second in range(20):
        rate.record(WINDOW, 1000, T0 + second * 1000)
    assert rate.window_size(WINDOW, T0 + 19_999) == 10_999
    assert rate.measure(WINDOW, T0 + 19_999) == pytest.approx(11_000 / 10.999)
    assert rate.throttle_ms(WINDOW, 1000, T0 + 19_999) == 1
    assert rate.measure(WINDOW, T0 + 40_000) == 0
    rate.record(WINDOW, -5, T0 + 40_000)
    assert rate.measure(WINDOW, T0 + 40_000) == -0.5


def test_a_bucket_fills() -> None:
    bucket = TokenBucket()
    assert bucket.refill(WINDOW, 2, T0) == 22
    bucket.take(WINDOW, 2, 30, T0)
    assert bucket.throttle_ms(WINDOW, 2, T0) == 4000
    assert bucket.throttle_ms(WINDOW, 2, T0 + 3999) == 1
    assert bucket.throttle_ms(WINDOW, 2, T0 + 4000) == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 1), (-0.5, 0), (1.4, 1), (2.0**31, -(2**31)), (float("nan"), 0), (1e300, -1), (-1e300, 0), (float("inf"), -1)],
)
def test_numbers_wrap_as_in_java(value: float, expected: int) -> None:
    assert signed(java_round(value)) == expected


# Setting them

TEXTS: list[tuple[dict[str, str | None], dict[str, float], str]] = [
    ({"user": "u"}, {"producer_byte_rate": 0}, "Quota producer_byte_rate must be greater than 0"),
    ({"user": "u"}, {"request_percentage": -0.0}, "Quota request_percentage must be greater than 0"),
    ({"user": "u"}, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
    ({"user": "u"}, {"producer_byte_rate": 1e19}, "Proposed value for producer_byte_rate is too large for a LONG."),
    ({"user": "u"}, {"nope": 1}, "Invalid configuration key nope"),
    ({"ip": "127.0.0.9"}, {"connection_creation_rate": 1e12},
     "Proposed value for connection_creation_rate is too large for an INT."),
    ({"ip": "127.0.0.9"}, {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
    ({"ip": "no such host"}, {"connection_creation_rate": 1}, "no such host is not a valid IP or resolvable host."),
    ({}, {}, "Invalid empty client quota entity"),
    ({"foo": "x", "user": "u"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: foo"),
    ({"user": ""}, {"producer_byte_rate": 1}, "Empty user not supported"),
    ({"user": "a", "ip": "127.0.0.1"}, {"producer_byte_rate": 1},
     "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"),
]  # fmt: skip
"""Entities, their quotas, and the error message of Kafka 4.3.1."""


def alter(connection: Connection, entity: dict[str, str | None], values: dict[str, float], **fields: Any) -> Any:
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    ops = [{"key": key, "value": value, "remove": False} for key, value in values.items()]
    response = ask(connection, "AlterClientQuotas", 1, entries=[{"entity": named, "ops": ops}], **fields)
    return sole(response.entries)


@pytest.mark.parametrize(("entity", "values", "text"), TEXTS, ids=lambda each: each if isinstance(each, str) else "")
def test_bad_quotas_are_refused_in_kafkas_words(
    kafka: MockKafka, entity: dict[str, str | None], values: dict[str, float], text: str
) -> None:
    response = alter(connect(kafka), entity, values)
    assert (response.error_code, response.error_message) == (42, text)
    assert kafka.quotas.all() == []


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    with MockKafka(data=tmp_path) as kafka:
        kafka.quotas.set(user="alice", client_id="<default>", producer_byte_rate=5, request_percentage=1.5)
        kafka.quotas.set(user="<default>", consumer_byte_rate=7)
        kafka.quotas.set(client_id="gone", consumer_byte_rate=7)
        kafka.quotas.remove(client_id="gone")
        before = kafka.quotas.all()
    with MockKafka(data=tmp_path) as kafka:
        key: Callable[[Any], str] = str
        assert sorted(kafka.quotas.all(), key=key) == sorted(before, key=key)
        assert len(before) == 2


def test_a_restart_forgets_what_was_measured(kafka: MockKafka) -> None:
    kafka.quotas.set(client_id="app", controller_mutation_rate=1)
    create(connect(kafka), "a", 20)
    kafka.restart()
    assert sole(create(connect(kafka), "b", 1).topics).error_code == 0


def test_python_refuses_what_kafka_refuses(kafka: MockKafka) -> None:
    with pytest.raises(ValueError, match="producer_byte_rate cannot be a fractional value"):
        kafka.quotas.set(user="alice", producer_byte_rate=0.5)
    with pytest.raises(ValueError, match="Invalid empty client quota entity"):
        kafka.quotas.set(producer_byte_rate=5)


def test_an_option_sets_quotas() -> None:
    options = BrokerOptions(quotas=["user=alice,client-id=<default>,producer_byte_rate=1000,request_percentage=50"])
    quotas = options.new_engine(T0).cluster.quotas.limits
    assert quotas == {(("client-id", None), ("user", "alice")): {"producer_byte_rate": 1000.0, "request_percentage": 50.0}}
    for wrong, why in (("user=alice,x", "'x' is not user="), ("producer_byte_rate=1", "Invalid empty client quota entity")):
        with pytest.raises(OptionError, match=why):
            BrokerOptions(quotas=[wrong]).new_engine(T0)
