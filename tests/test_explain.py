"""`wirebroker explain` finds each kind of problem in the traces of a broker and of a proxy. In healthy traces it finds
nothing.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import trustme

from actors import ClassicMember, Reader, TransactionalProducer
from dialogue import ANY_RESPONSE, Dialogue, accepted, tagged
from kafkawire.frames import SIZE
from kafkawire.messages.metadata import MetadataRequest
from requesting import fetch, find_coordinator, join_group, offset_fetch, plain, produce_request
from responses import only, sole
from wirebroker import MockKafka, faults
from wirebroker.client.login import tokens
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.commands.cli import main
from wirebroker.net import upstream
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.testing.views import TraceView
from wirebroker.trace.filters import parsed
from wirebroker.trace.recorder import RING
from wirebroker.trace.rows import AuthenticationRow, ConnectionRow, FetchRow, ReplyRow, Row, RunRow, row_from_json
from wirebroker_tools.explain.explanation import Explanation
from wirebroker_tools.explain.findings import KINDS, Finding, Kind
from wirekit import ask_in_vain, batch, client

NAME = "wirebroker-conformance"
"""The client id of the raw client."""
USERS = {"alice": "secret", "bob": "hidden"}


@dataclass
class Stage:
    """A broker, and a proxy in front of it."""

    kafka: MockKafka
    proxy: ProxyKafka

    @property
    def traces(self) -> dict[str, TraceView]:
        return {"broker": self.kafka.trace, "proxy": self.proxy.trace}

    def later(self, seconds: float) -> None:
        """Move both clocks."""
        assert self.proxy._host is not None
        self.proxy._host.clock.advance(int(seconds * 1000))
        self.kafka.clock.advance(seconds=seconds)

    def in_both(self, kind: str, *words: str, now: int | None = None) -> None:
        """Checks that in both traces the first finding is of the kind `kind`, and that its text has `words`."""
        for name, trace in self.traces.items():
            first = found(trace, now)[0]
            assert first.kind == kind, (name, first.sentence)
            for word in words:
                assert word in first.sentence, (name, first.sentence)

    def nothing(self) -> None:
        """Checks that neither trace has a finding."""
        for name, trace in self.traces.items():
            assert [each.sentence for each in trace.explain()] == [], name


def found(trace: TraceView, now: int | None = None) -> list[Finding]:
    findings = trace.explain(now)
    assert findings, trace.events()[-5:]
    return findings


@pytest.fixture
def staged() -> Iterator[Callable[..., Stage]]:
    with ExitStack() as stack:

        def make(proxy: dict[str, Any] | None = None, **options: Any) -> Stage:
            kafka = stack.enter_context(MockKafka(**{"topics": {"orders": 1}, "trace": "all"} | options))
            upstream = kafka.bootstrap_servers.split(",")[0]
            return Stage(kafka, stack.enter_context(ProxyKafka(upstream=upstream, trace="all", **proxy or {})))

        yield make


def log_in(proxy: ProxyKafka, user: str, password: str, mechanism: str = "PLAIN") -> Connection:
    """Sends a login, which may fail. Returns the connection."""
    connection = Connection(address_of(proxy.bootstrap_servers), 5)
    connection.request(plain("SaslHandshake", mechanism=mechanism), 1)
    dialogue = tokens(mechanism, user, password)
    token = next(dialogue)
    with suppress(StopIteration):
        while True:
            response = connection.request(plain("SaslAuthenticate", auth_bytes=token), 2)
            token = dialogue.send(response.auth_bytes)
    return connection


def selling(broker: Any, *names: str, **options: Any) -> TransactionalProducer:
    """Starts a producer with an open transaction, which has one record."""
    till = TransactionalProducer(broker, *names, **options)
    till.init()
    till.send("sale")
    return till


# Each kind


def test_a_quota(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.quotas.set(client_id=NAME, producer_byte_rate=20)
    wire = client(stage.proxy)
    for _ in range(2):
        wire.request(produce_request("orders", batch(tag="x" * 500)), 9)
        stage.kafka.clock.advance(minutes=10)
    stage.in_both("throttled", NAME, "producer_byte_rate", "Produce")
    first = found(stage.proxy.trace)[0]
    assert "twice" in first.sentence
    assert "on orders" in first.sentence
    assert "producer_byte_rate (with request_percentage, no wait is longer than a window" in first.sentence
    assert all(row.throttle_time_ms > 0 for row in stage.proxy.trace.where("api=Produce throttle_time_ms>0 event=reply"))


@pytest.mark.parametrize("faulty", ["broker", "proxy"])
def test_a_throttle_that_a_fault_set(staged: Callable[..., Stage], faulty: str) -> None:
    stage = staged()
    (stage.kafka if faulty == "broker" else stage.proxy).faults.add(faults.throttle(ms=700, api="Produce"))
    wire = client(stage.proxy)
    for _ in range(2):
        wire.request(produce_request("orders", batch()), 9)
    (finding,) = found(stage.traces[faulty])
    assert finding.kind == "throttled"
    assert "was throttled twice" in finding.sentence
    assert "by a fault, throttle" in finding.sentence
    assert "wait 1.4 s in all, at most 700 ms, for Produce on orders" in finding.sentence
    assert "quota" not in finding.cause


def test_what_a_fault_made_says_so(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.error(19, api="Produce", times=18))
    wire = client(stage.kafka)
    for _ in range(18):
        wire.request(produce_request("orders", batch()), 9)
    stage.kafka.faults.add(faults.error(87, api="Produce", times=1))
    wire.request(produce_request("orders", batch()), 9)
    (finding,) = found(stage.kafka.trace)
    assert "INVALID_RECORD" in finding.sentence
    assert "A fault caused it: error" in finding.sentence
    assert finding.cause.startswith("the test asked for it: error")


LOGINS = {
    "Cannot change principals during re-authentication from User.a: User.b": "but as another user",
    "it must authenticate again by PLAIN": "but with another mechanism",
    "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN": "no longer valid",
    "the session of User:a ended, and the client did not authenticate again": "does not renew it",
    "it asked for the SASL mechanism 'GSSAPI'; enabled: PLAIN": "does not have the mechanism PLAIN",
    "it sent Metadata instead of SaslAuthenticate request": "before its login is complete",
    "sasl.jaas.config of this listener cannot be used: x": "the listener's own login module",
    "Authentication failed: Client requested an authorization id that is different from username": "to act as another user",
    "the client's first SCRAM message is malformed": "does not follow the mechanism",
    "there is no delegation token 'x'": "the delegation token has expired",
    "user 'alice': the password is wrong": "the password is wrong",
    "Authentication failed: Invalid username or password": "the password is wrong",
}


@pytest.mark.parametrize("reason", LOGINS)
def test_the_usual_cause_of_a_failed_login(reason: str) -> None:
    row = AuthenticationRow(0, 1, 1, "127.0.0.1", "SASL", "PLAIN", "failed", "User:a", True, -1, reason, "alice")
    (finding,) = Explanation().take_all([row]).findings()
    assert LOGINS[reason] in finding.cause


def test_a_token_of_another_user_changes_the_principal() -> None:
    reason = "Cannot change principals during re-authentication from User.a: User.b"
    row = AuthenticationRow(0, 1, 1, "127.0.0.1", "SASL", "OAUTHBEARER", "failed", "User:a", True, -1, reason)
    (finding,) = Explanation().take_all([row]).findings()
    assert "its new token has another subject" in finding.cause
    assert "sasl.oauthbearer.sub.claim.name" in finding.look_at


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_login_with_a_wrong_password(staged: Callable[..., Stage], mechanism: str) -> None:
    stage = staged(security="sasl_plaintext", users=USERS)
    log_in(stage.proxy, "alice", "wrong", mechanism)
    stage.in_both("login_failed", "'alice'", mechanism, "once")
    assert "wrong" not in "".join(row.as_json() for row in stage.proxy.trace.events())
    assert "Authentication failed" in found(stage.proxy.trace)[0].sentence


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_a_login_without_requests_around_its_tokens(staged: Callable[..., Stage], password: str) -> None:
    stage = staged(security="sasl_plaintext", users=USERS)
    line = Connection(address_of(stage.proxy.bootstrap_servers), 5)
    line.request(plain("SaslHandshake", mechanism="PLAIN"), 0)
    token = f"\0alice\0{password}".encode()
    line.send_bytes(SIZE.pack(len(token)) + token)
    if password == "wrong":
        with pytest.raises(ConnectionClosed):
            line.frame()
        stage.proxy.wait_until(lambda: bool(stage.proxy.trace.where("change=closed")))
        stage.in_both("login_failed", "'alice'")
    else:
        line.frame()
        line.request(MetadataRequest(topics=[]), 9)
        assert stage.proxy.trace.where("principal=User:alice api=Metadata event=reply")
        stage.nothing()


def test_a_mechanism_that_the_listener_lacks(staged: Callable[..., Stage]) -> None:
    stage = staged(security="sasl_plaintext", users=USERS)
    line = Connection(address_of(stage.proxy.bootstrap_servers), 5)
    assert line.request(plain("SaslHandshake", mechanism="GSSAPI"), 1).error_code == 33
    stage.in_both("login_failed", "GSSAPI")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_missing_acl(staged: Callable[..., Stage], mechanism: str) -> None:
    stage = staged(security="sasl_plaintext", users=USERS, acls=["allow User:alice DESCRIBE TOPIC orders"])
    line = log_in(stage.proxy, "alice", "secret", mechanism)
    line.request(produce_request("orders", batch()), 9)
    stage.in_both("denied", "User:alice", "WRITE on TOPIC orders", f"client '{NAME}' at 127.0.0.1", "for Produce once")
    assert "--bootstrap-server" in (advice := found(stage.proxy.trace)[0].look_at)
    assert "--allow-principal User:alice --operation WRITE --topic orders" in advice
    (row,) = stage.proxy.trace.where("principal=User:alice event=reply api=Produce")
    assert isinstance(row, ReplyRow)
    assert row.errors == ("TOPIC_AUTHORIZATION_FAILED",)


def test_a_consumer_that_may_not_see_its_group_needs_read(staged: Callable[..., Stage]) -> None:
    stage = staged(security="sasl_plaintext", users=USERS, acls=["allow User:alice READ TOPIC orders"])
    line = log_in(stage.proxy, "alice", "secret")
    for _ in range(4):
        assert only(line.request(find_coordinator("team"), 4)).error_code == 30
        stage.later(2)
    for trace in (stage.kafka.trace, stage.proxy.trace):
        (finding,) = found(trace)
        assert "DESCRIBE on GROUP team for FindCoordinator 4 times" in finding.sentence
        assert "--operation READ --group team" in finding.look_at
    described = staged(security="sasl_plaintext", users=USERS, acls=["allow User:alice DESCRIBE GROUP team"])
    line = log_in(described.proxy, "alice", "secret")
    line.request(find_coordinator("team"), 4)
    assert line.request(join_group("team"), 4).error_code == 30, "DESCRIBE alone does not help"


def test_a_client_without_tls(staged: Callable[..., Stage]) -> None:
    import ssl

    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(served)
    stage = staged({"client_tls": served}, security="ssl")
    for host, port in (address_of(stage.proxy.bootstrap_servers), address_of(stage.kafka.bootstrap_servers)):
        with closing(Connection((host, port), 5)) as line, suppress(ConnectionClosed, OSError):
            line.request(MetadataRequest(topics=[]), 9)
    stage.in_both("tls_failed", "at 127.0.0.1", "plaintext")


def test_a_version_that_kafka_4_dropped(staged: Callable[..., Stage]) -> None:
    stage = staged()
    ask_in_vain(stage.proxy, "Produce", 2)
    stage.in_both("unsupported_version", "Produce version 2", "versions 3 to 13 are read")


def test_a_transaction_that_took_too_long(staged: Callable[..., Stage]) -> None:
    stage = staged()
    till = selling(stage.proxy, timeout_ms=1500)
    stage.later(20)
    stage.kafka.wait_until(lambda: stage.kafka.transactions()["till"].state == "CompleteAbort")
    assert till.send("another sale").error_code == 47
    stage.in_both("transaction_timed_out", "'till'", "timeout of 1.5 s", "INVALID_PRODUCER_EPOCH")
    (row,) = stage.proxy.trace.where("event=shadow verdict=rejected")
    assert "open for longer than the timeout of 1500 ms" in row.explain, row.explain  # type: ignore[attr-defined]


def test_a_fenced_producer_has_not_timed_out(staged: Callable[..., Stage]) -> None:
    stage = staged()
    one, two = (TransactionalProducer(stage.proxy, timeout_ms=60_000) for _ in range(2))
    one.init()
    one.send("sale")
    two.init()
    two.init()
    assert one.send("another sale").error_code == 47
    stage.nothing()


def test_a_producer_that_dies_in_its_transaction(staged: Callable[..., Stage]) -> None:
    stage = staged()
    till = selling(stage.proxy)
    reader = Reader(stage.proxy)
    reader.fetch()
    stage.nothing()
    till.wire.close()
    stage.proxy.wait_until(lambda: bool(stage.proxy.trace.where("change=closed")))
    stage.kafka.wait_until(lambda: bool(stage.kafka.trace.where("change=closed")))
    stage.in_both("open_transaction", "'till'", "orders-0", "connection closed")


def test_a_producer_that_forgets_its_transaction(staged: Callable[..., Stage]) -> None:
    stage = staged()
    till = selling(stage.proxy)
    reader = Reader(stage.proxy)
    reader.fetch()
    stage.later(6)
    reader.fetch()
    stage.in_both("open_transaction", "'till'", "has sent nothing since", "holds back 2 fetches")
    till.wire.close()


def test_a_transaction_of_an_unknown_producer(staged: Callable[..., Stage]) -> None:
    stage = staged()
    selling(stage.kafka)
    reader = Reader(stage.proxy)
    for _ in range(5):
        reader.fetch()
        stage.later(5)
    first = found(stage.proxy.trace)[0]
    assert first.kind == "open_transaction"
    assert "not in this trace" in first.sentence


def test_a_member_that_polls_too_late(staged: Callable[..., Stage]) -> None:
    stage = staged()
    client(stage.proxy).request(find_coordinator("team"), 4)
    slow = ClassicMember(stage.proxy)
    for _ in range(3):
        slow.member = ""
        slow.join(rebalance_ms=6000)
        slow.sync({slow.member: b""})
        assert slow.heartbeat() == 0
        slow.leave()
    stage.in_both("rejoins", "group team", "left the group by itself", "twice")
    (finding,) = found(stage.proxy.trace)
    assert "max.poll.interval.ms (6 s, as its JoinGroup says)" in finding.cause
    assert finding.began == finding.evidence.first_time - 6000
    rows = [row for row in stage.proxy.trace.where(finding.where) if isinstance(row, ReplyRow)]
    assert {row.api for row in rows} == {"JoinGroup", "LeaveGroup"}


def test_a_stall_is_one_rejoin_although_late_commits_fail(staged: Callable[..., Stage]) -> None:
    stage = staged()
    client(stage.proxy).request(find_coordinator("team"), 4)
    slow = ClassicMember(stage.proxy)
    for stall in range(2):
        slow.member = ""
        slow.join(rebalance_ms=6000)
        slow.sync({slow.member: b""})
        slow.leave()
        stage.later(1)
        assert slow.commit(1) == 25
        if not stall:
            stage.nothing()
        stage.later(4)
    slow.member = ""
    slow.join(rebalance_ms=6000)
    stage.in_both("rejoins", "group team", "left the group by itself and joined again twice")
    for trace in stage.traces.values():
        (finding,) = found(trace)
        assert [each.number for each in finding.evidence.rows] == sorted(each.number for each in finding.evidence.rows)
        (*_, last) = trace.where("api=JoinGroup event=reply")
        assert finding.window[0] < finding.evidence.rows[0].row.time < last.time < finding.window[1]


def test_a_member_whose_heartbeats_stop(staged: Callable[..., Stage]) -> None:
    stage = staged()
    client(stage.proxy).request(find_coordinator("team"), 4)
    slow = ClassicMember(stage.proxy)
    for _ in range(2):
        slow.member = ""
        slow.join(session_ms=10_000)
        slow.sync({slow.member: b""})
        stage.later(30)
        assert slow.heartbeat() == 25
    stage.in_both("rejoins", "group team", "was removed", "UNKNOWN_MEMBER_ID", "twice")


def test_a_member_of_a_consumer_group_that_is_removed_twice(staged: Callable[..., Stage]) -> None:
    stage = staged()
    client(stage.proxy).request(find_coordinator("team"), 4)
    wire = client(stage.proxy)
    who = {"group_id": "team", "member_id": "m"}
    joins = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    for _ in range(2):
        epoch = wire.request(plain("ConsumerGroupHeartbeat", **who, **joins), 1).member_epoch
        stage.later(100)
        late = plain("ConsumerGroupHeartbeat", **who, member_epoch=epoch, topic_partitions=None)
        assert wire.request(late, 1).error_code == 25
    stage.in_both("rejoins", "group team", "was removed", "UNKNOWN_MEMBER_ID", "twice")


def test_a_coordinator_that_is_not_there(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.error(15, api="FindCoordinator"))
    wire = client(stage.proxy)
    for _ in range(3):
        wire.request(find_coordinator("team"), 4)
        stage.later(2)
    stage.in_both("coordinator_unreachable", "group team", "COORDINATOR_NOT_AVAILABLE", "3 times")
    stage.kafka.faults.clear()
    wire.request(find_coordinator("team"), 4)
    wire.request(offset_fetch("team"), 7)
    stage.in_both("coordinator_unreachable", "It responded at")
    (row,) = stage.proxy.trace.where("api=FindCoordinator coordinator~node")
    assert "node 1 at 127.0.0.1:" in row.parts()[3]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (upstream.NO_TLS, "the broker's port is plaintext, and the proxy speaks TLS"),
        (upstream.REFUSED_CERTIFICATE, "the proxy has no certificate, or a certificate that the broker does not trust"),
        (upstream.WANTS_CERTIFICATE, "the proxy has no certificate"),
    ],
)
def test_the_cause_fits_what_the_broker_refused(reason: str, cause: str) -> None:
    """A real broker closes the connection for each of these reasons. Only the proxy's message shows the reason."""
    row = ConnectionRow(
        0, 1, 1, "closed", "127.0.0.1", "PLAINTEXT", "", f"the connection to the broker broke: {reason}", "", ()
    )
    (found,) = Explanation().take_all([row]).findings()
    assert (found.kind, cause in found.cause) == ("tls_failed", True)


def test_members_that_miss_one_coordinator_are_one_finding(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.error(15, api="FindCoordinator"))
    with ExitStack() as stack:
        address = address_of(stage.proxy.bootstrap_servers)
        members = [stack.enter_context(closing(Connection(address, client_id=f"member-{at}"))) for at in range(2)]
        for _ in range(4):
            for member in members:
                member.request(find_coordinator("team"), 4)
            stage.later(2)
    stage.in_both("coordinator_unreachable", "group team", "'member-0'", "'member-1'")
    for each in (stage.kafka, stage.proxy):
        assert len(each.trace.explain()) == 1


def test_a_group_that_is_denied_does_not_miss_its_coordinator(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.error("GROUP_AUTHORIZATION_FAILED", api="FindCoordinator"))
    wire = client(stage.proxy)
    for _ in range(4):
        wire.request(find_coordinator("team"), 4)
        stage.later(2)
    for each in (stage.kafka, stage.proxy):
        assert "coordinator_unreachable" not in [found.kind for found in each.trace.explain()]


def test_a_coordinator_on_a_dead_node_is_one_finding_for_all_clients(staged: Callable[..., Stage]) -> None:
    stage = staged(brokers=2)
    coordinator = only(client(stage.proxy).request(find_coordinator("team"), 4))
    dead = coordinator.node_id
    addresses = address_of(stage.proxy.bootstrap_servers), (coordinator.host, coordinator.port)
    ((one, member), (two, other)) = [[Connection(at, 5, client_id=f"picker-{each}") for at in addresses] for each in (1, 2)]
    for each in (member, other):
        each.request(offset_fetch("team"), 7)
    for each in (one, two, one, two, one, two):
        each.request(find_coordinator("team"), 4)
        stage.later(2)
    stage.kafka.kill_broker(dead)
    stage.proxy.wait_until(lambda: len(stage.proxy.trace.where(f"change=closed node={dead}")) >= 2)
    with suppress(ConnectionClosed, OSError):
        Connection((coordinator.host, coordinator.port), 5).request(offset_fetch("team"), 7)
    first, *others = found(stage.proxy.trace)
    assert first.kind == "coordinator_unreachable"
    assert [each.kind for each in others] == ["connection_lost"]
    for word in ("'picker-1'", "'picker-2'", "group team", f"to node {dead} from"):
        assert word in first.sentence
    assert f"node {dead}, which was the coordinator, is dead" in first.cause


def test_a_storm_of_retries(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.error(19, api="Produce"))
    wire = client(stage.proxy)
    for _ in range(20):
        wire.request(produce_request("orders", batch()), 9)
    stage.in_both("retry_storm", "NOT_ENOUGH_REPLICAS from Produce", "orders-0", "20 times")


@pytest.mark.parametrize(
    ("in_session", "error", "named"),
    [(True, "INCONSISTENT_TOPIC_ID", "for orders (deleted)-0 20 times"), (False, "UNKNOWN_TOPIC_ID", "for id ")],
)
def test_only_the_deleted_topic_is_named(staged: Callable[..., Stage], in_session: bool, error: str, named: str) -> None:
    stage = staged(topics={"orders": 1, "other": 1})
    wire = client(stage.kafka)
    topic_ids = [each.topic_id for each in wire.request(plain("Metadata", topics=None), 12).topics]
    parts = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 9}]
    topics = [{"topic_id": topic_id, "partitions": parts} for topic_id in topic_ids]
    request = plain("Fetch", max_wait_ms=0, min_bytes=0, max_bytes=9, topics=topics, session_epoch=0 if in_session else -1)
    session_id = wire.request(request, 13).session_id
    stage.kafka.delete_topic("orders")
    stage.kafka.create_topic("orders")
    for number in range(20):
        if in_session:
            request = plain(
                "Fetch", max_wait_ms=0, min_bytes=0, max_bytes=9, topics=[], session_id=session_id, session_epoch=number + 1
            )
        wire.request(request, 13)
    first = found(stage.kafka.trace)[0]
    assert first.kind == "retry_storm"
    assert f"got {error} from Fetch {named}" in first.sentence
    assert "other" not in first.sentence
    assert ("Topic orders was deleted at" in first.sentence) is in_session
    assert ("the name now belongs to another topic" if in_session else "the topic was deleted") in first.cause


def test_a_record_that_is_too_large(staged: Callable[..., Stage]) -> None:
    stage = staged(topics={"orders": {"partitions": 2, "configs": {"max.message.bytes": 1000}}})
    wire = client(stage.proxy)
    small, large = batch(tag="x" * 700), batch(tag="x" * 5000)
    for index in range(24):
        stored = wire.request(produce_request("orders", small if index < 4 else large, index % 2), 9)
        assert sole(sole(stored.responses).partition_responses).error_code == (0 if index < 4 else 10)
    sizes = f"refused has {len(large):,} B; the largest that it took from this client on the same topic has {len(small):,} B"
    stage.in_both("retry_storm", "orders-0 (10), orders-1 (10) 20 times", sizes)
    first = found(stage.proxy.trace)[0]
    assert "--entity-name orders: max.message.bytes" in first.look_at
    assert "max.request.size" not in first.look_at


def test_a_leader_that_moves_to_and_fro(staged: Callable[..., Stage]) -> None:
    stage = staged(brokers=2, topics={"orders": {"partitions": 1, "replication_factor": 2}})
    wire = client(stage.proxy)
    first = stage.kafka.partition("orders", 0).leader
    wire.request(MetadataRequest(topics=None), 12)
    for to in (3 - first, first, 3 - first):
        stage.nothing()
        stage.kafka.move_leader("orders", 0, to=to)
        wire.request(MetadataRequest(topics=None), 12)
    stage.in_both("leader_moves", "orders-0", "3 times")


def test_a_slow_broker(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.delay(ms=5000, api="Produce"))
    wire = client(stage.proxy)
    wire.send(produce_request("orders", batch()), 9)
    stage.kafka.wait_until(lambda: bool(stage.kafka.trace.where("event=request")))
    stage.later(6)
    wire.response()
    stage.in_both("slow_broker", "took 2 s or more for 1 response at", "Produce")


def test_a_broker_that_does_not_answer(staged: Callable[..., Stage]) -> None:
    stage = staged()
    stage.kafka.faults.add(faults.delay(ms=5000, api="Metadata"))
    wire = client(stage.proxy)
    wire.send(MetadataRequest(topics=None), 12)
    stage.kafka.wait_until(lambda: bool(stage.kafka.trace.where("event=request")))
    now = stage.kafka.clock.now()
    stage.nothing()
    stage.in_both("slow_broker", "has not answered 1 request since", now=now + 4500)


def test_a_consumer_that_never_commits(staged: Callable[..., Stage]) -> None:
    stage = staged()
    joined(stage)
    Dialogue(stage.proxy) >> tagged("x") << accepted(at=0)
    reader = Reader(stage.proxy)
    reader.fetch()
    stage.later(60)
    reader.fetch()
    stage.nothing()
    stage.later(10)
    reader.fetch()
    stage.in_both("not_committing", "group team")
    for trace in stage.traces.values():
        told = re.search(r"([\d.]+) s\b", found(trace)[0].sentence)
        assert told is not None
        assert float(told[1]) >= 70, "the clocks were moved by 70 s, and the machine's own time passes as well"


def test_a_record_that_nobody_gets_past(staged: Callable[..., Stage]) -> None:
    stage = staged()
    joined(stage)
    line = Dialogue(stage.proxy)
    for offset in range(3):
        line >> tagged("x") << accepted(at=offset)
    reader = Reader(stage.proxy)
    for _ in range(4):
        reader.fetch(offset=1)
        reader.fetch(offset=2)
    stage.in_both("poison_record", "group team", "orders-0 from offset 1", "4 times", "reads on to 2", "2 records wait")
    assert "cannot tell which" in found(stage.proxy.trace)[0].cause


def test_a_record_that_makes_a_consumer_restart(staged: Callable[..., Stage]) -> None:
    stage = staged()
    line = Dialogue(stage.proxy)
    for offset in range(3):
        line >> tagged("x") << accepted(at=offset)
    member = joined(stage)
    reader = Reader(stage.proxy)
    reader.fetch(offset=0)
    member.commit(1)
    member.leave()
    stage.later(1)
    for _ in range(4):
        member = joined(stage)
        reader.fetch(offset=1)
        member.leave()
        stage.later(1)
    stage.in_both(
        "poison_record",
        "orders-0 from offset 1",
        "It had left its group before",
        "committed offset has been 1 since",
        "end of the log (3)",
    )
    first = found(stage.proxy.trace)[0]
    assert "fails on the record at 1: each time it left its group" in first.cause
    assert first.began < first.evidence.first_time
    commits = [row.parts()[3] for row in stage.proxy.trace.where("api=OffsetCommit event=reply")]
    assert ["offsets orders-0:1" in each for each in commits] == [True]


def test_a_fetch_session_is_followed(staged: Callable[..., Stage]) -> None:
    stage = staged()
    joined(stage)
    Dialogue(stage.proxy) >> tagged("x") << accepted(at=0)
    wire = client(stage.proxy)
    session = wire.request(fetch(0, session_epoch=0), 12).session_id
    for epoch in range(1, 5):
        wire.request(plain("Fetch", max_wait_ms=0, session_id=session, session_epoch=epoch), 12)
    fetched = stage.proxy.trace.where("event=fetch")
    assert [row.offset for row in fetched if isinstance(row, FetchRow)] == [0] * len(fetched)
    assert len(fetched) > 1


def joined(stage: Stage) -> ClassicMember:
    """Makes a group with a single member, and returns the member."""
    client(stage.proxy).request(find_coordinator("team"), 4)
    member = ClassicMember(stage.proxy)
    member.join()
    member.sync({member.member: b""})
    return member


def test_a_broker_that_dies(staged: Callable[..., Stage]) -> None:
    stage = staged()
    wire = client(stage.proxy)
    wire.request(MetadataRequest(topics=None), 12)
    stage.kafka.kill_broker(1)
    stage.proxy.wait_until(lambda: bool(stage.proxy.trace.where("change=closed")))
    for _ in range(2):
        with suppress(ConnectionClosed, OSError):
            client(stage.proxy).request(MetadataRequest(topics=None), 12)
    stage.in_both("connection_lost", "1")


def told_by(*rows: Row) -> str:
    """Returns the sentence of the first finding in `rows`."""
    return Explanation().take_all(rows).findings()[0].sentence


def test_handshakes_that_fail_where_others_log_in() -> None:
    def login(time: int, outcome: str, mechanism: str, reason: str = "") -> Row:
        row = {
            "event": "authentication",
            "time": time,
            "node": 1,
            "connection": 0,
            "client_host": "10.0.0.9",
            "listener": "SSL",
        }
        who = {"mechanism": mechanism, "outcome": outcome, "principal": "User:a", "again": False, "expires_at": -1}
        return row_from_json(row | who | {"reason": reason})

    well = [login(time, "succeeded", "PLAIN") for time in (1000, 2000)]
    why = "the client does not trust the authority of the broker's certificate"
    failed = [login(time, "failed", "SSL", why) for time in range(3000, 4000, 100)]
    assert "on average every 100 ms" in told_by(*failed)
    assert "look at this client first" not in told_by(*failed)
    assert "2 logins succeeded at the same listener, all before the first failure" in told_by(*well, *failed)
    later = login(9000, "succeeded", "PLAIN")
    assert "3 logins succeeded at the same listener, so other clients accept" in told_by(*well, *failed, later)


def test_what_a_throttled_client_achieves() -> None:
    def row(event: str, time: int, **fields: Any) -> Row:
        who = {"node": 1, "connection": 1, "client_id": "importer", "software": "", "version": 9, "correlation_id": 1}
        return row_from_json({"event": event, "time": time} | who | fields)

    rows: list[Row] = []
    for time in range(0, 11_000, 1000):
        throttle = {
            "principal": "User:a",
            "api": "Produce",
            "quota": "",
            "whose": "",
            "limit": -1,
            "ms": 900,
            "client_host": "",
        }
        rows.append(
            row_from_json({"event": "throttle", "time": time, "node": 1, "connection": 1, "client_id": "importer"} | throttle)
        )
        batch = {"acks": -1, "topic": "items", "partition": 0, "producer_id": -1, "producer_epoch": -1, "first_sequence": -1}
        batch |= {"last_sequence": -1, "records": 1, "bytes": 2000, "compression": "none", "transactional": False}
        batch |= {"verdict": "accepted", "rule": "", "code": 0, "error": "NONE", "base_offset": 0, "note": "", "explain": ""}
        rows.append(row("produce", time, principal="User:a", **batch))
        reply = {"api": "Produce", "bytes": 50, "latency": time, "errors": [], "about": ["items-0"], "principal": "User:a"}
        rows.append(row("reply", time, **reply))
    told = told_by(*rows)
    assert "producer_byte_rate or request_percentage" in told
    assert "for Produce on items." in told
    assert "In the 10 s after it was first throttled, it sent 2,200 B/s" in told
    assert "the slowest response came 10 s after" in told


# Healthy


def test_nothing_is_wrong_in_ten_minutes_of_a_healthy_cluster(staged: Callable[..., Stage]) -> None:
    """The cluster has producers, transactions, polls without records, members that replace other members, and a client that is
    away for a long time.
    """
    stage = staged(topics={"orders": 1, "idle": 1})
    line, till = Dialogue(stage.proxy), TransactionalProducer(stage.proxy)
    till.init()
    client(stage.proxy).request(find_coordinator("team"), 4)
    one = ClassicMember(stage.proxy)
    one.join(session_ms=45_000)
    one.sync({one.member: b""})
    reader = Reader(stage.proxy)
    offset = 0
    for step in range(60):
        line >> tagged("x") << ANY_RESPONSE
        till.send("sale")
        reader.fetch(offset=offset)
        assert till.end(commit=step % 3 > 0) == 0
        fetched = reader.fetch(offset=offset)
        offset = fetched.last_stable_offset
        assert one.commit(offset) == 0
        reader.fetch("idle")
        one.heartbeat()
        if step % 20 == 10:  # a new process replaces the member
            one.leave()
            one.wire.close()
            one = ClassicMember(stage.proxy)
            one.join(session_ms=45_000)
            one.sync({one.member: b""})
        stage.later(10)
        one.heartbeat()
    stage.nothing()


def test_the_first_versions_that_a_new_client_tries_are_healthy(staged: Callable[..., Stage]) -> None:
    stage = staged()
    client(stage.proxy).send_raw(18, 99, b"", header_version=1)
    stage.proxy.wait_until(lambda: len(stage.proxy.trace.where("event=connection")) >= 2)
    stage.nothing()


# The command


def test_the_command_prints_what_is_wrong(
    staged: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = staged()
    ask_in_vain(stage.proxy, "Produce", 2)
    path, told = tmp_path / "trace.jsonl", tmp_path / "told.json"
    path.write_text("".join(row.as_json() + "\n" for row in stage.proxy.trace.events()), encoding="utf-8")
    assert main(["explain", str(path), "--json", str(told)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("1. unsupported_version: ")
    assert f"wirebroker trace show {path} --where 'event=unsupported api=Produce' --since" in printed
    assert "| and 0 more" not in printed
    (finding,) = json.loads(told.read_text(encoding="utf-8"))["findings"]
    assert finding["about"]["host"] == ["127.0.0.1"]
    assert main(shlex.split(finding["command"])[1:]) == 0
    assert "outdated" in capsys.readouterr().out
    drawn = tmp_path / "drawn.svg"
    assert main([*shlex.split(finding["picture"])[1:-1], str(drawn)]) == 0
    assert "Produce v2" in drawn.read_text(encoding="utf-8")
    assert finding["kind"] == "unsupported_version"
    assert [row["event"] for row in finding["rows"]] == ["unsupported"]
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[finding["numbers"][0] - 1]) == finding["rows"][0]


def test_a_capture_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.pcapng"
    with (
        MockKafka(security="sasl_plaintext", users=USERS, topics={"orders": 1}) as kafka,
        ProxyKafka(upstream=kafka.bootstrap_servers, capture=path) as proxy,
    ):
        log_in(proxy, "alice", "wrong", "SCRAM-SHA-256")
        log_in(proxy, "alice", "secret", "SCRAM-SHA-256").request(MetadataRequest(topics=[]), 9)
    assert main(["explain", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("1. login_failed: The login of a client by SCRAM-SHA-256 from 127.0.0.1 failed once")
    assert "Authentication failed during authentication due to invalid credentials" in out
    assert main(["trace", "show", str(path), "--principal", "User:?", "--api", "Metadata"]) == 0
    assert "Metadata v9" in capsys.readouterr().out


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    with MockKafka(topics={"orders": 1}, trace="verdicts") as kafka:
        Dialogue(kafka) >> tagged("x") << accepted(at=0)
        path.write_text("".join(row.as_json() + "\n" for row in kafka.trace.events()), encoding="utf-8")
    assert main(["explain", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("nothing is wrong in 1 rows")
    assert "--trace-level exchanges" in err
    path.write_bytes(b"\xff\xfe not a row\n")
    for wrong in (path, tmp_path / "absent", "http://127.0.0.1:1", "http://127.0.0.1:x", "ftp://x"):
        assert main(["explain", str(wrong)]) == 2
        err = capsys.readouterr().err
        assert str(wrong) in err
        assert "[Errno" not in err


def test_names_that_clients_have_chosen_are_harmless(
    staged: Callable[..., Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage, hostile = staged(), "$(reboot)\x1b[31m'\"; \u202e"
    selling(stage.proxy, hostile).wire.close()
    stage.proxy.wait_until(lambda: bool(stage.proxy.trace.where("change=closed")))
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(row.as_json() + "\n" for row in stage.proxy.trace.events()), encoding="utf-8")
    assert main(["explain", str(path)]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    copied = next(text for text in out.splitlines() if "show more" in text).partition("wirebroker ")[2]
    words = shlex.split(copied)
    assert parsed(words[words.index("--where") + 1]).has(stage.proxy.trace.events("reply")[0])
    assert "--transactional-id '$(reboot)" in out


def test_a_running_control_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    with MockKafka(topics={"orders": 1}, trace="all", control=True) as kafka:
        assert main(["explain", kafka.control_url]) == 0
        ask_in_vain(kafka, "Produce", 2)
        assert main(["explain", kafka.control_url]) == 1
        out = capsys.readouterr().out
        assert "unsupported_version" in out
        assert f"curl -s '{kafka.control_url}/trace.jsonl?where=event%3Dunsupported" in out
        kafka._call(lambda engine: [engine.trace._add(RunRow(0, "started")) for _ in range(RING)])
        assert main(["explain", kafka.control_url]) == 1, "the control still has the finding"
        assert "unsupported_version" in capsys.readouterr().out
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = "http://{}:{}".format(*nobody.getsockname())
    assert main(["explain", url]) == 2


def test_every_kind_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f'"{kind}"' not in source] == []
    assert set(KINDS) == set(get_args(Kind))


def test_traces_of_earlier_versions_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    reply = {
        "event": "reply", "time": 1_800_000_000_000, "node": 1, "connection": 1, "client_id": "old", "software": "",
        "version": 9, "correlation_id": 1, "api": "Produce", "bytes": 57, "latency": 0, "errors": ["NOT_ENOUGH_REPLICAS"],
        "about": ["orders-0"],
    }  # fmt: skip
    path.write_text(f"{json.dumps(reply)}\n" * 20, encoding="utf-8")
    assert main(["explain", str(path)]) == 1
    assert "Client 'old' got NOT_ENOUGH_REPLICAS from Produce for orders-0 20 times" in capsys.readouterr().out
