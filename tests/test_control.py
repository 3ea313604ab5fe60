"""The HTTP control: tests every endpoint over TCP, and checks every response against the OpenAPI document."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace
from openapi_spec_validator import validate

from controlkit import PROBLEM, ControlClient, Response
from kafkawire.batches import Record, build_batch
from kafkawire.compression import SNAPPY, CodecMissing
from kafkawire.errors import ProtocolError
from kafkawire.extras import how_to_install
from kafkawire.messages.metadata import MetadataRequest
from requesting import produce_request
from responses import only
from wirebroker import MockKafka, faults
from wirebroker.client.wire import ConnectionClosed, WireClient, address_of
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.deeds import deed_endpoints
from wirebroker.control.endpoint import EVENTS, JSON
from wirebroker.control.endpoints import records, verdicts
from wirebroker.control.endpoints.verdicts import Tail
from wirebroker.control.hosts import Hosts
from wirebroker.control.problems import Problem
from wirebroker.control.table import endpoints_of
from wirebroker.faults.files import FaultFileError, loads
from wirebroker.net.host import Host
from wirekit import RawProducer, client

pytest_plugins = ["pytester"]
OUT_OF_ORDER = 45
Start = Callable[..., MockKafka]


@pytest.fixture
def kafka(mock_kafka_factory: Start) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 3}, control=True)


@pytest.fixture
def control(kafka: MockKafka) -> ControlClient:
    return ControlClient(kafka.control_url)


def text(data: Any) -> Any:
    return None if data is None else data["text"]


# The description


def test_the_document_is_valid_openapi_and_knows_every_endpoint(control: ControlClient) -> None:
    validate(control.document)
    known = {(method.upper(), path) for path, by in control.document["paths"].items() for method in by}
    assert known == {(endpoint.method, endpoint.shown_path) for endpoint in endpoints_of("broker")}
    operations = [operation for by in control.document["paths"].values() for operation in by.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] for operation in operations)
    good = [(status, each) for one in operations for status, each in one["responses"].items() if status < "400"]
    assert {status for status, _ in good} == {"200", "201"}
    assert all(each["content"] for _, each in good), "every response has a body"
    forms = control.document["components"]["schemas"]
    assert forms["CreateTopicArguments"]["required"] == ["name"]
    assert forms["Record"]["required"] == list(forms["Record"]["properties"])
    assert forms["CreateTopicArguments"]["properties"]["partitions"]["anyOf"][0]["maximum"] == 10_000
    broken = json.loads(json.dumps(control.document))
    broken["paths"]["/topics/{topic}"]["get"]["parameters"][0]["required"] = False
    with pytest.raises(Exception, match="required"):
        validate(broken)


def test_the_page_for_people_shows_every_endpoint(control: ControlClient) -> None:
    response = control.raw("GET", "/")
    assert (response.status, response.media) == (200, "text/html")
    for endpoint in endpoints_of("broker"):
        assert endpoint.shown_path in response.body
    assert "http" not in response.body.replace("over HTTP", ""), "the page loads nothing from other hosts"


def test_health_says_where_clients_connect(kafka: MockKafka, control: ControlClient) -> None:
    wire = client(kafka)
    wire.request(MetadataRequest(topics=None), 9)
    health = control.ask("GET", "/health")
    assert (health["status"], health["bootstrap_servers"], health["connections"]) == ("ok", kafka.bootstrap_servers, 1)


# Topics


def test_topics_are_created_described_and_deleted(kafka: MockKafka, control: ControlClient) -> None:
    made = control.ask("POST", "/topics", {"name": "pay", "partitions": 2, "configs": {"retention.ms": 5, "preallocate": True}})
    assert made["configs"] == {"retention.ms": "5", "preallocate": "true"}
    kafka.produce("pay", value=b"x", partition=1)
    described = control.ask("GET", "/topics/pay")
    assert [each["log_end_offset"] for each in described["partitions"]] == [0, 1]
    assert [each["leader"] for each in described["partitions"]] == [1, 1]
    told = client(kafka).request(MetadataRequest(topics=None), 9).topics
    assert {topic.name: len(topic.partitions) for topic in told} == {"orders": 3, "pay": 2}
    assert [topic["name"] for topic in control.ask("GET", "/topics")["topics"]] == ["orders", "pay"]
    control.ask("DELETE", "/topics/pay")
    assert control.refused("GET", "/topics/pay")["status"] == 404
    with pytest.raises(KeyError, match="there is no topic 'pay'"):
        kafka.delete_topic("pay")


# The cluster


@pytest.fixture
def three(mock_kafka_factory: Start) -> MockKafka:
    return mock_kafka_factory(brokers=3, configs={"default.replication.factor": 2}, topics={"orders": 3}, control=True)


def test_leaders_are_listed(three: MockKafka) -> None:
    kafka, control = three, ControlClient(three.control_url)
    leaders = control.ask("GET", "/leaders?topic=orders")["leaders"]
    assert [(each["leader"], each["replicas"]) for each in leaders] == [(1, [1, 2]), (2, [2, 3]), (3, [3, 1])]
    brokers = control.ask("GET", "/brokers")["brokers"]
    assert ",".join(each["listeners"]["PLAINTEXT"] for each in brokers) == kafka.bootstrap_servers
    assert control.refused("GET", "/leaders?topic=none")["field"] == "topic"


def test_leaders_move_and_brokers_die(three: MockKafka) -> None:
    kafka, control = three, ControlClient(three.control_url)
    first = "/topics/orders/partitions/0"
    moved = control.ask("POST", f"{first}/move-leader", {"to": 2})
    assert (moved["leader"], moved["leader_epoch"]) == (2, 1)
    assert kafka.partition("orders").leader == 2
    connected = client(kafka, 1)
    connected.request(MetadataRequest(topics=None), 9)
    told = control.ask("POST", "/brokers/2/kill")["brokers"]
    with pytest.raises(ConnectionClosed):  # the connection is closed at once, before the client sends a request
        connected.frame(timeout=5)
    assert [each["alive"] for each in told] == [True, False, True]
    state = control.ask("GET", "/leaders?topic=orders")["leaders"][0]
    assert (state["leader"], state["in_sync"], state["offline"]) == (1, [1], [2])
    with pytest.raises(ConnectionClosed):
        client(kafka, 1).request(MetadataRequest(topics=None), 9)
    assert "broker 2 cannot lead" in control.refused("POST", f"{first}/move-leader", {"to": 2})["detail"]
    assert control.refused("POST", "/brokers/2/kill")["status"] == 409
    for _ in range(2):  # the second time, the broker is already running
        control.ask("POST", "/brokers/2/start")
    assert kafka.partition("orders").in_sync == [1, 2]
    elected = control.ask("POST", f"{first}/elect-leader")
    assert (elected["code"], elected["error"], elected["leader"]["leader"]) == (84, "ELECTION_NOT_NEEDED", 1)


def test_an_unclean_election_loses_what_a_frozen_follower_lacks(three: MockKafka) -> None:
    kafka, control = three, ControlClient(three.control_url)
    first = "/topics/orders/partitions/0"
    assert control.ask("POST", f"{first}/freeze-replica", {"node_id": 2})["in_sync"] == [1, 2]
    kafka.produce("orders", value=b"only the leader has it")
    control.ask("POST", "/clock/advance", {"minutes": 1})
    assert kafka.partition("orders").in_sync == [1]
    control.ask("POST", "/brokers/1/kill")
    control.ask("POST", f"{first}/thaw-replica", {"node_id": 2})
    assert kafka.partition("orders").leader == -1
    elected = control.ask("POST", f"{first}/elect-leader", {"unclean": True})
    assert (elected["error"], elected["leader"]["leader"]) == ("NONE", 2)
    assert control.ask("GET", "/topics/orders/records")["records"] == []


def test_unknown_brokers_and_replicas_are_refused(three: MockKafka) -> None:
    control = ControlClient(three.control_url)
    first = "/topics/orders/partitions/0"
    for path, body in (("/brokers/9/kill", None), ("/brokers/9/start", None), (f"{first}/move-leader", {"to": 9}),
                       (f"{first}/freeze-replica", {"node_id": 9}), (f"{first}/thaw-replica", {"node_id": 9})):  # fmt: skip
        problem = control.refused("POST", path, body)
        assert (problem["status"], problem["detail"]) == (404, "there is no broker 9; there are 1, 2, 3")
    assert control.refused("POST", f"{first}/freeze-replica", {"node_id": 1})["status"] == 409
    assert control.refused("POST", "/topics/orders/partitions/7/elect-leader")["field"] == "partition"
    made = control.ask("POST", "/topics", {"name": "wide", "replication_factor": 3})
    assert made["partitions"][0]["replicas"] == [1, 2, 3]
    assert "3 brokers cannot hold 4" in control.refused("POST", "/topics", {"name": "w", "replication_factor": 4})["detail"]


# Records


def test_stored_records_are_read_back_unchanged(kafka: MockKafka, control: ControlClient) -> None:
    given = [
        {"key": "k", "value": "ein Pfund Tee, grün", "headers": [{"name": "h", "value": "x"}, {"name": "n"}], "timestamp": 5},
        {"key": {"base64": "/w=="}, "value": None, "partition": 2},
        {"value": {"text": "a", "base64": "YQ=="}, "headers": {"h": "x", "n": None}},
    ]
    stored = control.ask("POST", "/topics/orders/records", {"records": given})["records"]
    assert stored == [{"partition": 0, "offset": 0}, {"partition": 2, "offset": 0}, {"partition": 0, "offset": 1}]
    first, third, second = kafka.records("orders")
    assert (first.key, first.value, first.timestamp) == (b"k", "ein Pfund Tee, grün".encode(), 5)
    assert first.headers == third.headers == (("h", b"x"), ("n", None))
    assert (second.key, second.value, third.value) == (b"\xff", None, b"a")
    shown = control.ask("GET", "/topics/orders/records")["records"]
    assert [(text(each["key"]), text(each["value"])) for each in shown] == [
        ("k", "ein Pfund Tee, grün"), (None, "a"), (None, None),
    ]  # fmt: skip
    assert shown[2]["key"] == {"text": None, "base64": "/w=="}
    again = [{"key": each["key"], "value": each["value"], "partition": each["partition"]} for each in shown]
    control.ask("POST", "/topics/copy/records", {"records": again[:2]})
    assert [record.value for record in kafka.records("copy")] == [record.value for record in (first, third)]


def test_a_refused_record_is_named_and_the_records_before_it_are_stored(kafka: MockKafka, control: ControlClient) -> None:
    good = {"value": "x"}
    problem = control.refused("POST", "/topics/orders/records", {"records": [good, {"value": "x" * 2_000_000}, good]})
    assert (problem["status"], problem["field"]) == (422, "records[1]")
    assert problem["detail"].startswith("the record was refused: ")
    assert problem["detail"].endswith("; the earlier records (1) are stored")
    problem = control.refused("POST", "/topics/orders/records", {"records": [good | {"partition": 3}]})
    assert (problem["status"], problem["field"]) == (404, "records[0]")
    assert len(kafka.records("orders")) == 1


def test_records_are_read_page_by_page(kafka: MockKafka, control: ControlClient) -> None:
    for partition, count in ((0, 4), (2, 3)):
        producer = RawProducer(kafka, partition=partition)
        producer.send(0, count - 1)
    whole = control.ask("GET", "/topics/orders/records")
    assert whole["next"] is None
    assert [(each["partition"], each["offset"], each["sequence"]) for each in whole["records"]] == [
        (0, 0, 0), (0, 1, 1), (0, 2, 2), (0, 3, 3), (2, 0, 0), (2, 1, 1), (2, 2, 2),
    ]  # fmt: skip
    for first in ("/topics/orders/records?limit=3", "/topics/orders/records?limit=4", "/topics/orders/records?limit=1"):
        pages = []
        following: str | None = first
        while following is not None:
            page = control.ask("GET", following)
            pages.append(page["records"])
            following = page["next"]
        assert [record for page in pages for record in page] == whole["records"]
        assert len(pages) == {"3": 3, "4": 2, "1": 7}[first[-1]]
    one = control.ask("GET", "/topics/orders/records?partition=0&offset=1&limit=2")
    assert [each["offset"] for each in one["records"]] == [1, 2]
    assert [each["offset"] for each in control.ask("GET", one["next"])["records"]] == [3]
    both = control.refused("GET", "/topics/orders/records?partition=0&from_partition=1")
    assert "exclude each other" in both["detail"]


def test_a_page_ends_before_it_is_too_large(kafka: MockKafka, control: ControlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PAGE_BYTES", 100)
    for _ in range(3):
        kafka.produce("orders", value=b"x" * 60)
    page = control.ask("GET", "/topics/orders/records")
    assert len(page["records"]) == 2
    assert len(control.ask("GET", page["next"])["records"]) == 1


def test_waiting_for_records_ends_when_they_come(kafka: MockKafka, control: ControlClient) -> None:
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(control.ask("GET", "/topics/later/records/wait?count=3&timeout=10")))
    waiter.start()
    kafka.create_topic("later")
    RawProducer(kafka, topic="later").send(0, 2)
    waiter.join(10)
    assert [text(each["value"]) for each in found[0]["records"]] == ["v0", "v1", "v2"]


def test_stored_records_reach_a_waiting_fetch(kafka: MockKafka, control: ControlClient) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "fetch.wait.max.ms": 60_000})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(control.ask("GET", "/topics/orders/records/wait?timeout=10")))
    waiter.start()
    while not kafka._host.engine.cluster.topics["orders"].partitions[0].waiting:  # type: ignore[union-attr]
        control.ask("GET", "/health")
    control.ask("POST", "/topics/orders/records", {"records": [{"value": "x"}]})
    message = consumer.poll(10)
    assert message is not None
    assert message.value() == b"x"
    waiter.join(10)
    assert [text(each["value"]) for each in found[0]["records"]] == ["x"]
    consumer.close()


def test_a_wait_that_times_out_reports_how_many_came(kafka: MockKafka, control: ControlClient) -> None:
    kafka.produce("orders", value=b"x")
    problem = control.refused("GET", "/topics/orders/records/wait?count=2&timeout=0.01")
    assert problem["status"] == 409
    assert problem["detail"] == "1 of 2 records were stored in 'orders' within 0.01 s"
    problem = control.refused("GET", "/verdicts/wait?topic=orders&timeout=0.01")
    assert problem["detail"] == "there were 0 of 1 such verdicts within 0.01 s"


def test_waiting_requests_are_answered_when_the_broker_stops(mock_kafka_factory: Start) -> None:
    kafka = MockKafka(control=True)
    kafka.start()
    control = ControlClient(kafka.control_url)
    paths = ["/topics/orders/records/wait?timeout=300", "/verdicts/wait?timeout=300", "/trace.jsonl?follow=true"]
    responses: list[Response] = []
    waiters = [threading.Thread(target=lambda p=path: responses.append(control.raw("GET", p))) for path in paths]
    for waiter in waiters:
        waiter.start()
    while len(kafka._control._controlled.at_close) < 2 or not kafka._host.watchers:  # type: ignore[union-attr]
        control.ask("GET", "/health")
    began = time.monotonic()
    kafka.stop()
    for waiter in waiters:
        waiter.join(10)
    assert time.monotonic() - began < 5
    assert sorted(response.status for response in responses) == [200, 503, 503]
    assert {response.json["detail"] for response in responses if response.status == 503} == {"the broker is stopping"}


def test_a_client_that_does_not_read_is_cut_off_when_the_broker_stops(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wirebroker.control.server.LAST_RESPONSES_S", 0.05)
    with MockKafka(control=True, topics=["orders"]) as kafka:
        RawProducer(kafka).send(0)
        (row,) = kafka.trace.produce()
        stream = follow(ControlClient(kafka.control_url), "/verdicts.jsonl?follow=true")
        stream.readline()
        large = replace(row, explain="x" * 1_000_000)
        kafka._call(lambda engine: [sink(large) for sink in engine.trace.sinks for _ in range(30)])
        tasks = kafka._control._state.tasks  # type: ignore[union-attr]
        assert len(tasks) == 1
        kafka.stop()
        assert tasks == set()
        with pytest.raises((OSError, http.client.IncompleteRead)):
            stream.read()
    assert caplog.records == []


# Faults


def test_b2_an_acknowledgement_is_lost_over_http(kafka: MockKafka, control: ControlClient) -> None:
    lost = control.ask("POST", "/faults", {"kind": "lose_ack", "api": "Produce", "topic": "orders", "nth": 1})
    assert (lost["seen"], lost["fired"]) == (0, 0)
    silent = control.refused("GET", f"/faults/{lost['id']}/assert-fired")
    assert silent["status"] == 409
    assert "did not fire at all: it fired on 0 of 0 matches" in silent["detail"]
    producer = RawProducer(kafka)
    with pytest.raises(ConnectionClosed):
        producer.send(0)
    producer.wire = client(kafka)
    assert producer.send(0).base_offset == 0
    assert control.ask("GET", f"/faults/{lost['id']}/assert-fired?times=1")["fired"] == 1
    assert control.ask("GET", "/faults/assert-fired")["faults"] == control.ask("GET", "/faults")["faults"]
    assert "did not fire 2 times" in control.refused("GET", f"/faults/{lost['id']}/assert-fired?times=2")["detail"]
    assert [each["verdict"] for each in control.ask("GET", "/verdicts")["verdicts"]] == ["accepted", "duplicate"]


def test_rules_keep_their_ids(kafka: MockKafka, control: ControlClient) -> None:
    ours = kafka.faults.add(faults.answer(lambda facts, request: None, name="ours"))
    first = control.ask("POST", "/faults", {"kind": "throttle", "ms": 5})
    assert [each["id"] for each in control.ask("GET", "/faults")["faults"]] == [1, 2]
    assert control.ask("GET", "/faults/1")["rule"] == {"kind": "answer", "name": "ours"}
    kafka.faults.remove(ours)
    second = control.ask("POST", "/faults", {"kind": "throttle", "ms": 5})
    assert (first["id"], second["id"]) == (2, 3)
    assert "loaded: 2, 3" in control.refused("GET", "/faults/1")["detail"]
    control.ask("DELETE", "/faults/2")
    assert [each["id"] for each in control.ask("GET", "/faults")["faults"]] == [3]
    control.ask("DELETE", "/faults")
    assert kafka.faults.rules == []


def test_a_client_waits_until_a_rule_has_fired(kafka: MockKafka, control: ControlClient) -> None:
    seen = control.ask("POST", "/faults", {"kind": "observe", "api": "Produce", "topic": "orders"})
    where = f"/faults/{seen['id']}/wait"
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(control.ask, "GET", f"{where}?times=2&timeout=10")
        kafka.wait_until(lambda: len(kafka._host.watchers) == 2)  # type: ignore[union-attr]
        producer = RawProducer(kafka)
        assert (producer.send(0).error_code, producer.send(1).error_code) == (0, 0)
        assert waiting.result(10)["fired"] == 2
        assert control.ask("GET", where)["fired"] == 2
        late = control.refused("GET", f"{where}?times=3&timeout=0.01")
        assert late["status"] == 409
        assert "did not fire 3 times within 0.01 s: it fired on 2 of 2 matches" in late["detail"]
        for path, body in (("DELETE", f"/faults/{seen['id']}"), ("POST", "/reset")):
            again = control.ask("POST", "/faults", {"kind": "observe"}) if path == "POST" else seen
            waiting = pool.submit(control.refused, "GET", f"/faults/{again['id']}/wait?times=9&timeout=10")
            kafka.wait_until(lambda: len(kafka._host.watchers) == 2)  # type: ignore[union-attr]
            control.ask(path, body)
            assert waiting.result(5)["status"] == 404


def test_a_held_back_response_goes_on_when_its_rule_is_removed(kafka: MockKafka, control: ControlClient) -> None:
    control.ask("POST", "/faults", {"kind": "reorder", "others": 99, "api": "Produce"})
    producer = RawProducer(kafka)
    responses: list[Any] = []
    sender = threading.Thread(target=lambda: responses.append(producer.send(0)))
    sender.start()
    kafka.wait_until(lambda: bool(kafka.trace.faults()))
    control.ask("DELETE", "/faults")
    sender.join(10)
    assert [response.base_offset for response in responses] == [0]


def test_a_fault_file_is_loaded_whole_or_not_at_all(kafka: MockKafka, control: ControlClient) -> None:
    good = b'seed = 7\n[[fault]]\nkind = "throttle"\nms = 3\n\n[[fault]]\nkind = "lose_ack"\n'
    loaded = control.ask("POST", "/faults/file", good)
    assert loaded["seed"] == kafka.faults.seed == 7
    assert [each["description"] for each in loaded["faults"]] == ["throttle(ms=3)", "lose_ack(then=disconnect)"]
    file = control.send("GET", "/faults/file").body
    assert file == kafka.faults.as_toml()
    for wrong, named in (('kind = "lose_akc"', "lose_akc"), ('kind = "observe"\nnode = 99', "there is no node 99")):
        refused = control.refused("POST", "/faults/file", f'seed = 9\n[[fault]]\nkind = "observe"\n[[fault]]\n{wrong}'.encode())
        assert named in refused["detail"]
        assert control.send("GET", "/faults/file").body == file, "neither the rules nor the seed have changed"
    problem = control.refused("POST", "/faults/file", b'[[fault]]\nkind = "delay"\nms = 3\n\n[[fault]]\nkind = "lose_akc"\n')
    assert problem["detail"] == "the file:6: there is no kind 'lose_akc'; did you mean 'lose_ack'?"
    assert "this is not TOML" in control.refused("POST", "/faults/file", b"[[fault")["detail"]
    assert len(kafka.faults.rules) == 2


def test_the_seed_of_a_file_makes_chances_repeatable(kafka: MockKafka, control: ControlClient) -> None:
    file = b'seed = 11\n[[fault]]\nkind = "throttle"\nms = 1\nprobability = 0.5\n'
    counts = []
    for _ in range(2):
        control.ask("POST", "/faults/file", file)
        wire, throttled = client(kafka), []
        for _ in range(20):
            throttled.append(wire.request(MetadataRequest(topics=None), 9).throttle_time_ms)
        counts.append(throttled)
        control.ask("DELETE", "/faults")
    assert counts[0] == counts[1]
    assert 0 < sum(counts[0]) < 20


BAD_RULES = [
    ({"kind": "lose_ack", "api": "Prodce"}, "api"),
    ({"kind": "lose_ack", "topc": "orders"}, "topc"),
    ({"kind": "lose_akc"}, "kind"),
    ({}, "kind"),
    ({"kind": ["delay"]}, "kind"),
    ({"kind": "delay"}, "kind"),
    ({"kind": "delay", "ms": 0}, "ms"),
    ({"kind": "delay", "ms": "5"}, "ms"),
    ({"kind": "lose_ack", "nth": 1, "every": 2}, "nth"),
    ({"kind": "lose_ack", "api": "Fetch", "sequence": 3}, "api"),
    ({"kind": "error", "code": "NOT_LEADER"}, "code"),
    ({"kind": "lose_ack", "probability": 1.5}, "probability"),
    ({"kind": "lose_ack", "version": [5, 3]}, "version"),
]


@pytest.mark.parametrize(("rule", "field"), BAD_RULES, ids=lambda value: json.dumps(value))
def test_an_impossible_rule_is_refused_with_the_words_of_a_fault_file(
    rule: dict[str, Any], field: str, control: ControlClient
) -> None:
    lines = "".join(f"{word} = {json.dumps(value)}\n" for word, value in rule.items())
    with pytest.raises(FaultFileError) as said:
        loads(f"[[fault]]\n{lines}", "f")
    problem = control.refused("POST", "/faults", rule)
    assert (problem["status"], problem["field"]) == (422, field)
    assert str(said.value).partition(": ")[2] == problem["detail"]
    assert control.ask("GET", "/faults")["faults"] == []


# Connections


def test_an_idle_connection_stays_open_for_as_long_as_clients_keep_theirs(kafka: MockKafka, control: ControlClient) -> None:
    assert kafka._control is not None
    host, port = address_of(control.url.removeprefix("http://"))
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", "/clock")
    connection.getresponse().read()
    (open_one,) = kafka._control._state.connections
    kafka.wait_until(lambda: open_one.timeout_keep_alive_task is not None)  # the flag is set after the response is sent
    timer = open_one.timeout_keep_alive_task
    assert timer.when() - kafka._loop.time() > 1200, "Java 17 keeps a connection for 1200 s"
    connection.close()


# Tests and their reports


def test_a_test_begins_with_a_soft_reset_and_a_mark(
    kafka: MockKafka, control: ControlClient, mock_kafka_factory: Start
) -> None:
    producer = RawProducer(kafka)
    control.ask("POST", "/faults", {"kind": "observe"})
    producer.send(0)
    before = control.ask("POST", "/tests", {"name": "first"})
    producer.send(1)
    mark = control.ask("POST", "/tests", {"name": "OrdersTest.retries"})
    assert (mark["name"], mark["row"], mark["run"] != before["run"]) == ("OrdersTest.retries", 1, True)
    assert (kafka.records("orders"), kafka.faults.rules) == ([], [])
    assert producer.send(2).base_offset == 2, "the client continues"
    assert [row.parts()[2:] for row in kafka.trace.events("test")] == [("began", "OrdersTest.retries")]
    kafka.begin_test("in Python")
    assert [row.parts()[3] for row in kafka.trace.events()] == ["in Python"]
    control.ask("POST", "/tests", {"name": "with topics", "topics": ["orders", "payments:2:cleanup.policy=compact"]})
    assert control.ask("GET", "/topics/payments")["configs"]["cleanup.policy"] == "compact"
    kafka.begin_test("in Python", {"payments": 3, "invoices": 4})
    control.ask("POST", "/tests", {"name": "with fewer partitions", "topics": ["payments:1", "invoices"]})
    assert [len(kafka.topics()[name].partitions) for name in ("payments", "invoices")] == [3, 4]
    untraced = ControlClient(mock_kafka_factory(control=True, trace="off").control_url)
    assert untraced.ask("POST", "/tests", {"name": "untraced"})["row"] == 0


IMPOSSIBLE_TOPICS = {
    "a a:2": "named twice", "no/name": "no/name", "a:0": "a:0", "a:1:rf=9": "9 replicas",
    "a:10001": "'a' can have at most 10000 partitions",
}  # fmt: skip


@pytest.mark.parametrize(("topics", "words"), IMPOSSIBLE_TOPICS.items())
def test_a_test_cannot_begin_with_impossible_topics(topics: str, words: str, control: ControlClient) -> None:
    problem = control.refused("POST", "/tests", {"name": "refused", "topics": topics.split()})
    assert problem["status"] == 422
    assert words in problem["detail"]


def test_the_report_is_what_pytest_shows(kafka: MockKafka, control: ControlClient) -> None:
    kafka.begin_test("OrdersTest.retries")
    kafka.faults.add(faults.lose_ack(api="Fetch"))
    till = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till", "log_level": 0})
    till.init_transactions()
    for value, end in (("bought", till.commit_transaction), ("returned", till.abort_transaction), ("looked", till.flush)):
        till.begin_transaction()
        till.produce("orders", value, partition=0)
        till.flush()
        end()
    kafka.clock.advance(seconds=30)
    text, report = (control.send("GET", "/report", headers={"Accept": each}) for each in ("*/*", "application/json"))
    bare = control.send("GET", "/report")
    assert (text.media, bare.media, report.media) == ("text/plain", "text/plain", "application/json")
    told = report.json
    assert {each["title"]: each["text"] for each in told["sections"]} == kafka.report()
    assert text.body == "".join(f"--- {name} ---\n{lines.rstrip()}\n" for name, lines in kafka.report().items())
    assert bare.body == told["text"] == text.body
    assert [each["fate"] for each in told["records"] if not each["record"]["control"]] == ["committed", "aborted", "open"]
    assert (told["test"], told["verdicts"][0]["name"]) == ("OrdersTest.retries", "OrdersTest.retries")
    assert [(each["transactional_id"], each["state"]) for each in told["transactions"]] == [("till", "Ongoing")]
    assert [rule.kind for rule in loads(told["faults"], "the report").rules] == ["lose_ack"]
    for part in ("committed key null  value 'bought'", "'till'               Ongoing, producer", "fired 0 of 0"):
        assert part in text.body
    for number in range(30):
        till.produce("orders", f"order {number}", partition=0)
        till.flush()
    late = control.send("GET", "/report").body
    assert ("OrdersTest.retries" in late, "'order 29'" in late, "'bought'" in late) == (True, True, False)


def test_the_report_finds_what_explain_finds(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, control=True, trace="all")
    control = ControlClient(kafka.control_url)
    kafka.faults.add(faults.throttle(40_000))
    for _ in range(3):
        client(kafka).request(MetadataRequest(topics=None), 9)
    expected = control.ask("GET", "/explain")["findings"]
    assert expected
    assert [each["kind"] for each in control.send("GET", "/report", headers={"Accept": JSON}).json["findings"]] == [
        each["kind"] for each in expected
    ]
    assert expected[0]["sentence"] in kafka.report()["what is wrong"]


# Verdicts


def test_verdicts_are_filtered_by_topic_partition_producer_and_verdict(kafka: MockKafka, control: ControlClient) -> None:
    first, second = RawProducer(kafka), RawProducer(kafka, partition=1)
    first.send(0)
    second.send(0)
    assert second.send(5).error_code == OUT_OF_ORDER
    second.send(0)

    def asked(query: str) -> list[str]:
        return [each["verdict"] for each in control.ask("GET", f"/verdicts?{query}")["verdicts"]]

    assert asked("") == ["accepted", "accepted", "rejected", "duplicate"]
    assert asked("partition=1&topic=orders") == ["accepted", "rejected", "duplicate"]
    assert asked(f"producer_id={first.pid}") == ["accepted"]
    assert asked("verdict=rejected") == ["rejected"]
    assert asked("limit=2") == ["rejected", "duplicate"]
    assert asked("topic=none") == []
    (rejected,) = control.ask("GET", "/verdicts?verdict=rejected")["verdicts"]
    assert (rejected["code"], rejected["explain"]) == (OUT_OF_ORDER, kafka.trace.produce("orders", 1)[1].explain)
    assert control.refused("GET", "/verdicts?verdict=good")["detail"] == (
        "verdict is 'accepted' or 'duplicate' or 'rejected', not 'good'"
    )


def test_json_lines_are_those_of_the_trace(kafka: MockKafka, control: ControlClient) -> None:
    kafka.faults.add(faults.throttle(5, api="Produce"))
    RawProducer(kafka).send(0)
    lines = control.send("GET", "/verdicts.jsonl?topic=orders").body
    assert lines == kafka.trace.produce("orders")[0].as_json() + "\n"
    whole = control.send("GET", "/trace.jsonl").body
    assert whole == "".join(row.as_json() + "\n" for row in kafka.trace.last(10))
    assert control.send("GET", "/trace.jsonl?limit=1").body == kafka.trace.last(1)[0].as_json() + "\n"


def test_waiting_for_a_verdict(kafka: MockKafka, control: ControlClient) -> None:
    producer = RawProducer(kafka)
    producer.send(0)
    found: list[Any] = []
    path = "/verdicts/wait?topic=orders&verdict=duplicate&count=2&timeout=10"
    waiter = threading.Thread(target=lambda: found.append(control.ask("GET", path)["verdicts"]))
    waiter.start()
    for sequence in (0, 1, 1, 2):
        producer.send(sequence)
    waiter.join(10)
    assert [(each["verdict"], each["first_sequence"]) for each in found[0]] == [("duplicate", 0), ("duplicate", 1)]


def test_verdicts_before_a_reset_do_not_count(kafka: MockKafka, control: ControlClient) -> None:
    RawProducer(kafka).send(0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(control.ask, "GET", "/verdicts/wait?topic=orders&count=2&timeout=10")
        kafka.wait_until(lambda: kafka._call(lambda engine: any(isinstance(each, Tail) for each in engine.trace.sinks)))
        kafka.reset()
        producer = RawProducer(kafka)
        for sequence in (0, 1):
            producer.send(sequence)
        assert [each["first_sequence"] for each in waiting.result(10)["verdicts"]] == [0, 1]


@pytest.mark.parametrize("is_reset", [True, False])
def test_the_control_tells_that_a_change_was_cut_off(is_reset: bool, mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(brokers=2, topics={"orders": 5000})
    endpoint = next(each for each in deed_endpoints() if each.path.endswith("/kill"))
    no_body = endpoint.handler.__annotations__["body"]()

    async def kill(host: Host) -> None:
        controlled = ControlledBroker(host, kafka._new_engine)
        killing = asyncio.ensure_future(endpoint.handler(controlled, node_id=2, body=no_body))
        await asyncio.sleep(0)  # the first leaders change
        assert host.engine.controller.busy
        if not is_reset:
            assert [each.alive for each in (await killing).brokers] == [True, False]
            return
        controlled.reset()
        with pytest.raises(Problem, match="the change was cut off, because the broker was reset"):
            await killing

    assert kafka._loop is not None
    asyncio.run_coroutine_threadsafe(kill(kafka._running), kafka._loop).result(30)


def follow(control: ControlClient, path: str) -> http.client.HTTPResponse:
    """Opens a stream, and returns it after its response headers."""
    host, _, port = control.url.partition("//")[2].partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", path)
    return connection.getresponse()


def test_the_stream_goes_on_across_a_reset(kafka: MockKafka, control: ControlClient) -> None:
    producer = RawProducer(kafka)
    producer.send(0)
    stream = follow(control, "/verdicts.jsonl?follow=true&topic=orders")
    assert json.loads(stream.readline())["base_offset"] == 0
    producer.send(1)
    assert json.loads(stream.readline())["base_offset"] == 1
    kafka.reset()
    RawProducer(kafka).send(0)
    row = json.loads(stream.readline())
    assert (row["event"], row["verdict"], row["base_offset"]) == ("produce", "accepted", 0)
    stream.close()
    RawProducer(kafka).send(0)  # when the control sends this row, it notices that the client has disconnected
    kafka.wait_until(lambda: control.ask("GET", "/health")["status"] == "ok")


def test_a_slow_reader_gets_the_number_of_rows_it_missed(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "BEHIND", 2)
    assert kafka._control is not None
    controlled = kafka._control._controlled

    def made() -> list[str]:
        async def read() -> list[str]:
            lines = verdicts.lines(controlled, verdicts.Followed(follow=True))
            first = await anext(lines)
            rows = kafka.trace.produce()
            for _ in range(5):
                for sink in kafka._host.engine.trace.sinks:  # type: ignore[union-attr]
                    sink(rows[0])
            return [first, *[line async for line in lines]]

        assert kafka._loop is not None
        return asyncio.run_coroutine_threadsafe(read(), kafka._loop).result(10)

    RawProducer(kafka).send(0)
    lines = made()
    assert [json.loads(line)["event"] for line in lines] == ["produce", "produce", "produce", "missed"]
    assert json.loads(lines[-1])["rows"] == 3
    assert controlled.engine.trace.sinks == []


# The audit


def test_the_audit_with_and_without_intended_records(kafka: MockKafka, control: ControlClient) -> None:
    producer = RawProducer(kafka)
    for epoch in (0, 0, 1):
        producer.send(0, 1, epoch=epoch)
    told = control.ask("POST", "/audit")
    assert (told["exactly_once"], told["intended"], told["lost"], told["doubled"]) == (False, None, 0, 2)
    (found,) = told["findings"]
    assert (found["kind"], found["severity"], found["evidence"]["records"]) == ("epoch_duplicate", "likely", 2)
    assert found["explanation"] == kafka.audit().findings[0].explanation
    counts = told["topics"]["orders"]
    assert [counts[what] for what in ("partitions", "batches", "records", "recognised", "rejected")] == [3, 2, 4, 1, 0]
    meant = [{"topic": "orders", "value": f"v{number}"} for number in (0, 1, 0, 1)]
    assert control.ask("POST", "/audit", {"intended": meant})["exactly_once"] is True
    meant += [{"topic": "orders", "value_base64": "/w==", "id": "7"}, {"topic": "orders", "id": "7", "acknowledged": True}]
    told = control.ask("POST", "/audit", {"intended": meant, "topics": ["orders"]})
    assert (told["exactly_once"], told["intended"], told["lost"], told["doubled"]) == (False, 5, 1, 0)
    assert "was acknowledged and is not stored" in told["findings"][0]["explanation"]
    told = control.ask("POST", "/audit", {"intended": meant, "topics": []})
    assert (told["exactly_once"], told["intended"], told["topics"]) == (True, 0, {})


def test_an_audit_that_cannot_run_says_why(control: ControlClient) -> None:
    assert control.refused("POST", "/audit", {"topics": ["pay"]})["detail"] == "there is no topic 'pay'"
    assert control.refused("POST", "/audit", {"intended": [{"value": "x"}]})["field"] == "intended[0].topic"
    wrong = control.refused("POST", "/audit", {"intended": [{"topic": "orders", "value_base64": "?"}]})
    assert wrong["status"] == 422
    assert wrong["detail"].startswith("intended row 1: value_base64 is not base64")


# Producers, transactions, groups


def test_producers_are_the_validators_state(kafka: MockKafka, control: ControlClient) -> None:
    producer = RawProducer(kafka, partition=1)
    for sequence in range(7):
        producer.send(sequence)
    (shown,) = control.ask("GET", "/topics/orders/producers")["producers"]
    assert control.ask("GET", "/topics/orders/producers?partition=1")["producers"] == [shown]
    assert (shown["partition"], shown["producer_id"], shown["last_sequence"]) == (1, producer.pid, 6)
    assert [batch["first_offset"] for batch in shown["batches"]] == [2, 3, 4, 5, 6]
    assert control.ask("GET", "/topics/orders/producers?partition=0")["producers"] == []
    assert control.refused("GET", "/topics/orders/producers?partition=9")["field"] == "partition"


def test_every_endpoint_takes_an_empty_object_as_no_body(control: ControlClient) -> None:
    """Some HTTP libraries send `{}` for an empty body. So a request with `{}` for an unknown broker gets 404, not 400."""
    for endpoint in endpoints_of("broker"):
        if endpoint.takes == JSON and endpoint.media != EVENTS:
            path = re.sub(r"{\w+}", "9", endpoint.shown_path)
            path += "?timeout=0" if (endpoint.method, path.endswith("/wait")) == ("GET", True) else ""
            bare, empty, blank = (control.raw(endpoint.method, path, body) for body in (None, {}, b" \r\n"))
            assert (empty.status, empty.media) == (bare.status, bare.media) == (blank.status, blank.media), path
            assert empty.status != 400, empty.body


def test_a_producer_is_forgotten_and_a_log_is_cut_off(kafka: MockKafka, control: ControlClient) -> None:
    producer = RawProducer(kafka)
    for sequence in range(3):
        producer.send(sequence)
    assert control.ask("POST", "/topics/orders/partitions/0/truncate", {"offset": 1})["log_end_offset"] == 1
    assert len(kafka.records("orders")) == 1
    assert control.refused("POST", f"/producers/{producer.pid}/expire", {"topic": "oders"})["status"] == 404
    assert control.ask("POST", f"/producers/{producer.pid}/expire") == {"partitions": 1}
    assert kafka.producers("orders", 0) == {}
    assert control.refused("POST", "/topics/orders/partitions/0/truncate", {"offset": 9})["status"] == 422


def test_a_kafka_client_at_the_control_is_logged_once(
    kafka: MockKafka, control: ControlClient, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = address_of(kafka.control_url.removeprefix("http://"))
    for _ in range(3):
        with pytest.raises(ProtocolError, match="this is not a Kafka broker"):
            WireClient(host, port).request(MetadataRequest(topics=None), 9)
    said = f"a Kafka client on 127.0.0.1 connects to {host}:{port}, which is the HTTP control"
    assert [text.partition(";")[0] for text in caplog.messages] == [said]
    assert control.ask("GET", "/topics")


def test_changes_over_http_are_traced_with_their_time(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(clock="frozen", trace="changes", control=True)
    control = ControlClient(kafka.control_url)
    kafka._clock.advance(5000)  # time passes, but no timer or request updates the engine's time
    control.ask("POST", "/topics", {"name": "later"})
    (row,) = (json.loads(line) for line in control.send("GET", "/trace.jsonl").body.splitlines())
    assert (row["event"], row["topic"], row["time"]) == ("topic", "later", kafka.clock.now())


@pytest.mark.mock_kafka(profile="pulsar", topics=["orders"], control=True)
def test_producers_may_be_known_by_name(mock_kafka: MockKafka) -> None:
    RawProducer(mock_kafka).send(0)
    (shown,) = ControlClient(mock_kafka.control_url).ask("GET", "/topics/orders/producers")["producers"]
    assert (shown["producer_id"], shown["name"]) == (-1, "wirebroker-conformance")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_transactions_and_groups(protocol: str, kafka: MockKafka, control: ControlClient) -> None:
    kafka.produce("orders", value=b"x")
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "a/b", "group.protocol": protocol,
         "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe(["orders"])
    assert consumer.poll(10) is not None
    assert "there is no group 'a\\nb'" in control.refused("GET", "/groups/a%0Ab")["detail"]
    shown = control.ask("GET", "/groups/a/b")
    assert (shown["type"], shown["state"], shown["protocol_type"]) == (protocol, "Stable", "consumer")
    assert [member["assignment"] for member in shown["members"]] == [[{"topic": "orders", "partitions": [0, 1, 2]}]]

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "till/1"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"y", partition=2)
    producer.flush(10)
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], consumer.consumer_group_metadata(), 10)
    open_ = control.ask("GET", "/transactions/till/1")
    assert open_["state"] == "Ongoing"
    assert {"topic": "orders", "partitions": [2]} in open_["partitions"]
    assert [(each["offset"], each["pending"]) for each in control.ask("GET", "/groups/a/b")["offsets"]] == [(1, True)]
    assert "Kafka forgets no id in that state" in control.refused("POST", "/transactions/till/1/expire")["detail"]
    producer.commit_transaction(10)
    assert [each["state"] for each in control.ask("GET", "/transactions")["transactions"]] == ["CompleteCommit"]
    (group,) = control.ask("GET", "/groups")["groups"]
    assert [(each["topic"], each["offset"], each["pending"]) for each in group["offsets"]] == [("orders", 1, False)]
    stored = control.ask("GET", "/topics/orders/records?partition=2")["records"]
    assert [(each["transactional"], each["control"]) for each in stored] == [(True, False), (True, True)]
    internal = {topic["name"] for topic in control.ask("GET", "/topics?internal=true")["topics"] if topic["internal"]}
    assert internal == {"__consumer_offsets", "__transaction_state"}
    consumer.close()
    epoch = control.ask("GET", "/transactions/till/1")["producer_epoch"]
    assert control.ask("POST", "/transactions/till/1/fence")["producer_epoch"] > epoch
    control.ask("POST", "/transactions/till/1/expire")
    assert control.refused("POST", "/transactions/till/1/fence")["status"] == 404
    control.ask("DELETE", "/topics/orders")
    assert control.ask("GET", "/groups/a/b")["offsets"] == [], "the topic's offsets are deleted, too"


# Health, clock and reset


def test_the_clock_is_moved(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(clock="frozen", control=True, topics=["orders"], configs={"retention.ms": 1000})
    control = ControlClient(kafka.control_url)
    before = kafka.clock.now()
    kafka.produce("orders", value=b"x", timestamp=before - 10)
    moved = control.ask("POST", "/clock/advance", {"days": 8, "hours": 0.5, "milliseconds": 7})
    assert moved == {"now": before + 8 * 86_400_000 + 1_800_007, "frozen": True}
    assert control.ask("GET", "/clock") == moved
    assert kafka.records("orders") == [], "retention ran"
    assert control.refused("POST", "/clock/advance", {"days": -1})["field"] == "days"
    assert "by at most 366 days, not by 400" in control.refused("POST", "/clock/advance", {"days": 400})["detail"]
    assert control.ask("POST", "/clock/advance") == moved
    assert control.ask("POST", "/clock/advance", {"seconds": 1.001})["now"] == moved["now"] + 1001


def test_restart_and_reset(kafka: MockKafka, control: ControlClient) -> None:
    producer = RawProducer(kafka)
    producer.send(0)
    for mode in ({}, {"mode": "kill"}):
        control.ask("POST", "/restart", mode)
        with pytest.raises(ConnectionClosed):
            producer.send(1)
        assert producer.send(0).base_offset == 0
    control.ask("POST", "/topics", {"name": "more"})
    control.ask("POST", "/faults", {"kind": "lose_ack"})
    control.ask("POST", "/reset")
    assert [topic["name"] for topic in control.ask("GET", "/topics")["topics"]] == ["orders"]
    assert control.ask("GET", "/topics/orders/records")["records"] == []
    assert control.ask("GET", "/faults")["faults"] == []


# Bad input

BAD = [
    ("GET", "/nothing", None, 404, None, "there is nothing at /nothing"),
    ("GET", "/topics/", None, 404, None, "there is nothing at /topics/"),
    ("PUT", "/topics", None, 405, None, "/topics takes no PUT, only GET, HEAD, POST"),
    ("GET", "/topics/none", None, 404, "topic", "there is no topic 'none'"),
    ("GET", "/topics/orders/records?partition=3", None, 404, "partition", "no partition 3, only 0 to 2"),
    ("GET", "/topics/orders/records?partition=-1", None, 404, "partition", "no partition -1"),
    ("GET", "/topics/orders/records?partiton=1", None, 422, "partiton", "did you mean 'partition'?"),
    ("GET", "/topics/orders/records?limit=many", None, 422, "limit", "limit is a whole number, not 'many'"),
    ("GET", "/topics/orders/records?limit=null", None, 422, "limit", "limit is a whole number, not 'null'"),
    ("GET", "/topics/orders/records?limit=1.0", None, 422, "limit", "limit is a whole number, not '1.0'"),
    ("GET", "/topics/orders/records?limit=0", None, 422, "limit", "limit is at least 1, not 0"),
    ("GET", "/topics/orders/records?limit=1&limit=2", None, 422, "limit", "limit is given more than once"),
    ("GET", "/topics/orders/records/wait?timeout=nan", None, 422, "timeout", "timeout is at least 0, not nan"),
    ("GET", "/topics/orders/records/wait?timeout=1e9", None, 422, "timeout", "timeout is at most 300"),
    ("GET", "/health?verbose=1", None, 422, "verbose", "this endpoint takes no query"),
    ("POST", "/brokers/9/kill", {}, 404, "node_id", "there is no broker 9; there are 1"),
    ("GET", "/health", {"a": 1}, 400, None, "this endpoint takes no body"),
    ("GET", "/faults/none", None, 404, None, "there is nothing at /faults/none"),
    ("GET", "/groups/none", None, 404, "group_id", "there is no group 'none'"),
    ("GET", "/transactions/none", None, 404, "transactional_id", "there is no transactional id 'none'"),
    ("POST", "/topics", b"{", 400, None, "the body is not JSON"),
    ("POST", "/topics", b"\xff\xfe{", 400, None, "the body is not JSON"),
    ("POST", "/topics", b"[" * 100_000, 400, None, "the body is not JSON"),
    ("POST", "/topics", b'{"name": NaN}', 400, None, "NaN is not a number in JSON"),
    ("POST", "/topics", b'{"name": 1e999}', 400, None, "too large a number"),
    ("POST", "/topics", b'{"name": "\\ud800"}', 400, None, "half of a surrogate pair"),
    ("POST", "/topics", b'{"name": "x", "partitions": 99999999999999999999}', 400, None, "does not fit into 64 bits"),
    ("POST", "/topics", b'{"name": "x", "partitions": ' + b"9" * 9999 + b"}", 400, None, "does not fit into 64 bits"),
    ("POST", "/topics", [], 422, "", "the body is a JSON object, not []"),
    ("POST", "/topics", {}, 422, "name", "name is missing: as Kafka allows"),
    ("POST", "/topics", {"name": "x", "a` - at `$.b": 1}, 422, "a` - at `$.b", "there is no 'a` - at `$.b' here"),
    ("POST", "/topics", {"name": 5}, 422, "name", "name is a text, not 5"),
    ("POST", "/topics", {"name": "a/b"}, 422, None, "characters other than"),
    ("POST", "/topics", {"name": "orders"}, 409, "name", "Topic 'orders' already exists."),
    ("POST", "/topics", {"name": "x", "partitions": 0}, 422, "partitions", "partitions is at least 1, not 0"),
    ("POST", "/topics", {"name": "x", "partitions": 10**9}, 422, "partitions", "partitions is at most 10000"),
    ("POST", "/topics", {"name": "x", "partitions": True}, 422, "partitions", "a whole number or null, not True"),
    ("POST", "/topics", {"name": "x", "configs": {"retention.m": 1}}, 422, "configs.retention.m", "'retention.ms'?"),
    ("POST", "/topics", {"name": "x", "configs": {"retention.ms": "x"}}, 422, None, "retention.ms"),
    ("POST", "/topics", {"name": "x", "configs": []}, 422, "configs", "configs is a JSON object or null, not []"),
    ("POST", "/topics/orders/records", {"records": [{"valu": "x"}]}, 422, "records[0].valu", "did you mean 'value'?"),
    ("POST", "/topics/orders/records", {"records": {}}, 422, "records", "records is a list"),
    ("POST", "/topics/orders/records", {"records": [5]}, 422, "records[0]", "records[0] is a JSON object, not 5"),
    ("POST", "/topics/orders/records", {"records": [{"key": {"base64": "?"}}]}, 422, "records[0].key.base64", "not base64"),
    ("POST", "/topics/orders/records", {"records": [{"key": {}}]}, 422, "records[0].key", "give one of text, base64 and json"),
    ("POST", "/topics/orders/records", {"records": [{"key": {"text": "a", "base64": "Yg=="}}]}, 422, "records[0].key",
     "different bytes"),
    ("POST", "/topics/orders/records", {"records": [{"timestamp": 2**63 - 1}]}, 422, "records[0]", "the record was refused"),
    ("POST", "/topics/a%20b/records", {"records": [{}]}, 422, "records[0]", "characters other than"),
    ("POST", "/topics/orders/records", {"records": [{}] * 10_001}, 422, "records", "at most 10000 records, not 10001"),
    ("POST", "/faults", [], 422, None, "the body is a JSON object"),
    ("POST", "/faults/file", b"\xff", 400, None, "the body is not UTF-8"),
    ("POST", "/faults/file", b"a = [" + b"[" * 60_000, 422, None, "this is not TOML"),
    ("POST", "/clock/advance", {"day": 1}, 422, "day", "did you mean 'days'?"),
    ("POST", "/clock/advance", {"days": "8"}, 422, "days", "days is a number, not '8'"),
    ("POST", "/restart", {"mode": "softly"}, 422, "mode", "mode is 'clean' or 'kill', not 'softly'"),
    ("POST", "/reset", {"hard": True}, 422, "hard", "there is no 'hard' here"),
    ("POST", "/warm", {"soft": True}, 400, None, "this endpoint takes no body"),
]  # fmt: skip


def named(value: Any) -> str:
    return str(value)[:40] if isinstance(value, str | int | dict | bytes) else ""


@pytest.mark.parametrize(("method", "path", "body", "status", "field", "sentence"), BAD, ids=named)
def test_an_error_is_answered_with_problem_details(
    method: str, path: str, body: Any, status: int, field: str | None, sentence: str, control: ControlClient,
    kafka: MockKafka, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    response = (control.raw if status in (404, 405) else control.send)(method, path, body)
    assert response.media == PROBLEM, response.body
    problem = response.json
    assert (response.status, problem["status"], problem.get("field")) == (status, status, field)
    assert sentence in problem["detail"]
    assert len(problem["detail"]) < 300
    assert control.ask("GET", "/health")["status"] == "ok"
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_body_has_a_limit(control: ControlClient) -> None:
    host, _, port = control.url.partition("//")[2].partition(":")
    for announced in (True, False):
        with socket.create_connection((host, int(port)), 10) as connection:
            head = "content-length: 99999999999" if announced else "transfer-encoding: chunked"
            connection.sendall(f"POST /topics HTTP/1.1\r\nhost: {host}\r\n{head}\r\n\r\n".encode())
            try:
                while True:
                    part = b" " * 1_000_000
                    connection.sendall(part if announced else b"%x\r\n%b\r\n" % (len(part), part))
            except OSError:
                pass
    response = control.send("POST", "/topics", b" " * (16 * 1024 * 1024 + 1))
    assert (response.status, response.json["detail"]) == (413, "a body has at most 16777216 bytes")
    assert control.ask("GET", "/health")["status"] == "ok"


def test_too_many_requests_that_wait_are_a_problem_and_idle_connections_are_not(
    kafka: MockKafka, control: ControlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert control.document, "the document is read before the limit holds"
    monkeypatch.setattr("wirebroker.control.app.MOST_REQUESTS", 2)
    idle = [http.client.HTTPConnection(control.url.removeprefix("http://")) for _ in range(3)]
    for each in idle:
        each.request("GET", "/health")
        assert each.getresponse().read()
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(control.ask, "GET", "/topics/orders/records/wait?timeout=10") for _ in range(2)]
        kafka.wait_until(lambda: len(kafka._host.watchers) == 3)  # type: ignore[union-attr]
        assert control.refused("GET", "/health")["detail"].startswith("2 requests are waiting already")
        kafka.produce("orders", value=b"x")
        assert [len(each.result(10)["records"]) for each in waiting] == [1, 1]
    assert control.ask("GET", "/health")["status"] == "ok"
    for each in idle:
        each.close()


def test_pages_of_other_sites_are_refused(kafka: MockKafka, control: ControlClient) -> None:
    kafka.produce("orders", value=b"x")
    own = control.url.partition("//")[2]
    port = own.partition(":")[2]
    foreign = ["a.com", f"a.com:{port}", "broker", "host.docker.internal", "10.0.0.1"]
    foreign += ["localhost.a.com", "127.0.0.1.a.com", "[::2]"]
    for name, value in (("Origin", "https://evil.example"), ("Origin", "null"), *(("Host", host) for host in foreign)):
        for method, path in (("POST", "/reset"), ("GET", "/topics/orders/records")):
            response = control.send(method, path, headers={name: value})
            assert (response.status, response.media, response.json["field"]) == (403, PROBLEM, name)
    assert len(kafka.records("orders")) == 1
    hosts = [own, f"localhost:{port}", "LOCALHOST.", "app.localhost", "127.0.0.2", f"[::1]:{port}"]
    for headers in ({"Origin": control.url}, *({"Host": host} for host in hosts)):
        assert control.send("GET", "/health", headers=headers).status == 200


def test_the_response_to_a_refused_host_name_has_the_flag_that_allows_it(control: ControlClient) -> None:
    response = control.send("GET", "/health", headers={"Host": "wirebroker:9099"})
    assert response.json["detail"] == (
        "the control does not respond under the name 'wirebroker'; use localhost, or start the broker with "
        "--control-allow-host wirebroker"
    )


@pytest.mark.parametrize(
    ("host", "reached", "taken"),
    [
        ("wirebroker:9099", "172.17.0.2", True), ("WireBroker.", "172.17.0.2", True), ("localhost:9099", "172.17.0.2", True),
        ("127.0.0.1:9099", "172.17.0.2", True), ("172.17.0.2:9099", "172.17.0.2", True), ("172.17.0.3", "172.17.0.2", False),
        ("[fe80::1]:9099", "fe80::1%eth0", True), ("evil.example:9099", "172.17.0.2", False), ("", "127.0.0.1", False),
        ("0.0.0.0", "172.17.0.2", False),
    ],
)  # fmt: skip
def test_a_published_port_responds_only_under_known_names(host: str, reached: str, taken: bool) -> None:
    assert Hosts(["wirebroker"]).takes(host, reached) is taken


def test_null_is_accepted_where_the_document_allows_it(control: ControlClient) -> None:
    named = control.ask("GET", "/openapi.json")["components"]["schemas"]
    assert {"type": "null"} in named["CreateTopicArguments"]["properties"]["partitions"]["anyOf"]
    assert control.send("POST", "/topics", {"name": "new", "partitions": None}).status == 201
    assert control.send("POST", "/topics/new/records", {"records": [{"value": None, "timestamp": None}]}).status == 201


def test_numbers_of_any_length_are_refused(control: ControlClient) -> None:
    for digits in (19, 5000):
        for path in ("/faults/{}", "/producers/{}/expire", "/brokers/{}/kill", "/topics/orders/partitions/{}/truncate"):
            response = control.send("GET" if path == "/faults/{}" else "POST", path.format("9" * digits))
            assert (response.status, response.media) == (404, PROBLEM)
        response = control.send("GET", f"/topics/orders/records?offset={'9' * digits}")
        assert (response.status, response.json["field"]) == (422, "offset")
    for body in (f'{{"name": "new", "partitions": {"9" * 5000}}}', '{"name": "new", "partitions": NaN}', "[" * 100_000,
                 '{"name": "\\ud800"}', '{"name": "new", "partitions": 1e999}'):  # fmt: skip
        assert control.send("POST", "/topics", body.encode()).status in (400, 422)


def test_a_body_or_query_that_takes_long_to_read_is_refused_at_once(control: ControlClient) -> None:
    began = time.process_time()
    dotted = control.send("POST", "/faults/file", (".".join("a" * 15_000) + "=1").encode())
    assert (dotted.status, dotted.json["detail"]) == (422, "the file:1: this line has more than 100 dots")
    assert control.send("POST", "/faults/file", b"#" * 70_000).status == 413
    assert control.send("GET", "/verdicts?" + "&".join(f"a{i}" for i in range(8000))).status == 422
    assert control.send("POST", "/topics", {"a" * 1_000_000: 1}).status == 422
    assert time.process_time() - began < 2, "without the limit, the first request took 3.3 s"


NO_HTTP = [b"\x00\x00\x00\x14\x00\x12\x00\x03", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n" + b"a" * 99_999]


@pytest.mark.parametrize("garbage", NO_HTTP, ids=["kafka", "tls", "endless head"])
def test_bytes_that_are_not_http_close_their_connection(garbage: bytes, control: ControlClient) -> None:
    host, _, port = control.url.partition("//")[2].partition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(garbage + b"\r\n\r\n")
        answered = b"".join(iter(lambda: connection.recv(4096), b""))
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"content-type: {PROBLEM}".encode() in head
    assert json.loads(body)["status"] == 400
    assert control.ask("GET", "/health")["status"] == "ok"


def test_an_internal_error_is_answered_and_logged(
    control: ControlClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirebroker.control.endpoints.topics.topic_named", lambda *_: 1 / 0)
    response = control.raw("GET", "/topics/orders")
    assert (response.status, response.media) == (500, PROBLEM)
    assert "GET /topics/orders failed because of an error in wirebroker" in caplog.text
    monkeypatch.undo()
    assert control.ask("GET", "/topics/orders")["name"] == "orders"


def test_random_requests_break_nothing(kafka: MockKafka, control: ControlClient, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(5)
    words = [
        "name", "records", "kind", "api", "topic", "partition", "key", "value", "days", "mode", "lose_ack", "delay", "ms",
        "nth", "orders", "", "a/b", "ü", "\u2028", "kill", "configs", "timeout", "0.01", "count", "limit", "offset",
    ]  # fmt: skip

    def anything(depth: int = 0) -> Any:
        kind = dice.randrange(8 if depth < 3 else 6)
        if kind == 6:
            return [anything(depth + 1) for _ in range(dice.randrange(3))]
        if kind == 7:
            return {dice.choice(words): anything(depth + 1) for _ in range(dice.randrange(4))}
        return [dice.choice(words), dice.choice(words), dice.randrange(-2, 4), dice.random() * 1e18, None, True][kind]

    for _ in range(400):
        endpoint = dice.choice([each for each in endpoints_of("broker") if each.path not in ("/trace.jsonl", "/events")])
        path = re.sub(r"{\w+:?\w*}", lambda _: quote(str(dice.choice([*words[:5], "orders", 1])), safe=""), endpoint.path)
        query = "&".join(f"{quote(dice.choice(words))}={quote(str(anything(3)))}" for _ in range(dice.randrange(3)))
        if endpoint.path.endswith(("wait", ".jsonl")):
            query = "timeout=0" if "wait" in endpoint.path else "limit=1"
        body = None if endpoint.method == "GET" else anything() if "text" not in endpoint.hints else str(anything()).encode()
        response = control.raw(endpoint.method, f"{path}?{query}" if query else path, body)
        assert response.status < 500, (endpoint, path, query, body, response.body)
    assert control.ask("GET", "/health")["status"] == "ok"
    assert "error in wirebroker" not in caplog.text


# In Python


def test_a_broker_without_control_says_so(mock_kafka: MockKafka) -> None:
    with pytest.raises(RuntimeError, match="MockKafka\\(control=True\\)"):
        mock_kafka.control_url  # noqa: B018
    with pytest.raises(RuntimeError, match="not running"):
        MockKafka(control=True).control_url  # noqa: B018


def test_the_marker_opens_the_control(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import json, pytest, urllib.request

        @pytest.mark.mock_kafka(control=True)
        def test_health(mock_kafka):
            with urllib.request.urlopen(f"{mock_kafka.control_url}/health") as answer:
                assert json.load(answer)["bootstrap_servers"] == mock_kafka.bootstrap_servers
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_the_control_runs_in_the_callers_loop() -> None:
    async def scenario() -> None:
        async with MockKafka(control=True, topics=["orders"]) as kafka:
            control = ControlClient(kafka.control_url)
            stored = await asyncio.to_thread(control.ask, "POST", "/topics/orders/records", {"records": [{"value": "x"}]})
            assert stored["records"] == [{"partition": 0, "offset": 0}]
            assert [record.value for record in kafka.records("orders")] == [b"x"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (json.dumps({f"k{number}": number for number in range(200_000)}).encode(), "there is no 'k0' here"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'{"name": "' + b"x" * 100_000 + b'\\ud800"}', "half of a surrogate pair"),
        (b'{"name": "' + b"x" * 100_000 + b'\\u00e9"}', "name"),
    ],
    ids=["many keys", "deep", "surrogate", "long"],
)
def test_others_are_answered_while_a_large_body_is_read(kafka: MockKafka, body: bytes, words: str) -> None:
    """With a body of 500,000 keys, Python's json decoder (in C) would block all threads for 1.3 s."""
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(ControlClient(kafka.control_url, 60).raw, "POST", "/topics", body)
        began = time.monotonic()
        waits = [began]
        while not large.done():
            assert ControlClient(kafka.control_url, 60).raw("GET", "/health").status == 200
            waits.append(time.monotonic())
    assert words in large.result().json["detail"]
    longest = max((after - before for before, after in pairwise(waits)), default=0.0)
    assert len(body) < 1_000_000 or longest < (waits[-1] - began) / 2, "other requests had to wait for the large body"


def test_the_control_is_imported_only_if_wanted() -> None:
    script = (
        "import sys\nfrom wirebroker import MockKafka\nimport wirebroker.commands.serve\n"
        "with MockKafka(): pass\nsys.exit(any(name in sys.modules for name in ('starlette', 'uvicorn', 'wirebroker.control')))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_missing_extra_is_reported_with_how_to_install_it() -> None:
    script = "import sys\nsys.modules['uvicorn'] = None\nfrom wirebroker import MockKafka\nMockKafka(control=True)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"; {how_to_install('control')}" in run.stderr.splitlines()[-1]


def test_records_whose_codec_is_not_installed_are_a_problem_and_no_error_of_the_control(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test sends a request to every endpoint that only reads."""
    asked = {"/topics/{topic}/records/wait": "?count=1&timeout=5"}
    bodies: dict[str, Any] = {
        "/audit": {"topics": ["orders"]}, "/topics/{topic}/records/assert": {"records": [{"value": "tea"}]},
        "/export/capture": {}, "/export/scenario": {},
    }  # fmt: skip
    found = {}
    with MockKafka(topics=["orders"], control=True) as kafka:
        batch = build_batch([Record(0, 0, b"k", b"tea")], compression=SNAPPY, base_timestamp=kafka.clock.now())
        assert only(client(kafka).request(produce_request("orders", batch), 9)).error_code == 0
        monkeypatch.setattr("kafkawire.compression.import_module", importing_nothing)
        control = ControlClient(kafka.control_url)
        for endpoint in endpoints_of("broker"):
            if endpoint.path == "/events" or (endpoint.method != "GET" and endpoint.path not in bodies):
                continue
            path = endpoint.path.replace("{topic}", "orders").replace("{kind}", "log")
            path = re.sub(r"\{\w+:number\}", "1", re.sub(r"\{\w+:id\}", "x", path))
            response = control.raw(endpoint.method, path + asked.get(endpoint.path, ""), bodies.get(endpoint.path))
            assert response.status != 500, (path, response.body)
            if "codec" in response.body:
                found[endpoint.path] = (response.status, response.media)
                assert "snappy needs a codec that is not installed; run `" in response.json["detail"]
        with pytest.raises(CodecMissing):
            kafka.records("orders")
    assert {"/topics/{topic}/records", "/topics/{topic}/records/wait", "/topics/{topic}/records/assert"} <= found.keys()
    assert set(found.values()) == {(422, PROBLEM)}


def importing_nothing(name: str) -> Any:
    raise ImportError(name)
