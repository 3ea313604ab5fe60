"""Tests as dialogues: a client sends requests, and the broker answers them.

    Dialogue(kafka) >> produce("orders", batch(0)) << accepted(at=0) >> produce("orders", batch(0)) << accepted(at=0)

`>>` sends a request without waiting, so that several can be in flight. `<<` takes the next answer, and fails with the dialogue
so far if it is not the expected one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafkawire.declare import Message
from kafkawire.errors import error_name
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.registry import api_name, versions
from wirebroker.mock import MockKafka
from wirebroker.wire_client import Connection, ConnectionClosed, NoAnswer, address_of

T = TypeVar("T")
WITHIN = 20.0
"""Seconds that a dialogue waits for an answer."""
LEVELS = (
    "responses", "partition_responses", "topics", "partitions", "coordinators", "groups", "results",
    "results_by_topic_v3_and_below", "results_by_partition",
)  # fmt: skip
"""The arrays of answers that have an element for each thing in the request."""
NEWEST_BY_NAME = {"Produce": 12, "Fetch": 12}
"""The last versions that name topics; later ones have ids."""


def sole(items: Sequence[T]) -> T:
    """The one item. Raises AssertionError if there are none or several."""
    assert len(items) == 1, f"expected one item, got {items!r}"
    return items[0]


def only(answer: Any) -> Any:
    """The part of an answer about the one partition, coordinator or resource that the request names.

    Raises AssertionError if the answer is about none or several.
    """
    while levels := [getattr(answer, name) for name in LEVELS if hasattr(answer, name)]:
        answer = sole(next(filter(None, levels), ()))
    return answer


def produce(topic: str, data: bytes | None, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """A Produce of one partition's record data."""
    topic_data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic_data])


@dataclass(frozen=True)
class Answer:
    """An expected answer: fields of the part that `only` finds, or of the answer itself."""

    fields: dict[str, Any]

    def differences(self, answer: Any) -> list[str]:
        """The fields that are not as expected."""
        part = only(answer)
        got = {name: getattr(part if hasattr(part, name) else answer, name) for name in self.fields}
        return [f"{name} {_shown(name, got[name])}, expected {_shown(name, value)}" for name, value in self.fields.items()
                if got[name] != value]  # fmt: skip


@dataclass(frozen=True)
class Silence:
    """No answer for these seconds."""

    seconds: float = 0.1


class Closed:
    """The broker closes the connection."""


def answered(**fields: Any) -> Answer:
    """An answer with these fields."""
    return Answer(fields)


def accepted(at: int, **fields: Any) -> Answer:
    """The answer to a Produce whose batch is stored at this offset, or was before."""
    return Answer({"error_code": 0, "base_offset": at} | fields)


def refused(code: int, **fields: Any) -> Answer:
    """An answer with this error code."""
    return Answer({"error_code": code} | fields)


class Dialogue:
    """One connection of a client to a broker, by default the first of a MockKafka."""

    def __init__(self, kafka: MockKafka, node: int = 0, client_id: str = "dialogue") -> None:
        address = address_of(kafka.bootstrap_servers.split(",")[node])
        self.connection = Connection(address, WITHIN, client_id)
        self.said: list[str] = []
        self.last: Any = None
        """The last answer."""

    def __rshift__(self, request: Message | tuple[Message, int]) -> Dialogue:
        """Send a request, in this version if one is given, without waiting for the answer."""
        message, version = request if isinstance(request, tuple) else (request, None)
        name = api_name(message.__schema__.key)
        if version is None:
            version = min(versions(message.__schema__.key)[1], NEWEST_BY_NAME.get(name, 1 << 15))
        self.said.append(f"client sends {name} v{version}")
        self.connection.send(message, version, answered=getattr(message, "acks", -1) != 0)
        return self

    def __lshift__(self, expected: Answer | Silence | Closed) -> Dialogue:
        """Expect this of the broker. Raises AssertionError with the dialogue so far."""
        try:
            self.last = self.connection.answer(expected.seconds if isinstance(expected, Silence) else None)
        except NoAnswer:
            return self._said("broker does not answer", isinstance(expected, Silence))
        except ConnectionClosed:
            return self._said("broker closes the connection", isinstance(expected, Closed))
        if not isinstance(expected, Answer):
            return self._said(f"broker answers {self.last}", False)
        differences = expected.differences(self.last)
        return self._said(f"broker answers {'; '.join(differences) or expected.fields}", not differences)

    def _said(self, line: str, as_expected: bool) -> Dialogue:
        self.said.append(line)
        if not as_expected:
            raise AssertionError("\n".join(self.said))
        return self

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _shown(name: str, value: Any) -> str:
    return f"{value} {error_name(value)}" if name == "error_code" else repr(value)
