"""A history of one cluster as plain data: requests in the order in which the cluster handled them, with their responses.

A history comes from a recorded dialogue (`of_dialogue`), or from a running engine (`Tap`). Messages are dicts with the fields'
names; a field that is absent has its default. An `Act` is an event of the cluster without a request, such as a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkawire.codec import decode
from kafkawire.errors import ProtocolError
from kafkawire.frames import decode_response, read_request_header
from kafkawire.registry import KEYS, api_name, request_class

Json = dict[str, Any]


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its response. `asked` and `answered` give the order of requests and responses; `now` is in ms."""

    connection: int
    api: str
    version: int
    request: Json
    response: Json | None = None
    now: int = 0
    asked: int = 0
    answered: int = -1
    names: dict[Any, str] | None = None
    """The names of the history's topics, by topic id."""

    def __str__(self) -> str:
        asked = f"request {self.asked} on connection {self.connection}: {self.api} v{self.version}"
        return f"{asked} {self.request}\n  {self.response}"


class Act(NamedTuple):
    name: str
    now: int


History = Sequence[Exchange | Act]


def of_dialogue(steps: Iterable[Any]) -> list[Exchange]:
    """Returns the history of a recorded dialogue. Each step has an `ask`, and `responses` by connection."""
    made: list[Exchange] = []
    waiting: dict[int, deque[Exchange]] = {}
    for number, step in enumerate(steps):
        ask = step.ask
        asked = Exchange(ask.connection, ask.api, ask.version, ask.body, asked=number)
        made.append(asked)
        waiting.setdefault(ask.connection, deque()).append(asked)
        for connection, response in step.responses.items():
            if response.get("connection") == "closed":
                waiting[connection].clear()
                continue
            answered = waiting[connection].popleft()
            answered.response, answered.answered = response, number
    return made


class Tap:
    """Records an engine's requests, responses and acts. It wraps the engine's methods."""

    ACTS = {
        "restart": "restart", "kill_broker": "broker", "stop_broker": "broker", "start_broker": "broker",
    }  # fmt: skip

    def __init__(self, engine: Any) -> None:
        self.history: list[Exchange | Act] = []
        self._waiting: dict[int, deque[tuple[int, Exchange]]] = {}
        self._count = 0
        self._now = 0
        self._engine = engine
        self._receive, self._effects, self._tick = engine.receive, engine.take_effects, engine.tick
        engine.receive, engine.take_effects, engine.tick = self._received, self._taken, self._ticked
        for method, name in self.ACTS.items():
            setattr(engine, method, self._noted(getattr(engine, method), name))

    def act(self, name: str) -> None:
        """Notes an event without a request."""
        self.history.append(Act(name, self._now))

    def _noted(self, act: Callable[..., Any], name: str) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            self.act(name)
            return act(*arguments, **options)

        return noted

    def _received(self, connection: Any, frame: Any, now: int, *arguments: Any) -> Any:
        self._count, self._now = self._count + 1, now
        with suppress(ProtocolError, KeyError):  # the engine refuses unreadable requests
            header = read_request_header(frame)
            request, _ = decode(request_class(header.api_key), bytes(frame), header.api_version, header.end)
            names = {topic_id: topic.name for topic_id, topic in self._engine.cluster.topics_by_id.items()}
            asked = Exchange(connection.number, api_name(header.api_key), header.api_version, plain(request), now=now)
            asked.asked, asked.names = self._count, names
            self.history.append(asked)
            self._waiting.setdefault(connection.number, deque()).append((header.correlation_id, asked))
        return self._receive(connection, frame, now, *arguments)

    def _ticked(self, now: int, *arguments: Any) -> Any:
        self._now = now
        return self._tick(now, *arguments)

    def _taken(self) -> Any:
        found = self._effects()
        for effect in found:
            if hasattr(effect, "parts"):
                self._responded(effect.connection.number, b"".join(effect.parts)[4:])
        return found

    def _responded(self, connection: int, frame: bytes) -> None:
        self._count += 1
        waiting = self._waiting.get(connection, deque())
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        while waiting:
            expected, asked = waiting.popleft()
            if expected == correlation_id:
                with suppress(ProtocolError):
                    asked.response = plain(decode_response(frame, KEYS[asked.api], asked.version)[1])
                asked.answered = self._count
                return


def plain(message: Any) -> Any:
    """Returns a message as dicts, lists and values."""
    if isinstance(message, list):
        return [plain(each) for each in message]
    if hasattr(message, "__wire__"):
        return {field.name: plain(getattr(message, field.name)) for field in message.__wire__}
    return bytes(message) if isinstance(message, memoryview | bytearray) else message
