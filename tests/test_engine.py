"""The engine without a network. It takes requests and the time as arguments, and returns effects."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkawire.declare import Message
from kafkawire.frames import decode_response, encode_request
from requesting import init_producer_id, plain, produce_request
from responses import only
from wirebroker.core.logs.memory import MemoryLog
from wirebroker.core.producer_ids import ProducerIds
from wirebroker.core.purgatory import Timers
from wirebroker.deeds.broker import EngineBroker
from wirebroker.engine.engine import Engine
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import Close, Respond
from wirekit import NOW, batch


class Lab:
    """An engine with one topic and without a network."""

    def __init__(self, **options: Any) -> None:
        self.engine = Engine(NOW, random.Random(5).randbytes, **options)
        self.engine.cluster.create_topic("orders", NOW, partitions=1)
        self.connection = self.engine.connect(1)
        self.version = 9

    def send(self, request: Message, version: int = 9, now: int = NOW, connection: Connection | None = None) -> list[Any]:
        self.version, self.key = version, request.__schema__.key
        self.engine.receive(
            connection or self.connection, memoryview(bytearray(encode_request(5, "me", request, version)[4:])), now
        )
        return [self.effect(effect) for effect in self.engine.take_effects()]

    def effect(self, effect: Respond | Close) -> Any:
        if isinstance(effect, Close):
            return effect.reason
        return decode_response(b"".join(effect.parts)[4:], self.key, self.version)[1]


def test_the_fast_path_responds_like_the_ordinary_way() -> None:
    """On the first connection, every request except the first has the shape of the previous request, so it takes the fast path.
    Then a new connection sends the same request as its first request, so this request takes the ordinary path.
    """
    for version in range(3, 13):
        lab = Lab()
        for i in range(12):
            seq = i if i not in (5, 8) else i + 40  # two of the batches have a gap before them
            data = batch(seq if i < 5 else seq - 1 if i < 8 else seq - 2, pid=7, epoch=0, timestamp=NOW)
            before = lab.connection.produce_shape
            (got,) = lab.send(produce_request("orders", data), version)
            assert (before is not None) == (i > 0)
            fresh = lab.engine.connect(1)
            (again,) = lab.send(produce_request("orders", data), version, connection=fresh)
            response, retried = (only(r) for r in (got, again))
            assert (response.error_code, response.base_offset) == (retried.error_code, retried.base_offset)
            assert (response.error_code == 45) == (i in (5, 8))


def test_the_fast_path_is_left_for_a_different_request() -> None:
    lab = Lab()
    lab.engine.cluster.create_topic("others", NOW, partitions=2)
    requests = [
        produce_request("orders", batch(timestamp=NOW)),
        produce_request("others", batch(timestamp=NOW)),
        produce_request("others", batch(timestamp=NOW), partition=1),
        produce_request("others", batch(timestamp=NOW), partition=1, acks=1),
        produce_request("orders", None),
        produce_request("orders", b""),
        produce_request("orders", batch(timestamp=NOW, tag="y" * 20_000)),
    ]
    for request in requests:
        for _ in range(2):
            lab.send(request)
    ends = {(p.topic, p.index): p.log_end_offset for p in lab.engine.cluster.partitions()}
    assert ends == {("orders", 0): 4, ("others", 0): 2, ("others", 1): 4}


def test_a_topic_deleted_under_a_remembered_request_is_not_written_to() -> None:
    lab = Lab()
    data = batch(timestamp=NOW)
    lab.send(produce_request("orders", data))
    EngineBroker(lab.engine).delete_topic("orders")
    (response,) = lab.send(produce_request("orders", data))
    assert only(response).error_code == 3


def test_a_parked_fetch_is_a_deadline_not_a_sleep() -> None:
    lab = Lab()
    topic = {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}]}
    request = plain(
        "Fetch", max_wait_ms=500, min_bytes=1, max_bytes=100, session_epoch=-1, topics=[topic], forgotten_topics_data=[]
    )
    assert lab.send(request, 11) == []
    assert lab.connection.parked is not None
    assert lab.engine.deadline() == NOW + 500
    lab.engine.tick(NOW + 499)
    assert lab.engine.take_effects() == []
    lab.engine.tick(NOW + 500)
    (effect,) = lab.engine.take_effects()
    assert only(lab.effect(effect)).records == b""
    assert lab.connection.parked is None


def test_two_engines_with_the_same_input_have_the_same_output() -> None:
    def story() -> list[Any]:
        lab = Lab(brokers=3)
        seen = lab.send(plain("Metadata", topics=None), 12)
        seen += lab.send(init_producer_id(None, 1), 4)
        return seen

    assert story() == story()


def test_a_restart_closes_every_connection() -> None:
    lab = Lab()
    lab.engine.restart("clean", NOW)
    assert [lab.effect(e) for e in lab.engine.take_effects()] == ["the broker restarts"]
    assert lab.connection.state is CLOSED


@settings(max_examples=200)
@given(
    raw=st.binary(max_size=60),
    key=st.sampled_from([0, 1, 2, 3, 8, 9, 10, 11, 14, 18, 19, 22, 32, 44, 75]),
    version=st.integers(-1, 14),
)
def test_no_frame_makes_the_engine_raise(raw: bytes, key: int, version: int) -> None:
    lab = Lab()
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\1\xff\xff\0" + raw
    lab.engine.receive(lab.connection, memoryview(bytearray(frame)), NOW)
    assert all(isinstance(effect, Respond | Close) for effect in lab.engine.take_effects())


def test_timers_run_in_order_and_see_the_moment_they_were_set_for() -> None:
    timers, seen = Timers(), []
    timers.at(30, seen.append)
    timers.at(10, lambda now: (seen.append(now), timers.at(20, seen.append)))  # type: ignore[func-returns-value]
    gone = timers.at(15, seen.append)
    gone.cancel()
    assert timers.deadline() == 10
    timers.run(25)
    assert seen == [10, 20]
    timers.run(100)
    assert (seen, timers.deadline()) == ([10, 20, 30], None)


def test_periodic_timers_catch_up_one_by_one() -> None:
    timers, seen = Timers(), []
    timers.every(lambda: 10, 0, seen.append)
    timers.run(35)
    assert (seen, timers.deadline()) == ([10, 20, 30], 40)


def test_producer_ids_know_which_were_issued() -> None:
    producer_ids = ProducerIds()
    assert not producer_ids.issued(0)
    assert producer_ids.allocate(1) == 0
    assert (producer_ids.issued(0), producer_ids.issued(1), producer_ids.issued(-1)) == (True, False, False)
    assert producer_ids.allocate(2) == 1000
    producer_ids.restarted(1)
    assert producer_ids.allocate(1) == 2000


SIZES = st.lists(st.integers(61, 400_000) | st.integers(61, 200), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@example(sizes=[61, 61], rolls={1}, cut=1, owned=False)  # this truncates the log at the end of a segment
@example(sizes=[61, 99_989, 61], rolls={1}, cut=3, owned=False)  # the first read ends within the last batch's length field
@given(sizes=SIZES, rolls=st.sets(st.integers(0, 39)), cut=st.integers(0, 40), owned=st.booleans())
def test_the_log_keeps_its_batches_unchanged(sizes: list[int], rolls: set[int], cut: int, owned: bool) -> None:
    log, kept = MemoryLog(), []
    for i, size in enumerate(sizes):
        if i in rolls:
            log.roll(i)
        data = bytearray(bytes([i % 251]) * size)
        assert log.append(data, 2, 5, i, owned) == 2 * i
        kept.append(i)
    assert log.size == sum(sizes)
    log.truncate_to(2 * cut)
    kept = kept[: cut if cut < len(kept) else None]
    assert log.end_offset == 2 * len(kept)
    found = log.batches()
    assert [(len(b), b[-1], int.from_bytes(b[:8], "big")) for b in found] == [(sizes[i], i % 251, 2 * i) for i in kept]
    offset, read = 0, []
    while offset < log.end_offset:
        data = log.read(offset, log.end_offset, 100_000, at_least_one=True).data
        while len(data) >= 12 and len(data) >= (size := int.from_bytes(data[8:12], "big") + 12):
            read.append(size)
            data = data[size:]
            offset += 2
    assert read == [sizes[i] for i in kept]


def test_small_batches_between_large_ones_share_a_buffer() -> None:
    log = MemoryLog()
    for i in range(16):  # a large batch is kept in the buffer in which it arrived
        log.append(bytearray(200_000), 1, 0, i, owned=True)
        log.append(bytes([i]) * 60, 1, 0, i)
    small = [batch for batch in log.batches() if len(batch) == 60]
    assert [batch[-1] for batch in small] == list(range(16))
    assert len({id(batch.obj) for batch in small}) == 1
