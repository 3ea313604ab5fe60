"""Brokers that cannot be reached, that reset connections, and coordinators that do not respond."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wirebroker.explain.access import is_about_tls
from wirebroker.explain.detector import Detector, Known
from wirebroker.explain.findings import Evidence, Finding
from wirebroker.explain.words import SECOND, Client, at, between, client_of, counted, equal, ms, times
from wirebroker.trace.rows import BrokerRow, ConnectionRow, ReplyRow, Row
from wirebroker.trace.selection import groups_of, transactions_of

UNREACHABLE = "cannot be reached"
BROKE = ("the connection to the broker broke", "in the middle of a response", "reset by the broker", "was killed")
CLOSED = "the broker closed it"
EXPLAINED = ("instead of answering", "it does not know the client")
"""Parts of reasons: such reasons belong to other findings, or already name the cause."""
OF_COORDINATORS = frozenset((
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "DescribeGroups", "ConsumerGroupDescribe", "InitProducerId", "EndTxn",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit",
))  # fmt: skip
"""The APIs that go to a coordinator."""
NO_COORDINATOR = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"))
ASKED = 3
"""After this number of FindCoordinator requests on one connection a coordinator counts as missing."""
ASKED_IN_ALL = 10
FOR = 3 * SECOND
"""ms for which a coordinator must be missing. A cold cluster has no coordinator for a second or two."""


def is_lost(row: ConnectionRow) -> bool:
    """Tells whether a broker has closed or refused this connection, or could not be reached."""
    if row.change != "closed" or is_about_tls(row) or any(part in row.reason for part in EXPLAINED):
        return False
    if UNREACHABLE in row.reason or any(part in row.reason for part in BROKE):
        return True
    return row.reason.startswith(CLOSED) and bool(row.unanswered)


@dataclass
class _Lost:
    evidence: Evidence = field(default_factory=Evidence)
    hosts: set[str] = field(default_factory=set)
    unanswered: dict[str, None] = field(default_factory=dict)


class LostConnections(Detector):
    """Finds `connection_lost`, by node and reason."""

    events = ("connection", "reply", "broker")

    def __init__(self) -> None:
        self._lost: Known[tuple[int, str], _Lost] = Known(_Lost)
        self._answered: Known[int, list[int]] = Known(list)
        """The time of each node's latest response, in a list of one."""
        self._killed: Known[int, Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, ReplyRow):
            self._answered[row.node][:] = [row.time]
        elif isinstance(row, BrokerRow):
            if row.change == "killed":
                self._killed[row.node].add(number, row)
        elif isinstance(row, ConnectionRow) and is_lost(row):
            lost = self._lost[row.node, row.reason]
            lost.evidence.add(number, row)
            lost.hosts.add(row.client_host)
            lost.unanswered.update(dict.fromkeys(row.unanswered))

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each node and reason of lost connections."""
        for (node, reason), lost in self._lost.items():
            evidence = lost.evidence
            named = f"node {node}" if node >= 0 else "a broker"
            unanswered = f"; unanswered: {', '.join(filter(None, lost.unanswered))}" if lost.unanswered else ""
            after = self._answered.get(node)
            back = f" It answers again since {at(after[0])}." if after and after[0] > evidence.last_time else ""
            sentence = (
                f"Clients lost their connections to {named} {times(evidence.count)} "
                f"{between(evidence.first_time, evidence.last_time)}: {reason}{unanswered}.{back}"
            )
            cause, look_at = _advice(reason)
            yield Finding(
                "connection_lost", sentence, cause, look_at, f"change=closed node={node}", evidence,
                evidence.count if back else evidence.count + 1_000_000,
            )  # fmt: skip
        for node, evidence in self._killed.items():
            sentence = f"Broker {node} was killed {times(evidence.count)} {between(evidence.first_time, evidence.last_time)}."
            yield Finding(
                "connection_lost", sentence, "the broker's process has ended without a clean shutdown", "the broker's log",
                f"event=broker node={node}", evidence, evidence.count,
            )  # fmt: skip


def _advice(reason: str) -> tuple[str, str]:
    if UNREACHABLE in reason and ("not known" in reason or "resolv" in reason or "no address" in reason.lower()):
        return "the address that the broker advertises is not known here", "advertised.listeners of the broker, and the DNS"
    if UNREACHABLE in reason:
        return "the broker is down, or a firewall or a wrong address is in the way", (
            "the broker's process and its log; advertised.listeners of the broker"
        )
    return (
        "the broker has stopped or crashed, a request was too large for the broker, or something in between cut the connection",
        ("the broker's log at that time; socket.request.max.bytes; timeouts of load balancers and NAT"),
    )


@dataclass
class _Question:
    """A client's FindCoordinator requests for one coordinator since the coordinator last responded."""

    evidence: Evidence = field(default_factory=Evidence)
    by_connection: dict[int, int] = field(default_factory=dict)
    told: str = ""
    """the coordinator in the latest response to FindCoordinator, or the error"""
    ended: int = 0
    """when the coordinator responded"""

    @property
    def is_missing(self) -> bool:
        """Tells whether no coordinator responds."""
        often = max(self.by_connection.values(), default=0) >= ASKED or self.evidence.count >= ASKED_IN_ALL
        return often and self.evidence.span >= FOR


class MissingCoordinators(Detector):
    """Finds `coordinator_unreachable`: clients ask for a coordinator again and again, and it does not respond."""

    events = ("reply", "connection")

    def __init__(self) -> None:
        self._asked: Known[tuple[str, Client], _Question] = Known(_Question)
        self._over: Known[tuple[str, Client], _Question] = Known(_Question)
        """FindCoordinator requests that got a response in the end."""
        self._problems: Known[int, list[str]] = Known(list)
        """The reason of each node's latest failed connection, in a list of one."""

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, ConnectionRow):
            if UNREACHABLE in row.reason:
                self._problems[row.node][:] = [row.reason]
            return
        assert isinstance(row, ReplyRow)
        if row.api != "FindCoordinator" and row.api not in OF_COORDINATORS:
            return
        if row.api == "FindCoordinator" and row.errors and not NO_COORDINATOR & set(row.errors):
            return  # it is denied, and tells nothing about the coordinator
        for name in _names(row):
            key = name, client_of(row)
            if row.api == "FindCoordinator" or NO_COORDINATOR & set(row.errors):
                self._ask(key, number, row)
            elif (question := self._asked.pop(key)) is not None and question.is_missing:
                question.ended = row.time
                self._over.put(key, question)

    def _ask(self, key: tuple[str, Client], number: int, row: ReplyRow) -> None:
        question = self._asked[key]
        question.evidence.add(number, row)
        place = row.connection
        question.by_connection[place] = question.by_connection.get(place, 0) + (row.api == "FindCoordinator")
        if len(question.by_connection) > 50:
            question.by_connection.pop(next(iter(question.by_connection)))
        question.told = ", ".join(row.errors) or str(row.details.get("coordinator", ""))

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each coordinator that is missing or was missing."""
        missing = [(*key, question) for key, question in self._asked.items() if question.is_missing]
        for name, asking in _by_name(missing):
            yield self._finding(name, asking, "")
        for name, asking in _by_name([(*key, question) for key, question in self._over.items()]):
            yield self._finding(name, asking, f" It responded at {at(max(each.ended for _, each in asking))}.")

    def _finding(self, name: str, asking: list[tuple[Client, _Question]], back: str) -> Finding:
        client, question = max(asking, key=lambda each: each[1].evidence.span)
        others = f" and {counted(len(asking) - 1, 'other client')}" if asking[1:] else ""
        evidence = question.evidence
        problem = next((words[0] for node, words in self._problems.items() if words and f"node {node} " in question.told), "")
        told = f"brokers answered {question.told}" if question.told else "no broker named one"
        sentence = (
            f"The coordinator of {name} did not respond to {client}{others} for {ms(evidence.span)}: it asked for the "
            f"coordinator {times(evidence.count)} {between(evidence.first_time, evidence.last_time)}, and {told}"
            f"{f'; {problem}' if problem else ''}.{back}"
        )
        kind = name.partition(" ")[0]
        topic = "__consumer_offsets" if kind == "group" else "__transaction_state"
        return Finding(
            "coordinator_unreachable", sentence,
            f"the node that leads a partition of {topic} is dead, cut off or loading; without other replicas none replaces it",
            f"the named node and its log; kafka-topics.sh --describe --topic {topic}: leader and in-sync replicas",
            f"{equal(kind, name.partition(' ')[2])} event=reply", evidence, evidence.span + (0 if back else 10**9),
        )  # fmt: skip


def _by_name(
    questions: Iterable[tuple[str, Client, _Question]],
) -> Iterator[tuple[str, list[tuple[Client, _Question]]]]:
    """The clients that ask for the same coordinator."""
    found: dict[str, list[tuple[Client, _Question]]] = {}
    for name, client, question in questions:
        found.setdefault(name, []).append((client, question))
    yield from found.items()


def _names(row: ReplyRow) -> Iterator[str]:
    yield from (f"group {name}" for name in groups_of(row))
    yield from (f"transaction {name}" for name in transactions_of(row))
