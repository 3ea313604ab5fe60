"""Fair turns: if a client sends long requests, other clients need not wait until all these requests are handled."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import wirebroker.engine.engine as engine_module
from diskkit import Disk, Failure
from kafkawire.batches import HEADER_SIZE, Record, build_batch
from kafkawire.compression import GZIP, ZSTD
from kafkawire.frames import encode_request
from requesting import fetch, plain, produce_request
from wirebroker import faults
from wirebroker.apis.exchange import Offload, Steps
from wirebroker.common.slices import SLICE, pauses
from wirebroker.engine.engine import Engine
from wirebroker.engine.turns import Turns
from wirebroker.mock import MockKafka
from wirebroker.requests.effects import Close, Outcome, Respond
from wirebroker.security.acl_specs import AUTHORIZER
from wirebroker.testing.options import BrokerOptions
from wirebroker.trace import recorder
from wirebroker.trace.rows import ReplyRow, RequestRow
from wirekit import NOW, batch, client, dial, exactly, has_come


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"orders": 1, **{f"topic-{i}": 3 for i in range(300)}}) as kafka:
        yield kafka


def read_response(connection: socket.socket) -> int:
    """Reads the next response, and returns its correlation id."""
    size, correlation_id = struct.unpack(">ii", exactly(connection, 8))
    exactly(connection, size - 4)
    return int(correlation_id)


def long_delete(partitions: int) -> bytes:
    asked = [{"partition_index": index, "offset": 0} for index in range(partitions)]
    topic = {"name": "orders", "partitions": asked}
    return encode_request(7, "long", plain("DeleteRecords", topics=[topic], timeout_ms=1000), 2)


def test_others_are_served_before_a_long_request_is_answered(kafka: MockKafka) -> None:
    other = client(kafka)
    with dial(kafka) as rude:
        rude.sendall(long_delete(200_000))
        for _ in range(5):
            assert other.request(plain("ApiVersions"), 0).error_code == 0
        assert not has_come(rude)
        assert read_response(rude) == 7


def test_others_are_served_between_pipelined_requests(kafka: MockKafka) -> None:
    other = client(kafka)
    resources = [
        {"resource_type": 2, "resource_name": f"topic-{i}", "configuration_keys": ["retention.ms"]} for i in range(300)
    ]
    count = 20
    with dial(kafka) as rude:
        frames = [encode_request(i, "rude", plain("DescribeConfigs", resources=resources), 1) for i in range(count)]
        rude.sendall(b"".join(frames))
        assert read_response(rude) == 0
        assert other.request(plain("ApiVersions"), 0).error_code == 0
        before = 1
        while has_come(rude):
            assert read_response(rude) == before
            before += 1
        assert before < count
        assert [read_response(rude) for _ in range(before, count)] == list(range(before, count))


def test_requests_after_a_long_one_wait_for_it(kafka: MockKafka) -> None:
    with dial(kafka) as connection:
        connection.sendall(long_delete(20_000) + encode_request(8, "x", plain("ApiVersions"), 0))
        assert [read_response(connection), read_response(connection)] == [7, 8]


def test_a_large_frame_does_not_overtake_a_parked_fetch(kafka: MockKafka) -> None:
    waiting = fetch(topic="topic-0", wait_ms=300)
    produce = produce_request("orders", batch(count=1, tag="x" * 300_000))
    with dial(kafka) as connection:
        connection.sendall(encode_request(1, "x", waiting, 11) + encode_request(2, "x", produce, 9))
        assert [read_response(connection), read_response(connection)] == [1, 2]
    assert len(kafka.records("orders")) == 1


def test_a_long_request_is_finished_although_its_client_has_left(kafka: MockKafka) -> None:
    kafka.produce("topic-1", value=b"v", partition=0)
    partitions = [{"partition_index": i, "offset": -1} for i in range(30_000)]
    topics = [{"name": name, "partitions": partitions} for name in ("orders", "topic-1")]
    with dial(kafka) as connection:
        connection.sendall(encode_request(1, "x", plain("DeleteRecords", topics=topics, timeout_ms=1000), 2))
    kafka.wait_until(lambda: not kafka.records("topic-1"), timeout=10)


def test_a_handler_of_many_partitions_works_in_slices() -> None:
    engine = Engine(NOW, Random(1).randbytes)
    connection = engine.connect(1, now=NOW)
    woken: list[None] = []
    engine.turns.wake = lambda: woken.append(None)
    engine.receive(connection, memoryview(long_delete(1000)[4:]), NOW)
    assert engine.take_effects() == []
    slices = 1
    while engine.turns.waiting:
        engine.turns.proceed()
        slices += 1
    (unfinished, encoding) = engine.turns.offloads.popleft()
    unfinished.do(encoding)
    engine.turns.resume(unfinished)
    engine.turns.proceed()
    assert slices == 1000 // SLICE + 1
    (response,) = engine.take_effects()
    assert isinstance(response, Respond)
    assert not engine.turns.waiting
    assert connection.parked is None


LONG_BATCHES = {
    "many_records": lambda: batch(count=40_000),
    "a_bomb": lambda: build_batch([Record(0, 0, None, bytes(8 << 20))], base_timestamp=NOW, compression=ZSTD),
    "many_compressed": lambda: build_batch(
        [Record(i, 0, None, b"v" * (i % 3)) for i in range(40_000)], base_timestamp=NOW, compression=GZIP
    ),
}


@pytest.mark.parametrize("built", LONG_BATCHES.values(), ids=LONG_BATCHES)
def test_a_batch_that_takes_long_to_check_is_offloaded_with_the_same_response(built: Callable[[], bytes]) -> None:
    data = built()
    frame = encode_request(7, "long", produce_request("orders", data), 9)[4:]
    responses = []
    for driven in (False, True):
        engine = Engine(NOW, Random(1).randbytes)
        engine.cluster.create_topic("orders", NOW)
        connection = engine.connect(1, now=NOW)
        engine.turns.wake = (lambda: None) if driven else None
        buffer = bytearray(frame)
        engine.receive(connection, memoryview(buffer), NOW)
        assert bool(engine.effects) != driven
        buffer[:] = bytes(len(buffer))  # simulate that another connection reuses the buffer
        while driven and not engine.effects:
            (unfinished, offload) = engine.turns.offloads.popleft()
            unfinished.do(offload)
            engine.turns.resume(unfinished)
            engine.turns.proceed()
        (response,) = engine.take_effects()
        assert isinstance(response, Respond)
        responses.append(b"".join(response.parts))
        partition = engine.cluster.topics["orders"].partitions[0]
        responses.append(bytes(partition.log.read(0, partition.log_end_offset, 1 << 30, True).data)[HEADER_SIZE:])
    assert responses[:2] == responses[2:]
    assert responses[1] == data[HEADER_SIZE:]


# The queue itself


class Answered:
    """A stand-in for an exchange. It remembers the result of its request."""

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.matches = None
        self.frame: object = b""
        self.request = None
        self.events: list[object] = []
        self.correlation_id, self.version = 1, 0

    def release(self) -> None:
        self.events.append("released")


def silent(log: list[str], name: str, slices: int) -> Steps:
    for number in range(slices):
        log.append(f"{name}{number}")
        yield None
    return Outcome.SILENT


def test_slices_of_two_requests_alternate() -> None:
    turns, log = Turns(), []
    turns.wake = lambda: None
    first, second = Answered(), Answered()
    assert turns.begin(first, silent(log, "a", 2)) is Outcome.PARKED  # type: ignore[arg-type]
    assert turns.begin(second, silent(log, "b", 2)) is Outcome.PARKED  # type: ignore[arg-type]
    while turns.waiting:
        turns.proceed()
    assert log == ["a0", "b0", "a1", "b1"]
    assert first.events == second.events == ["released"]


def test_without_a_driver_all_slices_run_at_once() -> None:
    turns, log = Turns(), []
    assert turns.begin(Answered(), silent(log, "a", 3)) is Outcome.SILENT  # type: ignore[arg-type]
    assert log == ["a0", "a1", "a2"]


def test_offloaded_work_gives_its_result_or_its_error_to_the_next_slice() -> None:
    def steps(got: list[object]) -> Steps:
        got.append((yield Offload(lambda: 42)))
        try:
            yield Offload(lambda: 1 // 0)
        except ZeroDivisionError as error:
            got.append(str(error))
        return Outcome.SILENT

    for driven in (False, True):
        turns, got = Turns(), []
        turns.wake = (lambda: None) if driven else None
        turns.begin(Answered(), steps(got))  # type: ignore[arg-type]
        while turns.offloads or turns.waiting:
            if turns.offloads:
                unfinished, offload = turns.offloads.popleft()
                unfinished.do(offload)
                turns.resume(unfinished)
            else:
                turns.proceed()
        assert got == [42, "integer division or modulo by zero"]


def test_a_broker_that_stops_drops_its_long_requests_and_no_others() -> None:
    turns, log = Turns(), []
    turns.wake = lambda: None
    turns.begin(Answered(node_id=1), silent(log, "a", 2))  # type: ignore[arg-type]
    turns.begin(Answered(node_id=2), silent(log, "b", 2))  # type: ignore[arg-type]
    unfinished = turns.waiting[0]
    turns.drop(node_id=1)
    turns.resume(unfinished)
    while turns.waiting:
        turns.proceed()
    assert log == ["a0", "b0", "b1"]


def test_the_trace_of_a_long_request_is_offloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(NOW, Random(1).randbytes)
    engine.trace_at("all")
    engine.turns.wake = lambda: None
    connection = engine.connect(1, now=NOW)
    is_offloaded = False
    looked: list[bool] = []

    def watch(name: str) -> None:
        function = getattr(recorder, name)

        def watched(*arguments: object) -> object:
            looked.append(is_offloaded)
            return function(*arguments)

        monkeypatch.setattr(recorder, name, watched)

    monkeypatch.setattr(engine_module, "facts_of", lambda *arguments: recorder.facts_of(*arguments))
    watch("facts_of")
    watch("values")
    engine.receive(connection, memoryview(long_delete(20_000)[4:]), NOW)
    while engine.turns.waiting or engine.turns.offloads:
        while engine.turns.offloads:
            unfinished, offload = engine.turns.offloads.popleft()
            is_offloaded = True
            unfinished.do(offload)
            is_offloaded = False
            engine.turns.resume(unfinished)
        if engine.turns.waiting:
            engine.turns.proceed()
    assert looked == [True, True]
    request, response = engine.trace.events("request", "reply")
    assert isinstance(request, RequestRow)
    assert isinstance(response, ReplyRow)
    assert request.about == response.about == (*(f"orders-{index}" for index in range(8)), "19992 more")
    assert response.errors == ("UNKNOWN_TOPIC_OR_PARTITION",)


def test_a_loop_pauses_once_in_a_number_of_elements() -> None:
    pause = pauses(3)
    assert [len(pause()) for _ in range(7)] == [0, 0, 1, 0, 0, 1, 0]


NEW_USERS = plain("AlterUserScramCredentials", deletions=[], upsertions=[
    {"name": f"u{i}", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"secret"} for i in range(600)
])  # fmt: skip
NEW_ACLS = plain("CreateAcls", creations=[
    {"resource_type": 2, "resource_name": f"t{i}", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
     "operation": 3, "permission_type": 3} for i in range(600)
])  # fmt: skip
NEW_QUOTAS = plain("AlterClientQuotas", validate_only=False, entries=[
    {"entity": [{"entity_type": "user", "entity_name": f"u{i}"}],
     "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]} for i in range(600)
])  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "version"), [(NEW_USERS, 0), (NEW_ACLS, 3), (NEW_QUOTAS, 1)], ids=["users", "ACLs", "quotas"]
)
@pytest.mark.parametrize("full", [False, True], ids=["room", "full"])
def test_a_long_change_is_acknowledged_only_if_it_is_written(
    request_: Any, version: int, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    configs = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    engine = BrokerOptions(data=tmp_path / "data", configs=configs).new_engine(NOW)
    turns, turns.wake = engine.turns, lambda: None  # type: ignore[misc]
    disk.failure = Failure(len(disk.calls), stays=True) if full else None
    engine.receive(engine.connect(1), memoryview(bytearray(encode_request(7, "c", request_, version)[4:])), NOW)
    finish(turns)
    assert [type(effect) for effect in engine.take_effects()] == [Close if full else Respond]
    assert engine.store is not None
    engine.store.abandon()


def finish(turns: Turns) -> None:
    while turns.waiting or turns.offloads:
        if turns.offloads:
            unfinished, offload = turns.offloads.popleft()
            unfinished.do(offload)
            turns.resume(unfinished)
        else:
            turns.proceed()


@pytest.mark.parametrize("sliced", [False, True], ids=["at once", "in slices"])
@pytest.mark.parametrize("partitions", [1, 300])
@pytest.mark.parametrize("full", [False, True], ids=["room", "full"])
def test_a_request_that_is_refused_for_an_unwritten_change_does_not_wait(
    partitions: int, sliced: bool, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault moves the leaders while a Fetch arrives, which then waits for records. If the disk is full, the new leaders
    cannot be written, and the connection is closed."""
    disk = Disk(tmp_path, monkeypatch)
    topics = {"orders": {"partitions": partitions, "replication_factor": 2}}
    engine = BrokerOptions(data=tmp_path / "data", brokers=2, topics=topics).new_engine(NOW)
    turns, turns.wake = engine.turns, (lambda: None) if sliced else None  # type: ignore[misc]
    engine.plan.add(faults.move_leader(api="Fetch"))
    disk.failure = Failure(len(disk.calls), stays=True) if full else None
    parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in range(partitions)]
    wanted = plain("Fetch", max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=[{"topic": "orders", "partitions": parts}])
    engine.receive(engine.connect(1), memoryview(bytearray(encode_request(7, "c", wanted, 12)[4:])), NOW)
    finish(turns)
    assert [type(effect) for effect in engine.take_effects()] == [Close] * full
    waiting = [len(partition.waiting) for partition in engine.cluster.topics["orders"].partitions]
    assert waiting == [int(not full)] * partitions
    engine.tick(NOW + 2000)
    finish(turns)
    assert [type(effect) for effect in engine.take_effects()] == [Respond] * (not full)
    assert engine.store is not None
    engine.store.abandon()
