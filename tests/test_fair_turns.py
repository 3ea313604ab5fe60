"""No request and no timer keeps other clients waiting. For every request, each turn of the engine is short. The response is the
same as if the engine had done all the work in one turn.

The length of a turn is the number of function calls in it, which is the same on every machine. The requests have 32 KiB. A
request of one megabyte may have turns with 32 times as many calls: about a million short calls, which take some 100 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from copy import deepcopy
from cProfile import Profile
from itertools import pairwise
from types import SimpleNamespace

import pytest

import acl_requests
import inprocess
from inprocess import InProcess, Link
from kafkawire.declare import Message
from kafkawire.frames import SIZE_BYTES, encode_request, encode_response
from kafkawire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from requesting import init_producer_id, plain
from test_costs import RIGHTS, World, asked_for, grown, lists_in, world
from test_relay import Line
from wirebroker.common.slices import SLICE
from wirebroker.engine import engine as engine_module
from wirebroker.mock import MockKafka
from wirebroker.proxy.proxy import FEW, SHORT
from wirebroker.requests.effects import Respond
from wirekit import NOW, batch

SIZE = 1 << 15
"""The size of a long request in bytes."""
MOST = 30_000
"""The largest number of calls in one turn."""
REFUSED = {("CreateTopics", ("topics", "assignments")), ("CreateAcls", ("creations",))}
"""The broker immediately refuses the longest lists of these kinds, because a request may create at most 10,000 partitions or
ACLs.
"""
FEW_ELEMENTS = 256
"""A request with more elements than this counts as long. The engine's own limit is higher and would make the tests slower."""
OTHERS = 500
"""The number of topics, the number of groups, the number of users … in the broker."""


def frame_of(request: Message, version: int) -> bytearray:
    return bytearray(encode_request(7, "client", request, version)[SIZE_BYTES:])


def short_requests(where: World) -> Iterator[tuple[str, Message, int]]:
    """Yields a request of each kind, in its newest version."""
    asked = asked_for(where.broker.engine.cluster.topics["mine"].topic_id)
    yield from {name: (f"{name} v{version}", request, version) for name, version, request in asked}.values()


def long_requests(where: World, size: int = SIZE) -> Iterator[tuple[str, Message, int]]:
    """For each list of each API, yields a request in which this list is as long as the size of a request allows."""
    lists = {
        (name.split()[0], path): (name, *rest, path) for name, *rest in short_requests(where) for path in lists_in(rest[0])
    }
    for name, request, version, path in (lists[each] for each in lists if each not in REFUSED):
        few, more = (len(frame_of(grown(request, path, count, where.ids), version)) for count in (1, 101))
        if more > few:  # the version has this list
            count = max(100 * size // (more - few), FEW_ELEMENTS + 1)
            yield f"{name} {'.'.join(path)}", grown(request, path, count, where.ids), version


Turn = Callable[[], object]


def turns(where: World, link: Link, request: Message, version: int) -> Iterator[Turn]:
    """Yields the turns in which the engine handles a request: from the request's arrival until it has its response, or until it
    waits.
    """
    engine, now = where.broker.engine, where.broker.clock.now()
    frame = memoryview(frame_of(request, version))
    yield lambda: engine.receive(link.connection, frame, now)
    while True:
        if engine.turns.offloads:
            unfinished, offload = engine.turns.offloads.popleft()
            unfinished.do(offload)
            engine.turns.resume(unfinished)
        elif engine.turns.waiting:
            yield engine.turns.proceed
        elif engine.timers.busy:
            yield lambda: engine.tick(now, lambda: True)
        else:
            break


def longest_turn(where: World, request: Message, version: int) -> int:
    """Sends a request. Returns the number of calls in its longest turn."""
    link = where.broker.link()
    calls = max(map(calls_of, turns(where, link, request, version)))
    calls = max(calls, calls_of(link.close))
    where.broker._links.remove(link)
    where.broker.engine.take_effects()
    return calls


def answer(where: World, request: Message, version: int) -> tuple[list[bytes], int]:
    """Sends a request. Returns the frames of its response, and the number of its turns."""
    link, count = where.broker.link(), 0
    for turn in turns(where, link, request, version):
        turn()
        count += 1
    effects = [each for each in where.broker.engine.take_effects() if each.connection is link.connection]
    link.close()
    where.broker._links.remove(link)
    return [b"".join(each.parts) if isinstance(each, Respond) else repr(each[1:]).encode() for each in effects], count


def calls_of(work: Turn) -> int:
    """Returns how many functions the work calls. Functions in Python and in C count."""
    profile = Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def too_long(where: World) -> Iterator[str]:
    """Yields the requests for which a turn has more calls than the request's size allows."""
    for name, request, version in [*short_requests(where), *long_requests(where)]:
        allowed = MOST * max(1.0, len(frame_of(request, version)) / SIZE)
        calls = longest_turn(where, request, version)
        if calls > allowed:
            yield f"{name}: {calls} calls"


@pytest.mark.parametrize("rights", [*RIGHTS, "no authorizer"])
def test_no_turn_of_any_request_is_long(rights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FEW_ELEMENTS", FEW_ELEMENTS)
    where = world(rights, OTHERS)
    for _, request, version in short_requests(where):
        where.ask(request, version)  # the first request of a kind compiles its codec
    in_turns(where.broker)
    assert list(too_long(where)) == []


def in_turns(broker: InProcess) -> None:
    """Makes the broker's engine work in turns. The test itself runs the turns."""
    broker.engine.turns.wake, broker.engine.timers.in_slices = lambda: None, True


@pytest.mark.parametrize("rights", [*RIGHTS, "no authorizer"])
def test_each_request_has_the_same_response_in_turns_as_at_once(rights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FEW_ELEMENTS", FEW_ELEMENTS)
    monkeypatch.setattr(inprocess, "time", SimpleNamespace(time_ns=lambda: NOW * 1_000_000))
    monkeypatch.setattr(acl_requests, "time", SimpleNamespace(time_ns=lambda: NOW * 1_000_000))
    quick, slow = (world.__wrapped__(rights, SLICE + 50) for _ in range(2))
    in_turns(slow.broker)
    in_many = set()
    for name, request, version in [*short_requests(quick), *long_requests(quick, SIZE // 8)]:
        (at_once, _), (in_slices, count) = answer(quick, deepcopy(request), version), answer(slow, request, version)
        assert in_slices == at_once, name
        in_many |= {name.split()[0]} if count > 2 else set()
    assert len(in_many) > 40


def test_transactions_that_time_out_together_end_in_many_turns() -> None:
    broker = InProcess(warm=True, topics={"orders": 1})
    link, engine = broker.link(), broker.engine
    for number in range(OTHERS):
        name = f"tx-{number}"
        made = link.request(init_producer_id(name, 60_000), 3)
        who = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch, "transactional_id": name}
        fields = {"topics": [{"name": "orders", "partitions": [0]}], **who}
        link.request(plain("AddPartitionsToTxn", **{f"v3_and_below_{field}": fields[field] for field in fields}), 3)
    in_turns(broker)
    now, calls = broker.clock.now() + 75_000, []
    while engine.timers.busy or engine.timers.is_due(now):
        calls.append(calls_of(lambda: engine.tick(now, lambda: True)))
    assert {each.state.name for each in engine.transactions.transactions.values()} == {"COMPLETE_ABORT"}
    assert max(calls) <= MOST


def test_others_have_their_turn_while_the_clock_moves(mock_kafka: MockKafka) -> None:
    host, loop, events = mock_kafka._running, mock_kafka._loop, list[str]()
    assert loop is not None

    def fire(_: int) -> None:
        events.append("timer")
        host.until = 0.0  # the turn is over
        loop.call_soon(events.append, "others")

    async def move() -> None:
        for ms in (1000, 2000, 3000):
            host.engine.timers.at(host.clock.now() + ms, fire)
        await host.advance_beside(60_000)

    asyncio.run_coroutine_threadsafe(move(), loop).result(30)
    assert events == ["timer", "others"] * 3


def test_a_proxy_compares_a_long_response_in_many_turns() -> None:
    """The proxy passes on the response at once. Later, between other requests, it compares the response with the shadow's
    verdicts.
    """
    partitions = max(4 * SLICE, FEW + 1)
    data = batch(0, pid=5, epoch=0)
    sent = [PartitionProduceData(index=index, records=data) for index in range(partitions)]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=sent)])
    stored = [PartitionProduceResponse(index=index, error_code=0, base_offset=0) for index in range(partitions)]
    response = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=stored)])
    line = Line("verdicts")
    line.proxy.timers.in_slices = True
    line.client_sends(encode_request(1, None, request, 9)).broker_sends(b"".join(encode_response(1, response, 9)))
    assert line.to_client
    turns, compared = 0, [len(line.proxy.trace.events("shadow"))]
    while line.proxy.timers.busy:
        line.proxy.timers.run(NOW, lambda: True)
        turns += 1
        compared.append(len(line.proxy.trace.events("shadow")))
    assert turns >= 3
    assert max(after - before for before, after in pairwise(compared)) <= SLICE
    assert compared[-1] == partitions


def test_a_proxy_compares_a_large_batch_before_its_response_is_passed_on() -> None:
    """A comparison is long only if a request has many batches. So when a client has the response to a single batch, the trace
    already has the batch's row."""
    large = [PartitionProduceData(index=0, records=batch(0, count=3, pid=5, epoch=0, tag="x" * 2 * SHORT))]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=large)])
    stored = [PartitionProduceResponse(index=0, error_code=0, base_offset=0)]
    response = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=stored)])
    line = Line("verdicts")
    line.proxy.timers.in_slices = True
    line.client_sends(encode_request(1, None, request, 9)).broker_sends(b"".join(encode_response(1, response, 9)))
    assert len(line.proxy.trace.events("shadow")) == 1
