"""The model of Kafka's rules allows the responses of a real Kafka and of the broker, and refutes other responses."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import test_simulation
from actors import TEAM, Member
from inprocess import InProcess
from kafka_model.classic import UNKNOWN_MEMBER
from kafka_model.events import Add, End, Init
from kafka_model.history import Exchange, History, Tap, of_dialogue
from kafka_model.judging import TOO_FEW, Model, judge
from kafka_model.observing import anomalies_of
from kafka_model.transactions import OLD_EPOCH, UNKNOWN_ID
from random_dialogues.replay import Dialogue, load
from requesting import (
    TRANSACTION,
    add_partitions,
    create_topic,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    plain,
    produce_request,
    sync_group,
    txn_offset_commit,
)
from responses import only, sole
from simulation.schedule import Schedule
from simulation.world import Violation
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import Scenario
from wirebroker_tools.conformance.recording import load as load_scenarios
from wirebroker_tools.conformance.replay import replay
from wirekit import batch, client

DATA = Path(__file__).parent / "data"
SUBJECTS = ("transactions", "logs", "groups", "mixed", "shares", "streams", "admin", "administration")
RULED = {"produce", "produce_pipeline", "init_pid", "add_partitions", "end_txn", "txn_offset_commit", "join_group", "exchange"}
UNFIT = ("slow_", "transaction_version_0")
"""Beginnings of scenarios' names. These scenarios take long, or their cluster does not have KIP-890."""


def dialogues(subject: str) -> list[Dialogue]:
    return list(load(DATA / f"dialogues-{subject}.jsonl.gz"))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_real_kafka_responds_as_the_rules_say(subject: str) -> None:
    for dialogue in dialogues(subject):
        refuted = judge(of_dialogue(dialogue.steps), prompt=True)
        assert refuted is None, f"{subject}, seed {dialogue.head.seed}: {refuted}"


def scenarios() -> list[Scenario]:
    ruled = [each for each in load_scenarios() if any(row["step"]["op"] in RULED for row in each.steps)]
    return [each for each in ruled if not (each.secured or each.telemetry or each.name.startswith(UNFIT))]


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_is_as_the_rules_say(scenario: Scenario) -> None:
    """The model allows the responses in a scenario. test_conformance shows that these responses are the same as Kafka's, so
    this test judges Kafka's responses, too."""
    expires = {
        "expiration_ms": int(scenario.settings.get("producer.id.expiration.ms", 86_400_000)),
        "id_expiration_ms": int(scenario.settings.get("transactional.id.expiration.ms", 604_800_000)),
    }
    with OwnBroker(scenario.settings) as broker:
        tap = broker.kafka._call(Tap)
        replay(scenario, broker)
    refuted = judge(tap.history, **expires)
    assert refuted is None, str(refuted)


def played(seed: int, **options: Any) -> History:
    """Returns the history of a schedule, even if the schedule fails."""
    schedule = Schedule(seed, **options)
    tap = Tap(schedule.world.engine)
    with suppress(Violation):
        schedule.run()
    return tap.history


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_a_schedule_is_as_the_rules_say(first: int) -> None:
    for seed in range(first, first + 20):
        refuted = judge(played(seed))
        assert refuted is None, f"seed {seed}: {refuted}"


@pytest.mark.parametrize("name", ["window of four", "wraps one early", "the state stays after a failed write"])
def test_a_broken_validator_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = test_simulation.BROKEN[name](monkeypatch)
    assert any(judge(played(seed, **options)) is not None for seed in range(100))


@pytest.mark.parametrize(("last", "is_allowed"), [(48, True), (0, False)])
def test_markers_may_be_written_long_after_the_end_was_decided(last: int, is_allowed: bool) -> None:
    """A partition has no leader when the transaction is aborted, so its coordinator first responds CONCURRENT_TRANSACTIONS."""
    model, commit = Model(), End("t", 7, 1, version=5, commit=True, code=51)
    model.see(Init("t", None, 5, 60_000, 0, 7, 0), 0)
    model.see(Add("t", 7, 0, 4, {("orders", 0): 0}), 0)
    model.see(End("t", 7, 0, version=5, commit=False, code=0, given=(7, 1)), 0)
    model.see(commit, 0)
    model.see(commit._replace(code=last, given=(7, 1)), 0)
    assert (model.refuted == []) is is_allowed


@pytest.mark.parametrize("producer", [{}, {"pid": 7, "epoch": 0}], ids=["plain", "idempotent"])
@pytest.mark.parametrize("version", range(4, 7))
def test_a_topic_that_was_deleted_begins_again(version: int, producer: dict[str, int]) -> None:
    """The new topic's offsets begin at 0, and it has neither records nor producers. If the deletion is removed from the
    history, the rules refute the history."""
    broker = InProcess(topics={"orders": 1})
    tap = Tap(broker.engine)
    delete = plain("DeleteTopics", topic_names=["orders"], topics=[{"name": "orders"}], timeout_ms=1000)
    for tag, sequence in (("old", 0), ("new", 4)):
        sent = produce_request("orders", batch(sequence if producer else -1, 2, tag=tag, **producer))
        for request, as_version in [(sent, 9), (fetch(), 12), (delete, version), (create_topic("orders"), 5)]:
            client(broker).request(request, as_version)
    assert (judge(tap.history), anomalies_of(tap.history)) == (None, [])
    kept = [each for each in tap.history if isinstance(each, Exchange) and each.api != "DeleteTopics"]
    assert judge(kept) is not None
    assert {each.kind for each in anomalies_of(kept)} == {"two_values"}


@pytest.mark.parametrize("version", [8, 11, 12])
def test_a_batch_without_a_producer_id_is_in_no_transaction(version: int) -> None:
    """Kafka 4.4 stores such a batch although its header is transactional. Readers of committed records get the batch
    immediately."""
    broker = InProcess(topics={"orders": 1})
    ask, tap = client(broker).request, Tap(broker.engine)
    ask(init_producer_id("a"), 3)
    for pid in (-1, -2):
        ask(produce_request("orders", batch(0, 2, pid=pid, epoch=0, tag=f"{pid}.", transactional=True), txid="a"), version)
    ask(fetch(isolation_level=1), 12)
    assert (judge(tap.history), anomalies_of(tap.history)) == (None, [])
    (answer,) = answers(last := tap.history[-2], last.response)
    answer["error_code"] = 48
    assert judge(tap.history) is not None


def test_a_rebalance_without_a_timeout_may_wait_for_another_request_of_the_same_time() -> None:
    """Two static members join, and the first member returns. Both responses occur in Kafka 4.4, because its timer of 0 ms can
    fire before or after the last request."""
    broker = InProcess(clock="frozen")
    connections, tap = client(broker), Tap(broker.engine)
    connections.request(find_coordinator("team"), 4)
    for number, instance in enumerate(["i1", "i2", "i1"]):
        joins = join_group("team", instance=instance, rebalance_ms=0)
        connections.send(joins, 5, connection=str(number))
    assert [connections.response(each).generation_id for each in "012"] == [1, 2, 2]
    assert judge(tap.history) is None


def test_an_empty_group_is_deleted_although_a_member_is_about_to_join() -> None:
    """As in Kafka, a group that has only given out member ids is Empty."""
    broker = InProcess(clock="frozen", configs={"offsets.retention.check.interval.ms": 5000})
    ask, tap = client(broker).request, Tap(broker.engine)
    ask(find_coordinator("team"), 4)
    member = ask(join_group("team", session_ms=60_000), 5).member_id
    broker.clock.advance(seconds=20)
    assert ask(join_group("team", member, session_ms=60_000), 5).error_code == UNKNOWN_MEMBER
    assert judge(tap.history, checks_ms=5000) is None
    assert judge(tap.history, checks_ms=10**18) is not None, "no check has deleted the group"


def test_a_leader_gets_the_id_of_a_member_whose_client_has_left() -> None:
    broker = InProcess(clock="frozen")
    ask, other, tap = client(broker).request, client(broker), Tap(broker.engine)
    ask(find_coordinator("team"), 4)
    first = ask(join_group("team", instance="i1"), 5)
    ask(sync_group("team", first.member_id, 1, {}, "i1"), 3)
    other.send(join_group("team", instance="i2"), 5)
    other.close()
    again = ask(join_group("team", first.member_id, instance="i1"), 5)
    assert [each.group_instance_id for each in again.members] == ["i1", "i2"]
    assert judge(tap.history) is None


def test_a_transactional_batch_is_refused_if_too_few_replicas_are_in_sync() -> None:
    topics = {"orders": {"partitions": 1, "replication_factor": 2}}
    broker = InProcess(topics=topics, brokers=2, configs={"min.insync.replicas": 2}, clock="frozen")
    found = client(broker).request(find_coordinator("a", kind=TRANSACTION), 4)
    node = sole(found.coordinators).node_id
    ask, tap = client(broker, node - 1).request, Tap(broker.engine)
    pid = ask(init_producer_id("a"), 4).producer_id
    ask(add_partitions("a", (pid, 0)), 3)
    broker.kill_broker(3 - node)
    sent = ask(produce_request("orders", batch(0, 1, pid=pid, epoch=0, transactional=True), txid="a"), 11)
    assert only(sent).error_code == TOO_FEW
    assert judge(tap.history) is None
    assert judge([each for each in tap.history if isinstance(each, Exchange)]) is not None


def test_a_partition_may_fence_a_producer_of_an_unknown_epoch() -> None:
    """After the start of a broker, the model does not know the producer's epoch at the partition."""
    broker = InProcess(topics={"orders": 1}, clock="frozen")
    ask, tap = client(broker).request, Tap(broker.engine)
    ask(find_coordinator("a", kind=TRANSACTION), 4)
    pid = ask(init_producer_id("a"), 4).producer_id
    ask(add_partitions("a", (pid, 0)), 3)
    ask(init_producer_id("a"), 4)  # the coordinator aborts the transaction with the next epoch
    broker.start_broker(1)
    sent = ask(produce_request("orders", batch(0, 1, pid=pid, epoch=0, transactional=True), txid="b"), 9)
    assert only(sent).error_code == OLD_EPOCH
    assert judge(tap.history) is None


def test_a_commit_begins_a_transaction_although_a_partition_is_unknown() -> None:
    broker = InProcess(topics={"orders": 1}, clock="frozen")
    ask, tap = client(broker).request, Tap(broker.engine)
    ask(find_coordinator("team"), 4)
    ask(find_coordinator("a", kind=TRANSACTION), 4)
    ask(init_producer_id("a"), 4)
    commits = txn_offset_commit("a", (0, 0), "team", 5)
    offsets = commits.topics[0].partitions
    unknown = copy.copy(offsets[0])
    unknown.partition_index = 7
    offsets.append(unknown)
    parts = ask(commits, 5).topics[0].partitions
    assert {each.partition_index: each.error_code for each in parts} == {0: 0, 7: 3}
    assert ask(end_txn("a", (0, 0), commit=True), 5).error_code == 0
    assert judge(tap.history) is None


def test_a_producer_is_forgotten_a_day_after_its_transaction_has_timed_out() -> None:
    broker = InProcess(topics={"orders": 1}, clock="frozen")
    ask, tap = client(broker).request, Tap(broker.engine)
    ask(find_coordinator("a", kind=TRANSACTION), 4)
    ask(init_producer_id("a"), 4)
    for sequence, named in enumerate(["a", "b"]):
        sent = ask(produce_request("orders", batch(sequence, 1, pid=0, epoch=0, transactional=True), txid=named), 12)
        broker.clock.advance(hours=23)
        ask(produce_request("orders", batch(-1, 1)), 9)
        broker.clock.advance(hours=20)
    assert only(sent).error_code == UNKNOWN_ID
    assert judge(tap.history) is None


# Altered responses


CODE = {"AddPartitionsToTxn": "partition_error_code"}
CODES = {
    "transactions": (0, 45, 47, 48, 49, 51, 90),
    "logs": (0, 45, 47),
    "groups": (0, 22, 23, 25, 27, 82),
}


def answers(exchange: Exchange, response: Any) -> Iterator[dict[str, Any]]:
    """Yields the parts of a response whose error code the rules judge."""
    match exchange.api:
        case "Produce":
            yield from (part for topic in response["responses"] for part in topic.get("partition_responses", ()))
        case "AddPartitionsToTxn":
            topics = response.get("results_by_topic_v3_and_below", ())
            yield from (part for topic in topics for part in topic.get("results_by_partition", ()))
        case "InitProducerId" | "EndTxn" | "AddOffsetsToTxn" | "JoinGroup" | "SyncGroup" | "Heartbeat":
            yield response


def altered(history: list[Exchange], codes: tuple[int, ...], chance: random.Random) -> list[Exchange] | None:
    """Returns the history with another error code in one response."""
    at = chance.randrange(len(history))
    exchange = copy.copy(history[at])
    exchange.response = copy.deepcopy(exchange.response)
    parts = list(answers(exchange, exchange.response)) if exchange.response else []
    if not parts:
        return None
    part, field = chance.choice(parts), CODE.get(exchange.api, "error_code")
    code = int(str(part.get(field, 0)).split()[0])
    if code not in codes:
        return None
    part[field] = chance.choice([each for each in codes if each != code])
    return [*history[:at], exchange, *history[at + 1 :]]


@pytest.mark.parametrize(("subject", "least"), [("transactions", 0.95), ("logs", 0.9), ("groups", 0.95)])
def test_altered_responses_are_refuted(subject: str, least: float) -> None:
    """For a few error codes the rules decide nothing, for example for some codes of JoinGroup."""
    chance, refuted = random.Random(1), []
    for dialogue in dialogues(subject):
        for _ in range(10):
            history = altered(of_dialogue(dialogue.steps), CODES[subject], chance)
            refuted += [judge(history, prompt=True) is not None] if history is not None else []
    assert len(refuted) > 50
    assert sum(refuted) / len(refuted) >= least


# Members of KIP-848


def rebalanced(seed: int) -> History:
    """Returns a history: its members join, confirm their partitions, are sometimes slow, and leave."""
    chance = random.Random(seed)
    settings = {"group.consumer.assignment.interval.ms": 0}
    broker = InProcess(topics={"orders": 6, "bills": 3}, configs=settings, clock="frozen")
    for _ in range(2):
        client(broker).request(find_coordinator(TEAM), 4)
    tap = Tap(broker.engine)
    members = [Member(broker, f"m{number}") for number in range(4)]
    for _ in range(60):
        member = chance.choice(members)
        if not member.epoch:
            member.join(*chance.sample(["orders", "bills"], chance.randint(1, 2)))
        elif chance.random() < 0.1:
            member.leave()
            member.epoch, member.owned = 0, {}
        elif chance.random() < 0.2:
            member.send(member.epoch)
        else:
            member.beat()
    return tap.history


def test_a_member_keeps_its_short_rebalance_timeout() -> None:
    """The member must give up the partitions of a deleted topic within a millisecond."""
    broker = InProcess(topics={"orders": 2}, clock="frozen")
    ask, tap = client(broker).request, Tap(broker.engine)
    ask(find_coordinator(TEAM), 4)
    owned = [{"topic_id": broker.engine.cluster.topics["orders"].topic_id, "partitions": [0, 1]}]

    def beat(epoch: int, **fields: Any) -> Any:
        return ask(plain("ConsumerGroupHeartbeat", group_id=TEAM, member_id="m", member_epoch=epoch, **fields), 1)

    joined = beat(0, rebalance_timeout_ms=1, subscribed_topic_names=["orders"], topic_partitions=[])
    broker.delete_topic("orders")
    broker.clock.advance(seconds=11)
    assert beat(joined.member_epoch, topic_partitions=owned).assignment.topic_partitions == []
    broker.clock.advance(seconds=11)
    assert beat(joined.member_epoch, topic_partitions=[]).error_code == UNKNOWN_MEMBER
    assert judge(tap.history) is None


def test_a_partition_has_one_owner() -> None:
    for seed in range(60):
        refuted = judge(rebalanced(seed))
        assert refuted is None, f"seed {seed}: {refuted}"


def test_a_partition_with_two_owners_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "owner_epoch", lambda *_: -1)
    assert any(judge(rebalanced(seed)) is not None for seed in range(60))
