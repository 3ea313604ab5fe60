"""Makes a table of cases from the requests of a run without faults; each case has one fault at one request.

Requests of the same client, API and topic are one class. The client is in the same state at all requests of a class, except at
the first and the last. A case puts a fault at the first, the second or the last request of a class, or at each request of the
class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.registry import KEYS, response_class
from wirebroker.core.releases.changes import RELEASES
from wirebroker.faults.kinds.state import expire_member, lose_coordinator
from wirebroker.faults.rules import KINDS
from wirebroker.requests.errors import READING
from wirebroker.trace.rows import FetchRow, ProduceRow, ReplyRow, RequestRow, Row
from wirebroker.trace.selection import exchange_of
from wirebroker_tools.campaign.cases import Case
from wirebroker_tools.campaign.errors import (
    DONE,
    ERRORS,
    OF_LOST_DATA,
    OF_REPLICAS,
    OF_SEQUENCES,
    OF_TRANSACTIONS,
    SINCE,
    WITHOUT_ID,
)

SILENT = "silence"
TRANSACTION = "transaction "
"""If the subject of a trace row is a transactional id, the subject begins with this prefix."""
LOST = 4
"""This many responses are lost, one after the other, so that a client gives up."""
TAKING_EFFECT = frozenset({"Produce", "EndTxn", "OffsetCommit", "TxnOffsetCommit"})
"""After a request of one of these APIs, a client that gives up does not know whether the request has taken effect."""
THROTTLE_MS = 500
BUSY_MS = 6000
"""A busy broker handles a request this many ms late. Many applications have timeouts of 5 s, shorter than the client's own
timeouts."""
LATE_MS = 100
"""An error is delayed by this many ms. In this time the client sends further batches."""
HANDSHAKES = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"})
"""The APIs of the first requests on each connection. At these requests, only lost requests and lost responses are tried."""
LAST_VALUE_AT = -5
"""In a Fetch response, the last byte of the last record value is the fifth byte from the end: the number of headers and three
tag sections follow it."""
OPTIONAL = ("truncate", "corrupt", "OFFSET_OUT_OF_RANGE")
"""Faults that lose or damage stored records. No application can repair such a loss, so these faults are tried only if
`--faults` names them. There is one exception: truncation is tried at a Produce with acks=1, because an application that uses
acks=1 accepts that a new leader may lack the batch.
"""
IF_NAMED = ("upgrade",)
"""Faults that are tried only if `--faults` names them, because no cluster meets them by accident."""
NEWEST = f"kafka-{RELEASES[-1]}"
"""The release to which the brokers are upgraded."""
USUAL = (
    "lose_request", "lose_ack", "cut", "error", "throttle", "restart", "crash_after_write", "expire_producer",
    "expire_transactional_id", "fence", "expire_member", "move_leader", "move_coordinator", "advance", "delay",
)  # fmt: skip
"""The kinds of fault that are tried unless `--faults` names others."""
MOVES = ("move_leader", "move_coordinator")
"""Faults that need a second broker. A run with such a fault has two brokers."""
JUMPS_MS = (120_000, 90_000_000)
"""The jumps of the broker's clock: beyond the default timeouts of sessions and transactions, and beyond the time for which a
partition remembers a producer.
"""
COORDINATED = frozenset(lose_coordinator.only_apis) - READING | {"OffsetFetch"}
"""The coordinators' APIs. Members of groups and producers use these APIs."""


@dataclass(frozen=True, slots=True)
class Place:
    """A class of requests, described by the words with which a fault file selects them."""

    api: str
    client_id: str | None
    topic: str | None

    @property
    def words(self) -> dict[str, Any]:
        """The words of a fault file that match the requests of this class."""
        named = {"client_id": self.client_id, "topic": self.topic}
        return {"api": self.api} | {word: name for word, name in named.items() if name}

    @property
    def label(self) -> str:
        """The part of a case's id that stands for this class."""
        return "-".join(filter(None, (self.api, self.client_id, self.topic)))


@dataclass(slots=True)
class Asked:
    """A request of the plain run, or a batch of a Produce."""

    version: int
    response_bytes: int = 0
    acks: int | None = None
    """the acks of a Produce"""
    idempotent: bool = False
    before: tuple[int, int, int] | None = None
    """for a batch of a Produce: its partition, the base offset of the batch before it, and the number of all batches before it
    """
    transactional_ids: tuple[str, ...] = ()
    fetched: list[FetchRow] = field(default_factory=list)


def places(rows: Iterable[Row], *, by_client: bool = True) -> dict[Place, list[Asked]]:
    """Returns the classes of requests in a trace, each with its requests in order.

    `by_client` is false if the clients' ids differ from run to run. Then the classes do not distinguish clients.
    """
    found: dict[Place, list[Asked]] = {}
    exchanges: dict[tuple[int, int, int], list[Asked]] = {}
    transactions: dict[tuple[int, int, int], tuple[str, ...]] = {}
    batches: dict[tuple[Place, int], list[int]] = {}
    for row in rows:
        if not isinstance(row, RequestRow | ProduceRow | ReplyRow | FetchRow):
            continue
        number = exchange_of(row)
        client_id = row.client_id if by_client else None
        if isinstance(row, ReplyRow):
            for asked in exchanges.get(number, ()):
                asked.response_bytes = row.bytes
        elif isinstance(row, FetchRow):
            for asked in exchanges.get(number, ()):
                asked.fetched.append(row)
        elif isinstance(row, RequestRow) and row.api == "Produce":
            transactions[number] = _transactional_ids(row)
        else:
            if isinstance(row, ProduceRow):
                ids, place = transactions.get(number, ()), Place("Produce", client_id, row.topic)
                earlier = batches.setdefault((place, row.partition), [])
                before = (row.partition, earlier[-1], len(earlier)) if earlier else None
                earlier.append(row.base_offset)
                asked = Asked(
                    row.version, acks=row.acks, idempotent=row.producer_id >= 0, before=before, transactional_ids=ids
                )  # fmt: skip
            else:
                asked = Asked(row.version, transactional_ids=_transactional_ids(row))
                place = Place(row.api, client_id, None)
            found.setdefault(place, []).append(asked)
            exchanges.setdefault(number, []).append(asked)
    return found


def _transactional_ids(row: RequestRow) -> tuple[str, ...]:
    return tuple(each.removeprefix(TRANSACTION) for each in row.about if each.startswith(TRANSACTION))


@dataclass(frozen=True, slots=True)
class Choice:
    """The faults to try, and the requests at which to try them."""

    apis: frozenset[str] | None = None
    faults: frozenset[str] | None = None
    """the kinds of faults and the names of errors to try; None stands for the usual kinds"""
    every: bool = False
    proxied: bool = False
    """whether only faults that a proxy can play are tried"""
    impossible: frozenset[str] = frozenset()
    """errors that the application's groups cannot get"""

    @classmethod
    def of(cls, apis: Collection[str], faults: Collection[str], *, every: bool = False, proxied: bool = False) -> Choice:
        """Returns the choice of the APIs and faults with these names. Raises ValueError for a fault that does not exist."""
        known = {*USUAL, *OPTIONAL, *IF_NAMED, *ErrorCode.__members__}
        for name in faults:
            if proxied and name in KINDS and KINDS[name].needs_broker:
                raise ValueError(f"{name}: this happens inside a broker, so a proxy in front of a real cluster cannot play it")
            if name not in known:
                why = "explorations do not try this fault" if name in KINDS else "there is no such fault or error"
                kinds = ", ".join((*USUAL, *OPTIONAL, *IF_NAMED))
                raise ValueError(f"{name}: {why}; there are {kinds}, and Kafka's errors by name")
        return cls(frozenset(apis) or None, frozenset(faults) or None, every, proxied)

    def has(self, fault: dict[str, Any], api: str, version: int) -> bool:
        """Tells whether this fault is tried at a request of this version.

        Errors that `--faults` names are tried even if Kafka does not return them in this version, and even if the application's
        groups cannot get them.
        """
        kind, code = fault["kind"], fault.get("code")
        if self.proxied and KINDS[kind].needs_broker:
            return False
        if code in (self.faults or ()):
            return True
        if code in self.impossible or version < SINCE.get((api, code or ""), 0):
            return False
        if self.faults is None:
            return kind not in IF_NAMED and (kind not in OPTIONAL or api == "Produce") and (api, code) not in OF_LOST_DATA
        return kind in self.faults


def cases(found: dict[Place, list[Asked]], choice: Choice) -> list[Case]:
    """Returns the table of cases, by class of requests."""
    made: list[Case] = []
    for place, requests in found.items():
        if choice.apis is not None and place.api not in choice.apis:
            continue
        for nth in _positions(len(requests), every=choice.every):
            asked = requests[nth - 1]
            for fault in faults_at(place, asked):
                if choice.has(fault, place.api, asked.version) and (nth == 1 or fault.get("ms") != BUSY_MS):
                    made.append(case_at(place, nth, fault))
    return made


def matched(case: Case) -> Place:
    """Returns the class of the request that a case's first fault matches."""
    fault = case["fault"]
    return Place(fault["api"], fault.get("client_id"), fault.get("topic"))


def brokers_for(faults: Iterable[Mapping[str, Any]]) -> int:
    """Returns the number of brokers of a run with these faults."""
    return 2 if any(fault["kind"] in MOVES for fault in faults) else 1


def is_slow(case: Case) -> bool:
    """Tells whether the client waits for its own timeout in this case."""
    return bool(case["fault"].get("then") == SILENT or (case["fault"]["kind"] == "delay" and not case.get("second")))


def _positions(count: int, *, every: bool) -> list[int]:
    return list(range(1, count + 1)) if every else sorted({1, min(2, count), count})


def case_at(place: Place, nth: int, fault: dict[str, Any]) -> Case:
    """Makes the case in which this fault matches the nth request of a class."""
    own = "-".join(str(value).lower() for word, value in fault.items() if word not in ("topic", "partition"))
    case = {"id": f"{place.label}-{nth}-{own}", "api": place.api, "nth": nth}
    words = {"kind": fault["kind"], **place.words, "nth": nth, **fault}
    if (ms := words.pop("late", None)) is not None:
        return {**case, "fault": {"kind": "delay", **place.words, "nth": nth, "ms": ms}, "second": words}
    return {**case, "fault": words}


def delays(silent: Case, waited: float, limit: float) -> Iterator[Case]:
    """Yields a case with a delay longer than the client's timeout. The run of the `silent` case has shown this timeout:
    `waited` seconds.
    """
    ms = round(max(waited * 1.5, 0.5) * 1000)
    if silent["fault"]["kind"] == "lose_request" and ms < limit * 500:
        fault = {word: value for word, value in silent["fault"].items() if word != "then"} | {"kind": "delay", "ms": ms}
        yield {**silent, "id": silent["id"].replace("lose_request-silence", "delay"), "fault": fault}


def gives_up(silent: Case, waited: float, limit: float) -> Iterator[Case]:
    """Yields a case in which the client gives up, although the request has taken effect: so many responses are lost that the
    client's retries time out, too. The client waits `waited` seconds for each response."""
    fault = silent["fault"]
    if fault["kind"] == "lose_ack" and silent["nth"] == 1 and silent["api"] in TAKING_EFFECT and waited * LOST < limit / 2:
        words = {word: value for word, value in fault.items() if word != "nth"}
        yield {**silent, "id": f"{silent['id']}-{LOST}", "fault": words | {"times": LOST}}


def faults_at(place: Place, asked: Asked) -> Iterator[dict[str, Any]]:
    """Yields the faults that can happen at this request."""
    for kind in ("lose_request", "lose_ack") if asked.acks != 0 else ("lose_request",):
        yield {"kind": kind, "then": "disconnect"}
        yield {"kind": kind, "then": SILENT}
    if place.api in HANDSHAKES:
        return
    if asked.acks == 0:  # such a request gets no response, so no response can have an error
        yield {"kind": "restart", "mode": "kill"}
        yield {"kind": "upgrade", "to": NEWEST}
        return
    if asked.response_bytes > 1:
        yield {"kind": "cut", "bytes": asked.response_bytes // 2}
    yield {"kind": "restart", "mode": "kill"}
    yield {"kind": "upgrade", "to": NEWEST}
    yield from _errors(place.api, asked)
    if _can_throttle(place.api, asked.version):
        yield {"kind": "throttle", "ms": THROTTLE_MS}
    yield from _of_state(place, asked)


def _errors(api: str, asked: Asked) -> Iterator[dict[str, Any]]:
    """Returns the errors that Kafka can return to this request."""
    if api == "InitProducerId" and not asked.transactional_ids:
        yield from ({"kind": "error", "code": code} for code in ERRORS[api] if code in WITHOUT_ID)
        return
    impossible: set[str] = set()
    if api == "Produce":
        impossible |= OF_REPLICAS if asked.acks != -1 else set()
        impossible |= OF_SEQUENCES if not asked.idempotent else set()
        impossible |= OF_TRANSACTIONS if not asked.transactional_ids else set()
    if api == "FindCoordinator":
        impossible.add("GROUP_AUTHORIZATION_FAILED" if asked.transactional_ids else "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    for code in ERRORS.get(api, ()):
        if code not in impossible:
            yield {"kind": "error", "code": code}
    for code in DONE.get(api, ()) if asked.acks in (None, -1) else ():
        yield {"kind": "error", "code": code, "after": True}


def _of_state(place: Place, asked: Asked) -> Iterator[dict[str, Any]]:
    if place.api in TAKING_EFFECT:
        yield {"kind": "delay", "ms": BUSY_MS}
    if place.api in ("Produce", "Fetch", "ListOffsets"):
        yield {"kind": "move_leader"}
    is_coordinated = place.api in COORDINATED and (place.api != "InitProducerId" or bool(asked.transactional_ids))
    if is_coordinated:
        yield {"kind": "move_coordinator"}
    if place.api in expire_member.only_apis and place.api != "JoinGroup":  # a new member has no id yet
        yield {"kind": "expire_member"}
    if place.api == "Produce" or is_coordinated:
        yield from ({"kind": "advance", "ms": ms} for ms in JUMPS_MS)
    if place.api == "Produce":
        yield {"kind": "error", "code": "NOT_LEADER_OR_FOLLOWER", "late": LATE_MS}
        yield {"kind": "crash_after_write"}
        if asked.acks == 1 and asked.before is not None:  # with acks=1 the leader acknowledges records that no follower has yet
            partition, offset, count = asked.before
            yield {"kind": "truncate", "offset": offset, "topic": place.topic, "partition": partition, "nth": count + 1}
        if asked.idempotent:
            yield {"kind": "expire_producer"}
    for name in asked.transactional_ids:
        yield {"kind": "fence", "transactional_id": name}
        yield {"kind": "expire_transactional_id", "transactional_id": name}
    for row in asked.fetched:
        if row.bytes:
            yield {"kind": "corrupt", "at": LAST_VALUE_AT}
        if row.offset > 0:
            yield {"kind": "truncate", "offset": row.offset - 1, "topic": row.topic, "partition": row.partition}


def _can_throttle(api: str, version: int) -> bool:
    fields = response_class(KEYS[api]).__wire__
    return any(each.name == "throttle_time_ms" and each.present(version) for each in fields)
