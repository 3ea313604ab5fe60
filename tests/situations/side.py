"""A broker, real or in process, and the actions that all situations use."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from inprocess import InProcess
from requesting import Plain, create_topic, find_coordinator, init_producer_id, list_offsets, plain, produce_request
from responses import only, sole
from wirebroker.client.wire import Connection, ConnectionClosed, NoResponse
from wirekit import batch

WAIT_MS = 1000
"""The max_wait_ms of requests that may wait."""
AT_ONCE_S, LATE_S, PAUSE_S = 0.45, 15.0, 0.15
"""Limits for a real broker, in seconds. A response within AT_ONCE_S did not wait; a response that takes longer than LATE_S is
an error; after PAUSE_S the broker has finished its background work."""
TRIES = 100


class Side:
    """A broker in process. Its clock moves only between requests."""

    def __init__(self, broker: InProcess) -> None:
        self._broker = broker
        self._numbers = itertools.count(1)
        self.wire = self.connect()

    def connect(self) -> Connection:
        """Returns a new connection."""
        return self._broker.link()

    def settle(self) -> None:
        """Let the broker finish its work in the background."""
        self._broker.clock.advance(milliseconds=100)

    def _wait(self) -> None:
        self._broker.clock.advance(milliseconds=WAIT_MS)

    # Common to all sides

    @contextmanager
    def link(self) -> Iterator[Connection]:
        """Yields a connection for one situation."""
        with closing(self.connect()) as wire:
            yield wire

    def new_name(self, prefix: str) -> str:
        """Returns a name that no other situation has. Texts show only the prefix."""
        return f"{prefix}-{next(self._numbers)}"

    def take(self, wire: Connection) -> tuple[str, Any]:
        """Returns two values: "at once", "late" or "closed", and the response to the request that was sent."""
        try:
            return "at once", wire.response(AT_ONCE_S)
        except NoResponse:
            self._wait()
            return "late", wire.response(LATE_S)
        except ConnectionClosed:
            return "closed", None

    def ask(self, wire: Connection, request: Any, version: int) -> tuple[str, Any]:
        """Send a request; see `take`."""
        wire.send(request, version)
        return self.take(wire)

    def until(self, request: Any, version: int, is_done: Callable[[Any], bool]) -> Any:
        """Repeat a request until `is_done` returns true for the response, and return this response."""
        for _ in range(TRIES):
            if is_done(response := self.wire.request(request, version)):
                return response
            self.settle()
        raise AssertionError(response)

    # Topics and records

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic. Waits until the broker has the topic's partitions, and returns the topic's id."""
        settings = {setting.replace("_", "."): value for setting, value in configs.items()}
        self.until(create_topic(name, partitions, configs=settings), 7, lambda told: not only(told).error_code)
        for index in range(partitions):
            self.until(list_offsets(-1, topic=name, partition=index), 7, lambda told: not only(told).error_code)
        topic_id: bytes = sole(self.wire.request(_metadata(name), 12).topics).topic_id
        return topic_id

    def topic(self, prefix: str = "t", partitions: int = 1, **configs: str) -> str:
        """Create a topic with a new name. Returns the name."""
        name = self.new_name(prefix)
        self.create(name, partitions, **configs)
        return name

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until the broker has forgotten it."""
        request = plain("DeleteTopics", topics=[{"name": name}], timeout_ms=5000)
        assert sole(self.wire.request(request, 6).responses).error_code == 0
        self.until(_metadata(name), 12, lambda told: sole(told.topics).error_code == 3)
        self.settle()

    def put(self, topic: str, count: int = 1, partition: int = 0, size: int = 10, records: int = 1) -> None:
        """Produce batches."""
        for _ in range(count):
            request = produce_request(topic, batch(count=records, tag="x" * size), partition)
            self.until(request, 9, lambda told: not only(told).error_code)

    # Coordinators

    def find(self, key: str, kind: int = 0) -> None:
        """Wait until the coordinator of a group, a transactional id or a share partition is available."""
        self.until(find_coordinator(key, kind=kind), 6, lambda told: not only(told).error_code)

    def producer(self, txid: str) -> tuple[int, int]:
        """Returns the producer id and the epoch of a transactional id."""
        self.find(txid, kind=1)
        made = self.until(init_producer_id(txid), 4, lambda told: not told.error_code)
        return made.producer_id, made.producer_epoch


class RealSide(Side):
    """A real Kafka."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._numbers = itertools.count(1)
        self.wire = self.connect()

    def connect(self) -> Connection:
        """Returns a new connection."""
        return Connection(self._address, LATE_S)

    def settle(self) -> None:
        """Let the broker finish its work in the background."""
        time.sleep(PAUSE_S)

    def _wait(self) -> None:
        pass


def _metadata(name: str) -> Any:
    return plain("Metadata", topics=[{"name": name}], allow_auto_topic_creation=False)


def partitions_of(topics: Sequence[tuple[str, bytes, Sequence[Plain]]]) -> list[Plain]:
    """Makes the topics of a Fetch of any version."""
    return [{"topic": name, "topic_id": topic_id, "partitions": list(parts)} for name, topic_id, parts in topics]


def fetched(how: str, response: Any, names: dict[bytes, str]) -> str:
    """Returns the response to a Fetch as a text. `names` has a short name for each topic id."""
    if response is None:
        return how
    parts = [_part(_label(topic, names), part) for topic in response.responses for part in topic.partitions]
    head = [how, f"error {response.error_code}" if response.error_code else "", "session" if response.session_id else ""]
    return f"{' '.join(filter(None, head))} [{', '.join(parts)}]"


def _label(topic: Any, names: dict[bytes, str]) -> str:
    return names[topic.topic_id] if any(topic.topic_id) else topic.topic.rpartition("-")[0]


def _part(label: str, part: Any) -> str:
    offsets = part.high_watermark, part.last_stable_offset, part.log_start_offset
    aborted = "null" if part.aborted_transactions is None else len(part.aborted_transactions)
    records = "null" if part.records is None else len(part.records)
    text = f"{label}-{part.partition_index}: {part.error_code} {records} B {offsets} aborted {aborted}"
    diverging = part.diverging_epoch
    return text if diverging.epoch < 0 else f"{text} diverging {diverging.epoch} {diverging.end_offset}"
