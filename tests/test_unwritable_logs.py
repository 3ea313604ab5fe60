"""A coordinator whose log cannot be written. Every response has an error, and the state does not change. When the log can be
written again, everything works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import MEMBER_ID_REQUIRED, TEAM, ClassicMember, Member, Reader, TransactionalProducer
from requesting import find_coordinator, offset_delete, plain
from responses import sole
from test_groups import REBALANCE
from test_storage_coordinators import state_of
from wirebroker.core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC
from wirebroker.mock import MockKafka
from wirekit import client

NOT_COORDINATOR, CONCURRENT = 16, 51
FOR_EVER = 10**9


@pytest.fixture(params=["memory", "disk"])
def kafka(request: Any, mock_kafka_factory: Callable[..., MockKafka], tmp_path: Path) -> MockKafka:
    made = mock_kafka_factory(
        topics={"orders": 4}, clock="frozen", data=tmp_path / "data" if request.param == "disk" else None,
        configs={
            "group.consumer.assignment.interval.ms": 0, "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2,
            "log.flush.offset.checkpoint.interval.ms": 2**31 - 1, "log.cleaner.backoff.ms": 2**31 - 1,
        },
    )  # fmt: skip
    for kind, key in ((0, TEAM), (0, "team"), (1, "till")):
        client(made).request(find_coordinator(key, kind=kind), 4)
    return made


@contextmanager
def unwritable(kafka: MockKafka, topic: str) -> Iterator[None]:
    """Within this block, writes to the topic's logs fail. Checks that the state of the coordinators does not change."""

    def fail(times: int) -> None:
        for partition in kafka._call(lambda engine: engine.cluster.topics[topic].partitions):
            partition.fail_next_write(times)

    before = known(kafka)
    fail(FOR_EVER)
    yield
    assert known(kafka) == before
    fail(0)


def known(kafka: MockKafka) -> dict[str, Any]:
    """Returns the coordinators' state. Transactional ids without an epoch are left out. As in Kafka, the log does not have such
    ids.
    """
    state: dict[str, Any] = kafka._call(state_of)
    state["transactions"] = {name: held for name, held in state["transactions"].items() if held[1] >= 0}
    return state


def as_after_a_crash(kafka: MockKafka) -> None:
    """Checks that the coordinators have the same state after a kill and a restart."""
    before = known(kafka)
    kafka.restart("kill")
    after = known(kafka)
    for each in ("classic", "modern", "offsets", "waiting", "transactions"):
        assert after[each] == before[each]


def test_a_commit_is_refused_and_the_last_one_holds(kafka: MockKafka) -> None:
    one = ClassicMember(kafka)
    assert one.commit(13) == 0
    with unwritable(kafka, GROUP_TOPIC):
        assert [one.commit(101) for _ in range(3)] == [NOT_COORDINATOR] * 3
    assert one.committed() == 13
    as_after_a_crash(kafka)
    one = ClassicMember(kafka)
    assert (one.committed(), one.commit(101), one.committed()) == (13, 0, 101)


def test_offsets_and_groups_are_not_deleted(kafka: MockKafka) -> None:
    one = ClassicMember(kafka)
    one.commit(13)
    delete_offsets = offset_delete(TEAM)
    delete_groups = plain("DeleteGroups", groups_names=[TEAM])
    with unwritable(kafka, GROUP_TOPIC):
        response = one.wire.request(delete_offsets, 0)
        assert (response.error_code, response.topics) == (NOT_COORDINATOR, [])
        assert sole(one.wire.request(delete_groups, 2).results).error_code == NOT_COORDINATOR
        assert one.committed() == 13
        kafka.clock.advance(days=8)  # offsets do not expire while the log cannot be written
    assert one.committed() == 13
    assert sole(one.wire.request(delete_groups, 2).results).error_code == 0
    assert one.committed() == -1
    as_after_a_crash(kafka)


def test_a_group_that_cannot_be_written_down_is_not_there(kafka: MockKafka) -> None:
    one = ClassicMember(kafka)
    with unwritable(kafka, GROUP_TOPIC):
        one.ask_to_join()
        assert one.joined().error_code == NOT_COORDINATOR
        assert TEAM not in kafka._call(lambda engine: engine.groups.groups)
    assert one.join().error_code == 0


def test_an_assignment_that_cannot_be_written_down_is_given_to_nobody(kafka: MockKafka) -> None:
    one = ClassicMember(kafka)
    assert one.join().error_code == 0
    with unwritable(kafka, GROUP_TOPIC):
        assert one.sync({one.member: b"all"}) == (NOT_COORDINATOR, b"")
        assert one.heartbeat() == REBALANCE
    assert one.join().error_code == 0
    assert one.sync({one.member: b"all"}) == (0, b"all")
    as_after_a_crash(kafka)


def test_a_static_member_stays_under_its_old_id(kafka: MockKafka) -> None:
    one = ClassicMember(kafka, instance="till-1")
    one.join()
    one.sync({one.member: b"all"})
    double = ClassicMember(kafka, instance="till-1")
    with unwritable(kafka, GROUP_TOPIC):
        response = double.join()
        assert (response.error_code, response.member_id, response.leader) == (NOT_COORDINATOR, "", one.member)
        assert one.heartbeat() == 0
    assert double.join().error_code == 0
    assert one.heartbeat() == 82


def test_members_of_a_consumer_group_neither_come_nor_go(kafka: MockKafka) -> None:
    one, two = Member(kafka, "one"), Member(kafka, "two")
    joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    with unwritable(kafka, GROUP_TOPIC):
        assert one.fault(0, {}, **joins) == NOT_COORDINATOR
        assert "team" not in kafka._call(lambda engine: engine.groups.groups)
    assert one.join() == {"orders": [0, 1, 2, 3]}
    with unwritable(kafka, GROUP_TOPIC):
        assert two.fault(0, {}, **joins) == NOT_COORDINATOR
        assert one.fault(-1) == NOT_COORDINATOR
        assert one.beat() is None
        assert one.epoch == 2, "nothing has happened"
    as_after_a_crash(kafka)
    one.wire, two.wire = client(kafka), client(kafka)
    assert two.join() == {}
    given = one.beat()
    assert given is not None
    with unwritable(kafka, GROUP_TOPIC):
        assert one.fault(2, given) == NOT_COORDINATOR, "the revocation cannot be written"
    one.beat()
    assert (one.epoch, sorted((two.beat() or {})["orders"] + given["orders"])) == (3, [0, 1, 2, 3])
    as_after_a_crash(kafka)


def test_a_member_that_is_silent_is_given_up_once_that_can_be_written_down(kafka: MockKafka) -> None:
    one = Member(kafka, "one")
    one.join()
    with unwritable(kafka, GROUP_TOPIC):
        kafka.clock.advance(minutes=10)
    kafka.clock.advance(milliseconds=500)
    assert one.fault(2, {}) == 25
    as_after_a_crash(kafka)


def test_a_classic_group_becomes_no_consumer_group(kafka: MockKafka) -> None:
    old, new = ClassicMember(kafka, group="team"), Member(kafka, "new")
    old.ask_to_join()
    assert old.joined().error_code == MEMBER_ID_REQUIRED
    with unwritable(kafka, GROUP_TOPIC):
        kafka.clock.advance(minutes=1)
        joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
        assert new.fault(0, {}, **joins) == NOT_COORDINATOR
    assert new.join() == {"orders": [0, 1, 2, 3]}
    as_after_a_crash(kafka)


def test_a_transaction_stays_open_and_can_be_committed_later(kafka: MockKafka) -> None:
    till = TransactionalProducer(kafka)
    with unwritable(kafka, TRANSACTION_TOPIC):
        assert till.init() == NOT_COORDINATOR
    assert till.init() == 0
    with unwritable(kafka, TRANSACTION_TOPIC):
        assert till.add() == NOT_COORDINATOR
    assert till.add() == 0
    assert till.send("a").error_code == 0
    with unwritable(kafka, TRANSACTION_TOPIC):
        assert [till.end(), till.end(commit=False), till.init()] == [NOT_COORDINATOR] * 3
        kafka.clock.advance(minutes=10)  # transactions do not time out while the log cannot be written
    as_after_a_crash(kafka)
    till.wire = client(kafka)
    assert till.end() == 0
    assert Reader(kafka).values() == ["a0"]
    as_after_a_crash(kafka)


@pytest.mark.parametrize("stops", [MockKafka.restart, lambda kafka: kafka.kill_broker(1)], ids=["restart", "new leader"])
def test_an_id_that_could_not_be_written_is_forgotten_when_the_log_is_loaded_again(
    kafka: MockKafka, stops: Callable[[MockKafka], object]
) -> None:
    """As in Kafka, ListTransactions shows the transactional id until then."""
    till = TransactionalProducer(kafka)

    def listed() -> list[str]:
        return [each.transactional_id for each in till.wire.request(plain("ListTransactions"), 1).transaction_states]

    with unwritable(kafka, TRANSACTION_TOPIC):
        assert till.init() == NOT_COORDINATOR
    assert listed() == ["till"]
    stops(kafka)
    kafka.start_broker(1)
    till.wire = client(kafka)
    assert listed() == []


def test_offsets_of_a_transaction_are_refused(kafka: MockKafka) -> None:
    till = TransactionalProducer(kafka)
    till.init()
    assert till.send_offsets(TEAM, 5) == 0
    with unwritable(kafka, GROUP_TOPIC):
        assert till.send_offsets(TEAM, 9) == NOT_COORDINATOR
    assert till.end() == 0
    assert Reader(kafka).committed_offset(TEAM) == (0, 5)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_that_cannot_be_written_is_written_later(kafka: MockKafka, commit: bool) -> None:
    till = TransactionalProducer(kafka)
    till.init()
    assert till.send("a").error_code == 0
    assert till.send_offsets(TEAM, 5) == 0
    for topic in ("orders", GROUP_TOPIC):
        for partition in kafka._call(lambda engine, topic=topic: engine.cluster.topics[topic].partitions):
            partition.fail_next_write(FOR_EVER)
    assert till.end(commit) == 0, "the coordinator has stored the outcome"
    kafka.clock.advance(minutes=1)
    assert Reader(kafka).values() == []
    assert till.init() == CONCURRENT
    for topic in ("orders", GROUP_TOPIC):
        for partition in kafka._call(lambda engine, topic=topic: engine.cluster.topics[topic].partitions):
            partition.fail_next_write(0)
    kafka.clock.advance(milliseconds=500)
    assert Reader(kafka).values() == (["a0"] if commit else [])
    assert Reader(kafka).committed_offset(TEAM) == (0, 5 if commit else -1)
    assert till.init() == 0
    as_after_a_crash(kafka)


def test_the_end_of_a_transaction_is_written_down_later(kafka: MockKafka) -> None:
    till = TransactionalProducer(kafka)
    till.init()
    assert till.send("a").error_code == 0
    partitions = kafka._call(lambda engine: engine.cluster.topics[TRANSACTION_TOPIC].partitions)
    orders = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0])
    orders.fail_next_write(FOR_EVER)
    assert till.end() == 0
    for partition in partitions:
        partition.fail_next_write(FOR_EVER)
    orders.fail_next_write(0)
    kafka.clock.advance(milliseconds=500)
    assert Reader(kafka).values() == ["a0"], "the marker was written to the partition"
    assert till.init() == CONCURRENT, "the coordinator's log does not have the completion yet"
    for partition in partitions:
        partition.fail_next_write(0)
    kafka.clock.advance(milliseconds=500)
    assert till.init() == 0
    assert (len(kafka.records("orders", 0)), Reader(kafka).values()) == (2, ["a0"]), "the transaction has only one marker"
    as_after_a_crash(kafka)


def test_a_transactional_id_that_cannot_be_forgotten_is_known(kafka: MockKafka) -> None:
    till = TransactionalProducer(kafka)
    till.init()
    with unwritable(kafka, TRANSACTION_TOPIC):
        kafka.clock.advance(days=8)
    assert till.init(current=(till.pid, till.epoch)) == 0
