"""A connection's interceptor is called on the ordinary path and on the fast path of Produce."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.frames import KEY_VERSION_CORRELATION
from requesting import plain, produce_request
from responses import only
from test_engine import Lab
from wirebroker.mock import MockKafka
from wirebroker.requests.connection import CLOSED, Connection, Decision, Delay, Disconnect, Refuse
from wirekit import NOW, batch, client

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class FixedInterceptor:
    """An interceptor that returns the same decision for every request, and records the API keys of the requests."""

    def __init__(self, decision: Decision | None) -> None:
        self.decision = decision
        self.keys: list[int] = []

    def decide(self, connection: Connection, frame: memoryview, now: int) -> Decision | None:
        self.keys.append(KEY_VERSION_CORRELATION.unpack_from(frame)[0])
        return self.decision


def lab_with_a_producer() -> Lab:
    """Returns an engine with a connection on which the next Produce takes the fast path."""
    lab = Lab()
    lab.send(produce_request("orders", batch(timestamp=NOW)))
    assert lab.connection.produce_shape is not None
    return lab


def produce(lab: Lab, acks: int = -1) -> list[Any]:
    return lab.send(produce_request("orders", batch(timestamp=NOW), acks=acks))


def end(lab: Lab) -> int:
    return lab.engine.cluster.topics["orders"].partitions[0].log_end_offset


def test_a_request_that_the_interceptor_lets_pass_takes_the_fast_path() -> None:
    lab = lab_with_a_producer()
    lab.connection.interceptor = interceptor = FixedInterceptor(None)
    shape = lab.connection.produce_shape
    (response,) = produce(lab)
    assert only(response).base_offset == 1
    assert lab.connection.produce_shape is shape, "the ordinary path would have stored a new shape"
    assert interceptor.keys == [0]


def test_the_interceptor_refuses_a_produce_on_the_fast_path() -> None:
    lab = lab_with_a_producer()
    lab.connection.interceptor = FixedInterceptor(Refuse(REFUSED))
    (response,) = produce(lab)
    assert only(response).error_code == REFUSED
    assert end(lab) == 1
    lab.connection.interceptor = None
    produce(lab)
    assert end(lab) == 2


def test_a_refused_produce_with_acks_0_closes_the_connection() -> None:
    lab = lab_with_a_producer()
    lab.connection.interceptor = FixedInterceptor(Refuse(REFUSED))
    assert produce(lab, acks=0) == ["the client's Produce with acks=0 is refused: TOPIC_AUTHORIZATION_FAILED"]
    assert end(lab) == 1


def test_the_interceptor_refuses_a_request_on_the_ordinary_way() -> None:
    lab = Lab()
    lab.connection.interceptor = FixedInterceptor(Refuse(REFUSED))
    (response,) = lab.send(plain("Metadata", topics=[{"name": "orders"}]), 9)
    assert [topic.error_code for topic in response.topics] == [REFUSED]


@pytest.mark.parametrize("lab", [Lab, lab_with_a_producer], ids=["ordinary way", "fast path"])
def test_the_interceptor_closes_a_connection(lab: Any) -> None:
    closed = lab()
    closed.connection.interceptor = FixedInterceptor(Disconnect("the client is not authenticated"))
    before = end(closed)
    assert produce(closed) == ["the client is not authenticated"]
    assert closed.connection.state is CLOSED
    assert end(closed) == before


@pytest.mark.parametrize("lab", [Lab, lab_with_a_producer], ids=["ordinary way", "fast path"])
def test_the_interceptor_delays_a_response(lab: Any) -> None:
    slow = lab()
    slow.connection.interceptor = FixedInterceptor(Delay(300))
    before = end(slow)
    assert produce(slow) == []
    assert end(slow) == before + 1, "the broker stores the batch at once"
    assert slow.connection.parked is not None, "later requests on the connection wait for the delayed response"
    assert slow.engine.deadline() == NOW + 300
    slow.engine.tick(NOW + 300)
    (effect,) = slow.engine.take_effects()
    response = slow.effect(effect)
    assert response.throttle_time_ms == 300
    assert only(response).base_offset == before
    assert slow.connection.parked is None


def test_a_delayed_response_is_dropped_if_the_client_goes() -> None:
    lab = Lab()
    lab.connection.interceptor = FixedInterceptor(Delay(300))
    produce(lab)
    lab.engine.disconnected(lab.connection)
    lab.engine.tick(NOW + 300)
    assert lab.engine.take_effects() == []


def test_a_version_that_is_not_offered_is_answered_as_without_an_interceptor() -> None:
    lab = Lab(max_versions={0: 8})
    lab.connection.interceptor = FixedInterceptor(Refuse(REFUSED))
    assert produce(lab) == ["the client requested Produce version 9; versions 3 to 8 are offered"]


def test_the_engine_makes_an_interceptor_for_each_new_connection() -> None:
    """Over TCP, each response arrives after its delay, and in order."""
    with MockKafka(topics=["orders"]) as kafka:
        kafka._call(lambda engine: setattr(engine, "new_interceptor", lambda connection: FixedInterceptor(Delay(20))))
        wire = client(kafka)
        responses = [wire.request(produce_request("orders", batch()), 9) for _ in range(3)]
        assert [only(response).base_offset for response in responses] == [0, 1, 2]
        assert [response.throttle_time_ms for response in responses] == [20, 20, 20]
