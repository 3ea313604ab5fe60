"""Finds members that leave and rejoin, consumers that do not commit, and records that stop a consumer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from shlex import quote

from msgspec import Struct, field

from wirebroker.trace.rows import FetchRow, ReplyRow, Row, ShareRow
from wirebroker.trace.selection import groups_of
from wirebroker_tools.explain.detector import Detector, Known
from wirebroker_tools.explain.findings import Evidence, Finding, Shot
from wirebroker_tools.explain.words import (
    MINUTE,
    Client,
    at,
    between,
    capital,
    client_of,
    equal,
    ms,
    number_in,
    times,
    tool,
)

REMOVED = frozenset(("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID"))
HEARTBEATS = frozenset(("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"))
LEAVES = -1
"""A heartbeat with this member epoch means that the member leaves its group. A static member sends −2."""
OF_MEMBERS = frozenset(("JoinGroup", "SyncGroup", "Heartbeat", *HEARTBEATS))
OFTEN = 2
"""A member that rejoins at least this many times is a finding. A single rejoin is normal in a deployment."""
NAMED = 50
NAMES = 6
"""A sentence lists at most this many names."""


class _Member(Struct):
    """A client that leaves a group and joins it again, as the trace shows it."""

    evidence: Evidence = field(default_factory=Evidence)
    left: dict[int, tuple[int, ReplyRow]] = {}
    """the connections on which the client has left the group and not joined it again"""
    removed: dict[str, None] = {}
    """the client's member ids that the group no longer knows, because the members were removed or have left"""
    away: bool = False
    """whether the group has removed the client, and the client has not joined again"""
    by_itself: int = 0
    reasons: dict[str, None] = {}
    session_timeout: int = 0
    poll_interval: int = 0
    assigned: str = ""
    """the partitions that are assigned to the client"""
    gave_up: dict[str, None] = {}
    """the partitions that the client had when it left"""
    others: dict[str, int] = {}
    """for each other client, how often the other client has joined since this client first left"""

    def forget(self, member_id: str) -> None:
        """Remember that the group no longer knows this member id."""
        self.removed[member_id] = None
        if len(self.removed) > NAMED:
            self.removed.pop(next(iter(self.removed)))


class Rejoins(Detector):
    """Finds `rejoins`: a client leaves a group and joins again on the same connection, or the group removes a client and the
    client joins again.
    """

    events = ("reply",)

    def __init__(self) -> None:
        self._members: Known[tuple[str, Client], _Member] = Known(_Member)
        self._restless: Known[str, dict[Client, None]] = Known(dict)
        """For each group, the clients that have left it or were removed from it."""

    def begin_run(self) -> None:
        """Forget the connections, because in a new run they have other numbers."""
        for member in self._members.values():
            member.left.clear()

    def take(self, number: int, row: Row) -> None:
        assert isinstance(row, ReplyRow)
        if row.api not in OF_MEMBERS and row.api not in ("LeaveGroup", "OffsetCommit"):
            return
        for group in groups_of(row):
            member = self._members[group, client_of(row)]
            self._take(member, number, row)
            if row.api == "JoinGroup" and not row.errors:
                self._join(group, client_of(row))
            if member.left or member.evidence.count:
                restless = self._restless[group]
                restless[client_of(row)] = None
                if len(restless) > NAMED:
                    restless.pop(next(iter(restless)))

    def _join(self, group: str, client: Client) -> None:
        """Remember that a client has joined. The other clients that had left the group before may have caused this join, so the
        join is counted for each of them.
        """
        for each in self._restless.get(group) or ():
            if each == client or (restless := self._members.get((group, each))) is None:
                continue
            if client.client_id in restless.others or len(restless.others) < NAMED:
                restless.others[client.client_id] = restless.others.get(client.client_id, 0) + 1

    def _take(self, member: _Member, number: int, row: ReplyRow) -> None:
        place, details = row.connection, row.details
        member.session_timeout = number_in(details, "session_timeout_ms", member.session_timeout)
        member.poll_interval = max(number_in(details, "rebalance_timeout_ms"), 0) or member.poll_interval
        member.assigned = str(details.get("assigned", member.assigned))
        gone = REMOVED & set(row.errors)
        if gone:
            known = str(details.get("member_id", ""))
            if known not in member.removed and row.api != "LeaveGroup":
                member.forget(known)
                member.away = True
                member.evidence.add(number, row)
                member.reasons.update(dict.fromkeys(sorted(gone)))
        elif _leaves(row):
            member.left[place] = number, row
            member.forget(str(details.get("member_id", "")))  # the client's late requests fail because of the same rejoin
            if len(member.gave_up) < NAMED:
                member.gave_up.update(dict.fromkeys(filter(None, member.assigned.split(", "))))
            if len(member.left) > NAMED:
                member.left.pop(next(iter(member.left)))
        elif row.api in OF_MEMBERS and not row.errors:
            member.removed.pop(str(details.get("member_id", "")), None)  # in KIP-848 the client rejoins with the same member id
            if member.away:
                member.evidence.extend(row.time)
                member.away = False
            if place in member.left:
                self._came_back(member, number, row, member.left.pop(place))

    def _came_back(self, member: _Member, number: int, row: ReplyRow, left: tuple[int, ReplyRow]) -> None:
        member.evidence.add(*left)
        member.evidence.extend(row.time)
        member.by_itself += 1
        if reason := str(row.details.get("reason", "") or left[1].details.get("reason", "")):
            member.reasons[reason] = None

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each client that rejoined more than once."""
        for (group, client), member in self._members.items():
            evidence = member.evidence
            if evidence.count < OFTEN:
                continue
            why = f" ({'; '.join(member.reasons)})" if member.reasons else ""
            by_itself = member.by_itself * 2 >= evidence.count
            how = "left the group by itself and joined again" if by_itself else "was removed from the group"
            sentence = (
                f"{capital(str(client))} in group {group} {how} {times(evidence.count)} "
                f"{between(evidence.first_time, evidence.last_time)}{why}; each time all members rebalance{_suffered(member)}."
            )
            poll, began = f" ({ms(member.poll_interval)}, as its JoinGroup says)" if member.poll_interval else "", 0
            if by_itself and member.poll_interval:
                began = evidence.first_time - member.poll_interval
                poll += f" between two polls. If so, the first stall began about {at(began)}"
            session = f" ({ms(member.session_timeout)})" if member.session_timeout else ""
            cause, look_at = (
                (f"its application takes longer than max.poll.interval.ms{poll or ' between two polls'}",
                 "max.poll.records and max.poll.interval.ms, and what the application does with each record")
                if by_itself else
                (f"its heartbeats stop for longer than session.timeout.ms{session}: a pause, a lost network, a killed "
                 "container; or it polled too late", "garbage collection and CPU limits of the client; session.timeout.ms of "
                 "the client, or consumer.session.timeout.ms of the group if the group uses KIP-848")
            )  # fmt: skip
            yield Finding(
                "rejoins", sentence, cause, look_at, f"{equal('group', group)} event=reply {_comings(member, by_itself)}",
                evidence, evidence.count, Shot("groups", group), began,
            )  # fmt: skip


def _comings(member: _Member, by_itself: bool) -> str:
    """Returns the filter for the rows that show how members join, leave or are removed."""
    if any(isinstance(row, ReplyRow) and row.api in HEARTBEATS for _, row in member.evidence.rows):  # KIP-848
        return "api~GroupHeartbeat (member_epoch<=0 or error!=NONE)"
    return f"(api=JoinGroup or api=LeaveGroup{'' if by_itself else ' or error!=NONE'})"


def _suffered(member: _Member) -> str:
    """Returns the part of a sentence that describes the effect on the other members."""
    moved = f", and {', '.join(list(member.gave_up)[:NAMES])}{' …' * (len(member.gave_up) > NAMES)} get other owners"
    others = sum(member.others.values())
    joined = f": {', '.join(sorted(filter(None, member.others))[:NAMES]) or 'others'} had to join again {times(others)} in all"
    return joined * bool(others) + moved * bool(member.gave_up)


def _leaves(row: ReplyRow) -> bool:
    if row.errors:
        return False
    return row.api == "LeaveGroup" or (row.api in HEARTBEATS and number_in(row.details, "member_epoch") <= LEAVES)


# Commits

LATE = 65_000
"""If a member reads for this many ms without a commit, this is a finding. Kafka Connect commits every 60 s; other clients
commit more often.
"""


class _Reader(Struct):
    """A client that reads as a member of a group."""

    group: str = ""
    since: int = 0
    """the time of the first fetch with records after the group's latest commit, or 0 if there was no such fetch"""
    ended: int = 0
    refused: dict[str, int] = {}
    """for each error, the number of commits after `since` that failed with this error"""
    evidence: Evidence = field(default_factory=Evidence)


class MissingCommits(Detector):
    """Finds `not_committing`: members of a group read records, but the group commits no offsets."""

    events = ("reply", "fetch", "connection")

    def __init__(self) -> None:
        self._readers: Known[Client, _Reader] = Known(_Reader)
        self._committed: Known[str, list[int]] = Known(list)
        """For each group, a list with the time of its latest commit."""

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, FetchRow):
            reader = self._readers.get(client_of(row))
            if reader is not None and row.bytes > 0 and not row.code:
                reader.since = reader.since or row.time
                reader.ended = 0
                reader.evidence.add(number, row)
        elif isinstance(row, ReplyRow):
            for group in groups_of(row):
                self._replied(group, row)

    def _replied(self, group: str, row: ReplyRow) -> None:
        commits = row.api in ("OffsetCommit", "TxnOffsetCommit")
        if commits and not row.errors:
            for reader in self._readers.values():
                if reader.group == group:
                    reader.since, reader.evidence = 0, Evidence()
                    reader.refused.clear()
        elif row.api in OF_MEMBERS and not row.errors and not _leaves(row) and "Share" not in row.api:
            reader = self._readers[client_of(row)]
            if reader.group != group:
                self._readers.put(client_of(row), _Reader(group))
        elif (known := self._readers.get(client_of(row))) is not None and known.group == group:
            if commits:
                for error in row.errors:
                    known.refused[error] = known.refused.get(error, 0) + 1
            elif _leaves(row):
                known.ended = row.time

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each member that has read records for a long time without a commit."""
        for client, reader in self._readers.items():
            length = (reader.ended or now) - reader.since
            if not reader.since or length < LATE:
                continue
            errors = ", ".join(f"{error} {times(count)}" for error, count in reader.refused.items())
            tried = f"; its commits were refused: {errors}" if errors else ""
            sentence = (
                f"{capital(str(client))} has read as a member of group {reader.group} since {at(reader.since)}, for "
                f"{ms(length)} and {reader.evidence.count:,} fetches with records, and the group has committed nothing "
                f"since{tried}."
            )
            yield Finding(
                "not_committing", sentence,
                "enable.auto.commit is false and the application does not commit; after a restart these records are read again",
                "enable.auto.commit; commitSync() or commitAsync() in the application, unless it keeps its offsets elsewhere",
                f"api=OffsetCommit or ({equal('client', client.client_id)} event=fetch bytes>0)", reader.evidence, length,
            )  # fmt: skip


# Records that stop a consumer

RETURNS = 3
"""If a consumer reads from the same offset more often than this, this is a finding."""
WITHIN = 10 * MINUTE
OFFSETS = 8
"""For each partition, the detector follows at most this many offsets."""
QUICKLY = 100
"""If a consumer fails at most this many ms after a fetch, it has probably processed only the first record."""
DELIVERIES = 3
"""If a record is delivered this many times to a share group, this is a finding."""


class _Return(Struct):
    evidence: Evidence = field(default_factory=Evidence)
    farthest: int = 0
    end: int = -1
    """the high watermark at the latest fetch"""
    left_before: int = 0
    """the time at which the client left its group, shortly before its first fetch from this offset; 0 if the client did not
    leave
    """
    after: list[int] = []
    """for each fetch, the ms until the client left its group"""


class _Position(Struct):
    """The offset from which a client reads a partition, and the offsets to which it has returned."""

    offset: int = -1
    returns: OrderedDict[int, _Return] = field(default_factory=OrderedDict)
    """by offset"""


class PoisonRecords(Detector):
    """Finds `poison_record`: a member reads from the same offset again and again, or a share group gets a record again and
    again.
    """

    events = ("fetch", "reply", "share")

    def __init__(self) -> None:
        self._groups: Known[Client, dict[str, None]] = Known(dict)
        """For each client, its groups. If a client has several groups, several consumers have the same client id."""
        self._positions: Known[tuple[Client, str, int], _Position] = Known(_Position)
        self._shared: Known[tuple[str, str, int, int], Evidence] = Known(Evidence)
        self._left: Known[Client, list[int]] = Known(list)
        """For each client, a list with the time at which it last left its group."""
        self._latest: Known[Client, dict[tuple[str, int, int], tuple[int, _Return]]] = Known(dict)
        """For each client, the offsets from which it has fetched since it last left its group, with the time of the latest
        fetch from each offset.
        """
        self._committed: Known[tuple[str, str], tuple[int, int]] = Known(lambda: (-1, 0))
        """For each group and partition, the committed offset and the time since which this offset is unchanged."""

    def take(self, number: int, row: Row) -> None:
        if isinstance(row, ReplyRow):
            if row.api in OF_MEMBERS and not row.errors:
                groups = self._groups[client_of(row)]
                if len(groups) < 2:
                    groups.update(dict.fromkeys(groups_of(row)))
            if _leaves(row):
                self._leaves(row)
            elif row.api == "OffsetCommit" and not row.errors:
                self._commits(row)
        elif isinstance(row, ShareRow):
            if row.change in ("released", "lock_expired"):
                self._shared[row.group, row.topic, row.partition, row.first].add(number, row)
        elif isinstance(row, FetchRow) and (row.bytes > 0 or row.error == "CORRUPT_MESSAGE") and self._is_member(row):
            self._fetched(number, row)

    def _leaves(self, row: ReplyRow) -> None:
        asked = row.time - row.latency
        self._left[client_of(row)][:] = [asked]
        for time, seen in self._latest.pop(client_of(row), {}).values():
            if len(seen.after) < NAMED:
                seen.after.append(max(asked - time, 0))

    def _commits(self, row: ReplyRow) -> None:
        for group in groups_of(row):
            for each in str(row.details.get("offsets", "")).split(", "):
                place, _, offset = each.rpartition(":")
                if offset.isdigit() and self._committed[group, place][0] != int(offset):
                    self._committed.put((group, place), (int(offset), row.time))

    def _is_member(self, row: FetchRow) -> bool:
        return row.offset >= 0 and len(self._groups.get(client_of(row)) or ()) == 1

    def _fetched(self, number: int, row: FetchRow) -> None:
        position = self._positions[client_of(row), row.topic, row.partition]
        if position.offset < 0 or row.offset > position.offset:
            self._note(position, number, row) if row.offset not in position.returns else None
        else:
            self._note(position, number, row)
        for seen in position.returns.values():
            seen.farthest = max(seen.farthest, row.offset)
        position.offset = row.offset

    def _note(self, position: _Position, number: int, row: FetchRow) -> None:
        seen = position.returns.get(row.offset)
        if seen is None or row.time - seen.evidence.last_time > WITHIN:
            seen = position.returns[row.offset] = _Return()
            left = self._left.get(client_of(row)) or [0]
            seen.left_before = left[0] if row.time - left[0] <= MINUTE else 0
        seen.end = row.high_watermark
        latest = self._latest[client_of(row)]
        if len(latest) < NAMED:
            latest[row.topic, row.partition, row.offset] = row.time, seen
        position.returns.move_to_end(row.offset)
        seen.evidence.add(number, row)
        if len(position.returns) > OFFSETS:
            position.returns.popitem(last=False)

    def findings(self, now: int) -> Iterator[Finding]:
        """Yields a finding for each offset from which a consumer reads again and again, and for each record that a share group
        gets again and again."""
        for (client, topic, partition), position in self._positions.items():
            for offset, seen in position.returns.items():
                if seen.evidence.count > RETURNS:
                    yield self._finding(client, topic, partition, offset, seen)
        for (group, topic, partition, first), evidence in self._shared.items():
            row = evidence.rows[-1].row
            if isinstance(row, ShareRow) and row.delivery_count >= DELIVERIES:
                sentence = (
                    f"Record {first} of {topic}-{partition} was delivered {times(row.delivery_count)} to share group {group} "
                    f"{between(evidence.first_time, evidence.last_time)}, and nobody accepted it; it is {row.state} now."
                )
                yield Finding(
                    "poison_record", sentence, "the application fails on this record",
                    "the application's log, and the record's bytes; share.record.lock.duration.ms",
                    f"event=share {equal('topic', topic)} partition={partition}", evidence, evidence.count,
                )  # fmt: skip

    def _finding(self, client: Client, topic: str, partition: int, offset: int, seen: _Return) -> Finding:
        (group,) = self._groups[client]
        evidence, name = seen.evidence, f"{topic}-{partition}"
        on = f", and reads on to {seen.farthest} in between" if seen.farthest > offset else ""
        first = f" It had left its group before, at {at(seen.left_before)}." if seen.left_before else ""
        committed, since = self._committed.get((group, name)) or (-1, 0)
        stays = f" The group's committed offset has been {committed} since {at(since)}" if committed == offset else ""
        begin = f"{stays}, and" if stays else ""
        lag = f"{begin} {seen.end - offset:,} records wait up to the end of the log ({seen.end})."
        sentence = (
            f"{capital(str(client))} of group {group} reads {name} from offset {offset} again and again, "
            f"{times(evidence.count)} {between(evidence.first_time, evidence.last_time)}{on}: a record there stops it.{first}"
            f"{lag if seen.end > offset else f'{stays}.' * bool(stays)}"
        )
        return Finding(
            "poison_record", sentence, _which(offset, seen),
            f"the application's log for {topic}-{partition}@{offset} (a deserializer, a constraint); skip it with "
            + tool("kafka-consumer-groups", f"--reset-offsets --group {quote(group)} --topic {quote(topic)}:{partition} "
                   f"--to-offset {offset + 1} --execute"),
            f"{client.chosen} ((event=fetch {equal('topic', topic)} partition={partition}) or (api=LeaveGroup event=reply))",
            evidence, evidence.count, Shot("log", name), seen.left_before,
        )  # fmt: skip


def _which(offset: int, seen: _Return) -> str:
    """Returns a sentence about the record on which the application fails. The sentence is cautious, because a trace does not
    show which record a consumer processes."""
    quickly = max(seen.after, default=QUICKLY + 1)
    if len(seen.after) >= RETURNS and quickly <= QUICKLY and seen.farthest <= offset:
        return (
            f"the application fails on the record at {offset}: each time it left its group {ms(quickly)} or less after the "
            "fetch. It may also be a record soon after this record"
        )
    return f"the application fails on the record at {offset} or a later record of the same fetch; the trace cannot tell which"
