"""The promises of the idempotence contract, each shown over TCP. Test names carry the ids of the behaviours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kafka
import pytest

from answers import only
from kafkawire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkawire.messages.delete_topics import DeleteTopicsRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from wirebroker.mock import MockKafka
from wirekit import RawProducer, batch, client, produce_request

MAX = 2**31 - 1
OUT_OF_ORDER, FENCED, UNKNOWN_PRODUCER = 45, 47, 59
FLOW = {"A": (114, 120), "B": (121, 124), "C": (125, 132), "D": (133, 142), "E": (143, 150), "F": (151, 155)}


@pytest.fixture
def broker(mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 2})


@pytest.fixture
def producer(broker: MockKafka) -> RawProducer:
    return RawProducer(broker)


def decided(answer: Any) -> tuple[int, int]:
    return answer.error_code, answer.base_offset


def sequences(broker: MockKafka, partition: int = 0) -> list[int]:
    return [record.sequence for record in broker.records("orders", partition)]


def test_a1_ids_are_unique_and_come_in_blocks_of_1000_per_broker(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory(brokers=3)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    wires = [client(broker, node) for node in range(3)]
    given = [wire.request(request, 4) for _ in range(2) for wire in wires]
    assert [answer.producer_id for answer in given] == [0, 1000, 2000, 1, 1001, 2001]
    assert {answer.producer_epoch for answer in given} == {0}
    broker.restart("kill")
    assert client(broker).request(request, 4).producer_id == 3000


def test_a2_record_i_has_sequence_base_plus_i(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(0, 3)
    stored = broker.records("orders")
    assert [(r.producer_id, r.producer_epoch, r.sequence) for r in stored] == [(producer.pid, 0, i) for i in range(4)]


def test_a3_the_next_in_order_is_acknowledged_with_its_base_offset(producer: RawProducer) -> None:
    assert [decided(producer.send(*pair)) for pair in ((0, 2), (3, 3), (4, 9))] == [(0, 0), (0, 3), (0, 4)]


@pytest.mark.parametrize("version", range(3, 13))
def test_a4_a_retry_is_answered_with_its_original_offset(broker: MockKafka, producer: RawProducer, version: int) -> None:
    for first in range(0, 10, 2):
        producer.send(first, first + 1, version=version)
    for first in (8, 0, 4, 2, 6):
        assert decided(producer.send(first, first + 1, version=version)) == (0, first)
    assert sequences(broker) == list(range(10))


def test_a5_a_gap_is_rejected_and_healed_by_the_missing_batch(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(0, 2)
    assert decided(producer.send(5, 6)) == (OUT_OF_ORDER, -1)
    assert sequences(broker) == [0, 1, 2]
    assert decided(producer.send(3, 4)) == (0, 3)
    assert decided(producer.send(5, 6)) == (0, 5)


def test_a6_a_retry_older_than_five_batches_is_rejected(producer: RawProducer) -> None:
    for first in range(6):
        producer.send(first)
    assert decided(producer.send(0)) == (OUT_OF_ORDER, -1)
    assert decided(producer.send(1)) == (0, 1)


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (2, 4), (0, 4), (0, 5), (3, 9)], ids=str)
def test_a7_a_batch_is_judged_as_a_whole(broker: MockKafka, producer: RawProducer, pair: tuple[int, int]) -> None:
    producer.send(0, 2)
    producer.send(3, 5)
    if pair == (0, 5):
        assert decided(producer.send(0, 2)) == (0, 0)
    assert decided(producer.send(*pair)) == (OUT_OF_ORDER, -1)
    assert sequences(broker) == [0, 1, 2, 3, 4, 5]


def test_a8_a_higher_epoch_begins_at_zero_and_clears_the_window(producer: RawProducer) -> None:
    producer.send(0, 2)
    assert decided(producer.send(3, epoch=1)) == (OUT_OF_ORDER, -1)
    assert decided(producer.send(3)) == (0, 3), "the rejected epoch changed nothing"
    assert decided(producer.send(0, epoch=1)) == (0, 4)
    assert decided(producer.send(0, 2, epoch=1)) == (OUT_OF_ORDER, -1)


def test_a9_a_lower_epoch_is_fenced(producer: RawProducer) -> None:
    producer.send(0, epoch=3)
    assert decided(producer.send(1, epoch=2)) == (FENCED, -1)
    assert decided(producer.send(0, epoch=2)) == (FENCED, -1)


def test_a10_producers_and_partitions_are_independent(broker: MockKafka) -> None:
    first, second = RawProducer(broker), RawProducer(broker)
    elsewhere = RawProducer(broker, partition=1)
    elsewhere.pid = first.pid
    assert [decided(p.send(0)) for p in (first, second, elsewhere)] == [(0, 0), (0, 1), (0, 0)]
    assert decided(first.send(5))[0] == OUT_OF_ORDER
    assert [decided(p.send(1)) for p in (second, elsewhere)] == [(0, 2), (0, 1)]


def test_a11_duplicates_and_rejections_move_neither_end_nor_size(broker: MockKafka, producer: RawProducer) -> None:
    def size_and_end() -> tuple[int, int]:
        size = broker._call(lambda engine: engine.cluster.topics["orders"].partitions[0].log.size)
        return size, broker.partition("orders").log_end_offset

    producer.send(0, 2)
    before = size_and_end()
    producer.send(0, 2)
    producer.send(7)
    producer.send(0, epoch=-2)
    assert size_and_end() == before
    assert decided(producer.send(3)) == (0, 3)


def test_a12_the_largest_sequence_is_followed_by_zero(producer: RawProducer) -> None:
    assert decided(producer.send(MAX)) == (0, 0)
    assert decided(producer.send(0)) == (0, 1)


def test_a12_a_batch_wraps_around_inside(broker: MockKafka, producer: RawProducer) -> None:
    data = batch(MAX - 1, 4, pid=producer.pid, epoch=0)
    assert decided(producer.raw(data)) == (0, 0)
    assert sequences(broker) == [MAX - 1, MAX, 0, 1]
    assert decided(producer.raw(data)) == (0, 0)
    assert decided(producer.send(2)) == (0, 4)


def on(profile: str, factory: Callable[..., MockKafka], **rules: Any) -> tuple[MockKafka, RawProducer]:
    broker = factory(topics={"orders": 1}, profile=profile, rules=rules)
    return broker, RawProducer(broker)


def test_a13_textbook_refuses_unissued_ids_and_first_sequences_other_than_zero(
    mock_kafka_factory: Callable[..., MockKafka],
) -> None:
    _, producer = on("textbook", mock_kafka_factory)
    assert decided(producer.send(5)) == (OUT_OF_ORDER, -1)
    assert decided(producer.send(0)) == (0, 0)
    producer.pid = 4711
    assert decided(producer.send(0)) == (UNKNOWN_PRODUCER, -1)


def test_a14_single_remembers_one_batch_and_refuses_after_a_gap(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("single", mock_kafka_factory)
    producer.send(0, 1)
    producer.send(2, 3)
    assert decided(producer.send(2, 3)) == (0, 2)
    assert decided(producer.send(9)) == (OUT_OF_ORDER, -1)
    assert decided(producer.send(4)) == (OUT_OF_ORDER, -1), "refused until it has a new id"
    assert decided(producer.send(2, 3)) == (0, 2), "but the last batch is still known"
    assert decided(RawProducer(broker).send(0)) == (0, 4)


def test_a14b_highest_takes_any_lower_sequence_for_a_duplicate(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("highest", mock_kafka_factory)
    for first in range(8):
        producer.send(first)
    assert decided(producer.send(0)) == (0, -1)
    assert decided(producer.send(7)) == (0, 7)
    assert decided(producer.send(9)) == (OUT_OF_ORDER, -1)
    assert sequences(broker) == list(range(8))


def test_a15_pulsar_drops_ids_at_or_below_the_highest_and_accepts_gaps(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("pulsar", mock_kafka_factory)
    producer.pid = -1
    assert decided(producer.send(10)) == (0, 0)
    assert decided(producer.send(10)) == (0, -1)
    assert decided(producer.send(3)) == (0, -1)
    assert decided(producer.send(99)) == (0, 1), "gaps are accepted"
    broker.restart()
    again = RawProducer(broker)
    again.pid = -1
    assert decided(again.send(99)) == (0, -1), "the name is known after its restart"
    assert sequences(broker) == [10, 99]


@pytest.mark.parametrize("window", [1, 3, 10])
def test_a16_the_window_is_a_setting(mock_kafka_factory: Callable[..., MockKafka], window: int) -> None:
    _, producer = on("kafka-4.3", mock_kafka_factory, window=window)
    for first in range(12):
        producer.send(first)
    answers = [decided(producer.send(first))[0] for first in range(12)]
    assert answers == [OUT_OF_ORDER] * (12 - window) + [0] * window


def test_a17_validation_comes_before_deduplication(broker: MockKafka, producer: RawProducer) -> None:
    good = batch(0, 2, pid=producer.pid, epoch=0)
    assert decided(producer.raw(good)) == (0, 0)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    assert decided(producer.raw(damaged)) == (2, -1)
    assert decided(producer.raw(good + good)) == (87, -1)
    assert decided(producer.raw(good[:40])) == (87, -1)
    late = batch(0, 2, pid=producer.pid, epoch=0, timestamp=4_000_000_000_000)
    assert decided(producer.raw(late)) == (32, -1)
    assert decided(producer.raw(None)) == (87, -1), "Kafka never answers this one"
    assert decided(producer.raw(good)) == (0, 0)
    assert len(broker.records("orders", 0)) == 2


def test_a18_acks_other_than_all_are_marked_in_the_trace(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(0, acks=1)
    producer.send(1, acks=-1)
    producer.raw(batch(), acks=1)
    assert [row.note for row in broker.trace.produce("orders")] == ["idempotent with acks=1", "", ""]


def test_b1_all_batches_are_acknowledged_in_order(broker: MockKafka, producer: RawProducer) -> None:
    assert [decided(producer.send(*FLOW[name])) for name in "ABCDE"] == [(0, 0), (0, 7), (0, 11), (0, 19), (0, 29)]
    assert sequences(broker) == list(range(114, 151))


def test_b2_by_hand_the_retries_of_d_and_e_see_their_original_offsets(broker: MockKafka, producer: RawProducer) -> None:
    told = {name: decided(producer.send(*FLOW[name])) for name in "ABCDE"}
    assert decided(producer.send(*FLOW["D"])) == told["D"]
    assert decided(producer.send(*FLOW["E"])) == told["E"]
    assert sequences(broker) == list(range(114, 151))


def test_b3_by_hand_a_missing_batch_puts_the_next_out_of_order(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(*FLOW["A"])
    producer.send(*FLOW["B"])
    assert [decided(producer.send(*FLOW[name]))[0] for name in "DE"] == [OUT_OF_ORDER] * 2
    assert [decided(producer.send(*FLOW[name]))[0] for name in "CDE"] == [0, 0, 0]
    assert sequences(broker) == list(range(114, 151))


def test_b4_by_hand_a_bumped_epoch_stores_the_duplicate(broker: MockKafka, producer: RawProducer) -> None:
    for name in "ABCDEF":
        producer.send(*FLOW[name])
    assert decided(producer.send(*FLOW["A"])) == (OUT_OF_ORDER, -1)
    assert decided(producer.send(0, 6, epoch=1)) == (0, 42)
    assert sequences(broker)[-7:] == list(range(7))


def test_b7_without_idempotence_the_retry_is_stored_twice(broker: MockKafka) -> None:
    data = batch(count=3)
    wire = client(broker)
    answers = [only(wire.request(produce_request("orders", data), 9)) for _ in range(2)]
    assert [decided(answer) for answer in answers] == [(0, 0), (0, 3)]
    assert [record.value for record in broker.records("orders")] == [b"v0", b"v1", b"v2"] * 2


def test_b7_kafka_python_without_idempotence_stores_the_record_twice(broker: MockKafka) -> None:
    for _ in range(2):  # the application's own retry, after an answer it never saw
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False)
        producer.send("orders", b"once", partition=0).get(10)
        producer.close()
    assert [record.value for record in broker.records("orders")] == [b"once", b"once"]


def delete_records(broker: MockKafka, offset: int) -> tuple[int, int]:
    topic = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    answer = client(broker).request(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    return only(answer).error_code, only(answer).low_watermark


def test_d6_delete_records_keeps_the_state_until_a_restart(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(0, 2)
    assert delete_records(broker, -1) == (0, 3)
    answer = producer.send(0, 2)
    assert (decided(answer), answer.log_start_offset) == ((0, 0), 3)
    assert decided(producer.send(9)) == (OUT_OF_ORDER, -1)
    broker.restart("clean")
    producer.wire.close()
    assert decided(producer.send(9)) == (0, 3), "after a clean restart the producer is unknown"


def test_d6_an_old_broker_forgets_producers_with_their_records(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("kafka-2.3", mock_kafka_factory)
    broker_versions = 7
    producer.send(0, 2, version=broker_versions)
    topic = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    client(broker).request(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 1)
    assert decided(producer.send(3, version=broker_versions)) == (UNKNOWN_PRODUCER, -1)


def test_d6_a_topic_created_again_has_no_producers(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(0, 2)
    producer.wire.request(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 4)
    assert decided(producer.send(3)) == (3, -1)
    broker.create_topic("orders")
    assert decided(producer.send(9)) == (0, 0)


def test_d6_retention_keeps_the_state(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory()
    broker.create_topic("orders", configs={"retention.ms": 60_000})
    producer = RawProducer(broker)
    producer.send(0, 2)
    broker.clock.advance(minutes=10)
    assert broker.records("orders") == []
    answer = producer.send(0, 2)
    assert (decided(answer), answer.log_start_offset) == ((0, 0), 3)


def test_c6_an_expired_producer_is_forgotten_and_its_late_duplicate_stored_again(
    broker: MockKafka, producer: RawProducer
) -> None:
    data = batch(0, 2, pid=producer.pid, epoch=0)
    assert decided(producer.raw(data)) == (0, 0)
    broker.clock.advance(hours=23)
    assert decided(producer.raw(data)) == (0, 0)
    broker.clock.advance(hours=2)
    assert broker.producers("orders", 0) == {}
    assert decided(producer.raw(data)) == (0, 2)


def test_every_verdict_is_explained(broker: MockKafka, producer: RawProducer) -> None:
    producer.send(0, 2)
    producer.send(3, 4)
    producer.send(3, 4)
    producer.send(9)
    producer.send(0, epoch=2)
    producer.send(1, epoch=1)
    who = f"producer {producer.pid}"
    assert [row.explain for row in broker.trace.produce("orders")] == [
        f"stored at offset 0: sequences 0–2 are the first of {who} epoch 0 on orders-0, which has no state here",
        f"stored at offset 3: sequences 3–4 are the next of {who} epoch 0 on orders-0",
        f"duplicate of offset 3: sequences 3–4 of {who} epoch 0 on orders-0 are batch 1 of 2 in the window, counted from "
        "the newest; not stored again",
        f"rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER: expected sequence 5 for {who} epoch 0 on orders-0, got 9; batches in "
        "the window: 0–2 @0, 3–4 @3",
        f"stored at offset 5: sequence 0 is the start of a new epoch of {who} epoch 2 on orders-0",
        f"rejected 47 INVALID_PRODUCER_EPOCH: {who} epoch 1 on orders-0 is fenced: the current epoch is 2; "
        "batches in the window: 0 @5",
    ]
