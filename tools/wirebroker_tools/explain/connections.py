"""Finds brokers that cannot be reached or that reset connections, and coordinators that do not respond."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from wirebroker.audit.findings import plural
from wirebroker.trace.rows import BrokerRow, ConnectionRow, ReplyRow, Row
from wirebroker.trace.selection import groups_of, transactions_of
from wirebroker_tools.explain.access import is_about_tls
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.error_codes import ENDLESS, LASTS, NO_COORDINATOR, OF_COORDINATORS
from wirebroker_tools.explain.findings import Evidence, Finding, Shot
from wirebroker_tools.explain.words import SECOND, Client, at, between, client_of, equal, ms, times, tool

UNREACHABLE = "cannot be reached"
BROKE = ("the connection to the broker broke", "in the middle of a response", "reset by the broker", "was killed")
CLOSED = "the broker closed it"
EXPLAINED = ("instead of answering", "the client is not authenticated")
"""If one of these texts occurs in the reason why a connection was closed, this detector ignores the connection: another
detector reports it, or the reason already names the cause.
"""
NODE = re.compile(r"node (\d+) at ")
NAMED = 20
"""For each node and for each search for a coordinator, at most this many reasons, errors and closed connections are remembered.
"""
SHOWN = 5
"""A sentence names at most this many clients."""
SIGN = 5 * SECOND
"""If a broker closes connections, and another connection is lost at most this many ms later, the closed connections count as a
first sign of the loss.
"""
ASKED = 3
"""After this number of FindCoordinator requests on one connection, the coordinator is considered missing."""
ASKED_IN_ALL = 10
FOR = 3 * SECOND
"""A coordinator is reported only if it is missing for at least this many ms. A cluster that has just started has no coordinator
for a second or two."""


def is_lost(row: ConnectionRow) -> bool:
    """Tells whether the connection was lost: the broker closed it while requests were unanswered, the broker refused it, or the
    broker could not be reached.
    """
    if row.change != "closed" or is_about_tls(row) or any(part in row.reason for part in EXPLAINED):
        return False
    if UNREACHABLE in row.reason or any(part in row.reason for part in BROKE):
        return True
    return row.reason.startswith(CLOSED) and bool(row.unanswered)


class Outage(Struct):
    """The connections to one node that were lost."""

    evidence: Evidence = field(default_factory=Evidence)
    reasons: dict[str, int] = {}
    """the number of times that each reason occurred"""
    unanswered: dict[str, None] = {}
    closes: deque[tuple[int, ConnectionRow]] = field(default_factory=lambda: deque(maxlen=NAMED))
    """the latest connections that the broker closed while no request was unanswered; such a close is normal, unless a loss
    follows"""

    def add(self, number: int, row: ConnectionRow) -> None:
        """Take a row about a connection. Only a row about the end of the connection counts."""
        if not is_lost(row):
            if row.change == "closed" and row.reason.startswith(CLOSED):
                self.closes.append((number, row))
            return
        for each in self.closes:
            if row.time - each[1].time <= SIGN:
                self._count(*each)
        self.closes.clear()
        self._count(number, row)

    def _count(self, number: int, row: ConnectionRow) -> None:
        self.evidence.add(number, row)
        self.unanswered.update(dict.fromkeys(row.unanswered))
        if row.reason in self.reasons or len(self.reasons) < NAMED:
            self.reasons[row.reason] = self.reasons.get(row.reason, 0) + 1

    @property
    def told(self) -> str:
        """The reasons, in the order in which they first occurred."""
        if len(self.reasons) == 1:
            return next(iter(self.reasons))
        return "; ".join(f"{reason} ({times(count)})" for reason, count in self.reasons.items())


class LostConnections(Detector):
    """Finds `connection_lost`: the connections to a node that were lost, and brokers that were killed."""

    events = ("connection", "reply", "broker")

    def __init__(self) -> None:
        self._lost: Known[int, Outage] = Known(Outage)
        self._answered: Known[int, list[int]] = Known(list)
        """For each node, a list with the time of its latest response."""
        self._killed: Known[int, Evidence] = Known(Evidence)

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, ReplyRow):
            self._answered[row.node][:] = [row.time]
        elif isinstance(row, BrokerRow):
            if row.change == "killed":
                self._killed[row.node].add(number, row)
        elif isinstance(row, ConnectionRow):
            self._lost[row.node].add(number, row)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each node to which connections were lost, and for each broker that was killed."""
        for node, lost in self._lost.items():
            evidence = lost.evidence
            if not evidence.count:
                continue
            named = f"node {node}" if node >= 0 else "a broker"
            unanswered = f"; unanswered: {', '.join(filter(None, lost.unanswered))}" if lost.unanswered else ""
            after = self._answered.get(node)
            back = f" It responds again, most recently at {at(after[0])}." if after and after[0] > evidence.last_time else ""
            sentence = (
                f"Clients lost their connections to {named} {times(evidence.count)} "
                f"{between(evidence.first_time, evidence.last_time)}: {lost.told}{unanswered}.{back}"
            )
            cause, look_at = _advice(next((each for each in lost.reasons if UNREACHABLE in each), next(iter(lost.reasons))))
            yield Finding(
                "connection_lost", sentence, cause, look_at, f"change=closed node={node}", evidence,
                evidence.count if back else evidence.count + 1_000_000, Shot("sequence", "", f"node={node}"),
            )  # fmt: skip
        for node, evidence in self._killed.items():
            sentence = f"Broker {node} was killed {times(evidence.count)} {between(evidence.first_time, evidence.last_time)}."
            yield Finding(
                "connection_lost", sentence, "the broker's process has ended without a clean shutdown", "the broker's log",
                f"event=broker node={node}", evidence, evidence.count, Shot("sequence", "", f"node={node}"),
            )  # fmt: skip


def _advice(reason: str) -> tuple[str, str]:
    if UNREACHABLE in reason and ("not known" in reason or "resolv" in reason or "no address" in reason.lower()):
        return (
            "this machine cannot resolve the address that the broker advertises",
            "advertised.listeners of the broker, and the DNS",
        )
    if UNREACHABLE in reason:
        return "the broker is down, or a firewall or a wrong address is in the way", (
            "the broker's process and its log; advertised.listeners of the broker"
        )
    return (
        "the broker has stopped or crashed, a request was too large for the broker, or something in between cut the connection",
        ("the broker's log at that time; socket.request.max.bytes; timeouts of load balancers and NAT"),
    )


class _Question(Struct):
    """A client's FindCoordinator requests for one coordinator since the coordinator last responded."""

    evidence: Evidence = field(default_factory=Evidence)
    by_connection: dict[int, int] = {}
    errors: dict[str, int] = {}
    """the errors in the responses, and how often each occurred"""
    named: dict[str, int] = {}
    """the coordinators that brokers named, and how often they named each coordinator"""
    ended: int = 0
    """the time at which the coordinator responded; 0 if it has not responded yet"""

    @property
    def is_missing(self) -> bool:
        """Tells whether the coordinator is considered missing: the client sent many requests for it, over a long enough
        time."""
        often = max(self.by_connection.values(), default=0) >= ASKED or self.evidence.count >= ASKED_IN_ALL
        rarely = self.evidence.count >= ENDLESS and self.evidence.span >= LASTS
        return (often and self.evidence.span >= FOR) or rarely


class MissingCoordinators(Detector):
    """Finds `coordinator_unreachable`: clients look for a coordinator repeatedly, and the coordinator does not respond."""

    events = ("reply", "connection")

    def __init__(self) -> None:
        self._asked: Known[tuple[str, Client], _Question] = Known(_Question)
        self._over: Known[tuple[str, Client], _Question] = Known(_Question)
        """The questions about coordinators that were missing but have responded by now."""
        self._outages: Known[int, Outage] = Known(Outage)
        """The connections to each node that were lost."""

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, ConnectionRow):
            self._outages[row.node].add(number, row)
            return
        assert isinstance(row, ReplyRow)
        if row.api != "FindCoordinator" and row.api not in OF_COORDINATORS:
            return
        if row.api == "FindCoordinator" and row.errors and not NO_COORDINATOR & set(row.errors):
            return  # refused: the response says nothing about the coordinator
        for name in _names(row):
            key = name, client_of(row)
            if row.api == "FindCoordinator" or NO_COORDINATOR & set(row.errors):
                self._ask(key, number, row)
            elif (question := self._asked.pop(key, None)) is not None and question.is_missing:
                question.ended = row.time
                self._over.put(key, question)

    def _ask(self, key: tuple[str, Client], number: int, row: ReplyRow) -> None:
        question = self._asked[key]
        question.evidence.add(number, row)
        place = row.connection
        question.by_connection[place] = question.by_connection.get(place, 0) + (row.api == "FindCoordinator")
        if len(question.by_connection) > 50:
            question.by_connection.pop(next(iter(question.by_connection)))
        if row.errors:
            told, words = question.errors, list(row.errors)
        else:
            told, words = question.named, list(_coordinators(key[0], row))
        for each in words:
            if each in told or len(told) < NAMED:
                told[each] = told.get(each, 0) + 1

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for each coordinator that is or was missing, with all clients that asked for it."""
        found: dict[str, dict[Client, _Question]] = {}
        for (name, client), question in self._over.items():
            found.setdefault(name, {})[client] = question
        for (name, client), question in self._asked.items():
            if question.is_missing:
                found.setdefault(name, {})[client] = question
        for name, questions in found.items():
            yield self._finding(name, questions)

    def _finding(self, name: str, questions: dict[Client, _Question]) -> Finding:
        asked = list(questions.values())
        evidence = Evidence.merged(each.evidence for each in asked)
        clients = ", ".join(map(str, list(questions)[:SHOWN])) + f" and {len(asked) - SHOWN} more" * (len(asked) > SHOWN)
        named, errors = (_counts(each.named for each in asked), _counts(each.errors for each in asked))
        told = " and ".join(filter(None, (_said("named", named), _said("answered", errors))))
        told = f"brokers {told}" if told else "no broker named a coordinator"
        nodes = [int(match[1]) for each in named if (match := NODE.match(each))]
        lost = {node: outage for node in nodes if (outage := self._outages.get(node)) is not None and outage.evidence.count}
        down = "".join(
            f" Clients lost {plural(outage.evidence.count, 'connection')} to node {node} from "
            f"{at(outage.evidence.first_time)} on: {outage.told}."
            for node, outage in lost.items()
        )
        back = "" if any(not each.ended for each in asked) else f" It responded at {at(max(each.ended for each in asked))}."
        sentence = (
            f"The coordinator of {name} did not respond to {clients} for {ms(evidence.span)}: they asked for the coordinator "
            f"{times(evidence.count)} {between(evidence.first_time, evidence.last_time)}; {told}.{down}{back}"
        )
        if len(asked) == 1:
            sentence = sentence.replace(": they asked", ": it asked", 1)
        kind = name.partition(" ")[0]
        topic = "__consumer_offsets" if kind == "group" else "__transaction_state"
        cause = f"the node that leads a partition of {topic} is dead, cut off or loading, and no other replica replaces it"
        look_at = f"{tool('kafka-topics', f'--describe --topic {topic}')}: leader and in-sync replicas"
        if lost:
            node, outage = next(iter(lost.items()))
            cause = (
                f"node {node}, which was the coordinator, {'was' if back else 'is'} dead or cut off "
                f"{'from' if back else 'since'} {at(outage.evidence.first_time)}"
                f"{' on' * bool(back)}"
                f"{f', and no other node has taken over its partition of {topic}' * (not back and lost.keys() == set(nodes))}"
            )
            look_at = f"node {node}: its process and its log at that time; {look_at}"
        choice = equal(kind, name.partition(" ")[2])
        began = min((each.evidence.first_time for each in lost.values()), default=0)
        return Finding(
            "coordinator_unreachable", sentence, cause, look_at, _rows_of(choice, lost), evidence,
            evidence.span + (0 if back else 10**9), Shot("sequence", "", _rows_of(choice, lost)), began,
        )  # fmt: skip


def _rows_of(choice: str, lost: dict[int, Outage]) -> str:
    """Returns a filter that selects the responses about a group or a transactional id, and the lost connections to its
    coordinators."""
    closed = "".join(f" or (change=closed node={node})" for node in lost)
    return f"({choice} event=reply){closed}" if closed else f"{choice} event=reply"


def _counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in parts:
        for name, count in each.items():
            found[name] = found.get(name, 0) + count
    return found


def _said(word: str, counts: dict[str, int]) -> str:
    said = ", ".join(f"{name} {times(count)}" for name, count in counts.items())
    return f"{word} {said}" if said else ""


def _coordinators(name: str, row: ReplyRow) -> Iterator[str]:
    """Yields the coordinators that a FindCoordinator response names for this group or transactional id."""
    told = str(row.details.get("coordinator", "")).split("; ")
    key = f"{name.partition(' ')[2]}: "
    for each in told:
        if each.startswith(key) or (each and len(told) == 1):
            yield each.removeprefix(key)


def _names(row: ReplyRow) -> Iterator[str]:
    yield from (f"group {name}" for name in groups_of(row))
    yield from (f"transaction {name}" for name in transactions_of(row))
