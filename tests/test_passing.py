"""A proxy learns the state of groups and transactions from the requests that it forwards. It then shows the same state as its
broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import msgspec
import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from actors import ClassicMember, Member, TransactionalProducer
from controlkit import ControlClient
from kafkawire.declare import from_plain
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.registry import FETCH, KEYS, api_name, request_class, response_class
from requesting import plain
from test_streams_groups import App
from wire.random_messages import Maker, versions_of
from wirebroker import MockKafka, ProxyKafka
from wirebroker.proxy import groups as groups_module
from wirebroker.proxy.directory import LearnedDirectory
from wirebroker.proxy.groups import PassingGroups
from wirebroker.proxy.passing import COORDINATED, Passing
from wirebroker.proxy.proxy import WATCHED_MS, Proxy
from wirebroker.proxy.sender import UNKNOWN
from wirebroker.proxy.transactions import ABORTS_WITHIN_MS, PassingTransactions
from wirebroker.testing.states import Partitions
from wirekit import client


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"orders": 2}) as made:
        made.warm()
        yield made


@pytest.fixture
def proxy(kafka: MockKafka) -> Iterator[ProxyKafka]:
    with ProxyKafka(upstream=kafka.bootstrap_servers, trace="changes", control=True) as made:
        yield made


def plain_response(api: str, **fields: Any) -> Any:
    """Makes a response from plain data."""
    return from_plain(response_class(KEYS[api]), fields)


def seen(states: dict[str, Any], *unknown: str) -> dict[str, Any]:
    """Converts states to plain data. Leaves out fields whose values a proxy cannot know."""
    plain = {name: msgspec.to_builtins(state) for name, state in states.items()}
    for state in plain.values():
        for name in ("started", "updated", "client_id", "client_host", *unknown):
            state.pop(name, None)
        for part in [*state.get("members", ()), *state.get("offsets", ())]:
            for name in ("heartbeat", "time", *unknown):
                part.pop(name, None)
        state["partitions"] = [each for each in state.get("partitions", ()) if each["topic"] != "__consumer_offsets"]
    return plain


def same(kafka: MockKafka, proxy: ProxyKafka, *unknown: str) -> dict[str, Any]:
    """Waits until the proxy shows the same groups as the broker, and returns these groups."""
    with suppress(TimeoutError):
        proxy.wait_until(lambda: seen(kafka.groups(), *unknown) == seen(proxy.groups(), *unknown))
    assert seen(kafka.groups(), *unknown) == seen(proxy.groups(), *unknown)
    return proxy.groups()


def test_a_transaction_is_open_until_it_ends(kafka: MockKafka, proxy: ProxyKafka) -> None:
    began = time.time() * 1000 - 1
    producer = KafkaProducer(
        bootstrap_servers=proxy.bootstrap_servers, transactional_id="till", transaction_timeout_ms=30_000, client_id="shop"
    )
    producer.init_transactions()
    assert seen(proxy.transactions()) == seen(kafka.transactions())
    for committed in (True, False):
        producer.begin_transaction()
        producer.send("orders", b"tea", partition=1).get(timeout=10)
        producer.send_offsets_to_transaction({TopicPartition("orders", 0): OffsetAndMetadata(5, "", -1)}, "team")
        proxy.wait_until(lambda: seen(proxy.transactions()) == seen(kafka.transactions()))
        open_one = proxy.transactions()["till"]
        assert (open_one.state, open_one.timeout_ms, open_one.client_id) == ("Ongoing", 30_000, "shop")
        assert [(each.topic, each.partitions) for each in open_one.partitions][-1] == ("orders", [1])
        assert began <= open_one.started <= open_one.updated <= time.time() * 1000 + 1
        assert [each.pending for each in proxy.groups()["team"].offsets] == ([True] if committed else [False, True])
        (producer.commit_transaction if committed else producer.abort_transaction)()
        assert seen(proxy.transactions()) == seen(kafka.transactions())
        assert [(each.offset, each.pending) for each in proxy.groups()["team"].offsets] == [(5, False)]
    producer.close()
    states = [row.state for row in proxy.trace.events("transaction")]  # type: ignore[attr-defined]
    assert list(dict.fromkeys(states)) == ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"]


def test_a_transaction_that_was_fenced_or_lived_too_long_is_over(kafka: MockKafka, proxy: ProxyKafka) -> None:
    actor = TransactionalProducer(proxy, "till", timeout_ms=1_000)
    actor.init()
    actor.send("tea")
    assert proxy.transactions()["till"].state == "Ongoing"
    successor = TransactionalProducer(proxy, "till")
    while successor.init():
        pass  # the response is CONCURRENT_TRANSACTIONS until the first transaction is aborted
    assert [row.state for row in proxy.trace.events("transaction")] == ["Empty", "Ongoing", "CompleteAbort", "Empty"]  # type: ignore[attr-defined]
    assert actor.end() in (47, 90)
    assert seen(proxy.transactions()) == seen(kafka.transactions())
    fold = PassingTransactions()
    begun = fold.written(1_000, UNKNOWN, "till", (7, 0), [("orders", 0)])
    assert begun is not None
    begun.timeout_ms = 5_000
    assert [each.state for each in fold.at(1_000 + 5_000 + ABORTS_WITHIN_MS)] == ["Ongoing"]
    assert [each.state for each in fold.at(1_000 + 5_000 + ABORTS_WITHIN_MS + 1)] == ["CompleteAbort"]


def consumer(proxy: ProxyKafka, **settings: Any) -> KafkaConsumer:
    own = {"group_id": "team", "enable_auto_commit": False, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
    made = KafkaConsumer("orders", bootstrap_servers=proxy.bootstrap_servers, **(own | settings))
    made.partitions_for_topic("orders")  # kafka-python can wait for ever if it joins the group before it knows the topic
    return made


def test_a_classic_group_has_members_generations_commits_and_a_lag(kafka: MockKafka, proxy: ProxyKafka) -> None:
    for number in range(10):
        kafka.produce("orders", value=b"%d" % number, partition=0)
    first = consumer(proxy, client_id="one", session_timeout_ms=10_000)
    while not first.assignment():
        first.poll(100)
    one = same(kafka, proxy, "lag")["team"]
    (member,) = one.members
    assert (one.state, one.type, member.client_id, member.client_host) == ("Stable", "classic", "one", "/127.0.0.1")
    assert member.assignment is not None
    assert [(each.topic, each.partitions) for each in member.assignment] == [("orders", [0, 1])]
    first.commit({TopicPartition("orders", 0): OffsetAndMetadata(4, "note", -1)})
    kafka.produce("orders", value=b"new", partition=0)  # after a new record, the Fetch response has the partition
    while proxy.groups()["team"].offsets[0].lag != 7:  # the first poll may return records that were fetched before
        first.poll(100)
    (offset,) = proxy.groups()["team"].offsets
    assert (offset.offset, offset.metadata, offset.lag, offset.pending) == (4, "note", 7, False)
    assert seen(proxy.groups()) == seen(kafka.groups())
    second = consumer(proxy, client_id="two")
    while not (first.assignment() and second.assignment() and len(first.assignment()) == 1):
        first.poll(50)
        second.poll(50)
    two = same(kafka, proxy)["team"]
    assert two.generation > one.generation
    assert sorted(each.client_id for each in two.members) == ["one", "two"]
    second.close()
    first.close()
    assert same(kafka, proxy)["team"].state == "Empty"
    kinds = [(row.state, row.members) for row in proxy.trace.events("group")]  # type: ignore[attr-defined]
    assert {("CompletingRebalance", 1), ("Stable", 1), ("Stable", 2), ("Empty", 0)} <= set(kinds)


def test_a_member_that_is_silent_for_its_session_timeout_is_gone() -> None:
    fold = PassingGroups(LearnedDirectory())
    joined = {"protocol_type": "consumer", "protocols": [], "session_timeout_ms": 6_000, "member_id": "a"}
    response = {"generation_id": 3, "protocol_name": "range", "leader": "a", "member_id": "a", "members": []}
    request = plain("JoinGroup", group_id="team", **joined)
    answer = plain_response("JoinGroup", error_code=0, **response)
    fold.joined(1_000, UNKNOWN, request, answer)
    assert [(each.state, len(each.members)) for each in fold.at(7_000)] == [("CompletingRebalance", 1)]
    assert [(each.state, len(each.members)) for each in fold.at(7_001)] == [("Empty", 0)]


def test_a_member_of_a_group_that_a_tool_removes_is_gone(kafka: MockKafka, proxy: ProxyKafka) -> None:
    member = ClassicMember(proxy, "shop-1")
    member.join()
    member.sync()
    assert [each.instance_id for each in same(kafka, proxy)["team"].members] == ["shop-1"]
    admin = client(proxy)
    removed = {"member_id": "", "group_instance_id": "shop-1", "reason": None}
    assert admin.request(plain("LeaveGroup", group_id="team", members=[removed]), 5).error_code == 0
    assert same(kafka, proxy)["team"].members == []


def test_consumer_groups_show_assignments_by_name(kafka: MockKafka, proxy: ProxyKafka) -> None:
    client(proxy).request(MetadataRequest(topics=None), 12)
    one, two = Member(proxy, "one"), Member(proxy, "two")
    one.broker = two.broker = kafka  # the broker knows the topics' ids
    one.join("orders")
    two.join("orders")
    for _ in range(4):
        kafka.clock.advance(seconds=2)  # the broker computes an assignment at most once a second
        one.beat()
        two.beat()
    found = same(kafka, proxy, "protocol")["team"]
    assert (found.type, found.state, found.protocol_type) == ("consumer", "Stable", "consumer")
    assert sorted(each.assignment[0].partitions for each in found.members if each.assignment) == [[0], [1]]
    one.commit(0)
    two.leave()
    assert [each.member_id for each in proxy.groups()["team"].members] == ["one"]
    one.leave()
    assert same(kafka, proxy, "protocol", "generation", "lag")["team"].state == "Empty"


def test_share_and_streams_groups_have_members(kafka: MockKafka, proxy: ProxyKafka) -> None:
    kafka.create_topic("in", 2)
    wire = client(proxy)
    wire.request(MetadataRequest(topics=None), 12)
    beat = plain("ShareGroupHeartbeat", group_id="share", member_id="m", member_epoch=0, subscribed_topic_names=["orders"])
    epoch = wire.request(beat, 1).member_epoch
    kafka.clock.advance(seconds=2)
    wire.request(plain("ShareGroupHeartbeat", group_id="share", member_id="m", member_epoch=epoch), 1)
    with closing(App(proxy)) as app:  # type: ignore[arg-type]
        app.beat("a")
        assert proxy.groups()["app"].state == kafka.groups()["app"].state == "NotReady"
        app.beat("a")
        assert proxy.groups()["app"].state == kafka.groups()["app"].state == "Assigning"
        kafka.clock.advance(seconds=5)
        while kafka.groups()["app"].state != "Stable":
            app.beat("a")
        found = same(kafka, proxy, "protocol", "generation")
        assert {name: each.type for name, each in found.items()} == {"share": "share", "app": "streams"}
        assert found["app"].members[0].assignment == [Partitions("in", [0, 1])]
        assert found["share"].members[0].assignment == [Partitions("orders", [0, 1])]


def test_the_control_of_a_proxy_has_the_endpoints_of_a_broker(kafka: MockKafka, proxy: ProxyKafka) -> None:
    actor = TransactionalProducer(proxy, "till")
    actor.init()
    actor.send("tea")
    actor.send_offsets("team", 3)
    control = ControlClient(proxy.control_url)
    (listed,) = control.ask("GET", "/transactions")["transactions"]
    assert listed == control.ask("GET", "/transactions/till")
    assert listed["state"] == "Ongoing"
    (group,) = control.ask("GET", "/groups")["groups"]
    assert group == control.ask("GET", "/groups/team")
    assert group["offsets"][0]["offset"] == 3
    assert "did you mean 'team'" in control.refused("GET", "/groups/tea")["detail"]
    metrics = control.send("GET", "/metrics").body
    assert "wirebroker_open_transactions 1\n" in metrics
    assert 'wirebroker_group_members{group="team"} 0\n' in metrics


def test_nothing_is_kept_of_refused_requests_and_little_of_invented_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "MOST_OFFSETS", 5_000)
    fold, transactions = PassingGroups(LearnedDirectory()), PassingTransactions()
    for number in range(3_000):
        partitions = [
            {"partition_index": index, "committed_offset": 1, "committed_metadata": "x" * 9_000} for index in range(10)
        ]
        request = plain("OffsetCommit", group_id=f"{number}" * 2_000, topics=[{"name": "t", "partitions": partitions}])
        for error in (16, 0):
            told = [{"partition_index": index, "error_code": error} for index in range(10)]
            response = plain_response("OffsetCommit", topics=[{"name": "t", "partitions": told}])
            changed = fold.committed(number, UNKNOWN, request, response)
            assert (changed is None) == bool(error)
        transactions.written(number, UNKNOWN, f"{number}", (number, 0), [("t", index) for index in range(2_000)])
    held = list(fold.at(0))
    assert sum(len(each.offsets) for each in held) <= 5_000 + groups_module.COUNTED_EACH
    assert max(len(each.group_id) for each in held) <= 1_001
    assert max(len(offset.metadata) for each in held for offset in each.offsets.values()) <= 1_001
    assert held[-1].group_id.startswith("2999"), "the group that was idle longest is dropped"
    assert max(len(each.partitions) for each in transactions) == 1_000


def test_nothing_is_decoded_for_nobody() -> None:
    proxy = Proxy(0, lambda host, port, node_id: (host, port))
    assert not proxy.looks_at(FETCH, 12)
    assert proxy.looks_at(KEYS["Heartbeat"], 4)
    proxy.watch()
    assert proxy.looks_at(FETCH, 12)
    proxy.tick(WATCHED_MS)
    assert not proxy.looks_at(FETCH, 12)
    proxy.trace_at("off")
    assert not proxy.looks_at(KEYS["Heartbeat"], 4)


@pytest.mark.parametrize("api", sorted([*COORDINATED, FETCH]), ids=api_name)
def test_whatever_a_broker_confirms_is_folded_without_an_error(api: int) -> None:
    maker, passing, changes = Maker(api), Passing(LearnedDirectory(), lambda changed: changes.append(changed)), []  # type: ignore[var-annotated]
    for version in (*versions_of(request_class(api)),) * 30:
        request, response = maker.message(request_class(api), version), maker.message(response_class(api), version)
        for field in ("error_code", "member_epoch"):
            if hasattr(response, field) and maker.random.random() < 0.8:
                setattr(response, field, maker.random.choice((0, 25, 27)) if field == "error_code" else 1)
        passing.observe(1, api, UNKNOWN, request, response)
    for group in passing.groups.at(2):
        for member in group.members.values():
            assert member.heartbeat == 1
    list(passing.transactions.at(2**40))
