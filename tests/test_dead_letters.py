"""Dead letters of share groups (KIP-1191). There is no recording of Kafka 4.4 for these tests, because they need several
brokers, restarts or much time.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from requesting import plain
from test_share_groups import REJECT, Ranges, Shared
from wirebroker import MockKafka
from wirebroker.trace.rows import ShareRow
from wirekit import client

LETTERS, ENABLED = "dlq.t", "errors.deadletterqueue.group.enable"
CREATES = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
REJECTED = b"Offset rejected by client."


def group_of(kafka: MockKafka, topic: str = LETTERS, **settings: object) -> Shared:
    return Shared(kafka, **{"errors.deadletterqueue.topic.name": topic, **settings})


def taken(group: Shared) -> Ranges:
    return group.acquire("a")


def letters(kafka: MockKafka) -> list[tuple[bytes | None, bytes | None]]:
    """Returns each dead letter's original offset and value."""
    return [(dict(record.headers)["__dlq.errors.offset"], record.value) for record in kafka.records(LETTERS)]


def buried(kafka: MockKafka) -> list[tuple[int, int, str]]:
    rows = [row for row in kafka.trace.events("share") if isinstance(row, ShareRow)]
    return [(row.first, row.last, row.why) for row in rows if row.change == "buried"]


def two_brokers() -> MockKafka:
    return MockKafka(brokers=2, profile="kafka-4.4", clock="frozen", trace="changes")


def without_leader(kafka: MockKafka) -> Shared:
    """Returns a group whose dead letter topic has no leader, because its only replica is on a stopped broker."""
    with closing(client(kafka)) as wire:
        for name, node in (("t", 1), (LETTERS, 2)):
            configs = [{"name": ENABLED, "value": "true"}] if name == LETTERS else []
            topic = {
                "name": name, "num_partitions": -1, "replication_factor": -1, "configs": configs,
                "assignments": [{"partition_index": 0, "broker_ids": [node]}],
            }  # fmt: skip
            created = wire.request(plain("CreateTopics", topics=[topic], timeout_ms=1000), 7)
            assert created.topics[0].error_code == 0
    kafka.kill_broker(2)
    kafka.produce("t", value="v")
    group = group_of(kafka)
    assert taken(group) == [(0, 0, 1)]
    group.fetch("a", [(0, 0, REJECT)])
    return group


def test_a_dead_letter_waits_for_the_leader_of_its_topic() -> None:
    with two_brokers() as kafka, closing(without_leader(kafka)) as group:
        kafka.clock.advance(seconds=7)
        assert buried(kafka) == []
        kafka.start_broker(2)
        kafka.clock.advance(seconds=8)
        assert buried(kafka) == [(0, 0, "")]
        (letter,) = kafka.records(LETTERS)
        assert dict(letter.headers)["__dlq.errors.message"] == REJECTED
        assert group.acquired(group.fetch("a")) == []


def test_a_record_is_archived_after_the_fifth_attempt_without_a_leader() -> None:
    with two_brokers() as kafka, closing(without_leader(kafka)):
        kafka.clock.advance(milliseconds=2000 + 4000 + 8000 + 16_000 - 1)
        assert buried(kafka) == []
        kafka.clock.advance(milliseconds=1)
        assert buried(kafka) == [(0, 0, "dlq.t-0 has no leader")]


@pytest.mark.parametrize("mode", ["clean", "kill"])
def test_a_dead_letter_that_waited_is_written_after_a_restart(mode: str, tmp_path: Path) -> None:
    with MockKafka(brokers=2, profile="kafka-4.4", clock="frozen", data=tmp_path) as kafka:
        group = without_leader(kafka)
        kafka.start_broker(2)
        kafka.restart("kill" if mode == "kill" else "clean")
        assert kafka.records(LETTERS) == []
        group.close()
        group.begin_again()
        group.fetch("a")  # this makes the broker read the share state
        assert letters(kafka) == [(b"0", None)]
        assert group.acquired(group.fetch("a")) == []
        kafka.restart("clean")
        group.close()
        group.begin_again()
        group.fetch("a")
        assert letters(kafka) == [(b"0", None)], "the record is archived"
        group.close()


def test_many_dead_letters_with_large_copies_are_all_written() -> None:
    settings = {"errors.deadletterqueue.copy.record.enable": "true"}
    with MockKafka(topics={"t": 1}, profile="kafka-4.4", clock="frozen", configs=CREATES) as kafka:
        for i in range(40):
            kafka.produce("t", value=bytes([i]) * 200_000)
        with closing(group_of(kafka, **settings)) as group:
            acquired = taken(group)
            while acquired:
                acknowledged = [(first, last, REJECT) for first, last, _ in acquired]
                group.fetch("a", acknowledged, max_records=0)
                acquired = group.acquired(group.fetch("a"))
        kafka.wait_until(lambda: len(letters(kafka)) == 40)
        assert sorted(letters(kafka)) == sorted((str(i).encode(), bytes([i]) * 200_000) for i in range(40))


def test_dead_letters_need_enough_replicas() -> None:
    configs = CREATES | {"min.insync.replicas": "2"}
    with MockKafka(brokers=2, topics={"t": 1}, profile="kafka-4.4", clock="frozen", trace="changes", configs=configs) as kafka:
        kafka.create_topic(LETTERS, 1, replication_factor=2, configs={ENABLED: "true"})
        kafka.kill_broker(2)
        kafka.produce("t", value="v")
        with closing(group_of(kafka)) as group:
            assert taken(group) == [(0, 0, 1)]
            group.fetch("a", [(0, 0, REJECT)])
        assert buried(kafka) == [(0, 0, "NOT_ENOUGH_REPLICAS")]


@pytest.mark.parametrize("name", ["../../etc", "dlq.\N{SNOWMAN}", "x" * 250, "dlq_t", "not-dlq"])
def test_a_name_that_no_topic_can_have_costs_the_dead_letters_only(name: str) -> None:
    with MockKafka(topics={"t": 1, "dlq.t": 1}, profile="kafka-4.4", clock="frozen", trace="changes", configs=CREATES) as kafka:
        kafka.produce("t", value="v")
        with closing(group_of(kafka, name)) as group:
            assert taken(group) == [(0, 0, 1)]
            group.fetch("a", [(0, 0, REJECT)])
            assert [(first, last) for first, last, why in buried(kafka) if why] == [(0, 0)]
            kafka.produce("t", value="w")
            assert group.acquired(group.fetch("a")) == [(1, 1, 1)]
        assert sorted(kafka.topics()) == ["dlq.t", "t"]
