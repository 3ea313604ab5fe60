"""Injection points: a new kind of fault needs only one class, and the fault plan and the trace work without a broker."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import pytest
from msgspec import Meta

from kafkawire.declare import Message
from kafkawire.frames import encode_response
from kafkawire.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafkawire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.registry import KEYS
from requesting import plain
from wirebroker import faults
from wirebroker.faults.acts import Injection
from wirebroker.faults.files import dump, loads, read_rule, rule_schema
from wirebroker.faults.matches import Matches
from wirebroker.faults.plan import FaultPlan
from wirebroker.faults.rules import KINDS, Rule
from wirebroker.mock import MockKafka
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import Close, Effect, Outcome, Respond, Shaped
from wirebroker.requests.exchange import AnyExchange
from wirebroker.security.session import Session
from wirebroker.trace.recorder import Recorder, Traced
from wirekit import NOW, batch, client

ROOT = Path(__file__).resolve().parent.parent
NOT_LEADER = 6


# A kind of fault that this test adds


@pytest.fixture
def shout() -> Iterator[type[Rule]]:
    """Adds a new kind of fault, which needs only this class."""

    class shout(Rule):  # noqa: N801
        """The client id is answered in capitals `times_louder`."""

        times_louder: Annotated[int, Meta(ge=1, le=9, extra={"unit": "factor"})]
        politely: bool = False

        example = 'faults.shout(2, api="Metadata")'

        def before(self, injection: Injection) -> Outcome:
            return injection.exchange.close(f"{self.times_louder * str(injection.exchange.client_id).upper()}!")

    yield shout
    del KINDS["shout"]


def test_a_kind_is_added_by_one_class_and_every_form_knows_it(
    shout: type[Rule], mock_kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = shout(2, api="metadata", nth=1)
    assert str(rule) == "shout(api=Metadata, nth=1, times_louder=2, politely=False)"
    text = '[[fault]]\nkind = "shout"\ntimes_louder = 2\napi = "Metadata"\nnth = 1\n'
    assert loads(text, "the file").rules[0].described() == rule.described()
    assert loads(dump([rule], 7), "the file").rules[0].described() == rule.described()
    form = {"kind": "shout", "times_louder": 2}
    jsonschema.validate(form, rule_schema())
    assert read_rule(form).kind == "shout"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"kind": "shout", "times_louder": 10}, rule_schema())
    with pytest.raises(ValueError, match=":3: shout: times_louder must be a whole number from 1 to 9, not 10"):
        loads('[[fault]]\nkind = "shout"\ntimes_louder = 10', "the file")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    tables: Callable[[], str] = runpy.run_path(str(ROOT / "scripts" / "generate-docs"))["tables"]
    assert (
        "| `shout` | The client id is answered in capitals `times_louder`. "
        '| `times_louder` (factor, needed, 1 to 9), `politely` (default false) | `faults.shout(2, api="Metadata")` |\n'
    ) in tables()
    mock_kafka.faults.add(rule)
    client(mock_kafka).send(plain("Metadata", topics=[]), 8)
    mock_kafka.wait_until(lambda: rule.fired == 1)
    assert [row.kind for row in mock_kafka.trace.faults()] == ["shout"]


@pytest.mark.parametrize("make", [lambda: faults.refuse(2), lambda: faults.delay(1, ms=2), lambda: faults.cut(9, True, 3)])
def test_a_call_with_too_many_values_is_refused(make: Callable[[], Rule]) -> None:
    with pytest.raises(TypeError, match="by position, each once; give all other words by name"):
        make()


# A proxy, which has neither an engine nor a cluster


class Alarms:
    """Calls functions at given times. The test sets the time."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Callable[[int], None]]] = []

    def at(self, when: int, action: Callable[[int], None]) -> Alarms:
        self.calls.append((when, action))
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for when, action in calls:
            action(when)


class Learned:
    """A stand-in for a proxy's knowledge about the cluster."""

    def topic_name(self, topic_id: bytes) -> str | None:
        return None

    def topic_id(self, name: str) -> bytes:
        return bytes(16)

    def topics(self) -> Iterable[str]:
        return ("orders",)

    def session_partitions(self, request: Message, node_id: int) -> Iterable[tuple[str, int]]:
        return ()

    def group_partitions(self, group_id: str) -> Iterable[tuple[str, int]]:
        return ()


class Proxy:
    """A stand-in for a proxy. It stores the requests for the cluster, and the test makes the cluster's responses."""

    fault_broker = None
    refuses_faults = ""

    def __init__(self) -> None:
        self.now = NOW
        self.timers = Alarms()
        self.effects: list[Effect] = []
        self.trace = Recorder(lambda: self.now)
        self.trace.set_level("all")
        self.directory = Learned()
        self.loaded = False
        self.upstream: list[Message] = []

    def rules_loaded(self, loaded: bool) -> None:
        self.loaded = loaded

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        connection.close()
        self.effects.append(Close(connection, reason, reset))


class Passing(AnyExchange):
    """A request that the proxy has received, and to which the cluster has not responded yet."""

    def __init__(self, proxy: Proxy, plan: FaultPlan, request: Message, version: int) -> None:
        self._proxy = proxy
        self._plan = plan
        self.api_key = type(request).__schema__.key
        self.version = version
        self.client_id: str | None = "shop"
        self.connection = Connection(1, 5, "10.0.0.9", Session("PLAINTEXT"))
        self.correlation_id = 7
        self.now = NOW
        self.frame: memoryview | None = None
        self.matches: Matches | None = None
        self.traced: Traced | None = None
        self.directory = proxy.directory
        proxy.trace.requested(request, self)
        plan.receive(request, self)

    def handle(self, request: Message) -> None:
        self._proxy.upstream.append(request)

    def respond(self, response: Message) -> None:
        answer = self._plan.on_response(response, self)
        if answer is None or not self.alive:
            return
        parts = encode_response(self.correlation_id, answer, self.version)
        self._proxy.trace.replied(self, answer, parts)
        if self.matches is not None and self.matches.wire:
            self._plan.send(parts, self)
        else:
            self._proxy.effects.append(Respond(self.connection, parts))

    def close(self, reason: str) -> Outcome:
        self._proxy.close(self.connection, reason)
        return Outcome.CLOSED


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


def produce(*partitions: int) -> Message:
    parts = [{"index": index, "records": batch(index, pid=3, epoch=0)} for index in partitions]
    return plain("Produce", acks=-1, timeout_ms=5000, topic_data=[{"name": "orders", "partition_data": parts}])


def stored(*partitions: int) -> ProduceResponse:
    parts = [PartitionProduceResponse(index=index, error_code=0, base_offset=40 + index) for index in partitions]
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=parts)])


def plan_of(proxy: Proxy, *rules: Rule) -> FaultPlan:
    plan = FaultPlan(proxy, 0)
    for rule in rules:
        plan.add(rule)
    assert proxy.loaded
    return plan


def test_a_proxy_loses_an_acknowledgement(proxy: Proxy) -> None:
    lost = faults.lose_ack(api="Produce", topic="orders", sequence=1)
    plan = plan_of(proxy, lost)
    passing = Passing(proxy, plan, produce(1), 9)
    assert len(proxy.upstream) == 1, "the proxy forwards the request"
    passing.respond(stored(1))
    assert [type(effect) for effect in proxy.effects] == [Close]
    lost.assert_fired(1)
    assert [row.event for row in proxy.trace.events()] == ["request", "fault"]


def test_a_proxy_refuses_one_partition_and_sends_the_others_on(proxy: Proxy) -> None:
    plan = plan_of(proxy, faults.error(NOT_LEADER, api="Produce", partition=0))
    passing = Passing(proxy, plan, produce(0, 1), 9)
    (request,) = proxy.upstream
    assert isinstance(request, ProduceRequest)
    assert [part.index for part in request.topic_data[0].partition_data] == [1]
    passing.respond(stored(1))
    (row,) = proxy.trace.events("reply")
    assert json.loads(row.as_json())["errors"] == ["NOT_LEADER_OR_FOLLOWER"]
    assert json.loads(row.as_json())["about"] == ["orders-0", "orders-1"]


def test_a_proxy_delays_a_request_and_cuts_its_response(proxy: Proxy) -> None:
    plan = plan_of(proxy, faults.delay(300, topic="orders"), faults.cut(9, api="Metadata"))
    passing = Passing(proxy, plan, plain("Metadata", topics=[{"name": "orders"}]), 8)
    assert (proxy.upstream, [when - NOW for when, _ in proxy.timers.calls]) == ([], [300])
    proxy.timers.run()
    assert len(proxy.upstream) == 1
    passing.respond(MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="orders", error_code=0, partitions=[])]))
    next_one, shaped, closed = proxy.effects
    assert isinstance(next_one, Respond)
    assert next_one.parts == [], "after the delay the client's next request may go on"
    assert isinstance(shaped, Shaped)
    assert shaped.shape.cut == 9
    assert isinstance(closed, Close)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.needs_broker])
def test_a_proxy_refuses_a_rule_that_acts_inside_a_broker(proxy: Proxy, kind: str) -> None:
    words: dict[str, Any] = {
        "truncate": {"offset": 0, "topic": "orders", "partition": 0},
        "slow_reassignment": {"ms": 1},
        "upgrade": {"to": "kafka-4.4"},
        "advance": {"ms": 1},
        "withdraw_acl": {"acl": "allow User:alice READ TOPIC orders"},
    }.get(kind, {})
    if "transactional_id" in vars(KINDS[kind]).get("__annotations__", {}):
        words = {"transactional_id": "till"}
    with pytest.raises(ValueError, match=f"{kind} acts inside a broker, and this is a proxy"):
        FaultPlan(proxy, 0).add(KINDS[kind](**words))


def test_plan_files_and_trace_load_no_broker() -> None:
    code = (
        "import sys, wirebroker.faults.plan, wirebroker.faults.files, wirebroker.trace.recorder, wirebroker.trace.sinks\n"
        "inside = ('wirebroker.engine.engine', 'wirebroker.core', 'wirebroker.apis', 'wirebroker.storage', 'wirebroker.mock')\n"
        "print(*(name for name in sys.modules if name.startswith(inside)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (run.stdout.strip(), run.stderr) == ("", "")


def test_every_api_that_a_kind_names_exists() -> None:
    assert {api for kind in KINDS.values() for api in kind.only_apis or ()} <= set(KEYS)
