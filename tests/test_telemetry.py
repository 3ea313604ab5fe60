"""Client metrics (KIP-714): subscriptions, pushes that are refused, and a real client that pushes its metrics."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import confluent_kafka
import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.messages.push_telemetry import PushTelemetryRequest
from wirebroker import MockKafka, ProxyKafka
from wirebroker.client.wire import Connection, address_of
from wirebroker.core.telemetry import KEPT_BYTES, KEPT_PUSHES, Push, Pushes
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import Scenario, load
from wirebroker_tools.conformance.replay import replay

NOBODY = bytes(16)
GZIP = 1
EMPTY = b"\x0a\x00"
"""An encoded OTLP MetricsData with one resource and no metrics."""


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics="orders", clock="frozen", telemetry=True, trace="changes") as kafka:
        yield kafka


def connect(kafka: MockKafka | ProxyKafka, client_id: str = "app") -> Connection:
    return Connection(address_of(kafka.bootstrap_servers), client_id=client_id)


def ask(connection: Connection, instance: bytes = NOBODY) -> GetTelemetrySubscriptionsResponse:
    response: GetTelemetrySubscriptionsResponse = connection.request(
        GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0
    )
    return response


def push(
    connection: Connection, told: GetTelemetrySubscriptionsResponse, metrics: bytes = EMPTY, *, codec: int = 0,
    terminating: bool = False, subscription: int | None = None,
) -> int:  # fmt: skip
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id, terminating=terminating, compression_type=codec, metrics=metrics,
        subscription_id=told.subscription_id if subscription is None else subscription,
    )  # fmt: skip
    code: int = connection.request(request, 0).error_code
    return code


def test_the_apis_are_announced_only_with_a_receiver(kafka: MockKafka) -> None:
    hello = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    assert {71, 72} <= {each.api_key for each in connect(kafka).request(hello, 3).api_keys}
    with MockKafka() as other:
        assert not {71, 72} & {each.api_key for each in connect(other).request(hello, 3).api_keys}
        assert ask(connect(other)).error_code == 0, "without a receiver, the APIs are served, too"
        with pytest.raises(RuntimeError, match="telemetry=True"):
            other.telemetry.subscribe()


@pytest.mark.parametrize("scenario", [each for each in load() if each.telemetry], ids=lambda each: each.name)
def test_a_broker_without_a_receiver_gives_the_same_responses(scenario: Scenario) -> None:
    with OwnBroker(scenario.settings) as broker:
        assert replay(scenario, broker)[1] == []


def test_a_client_gets_an_id_and_what_is_wanted_of_it(kafka: MockKafka) -> None:
    kafka.telemetry.subscribe(["org.apache.kafka.producer."], interval_ms=5000, match=["client_id=app.*"])
    kafka.telemetry.subscribe(["org.apache.kafka.consumer."], interval_ms=2000, name="second")
    told = ask(connect(kafka))
    assert told.client_instance_id != NOBODY
    assert set(told.requested_metrics) == {"org.apache.kafka.consumer.", "org.apache.kafka.producer."}
    assert (told.push_interval_ms, told.telemetry_max_bytes, told.delta_temporality) == (2000, 1 << 20, True)
    assert told.accepted_compression_types == [4, 3, 1, 2]
    other = ask(connect(kafka, "else"))
    assert (other.requested_metrics, other.push_interval_ms) == (["org.apache.kafka.consumer."], 2000)


def test_one_subscription_to_everything_is_enough(kafka: MockKafka) -> None:
    kafka.telemetry.subscribe(["a", "b"], name="some")
    kafka.telemetry.subscribe(name="all")
    assert ask(connect(kafka)).requested_metrics == ["*"]


def test_without_a_subscription_nothing_is_wanted(kafka: MockKafka) -> None:
    told = ask(connect(kafka))
    assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (0, [], 300_000)


def test_a_client_that_asks_too_early_is_throttled(kafka: MockKafka) -> None:
    kafka.telemetry.subscribe(interval_ms=1000)
    connection = connect(kafka)
    told = ask(connection)
    assert ask(connection, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    kafka.clock.advance(milliseconds=999)
    assert ask(connection, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    kafka.clock.advance(milliseconds=1)
    assert ask(connection, told.client_instance_id).error_code == 0


def test_a_client_that_pushes_too_early_is_throttled(kafka: MockKafka) -> None:
    kafka.telemetry.subscribe(interval_ms=1000)
    connection = connect(kafka)
    told = ask(connection)
    kafka.clock.advance(milliseconds=10)
    assert push(connection, told) == 0
    assert push(connection, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    kafka.clock.advance(milliseconds=1000)
    assert push(connection, told) == 0
    assert push(connection, told, terminating=True) == 0, "the terminating push may be sent before the interval is over"
    kafka.clock.advance(milliseconds=1000)
    assert push(connection, told) == ErrorCode.INVALID_REQUEST, "a push after the terminating push is refused"


def test_another_subscription_ends_the_one_before(kafka: MockKafka) -> None:
    kafka.telemetry.subscribe(interval_ms=1000)
    connection = connect(kafka)
    told = ask(connection)
    kafka.telemetry.subscribe(["org.apache.kafka.producer."], interval_ms=1000)
    assert push(connection, told) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = ask(connection, told.client_instance_id)
    assert (again.error_code, again.requested_metrics) == (0, ["org.apache.kafka.producer."])
    assert again.subscription_id != told.subscription_id


@pytest.mark.parametrize(
    ("metrics", "codec", "error"),
    [
        (b"x" * 101, 0, ErrorCode.TELEMETRY_TOO_LARGE), (EMPTY, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"no gzip", GZIP, ErrorCode.INVALID_RECORD), (gzip.compress(bytes(5000)), GZIP, ErrorCode.INVALID_RECORD),
        (gzip.compress(EMPTY), GZIP, ErrorCode.NONE), (b"", 0, ErrorCode.NONE),
    ],
    ids=["large", "codec", "damaged", "bomb", "gzip", "nothing"],
)  # fmt: skip
def test_what_a_push_may_have_in_it(metrics: bytes, codec: int, error: int) -> None:
    with MockKafka(clock="frozen", telemetry=True, configs={"telemetry.max.bytes": 100}) as kafka:
        connection = connect(kafka)
        assert push(connection, ask(connection), metrics, codec=codec) == error


def test_ids_that_nobody_may_have(kafka: MockKafka) -> None:
    connection = connect(kafka)
    told = ask(connection)
    for reserved in (NOBODY, bytes(15) + b"\1"):
        told.client_instance_id = reserved
        assert push(connection, told) == ErrorCode.INVALID_REQUEST


def test_a_client_is_forgotten_with_its_connection(kafka: MockKafka) -> None:
    kafka.telemetry.subscribe(interval_ms=1000)
    first = connect(kafka)
    told = ask(first)
    first.close()
    kafka.wait_until(lambda: kafka.connection_count() == 0)
    assert ask(connect(kafka), told.client_instance_id).error_code == 0, "not throttled after the connection's close"


def test_a_push_is_a_row_of_the_trace(kafka: MockKafka) -> None:
    connection = connect(kafka)
    told = ask(connection)
    push(connection, told, gzip.compress(EMPTY), codec=GZIP)
    row = kafka.trace.events("telemetry")[0]
    assert (row.client_id, row.compression, row.terminating) == ("app", "gzip", False)


def test_librdkafka_pushes_its_metrics() -> None:
    pytest.importorskip("opentelemetry.proto")
    with MockKafka(topics="orders", telemetry=True) as kafka:
        kafka.telemetry.subscribe(["org.apache.kafka.producer."], interval_ms=100)
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "app", "log_level": 0})
        producer.produce("orders", b"tea")
        producer.flush(20)

        def arrived() -> bool:
            producer.poll(0)
            return bool(kafka.telemetry.points("app", "org.apache.kafka.producer.connection.creation.total"))

        kafka.wait_until(arrived, timeout=30)
        assert {point.client_id for point in kafka.telemetry.points()} == {"app"}
        assert kafka.telemetry.points("another") == []


def test_metrics_that_are_none(kafka: MockKafka) -> None:
    pytest.importorskip("opentelemetry.proto")
    connection = connect(kafka)
    assert push(connection, ask(connection), b"\xff\xff") == 0, "as in Kafka, the broker accepts any bytes"
    with pytest.raises(ValueError, match="the client app pushed bytes that are not an OTLP MetricsData"):
        kafka.telemetry.points()


def test_a_proxy_reads_what_a_broker_has_taken(kafka: MockKafka) -> None:
    pb = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    sent = pb.Metric(name="records", sum=pb.Sum(data_points=[pb.NumberDataPoint(as_int=3)]))
    data = pb.MetricsData(resource_metrics=[pb.ResourceMetrics(scope_metrics=[pb.ScopeMetrics(metrics=[sent])])])
    with ProxyKafka(upstream=kafka.bootstrap_servers, trace="changes") as proxy:
        connection = connect(proxy)
        told = ask(connection)
        assert push(connection, told, gzip.compress(data.SerializeToString()), codec=GZIP) == 0
        assert push(connection, told, gzip.compress(data.SerializeToString()), codec=GZIP) != 0, "this push comes too early"
        (point,) = proxy.metric_points("app")
        assert (point.name, point.kind, point.value) == ("records", "sum", 3.0)
        assert proxy.metric_points("another") == proxy.metric_points(metric="others") == []
        (row,) = proxy.trace.events("telemetry")
        assert (row.client_id, row.compression) == ("app", "gzip")


def test_pushes_are_kept_up_to_a_number_and_a_size() -> None:
    def push(number: int, size: int) -> Push:
        return Push(number, 1, "app", bytes(16), ("", ""), False, bytes(size))

    pushes = Pushes()
    for number in range(KEPT_PUSHES + 5):
        pushes.append(push(number, 1))
    assert (len(pushes), next(iter(pushes)).time) == (KEPT_PUSHES, 5)
    pushes.append(push(-1, KEPT_BYTES - 9))
    assert [len(each.metrics) for each in pushes] == [*[1] * 9, KEPT_BYTES - 9]
    pushes.append(push(-2, KEPT_BYTES + 1))
    assert [each.time for each in pushes] == [-2]
    pushes.append(push(-3, 1))
    assert [each.time for each in pushes] == [-3]
