"""Plays the steps of a script on an engine without sockets, and checks the rules that must always hold.

The engine must not raise. A request gets exactly one response, which has the request's version and correlation id. Otherwise
the engine closes the connection with a reason. No request takes longer than `SLOW` seconds of CPU, and no slice longer than
`SLICE`. The log has every batch that a Produce response acknowledged.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
import struct
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from fuzzing.acknowledged import Acknowledged, read_log
from fuzzing.durable import difference, durable
from fuzzing.script import Finding, Setting, Step
from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ProtocolError, TooManyElements
from kafkawire.frames import decode_response, encode_request, read_request_header
from kafkawire.messages.join_group import JoinGroupRequest
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import API_VERSIONS, KEYS, PRODUCE, api_name, request_class, response_class
from wirebroker import faults
from wirebroker.engine.engine import Engine
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import Close, Respond
from wirebroker.storage.store import FolderStore

START = 1_800_000_000_000
SLICE = 0.25
"""The longest CPU time, in seconds, of one slice, if long requests are handled in slices."""
SLOW = 10.0
"""The longest CPU time, in seconds, for a request that is not handled in slices. Pure Python needs 3.5 to 5 s to check a
million compressed records, which fit into a request of 350 kB."""
SLICES, ALL_SLICES = 2, 1_000_000
"""The number of slices that run between two steps, and a number so large that all slices run."""
HANG = 20.0
"""Seconds of CPU time after which a request is interrupted."""
MOST_MEMORY = 512 << 20
"""One request may increase the process's peak memory by at most this many bytes."""
LARGEST_RESPONSE = 130 << 20
"""The largest size of a response in bytes; the broker's own limit is a little lower."""
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (3, {}), "ledger": (1, {"cleanup.policy": "compact"}), "stamps": (1, {"message.timestamp.type": "LogAppendTime"}),
}  # fmt: skip
"""The topics that exist at the beginning of a case. Each has a number of partitions, and settings."""
WAITS = (1000, 60_000, 700_000)
"""The waits, in ms, for missing responses at the end of a case."""
JOIN_GROUP = KEYS["JoinGroup"]
ASKING = 98
"""The number of the connection that compares the state before and after a restart."""
LONGEST_WAIT = 2**31
"""The longest wait, in ms, that a request can ask for. A move of the clock by this time makes many timers fire. So the clock
moves so far only if a response is still missing at the end of a case.
"""


class Hang(BaseException):
    """Raised if the watchdog interrupted a request. It is a BaseException, so `except Exception` does not catch it."""


@dataclass(eq=False)
class Link:
    """A client's connection, and its unanswered requests."""

    number: int
    connection: Connection
    arrived: deque[bytes] = field(default_factory=deque)
    awaited: deque[Asked] = field(default_factory=deque)


@dataclass(slots=True)
class Asked:
    """A request that the engine has received."""

    key: int
    version: int
    correlation_id: int
    request: Message | None
    answered: bool = True
    member: tuple[str, str] | None = None
    """The group and the member id in a JoinGroup."""

    def __str__(self) -> str:
        return f"{api_name(self.key)} v{self.version}"


@dataclass(slots=True)
class Response:
    """A response, its request, and the number of its connection."""

    link: int
    asked: Asked
    response: Message


class World:
    """An engine, its clients and its directory. `close` removes the directory."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.now = START
        self.links: dict[int, Link] = {}
        self.acknowledged = Acknowledged()
        self.joins: Counter[tuple[str, str]] = Counter()
        """How often each member of a group has sent a JoinGroup."""
        self.slowest = 0.0
        self.slowest_request = ""
        self.requests = self.responses = 0
        self._random = random.Random(setting.seed)
        self._folder = folder() if setting.data else None
        # A request whose write fails or is slowed by a fault is not handled in slices.
        self._limit = SLICE if setting.sliced and setting.faults != "active" else SLOW
        self._by_connection: dict[Connection, Link] = {}
        self.engine = self._start()
        for name, (partitions, overrides) in TOPICS.items():
            self.engine.cluster.create_topic(name, self.now, partitions=partitions, overrides=overrides)

    def _start(self) -> Engine:
        store = None
        if self._folder is not None:
            store = FolderStore(self._folder, self._random.randbytes, brokers=self.setting.brokers)
        engine = Engine(
            self.now, self._random.randbytes, brokers=self.setting.brokers, cold_start=False, store=store,
            settings={"log.cleaner.backoff.ms": "15000"},
        )  # fmt: skip
        if self.setting.sliced:
            engine.turns.wake = _nothing
        engine.trace_at(self.setting.trace)
        for rule in RULES[self.setting.faults]():
            engine.plan.add(rule)
        return engine

    def close(self) -> None:
        """Closes everything."""
        if self.engine.store is not None:
            self.engine.store.abandon()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # Steps

    def do(self, step: Step) -> list[Response]:
        """Do one step, and return the responses that arrive. Raises Finding."""
        if step.what == "open":
            self._open(step.connection)
        elif step.what == "send":
            link = self.links.get(step.connection) or self._open(step.connection)
            link.arrived.append(step.frame)
        elif step.what == "close":
            self._close(step.connection)
        elif step.what == "wait":
            self._advance(step.ms)
        elif step.what in ("kill broker", "start broker"):
            self._guarded(step.what, lambda: self._change_broker(step))
        elif step.what == "restart":
            self._guarded(f"a restart ({step.mode})", lambda: self._restart(step.mode))
        return self._settle(ALL_SLICES if step.what in ("turns", "wait") else None)

    def _open(self, number: int) -> Link:
        self._close(number)
        nodes = sorted(self.engine.cluster.live_brokers) or sorted(self.engine.cluster.brokers)
        connection = self.engine.connect(nodes[number % len(nodes)], now=self.now)
        link = self.links[number] = self._by_connection[connection] = Link(number, connection)
        return link

    def _close(self, number: int) -> None:
        link = self.links.pop(number, None)
        if link is not None:
            self._guarded("a client that leaves", lambda: self.engine.disconnected(link.connection, now=self.now))
            self._by_connection.pop(link.connection, None)

    def _advance(self, ms: int) -> None:
        self.now += ms
        self._guarded(f"{ms} ms that pass", lambda: self.engine.tick(self.now), limit=10 * HANG)

    def _change_broker(self, step: Step) -> None:
        cluster = self.engine.cluster
        node = sorted(cluster.brokers)[step.connection % len(cluster.brokers)]
        if step.what == "kill broker" and cluster.alive(node):
            self.engine.kill_broker(node, self.now)
        elif step.what == "start broker" and not cluster.alive(node):
            self.engine.start_broker(node, self.now)

    def _restart(self, mode: str) -> None:
        if self._folder is None:
            self.engine.restart(mode, self.now)
            return
        assert self.engine.store is not None
        if mode == "clean":
            self.engine.store.close(self.now)
        else:
            self.engine.store.abandon()
        self.links.clear()
        self._by_connection.clear()
        self.engine = self._start()

    def _settle(self, turns: int | None = None) -> list[Response]:
        """Pass the received frames to the engine and take its responses, until nothing changes or `turns` slices have run."""
        responses = self._perform()
        slices = SLICES if turns is None else turns
        moved = True
        while moved:
            moved = False
            for link in list(self.links.values()):
                while link.arrived and link.connection.parked is None and link.connection.state is not CLOSED:
                    moved = True
                    self._receive(link, link.arrived.popleft())
                    responses += self._perform()
            if slices and self._take_turn():
                slices -= 1
                moved = True
                responses += self._perform()
        return responses

    def _take_turn(self) -> bool:
        """Run the next slice of a long request. Returns False if there is no slice to run."""
        turns = self.engine.turns
        if turns.offloads:
            unfinished, offload = turns.offloads.popleft()
            what = f"work aside for {api_name(unfinished.exchange.api_key)}"
            self._guarded(what, lambda: unfinished.do(offload), limit=HANG)
            turns.resume(unfinished)
        elif turns.waiting:
            what = f"a slice of {api_name(turns.waiting[0].exchange.api_key)}"
            self._guarded(what, turns.proceed)
        else:
            return False
        return True

    def _receive(self, link: Link, frame: bytes) -> None:
        asked = asked_by(frame, self.engine)
        if asked is not None and asked.answered:
            link.awaited.append(asked)
            if asked.member is not None:
                self.joins[asked.member] += 1
        self.requests += 1
        what = f"{asked or 'a frame without a header'} of {len(frame)} bytes"
        buffer = bytearray(frame)
        self._guarded(what, lambda: self.engine.receive(link.connection, memoryview(buffer), self.now))
        buffer[:] = b"\xee" * len(buffer)  # overwrites the buffer, as the connection's next read would

    def _guarded(self, what: str, work: Callable[[], None], limit: float = 0.0) -> None:
        """Calls the engine. Raises Finding after an error or a slow call. The default `limit` is the limit of a request."""
        limit, measured = limit or self._limit, not limit
        previous = signal.signal(signal.SIGVTALRM, _hangs)
        signal.setitimer(signal.ITIMER_VIRTUAL, max(HANG, limit))
        begun, most = time.process_time(), peak_memory()
        try:
            work()
        except Hang as hang:
            raise Finding(f"hang: {what.split(' of ')[0]}", f"{what}\n{_stack(hang)}") from None
        except Exception as error:
            raise Finding(f"raised: {_place(error)}", f"{what}\n{_stack(error)}") from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, previous)
        took = time.process_time() - begun
        if (grown := peak_memory() - most) > MOST_MEMORY:
            raise Finding(f"memory: {what.split(' of ')[0]}", f"{what} took {grown >> 20} MiB")
        if took > self.slowest and measured:
            self.slowest, self.slowest_request = took, what
        if took > limit:
            raise Finding(f"slow: {what.split(' of ')[0]}", f"{what} took {took:.2f} s of CPU")

    # Answers

    def _perform(self) -> list[Response]:
        store = self.engine.store
        if store is not None:
            self._guarded("writing the metadata", lambda: store.settle(self.now))
            self._guarded("the storage jobs", store.run_jobs, limit=HANG)
        responses = []
        for effect in self.engine.take_effects():
            link = self._by_connection.get(effect.connection)
            if link is None:
                continue
            if isinstance(effect, Respond):
                if effect.parts:  # an effect without parts is not a response; it only lets the connection continue
                    responses.append(self._answered(link, b"".join(effect.parts)))
            elif isinstance(effect, Close):
                if not effect.reason.strip():
                    raise Finding("a connection is closed without a reason", "")
                self.links.pop(link.number, None)
                self._by_connection.pop(link.connection, None)
        return responses

    def _answered(self, link: Link, raw: bytes) -> Response:
        size, correlation_id = struct.unpack_from(">ii", raw)
        if not link.awaited:
            raise Finding("a response without a request", raw[:60].hex())
        asked = link.awaited.popleft()
        if size != len(raw) - 4 or correlation_id != asked.correlation_id:
            raise Finding(f"{asked}: a response to another request", f"{correlation_id} instead of {asked.correlation_id}")
        if size > LARGEST_RESPONSE:
            raise Finding(f"{asked}: a huge response", f"{size} bytes")
        version = asked.version
        if asked.key == API_VERSIONS and not _in(version, served_by(self.engine)[API_VERSIONS]):
            version = 0
        try:
            _, response = decode_response(raw[4:], asked.key, version)
        except TooManyElements:  # the beginning of this long response is valid
            response = response_class(asked.key)()
        except ProtocolError as wrong:
            raise Finding(f"{asked}: a response that cannot be read", f"{wrong}: {raw[:200].hex()}") from None
        self.responses += 1
        if isinstance(asked.request, ProduceRequest):
            self.acknowledged.note(asked.request, response, self._topic_id)
        return Response(link.number, asked, response)

    # In the end

    def finish(self) -> None:
        """Checks the logs, runs all timers, and checks again that no response is missing. Raises Finding."""
        self.do(Step("turns"))
        self.check_log()
        if self.setting.data:
            self._kill()
        for ms in WAITS:
            self.do(Step("wait", ms=ms))
        if self._waiting():
            self.do(Step("wait", ms=LONGEST_WAIT))
        if waiting := self._waiting():
            raise Finding(f"no response: {waiting[0]}", f"no responses in {LONGEST_WAIT} ms: {waiting}")

    def _kill(self) -> None:
        """Kills and restarts the broker, and checks that it has all acknowledged records and state."""
        before = self._durable()
        self.do(Step("restart", mode="kill"))
        self.check_log()
        if self.setting.brokers == 1 and (told := difference(before, self._durable())):
            raise Finding(f"lost in a kill: {told.partition(':')[0].rpartition(' ')[0]}", told)

    def _durable(self) -> dict[str, Any]:
        self.engine.plan.clear()  # otherwise a fault could match the following requests
        self._open(ASKING)
        return durable(self._ask, [f"group-{number}" for number in range(2)])

    def _ask(self, request: Message, version: int) -> Any:
        """Sends a request as a good client, and returns the response. Raises Finding."""
        key = request.__schema__.key
        responses = self.do(Step("send", ASKING, encode_request(7, "fuzz", request, version)[4:]))
        responses += self.do(Step("turns"))
        for ms in (100, 1000):
            if not responses:  # a fault may delay the response
                responses += self.do(Step("wait", ms=ms))
        for response in responses:
            if response.link == ASKING:
                return response.response
        raise Finding(f"a good client's {api_name(key)} v{version} is not answered", "")

    def _waiting(self) -> list[str]:
        return [str(link.awaited[0]) for link in self.links.values() if link.awaited and not self._replaced(link.awaited[0])]

    def _replaced(self, asked: Asked) -> bool:
        """Returns whether the same member may have sent a later JoinGroup over another connection.

        If so, Kafka forgets the first JoinGroup and never responds to it (ClassicGroup.updateMember).
        """
        return asked.member is not None and self.joins[asked.member] > 1

    def check_log(self) -> None:
        """Check that the logs have every acknowledged batch, and that no offsets are missing."""
        self._guarded("reading the log", self._check_log, limit=HANG)

    def _check_log(self) -> None:
        for topic in self.engine.cluster.topics.values():
            for partition in topic.partitions:
                compacted = "compact" in str(topic.configs.value("cleanup.policy")) and partition.log.cleaned_to > 0
                log = read_log(
                    f"{topic.name}-{partition.index}", partition.log_start_offset, partition.log_end_offset,
                    partition.log.batches(partition.log_start_offset), compacted=compacted,
                    cleaned_to=partition.log.cleaned_to,
                )  # fmt: skip
                self.acknowledged.check(topic.topic_id, partition.index, log)

    def _topic_id(self, name: str | bytes) -> bytes | None:
        cluster = self.engine.cluster
        topic = cluster.topics_by_id.get(name) if isinstance(name, bytes) else cluster.topics.get(name)
        return topic.topic_id if topic is not None else None


def peak_memory() -> int:
    """Returns the peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def folder() -> Path:
    """Returns a new directory, in memory if the system has /dev/shm."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="wirebroker-fuzz-", dir=memory if memory.is_dir() else None))


def served_by(engine: Engine) -> Mapping[int, tuple[int, int]]:
    """For each API key, returns the versions that the brokers accept."""
    return next(iter(engine.cluster.brokers.values())).versions


def asked_by(frame: bytes, engine: Engine) -> Asked | None:
    """Returns the API, the version and other facts of the request in a frame, or None if the header cannot be read."""
    try:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
    except struct.error:
        return None
    request = None
    if key in (PRODUCE, JOIN_GROUP) and _in(version, served_by(engine).get(key, (1, 0))):
        try:
            request, _ = decode(request_class(key), frame, version, read_request_header(frame).end)
        except ProtocolError:
            request = None
    if isinstance(request, JoinGroupRequest):
        return Asked(key, version, correlation_id, None, member=(request.group_id, request.member_id))
    return Asked(key, version, correlation_id, request, answered=getattr(request, "acks", 1) != 0)


def _in(version: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= version <= bounds[1]


def _nothing() -> None:
    """Does nothing, because `_settle` runs the slices."""


def _no_rules() -> list[faults.Rule]:
    return []


def _rules_that_fire() -> list[faults.Rule]:
    """Fault rules that fire. Even with these faults, each request gets exactly one response."""
    return [
        faults.error(-1, every=9),
        faults.error(7, every=14, after=True, api="Fetch"),
        faults.delay(50, every=11),
        faults.throttle(5, every=13),
        faults.slow_write(20, every=5),
    ]


def _rules_that_never_fire() -> list[faults.Rule]:
    """Fault rules whose conditions are checked for every request, but never match."""
    return [
        faults.lose_ack(topic="nowhere", partition=7), faults.error(7, group="nowhere"),
        faults.error(7, transactional_id="nowhere", api="EndTxn"), faults.error(7, producer_id=999_999,
        sequence=(5, 9)),
        faults.delay(5, topic="orders", nth=10_000_000), faults.throttle(5, group="group-0", nth=10_000_000),
    ]  # fmt: skip


RULES = {"": _no_rules, "idle": _rules_that_never_fire, "active": _rules_that_fire}
"""For each value of `Setting.faults`: the fault rules to load."""


def _hangs(_: int, __: FrameType | None) -> None:
    raise Hang


def _place(error: Exception) -> str:
    """Returns the error and the line that raised it. Findings with the same text have the same cause."""
    if isinstance(error, Finding):
        return error.kind
    if isinstance(error, EncodeError):  # the same line raises every EncodeError
        return f"EncodeError in {str(error).split(' ')[0]}"
    frames = traceback.extract_tb(error.__traceback__)
    last = next(
        (each for each in reversed(frames) if "wirebroker" in each.filename or "kafkawire" in each.filename), frames[-1]
    )
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} in {last.name}"


def _stack(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(lines)[-3000:]
