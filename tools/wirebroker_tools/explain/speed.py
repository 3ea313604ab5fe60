"""Finds slow brokers and networks, and leaders that move back and forth."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from msgspec import Struct, field

from wirebroker.audit.findings import plural
from wirebroker.trace.rows import ConnectionRow, LeaderRow, ReplyRow, RequestRow, Row
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.findings import Evidence, Finding, Shot
from wirebroker_tools.explain.words import MINUTE, SECOND, at, between, equal, ms, times

SLOW = 2 * SECOND
VERY_SLOW = 4 * SECOND
OFTEN = 3
"""If a node has sent this many slow responses, this is a finding. A single very slow response is a finding, too."""
LONG_POLLS = frozenset(("Fetch", "ShareFetch", "JoinGroup", "SyncGroup"))
"""The APIs whose requests may wait for records or for members. A late response to such a request does not mean that the broker
is slow."""
MAYBE_SILENT = "Produce"
"""A Produce with acks=0 gets no response. The rows do not show acks, so a Produce without a response may be normal."""


class _Slow(Struct):
    evidence: Evidence = field(default_factory=Evidence)
    longest: int = 0
    total: int = 0
    transfer: int = 0
    upstream: int = 0
    apis: set[str] = set()


class SlowBrokers(Detector):
    """Finds `slow_broker`: nodes whose responses take long. A request may wait because of its own limits or because of a quota.
    This time is not counted.
    """

    events = ("reply", "request", "connection")

    def __init__(self) -> None:
        self._slow: Known[int, _Slow] = Known(_Slow)
        self._pending: Known[int, OrderedDict[int, tuple[int, RequestRow]]] = Known(OrderedDict)
        """The requests that have no response yet, by connection and correlation id."""
        self._produces: Known[int, list[bool]] = Known(list)
        """The connections on which Produce requests get responses."""

    def begin_run(self) -> None:
        """Forget the connections, because in a new run they have other numbers."""
        self._pending, self._produces = Known(OrderedDict), Known(list)

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, RequestRow):
            pending = self._pending[row.connection]
            pending[row.correlation_id] = number, row
            if len(pending) > 100:
                pending.popitem(last=False)
        elif isinstance(row, ConnectionRow):
            if row.change == "closed":
                self._pending.pop(row.connection, None)
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
        """Returns the requests of each node that have been waiting for a response for VERY_SLOW ms or more."""
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
            what = "sending the response" if network else "the time until the broker began its response"
            parts.append(
                f"took {ms(SLOW)} or more for {plural(evidence.count, 'response')} {_when(evidence)}, "
                f"at most {ms(slow.longest)} ({apis}); most of it was {what}"
            )
        for number, row in silent or ():
            if slow is None:
                evidence.add(number, row)
        if silent:
            apis = ", ".join(sorted({row.api for _, row in silent}))
            parts.append(f"has not answered {plural(len(silent), 'request')} since {at(silent[0][1].time)} ({apis})")
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


# Leaders

MOVES = 3
"""If the leader of a partition moves this many times, this is a finding. A restart of the leader's broker causes only two
moves: away and back."""
MOVED_WITHIN = 5 * MINUTE


class _Moves(Struct):
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
        """Yields a finding for each partition whose leader moves back and then away again."""
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
