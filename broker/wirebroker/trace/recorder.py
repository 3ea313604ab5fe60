"""The recorder: a ring of the latest rows, and sinks that get each new row.

The recorder depends on requests, responses and faults, but not on a broker, so a proxy can use it, too. `broker.BrokerRecorder`
adds verdicts and changes, which happen only in a broker.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar

from kafkawire.batches import BatchHeader
from kafkawire.declare import Message
from kafkawire.entities import values
from kafkawire.errors import ProtocolError, error_name
from kafkawire.frames import read_key_version_correlation, read_request_header
from kafkawire.primitives import Buffer, format_uuid
from kafkawire.registry import api_name
from wirebroker.requests.connection import Connection
from wirebroker.requests.details import (
    Details,
    details_of,
    details_with,
    error_messages,
    longest_wait,
    producer_of,
    producer_with,
)
from wirebroker.requests.facts import facts_of
from wirebroker.requests.received import Received
from wirebroker.trace.brief import Brief, brief
from wirebroker.trace.kept_frames import About, KeptFrames
from wirebroker.trace.levels import includes
from wirebroker.trace.rows import (
    EVENTS,
    AuthenticationRow,
    AuthorizationRow,
    ConnectionRow,
    FaultRow,
    FetchRow,
    ProduceRow,
    ReplyRow,
    RequestRow,
    Row,
    RunRow,
    TelemetryRow,
    TestRow,
    ThrottleRow,
    UnsupportedRow,
    VerdictName,
    compression_name,
)

if TYPE_CHECKING:
    from kafkawire.messages.fetch import PartitionData
    from kafkawire.messages.push_telemetry import PushTelemetryRequest
    from wirebroker.faults.rules import Rule
    from wirebroker.requests.facts import Batch, Facts
    from wirebroker.security.principals import Principal

logger = logging.getLogger("wirebroker")

RING = 10_000
"""The number of rows that the ring keeps."""
MOST_CHARACTERS = 32 * 1024 * 1024
"""The lists in all rows of the ring together have at most this many characters."""
LARGE = 10_000
"""Only rows whose lists have at least this many characters count towards `MOST_CHARACTERS`."""
LONGEST = 1000
"""A row has at most this many characters of a client's name."""
ENTRY = 50
"""An element of a list takes about this many bytes more than its characters."""
NAMED = 8
"""A row lists at most this many of the names in a request."""

Stages = tuple[int, int, int]
"""Three durations in µs: the time in the proxy, the time until the broker's response began, and the time from the response's
beginning to its end.
"""
UNMEASURED = -1, -1, -1
Sink = Callable[[Row], None]
Text = TypeVar("Text", str, str | None)


class Traced(NamedTuple):
    """The facts about a request that are needed for the row of its response."""

    arrived: int
    """ms since the epoch"""
    about: tuple[str, ...]
    """the topics, groups and transactional ids that the request names"""
    errors: tuple[str, ...] | None = None
    """the errors in the response, if they are already known (`told_in`)"""
    messages: tuple[str, ...] = ()
    """the messages of these errors"""
    producer: tuple[int, int] = -1, -1
    details: Details = {}
    longest_wait: int = 0
    """the longest wait, in ms, that the request allows the broker"""
    muted: int = 0
    """how many ms a quota had muted the connection before the request arrived"""


class TracedExchange(Received, Protocol):
    """An exchange whose response has not been sent yet."""

    correlation_id: int
    now: int
    """The time of arrival, in ms since the epoch."""
    frame: memoryview | None
    traced: Traced | None
    """The facts about the request for the row of the response."""


class Recorder:
    """Keeps the latest rows about connections, requests and faults. An event without a time gets the time `now()`."""

    def __init__(self, now: Callable[[], int], size: int = RING) -> None:
        self._ring: deque[Any] = deque(maxlen=size)
        """The entries, oldest first: rows, or tuples that `_made` converts to rows."""
        self.added = 0
        """The number of rows since the start; only the latest `size` rows are kept."""
        self._large: deque[tuple[int, int]] = deque()
        """The large rows in the ring, oldest first: the number of each, and the characters in its lists."""
        self._characters = 0
        """The sum of the characters in `_large`."""
        self.runs = 0
        """The number of calls of `begin_again`."""
        self.kept: KeptFrames | None = None
        """The bytes of the latest exchanges; None if no reader needs them."""
        self._now = now
        self.sinks: list[Sink] = []
        self.verdicts = self.changes = self.exchanges = self.requests = False
        """Four flags: whether the level includes verdicts, changes, exchanges, and requests."""
        self.set_level("verdicts")

    def set_level(self, level: str) -> None:
        """Set the level of the trace. Raises ValueError for a level that does not exist.

        To change the level of a running broker, call `Engine.trace_at` instead.
        """
        self.verdicts = includes(level, "verdicts")
        self.changes = includes(level, "changes")
        self.exchanges = includes(level, "exchanges")
        self.requests = includes(level, "all")
        self.level = level

    # Faults

    def fired(
        self, now: int, connection: Connection, rule: Rule, number: int, facts: Facts | None = None,
        partitions: Iterable[tuple[str, int | None]] | None = None, correlation_id: int = -1, batch: Batch | None = None,
    ) -> None:  # fmt: skip
        """Remember that a fault rule fired, for the `number`th time. The rule fired on a connection, on a request, on some
        partitions of a request, or on a batch.
        """
        if not self.verdicts:
            return
        client_id, api, version = (cut(facts.client_id), facts.api, facts.version) if facts is not None else (None, "", -1)
        row = FaultRow(
            now, connection.node_id, connection.number, client_id, api, version, correlation_id, rule.kind, str(rule),
            tuple(sorted(topic if index is None else f"{topic}-{index}" for topic, index in partitions or ())), number, batch,
            **who(connection),
        )  # fmt: skip
        self._add(row)

    # The wire

    def pushed(self, now: int, connection: Connection, client_id: str | None, request: PushTelemetryRequest) -> None:
        """Remember that a client has pushed its metrics."""
        row = TelemetryRow(
            now, connection.node_id, connection.number, cut(client_id), format_uuid(request.client_instance_id),
            request.terminating, compression_name(request.compression_type), len(request.metrics),
        )  # fmt: skip
        self._add(row)

    def opened(self, connection: Connection) -> None:
        self._connection(connection, "opened", "")

    def closed(self, connection: Connection, reason: str) -> None:
        self._connection(connection, "closed", reason)

    def _connection(
        self, connection: Connection, change: Literal["opened", "closed"], reason: str, unanswered: tuple[str, ...] = ()
    ) -> None:
        row = ConnectionRow(
            self._now(), connection.node_id, connection.number, change, connection.client_host, connection.listener,
            software_of(connection), reason, principal_of(connection), unanswered,
        )  # fmt: skip
        self._add(row)

    def authenticated(
        self, connection: Connection, outcome: Literal["succeeded", "failed", "expired"], reason: str = ""
    ) -> None:
        if not self.verdicts:
            return
        session = connection.session
        row = AuthenticationRow(
            self._now(), connection.node_id, connection.number, connection.client_host, session.listener,
            cut(session.asked or session.mechanism) or "", outcome, principal_of(connection), session.again,
            -1 if session.expires_at is None else session.expires_at, cut(reason) or "", cut(session.user),
        )  # fmt: skip
        self._add(row)

    def refused(self, connection: Connection, operation: str, resource_type: str, name: str, because: str) -> None:
        """Remember that the authorizer has denied an operation to a client."""
        if self.verdicts:
            row = AuthorizationRow(
                self._now(), connection.node_id, connection.number, principal_of(connection),
                operation, resource_type, cut(name) or "", cut(because) or "",
            )  # fmt: skip
            self._add(row)

    def throttled(
        self, connection: Connection, client_id: str | None, api: str, ms: int, quota: str, whose: str, limit: float
    ) -> None:
        """Remember that a client has to wait because of a quota."""
        if self.verdicts:
            row = ThrottleRow(
                self._now(), connection.node_id, connection.number, cut(client_id),
                principal_of(connection), api, quota, cut(whose) or "", limit, ms,
                connection.client_host,
            )  # fmt: skip
            self._add(row)

    def requested(self, request: Message, exchange: TracedExchange, about: tuple[str, ...] | None = None) -> None:
        """Note a request, and keep its names of topics, groups and so on for the row of its response. If the caller already has
        these names, it passes them as `about`.
        """
        about = names_of(facts_of(request, exchange)) if about is None else about
        exchange.traced = Traced(
            exchange.now,
            about,
            producer=producer_of(request),
            details=details_of(request, exchange.directory),
            longest_wait=longest_wait(request),
            muted=self._muted(exchange),
        )
        if self.requests:
            row = RequestRow(
                exchange.now, *_client(exchange),
                api_name(exchange.api_key), exchange.version, exchange.correlation_id, len(exchange.frame or b""), about,
                **who(exchange.connection),
            )  # fmt: skip
            self._add(row)

    def unsupported(self, connection: Connection, frame: Buffer, oldest: int, newest: int) -> None:
        """Note a request in an unsupported version. `frame` is the request without the size field."""
        key, version, correlation_id = read_key_version_correlation(frame)
        try:
            client_id = read_request_header(frame).client_id
        except (ProtocolError, KeyError):
            client_id = None
        row = UnsupportedRow(
            self._now(), connection.node_id, connection.number, cut(client_id), software_of(connection),
            api_name(key), version, correlation_id, oldest, newest, **who(connection),
        )  # fmt: skip
        self._add(row)

    def replied(self, exchange: TracedExchange, response: Message, parts: Sequence[Buffer]) -> None:
        """Note a response that is being sent. `parts` are its bytes."""
        now = self._now()
        traced = exchange.traced or Traced(now, ())
        arrived, about, latency = traced.arrived, traced.about, max(now - traced.arrived, 0)
        errors, messages = told_in(response) if traced.errors is None else (traced.errors, traced.messages)
        muted = self._muted(exchange) - traced.muted
        row = ReplyRow(
            now, *_client(exchange),
            api_name(exchange.api_key), exchange.version, exchange.correlation_id, sum(map(len, parts)), latency,
            errors, about, *self._stages(exchange), min(latency, muted + traced.longest_wait),
            getattr(response, "throttle_time_ms", 0), messages,
            *producer_with(traced.producer, response), details_with(traced.details, response, exchange.directory),
            **who(exchange.connection),
        )  # fmt: skip
        self._add(row)
        if self.kept is not None and exchange.frame is not None:
            connection = exchange.connection
            what = About(
                exchange.api_key, exchange.version, connection.node_id, connection.number, arrived, now,
                f"{connection.client_host} {connection.listener}",
            )  # fmt: skip
            self.kept.keep(self.added, what, exchange.frame, parts)

    def _stages(self, exchange: TracedExchange) -> Stages:
        """Returns how long each stage of an exchange took. Only a proxy measures this."""
        return UNMEASURED

    def _muted(self, exchange: TracedExchange) -> int:
        """Returns how many ms a broker has muted the connection because of a quota, according to the broker's responses."""
        return 0

    def fetched(self, exchange: TracedExchange, topic: str, offset: int, committed: bool, data: PartitionData) -> None:
        """Note one partition of a response to a Fetch."""
        row = FetchRow(
            self._now(), *_client(exchange),
            exchange.version, exchange.correlation_id, topic, data.partition_index, offset, len(data.records or b""),
            data.high_watermark, data.last_stable_offset, data.log_start_offset, committed, data.error_code,
            error_name(data.error_code), **who(exchange.connection),
        )  # fmt: skip
        self._add(row)

    def _add(self, row: Row) -> None:
        self._ring.append(row)
        self.added += 1
        if (characters := _characters_in(row)) >= LARGE:
            self._large.append((self.added, characters))
            self._characters += characters
            self._forget_large()
        if self.sinks:
            self._hand_out(row)

    def _forget_large(self) -> None:
        """Forget the oldest rows until the large rows together are within the limit. The latest row stays."""
        while self._large and (self._characters > MOST_CHARACTERS or self._large[0][0] <= self.added - len(self._ring)):
            number, characters = self._large[0]
            if number == self.added:
                return
            self._large.popleft()
            self._characters -= characters
            while self.added - len(self._ring) < number:
                self._ring.popleft()

    # Sinks

    def _hand_out(self, row: Row, sinks: Iterable[Sink] | None = None) -> None:
        """Pass a row to these sinks, by default to all sinks. A sink that raises an error is detached. The error is only
        logged, because the event of the row has already happened.
        """
        for sink in tuple(self.sinks if sinks is None else sinks):
            try:
                sink(row)
            except KeyboardInterrupt:
                raise
            except BaseException as failure:
                self.detach(sink)
                reason = getattr(failure, "strerror", None) or repr(failure)
                logger.warning("the trace no longer goes to %s (%s); the broker goes on without it", _named(sink), reason)

    def begin_run(self, change: Literal["started", "reset"], *sinks: Sink) -> None:
        """Tell these sinks that a new run begins. The sinks already have the rows of the previous run."""
        self._hand_out(RunRow(self._now(), change), sinks)

    def begin_again(self) -> None:
        """Forget all rows, and begin a new run. A soft reset calls this."""
        self.clear()
        self.added = 0
        self.runs += 1
        if self.kept is not None:
            self.kept = KeptFrames()
        self.begin_run("reset", *self.sinks)

    def begin_test(self, name: str) -> None:
        if self.verdicts:
            self._add(TestRow(self._now(), cut(name)))

    def detach(self, sink: Sink) -> None:
        """Pass no more rows to this sink. Does nothing if the sink is not attached."""
        if sink in self.sinks:
            self.sinks.remove(sink)

    # Reading

    def faults(self) -> list[FaultRow]:
        """Returns the faults in the ring, oldest first."""
        return [row for row in self._ring if isinstance(row, FaultRow)]

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """Returns the verdicts in the ring, oldest first. With `topic` or `partition`, returns only the verdicts on batches of
        this topic or partition.
        """
        return [
            row
            for row in self.events("produce", "shadow")
            if isinstance(row, ProduceRow) and topic in (None, row.topic) and partition in (None, row.partition)
        ]

    def events(self, *names: str) -> list[Row]:
        """Returns the rows of these events, or of all events, in the ring, oldest first."""
        return [row for row in self.last(len(self._ring)) if not names or row.event in names]

    def last(self, count: int) -> list[Row]:
        """Returns the latest `count` rows of any kind, oldest first."""
        return [self._made(each) for each in list(self._ring)[-count:]] if count > 0 else []

    def after(self, number: int, most: int) -> tuple[int, list[Brief]]:
        """Reads the rows after the row `number`. Returns two values: how many of these rows were forgotten, and up to `most` of
        the other rows as tuples."""
        missed, entries = self._after(number, most)
        return missed, [self._brief(each) for each in entries]

    def rows_after(self, number: int, most: int) -> tuple[int, list[Row]]:
        """Does the same as `after`, but returns rows instead of tuples."""
        missed, entries = self._after(number, most)
        return missed, [self._made(each) for each in entries]

    def _after(self, number: int, most: int) -> tuple[int, list[Any]]:
        first = max(number, self.added - len(self._ring))
        later = self.added - first
        return first - number, list(islice(reversed(self._ring), max(later - most, 0), later))[::-1]

    def _brief(self, entry: Any) -> Brief:
        """Returns an entry of the ring as a tuple."""
        return brief(self._made(entry))

    def _made(self, entry: Any) -> Row:
        """Returns an entry of the ring as a row."""
        made: Row = entry
        return made

    def clear(self) -> None:
        """Forget all rows."""
        self._ring.clear()
        self._large.clear()
        self._characters = 0


_LISTS = {
    kind: tuple(name for name, hint in kind.__annotations__.items() if hint.startswith("tuple")) for kind in EVENTS.values()
}
"""For each kind of row, the names of the fields that are lists. All other fields are short."""


def _characters_in(row: Row) -> int:
    total = 0
    for name in _LISTS[type(row)]:
        if held := getattr(row, name):
            total += sum(len(each) if isinstance(each, str) else ENTRY for each in held) + ENTRY * len(held)
    return total


def principal_of(connection: Connection) -> str:
    """Returns the client's principal as text, such as `User:alice`."""
    return _principal(connection.session.principal)


@lru_cache
def _principal(principal: Principal) -> str:
    return cut(str(principal))


class Who(TypedDict):
    """The fields of a `ClientRow` that identify the client."""

    principal: str
    client_host: str


def who(connection: Connection) -> Who:
    """Returns the principal and the address of a connection's client."""
    return {"principal": principal_of(connection), "client_host": connection.client_host}


def software_of(connection: Connection) -> str:
    """Returns the name of the client's software, or "" if the client has not sent the name."""
    return _software(connection.software)


@lru_cache
def _software(parts: tuple[str, ...]) -> str:
    return cut("/".join(part for part in parts if part))


def cut(text: Text) -> Text:
    """Returns at most the first `LONGEST` characters of a text. Without this limit a client could fill the trace with 32 KiB of
    text in each request.
    """
    return text if text is None or len(text) <= LONGEST else text[:LONGEST] + "…"


def _named(sink: Sink) -> str:
    """Returns a sink's name for messages: its attribute `name`, or the name of the function or class."""
    name = getattr(sink, "name", None) or getattr(sink, "__qualname__", None) or type(sink).__qualname__
    return str(name)


def _client(exchange: TracedExchange) -> tuple[int, int, str | None, str]:
    """Returns the fields of a `ClientRow` that follow `time`: node, connection, client id and software."""
    connection = exchange.connection
    return connection.node_id, connection.number, cut(exchange.client_id), software_of(connection)


def batch_row(
    now: int, connection: Connection, client_id: str | None, version: int, correlation_id: int, acks: int, topic: str,
    partition: int, header: BatchHeader, *, verdict: VerdictName, rule: str, code: int, base_offset: int, explain: str,
    sequenced: bool, window: int,
) -> ProduceRow:  # fmt: skip
    """Returns the row of the verdict on a batch. Some clients send the base sequence 0 without a producer id; then the batch is
    not `sequenced`, and the row has no sequences."""
    first, last = (header.base_sequence, header.last_sequence) if sequenced else (-1, -1)
    return ProduceRow(
        now, connection.node_id, connection.number, client_id, software_of(connection), version, correlation_id, acks, topic,
        partition, header.producer_id, header.producer_epoch, first, last, max(header.records_count, 0), header.size,
        compression_name(header.compression), header.is_transactional, verdict, rule, code, error_name(code), base_offset,
        note=f"idempotent with acks={acks}" if header.producer_id >= 0 and acks != -1 else "", explain=explain,
        window=window, **who(connection),
    )  # fmt: skip


def errors_in(response: Message) -> tuple[str, ...]:
    """Returns the names of all errors in a response, at any depth, without repetitions."""
    codes = dict.fromkeys(values(response, "errorCode"))
    return tuple(error_name(code) for code in codes if code)


def told_in(response: Message) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns two tuples without repetitions: the names of all errors in a response, and the first `NAMED` messages of these
    errors."""
    errors = errors_in(response)
    messages: dict[str, None] = {}
    for message in error_messages(response) if errors else ():
        messages[cut(message)] = None
        if len(messages) == NAMED:
            break
    return errors, tuple(messages)


def _least(names: Collection[Any]) -> list[Any]:
    """Returns the first `NAMED` elements in sorted order, without sorting all elements."""
    return sorted(names) if len(names) <= NAMED else nsmallest(NAMED, names)


def names_of(facts: Facts) -> tuple[str, ...]:
    """Returns at most `NAMED` of the names in a request as texts: first topics and partitions, then groups and transactional
    ids. If there are more names, groups and transactional ids have precedence over topics, and one more text gives the number
    of the remaining names.
    """
    alone = facts.topics - {topic for topic, _ in facts.partitions}
    others = [f"group {group}" for group in _least(facts.groups)]
    others += [f"transaction {each}" for each in _least(facts.transactional_ids)]
    names = [f"{topic}-{index}" for topic, index in _least(facts.partitions)] + _least(alone)
    count = len(facts.partitions) + len(alone) + len(facts.groups) + len(facts.transactional_ids)
    if count > NAMED:  # keep the groups: they are few, and filters need them
        others = others[: NAMED - bool(names)]
        names = names[: NAMED - len(others)]
    shown = tuple(map(cut, (*names, *others)))
    return (*shown, f"{count - len(shown)} more") if count > len(shown) else shown
