"""A fault causes exactly its failure at exactly the chosen request, and is counted. Some tests show the clients' reactions."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest

from actors import ClassicMember, Member, TransactionalProducer
from dialogue import (
    ANY_RESPONSE,
    CLOSED,
    INIT_PRODUCER_ID,
    SILENCE,
    Dialogue,
    Silence,
    accepted,
    answered,
    each,
    overall,
    refused,
    seq,
    tagged,
)
from kafkawire.declare import Message
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from requesting import fetch, find_coordinator, heartbeat, init_producer_id, join_group, named, plain
from responses import sole
from wirebroker import faults
from wirebroker.client.wire import WireClient
from wirebroker.engine.engine import FEW_ELEMENTS
from wirebroker.faults import NotFired
from wirebroker.mock import MockKafka
from wirekit import RawProducer, batch, client

pytestmark = pytest.mark.mock_kafka(topics={"orders": 3, "other": 1})
NOT_LEADER, OUT_OF_ORDER, TIMED_OUT, UNKNOWN_MEMBER_ID, INVALID_TXN_STATE = 6, 45, 7, 25, 48


def values(kafka: MockKafka, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in kafka.records(topic)]


# Counting alone


def test_a_test_waits_for_requests_that_a_rule_observes(mock_kafka: MockKafka) -> None:
    seen = mock_kafka.faults.add(faults.observe(api="Produce", topic="orders"))
    dialogue = Dialogue(mock_kafka)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(seen.wait_fired, 2, 10)
        mock_kafka.wait_until(lambda: len(mock_kafka._host.watchers) == 2)  # type: ignore[union-attr]
        dialogue >> seq(0) << accepted(at=0) >> seq(1) << accepted(at=1)
        waiting.result(10)
    assert values(mock_kafka) == [b"v0", b"v1"]
    assert mock_kafka.trace.faults() == []
    seen.wait_fired(2, timeout=0)
    with pytest.raises(NotFired, match=r"did not fire 3 times within 0.01 s: it fired on 2 of 2 matches"):
        mock_kafka.faults.rules[0].wait_fired(3, timeout=0.01)
    with pytest.raises(NotFired, match="it was never added to a broker"):
        faults.observe().wait_fired()


# Losing


def test_b2_b5_a_lost_acknowledgement_closes_the_connection_and_the_retry_is_a_duplicate(mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=2))
    Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(1) << CLOSED >> seq(1) << accepted(at=1)
    assert [row.verdict for row in mock_kafka.trace.produce()] == ["accepted", "accepted", "duplicate"]
    lost.assert_fired(1)
    assert values(mock_kafka) == [b"v0", b"v1"]


def test_b2_with_silence_the_requests_in_the_pipe_are_handled_and_not_answered(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.lose_ack(api="Produce", nth=2, then="silence"))
    Dialogue(mock_kafka) >> seq(0) >> seq(1) >> seq(2) >> seq(3) << accepted(at=0) << Silence(0.2)
    assert values(mock_kafka) == [b"v0", b"v1", b"v2", b"v3"], "the broker handled all four requests"


def test_b5_a_lost_request_never_arrives(mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_request(api="Produce", sequence=1, times=1))
    dialogue = Dialogue(mock_kafka) >> seq(0) << accepted(at=0) >> seq(1) << CLOSED
    assert values(mock_kafka) == [b"v0"]
    dialogue >> seq(1) << accepted(at=1)
    assert (lost.seen, lost.fired) == (2, 1)


def test_b3_what_follows_a_swallowed_batch_is_out_of_order(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", sequence=(2, 3), times=1))
    dialogue = Dialogue(mock_kafka) >> seq(0, 1) << accepted(at=0) >> seq(2, 3) << refused(NOT_LEADER)
    dialogue >> seq(4, 5) << refused(OUT_OF_ORDER) >> seq(2, 3) << accepted(at=2) >> seq(4, 5) << accepted(at=4)
    assert len(values(mock_kafka)) == 6


# Errors


def test_an_error_matches_one_partition_and_the_others_are_stored(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error(TIMED_OUT, topic="orders", partition=1))
    parts = [PartitionProduceData(index=index, records=batch(tag=f"p{index}-")) for index in range(3)]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="orders", partition_data=parts)])
    Dialogue(mock_kafka) >> request << each(index=[0, 2, 1], error_code=[0, 0, TIMED_OUT])
    assert values(mock_kafka) == [b"p0-0", b"p2-0"]


def test_with_after_the_batch_is_stored_and_the_response_has_the_error(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error(TIMED_OUT, api="Produce", after=True, times=1))
    Dialogue(mock_kafka) >> seq(0) << refused(TIMED_OUT, base_offset=-1) >> seq(0) << accepted(at=0)
    assert mock_kafka.trace.produce()[-1].verdict == "duplicate"


def test_an_error_overwrites_the_response_of_a_request_that_reads(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error(TIMED_OUT, api="ListOffsets", partition=1))
    mock_kafka.faults.add(faults.error(9999, api="Fetch", topic="orders", times=1))
    mock_kafka.faults.add(faults.error("LEADER_NOT_AVAILABLE", api="Metadata", topic="orders", times=1))
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(3)]
    offsets = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=asked)])
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    dialogue = Dialogue(mock_kafka) >> offsets << each(error_code=[0, TIMED_OUT, 0])
    dialogue >> fetch() << refused(9999) >> fetch() << answered(error_code=0)
    for code in (5, 0):
        dialogue >> metadata << ANY_RESPONSE
        assert sole(dialogue.last.topics).error_code == code


def test_a_request_that_is_answered_with_an_error_changes_nothing(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error("PRODUCER_FENCED", api="InitProducerId", nth=1))
    dialogue = Dialogue(mock_kafka) >> INIT_PRODUCER_ID << refused(90, producer_id=-1)
    dialogue >> INIT_PRODUCER_ID << answered(error_code=0, producer_id=0)


def test_an_error_from_the_coordinator_of_a_group(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error("COORDINATOR_NOT_AVAILABLE", api="FindCoordinator", group="team", times=2))
    find = find_coordinator("team")
    Dialogue(mock_kafka) >> find << refused(15) >> find << refused(15) >> find << answered(error_code=0)


# Time and order


def test_a_delay_holds_the_request_until_the_clock_has_moved(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.delay(60_000, api="Produce", times=1))
    dialogue = Dialogue(mock_kafka) >> seq(0)
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    assert values(mock_kafka) == []
    mock_kafka.clock.advance(seconds=60)
    dialogue << accepted(at=0)


def test_a_delayed_response_comes_after_the_batch_is_stored(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.delay(60_000, api="Produce", after=True, times=1))
    dialogue = Dialogue(mock_kafka) >> seq(0)
    mock_kafka.wait_for_records("orders", 1)
    dialogue << SILENCE
    other = Dialogue(mock_kafka) >> seq(0)
    mock_kafka.clock.advance(seconds=60)
    other << accepted(at=1)
    dialogue << accepted(at=0)


def test_b11_a_request_that_is_held_back_is_overtaken(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.reorder(2, api="Produce", nth=1))
    slow = Dialogue(mock_kafka) >> tagged("late")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    Dialogue(mock_kafka) >> tagged("early0-") << accepted(at=0) >> tagged("early1-") << accepted(at=1)
    slow << accepted(at=2)
    assert values(mock_kafka) == [b"early0-0", b"early1-0", b"late0"]


# Several rules


def test_later_rules_act_when_a_held_request_goes_on(mock_kafka: MockKafka) -> None:
    rules = [
        mock_kafka.faults.add(each)
        for each in (faults.delay(60_000, nth=1), faults.fail_write(nth=1), faults.throttle(7, api="Produce", nth=1))
    ]
    dialogue = Dialogue(mock_kafka) >> tagged("late")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    mock_kafka.clock.advance(minutes=1)
    dialogue << refused(56)
    assert dialogue.last.throttle_time_ms == 7
    assert [row.kind for row in mock_kafka.trace.faults()] == ["delay", "fail_write", "throttle"]
    assert [rule.fired for rule in rules] == [1, 1, 1]


def test_rules_after_one_that_ended_the_request_have_not_fired(mock_kafka: MockKafka) -> None:
    """Later rules count a request even if an earlier rule ended the request, so that `nth` means the same request in every
    rule."""
    first = mock_kafka.faults.add(faults.lose_request(api="Produce", nth=1))
    behind = [mock_kafka.faults.add(each) for each in (faults.fail_write(nth=1), faults.lose_ack(api="Produce", nth=[1, 2]))]
    dialogue = Dialogue(mock_kafka) >> seq(0) << CLOSED
    assert [(rule.seen, rule.fired) for rule in (first, *behind)] == [(1, 1), (1, 0), (1, 0)]
    dialogue >> seq(0) << CLOSED
    assert [rule.fired for rule in behind] == [0, 1]
    assert [row.kind for row in mock_kafka.trace.faults()] == ["lose_request", "lose_ack"]
    assert values(mock_kafka) == [b"v0"]


def test_the_response_that_a_rule_made_may_be_lost_too(mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_ack(api="InitProducerId", nth=1))
    mock_kafka.faults.add(faults.error(TIMED_OUT, api="InitProducerId", times=2))
    dialogue = Dialogue(mock_kafka) >> INIT_PRODUCER_ID << CLOSED
    lost.assert_fired(1)
    dialogue >> INIT_PRODUCER_ID << refused(TIMED_OUT) >> INIT_PRODUCER_ID << answered(error_code=0)


# Responses from functions, and other faults


def test_a_callable_may_respond(mock_kafka: MockKafka) -> None:
    seen: list[tuple[str, int]] = []

    def response(facts: faults.Facts, request: Message) -> Message | None:
        seen.append((facts.api, facts.version))
        return DescribeClusterResponse(
            error_code=0, cluster_id="mine", controller_id=7, brokers=[], cluster_authorized_operations=0
        )

    mock_kafka.faults.add(faults.answer(response, api="DescribeCluster"))
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    Dialogue(mock_kafka) >> (request, 0) << answered(cluster_id="mine", controller_id=7)
    assert seen == [("DescribeCluster", 0)]


@pytest.mark.parametrize("delayed", [False, True])
def test_a_callable_that_raises_closes_the_connection_and_is_logged(
    mock_kafka: MockKafka, delayed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(facts: faults.Facts, request: Message) -> Message | None:
        raise KeyError("mine")

    if delayed:
        mock_kafka.faults.add(faults.delay(1, api="Produce"))
    mock_kafka.faults.add(faults.answer(fails, api="Produce", name="broken"))
    Dialogue(mock_kafka) >> tagged("v") << CLOSED
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == "the function of the rule answer(api=Produce, name=broken) raised an exception; the connection is closed"


def test_a_rule_for_a_group_matches_requests_that_describe_it(mock_kafka: MockKafka) -> None:
    rule = mock_kafka.faults.add(faults.error(TIMED_OUT, api="ConsumerGroupDescribe", group="team"))
    asked = ConsumerGroupDescribeRequest(group_ids=["team"], include_authorized_operations=False)
    Dialogue(mock_kafka) >> asked << refused(TIMED_OUT)
    rule.assert_fired(1)


def test_a_throttle_is_in_the_response(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.throttle(1234, api="Metadata"))
    Dialogue(mock_kafka) >> MetadataRequest(topics=[]) << overall(throttle_time_ms=1234)


def test_a_rule_matches_only_the_requests_that_all_its_words_match(mock_kafka_factory: Any) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1, "other": 1}, brokers=2)
    rule = kafka.faults.add(
        faults.error(TIMED_OUT, api=["Produce", "Fetch"], version=(3, 9), topic="orders", client_id="wirebroker-conformance")
    )
    first, second = RawProducer(kafka), RawProducer(kafka, "other")
    assert first.send(0, version=9).error_code == TIMED_OUT
    assert first.send(0, version=10).error_code != TIMED_OUT
    second.wire = WireClient(*second.wire.address)
    second.send(0)
    assert (rule.seen, rule.fired) == (1, 1)


@pytest.mark.parametrize(
    ("options", "fired"),
    [
        ({"nth": 3}, [3]),
        ({"nth": [1, 4]}, [1, 4]),
        ({"every": 2}, [2, 4, 6]),
        ({"times": 2}, [1, 2]),
        ({"every": 2, "times": 2}, [2, 4]),
        ({}, [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_counting_words_choose_the_matched_requests(mock_kafka: MockKafka, options: dict[str, Any], fired: list[int]) -> None:
    rule = mock_kafka.faults.add(faults.error(TIMED_OUT, api="InitProducerId", **options))
    dialogue = Dialogue(mock_kafka)
    for number in range(1, 7):
        dialogue >> INIT_PRODUCER_ID << answered(error_code=TIMED_OUT if number in fired else 0)
    assert (rule.seen, rule.fired) == (6, len(fired))


def test_the_names_of_a_groups_protocols_do_not_match_as_topics(mock_kafka: MockKafka) -> None:
    rule = mock_kafka.faults.add(faults.error(TIMED_OUT, topic="range"))
    asked = join_group("team", "", [("range", b"")], session_ms=6000, rebalance_ms=6000)
    client(mock_kafka).request(asked, 3)
    assert rule.seen == 0


def test_the_same_seed_matches_the_same_requests(mock_kafka_factory: Any) -> None:
    def run(seed: int) -> list[int]:
        kafka = mock_kafka_factory(random_seed=seed)
        kafka.faults.add(faults.error(TIMED_OUT, api="InitProducerId", probability=0.5))
        wire = client(kafka)
        return [wire.request(INIT_PRODUCER_ID, 4).error_code for _ in range(40)]

    assert run(1) == run(1) != run(2)
    assert 5 < run(1).count(TIMED_OUT) < 35


def test_a_rule_that_never_fired_fails_the_test(mock_kafka: MockKafka) -> None:
    rule = mock_kafka.faults.add(faults.lose_ack(api="Produce", topic="nothing"))
    RawProducer(mock_kafka).send(0)
    with pytest.raises(NotFired, match=r"lose_ack\(api=Produce, topic=nothing.*did not fire at all: it fired on 0 of 0"):
        rule.assert_fired()
    with pytest.raises(NotFired):
        mock_kafka.faults.assert_fired()
    mock_kafka.faults.remove(rule)
    mock_kafka.faults.assert_fired()


def test_a_rule_that_never_fired_lists_what_came_instead(mock_kafka: MockKafka) -> None:
    """The message counts all requests that arrived. If a request nearly matched, it says why the request did not match, and
    suggests a similar name."""
    wrong = mock_kafka.faults.add(faults.lose_ack(api="Produce", topic="oders", partition=0))
    later = mock_kafka.faults.add(faults.lose_ack(api="Fetch", topic="orders"))
    with pytest.raises(NotFired, match="no request has arrived since the rule was loaded"):
        wrong.assert_fired()
    producer = RawProducer(mock_kafka)
    producer.send(0)
    producer.send(1)
    arrived = r"since the rule was loaded, 3 requests arrived: 2 Produce, 1 InitProducerId$"
    with pytest.raises(
        NotFired, match=rf"rule; 2 Produce differed only in topic, which was 'orders'; did you mean 'orders'\?; {arrived}"
    ):
        wrong.assert_fired()
    with pytest.raises(NotFired, match=rf"no request matched this rule; {arrived}"):
        later.assert_fired()


def test_the_misses_of_a_rule_name_groups_and_transactions(mock_kafka: MockKafka) -> None:
    rules = [faults.error(TIMED_OUT, api="InitProducerId", transactional_id="tlil"), faults.delay(5, group="taem")]
    for rule in rules:
        mock_kafka.faults.add(rule)
    wire = client(mock_kafka)
    wire.request(init_producer_id("till", 1000), 4)
    wire.request(heartbeat("team", "m", 1), 3)
    with pytest.raises(
        NotFired, match=r"1 InitProducerId differed only in transactional_id, which was 'till'; did you mean 'till'\?"
    ):
        rules[0].assert_fired()
    with pytest.raises(NotFired, match=r"1 Heartbeat differed only in group, which was 'team'; did you mean 'team'\?"):
        rules[1].assert_fired()


def test_held_requests_go_on_when_the_rules_are_cleared(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.reorder(99, api="Produce"))
    dialogue = Dialogue(mock_kafka) >> tagged("held")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    mock_kafka.faults.clear()
    dialogue << accepted(at=0)
    assert mock_kafka.faults.rules == []


@pytest.mark.parametrize("unload", ["remove", "clear"])
@pytest.mark.parametrize(
    "rule",
    [
        faults.reorder(99, api="Produce"), faults.delay(60_000, api="Produce"), faults.slow_write(60_000),
        faults.delay(60_000, api="Produce", after=True),
    ],
    ids=str,
)  # fmt: skip
def test_held_requests_go_on_when_their_rule_is_unloaded(mock_kafka: MockKafka, rule: faults.Rule, unload: str) -> None:
    rule.seen = rule.fired = 0
    mock_kafka.faults.add(rule)
    dialogue = Dialogue(mock_kafka) >> tagged("held")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    mock_kafka.faults.clear() if unload == "clear" else mock_kafka.faults.remove(rule)
    dialogue << accepted(at=0)
    mock_kafka.clock.advance(minutes=2)
    dialogue >> tagged("next") << accepted(at=1)


def test_an_unloaded_rule_fires_no_more(mock_kafka: MockKafka) -> None:
    """A removed rule does not fire, not even for requests that another rule is still delaying."""
    mock_kafka.faults.add(faults.delay(60_000, api="Produce", nth=1))
    behind = [mock_kafka.faults.add(each) for each in (faults.fail_write(nth=1), faults.lose_ack(api="Produce", nth=1))]
    dialogue = Dialogue(mock_kafka) >> tagged("held")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    for rule in behind:
        mock_kafka.faults.remove(rule)
    mock_kafka.clock.advance(minutes=1)
    dialogue << accepted(at=0)
    assert [rule.fired for rule in behind] == [0, 0]


@pytest.mark.parametrize(
    "rule", [faults.delay(60_000, api="Produce"), faults.slow_write(60_000), faults.reorder(1, api="Produce")], ids=str
)
def test_a_held_request_is_handled_although_its_client_has_gone(mock_kafka: MockKafka, rule: faults.Rule) -> None:
    rule.seen = rule.fired = 0
    mock_kafka.faults.add(rule)
    lost = mock_kafka.faults.add(faults.lose_ack(api="Produce", nth=1))
    dialogue = Dialogue(mock_kafka) >> tagged("late")
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    dialogue.close()
    mock_kafka.wait_until(lambda: mock_kafka._call(lambda engine: not engine.connections))
    mock_kafka.clock.advance(minutes=1)
    Dialogue(mock_kafka) >> MetadataRequest(topics=[]) << overall(topics=[])
    assert values(mock_kafka) == [b"late0"]
    assert (rule.fired, lost.fired) == (1, 0), "the client had disconnected, so no ack was lost"
    assert [row.kind for row in mock_kafka.trace.faults()] == [rule.kind]


def test_requests_held_back_from_a_killed_broker_are_lost(mock_kafka_factory: Any) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, brokers=2)
    leader = kafka.partition("orders").leader
    slow = kafka.faults.add(faults.slow_write(60_000, nth=1))
    kafka.faults.add(faults.delay(60_000, api="Produce", nth=2))
    failing = kafka.faults.add(faults.fail_write(nth=2))
    for tag in ("slow", "late"):
        Dialogue(kafka, leader - 1) >> tagged(tag)
        kafka.wait_until(lambda tag=tag: len(kafka.trace.faults()) == ("slow", "late").index(tag) + 1)
    kafka.kill_broker(leader)
    kafka.start_broker(leader)
    kafka.clock.advance(minutes=1)
    assert values(kafka) == []
    assert (slow.fired, failing.fired) == (1, 0)
    Dialogue(kafka, leader - 1) >> tagged("new") << accepted(at=0)


def test_requests_that_wait_for_a_slow_write_are_lost_when_their_broker_is_killed(mock_kafka_factory: Any) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, brokers=2)
    leader = kafka.partition("orders").leader
    kafka.faults.add(faults.slow_write(60_000, nth=1))
    failing = kafka.faults.add(faults.fail_write(nth=2))
    elsewhere = Dialogue(kafka, 2 - leader)
    dialogues = []
    for tag in ("slow", "behind", "elsewhere"):
        dialogues.append((elsewhere if tag == "elsewhere" else Dialogue(kafka, leader - 1)) >> tagged(tag))
        kafka.wait_until(lambda: kafka.faults.rules[0].seen == len(dialogues))
    kafka.kill_broker(leader)
    assert values(kafka) == []
    assert failing.fired == 0
    elsewhere << refused(NOT_LEADER)


@pytest.mark.parametrize("crash", [{"nth": 1}, {"nth": 2}], ids=str)
def test_requests_that_wait_for_a_slow_write_are_lost_when_it_or_another_of_them_crashes_the_broker(
    mock_kafka: MockKafka, crash: dict[str, int]
) -> None:
    slow = mock_kafka.faults.add(faults.slow_write(60_000, nth=1))
    mock_kafka.faults.add(faults.crash_after_write(**crash))
    for number, tag in enumerate("abc", 1):
        Dialogue(mock_kafka) >> tagged(tag)
        mock_kafka.wait_until(lambda number=number: slow.seen == number)
    mock_kafka.clock.advance(minutes=1)
    assert values(mock_kafka) == [b"a0", b"b0"][: crash["nth"]]


def test_a_slow_write_that_another_rule_refuses_delays_nothing(mock_kafka: MockKafka) -> None:
    """The requests that wait for the slow write of another request continue to wait for it."""
    mock_kafka.faults.add(faults.slow_write(60_000, topic="orders", partition=0))
    error = mock_kafka.faults.add(faults.error("NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0, api="Produce", nth=3))
    dialogues = []
    for number, tag in enumerate("ab", 1):
        dialogues.append(Dialogue(mock_kafka) >> tagged(tag))
        mock_kafka.wait_until(lambda number=number: error.seen == number)
    parts = [PartitionProduceData(index=index, records=batch(tag="c")) for index in (0, 1)]
    data = [TopicProduceData(name="orders", partition_data=parts)]
    Dialogue(mock_kafka) >> ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data) << each(error_code=[0, NOT_LEADER])
    mock_kafka.clock.advance(minutes=1)
    dialogues[0] << accepted(at=0)
    mock_kafka.clock.advance(minutes=1)
    dialogues[1] << accepted(at=1)


def test_a_write_that_another_rule_refuses_does_not_crash_the_broker(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.crash_after_write(nth=1))
    mock_kafka.faults.add(faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", nth=1))
    Dialogue(mock_kafka) >> tagged("a") << refused(NOT_LEADER) >> tagged("b") << accepted(at=0)


@pytest.mark.parametrize(
    "rule", [faults.restart(api="OffsetFetch"), faults.upgrade("kafka-4.3", api="OffsetFetch")], ids=lambda rule: rule.kind
)
def test_a_fault_restarts_the_broker_at_a_request_that_a_thread_decodes(mock_kafka_factory: Any, rule: faults.Rule) -> None:
    rule.seen = rule.fired = 0
    kafka = mock_kafka_factory(topics={"orders": 1}, profile="kafka-4.1", trace="all")
    kafka.faults.add(rule)
    many = plain("OffsetFetch", group_id="team", topics=named(map(str, range(2 * FEW_ELEMENTS)), partition_indexes=[0]))
    Dialogue(kafka) >> (many, 7) << CLOSED
    assert [row.mode for row in kafka.trace.events("restart")] == ["clean"]
    assert rule.fired == 1
    Dialogue(kafka) >> tagged("a") << accepted(at=0)


# What counts


def test_a_rule_that_is_loaded_twice_acts_once(mock_kafka: MockKafka) -> None:
    rule = faults.error(TIMED_OUT, api="Produce", nth=2)
    for _ in range(2):
        mock_kafka.faults.add(rule)
    Dialogue(mock_kafka) >> tagged("v") << accepted(at=0) >> tagged("v") << refused(TIMED_OUT)
    assert mock_kafka.faults.rules == [rule]


def test_a_rule_that_finds_nothing_to_do_has_not_fired(mock_kafka: MockKafka) -> None:
    rules = [
        mock_kafka.faults.add(each)
        for each in (
            faults.truncate(50, topic="orders", partition=0, api="Produce"), faults.expire_producer(api="Produce"),
            faults.expire_transactional_id("till", api="Produce"), faults.corrupt(at=10_000, api="Produce"),
            faults.slice(10_000, api="Produce"), faults.throttle(500, api="ApiVersions", version=0),
            faults.truncate(0, topic="orders", partition=0, api="Produce"),
        )
    ]  # fmt: skip
    Dialogue(mock_kafka) >> tagged("v") << accepted(at=0) >> (ApiVersionsRequest(), 0) << answered(error_code=0)
    assert [rule.fired for rule in rules] == [0] * len(rules)
    assert all(rule.seen for rule in rules if rule.match.transactional_id is None)
    assert mock_kafka.trace.faults() == []


def test_nothing_else_matches_a_lost_response(mock_kafka: MockKafka) -> None:
    rules = [
        mock_kafka.faults.add(each)
        for each in (faults.lose_ack(api="Produce"), faults.corrupt(api="Produce"), faults.throttle(5, api="Produce"))
    ]
    Dialogue(mock_kafka) >> tagged("v") << CLOSED
    assert [rule.fired for rule in rules] == [1, 0, 0]
    assert [row.kind for row in mock_kafka.trace.faults()] == ["lose_ack"]


def test_delays_of_a_response_add_up(mock_kafka_factory: Any) -> None:
    kafka = mock_kafka_factory(clock="frozen", topics={"orders": 1})
    rules = [kafka.faults.add(faults.delay(ms, api="Produce", after=True)) for ms in (100, 200)]
    dialogue = Dialogue(kafka) >> tagged("v")
    kafka.wait_for_records("orders", 1)
    for advance in (100, 199):
        kafka.clock.advance(milliseconds=advance)
        assert somebody_waits(kafka)
    kafka.clock.advance(milliseconds=1)
    dialogue << accepted(at=0)
    assert [rule.fired for rule in rules] == [1, 1]


def somebody_waits(kafka: MockKafka) -> bool:
    return kafka._call(lambda engine: any(connection.parked for connection in engine.connections))


def test_a_delayed_response_counts_from_when_it_is_made(mock_kafka_factory: Any) -> None:
    kafka = mock_kafka_factory(clock="frozen", topics={"orders": 1})
    late = kafka.faults.add(faults.delay(400, api="Fetch", after=True))
    dialogue = Dialogue(kafka) >> fetch(wait_ms=500)
    kafka.wait_until(lambda: late.fired == 1)
    for advance in (500, 399):
        kafka.clock.advance(milliseconds=advance)
        assert somebody_waits(kafka)
    kafka.clock.advance(milliseconds=1)
    dialogue << answered(error_code=0)


def test_a_response_that_is_never_made_is_not_lost(mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_ack(api="Fetch"))
    dialogue = Dialogue(mock_kafka) >> fetch(wait_ms=60_000)
    mock_kafka.wait_until(lambda: lost.seen == 1)
    dialogue.close()
    mock_kafka.wait_until(lambda: mock_kafka._call(lambda engine: not engine.connections))
    assert (lost.fired, mock_kafka.trace.faults()) == (0, [])


def test_each_firing_is_a_line_of_the_trace(mock_kafka: MockKafka) -> None:
    rule = mock_kafka.faults.add(faults.error(TIMED_OUT, api="Produce"))
    parts = [PartitionProduceData(index=index, records=batch()) for index in range(2)]
    client(mock_kafka).request(
        ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="orders", partition_data=parts)]), 9
    )
    assert rule.fired == 2
    rows = mock_kafka.trace.faults()
    assert [(row.partitions, row.number) for row in rows] == [(("orders-0",), 1), (("orders-1",), 2)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: faults.lose_ack(api="Prodduce"), "there is no API 'Prodduce'; did you mean 'Produce'"),
        (lambda: faults.lose_ack(topik="a"), "lose_ack has no option 'topik'; did you mean 'topic'"),
        (lambda: faults.lose_ack(nth=1, every=2), "nth and every contradict each other; give one of them"),
        (lambda: faults.lose_ack(nth=0), "nth must be a whole number of at least 1, or a list of 1 or more of them, not 0"),
        (lambda: faults.lose_ack(api="Fetch", sequence=3), "only Produce has sequences"),
        (lambda: faults.lose_ack(api=["Fetch", "Metadata"], group="a"), "requests of Fetch, Metadata have no group"),
        (lambda: faults.lose_ack(api="Produce", group="a"), "requests of Produce have no group"),
        (lambda: faults.lose_ack(api="Heartbeat", producer_id=1), "requests of Heartbeat have no producer_id"),
        (lambda: faults.lose_ack(api="Fetch", transactional_id="t"), "requests of Fetch have no transactional_id"),
        (lambda: faults.lose_ack(version=(9, 3)), "version from 9 to 3 is empty"),
        (lambda: faults.lose_ack(probability=0), "probability must be a number greater than 0 and at most 1, not 0"),
        (lambda: faults.lose_ack(then="explode"), "then must be 'disconnect' or 'silence', not 'explode'"),
        (lambda: faults.error("NO_SUCH"), "Kafka has no error 'NO_SUCH'$"),
        (lambda: faults.delay(0), "delay: ms must be a whole number of at least 1, not 0"),
        (lambda: faults.error(40_000), "code must be a whole number from -32768 to 32767, or a text, not 40000"),
        (lambda: faults.throttle(0), "from 1 to 2147483647, not 0"),
        (lambda: faults.throttle(2**31), "from 1 to 2147483647, not 2147483648"),
        (lambda: faults.lose_ack(partition=-7), "partition must be a whole number of at least 0, not -7"),
        (lambda: faults.lose_ack(partition="0"), "partition must be a whole number of at least 0, not '0'"),
        (lambda: faults.lose_ack(api="Produce", version=99), "there is no version 99 of Produce; the newest is 13"),
        (
            lambda: faults.lose_ack(version=(3, 5, 9)),
            r"version must be a whole number, or a list of 1 to 2 of them, not \(3, 5, 9\)",
        ),
        (lambda: faults.lose_ack(version=[]), r"version must be .*, not \[\]"),
        (lambda: faults.lose_ack(api=[]), r"api must be a text, or a list of 1 or more of them, not \[\]"),
        (lambda: faults.lose_ack(nth=[]), r"nth must be .*, not \[\]"),
        (lambda: faults.lose_ack(nth=2.0), "nth must be .*, not 2.0"),
        (lambda: faults.lose_ack(nth=True), "nth must be .*, not True"),
        (lambda: faults.lose_ack(api=5), "api must be .*, not 5"),
        (lambda: faults.lose_ack(topic=["a", "b"]), r"topic must be a text, not \['a', 'b'\]"),
    ],
)
def test_a_rule_that_can_never_match_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_trace_names_what_fired(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.error(TIMED_OUT, topic="orders", partition=0))
    RawProducer(mock_kafka).send(0)
    (row,) = mock_kafka.trace.faults()
    assert (row.api, row.kind, row.partitions, row.number) == ("Produce", "error", (), 1)
    assert "orders" in row.rule


# Real clients


def test_b2_kafka_python_recovers_from_a_lost_acknowledgement(mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=2))
    producer = kafka_python.KafkaProducer(bootstrap_servers=mock_kafka.bootstrap_servers)
    offsets = [producer.send("orders", b"%d" % i, partition=0).get(10).offset for i in range(4)]
    producer.close()
    lost.assert_fired(1)
    assert offsets == [0, 1, 2, 3]
    assert values(mock_kafka) == [b"0", b"1", b"2", b"3"]
    assert "duplicate" in [row.verdict for row in mock_kafka.trace.produce()]


def test_b7_without_idempotence_the_same_fault_stores_the_record_twice(mock_kafka: MockKafka) -> None:
    mock_kafka.faults.add(faults.lose_ack(api="Produce", nth=1))
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": mock_kafka.bootstrap_servers, "enable.idempotence": False, "retry.backoff.ms": 10, "log_level": 0}
    )
    producer.produce("orders", b"once", partition=0)
    assert producer.flush(10) == 0
    assert values(mock_kafka) == [b"once", b"once"]


# State


@pytest.mark.mock_kafka(brokers=2, topics=["orders", "copied:1:rf=2"])
@pytest.mark.parametrize("topic", ["orders", "copied"])
def test_a_leader_moves_before_the_request_is_handled(mock_kafka: MockKafka, topic: str) -> None:
    leader = mock_kafka.partition(topic).leader
    here, there = leader - 1, 2 - leader
    moved = mock_kafka.faults.add(faults.move_leader(api="Produce", topic=topic, nth=2))
    script = Dialogue(mock_kafka, here, producer_id=7)
    script >> seq(0, topic=topic) << accepted(at=0) >> seq(1, topic=topic) << refused(NOT_LEADER)
    Dialogue(mock_kafka, there, producer_id=7) >> seq(1, topic=topic) << accepted(at=1)
    assert mock_kafka.partition(topic).leader == 3 - leader
    moved.assert_fired(1)


def test_the_only_broker_leads_on(mock_kafka: MockKafka) -> None:
    mock_kafka.warm()
    rules = [mock_kafka.faults.add(each) for each in (faults.move_leader(), faults.move_coordinator())]
    Dialogue(mock_kafka) >> tagged("v") << accepted(at=0)
    member = ClassicMember(mock_kafka)
    member.join()
    assert [rule.fired for rule in rules] == [0, 0]


@pytest.mark.mock_kafka(brokers=2, topics="orders")
def test_a_coordinator_moves_and_the_transaction_goes_on(mock_kafka: MockKafka) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": mock_kafka.bootstrap_servers, "transactional.id": "till"})
    moved = mock_kafka.faults.add(faults.move_coordinator(api="EndTxn", nth=1))
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"sold")
    producer.commit_transaction(10)
    moved.assert_fired(1)
    assert [record.value for record in mock_kafka.records("orders", committed=True)] == [b"sold"]


def test_the_session_of_a_classic_member_ends(mock_kafka: MockKafka) -> None:
    mock_kafka.warm()
    first, second = ClassicMember(mock_kafka), ClassicMember(mock_kafka)
    ended = mock_kafka.faults.add(faults.expire_member(api="Heartbeat", nth=2))
    first.join()
    assert first.sync({first.member: b"all"})[0] == 0
    assert [first.heartbeat(), first.heartbeat()] == [0, UNKNOWN_MEMBER_ID]
    assert second.join().leader == second.member  # the join completes without waiting for the first member
    ended.assert_fired(1)


def test_the_session_of_a_consumer_ends(mock_kafka: MockKafka) -> None:
    mock_kafka.warm()
    member = Member(mock_kafka, "a")
    assert member.join("orders") == {"orders": [0, 1, 2]}
    ended = mock_kafka.faults.add(faults.expire_member(api="ConsumerGroupHeartbeat"))
    assert member.fault(member.epoch) == UNKNOWN_MEMBER_ID
    ended.assert_fired(1)


@pytest.mark.parametrize("clock", ["system", "frozen"])
def test_time_jumps_before_the_request_is_handled(mock_kafka_factory: Any, clock: str) -> None:
    kafka = mock_kafka_factory(topics="orders", clock=clock)
    producer = TransactionalProducer(kafka)
    producer.init()
    began = kafka.clock.now()
    jump = kafka.faults.add(faults.advance(120_000, api="EndTxn"))
    producer.send("v")
    assert producer.end() == INVALID_TXN_STATE  # the transaction has timed out
    assert kafka.clock.now() - began >= 120_000
    assert kafka.records("orders", committed=True) == []
    jump.assert_fired(1)


def test_without_rules_the_fast_path_is_taken(mock_kafka: MockKafka) -> None:
    """If no rule is loaded, Produce takes the fast path, which has no code for faults."""
    rule = mock_kafka.faults.add(faults.delay(1, api="Fetch"))
    assert mock_kafka._call(lambda engine: engine.faults is not None)
    mock_kafka.faults.remove(rule)
    assert mock_kafka._call(lambda engine: engine.faults is None)
    producer = RawProducer(mock_kafka)
    for sequence in itertools.islice(itertools.count(), 5):
        assert producer.send(sequence).error_code == 0
