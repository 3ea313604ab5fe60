"""Turns rows of the trace into steps in the order of time. A request or a response becomes an arrow, and a change becomes a
note."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from wirebroker.requests.facts import Batch
from wirebroker.trace.rows import (
    AuthenticationRow,
    AuthorizationRow,
    ConnectionRow,
    FaultRow,
    FetchRow,
    GroupRow,
    LeaderRow,
    ProduceRow,
    ReplyRow,
    RequestRow,
    Row,
    ShadowRow,
    ThrottleRow,
    TopicRow,
    TransactionRow,
    UnsupportedRow,
)
from wirebroker.trace.selection import ExchangeKey, exchange_of

Lane = tuple[str, str]
"""A client by its id, or a broker by its number: ("client", "shop"), ("broker", "1")."""
IDLE = frozenset((
    "ApiVersions", "Fetch", "ShareFetch", "GetTelemetrySubscriptions", "Heartbeat", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "Metadata", "SaslHandshake", "SaslAuthenticate", "Connect", "Disconnect",
))  # fmt: skip
"""The requests that a client sends while it only waits or connects. The step of such a request is quiet, unless the request
fails or returns records."""
USUAL = frozenset(("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"))
"""Errors that are part of normal operation."""
ASKED, ANSWERED, NOTED = ">", "<", "-"
QUIET, PLAIN, STRIKING = 0, 1, 2
"""The importance of a step. Quiet steps are folded before all other steps, and striking steps after all other steps."""


class Step(Struct):
    """A step of the diagram: a request, a response, or a note. `number` is the number of its row."""

    number: int
    time: int
    way: str
    client: Lane | None
    broker: Lane | None
    api: str
    words: str
    kind: str
    """the CSS class of its colour"""
    interest: int = PLAIN
    is_lost: bool = False
    """whether the request or the response does not arrive because of a fault"""
    rows: list[int] = []
    """the numbers of the other rows of this step"""
    spans: tuple[int, int, int, int] = (-1, -1, -1, -1)
    """for a stored batch: the first and the last sequence, and the first and the last offset"""
    place: str = ""
    """the first name in the request"""
    answer: Step | None = None
    title: str = ""


class _Exchange(Struct):
    asked: Step
    answered: Step | None = None
    faults: list[FaultRow] = []
    batches: list[ProduceRow] = []
    fetches: list[FetchRow] = []


def client_lane(client_id: str | None) -> Lane:
    return "client", "(no client id)" if client_id is None else client_id


def broker_lane(node: int) -> Lane:
    """Returns the lane of a broker. A proxy gets the id of its bootstrap broker only from a response."""
    return "broker", f"broker {node}" if node >= 0 else "bootstrap"


def steps_of(rows: Iterable[tuple[int, Row]]) -> list[Step]:
    """Returns the steps of numbered rows."""
    rows = list(rows)
    return _Reader({(row.node, row.connection): row.client_id for _, row in rows if hasattr(row, "client_id")}).read(rows)  # type: ignore[attr-defined]


class _Reader:
    def __init__(self, names: Mapping[tuple[int, int], str | None]) -> None:
        self._names = names
        self._steps: list[Step] = []
        self._open: dict[ExchangeKey, _Exchange] = {}
        self._last: Lane | None = None
        self._readers: dict[type[Row], Callable[[int, Any], None]] = {
            RequestRow: self._request, ReplyRow: self._reply, ProduceRow: self._batch, ShadowRow: self._batch,
            FetchRow: self._fetch, FaultRow: self._fault, ConnectionRow: self._connection, UnsupportedRow: self._unsupported,
        }  # fmt: skip

    def read(self, rows: Iterable[tuple[int, Row]]) -> list[Step]:
        for number, row in rows:
            self._readers.get(type(row), self._note)(number, row)
        for exchange in self._open.values():
            self._finish(exchange)
        return self._steps

    def _exchange(self, number: int, row: RequestRow | ReplyRow | ProduceRow | FetchRow | FaultRow, api: str) -> _Exchange:
        """Returns the exchange to which a row belongs. For the first row of an exchange, a step for the request is created."""
        key = exchange_of(row)
        found = self._open.get(key)
        if found is None:
            asked = self._step(number, row.time, ASKED, row.node, row.connection, row.client_id, api)
            found = self._open[key] = _Exchange(asked)
        elif number not in found.asked.rows:
            found.asked.rows.append(number)
        return found

    def _step(self, number: int, time: int, way: str, node: int, connection: int, client_id: str | None, api: str) -> Step:
        name = client_id if client_id is not None else self._names.get((node, connection))
        self._last = broker_lane(node)
        made = Step(number, time, way, client_lane(name), self._last, api, api, "plain", QUIET if api in IDLE else PLAIN)
        self._steps.append(made)
        return made

    def _request(self, number: int, row: RequestRow) -> None:
        asked = self._exchange(number, row, row.api).asked
        _name(asked, row.api, row.version, row.about)

    def _batch(self, number: int, row: ProduceRow) -> None:
        exchange = self._exchange(number, row, "Produce")
        exchange.batches.append(row)

    def _fetch(self, number: int, row: FetchRow) -> None:
        self._exchange(number, row, "Fetch").fetches.append(row)

    def _reply(self, number: int, row: ReplyRow) -> None:
        exchange = self._exchange(number, row, row.api)
        _name(exchange.asked, row.api, row.version, row.about)
        if exchange.asked.number == number or not exchange.asked.title:
            exchange.asked.time = row.time - row.latency
        answered = self._step(number, row.time, ANSWERED, row.node, row.connection, row.client_id, row.api)
        answered.place, answered.rows = exchange.asked.place, exchange.asked.rows
        exchange.answered = exchange.asked.answer = answered
        answered.words = ", ".join(row.errors)
        if row.errors:
            answered.kind = "warn" if USUAL.issuperset(row.errors) else "bad"
            answered.interest = PLAIN if answered.kind == "warn" else STRIKING
        answered.title = f"{row.api} v{row.version}, after {row.latency:,} ms, {row.bytes:,} bytes"
        self._finish(exchange)
        self._open.pop(exchange_of(row), None)

    def _fault(self, number: int, row: FaultRow) -> None:
        if not row.api:
            note = self._noted(number, row.time, f"⚡ {row.rule}", "fault", STRIKING, broker_lane(row.node))
            note.client = client_lane(self._names.get((row.node, row.connection)))
            return
        exchange = self._exchange(number, row, row.api)
        exchange.faults.append(row)
        places = row.partitions or ((f"{row.batch.topic}-{row.batch.partition}",) if row.batch else ())
        _name(exchange.asked, row.api, row.version, places)

    def _unsupported(self, number: int, row: UnsupportedRow) -> None:
        asked = self._step(number, row.time, ASKED, row.node, row.connection, row.client_id, row.api)
        asked.words, asked.kind, asked.interest = f"{row.api} v{row.version}: {row.parts()[3]}", "bad", STRIKING

    def _connection(self, number: int, row: ConnectionRow) -> None:
        api = "Connect" if row.change == "opened" else "Disconnect"
        step = self._step(number, row.time, ASKED, row.node, row.connection, None, api)
        step.words, step.kind = (f"connects, #{row.connection}" if api == "Connect" else f"closes #{row.connection}"), "dim"
        if row.reason and row.reason != "the client closed it" and not row.reason.startswith("the fault"):
            step.words, step.kind, step.interest = f"#{row.connection} is closed: {row.reason}", "bad", STRIKING
        step.title = row.parts()[3]

    def _note(self, number: int, row: Row) -> None:
        """Add a note for a row that belongs to no exchange: a change, a refusal, or a wait."""
        lane = broker_lane(row.node) if hasattr(row, "node") else self._last
        place, what, outcome, rest = row.parts()
        kind, interest = "note", PLAIN
        words = f"{place}: {rest}" if place else f"{what}: {rest}"
        client: Lane | None = None
        if isinstance(row, AuthorizationRow) or (isinstance(row, AuthenticationRow) and row.outcome != "succeeded"):
            words, kind, interest = f"{place} {what} {outcome}: {rest}".strip(), "bad", STRIKING
            client = self._refused(row)
        elif isinstance(row, AuthenticationRow):
            return
        elif isinstance(row, ThrottleRow):
            words, kind, interest = f"throttled {row.ms:,} ms by {row.quota or 'a quota'}", "warn", STRIKING
        elif isinstance(row, TransactionRow):
            words = f"transaction {row.transactional_id}: {row.state}"
        elif isinstance(row, GroupRow):
            words = f"group {row.group}: {row.state}, generation {row.generation}, {row.parts()[3].rpartition(', ')[2]}"
        elif isinstance(row, LeaderRow):
            interest = STRIKING if row.leader_epoch > 0 else QUIET
            words = f"{place}: {rest}"
        elif row.event in ("broker", "restart", "upgrade", "run"):
            words, interest = f"{what} {rest}", STRIKING
        elif isinstance(row, TopicRow) and row.topic.startswith("__"):
            interest = QUIET
        elif row.event in ("producer", "isr", "telemetry"):
            return
        noted = self._noted(number, row.time, words, kind, interest, lane)
        noted.title, noted.client = f"{place} {what} {rest}".strip(), client

    def _refused(self, row: AuthorizationRow | AuthenticationRow) -> Lane | None:
        """Returns the lane of a client that was refused. If the client has sent no request yet, only its address is known."""
        name = self._names.get((row.node, row.connection))
        if name is None and isinstance(row, AuthenticationRow):
            return client_lane(row.client_host)
        return client_lane(name)

    def _noted(self, number: int, time: int, words: str, kind: str, interest: int, lane: Lane | None) -> Step:
        made = Step(number, time, NOTED, None, lane, "", words, kind, interest)
        self._steps.append(made)
        return made

    def _finish(self, exchange: _Exchange) -> None:
        """Use all rows of the exchange to make two labels: the label of the request, and the label of its response."""
        asked, answered = exchange.asked, exchange.answered
        if exchange.batches or exchange.faults:
            _word_batches(exchange)
        elif exchange.fetches:
            _word_fetch(exchange)
        elif answered is not None and not answered.words:
            answered.words, answered.kind = "ok", "dim"
        if exchange.faults:
            self._struck(exchange)
        if answered is not None:
            level = max(asked.interest, answered.interest)
            asked.interest = answered.interest = level

    def _struck(self, exchange: _Exchange) -> None:
        """Show where a fault acted: on the request, on the response, or between them."""
        asked, answered, fault = exchange.asked, exchange.answered, exchange.faults[-1]
        rules = ", ".join(dict.fromkeys(f"{each.kind}" for each in exchange.faults))
        asked.interest = STRIKING
        if answered is not None:
            answered.kind, answered.interest = "fault", STRIKING
            answered.words = f"{answered.words}  ⚡ {rules}".strip()
            answered.title = f"{answered.title}; {fault.rule}"
        elif exchange.batches or fault.kind == "lose_ack":
            lost = self._step(
                fault_number(exchange), fault.time, ANSWERED, fault.node, fault.connection, fault.client_id, fault.api
            )
            stored = f"{exchange.batches[0].verdict} at offset {exchange.batches[0].base_offset}; " if exchange.batches else ""
            lost.words, lost.kind, lost.interest, lost.is_lost = (
                f"⚡ {rules}: {stored}the response is lost",
                "fault",
                STRIKING,
                True,
            )
            lost.title, asked.answer = fault.rule, lost
            self._steps.insert(_place_of(self._steps, fault.time, lost), self._steps.pop())
        else:
            asked.words = f"{asked.words}  ⚡ {rules}: the request is lost"
            asked.kind, asked.is_lost, asked.title = "fault", True, fault.rule


def fault_number(exchange: _Exchange) -> int:
    """Returns the number of an exchange's last row."""
    return exchange.asked.rows[-1] if exchange.asked.rows else exchange.asked.number


def _place_of(steps: list[Step], time: int, lost: Step) -> int:
    """Returns the index at which a lost response is inserted: directly after the steps with smaller row numbers."""
    at = len(steps) - 1
    while at > 0 and steps[at - 1].number > lost.number:
        at -= 1
    return at


def _name(step: Step, api: str, version: int, about: tuple[str, ...]) -> None:
    if step.title:
        return
    more = f" +{len(about) - 1}" if about[1:] and api not in ("Produce", "Fetch") else ""
    step.place = about[0] if about else ""
    step.words = f"{api} {step.place}{more}".rstrip()
    step.title = f"{api} v{version} {', '.join(about)}".rstrip()


def _sequences(batch: ProduceRow) -> str:
    if batch.first_sequence < 0:
        return f"{batch.records} record{'s' * (batch.records != 1)}"
    return f"seq {span_of(batch.first_sequence, batch.last_sequence)}"


def span_of(first: int, last: int) -> str:
    """Returns `3` or `3–5`."""
    return str(first) if first == last else f"{first}–{last}"


def _word_batches(exchange: _Exchange) -> None:
    asked, answered = exchange.asked, exchange.answered
    sent: list[ProduceRow | Batch] = [*exchange.batches] or [
        fault.batch for fault in exchange.faults if fault.batch is not None
    ]
    if sent:
        first = sent[0]
        name = f"{first.topic}-{first.partition}"
        more = f" +{len(exchange.batches) - 1}" if exchange.batches[1:] else ""
        words = (
            _sequences(first) if isinstance(first, ProduceRow) else f"seq {span_of(first.first_sequence, first.last_sequence)}"
        )
        asked.words = f"Produce {name} {words}{more}"
        asked.place, asked.interest = name, max(asked.interest, PLAIN)
    if exchange.batches:
        told = _verdict(exchange.batches)
        asked.title = asked.title + "".join(f"\n{batch.explain}" for batch in exchange.batches)
        if all(batch.verdict == "accepted" for batch in exchange.batches) and len(exchange.batches) == 1:
            batch = exchange.batches[0]
            asked.spans = batch.first_sequence, batch.last_sequence, batch.base_offset, batch.base_offset + batch.records - 1
        worst = next(
            (each for verdict in ("rejected", "duplicate") for each in exchange.batches if each.verdict == verdict), None
        )
        if answered is not None:
            answered.words, answered.title = told, "\n".join(batch.explain for batch in exchange.batches)
            if worst is not None:
                answered.kind, answered.interest = worst.verdict, STRIKING
            elif not answered.words:
                answered.words = told
        elif not exchange.faults:  # a trace at the level `verdicts` has no rows for responses
            asked.words = f"{asked.words} → {told}"
            asked.kind = worst.verdict if worst is not None else asked.kind
            asked.interest = STRIKING if worst is not None else asked.interest


def _verdict(batches: list[ProduceRow]) -> str:
    words = []
    for batch in batches[:2]:
        if batch.verdict == "accepted":
            words.append(f"offset {span_of(batch.base_offset, batch.base_offset + max(batch.records, 1) - 1)}")
        elif batch.verdict == "duplicate":
            words.append(f"duplicate of offset {batch.base_offset}" if batch.base_offset >= 0 else "duplicate")
        else:
            expected = batch.explain.partition(": expected ")[2].partition(" for ")[0]
            got = batch.explain.partition(", got ")[2].partition(";")[0]
            why = f": expected {expected}, got {got}" if expected and got else ""
            words.append(f"{batch.error}{why}")
        if isinstance(batch, ShadowRow) and batch.agrees is False:
            words[-1] += f" ≠ predicted {batch.predicted}"
    return ", ".join(words) + (f" +{len(batches) - 2}" if batches[2:] else "")


def _word_fetch(exchange: _Exchange) -> None:
    asked, answered, fetches = exchange.asked, exchange.answered, exchange.fetches
    full = [each for each in fetches if each.bytes or each.code]
    first = (full or fetches)[0]
    asked.words = f"Fetch {first.topic}-{first.partition} from {first.offset}"
    asked.place = f"{first.topic}-{first.partition}"
    if answered is None:
        return
    if first.code:
        answered.words, answered.kind, answered.interest = first.error, "bad", STRIKING
    elif full:
        stable = f", stable {first.last_stable_offset}" if 0 <= first.last_stable_offset < first.high_watermark else ""
        answered.words = f"{first.bytes:,} B, log ends at {first.high_watermark}{stable}"
        answered.interest = PLAIN
    else:
        answered.words, answered.kind = "no records", "dim"
