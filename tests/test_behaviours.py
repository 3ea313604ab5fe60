"""The promises of the idempotence contract, each shown over TCP. Test names carry the ids of the behaviours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kafka
import pytest

from dialogue import ANY_RESPONSE, Dialogue, Response, accepted, answered, refused, seq
from requesting import init_producer_id, plain, produce_request
from responses import only
from wirebroker.mock import MockKafka
from wirekit import batch, client

MAX = 2**31 - 1
OUT_OF_ORDER, FENCED, UNKNOWN_PRODUCER = 45, 47, 59
FLOW = {"A": (114, 120), "B": (121, 124), "C": (125, 132), "D": (133, 142), "E": (143, 150), "F": (151, 155)}
OFFSETS = {"A": 0, "B": 7, "C": 11, "D": 19, "E": 29}


@pytest.fixture
def broker(mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 2})


@pytest.fixture
def producer(broker: MockKafka) -> Dialogue:
    return Dialogue(broker)


def rejected(code: int) -> Response:
    return refused(code, base_offset=-1)


def sequences(broker: MockKafka, partition: int = 0) -> list[int]:
    return [record.sequence for record in broker.records("orders", partition)]


def test_a1_ids_are_unique_and_come_in_blocks_of_1000_per_broker(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory(brokers=3)
    request = init_producer_id(None, 1000)
    wires = [client(broker, node) for node in range(3)]
    given = [wire.request(request, 4) for _ in range(2) for wire in wires]
    assert [response.producer_id for response in given] == [0, 1000, 2000, 1, 1001, 2001]
    assert {response.producer_epoch for response in given} == {0}
    broker.restart("kill")
    assert client(broker).request(request, 4).producer_id == 3000


def test_a2_record_i_has_sequence_base_plus_i(broker: MockKafka, producer: Dialogue) -> None:
    producer >> seq(0, 3) << ANY_RESPONSE
    stored = broker.records("orders")
    assert [(r.producer_id, r.producer_epoch, r.sequence) for r in stored] == [(producer.producer_id, 0, i) for i in range(4)]


def test_a3_the_next_in_order_is_acknowledged_with_its_base_offset(producer: Dialogue) -> None:
    producer >> seq(0, 2) << accepted(at=0) >> seq(3) << accepted(at=3) >> seq(4, 9) << accepted(at=4)


@pytest.mark.parametrize("version", range(3, 13))
def test_a4_a_retry_is_answered_with_its_original_offset(broker: MockKafka, producer: Dialogue, version: int) -> None:
    for first in range(0, 10, 2):
        producer >> (seq(first, first + 1), version) << ANY_RESPONSE
    for first in (8, 0, 4, 2, 6):
        producer >> (seq(first, first + 1), version) << accepted(at=first)
    assert sequences(broker) == list(range(10))


def test_a5_a_gap_is_rejected_and_healed_by_the_missing_batch(broker: MockKafka, producer: Dialogue) -> None:
    producer >> seq(0, 2) << ANY_RESPONSE
    producer >> seq(5, 6) << rejected(OUT_OF_ORDER)
    assert sequences(broker) == [0, 1, 2]
    producer >> seq(3, 4) << accepted(at=3)
    producer >> seq(5, 6) << accepted(at=5)


def test_a6_a_retry_older_than_five_batches_is_rejected(producer: Dialogue) -> None:
    for first in range(6):
        producer >> seq(first) << ANY_RESPONSE
    producer >> seq(0) << rejected(OUT_OF_ORDER)
    producer >> seq(1) << accepted(at=1)


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (2, 4), (0, 4), (0, 5), (3, 9)], ids=str)
def test_a7_a_batch_is_judged_as_a_whole(broker: MockKafka, producer: Dialogue, pair: tuple[int, int]) -> None:
    producer >> seq(0, 2) << ANY_RESPONSE
    producer >> seq(3, 5) << ANY_RESPONSE
    if pair == (0, 5):
        producer >> seq(0, 2) << accepted(at=0)
    producer >> seq(*pair) << rejected(OUT_OF_ORDER)
    assert sequences(broker) == [0, 1, 2, 3, 4, 5]


def test_a8_a_higher_epoch_begins_at_zero_and_clears_the_window(producer: Dialogue) -> None:
    producer >> seq(0, 2) << ANY_RESPONSE
    producer >> seq(3, epoch=1) << rejected(OUT_OF_ORDER)
    producer >> seq(3) << accepted(at=3)  # the rejected batch with epoch 1 changed no state
    producer >> seq(0, epoch=1) << accepted(at=4)
    producer >> seq(0, 2, epoch=1) << rejected(OUT_OF_ORDER)


def test_a9_a_lower_epoch_is_fenced(producer: Dialogue) -> None:
    producer >> seq(0, epoch=3) << ANY_RESPONSE
    producer >> seq(1, epoch=2) << rejected(FENCED)
    producer >> seq(0, epoch=2) << rejected(FENCED)


def test_a10_producers_and_partitions_are_independent(broker: MockKafka) -> None:
    first, second = Dialogue(broker), Dialogue(broker)
    first >> seq(0) << accepted(at=0)
    second >> seq(0) << accepted(at=1)
    first >> seq(0, partition=1) << accepted(at=0) >> seq(5) << rejected(OUT_OF_ORDER)
    second >> seq(1) << accepted(at=2)
    first >> seq(1, partition=1) << accepted(at=1)


def test_a11_duplicates_and_rejections_move_neither_end_nor_size(broker: MockKafka, producer: Dialogue) -> None:
    def size_and_end() -> tuple[int, int]:
        size = broker._call(lambda engine: engine.cluster.topics["orders"].partitions[0].log.size)
        return size, broker.partition("orders").log_end_offset

    producer >> seq(0, 2) << ANY_RESPONSE
    before = size_and_end()
    producer >> seq(0, 2) << ANY_RESPONSE
    producer >> seq(7) << ANY_RESPONSE
    producer >> seq(0, epoch=-2) << ANY_RESPONSE
    assert size_and_end() == before
    producer >> seq(3) << accepted(at=3)


def test_a12_the_largest_sequence_is_followed_by_zero(producer: Dialogue) -> None:
    producer >> seq(MAX) << accepted(at=0)
    producer >> seq(0) << accepted(at=1)


def test_a12_a_batch_wraps_around_inside(broker: MockKafka, producer: Dialogue) -> None:
    data = batch(MAX - 1, 4, pid=producer.producer_id, epoch=0)
    producer >> produce_request("orders", data) << accepted(at=0)
    assert sequences(broker) == [MAX - 1, MAX, 0, 1]
    producer >> produce_request("orders", data) << accepted(at=0)
    producer >> seq(2) << accepted(at=4)


def on(profile: str, factory: Callable[..., MockKafka], **rules: Any) -> tuple[MockKafka, Dialogue]:
    broker = factory(topics={"orders": 1}, profile=profile, rules=rules)
    return broker, Dialogue(broker)


def test_a13_textbook_refuses_unissued_ids_and_first_sequences_other_than_zero(
    mock_kafka_factory: Callable[..., MockKafka],
) -> None:
    broker, producer = on("textbook", mock_kafka_factory)
    producer >> seq(5) << rejected(OUT_OF_ORDER)
    producer >> seq(0) << accepted(at=0)
    Dialogue(broker, producer_id=4711) >> seq(0) << rejected(UNKNOWN_PRODUCER)


def test_a14_single_remembers_one_batch_and_refuses_after_a_gap(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("single", mock_kafka_factory)
    producer >> seq(0, 1) << ANY_RESPONSE
    producer >> seq(2, 3) << ANY_RESPONSE
    producer >> seq(2, 3) << accepted(at=2)
    producer >> seq(9) << rejected(OUT_OF_ORDER)
    producer >> seq(4) << rejected(OUT_OF_ORDER)  # all later sequences are refused until the producer gets a new id
    producer >> seq(2, 3) << accepted(at=2)  # the broker still knows the last batch
    Dialogue(broker) >> seq(0) << accepted(at=4)


def test_a14b_highest_takes_any_lower_sequence_for_a_duplicate(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("highest", mock_kafka_factory)
    for first in range(8):
        producer >> seq(first) << ANY_RESPONSE
    producer >> seq(0) << accepted(at=-1)
    producer >> seq(7) << accepted(at=7)
    producer >> seq(9) << rejected(OUT_OF_ORDER)
    assert sequences(broker) == list(range(8))


def test_a15_pulsar_drops_ids_at_or_below_the_highest_and_accepts_gaps(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, _ = on("pulsar", mock_kafka_factory)
    producer = Dialogue(broker, producer_id=-1)
    producer >> seq(10) << accepted(at=0)
    producer >> seq(10) << accepted(at=-1)
    producer >> seq(3) << accepted(at=-1)
    producer >> seq(99) << accepted(at=1)  # gaps are accepted
    broker.restart()
    Dialogue(broker, producer_id=-1) >> seq(99) << accepted(at=-1)  # the restarted broker recognises the producer by its name
    assert sequences(broker) == [10, 99]


@pytest.mark.parametrize("window", [1, 3, 10])
def test_a16_the_window_is_a_setting(mock_kafka_factory: Callable[..., MockKafka], window: int) -> None:
    _, producer = on("kafka-4.3", mock_kafka_factory, window=window)
    for first in range(12):
        producer >> seq(first) << ANY_RESPONSE
    for first in range(12):
        producer >> seq(first) << (accepted(at=first) if first >= 12 - window else rejected(OUT_OF_ORDER))


def test_a17_validation_comes_before_deduplication(broker: MockKafka, producer: Dialogue) -> None:
    good = batch(0, 2, pid=producer.producer_id, epoch=0)
    producer >> produce_request("orders", good) << accepted(at=0)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    producer >> produce_request("orders", damaged) << rejected(2)
    producer >> produce_request("orders", good + good) << rejected(87)
    producer >> produce_request("orders", good[:40]) << rejected(87)
    late = batch(0, 2, pid=producer.producer_id, epoch=0, timestamp=4_000_000_000_000)
    producer >> produce_request("orders", late) << rejected(32)
    producer >> produce_request("orders", None) << rejected(87)  # a real Kafka would never respond to this request
    producer >> produce_request("orders", good) << accepted(at=0)
    assert len(broker.records("orders", 0)) == 2


def test_a18_acks_other_than_all_are_marked_in_the_trace(broker: MockKafka, producer: Dialogue) -> None:
    for sequence, acks in ((0, 1), (1, -1)):
        data = batch(sequence, 1, pid=producer.producer_id, epoch=0)
        producer >> produce_request("orders", data, acks=acks) << accepted(at=sequence)
    producer >> produce_request("orders", batch(), acks=1) << ANY_RESPONSE
    assert [row.note for row in broker.trace.produce("orders")] == ["idempotent with acks=1", "", ""]


def test_b1_all_batches_are_acknowledged_in_order(broker: MockKafka, producer: Dialogue) -> None:
    for name, offset in OFFSETS.items():
        producer >> seq(*FLOW[name]) << accepted(at=offset)
    assert sequences(broker) == list(range(114, 151))


def test_b2_by_hand_the_retries_of_d_and_e_see_their_original_offsets(broker: MockKafka, producer: Dialogue) -> None:
    for name in "ABCDEDE":
        producer >> seq(*FLOW[name]) << accepted(at=OFFSETS[name])
    assert sequences(broker) == list(range(114, 151))


def test_b3_by_hand_a_missing_batch_puts_the_next_out_of_order(broker: MockKafka, producer: Dialogue) -> None:
    producer >> seq(*FLOW["A"]) << ANY_RESPONSE
    producer >> seq(*FLOW["B"]) << ANY_RESPONSE
    for name in "DE":
        producer >> seq(*FLOW[name]) << rejected(OUT_OF_ORDER)
    for name in "CDE":
        producer >> seq(*FLOW[name]) << accepted(at=OFFSETS[name])
    assert sequences(broker) == list(range(114, 151))


def test_b4_by_hand_a_bumped_epoch_stores_the_duplicate(broker: MockKafka, producer: Dialogue) -> None:
    for name in "ABCDEF":
        producer >> seq(*FLOW[name]) << ANY_RESPONSE
    producer >> seq(*FLOW["A"]) << rejected(OUT_OF_ORDER)
    producer >> seq(0, 6, epoch=1) << accepted(at=42)
    assert sequences(broker)[-7:] == list(range(7))


def test_b7_without_idempotence_the_retry_is_stored_twice(broker: MockKafka) -> None:
    data = batch(count=3)
    request = produce_request("orders", data)
    Dialogue(broker) >> request << accepted(at=0) >> request << accepted(at=3)
    assert [record.value for record in broker.records("orders")] == [b"v0", b"v1", b"v2"] * 2


def test_b7_kafka_python_without_idempotence_stores_the_record_twice(broker: MockKafka) -> None:
    for _ in range(2):  # the application itself retries after a lost response
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False)
        producer.send("orders", b"once", partition=0).get(10)
        producer.close()
    assert [record.value for record in broker.records("orders")] == [b"once", b"once"]


def delete_records(broker: MockKafka, offset: int) -> tuple[int, int]:
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "offset": offset}]}
    response = client(broker).request(plain("DeleteRecords", topics=[topic], timeout_ms=1000), 2)
    return only(response).error_code, only(response).low_watermark


def test_d6_delete_records_keeps_the_state_until_a_restart(broker: MockKafka, producer: Dialogue) -> None:
    producer >> seq(0, 2) << ANY_RESPONSE
    assert delete_records(broker, -1) == (0, 3)
    producer >> seq(0, 2) << answered(error_code=0, base_offset=0, log_start_offset=3)
    producer >> seq(9) << rejected(OUT_OF_ORDER)
    broker.restart("clean")
    producer.close()
    producer >> seq(9) << accepted(at=3)  # after a clean restart the broker has no state for the producer


def test_d6_an_old_broker_forgets_producers_with_their_records(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker, producer = on("kafka-2.3", mock_kafka_factory)
    broker_versions = 7
    producer >> (seq(0, 2), broker_versions) << ANY_RESPONSE
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "offset": -1}]}
    client(broker).request(plain("DeleteRecords", topics=[topic], timeout_ms=1000), 1)
    producer >> (seq(3), broker_versions) << rejected(UNKNOWN_PRODUCER)


def test_d6_a_topic_created_again_has_no_producers(broker: MockKafka, producer: Dialogue) -> None:
    producer >> seq(0, 2) << ANY_RESPONSE
    producer >> (plain("DeleteTopics", topic_names=["orders"], timeout_ms=1000), 4) << answered(error_code=0)
    producer >> seq(3) << rejected(3)
    broker.create_topic("orders")
    producer >> seq(9) << accepted(at=0)


def test_d6_retention_keeps_the_state(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory()
    broker.create_topic("orders", configs={"retention.ms": 60_000})
    producer = Dialogue(broker)
    producer >> seq(0, 2) << ANY_RESPONSE
    broker.clock.advance(minutes=10)
    assert broker.records("orders") == []
    producer >> seq(0, 2) << answered(error_code=0, base_offset=0, log_start_offset=3)


def test_c6_an_expired_producer_is_forgotten_and_its_late_duplicate_stored_again(broker: MockKafka, producer: Dialogue) -> None:
    data = batch(0, 2, pid=producer.producer_id, epoch=0)
    producer >> produce_request("orders", data) << accepted(at=0)
    broker.clock.advance(hours=23)
    producer >> produce_request("orders", data) << accepted(at=0)
    broker.clock.advance(hours=2)
    assert broker.producers("orders", 0) == {}
    producer >> produce_request("orders", data) << accepted(at=2)


def test_every_verdict_is_explained(broker: MockKafka, producer: Dialogue) -> None:
    producer >> seq(0, 2) << ANY_RESPONSE
    producer >> seq(3, 4) << ANY_RESPONSE
    producer >> seq(3, 4) << ANY_RESPONSE
    producer >> seq(9) << ANY_RESPONSE
    producer >> seq(0, epoch=2) << ANY_RESPONSE
    producer >> seq(1, epoch=1) << ANY_RESPONSE
    who = f"producer {producer.producer_id}"
    assert [row.explain for row in broker.trace.produce("orders")] == [
        f"stored at offset 0: sequences 0–2 are the first of {who} epoch 0 on orders-0, which has no state here",
        f"stored at offset 3: sequences 3–4 are the next of {who} epoch 0 on orders-0",
        f"duplicate of offset 3: sequences 3–4 of {who} epoch 0 on orders-0 are batch 1 of 2 in the window, counted from "
        "the newest; not stored again",
        f"rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER: expected sequence 5 for {who} epoch 0 on orders-0, got 9; batches in "
        "the window: 0–2 @0, 3–4 @3",
        f"stored at offset 5: sequence 0 is the first of a new epoch: {who} epoch 2 on orders-0",
        f"rejected 47 INVALID_PRODUCER_EPOCH: {who} epoch 1 on orders-0 is fenced: the current epoch is 2; "
        "batches in the window: 0 @5",
    ]
