"""Replays recorded dialogues on any broker over the wire. A recording has requests and a real Kafka's responses.

scripts/record dialogues makes a recording. Each line is one dialogue: a head with the names that must exist first, and steps. A
step has a symbolic request (`symbols`) on one of several connections. It also has all responses until the next request, on all
connections, because a JoinGroup can complete JoinGroups on other connections.
"""

from __future__ import annotations

import gzip
import json
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.registry import KEYS, api_name, request_class
from random_dialogues.symbols import NAME, Json, Symbols, from_json, to_json
from requesting import init_producer_id
from responses import sole
from wirebroker.client.wire import Connection, NoResponse, WireClient
from wirebroker.core.java_order import abs_hash
from wirebroker_tools.conformance.readiness import COORDINATOR_CODES, coordinators_loaded, transactions_complete, until
from wirebroker_tools.conformance.versions import Announced

Responses = dict[int, Json]
"""Responses by the number of the connection."""
PARTITIONS = 2
"""The number of partitions of every topic in a dialogue."""
OFFSETS_PARTITIONS = 4
"""The number of partitions of __consumer_offsets on the brokers of a dialogue."""
CLOSED: Json = {"connection": "closed"}
_ENDING = ("EndTxn", "InitProducerId")
"""After the response to one of these requests, a coordinator may still be writing markers."""
_LISTED = {"ListTransactions": "transaction_states", "ListGroups": "groups"}
"""APIs whose responses also list groups or transactions of other dialogues. The value is the field that has the list."""
_TIMESTAMP_STEP = 5
_GREETING_VERSION = 3


@dataclass(frozen=True, slots=True)
class Ask:
    """A symbolic request, and the number of its connection."""

    connection: int
    api: str
    version: int
    body: Json


@dataclass(frozen=True, slots=True)
class Step:
    """A request, and all responses until the next request."""

    ask: Ask
    responses: Responses


@dataclass(frozen=True, slots=True)
class Head:
    """The topics, groups and transactional ids that must exist before a dialogue begins."""

    subject: str
    seed: int
    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings of topics."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A recorded dialogue."""

    head: Head
    steps: list[Step]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first step of a dialogue whose response is not the recorded response."""

    head: Head
    index: int
    steps: list[Step]
    got: Responses

    def __str__(self) -> str:
        return describe(self)


class Player:
    """Plays a dialogue on one broker. It has the broker's connections and the symbols of its ids."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._admin = WireClient(*address)
        self.announced = Announced.by(self._admin)
        self._symbols = Symbols("")
        self._connections: dict[int, Connection] = {}
        self._transactional_ids: list[str] = []
        self._count = 0
        self._clock = time.time_ns() // 1_000_000

    def close(self) -> None:
        """Close all connections."""
        self._admin.close()
        for connection in self._connections.values():
            connection.close()

    def prepare(self, head: Head) -> None:
        """Creates the topics, and waits until all coordinators are available and loaded."""
        self._symbols.prefix = prefix_for(head.groups)
        names = [self._symbols.prefix + name for name in head.topics]
        topics = [
            CreatableTopic(
                name=self._symbols.prefix + name, num_partitions=PARTITIONS, replication_factor=1, assignments=[],
                configs=[
                    CreatableTopicConfig(name=key, value=value) for key, value in head.configs.get(name, {}).items()
                ],
            )
            for name in head.topics
        ]  # fmt: skip
        for topic in self._ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7).topics:
            if topic.error_code:
                raise ProtocolError(f"the topic {topic.name} cannot be created: {topic.error_message}")
            if any(topic.topic_id):  # Kafka before 2.8 has no ids
                self._symbols.topic(topic.name.removeprefix(self._symbols.prefix), topic.topic_id)
        until(lambda: all(self._led(name) for name in names))
        self._transactional_ids = [self._symbols.prefix + name for name in head.transactional_ids]
        groups = [self._symbols.prefix + name for name in head.groups]
        coordinators_loaded(self._admin, groups, self._transactional_ids)
        until(self._gives_producer_ids)

    def _ask(self, request: Message, version: int) -> Any:
        """Sends a request in this version, or in the broker's newest version if that version is lower."""
        return self._admin.request(request, self.announced.lowered(api_name(request.__schema__.key), version))

    def _gives_producer_ids(self) -> bool:
        """Returns whether the broker has a block of producer ids. The first InitProducerId makes the broker fetch a block."""
        request = init_producer_id(None, 1000)
        return self._admin.request(request, 0).error_code not in COORDINATOR_CODES

    def _led(self, topic: str) -> bool:
        partitions = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(PARTITIONS)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)])
        return not any(partition.error_code for partition in sole(self._ask(request, 5).topics).partitions)

    def busy(self) -> set[int]:
        """Returns the connections that have an unanswered request."""
        return {number for number, connection in self._connections.items() if connection.awaited}

    def send(self, ask: Ask) -> None:
        """Sends a request. Raises KeyError if a symbol in the request stands for an id that this broker has not returned."""
        self._clock = max(self._clock + _TIMESTAMP_STEP, time.time_ns() // 1_000_000)
        self._count += 1
        self._symbols.date(self._count, self._clock)
        message = from_json(request_class(KEYS[ask.api]), ask.body, self._symbols, self._clock)
        connection = self._connections.get(ask.connection)
        if connection is None:
            connection = self._connections[ask.connection] = Connection(self._address)
            # Wait until the broker has accepted the connection. Otherwise it could first read later requests on other
            # connections.
            connection.request(_greeting(), self.announced.lowered("ApiVersions", _GREETING_VERSION))
        connection.send(message, ask.version)

    def responses(self, expected: Collection[int], within: float, *, fence: Ask | None = None, grace: float = 0.0) -> Responses:
        """Waits at most `within` seconds for the expected responses. Returns these responses, and all responses that arrive up
        to `grace` seconds after the fence.
        """
        deadline = time.monotonic() + within
        got = {number: self._receive(number, deadline) for number in expected}
        self._pass(fence)
        deadline = time.monotonic() + grace
        got |= {number: self._receive(number, deadline) for number in self.busy() - set(expected)}
        for _, message in sorted(((n, each[1]) for n, each in got.items() if each and each[1]), key=itemgetter(0)):
            self._symbols.learn(message)
        return {number: self._shown(*each) for number, each in sorted(got.items()) if each is not None}

    def _receive(self, number: int, deadline: float) -> tuple[str, Message | None] | None:
        """Returns the API and the response, or (API, None) if the connection was closed, or None if nothing arrived."""
        connection = self._connections.get(number)
        if connection is None or not connection.awaited:
            return None
        api = api_name(connection.awaited[0][1])
        try:
            return api, connection.response(max(0.0, deadline - time.monotonic()))
        except NoResponse:
            return None
        except (OSError, ProtocolError):
            connection.close()
            del self._connections[number]
            return api, None

    def _shown(self, api: str, message: Message | None) -> Json:
        return CLOSED if message is None else self._own(api, to_json(message, self._symbols))

    def _own(self, api: str, response: Json) -> Json:
        """Removes the groups and transactions of other dialogues from a response."""
        listed = _LISTED.get(api, "")
        if listed in response:
            named = [each.get("transactional_id", each.get("group_id", "")) for each in response[listed]]
            own = [each for each, name in zip(response.pop(listed), named, strict=True) if name.startswith(NAME)]
            response |= {listed: own} if own else {}
        return response

    def _pass(self, fence: Ask | None) -> None:
        """Wait until the broker has handled the earlier requests: send another request on another connection, and wait for its
        response.

        Without a `fence`, sends two requests one after another, because an event loop can read simultaneous requests in any
        order.
        """
        if fence is None:
            for _ in range(2):
                self._ask(_greeting(), _GREETING_VERSION)
        else:
            self._ask(from_json(request_class(KEYS[fence.api]), fence.body, self._symbols, 0), fence.version)

    def settle(self, ask: Ask) -> bool:
        """After a request that may end a transaction, waits for the markers. Returns False if they do not come."""
        if ask.api not in _ENDING or not self._transactional_ids:
            return True
        return transactions_complete(self._admin, self._transactional_ids, self.announced)


def _greeting() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="wirebroker", client_software_version="1")


def prefix_for(groups: list[str]) -> str:
    """Returns a new prefix for the names of groups. With this prefix, the first group is in partition 1 of __consumer_offsets,
    the second group in partition 2, and so on.

    Each group needs its own partition, because a transaction to which one group was added can also commit offsets for other
    groups in the same partition. The group with the empty name is always in partition 0. If the names of groups are successive
    letters, such a prefix always exists. Raises ValueError if there is no prefix.
    """
    wanted = [number % OFFSETS_PARTITIONS for number in range(1, len(groups) + 1)]
    for _ in range(1000):
        prefix = f"d{secrets.token_hex(5)}-"
        if [abs_hash(prefix + group) % OFFSETS_PARTITIONS for group in groups] == wanted:
            return prefix
    raise ValueError(f"the groups {', '.join(groups)} cannot each have a partition of their own, because of their hashes")


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay: the first difference, if any, and the number of steps before it that agree."""

    difference: Difference | None
    agreed: int


def replay(dialogue: Dialogue, address: tuple[str, int], *, within: float = 5.0) -> Replayed:
    """Replay a dialogue up to its first difference. It waits at most `within` seconds for an expected response.

    The replay also ends if this broker chooses another group leader than the recorded Kafka. (Kafka chooses by the hash of
    random ids.)
    """
    with closing(Player(address)) as player:
        player.prepare(dialogue.head)
        for index, step in enumerate(dialogue.steps):
            player.send(step.ask)
            got = player.responses(step.responses, within)
            if got != step.responses:
                by_chance = chosen_by_hash(step.responses, got)
                told = None if by_chance else Difference(dialogue.head, index, dialogue.steps[: index + 1], got)
                return Replayed(told, index)
            player.settle(step.ask)
    return Replayed(None, len(dialogue.steps))


def chosen_by_hash(expected: Responses, got: Responses) -> bool:
    """Tells whether the two responses name different group leaders. In Kafka the leader depends on the members' random ids."""
    if expected.keys() != got.keys():
        return False
    differing = [(expected[number], got[number]) for number in expected if expected[number] != got[number]]
    return any(
        one.get("leader", "").startswith("$")
        and other.get("leader", "").startswith("$")
        and one["leader"] != other["leader"]
        and one.get("generation_id") == other.get("generation_id")
        for one, other in differing
    )


def describe(difference: Difference, before: int = 6) -> str:
    """Returns a text with the difference and the steps before it."""
    head = difference.head
    lines = [f"{head.subject}, seed {head.seed}, step {difference.index}"]
    for index, step in list(enumerate(difference.steps))[-before - 1 :]:
        ask = step.ask
        lines.append(f"  {index:3} [{ask.connection}] {ask.api} v{ask.version} {_text(ask.body)}")
        if index != difference.index:
            lines += [f"         [{number}] {_text(response)}" for number, response in step.responses.items()]
    expected = difference.steps[-1].responses
    for number in sorted(expected.keys() | difference.got.keys()):
        if expected.get(number) != difference.got.get(number):
            lines.append(f"      expected [{number}] {_text(expected.get(number, 'no response'))}")
            lines.append(f"      got      [{number}] {_text(difference.got.get(number, 'no response'))}")
    return "\n".join(lines)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def load(path: Path) -> Iterator[Dialogue]:
    """Reads the dialogues in a file of JSON lines. The file may be compressed."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    for line in text.splitlines():
        told = json.loads(line)
        steps = [
            Step(Ask(*ask), {int(number): response for number, response in responses.items()})
            for *ask, responses in told.pop("steps")
        ]
        yield Dialogue(Head(**told), steps)


def save(path: Path, dialogues: list[Dialogue]) -> None:
    """Write dialogues to a file. They are compressed if its name ends with .gz."""
    lines = []
    for dialogue in dialogues:
        head = dialogue.head
        told: Json = {name: getattr(head, name) for name in ("subject", "seed", "topics", "groups", "transactional_ids")}
        if head.configs:
            told["configs"] = head.configs
        told["steps"] = [
            [step.ask.connection, step.ask.api, step.ask.version, step.ask.body, step.responses] for step in dialogue.steps
        ]
        lines.append(json.dumps(told, ensure_ascii=False, separators=(",", ":")) + "\n")
    raw = "".join(lines).encode()
    path.write_bytes(gzip.compress(raw, 9, mtime=0) if path.suffix == ".gz" else raw)
