"""Finds slow brokers and networks, clients that retry again and again, and leaders that move back and forth."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from wirebroker.explain.detector import Detector, Known
from wirebroker.explain.findings import Evidence, Finding, Shot
from wirebroker.explain.words import (
    MINUTE,
    SECOND,
    Client,
    at,
    between,
    capital,
    client_of,
    counted,
    equal,
    ms,
    shell,
    times,
    tool,
)  # fmt: skip
from wirebroker.trace.rows import ConnectionRow, LeaderRow, ProduceRow, ReplyRow, RequestRow, Row

SLOW = 2 * SECOND
VERY_SLOW = 4 * SECOND
OFTEN = 3
"""This number of slow responses of a node is a finding. A single very slow response is a finding, too."""
LONG_POLLS = frozenset(("Fetch", "ShareFetch", "JoinGroup", "SyncGroup"))
"""The APIs whose requests may wait for records or for members, so that a late response does not mean a slow broker."""
MAYBE_SILENT = "Produce"
"""The API whose requests may get no response. With acks=0 a Produce gets none, and the rows do not show acks."""


@dataclass
class _Slow:
    evidence: Evidence = field(default_factory=Evidence)
    longest: int = 0
    total: int = 0
    transfer: int = 0
    upstream: int = 0
    apis: set[str] = field(default_factory=set)


class SlowBrokers(Detector):
    """Finds `slow_broker`: nodes whose responses take long. The time for which a request waits because of its own limits or
    because of a quota is not counted."""

    events = ("reply", "request", "connection")

    def __init__(self) -> None:
        self._slow: Known[int, _Slow] = Known(_Slow)
        self._pending: Known[int, OrderedDict[int, tuple[int, RequestRow]]] = Known(OrderedDict)
        """The requests that have no response yet, by connection and correlation id."""
        self._produces: Known[int, list[bool]] = Known(list)
        """The connections on which Produce requests get responses."""

    def begin_run(self) -> None:
        """Forget everything, because in a new run the connections have other numbers."""
        self.__init__()  # type: ignore[misc]

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, RequestRow):
            pending = self._pending[row.connection]
            pending[row.correlation_id] = number, row
            if len(pending) > 100:
                pending.popitem(last=False)
        elif isinstance(row, ConnectionRow):
            if row.change == "closed":
                self._pending.pop(row.connection)
        elif isinstance(row, ReplyRow):
            place = row.connection
            if (waiting := self._pending.get(place)) is not None:
                waiting.pop(row.correlation_id, None)
            if row.api == MAYBE_SILENT:
                self._produces[place][:] = [True]
            self._replied(number, row)

    def _replied(self, number: int, row: ReplyRow) -> None:
        took = row.latency - row.waited
        if took < SLOW:
            return
        slow = self._slow[row.node]
        slow.evidence.add(number, row)
        slow.longest, slow.total = max(slow.longest, took), slow.total + took
        slow.apis.add(row.api)
        slow.transfer += max(row.transfer_us, 0) // 1000
        slow.upstream += max(row.upstream_us // 1000 - row.waited, 0) if row.upstream_us >= 0 else took

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each node that has responded slowly, or that has not responded for a long time."""
        silent = self._silent(now)
        for node, slow in self._slow.items():
            if slow.evidence.count >= OFTEN or slow.longest >= VERY_SLOW:
                yield self._finding(node, slow, silent.pop(node, None))
        for node, waiting in silent.items():
            yield self._finding(node, None, waiting)

    def _silent(self, now: int) -> dict[int, list[tuple[int, RequestRow]]]:
        """Returns, by node, the requests that have been waiting for a response for VERY_SLOW ms or more."""
        found: dict[int, list[tuple[int, RequestRow]]] = {}
        for place, pending in self._pending.items():
            answers = bool(self._produces.get(place))
            for number, row in pending.values():
                counts = row.api not in LONG_POLLS and (row.api != MAYBE_SILENT or answers)
                if counts and now - row.time >= VERY_SLOW:
                    found.setdefault(row.node, []).append((number, row))
        return found

    def _finding(self, node: int, slow: _Slow | None, silent: list[tuple[int, RequestRow]] | None) -> Finding:
        evidence = slow.evidence if slow is not None else Evidence()
        parts = []
        if slow is not None:
            apis = ", ".join(sorted(slow.apis))
            network = slow.transfer > slow.upstream
            what = "sending the response" if network else "the broker until its response began"
            parts.append(
                f"took {ms(SLOW)} or more for {counted(evidence.count, 'response')} {_when(evidence)}, "
                f"at most {ms(slow.longest)} ({apis}); most of it was {what}"
            )
        for number, row in silent or ():
            if slow is None:
                evidence.add(number, row)
        if silent:
            apis = ", ".join(sorted({row.api for _, row in silent}))
            parts.append(f"has not answered {counted(len(silent), 'request')} since {at(silent[0][1].time)} ({apis})")
        named = f"Node {node}" if node >= 0 else "The broker"
        is_network = slow is not None and slow.transfer > slow.upstream
        cause, look_at = (
            ("the network between broker and client is slow, or the broker sends slowly", "bandwidth and retransmissions; "
             "num.network.threads, the size of the responses (fetch.max.bytes)") if is_network else
            ("the broker's disk, its garbage collection or its request queue; with acks=all also its slowest in-sync replica",
             "RequestQueueTimeMs, LocalTimeMs and RemoteTimeMs of the broker; disks; under-replicated partitions")
        )  # fmt: skip
        longest = slow.longest if slow is not None else 0
        return Finding(
            "slow_broker",
            f"{named} {', and '.join(parts)}.",
            cause,
            look_at,
            f"node={node} latency>={SLOW}",
            evidence,
            longest,
            Shot("sequence", "", f"node={node}"),
        )


def _when(evidence: Evidence) -> str:
    return between(evidence.first_time, evidence.last_time)


# Retries

WINDOW = 10 * SECOND
STORM = 20
"""If a client gets the same error this many times within the window, this is a finding."""
PATIENT = {"CONCURRENT_TRANSACTIONS": 300}
"""Errors after which it is normal that clients retry often and quickly, with the number of errors that is a finding."""
QUIET = frozenset(("REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED", "UNSUPPORTED_VERSION", "NONE"))
"""Errors that are a normal part of the protocol, or that belong to findings of other kinds."""
TOO_LARGE = "MESSAGE_TOO_LARGE"
MOST_NAMES, SHOWN = 50, 3
"""The largest number of names in requests that a storm counts, and the largest number that its sentence lists."""
REFRESHES = 60
"""If a client gets this many Metadata responses within the window, this is a finding."""
ADVICE = {
    "NOT_ENOUGH_REPLICAS": ("fewer replicas are in sync than min.insync.replicas", "the other brokers; min.insync.replicas"),
    "UNKNOWN_TOPIC_OR_PARTITION": ("the topic or partition does not exist, or this broker does not know it yet",
     f"the topic's name; auto.create.topics.enable; {tool('kafka-topics', '--describe')}"),
    "NOT_LEADER_OR_FOLLOWER": ("the client asks a broker that no longer leads the partition, and gets no newer metadata",
     "Metadata of the client (--where api=Metadata); the leader of the partition"),
    "LEADER_NOT_AVAILABLE": ("the partition has no leader", tool("kafka-topics", "--describe --unavailable-partitions")),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": ("an earlier batch never arrived or was lost; the client cannot recover",
     "the timeline of the producer: trace show --timeline"),
    "CONCURRENT_TRANSACTIONS": ("the earlier transaction of this id does not end", "the transaction's coordinator, and the "
     "brokers that lead its partitions: the markers do not reach them"),
    "OFFSET_OUT_OF_RANGE": ("the offset was deleted by retention, or never existed", "auto.offset.reset; retention.ms"),
    "MESSAGE_TOO_LARGE": ("the broker refuses the batch because it is larger than the topic takes; another try does not help",
     "{topics}: max.message.bytes (message.max.bytes of the broker if the topic sets none); the application's records and "
     "batch.size"),
}  # fmt: skip


@dataclass
class _Storm:
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=max(STORM, REFRESHES, *PATIENT.values())))
    """the times of the latest errors"""
    evidence: Evidence = field(default_factory=Evidence)
    raged: bool = False
    messages: dict[str, None] = field(default_factory=dict)
    about: Counter[str] = field(default_factory=Counter)
    """how often each name was in the requests"""
    refused: int = 0
    """the size in bytes of the smallest batch that was refused with the error, or 0"""
    stored: int = 0
    """the size in bytes of the largest batch of the client that was stored in the same topic"""
    connection: int = -1
    connections: int = 0
    """how often an error occurred on another connection than the previous error"""

    def add(self, number: int, row: ReplyRow, limit: int) -> None:
        """Add the next response of the same kind."""
        if self.recent and row.time - self.recent[-1] > WINDOW and not self.raged:
            self.evidence = Evidence()
            self.connections = 0
            self.about.clear()
        self.recent.append(row.time)
        self.evidence.add(number, row)
        for name in row.about:
            if name in self.about or len(self.about) < MOST_NAMES:
                self.about[name] += 1
        self.connections += row.connection != self.connection
        self.connection = row.connection
        if len(self.messages) < 3:
            self.messages.update(dict.fromkeys(row.messages))
        if len(self.recent) >= limit and row.time - self.recent[-limit] <= WINDOW:
            self.raged = True


class RetryStorms(Detector):
    """Finds `retry_storm`: a client gets the same error from an API many times within a short time."""

    events = ("reply", "produce", "shadow")

    def __init__(self) -> None:
        self._storms: Known[tuple[Client, str, str], _Storm] = Known(_Storm)
        self._stored: Known[tuple[Client, str], list[int]] = Known(list)
        """For each client and topic, a list with the size in bytes of the largest batch that was stored."""

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        if isinstance(row, ProduceRow):
            self._judged(row)
            return
        assert isinstance(row, ReplyRow)
        for error in row.errors:
            if error not in QUIET and not error.endswith("AUTHORIZATION_FAILED"):
                self._storms[client_of(row), row.api, error].add(number, row, PATIENT.get(error, STORM))
        if row.api == "Metadata" and not row.errors:
            self._storms[client_of(row), row.api, ""].add(number, row, REFRESHES)

    def _judged(self, row: ProduceRow) -> None:
        place = client_of(row), row.topic
        if row.verdict == "accepted":
            self._stored[place][:] = [max([row.bytes, *(self._stored.get(place) or ())])]
        elif row.error == TOO_LARGE:
            storm = self._storms[client_of(row), "Produce", row.error]
            storm.refused = min(storm.refused or row.bytes, row.bytes)
            storm.stored = max([storm.stored, *(self._stored.get(place) or ())])

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each retry storm."""
        for (client, api, error), storm in self._storms.items():
            if not storm.raged:
                continue
            evidence = storm.evidence
            subject = f" for {_shares(storm)}" if storm.about else ""
            said = f" ({'; '.join(storm.messages)})" if storm.messages else ""
            count = f"{times(evidence.count)} {_exactly(evidence)}"
            sentence = f"{capital(str(client))} got {error}{said} from {api}{subject} {count}.{_sizes(storm)}"
            if not error:
                sentence = f"{capital(str(client))} asked for {api} {count}, without an error."
            cause, look_at = ADVICE.get(
                error, ("the client retries before the cause is gone", "the error; retry.backoff.ms of the client")
            )
            topics = sorted({name.rpartition("-")[0] or name for name in storm.about if " " not in name})
            entities = [f"--describe --entity-type topics --entity-name {shell(each)}" for each in topics[:SHOWN]]
            described = "; ".join(tool("kafka-configs", each) for each in entities)
            look_at = look_at.replace("{topics}", described or "the topic")
            if not error:
                cause = "the client looks for a leader or a broker that it cannot reach, and asks for new metadata each time"
                look_at = "the connections of this client that were closed; retry.backoff.ms, metadata.max.age.ms"
            if not error and storm.connections * 2 > evidence.count:
                cause = "the application makes a new client for each record, request or task, and each asks for the metadata"
                look_at = "where the application makes its producers and consumers: one for the whole process is enough"
            yield Finding(
                "retry_storm", sentence, cause, look_at,
                f"api={api} {client.chosen}" + (f" error={error}" if error else ""), evidence, evidence.count,
                Shot("sequence", "", client.chosen),
            )  # fmt: skip


def _exactly(evidence: Evidence) -> str:
    """Returns words for when a storm occurred, and for how long."""
    if not evidence.span:
        return f"at {at(evidence.first_time)}"
    return f"in {ms(evidence.span)}, from {at(evidence.first_time)} to {at(evidence.last_time)}"


def _shares(storm: _Storm) -> str:
    """Returns the names in the requests. If there are several names, the number of requests follows each."""
    found = storm.about.most_common(SHOWN)
    more = f" and {len(storm.about) - SHOWN} more" if len(storm.about) > SHOWN else ""
    if len(found) == 1:
        return found[0][0]
    alike = all(count == storm.evidence.count for _, count in found)
    return ", ".join(name if alike else f"{name} ({count:,})" for name, count in found) + more


def _sizes(storm: _Storm) -> str:
    """Returns a sentence about the smallest batch that was refused because of its size, and the largest one that was stored."""
    if not storm.refused:
        return ""
    stored = f"; the largest that it took from this client on the same topic has {storm.stored:,} B" if storm.stored else ""
    return f" The smallest batch that the broker refused has {storm.refused:,} B{stored}."


# Leaders

MOVES = 3
"""If the leader of a partition moves this many times, this is a finding. A restart of the leader's broker causes only two
moves: away and back."""
MOVED_WITHIN = 5 * MINUTE


@dataclass
class _Moves:
    leaders: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=16))
    """the time and the new leader of each of the latest moves"""
    evidence: Evidence = field(default_factory=Evidence)
    restless: bool = False


class LeaderMoves(Detector):
    """Finds `leader_moves`: partitions whose leader moves back and then away again."""

    events = ("leader",)

    def __init__(self) -> None:
        self._moves: Known[tuple[str, int], _Moves] = Known(_Moves)

    def take(self, number: int, row: Row) -> None:
        """Take a row."""
        assert isinstance(row, LeaderRow)
        if row.leader < 0 or row.leader_epoch == 0:
            return
        moves = self._moves[row.topic, row.partition]
        if moves.leaders and moves.leaders[-1][1] == row.leader:
            return
        moves.leaders.append((row.time, row.leader))
        moves.evidence.add(number, row)
        recent = [leader for time, leader in moves.leaders if row.time - time <= MOVED_WITHIN]
        if len(recent) >= MOVES and len(set(recent)) < len(recent):
            moves.restless = True

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields one finding for all partitions with the same leaders."""
        for (topic, partition), moves in self._moves.items():
            if moves.restless:
                nodes = ", ".join(str(leader) for _, leader in moves.leaders)
                evidence = moves.evidence
                sentence = (
                    f"The leader of {topic}-{partition} moved {times(evidence.count)} "
                    f"{_when(evidence)}: to {nodes}; clients look for it each time."
                )
                yield Finding(
                    "leader_moves", sentence,
                    "a broker restarts again and again or loses its session with the controller, or partitions are reassigned",
                    "the controller's log; broker.session.timeout.ms; auto.leader.rebalance.enable and tools that balance the "
                    "cluster", f"event=leader {equal('topic', topic)} partition={partition}", evidence, evidence.count,
                )  # fmt: skip
