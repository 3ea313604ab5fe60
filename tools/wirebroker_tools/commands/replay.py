"""`wirebroker replay`: sends a captured session again, and compares the outcomes."""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.entities import values
from kafkawire.errors import EncodeError, ErrorCode, ProtocolError, error_name
from kafkawire.frames import SIZE, decode_response, encode_request, read_request_header
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import BETWEEN_NODES, KEYS, api_name, request_class
from wirebroker.client.brokers import Brokers
from wirebroker.client.login import LoginFailed
from wirebroker.client.settings import Access, read_access
from wirebroker.client.wire import Connection, address_of
from wirebroker.common.complaints import complain
from wirebroker.proxy.exchange import ForwardedExchange
from wirebroker.proxy.relay import Relay
from wirebroker.requests.facts import facts_of
from wirebroker.requests.parts import Where, named, part_of, topic_name
from wirebroker_tools.capture.files import DamagedCapture
from wirebroker_tools.capture.outcomes import Outcomes
from wirebroker_tools.capture.remaking import Remaker
from wirebroker_tools.capture.session import Observer, Recorded, RecordedExchange, RecordedRequest, Session
from wirebroker_tools.commands.diff import report
from wirebroker_tools.decode.other_files import OtherFile, checked

METADATA_VERSION, CREATE_VERSION, INIT_VERSION, FIND_VERSION = 12, 5, 4, 3
"""API versions that every broker since Kafka 2.8 supports."""
NOT_REPLAYED = frozenset(KEYS[name] for name in ("SaslHandshake", "SaslAuthenticate"))
"""Recorded logins are not replayed, because a capture has no secrets. Each connection logs in with the settings in
--command-config."""
TO_LEADERS = frozenset(
    KEYS[name] for name in ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords", "DescribeProducers")
)
OF_TRANSACTIONS = frozenset(
    KEYS[name] for name in ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions")
)
GROUP, TRANSACTION = 0, 1
NO_REPLICA = -1
"""The replica id in a client's Fetch, ListOffsets and OffsetForLeaderEpoch."""
NOT_READY = frozenset(
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
     ErrorCode.CONCURRENT_TRANSACTIONS)
)  # fmt: skip
TOLD_EVERY_S = 5.0
"""Seconds between two lines about the progress."""
FETCH_WAIT_MS = 2000
"""If the recorded response to a Fetch has records, the replayed Fetch has at least this max_wait_ms."""
PAUSE_S = 0.1
"""Seconds between two attempts while a coordinator is not ready."""
Address = tuple[str, int]


class CannotReplay(ValueError):
    """Raised if the session cannot be sent. The message is a sentence for the user."""


def run(arguments: argparse.Namespace) -> int:
    """Send the session, and compare the outcomes.

    Returns 0 if no difference matters, 1 if a difference matters, 2 if the session cannot be sent.
    """
    recorded, events = Outcomes(), list[Recorded]()

    unsent = 0

    def take(event: Recorded) -> None:
        nonlocal unsent
        if not _is_of_a_client(event):
            unsent += isinstance(event, RecordedRequest)
            return
        recorded.event(event)
        events.append(event)

    session = Session(recorded.row, take)
    try:
        address = address_of(arguments.bootstrap)
        with open(arguments.session, "rb") as file:
            session.read(checked(file, arguments.session))
        for complaint in session.complaints:
            complain("replay", f"{arguments.session}: {complaint}")
        if unsent:
            complain("replay", f"{arguments.session}: {unsent:,} requests of brokers and controllers are not sent")
        if session.is_empty:
            return 2
        access = read_access(arguments.command_config) if arguments.command_config else Access()
        replay = Replay(session, address, arguments.timeout, access)
        replay.prepare(events, create=arguments.create_topics)
        replay.play(events)
    except (DamagedCapture, OtherFile) as wrong:
        complain("replay", f"{arguments.session}: {wrong}")
    except (ProtocolError, EncodeError, ValueError) as wrong:
        complain("replay", wrong)
    else:
        return report(recorded.lanes(), replay.outcomes.lanes(replay.remaker.moved()))
    return 2


def _is_of_a_client(event: Recorded) -> bool:
    """Tells whether a client has sent this request, and not a broker or a controller."""
    if isinstance(event, RecordedExchange):
        key, request = event.exchange.api_key, event.exchange.request
    else:
        frame = event.frame[SIZE.size :]
        try:
            header = read_request_header(frame)
            key, (request, _) = header.api_key, decode(request_class(header.api_key), frame, header.api_version, header.end)
        except (ProtocolError, KeyError):
            return True
    replica = getattr(getattr(request, "replica_state", None), "replica_id", NO_REPLICA)
    return key not in BETWEEN_NODES and max(replica, getattr(request, "replica_id", NO_REPLICA)) < 0


@dataclass(slots=True)
class _Line:
    """A new connection that replaces a recorded connection."""

    connection: Connection
    relay: Relay
    awaited: deque[tuple[int, bytes]] = field(default_factory=deque)
    """The correlation id and the bytes of each request whose response has not been compared yet."""
    arrived: deque[bytes] = field(default_factory=deque)
    """Responses that were read early, because the connection had to log in again."""


class Replay:
    """Sends the recorded requests in the recorded order, and reads each response at the point at which it was recorded."""

    def __init__(self, session: Session, bootstrap: tuple[str, int], timeout: float, access: Access) -> None:
        self.outcomes = Outcomes()
        self._bootstrap, self._timeout = bootstrap, timeout
        self._brokers = Brokers(access, timeout)
        self._own = self._connect(bootstrap)
        self._nodes: dict[int, Address] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._observer = Observer(lambda host, port, node_id: (host, port), self.outcomes.row, self._observed)
        self._directory = session.directory
        self.remaker = Remaker(self._directory, self._observer.directory, self._new_producer)
        self._lines: dict[tuple[int, Address], _Line] = {}
        self._sessions: dict[tuple[int, int], Address] = {}
        """The node of each fetch session, by the number of the recorded connection and the recorded session id."""
        self._latest: Message | None = None
        """The response that was read last."""
        self._full: dict[tuple[int, int], frozenset[tuple[str, int]]] = {}
        """For each recorded Fetch, by connection and correlation id: the partitions that have records in its response."""
        self._told = time.monotonic()

    def _connect(self, address: tuple[str, int]) -> Connection:
        where = "{}:{}".format(*address)
        try:
            return self._brokers.connect(where)
        except OSError as refused:
            raise CannotReplay(f"the broker at {where} cannot be reached: {refused}") from None
        except LoginFailed as refused:
            raise CannotReplay(f"the broker at {where}: {refused}") from None

    def _ask(self, message: Message, version: int) -> Any:
        self._brokers.renew(self._own)
        return self._own.request(message, version)

    def prepare(self, events: Iterable[Recorded], *, create: bool) -> None:
        """Learn the cluster's nodes and topics. Raises CannotReplay if topics are missing, unless `create`."""
        self._learn_metadata()
        known = self._observer.directory.topics()
        missing = {name: count for name, count in _topics(events).items() if name not in known}
        if missing and not create:
            named = ", ".join(f"{name}:{count}" for name, count in sorted(missing.items()))
            raise CannotReplay(f"topics of the session do not exist: {named} (--create-topics creates them)")
        if missing:
            topics = [
                CreatableTopic(name=name, num_partitions=count, replication_factor=-1, assignments=[], configs=[])
                for name, count in missing.items()
            ]
            response = self._ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), CREATE_VERSION)
            for each in response.topics:
                if each.error_code:
                    raise CannotReplay(f"the topic {each.name} cannot be created: {each.error_message}")
            self._learn_metadata()

    def _learn_metadata(self) -> None:
        response: MetadataResponse = self._ask(MetadataRequest(topics=None), METADATA_VERSION)
        self._nodes = {each.node_id: (each.host, each.port) for each in response.brokers}
        for topic in response.topics:
            self._leaders |= {(topic.name or "", each.partition_index): each.leader_id for each in topic.partitions}
        self._observer.directory.learn(response)

    def _new_producer(self) -> int:
        response = self._ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), INIT_VERSION)
        return int(response.producer_id)

    def _observed(self, event: Recorded) -> None:
        self.outcomes.event(event)
        if isinstance(event, RecordedExchange):
            self._latest = event.response

    def play(self, events: Iterable[Recorded]) -> None:
        """Send the requests. Raises CannotReplay, ProtocolError."""
        events = list(events)
        self._full = {
            (event.exchange.connection.number, event.exchange.correlation_id): frozenset(
                self._places_with_records(event.response)
            )
            for event in events
            if isinstance(event, RecordedExchange) and isinstance(event.response, FetchResponse)
        }
        for number, event in enumerate(events):
            self._where = f"{number:,} of {len(events):,} requests and responses"
            self._tell("")
            if isinstance(event, RecordedRequest):
                self._send(event)
            else:
                self._read(event)
        for key in list(self._lines):
            self._drop(key, "the session ends")

    def _places_with_records(self, response: FetchResponse) -> Iterator[tuple[str, int]]:
        for topic in response.responses:
            name = topic_name(topic, self._directory) or ""
            yield from ((name, each.partition_index) for each in topic.partitions if each.records)

    def _tell(self, waits: str) -> None:
        """Report the progress of a long replay from time to time."""
        if time.monotonic() >= self._told + TOLD_EVERY_S:
            self._told = time.monotonic()
            complain("replay", f"{self._where}{waits}")

    def _address(self, key: int, request: Message) -> Address:
        """Returns the address of the node that gets the request: the leader of the first partition in the request, or the
        coordinator, else the bootstrap node.
        """
        node_id = -1
        if key in TO_LEADERS:
            partitions = (place for place in named(request, self._directory) if place[1] is not None)
            node_id = next((self._leaders.get((name, index or 0), -1) for name, index in partitions), -1)
        elif coordinated := _coordinated(key, request):
            node_id = (
                self._coordinators[coordinated[0]] if coordinated[0] in self._coordinators else self._find(*coordinated[0])
            )
        return self._nodes.get(node_id, self._bootstrap)

    def _find(self, kind: int, name: str) -> int:
        end = time.monotonic() + self._timeout
        while True:
            response = self._ask(FindCoordinatorRequest(key=name, key_type=kind), FIND_VERSION)
            if not response.error_code or time.monotonic() > end:
                self._coordinators[kind, name] = response.node_id
                return int(response.node_id)
            self._tell(f"; {error_name(response.error_code)}: waiting for the coordinator of {name}")
            time.sleep(PAUSE_S)

    def _found_again(self, exchange: ForwardedExchange) -> Address:
        """Finds the coordinator of a request again. Returns its address."""
        for place in _coordinated(exchange.api_key, exchange.request):
            self._coordinators.pop(place, None)
        return self._address(exchange.api_key, exchange.request)

    def _send(self, asked: RecordedRequest) -> None:
        frame, number = asked.frame[SIZE.size :], asked.connection.number
        try:
            header = read_request_header(frame)
            request, _ = decode(request_class(header.api_key), frame, header.api_version, header.end)
        except (ProtocolError, KeyError):
            return  # neither the recorded broker nor this program could read the request
        if header.api_key in NOT_REPLAYED:
            return
        session = number, getattr(request, "session_id", 0)
        at = self._sessions.get(session)
        for address, part in [(at, request)] if at is not None else list(self._parts(header.api_key, request)):
            self._wait_for_recorded(part, header.correlation_id, number)
            self.remaker.remake(part, number)
            made = encode_request(header.correlation_id, header.client_id, part, header.api_version)
            self._send_to((number, address), asked.connection.node_id, header.correlation_id, made, part)

    def _wait_for_recorded(self, request: Message, correlation_id: int, number: int) -> None:
        """If the recorded response to a Fetch has records, let the Fetch wait for records. Any other Fetch does not wait.

        The replay sends the producers' requests at other times than the recorded clients did, so the recorded max_wait_ms does
        not fit.
        """
        full = self._full.get((number, correlation_id))
        if isinstance(request, FetchRequest) and full is not None:
            has_records = any(place in full for place in named(request, self._directory))
            request.max_wait_ms = max(request.max_wait_ms, FETCH_WAIT_MS) if has_records else 0

    def _parts(self, key: int, request: Message) -> Iterator[tuple[Address, Message]]:
        """Splits a request by the leaders of its partitions. Yields each leader's address, and the part of the request for this
        leader. A Fetch of a fetch session is not split.
        """
        nodes = {}
        if key in TO_LEADERS and getattr(request, "session_epoch", -1) < 0:
            places = ((name, index) for name, index in named(request, self._directory) if index is not None)
            nodes = {place: self._leaders.get(place, -1) for place in places}
        if len(set(nodes.values())) < 2:
            yield self._address(key, request), request
            return
        for node in dict.fromkeys(nodes.values()):
            mine: Where = frozenset(place for place, leader in nodes.items() if leader == node)
            part = part_of(request, lambda name, index, mine=mine: (name, index) in mine, self._directory)  # type: ignore[misc]
            yield self._nodes.get(node, self._bootstrap), part

    def _send_to(self, key: tuple[int, Address], node_id: int, correlation_id: int, made: bytes, request: Message) -> None:
        line = self._lines.get(key) or self._open(key, node_id)
        line.relay.from_client(memoryview(made), 0)
        if not (isinstance(request, ProduceRequest) and request.acks == 0):
            line.awaited.append((correlation_id, made))
        try:
            self._renew(line)
            line.connection.send_bytes(made)
        except OSError:
            self._drop(key, "the broker closed it")

    def _renew(self, line: _Line) -> None:
        """Log in again before the SASL session of a connection ends.

        First read all outstanding responses, because no response may arrive during the login.
        """
        if time.monotonic() < line.connection.session_ends:
            return
        sent = len(line.awaited) - 1  # the last request in `awaited` has not been sent yet
        while len(line.arrived) < sent:
            line.arrived.append(bytes(line.connection.frame()))
        self._brokers.renew(line.connection)

    def _open(self, key: tuple[int, Address], node_id: int) -> _Line:
        """Opens the connection to this node that replaces a recorded connection."""
        relay = self._observer.connect(node_id, "", "", 0)
        line = self._lines[key] = _Line(self._connect(key[1]), relay)
        return line

    def _read(self, recorded: RecordedExchange) -> None:
        """Read the response to a request, or the responses to its parts, and compare them with the recorded response."""
        exchange = recorded.exchange
        number, correlation_id = exchange.connection.number, exchange.correlation_id
        for key, line in list(self._lines.items()):
            if key[0] == number and line.awaited and line.awaited[0][0] == correlation_id:
                self._read_from(key, line, recorded)

    def _read_from(self, key: tuple[int, Address], line: _Line, recorded: RecordedExchange) -> None:
        exchange, number = recorded.exchange, key[0]
        self._latest = None
        try:
            response = self._response(line, recorded)
        except OSError as failure:  # the broker closed the connection, or did not respond in time
            self._drop(key, str(failure))
            return
        line.relay.from_broker(memoryview(SIZE.pack(len(response)) + response), 0)
        if self._latest is not None:
            self.remaker.learn(exchange.request, recorded.response, self._latest, number)
            if session_id := getattr(recorded.response, "session_id", 0):
                self._sessions[number, session_id] = key[1]

    def _response(self, line: _Line, recorded: RecordedExchange) -> bytes:
        """Returns the response to the oldest request. While the request's coordinator is not ready, this method sends the
        request again, as clients do. If another broker has become the coordinator, the request is sent to this broker.
        """
        exchange, end, at = recorded.exchange, time.monotonic() + self._timeout, line
        _, made = line.awaited.popleft()
        before = set() if recorded.response is None else set(values(recorded.response, "errorCode"))
        while True:
            frame = line.arrived.popleft() if at is line and line.arrived else bytes(at.connection.frame())
            again = _codes(frame, exchange.api_key, exchange.version) & NOT_READY - before
            if not again or at.awaited or time.monotonic() > end:
                return frame
            named = ", ".join(map(error_name, sorted(again)))
            self._tell(f"; {api_name(exchange.api_key)} gets {named} and is sent again")
            time.sleep(PAUSE_S)
            if ErrorCode.NOT_COORDINATOR in again:
                where = exchange.connection.number, self._found_again(exchange)
                at = self._lines.get(where) or self._open(where, exchange.connection.node_id)
                if at.awaited:
                    return frame
            self._brokers.renew(at.connection)
            at.connection.send_bytes(made)

    def _drop(self, key: tuple[int, Address], reason: str) -> None:
        line = self._lines.pop(key)
        line.connection.close()
        self._observer.disconnected(line.relay.connection, reason, 0)


def _coordinated(key: int, request: Message) -> list[tuple[int, str]]:
    """Returns the groups or transactional ids in a request for a coordinator."""
    if key in OF_TRANSACTIONS:
        return [(TRANSACTION, name) for name in values(request, "transactionalId") if name]
    return [(GROUP, name) for name in values(request, "groupId") if name]


def _codes(frame: bytes, key: int, version: int) -> set[int]:
    """Returns the error codes in a response, or no codes if the response cannot be read."""
    try:
        return set(values(decode_response(frame, key, version)[1], "errorCode"))
    except ProtocolError:
        return set()


def _topics(events: Iterable[Recorded]) -> dict[str, int]:
    """Returns the topics that existed when the session first requested them, with their numbers of partitions."""
    found: dict[str, int] = {}
    told: dict[str, bool] = {}
    for event in events:
        if isinstance(event, RecordedExchange):
            for name, count in _told(event):
                if told.setdefault(name, count > 0):
                    found[name] = max(found.get(name, 0), count)
            for name, index in facts_of(event.exchange.request, event.exchange).partitions:
                if told.get(name, True) and index is not None:
                    found[name] = max(found.get(name, 0), index + 1)
    return {name: count for name, count in found.items() if not name.startswith("__")}


def _told(event: RecordedExchange) -> Iterator[tuple[str, int]]:
    """Yields the topics that a response describes; a topic that did not exist has 0 partitions."""
    if isinstance(event.response, MetadataResponse):
        for topic in event.response.topics:
            if topic.name:
                yield topic.name, 0 if topic.error_code else len(topic.partitions)
    elif isinstance(event.exchange.request, CreateTopicsRequest):
        yield from ((topic.name, 0) for topic in event.exchange.request.topics)
