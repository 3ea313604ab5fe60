"""Fetch and ListOffsets over the raw wire: limits, waiting, sessions, epochs and times."""

from __future__ import annotations

from typing import Any

import pytest

from dialogue import Dialogue, answered, each, refused
from inprocess import InProcess
from kafkawire.batches import iter_batches, read_header
from kafkawire.messages.fetch import EpochEndOffset
from kafkawire.primitives import Pieces
from requesting import plain, produce_request
from responses import only, sole
from wirebroker.apis.fetch import Fetch
from wirebroker.client.wire import Connections
from wirekit import batch, client

LARGE = 1 << 20


@pytest.fixture
def broker() -> InProcess:
    return InProcess(topics={"orders": 3})


@pytest.fixture
def wire(broker: InProcess) -> Connections:
    return client(broker)


def store(wire: Connections, batches: int, partition: int = 0, size: int = 1, **options: Any) -> None:
    for _ in range(batches):
        response = wire.request(produce_request("orders", batch(tag="x" * size, **options), partition), 9)
        assert only(response).error_code == 0


def fetch(offsets: dict[int, int], *, wait: int = 0, least: int = 1, session: int = 0, epoch: int = -1,
          topic: bytes | None = None, leader_epoch: int = -1, last_epoch: int = -1) -> Any:  # fmt: skip
    epochs = {"current_leader_epoch": leader_epoch, "last_fetched_epoch": last_epoch}
    parts = [{"partition": index, "fetch_offset": at, "partition_max_bytes": LARGE} | epochs for index, at in offsets.items()]
    topics = [{"topic": "orders", "topic_id": topic or bytes(16), "partitions": parts}] if parts else []
    limits = {"max_wait_ms": wait, "min_bytes": least, "max_bytes": 1 << 26}
    return plain("Fetch", **limits, session_id=session, session_epoch=epoch, topics=topics)


def offsets_of(partition: Any) -> list[int]:
    return [read_header(view).base_offset for view in iter_batches(partition.records)]


def test_a_fetch_of_an_older_segment_does_not_wait_for_min_bytes(broker: InProcess, wire: Connections) -> None:
    """A response only has records from one segment (case F of Kafka's DelayedFetch)."""
    roll = lambda: broker._call(lambda e: e.cluster.topics["orders"].partitions[0].log.roll(e.now))  # noqa: E731
    store(wire, 2)
    roll()
    store(wire, 1)
    dialogue = Dialogue(broker) >> fetch({0: 0}, wait=60_000, least=LARGE)
    dialogue << answered(offsets=[0, 1])
    dialogue >> fetch({0: 2}, wait=60_000, least=LARGE)
    store(wire, 1)
    assert waiting(broker) == 1
    roll()
    store(wire, 1)
    dialogue << answered(offsets=[2, 3])
    dialogue >> fetch({0: 5}, wait=60_000, least=LARGE)
    roll()
    store(wire, 1)
    dialogue << answered(offsets=[5])
    assert waiting(broker) == 0


def test_a_fetch_waits_for_min_bytes(broker: InProcess, wire: Connections) -> None:
    store(wire, 1, size=100)
    dialogue = Dialogue(broker) >> fetch({0: 0}, wait=60_000, least=1000)
    store(wire, 2, size=100)
    assert waiting(broker) == 1
    store(wire, 1, size=1000)
    dialogue << answered(offsets=[0, 1, 2, 3])
    assert waiting(broker) == 0


def test_a_fetch_waits_no_longer_than_it_says_by_the_brokers_clock(broker: InProcess) -> None:
    dialogue = Dialogue(broker) >> fetch({0: 0}, wait=30_000)
    broker.clock.advance(seconds=29)
    assert broker._call(lambda e: any(c.parked for c in e.connections))
    broker.clock.advance(seconds=1)
    dialogue << answered(error_code=0, high_watermark=0)


def test_a_waiting_fetch_is_answered_when_the_topic_is_deleted(broker: InProcess) -> None:
    dialogue = Dialogue(broker) >> fetch({0: 0}, wait=60_000)
    broker.delete_topic("orders")
    dialogue << refused(3)


def test_a_fetch_that_waits_looks_only_at_what_has_changed(
    broker: InProcess, wire: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialogue = Dialogue(broker) >> fetch({0: 0, 1: 0, 2: 0}, wait=60_000, least=600)
    reads: list[int] = []
    read = Fetch._records
    monkeypatch.setattr(Fetch, "_records", lambda self, asked, *rest, **options: (
        reads.append(asked.partition), read(self, asked, *rest, **options))[1])  # fmt: skip
    store(wire, 2, partition=1, size=100)
    store(wire, 1, partition=2, size=100)
    assert reads == [1, 1, 2]
    store(wire, 1, partition=2, size=100)
    dialogue << each(partition_index=[0, 1, 2], offsets=[[], [0, 1], [0, 1]])


def waiting(broker: InProcess) -> int:
    """Returns the total number of requests that wait at partitions."""
    return broker._call(lambda e: sum(len(each.waiting) for each in e.cluster.partitions()))


def test_a_client_that_left_while_it_waited_is_forgotten(broker: InProcess, wire: Connections) -> None:
    gone = Dialogue(broker) >> fetch({0: 0}, wait=60_000)
    gone.close()
    store(wire, 1)
    assert waiting(broker) == 0


SLOTS = {"max.incremental.fetch.session.cache.slots": 1}


def test_a_session_is_evicted_only_after_two_minutes_without_use() -> None:
    broker = InProcess(brokers=2, topics={"orders": 2}, configs=SLOTS)
    wire = client(broker)
    first = wire.request(fetch({0: 0}, epoch=0), 11).session_id
    assert wire.request(fetch({0: 0, 1: 0}, epoch=0), 11).session_id == 0
    assert client(broker, 1).request(fetch({0: 0}, epoch=0), 11).session_id > 0, "each broker has its own session slots"
    broker.clock.advance(seconds=121)
    second = wire.request(fetch({0: 0}, epoch=0), 11).session_id
    assert second > 0
    assert wire.request(fetch({}, session=first, epoch=1), 11).error_code == 70


def test_an_old_session_is_evicted_by_a_larger_one() -> None:
    broker = InProcess(topics={"orders": 2}, configs=SLOTS)
    wire = client(broker)
    first = wire.request(fetch({0: 0}, epoch=0), 11).session_id
    for epoch in (1, 2):
        broker.clock.advance(seconds=70)
        assert wire.request(fetch({}, session=first, epoch=epoch), 11).error_code == 0
    assert wire.request(fetch({1: 0}, epoch=0), 11).session_id == 0, "a session is replaced only by a larger one"
    assert wire.request(fetch({0: 0, 1: 0}, epoch=0), 11).session_id > 0
    assert wire.request(fetch({}, session=first, epoch=3), 11).error_code == 70


def test_topics_by_id(broker: InProcess, wire: Connections) -> None:
    store(wire, 1)
    topic_id = sole(wire.request(plain("Metadata", topics=None), 12).topics).topic_id
    response = wire.request(fetch({0: 0}, topic=topic_id), 13)
    assert sole(response.responses).topic_id == topic_id
    assert offsets_of(only(response)) == [0]
    Dialogue(broker) >> (fetch({0: 0}, topic=b"\1" * 16), 13) << refused(100)


def test_leader_epochs(broker: InProcess, wire: Connections) -> None:
    store(wire, 2)
    broker.restart()
    wire.close()
    store(wire, 1)
    epoch = broker._call(lambda e: e.cluster.topics["orders"].partitions[0].leader_epoch)
    assert epoch > 0
    dialogue = Dialogue(broker) >> fetch({0: 0}, leader_epoch=0) << refused(74)
    dialogue >> fetch({0: 0}, leader_epoch=epoch + 1) << refused(75)
    dialogue >> fetch({0: 0}, leader_epoch=epoch) << answered(error_code=0)
    dialogue >> fetch({0: 3}, last_epoch=0) << answered(diverging_epoch=EpochEndOffset(epoch=0, end_offset=2))


def test_batches_in_several_buffers_are_not_copied() -> None:
    broker = InProcess(topics={"orders": 1}, profile="kafka-3.9")
    wire = client(broker)
    store(wire, 4, size=200_000)
    log = broker._call(lambda e: e.cluster.topics["orders"].partitions[0].log)
    stored = list(log.batches())
    read = log.read(0, 4, LARGE, at_least_one=True)
    assert isinstance(read.records, Pieces)
    assert {id(part.obj) for part in read.records.buffers} == {id(batch.obj) for batch in stored}
    assert only(wire.request(fetch({0: 0}), 12)).records == b"".join(stored)
    assert len(list(iter_batches(only(wire.request(fetch({0: 0}), 3)).records))) == 4, "old clients get message sets"


def test_several_segments_are_read_one_after_another() -> None:
    broker = InProcess(topics={"orders": 1}, configs={"internal.segment.bytes": 3000})
    wire = client(broker)
    store(wire, 10, size=1000)
    assert broker._call(lambda e: len(e.cluster.topics["orders"].partitions[0].log.segments)) == 5
    found, offset = [], 0
    while offset < 10:
        some = offsets_of(only(wire.request(fetch({0: offset}), 11)))
        found += some
        offset = some[-1] + 1
    assert found == list(range(10))
