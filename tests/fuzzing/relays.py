"""The proxy is between simulated clients and brokers. It forwards random requests and responses of every API, some of them
damaged.

The proxy must not raise an exception. The broker gets the client's bytes, unchanged and in order. The client gets the broker's
responses in order. The proxy changes only responses with addresses: it replaces the addresses of brokers by its own. If a
connection is closed, there must be a reason. While faults are loaded, the test checks only the order and the reasons.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from random import Random
from typing import Any

from fuzzing.cases import Outcome
from fuzzing.frames import damaged_frame
from fuzzing.script import Finding, Script, Setting
from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.frames import (
    KEY_VERSION_CORRELATION,
    SIZE,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from kafkawire.messages import APIS
from kafkawire.registry import API_VERSIONS, KEYS, api_name, request_class, response_class
from wire.random_messages import Maker, versions_of
from wirebroker import faults
from wirebroker.proxy.addresses import carries_addresses
from wirebroker.proxy.exchange import Forward
from wirebroker.proxy.proxy import Proxy
from wirebroker.requests.effects import Close, Respond, Shaped

START = 1_800_000_000_000
SLOW = 0.5
"""The longest CPU time, in seconds, in which the proxy must handle one piece of data."""
STEPS = 120
LIMIT = 1 << 20
"""The size of the largest request that the proxy forwards."""
OFTEN = ("Produce", "Fetch", "Metadata", "ApiVersions", "FindCoordinator", "InitProducerId", "SaslHandshake")
NODES = ("brokers", "coordinators", "node_endpoints")
PROXY = "proxy"
RULES = (
    lambda: faults.delay(20, api="Metadata", every=2), lambda: faults.lose_ack(api="Produce", every=5),
    lambda: faults.error(3, api="Fetch", every=3, after=True), lambda: faults.error("NOT_LEADER_OR_FOLLOWER", every=7),
    lambda: faults.cut(5, api="FindCoordinator", every=4), lambda: faults.slice(7, ms=5, every=6),
    lambda: faults.throttle(5, probability=0.2), lambda: faults.reorder(2, every=9), lambda: faults.lose_request(every=11),
)  # fmt: skip


class Link:
    """A client, the broker, and the proxy's connection between them."""

    def __init__(self, proxy: Proxy, number: int) -> None:
        self.relay = proxy.connect(number, "127.0.0.1", "PLAINTEXT", START)
        self.connection = self.relay.connection
        self.sent, self.forwarded = bytearray(), bytearray()
        self.answered, self.received = bytearray(), bytearray()
        self.unsent, self.unanswered = bytearray(), bytearray()
        self.read = 0
        """The number of forwarded bytes that the broker has read."""
        self.asked: deque[tuple[int, int]] = deque()
        """The API and the version of each response for which the client waits, in order."""
        self.closed: str | None = None
        self.shaped = self.wild = False
        """`shaped`: a fault has changed a response. `wild`: one side has sent data that the other side cannot decode.
        """


class RelayCase:
    """A case of the fuzzer: random traffic through a proxy, made from a seed."""

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        self.seed, self.steps = seed, steps
        self.random = Random(f"relay-{seed}")
        self.now = START
        self.proxy = Proxy(START, lambda host, port, node_id: (PROXY, 1), seed=seed, frame_limit=LIMIT)
        self.proxy.trace_at(("off", "off", "verdicts", "changes", "all")[seed % 5])
        self.faulty = seed % 3 == 2
        for rule in self.random.sample(RULES, 2) if self.faulty else ():
            self.proxy.plan.add(rule())
        self.links: dict[Any, Link] = {}
        self.open: list[Link] = []
        self.requests = self.responses = 0
        self.slowest, self.slowest_request = 0.0, ""

    def run(self) -> Outcome:
        """Plays the case, and returns its outcome. If there is a finding, the outcome has it."""
        finding = None
        try:
            for _ in range(self.steps):
                self._step()
            self._settle()
        except Finding as found:
            finding = found
        script = Script(Setting(self.seed), ())
        return Outcome(script, finding, self.requests, self.responses, self.slowest, self.slowest_request)

    # Steps

    def _step(self) -> None:
        random = self.random
        if not self.open or (len(self.open) < 3 and random.random() < 0.05):
            link = Link(self.proxy, random.choice((-1, 1, 2)))
            self.links[link.connection] = link
            self.open.append(link)
            self._perform()
            return
        link, chance = random.choice(self.open), random.random()
        if chance < 0.45:
            self._ask(link)
            self._client_sends(link)
        elif chance < 0.55:
            self._client_sends(link)
        elif chance < 0.93:
            self._response(link)
            self._broker_sends(link)
        elif chance < 0.98:
            self._pass(random.choice((1, 20, 500)))
        else:
            self._guard("the end", lambda: self.proxy.disconnected(link.connection, "one side closed it", self.now))
            self._over(link)

    def _settle(self) -> None:
        """Delivers all data in flight, and checks that all of it arrives."""
        for _ in range(200):
            before = [(len(link.forwarded), len(link.received), link.closed) for link in self.open]
            for link in list(self.open):
                self._client_sends(link, True)
                self._response(link)
                self._broker_sends(link, True)
            self._pass(1000)
            if before == [(len(link.forwarded), len(link.received), link.closed) for link in self.open]:
                break
        for link in self.open:
            if not self.faulty and not link.wild and link.forwarded != link.sent:
                raise Finding("a request was not forwarded", f"{len(link.sent)} bytes sent, {len(link.forwarded)} forwarded")

    def _client_sends(self, link: Link, everything: bool = False) -> None:
        relay = link.relay
        self._send(link, link.unsent, link.sent, link.forwarded, relay.pass_requests, relay.from_client, everything)

    def _broker_sends(self, link: Link, everything: bool = False) -> None:
        relay = link.relay
        self._send(link, link.unanswered, link.answered, link.received, relay.pass_responses, relay.from_broker, everything)

    def _send(
        self, link: Link, source: bytearray, sent: bytearray, passed: bytearray, passes: Any, to: Any, everything: bool
    ) -> None:
        while source and link.closed is None:
            size = len(source) if everything else self.random.choice((1, 3, 7, 20, 200, len(source), len(source)))
            piece = bytes(source[:size])
            del source[:size]
            sent += piece
            self.proxy.set_time(self.now)

            def arrive(data: bytes = piece) -> None:
                if (shortcut := passes(memoryview(data))) == len(data):
                    passed.extend(data)
                else:
                    to(memoryview(data), self.now, shortcut)

            self._guard(to.__name__, arrive)
            if not everything and self.random.random() < 0.3:
                return

    def _pass(self, ms: int) -> None:
        self.now += ms
        self._guard("the clock", lambda: self.proxy.tick(self.now))
        for link in list(self.open):
            self._guard("going on", lambda relay=link.relay: relay.go_on(self.now))

    # Requests and answers

    def _ask(self, link: Link) -> None:
        """Makes a request of the client, and damages it in some cases."""
        random = self.random
        key = KEYS[random.choice(OFTEN)] if random.random() < 0.6 else random.choice(list(APIS))
        version = random.choice(versions_of(request_class(key)))
        maker = Maker((self.seed, self.requests), longest=random.choice((1, 3, 3, 30)))
        self.requests += 1
        try:
            raw = encode_request(self.requests, "fuzz", maker.message(request_class(key), version), version)
        except EncodeError:
            return
        if random.random() < 0.08:
            frame = damaged_frame(random, raw[4:])
            raw = SIZE.pack(len(frame)) + frame
            link.wild = link.wild or not _passes(frame)
        elif random.random() < 0.01:
            raw, link.wild = random.randbytes(random.choice((3, 4, 40))), True
        link.wild = link.wild or len(raw) > LIMIT
        link.unsent += raw

    def _response(self, link: Link) -> None:
        """Makes the broker's responses to forwarded requests, in some cases with random data."""
        while len(link.forwarded) - link.read >= 4:
            (size,) = SIZE.unpack_from(link.forwarded, link.read)
            if len(link.forwarded) - link.read < size + 4 or not 8 <= size <= LIMIT:
                return
            frame = bytes(link.forwarded[link.read + 4 : link.read + 4 + size])
            link.read += 4 + size
            self._respond_to_one(link, frame)

    def _respond_to_one(self, link: Link, frame: bytes) -> None:
        random = self.random
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(frame)
        request = _decoded(frame)
        if getattr(request, "acks", -1) == 0:
            return
        made = self._made(key, version, correlation_id)
        if made is None or request is None:  # a real broker would close the connection; this broker sends nothing
            link.wild = True
            return
        self.responses += 1
        if random.random() < 0.02:
            made, link.wild = self._mad(made), True
        link.asked.append((key, version))
        link.unanswered += made

    def _made(self, key: int, version: int, correlation_id: int) -> bytes | None:
        try:
            message = Maker((self.seed, "answer", self.responses)).message(response_class(key), version)
            if key == API_VERSIONS:
                message.error_code = 0
            return b"".join(encode_response(correlation_id, message, version))
        except (EncodeError, KeyError):
            return None

    def _mad(self, made: bytes) -> bytes:
        random, changed = self.random, bytearray(made)
        way = random.randrange(4)
        if way == 0:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        elif way == 1:
            changed[:4] = SIZE.pack(random.choice((-1, 0, 3, 4, 2**31 - 1, len(made) - 3, len(made) - 5)))
        elif way == 2:
            changed += made
        else:
            del changed[random.randrange(8, len(changed) + 1) :]
            changed[:4] = SIZE.pack(len(changed) - 4)
        return bytes(changed)

    # Rules

    def _guard(self, what: str, work: Any) -> None:
        begun = time.thread_time()
        try:
            work()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"raised: {type(error).__name__} at {where.filename.rpartition('/')[2]}:{where.lineno} in {where.name}"
            raise Finding(kind, f"{what}\n{''.join(traceback.format_exception(error))[-3000:]}") from error
        took = time.thread_time() - begun
        if took > self.slowest:
            self.slowest, self.slowest_request = took, what
        if took > SLOW:
            raise Finding(f"slow: {what}", f"{took:.2f} s of CPU")
        self._perform()

    def _perform(self) -> None:
        """Performs the proxy's effects (data to send, connections to close), and checks them."""
        for effect in self.proxy.take_effects():
            link = self.links[effect[0]]
            if isinstance(effect, Forward):
                link.forwarded += effect.data
            elif isinstance(effect, Respond):
                link.received += b"".join(effect.parts)
            elif isinstance(effect, Shaped):
                link.shaped = True
            elif isinstance(effect, Close):
                link.closed = effect.reason
                if not effect.reason.strip() or not (link.wild or self.faulty):
                    raise Finding("a connection is closed without a reason", repr(effect.reason))
        for link in list(self.open):
            self._check(link)
            if link.closed is not None:
                self._over(link)

    def _over(self, link: Link) -> None:
        self.open.remove(link)
        link.closed = link.closed or "over"

    def _check(self, link: Link) -> None:
        if not self.faulty and not link.sent.startswith(link.forwarded):
            raise Finding("the proxy changed a request", f"{len(link.sent)} bytes sent, {len(link.forwarded)} forwarded")
        if link.wild or link.shaped:
            return
        while (received := _first(link.received)) is not None:
            answered = _first(link.answered)
            if self.faulty:
                del link.received[: len(received)]
                continue
            if answered is None or not link.asked:
                raise Finding("the client got a response that the broker did not send", received[:60].hex())
            self._compare(received, answered, *link.asked.popleft())
            del link.received[: len(received)], link.answered[: len(answered)]

    @staticmethod
    def _compare(received: bytes, answered: bytes, key: int, version: int) -> None:
        what = f"{api_name(key)} v{version}"
        if received == answered and not carries_addresses(key, version):
            return
        if key != API_VERSIONS and not carries_addresses(key, version):
            raise Finding(f"the proxy changed a response: {what}", f"{answered[:60].hex()}\n{received[:60].hex()}")
        try:
            (before, mine), (after, sent) = (decode_response(each[4:], key, version) for each in (answered, received))
        except ProtocolError as damage:
            raise Finding(f"a response cannot be read: {what}", str(damage)) from damage
        if before != after:
            raise Finding(f"the proxy changed the correlation id of a response: {what}", "")
        for node in [sent, *(node for name in NODES for node in getattr(sent, name, ()))]:
            if getattr(node, "host", "") not in ("", PROXY):
                raise Finding(f"a response names a broker: {what}", repr(node))
        if _without_addresses(mine) != _without_addresses(sent):
            raise Finding(f"the proxy changed a response: {what}", f"{mine}\n{sent}"[:2000])


def _first(data: bytearray) -> bytes | None:
    """Returns the first frame, including its size field, or None if the frame is not complete."""
    size = SIZE.unpack_from(data)[0] if len(data) >= 4 else 0
    if size < 0:
        raise Finding("the client got a response of a negative size", bytes(data[:60]).hex())
    return bytes(data[: 4 + size]) if len(data) >= 4 + size >= 8 else None


def _passes(frame: bytes) -> bool:
    """Returns whether the frame is a request that a broker can decode and would respond to."""
    return len(frame) >= 8 and _decoded(frame) is not None


def _decoded(frame: bytes) -> Message | None:
    try:
        header = read_request_header(memoryview(frame))
        return decode(request_class(header.api_key), memoryview(frame), header.api_version, header.end)[0]
    except (ProtocolError, KeyError):
        return None


def _without_addresses(message: Any) -> Any:
    for node in [message, *(node for name in NODES for node in getattr(message, name, ()))]:
        if hasattr(node, "host"):
            node.host = node.port = 0
    for offered in getattr(message, "api_keys", ()):
        offered.max_version = 0
    return message
