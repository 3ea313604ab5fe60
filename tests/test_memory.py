"""Memory is freed: requests leave no garbage for the collector, and repeated rounds of the same work do not need more and more
memory.
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE
from typing import Any
from urllib.request import Request, urlopen

import pytest

import acl_requests
from actors import ClassicMember, Member, TransactionalProducer
from dialogue import Dialogue, accepted, tagged
from inprocess import InProcess, Link
from kafkawire.declare import Message
from kafkawire.disk.indexes import AbortedTransaction
from requesting import delete_records, fetch, plain
from wirebroker.client.wire import ConnectionClosed, NoResponse
from wirebroker.engine.snapshots import go_back, take
from wirebroker.engine.soft_reset import soft_reset
from wirebroker.testing.options import BrokerOptions
from wirebroker.trace import recorder
from wirebroker.trace.broker import BrokerRecorder
from wirebroker.trace.rows import TransactionRow

SOME = ["READ TOPIC mine", "DESCRIBE TOPIC seen", "READ GROUP g-mine"]
RIGHTS: dict[str, dict[str, Any]] = {
    "no authorizer": {},
    "some rights": {"acls": [f"allow User:ANONYMOUS {right}" for right in SOME]},
    "all rights": {"acls": ["allow User:ANONYMOUS ALL TOPIC *"], "configs": {"super.users": "User:ANONYMOUS"}},
}


@contextmanager
def counting() -> Iterator[None]:
    """From now on, the collector does not run by itself, and sees only objects that are made later."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def garbage_of(work: Callable[[], object]) -> Counter[str]:
    """`work` leaves objects behind that only the garbage collector can free. Returns the types of these objects."""
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work()
        gc.collect()
        return Counter(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def ask(broker: InProcess, version: int, request: Message) -> None:
    link = broker.link()
    try:
        link.send(request, version)
        link.response()
    except (NoResponse, ConnectionClosed):
        pass
    finally:
        leave(broker)


def leave(broker: InProcess) -> None:
    """Closes the connections of all clients."""
    for link in broker._links:
        link.close()
    broker._links.clear()


def world(rights: str) -> InProcess:
    names = [name for name in (*acl_requests.NAMES, "hidden") if name != "absent"]
    return InProcess(topics=dict.fromkeys(names, 1), warm=True, telemetry=True, trace="exchanges", **RIGHTS[rights])


@pytest.mark.parametrize("rights", RIGHTS)
def test_no_request_leaves_garbage(rights: str) -> None:
    broker, found = world(rights), {}
    ids = {"absent": bytes(15) + b"\1"} | {name: topic.topic_id for name, topic in broker.engine.cluster.topics.items()}
    requests = list(acl_requests.requests(ids))
    for _, version, request in requests:  # the first run also makes objects that are made only once, such as caches
        ask(broker, version, request)
    with counting():
        for name, version, request in requests:
            if garbage := garbage_of(lambda: ask(broker, version, request)):  # noqa: B023
                found[name] = garbage
    assert found == {}
    assert len({name.split()[0] for name, _, _ in requests}) >= 77, "the APIs"


# Work of several requests


def made(work: Callable[[InProcess], None], trace: str) -> InProcess:
    if work not in (delayed_request, abandoned_request):
        return InProcess(topics=["orders"], warm=True, trace=trace)
    copied = {"replication_factor": 2, "configs": {"min.insync.replicas": 1}}
    return InProcess(topics={"copied": copied}, brokers=2, trace=trace)


def topic(broker: InProcess) -> None:
    broker.create_topic("made", 2)
    (Dialogue(broker) >> tagged("v", topic="made") << accepted(at=0)).close()
    broker.delete_topic("made")


def deleted_records(broker: InProcess) -> None:
    end = broker.engine.cluster.topics["orders"].partitions[0].log_end_offset
    (Dialogue(broker) >> tagged("v") << accepted(at=end)).close()
    ask(broker, 2, delete_records(-1))


def waiting_fetch(broker: InProcess) -> None:
    link: Link = broker.link()
    link.send(fetch(broker.engine.cluster.topics["orders"].partitions[0].log_end_offset, wait_ms=1000), 12)
    broker.clock.advance(seconds=2)
    link.response()
    link.close()


def abandoned_fetch(broker: InProcess) -> None:
    link = broker.link()
    link.send(fetch(broker.engine.cluster.topics["orders"].partitions[0].log_end_offset, wait_ms=1_000_000), 12)
    link.close()


def delayed(broker: InProcess, waits_for: str) -> None:
    """A DeleteRecords waits for a follower that has not deleted the records yet."""
    partition = broker.engine.cluster.topics["copied"].partitions[0]
    now, follower, end = broker.clock.now(), partition.replicas[1], partition.log_end_offset
    (Dialogue(broker) >> tagged("v", topic="copied") << accepted(at=end)).close()
    broker.engine.controller.freeze_replica("copied", 0, follower, now)
    link = broker.link()
    link.send(delete_records(-1, topic="copied", timeout_ms=1_000_000), 2)
    if waits_for == "follower":
        broker.engine.controller.thaw_replica("copied", 0, follower, now)
        broker.deliver()
        link.response()
    link.close()
    broker.engine.controller.thaw_replica("copied", 0, follower, now)


def delayed_request(broker: InProcess) -> None:
    delayed(broker, "follower")


def abandoned_request(broker: InProcess) -> None:
    delayed(broker, "nothing")


def delete_group(broker: InProcess) -> None:
    ask(broker, 2, plain("DeleteGroups", groups_names=["team"]))


def classic_group(broker: InProcess) -> None:
    member = ClassicMember(broker)
    member.join()
    member.sync({member.member: b"all"})
    member.commit(1)
    member.leave()
    delete_group(broker)


def ended_session(broker: InProcess) -> None:
    member = ClassicMember(broker)
    member.join()
    member.sync({member.member: b"all"})
    broker.clock.advance(minutes=1)
    delete_group(broker)


def consumer_group(broker: InProcess) -> None:
    member = Member(broker, "m")
    member.join("orders")
    member.leave()
    delete_group(broker)


def transaction(broker: InProcess) -> None:
    producer = TransactionalProducer(broker)
    producer.init()
    producer.send("v")
    producer.end()


def timed_out_transaction(broker: InProcess) -> None:
    producer = TransactionalProducer(broker, "late")
    producer.init()
    producer.send("v")
    broker.clock.advance(minutes=5)


def clean_restart(broker: InProcess) -> None:
    broker.restart("clean")


def kill(broker: InProcess) -> None:
    broker.restart("kill")


def snapshot(broker: InProcess) -> None:
    take(broker.engine, broker.clock.now(), broker)


def reset_softly(broker: InProcess) -> None:
    soft_reset(broker.engine, broker.clock.now())


def month(broker: InProcess) -> None:
    broker.clock.advance(days=31)


def restored(broker: InProcess) -> None:
    kept = take(broker.engine, broker.clock.now(), broker)
    before, broker.engine = broker.engine, BrokerOptions(topics=["orders"]).new_engine(broker.clock.now())
    go_back(broker.engine, kept, before)


WORK = (
    topic, deleted_records, waiting_fetch, abandoned_fetch, delayed_request, abandoned_request, classic_group, ended_session,
    consumer_group, transaction, timed_out_transaction, clean_restart, kill, snapshot, reset_softly, month,
)  # fmt: skip


@pytest.mark.parametrize("trace", ["verdicts", "exchanges"])
@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_no_work_leaves_garbage(work: Callable[[InProcess], None], trace: str) -> None:
    broker = made(work, trace)
    work(broker)
    with counting():
        assert garbage_of(lambda: (work(broker), leave(broker))) == {}


@pytest.mark.parametrize("work", [*WORK, restored], ids=lambda work: work.__name__)
def test_a_hundred_rounds_take_no_more_memory(work: Callable[[InProcess], None]) -> None:
    """Only the log of `orders` grows. This log has an object for each aborted transaction, but not for each record. If every
    round leaves an object, the number of objects rises in each period of 20 rounds. In one period, a thread of an earlier test
    may also make objects."""
    broker, counts = made(work, "off"), list[int]()
    with counting():
        for number in range(1, 101):
            work(broker)
            leave(broker)
            if number % 20 == 0:
                broker.engine.timers._tidy()  # cancelled timers are removed from time to time
                gc.collect()
                counts.append(sum(type(each) is not AbortedTransaction for each in gc.get_objects()))
    assert min(after - before for before, after in pairwise(counts)) < 10, counts
    assert counts[-1] - counts[0] < 100, counts


# The trace


def changed(number: int, partitions: int) -> TransactionRow:
    return TransactionRow(f"till-{number}", 1, 0, "Ongoing", tuple(f"orders-{each:05}" for each in range(partitions)))


def test_long_rows_of_the_trace_take_a_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_CHARACTERS", 1_000_000)
    trace = BrokerRecorder(lambda: 0, 100)
    for number in range(1, 21):  # a long row has about 124,000 characters
        trace.changed(changed(number, 2000))
        trace.changed(changed(-number, 1))
    kept = [row for row in trace.events() if isinstance(row, TransactionRow)]
    found = [row.transactional_id for row in kept]
    assert found == ["till--12", *(f"till-{each}" for number in range(13, 21) for each in (number, -number))]
    assert trace.rows_after(0, 1) == (23, [kept[0]]), "a reader learns how many rows are missing"
    for number in range(200):
        trace.changed(changed(number, 1))
    trace.changed(changed(0, 20_000))
    assert len(trace.events()) == 100, "long rows that the ring has forgotten do not count, and the latest row stays"
    trace.clear()
    assert (trace._characters, len(trace._large)) == (0, 0)


def test_the_rows_of_a_deleted_topic_do_not_keep_its_records() -> None:
    broker = InProcess(topics=["orders"])
    (Dialogue(broker) >> tagged("v" * 1000) << accepted(at=0)).close()
    log = broker.engine.cluster.topics["orders"].partitions[0].log
    broker.delete_topic("orders")
    assert len(broker.engine.trace.produce()) == 1
    assert (log.size, log.end_offset) == (0, 1)


def test_resets_of_a_server_give_their_memory_back() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not tell the memory of a process")
    command = [sys.executable, "-m", "wirebroker", "serve", "--port", "0", "--control", "127.0.0.1:0", "--topic", "orders:1000"]
    with subprocess.Popen(command, stdout=PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            lines = iter(server.stdout.readline, "ready\n")
            address = next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line)))
            list(lines)
            used = list[int]()
            for _ in range(12):
                call(f"{address}/reset")
                number = json.loads(call(f"{address}/snapshots"))["id"]
                call(f"{address}/snapshots/{number}/restore")
                call(f"{address}/snapshots/{number}", "DELETE")
                text = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
                used.append(int(re.search(r"VmRSS:\s+(\d+)", text)[1]))  # type: ignore[index]
        finally:
            server.terminate()
    assert used[-1] - used[3] < 8_000, f"{used} kB; a round without collection takes 11,000"


def call(address: str, method: str = "POST") -> bytes:
    data: bytes = urlopen(Request(address, b"{}", {"Content-Type": "application/json"}, method=method)).read()
    return data
