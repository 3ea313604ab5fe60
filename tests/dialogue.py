"""With this module, a test can be written as a dialogue: a client sends requests, and the broker responds.

    Dialogue(kafka) >> seq(0, 2) << accepted(at=0) >> seq(4) << refused(45) >> seq(3) << accepted(at=3)

`>>` sends a request and does not wait, so several requests can be in flight. `<<` takes the next response. If it is not the
expected response, `<<` raises AssertionError with the dialogue up to this response.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inprocess import InProcess
from kafkawire.batches import iter_batches, read_header
from kafkawire.declare import Message
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import api_name, versions
from requesting import init_producer_id, produce_request
from responses import only, parts
from wirebroker.client.wire import Connection, ConnectionClosed, NoResponse, address_of
from wirekit import Reachable, batch

WITHIN = 20.0
"""The longest time, in seconds, that a dialogue waits for a response."""
INIT_PRODUCER_ID = init_producer_id(None, 1000)
NEWEST_BY_NAME = {"Produce": 12, "Fetch": 12}
"""The last versions in which requests have topic names. Later versions use topic ids."""


@dataclass(frozen=True)
class Sequences:
    """A Produce request of the dialogue's idempotent producer. Its batch has these sequences, and the records v0, v1 …"""

    first: int
    last: int
    epoch: int
    topic: str
    partition: int


def seq(first: int, last: int | None = None, *, epoch: int = 0, topic: str = "orders", partition: int = 0) -> Sequences:
    """Returns a Produce request whose batch has the sequences from `first` to `last`."""
    return Sequences(first, first if last is None else last, epoch, topic, partition)


def tagged(tag: str, count: int = 1, *, topic: str = "orders", partition: int = 0) -> ProduceRequest:
    """Returns a Produce request whose batch has the records tag0, tag1 … and no producer id."""
    return produce_request(topic, batch(count=count, tag=tag), partition)


@dataclass(frozen=True)
class Response:
    """An expected response. Each expected field has a list of values, one for each part of the response (see
    `responses.parts`).
    """

    fields: dict[str, Any]
    of_parts: bool = True

    def differences(self, response: Any) -> list[str]:
        """Returns a text for each field that has an unexpected value."""
        found = parts(response) if self.of_parts else [response]
        got = {name: [_field(part, name) for part in found] for name in self.fields}
        return [f"{name} {got[name]}, expected {value}" for name, value in self.fields.items() if got[name] != value]


def _field(part: Any, name: str) -> Any:
    """Returns a field of a part. The name `offsets` stands for the base offsets of the batches in a Fetch response."""
    return [read_header(view).base_offset for view in iter_batches(part.records)] if name == "offsets" else getattr(part, name)


@dataclass(frozen=True)
class Silence:
    """Expects no response for this many seconds."""

    seconds: float = 0.1


class Closed:
    """Expects that the broker closes the connection. The next request uses a new connection."""


CLOSED, SILENCE = Closed(), Silence()


def answered(**fields: Any) -> Response:
    """Expects a response with a single part, which has the given fields."""
    return Response({name: [value] for name, value in fields.items()})


def each(**fields: list[Any]) -> Response:
    """Expects a response with several parts. Each field is given as a list of values, one for each part."""
    return Response(fields)


def overall(**fields: Any) -> Response:
    """Expects a response that has the given fields at its top level."""
    return Response({name: [value] for name, value in fields.items()}, of_parts=False)


def accepted(at: int) -> Response:
    """Expects the Produce response for a batch that is stored at the offset `at`. This request or an earlier request has stored
    it.
    """
    return answered(error_code=0, base_offset=at)


def refused(code: int, **fields: Any) -> Response:
    """Expects a response with the error code `code`."""
    return answered(error_code=code, **fields)


ANY_RESPONSE = overall()


def connection_to(kafka: Reachable | InProcess, node: int, within: float) -> Connection:
    """Opens a connection to one of the brokers."""
    if isinstance(kafka, InProcess):
        return kafka.link(node)
    return Connection(address_of(kafka.bootstrap_servers.split(",")[node]), within)


class Dialogue:
    """A client of one broker (by default the first) of a MockKafka or an InProcess."""

    def __init__(
        self, kafka: Reachable | InProcess, node: int = 0, *, within: float = WITHIN, producer_id: int | None = None
    ) -> None:
        self._connect = lambda: connection_to(kafka, node, within)
        self._connection: Connection | None = self._connect()
        self._producer_id = producer_id
        self._said: list[str] = []
        self.last: Any = None
        """The last response."""

    @property
    def part(self) -> Any:
        """Returns the only part of the last response."""
        return only(self.last)

    def __rshift__(self, request: Message | Sequences | tuple[Message | Sequences, int]) -> Dialogue:
        """Send a request in the given version, by default in the newest version. Does not wait for the response."""
        message, version = request if isinstance(request, tuple) else (request, None)
        if isinstance(message, Sequences):
            message = self._batch(message)
        key = message.__schema__.key
        if version is None:
            version = min(versions(key)[1], NEWEST_BY_NAME.get(api_name(key), 1 << 15))
        self._said.append(f"client sends {api_name(key)} v{version}")
        self._open().send(message, version, awaits_response=getattr(message, "acks", -1) != 0)
        return self

    @property
    def producer_id(self) -> int:
        """Returns the producer id of the dialogue. Sends InitProducerId if the caller passed no producer id."""
        if self._producer_id is None:
            self._producer_id = int(self._open().request(INIT_PRODUCER_ID, 0).producer_id)
        return self._producer_id

    def _batch(self, asked: Sequences) -> ProduceRequest:
        data = batch(asked.first, asked.last - asked.first + 1, pid=self.producer_id, epoch=asked.epoch)
        return produce_request(asked.topic, data, asked.partition)

    def __lshift__(self, expected: Response | Silence | Closed) -> Dialogue:
        """Checks that the broker responds as expected. If not, raises AssertionError with the dialogue up to this point."""
        try:
            self.last = self._open().response(expected.seconds if isinstance(expected, Silence) else None)
        except NoResponse:
            return self._note("broker does not answer", isinstance(expected, Silence))
        except ConnectionClosed:
            self.close()
            return self._note("broker closes the connection", isinstance(expected, Closed))
        if not isinstance(expected, Response):
            return self._note(f"broker answers {self.last}", False)
        differences = expected.differences(self.last)
        return self._note(f"broker answers {'; '.join(differences) or expected.fields}", not differences)

    def _note(self, line: str, as_expected: bool) -> Dialogue:
        self._said.append(line)
        if not as_expected:
            raise AssertionError("\n".join(self._said))
        return self

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
