"""A classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (GroupMetadataManager, ClassicGroup).

A group is in one of four states. It is Empty; it prepares a rebalance until each member has sent JoinGroup; it completes the
rebalance until the leader has sent the assignment with SyncGroup; or it is Stable. If a group may have changed only because
time has passed (for example, a session may be over), the model does not judge the group any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafka_model.history import Exchange
from kafka_model.reading import code_of

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING, FENCED_INSTANCE, INCONSISTENT = 25, 22, 27, 82, 23
INVALID_GROUP, INVALID_SESSION, NEEDS_ID = 24, 26, 79
SHORTEST_SESSION, LONGEST_SESSION = 6_000, 1_800_000
RULED = frozenset(
    {UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING, FENCED_INSTANCE, INCONSISTENT, INVALID_GROUP, INVALID_SESSION, NEEDS_ID}
)
"""Error codes that these rules judge."""


class Wrong(Exception):
    """Raised for a response that the rules do not allow. It has the exchange and the allowed responses."""

    def __init__(self, exchange: Exchange, allowed: str) -> None:
        super().__init__(allowed)
        self.exchange, self.allowed = exchange, allowed


@dataclass(eq=False)
class Member:
    member_id: str
    instance: str | None
    protocols: list[tuple[str, object]]
    session_ms: int
    rebalance_ms: int
    heard: int
    joins: Exchange | None = None
    syncs: Exchange | None = None
    assignment: object = b""

    @property
    def is_nameless(self) -> bool:
        """Tells whether the member's client left before it got the response with its member id. Then nobody but the coordinator
        knows the id."""
        return self.joins is not None and self.joins.response is None and not self.joins.request.get("member_id")


@dataclass(eq=False)
class Group:
    state: str = EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    """The member ids that the coordinator has given out. For each id: the time until which the member must join with this
    id.
    """
    unsynced: set[str] = field(default_factory=set)
    is_known: bool = True
    now: int = 0
    since: int = 0
    """The time at which the group entered its state."""
    checks_ms: int = 1
    """See `Groups.checks_ms`."""

    def holder(self, instance: str | None) -> Member | None:
        return next((each for each in self.members.values() if instance is not None and each.instance == instance), None)

    def member_error(self, member_id: str, instance: str | None) -> int:
        if instance is not None:
            holder = self.holder(instance)
            if holder is None:
                return UNKNOWN_MEMBER
            if holder.member_id != member_id:
                return FENCED_INSTANCE
        return 0 if member_id in self.members else UNKNOWN_MEMBER

    def common(self) -> set[str]:
        held = [{name for name, _ in each.protocols} for each in self.members.values()]
        return set.intersection(*held) if held else set()

    # Rebalancing

    def _enter(self, state: str) -> str:
        """Enters a state, and returns the previous state."""
        before, self.state, self.since = self.state, state, self.now
        return before

    def rebalance(self) -> None:
        if self.state == PREPARING:
            self.complete_if_all_joined()
            return
        if self.state == COMPLETING:
            for each in self.members.values():
                self._answer_sync(each, REBALANCING)
        was = self._enter(PREPARING)
        if was == EMPTY:
            self.complete()  # without a delay
        else:
            self.complete_if_all_joined()

    def complete_if_all_joined(self) -> None:
        if self.state == PREPARING and not self.pending and all(each.joins is not None for each in self.members.values()):
            self.complete()

    def complete(self) -> None:
        """Begins the next generation with the members that have sent JoinGroup. The other members leave, unless they are
        static.
        """
        gone = [each for each in self.members.values() if each.joins is None and each.instance is None]
        for each in gone:
            self.dismiss(each)
        if self.members and all(each.joins is None for each in self.members.values()):
            self.is_known = False  # the rebalance waits for the first static member
            return
        if any(each.is_nameless for each in self.members.values()):
            self.is_known = False
            return
        self.generation += 1
        if not self.members:
            self._enter(EMPTY)
            self.protocol = self.leader = None
            return
        joined = [each.joins for each in self.members.values() if each.joins is not None]
        told = next((each.response for each in joined if each.response is not None and not code_of(each.response)), None)
        self.leader = (told or {}).get("leader", self.leader)
        self.protocol = (told or {}).get("protocol_name", self.protocol)
        if told is not None and (self.leader not in self.members or self.protocol not in self.common()):
            raise Wrong(next(each for each in joined if each.response is told), "a leader and a protocol of the joined members")
        self._enter(COMPLETING)
        self.unsynced = set(self.members)
        for each in self.members.values():
            answered, each.joins = each.joins, None
            if answered is not None:
                self.check_joined(each, answered)

    def check_joined(self, member: Member, exchange: Exchange) -> None:
        """Checks the response to JoinGroup, which has the generation for the member."""
        response = exchange.response
        if response is None:
            return
        told = (code_of(response), response.get("generation_id", -1), response.get("leader"), response.get("member_id"))
        if told != (0, self.generation, self.leader, member.member_id):
            raise Wrong(exchange, f"{member.member_id} must get generation {self.generation} and the leader {self.leader}")
        shown = {each.get("member_id") for each in response.get("members", ())}
        if shown != (set(self.members) if member.member_id == self.leader and not response.get("skip_assignment") else set()):
            raise Wrong(exchange, f"the leader alone gets the members, which are {sorted(self.members)}")

    def _answer_sync(self, member: Member, code: int = 0) -> None:
        exchange, member.syncs = member.syncs, None
        if exchange is None or exchange.response is None:
            return
        if code_of(exchange.response) != code:
            raise Wrong(exchange, f"code {code}")
        if not code and (exchange.response.get("assignment") or b"") != (member.assignment or b""):
            raise Wrong(exchange, f"the assignment {member.assignment!r}")

    def synced(self, member: Member, exchange: Exchange) -> None:
        if self.state == STABLE:
            member.syncs = exchange
            self._answer_sync(member)
            return
        member.syncs = exchange
        self.unsynced.discard(member.member_id)
        if member.member_id == self.leader:
            given = {e.get("member_id"): e.get("assignment") for e in exchange.request.get("assignments", ())}
            self._enter(STABLE)
            for each in self.members.values():
                each.assignment = given.get(each.member_id)
            for each in self.members.values():
                self._answer_sync(each)

    def dismiss(self, member: Member) -> None:
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def waiting(self) -> Iterator[Exchange]:
        for each in self.members.values():
            yield from (exchange for exchange in (each.joins, each.syncs) if exchange is not None)

    def may_have_changed(self, now: int) -> bool:
        """Returns whether a session or a phase of a rebalance may be over, or whether the group may have been deleted. The
        timer of a phase of 0 ms can fire before or after a request that arrives at the same time."""
        if self.state == EMPTY and (self.generation or self.pending) and self.now // self.checks_ms != now // self.checks_ms:
            return True  # a group whose members have not joined yet is Empty, too
        phase = max((each.rebalance_ms for each in self.members.values()), default=0)
        late = self.state in (PREPARING, COMPLETING) and now - self.since >= phase
        return late or any(now >= when for when in self.pending.values()) or any(
            now - each.heard >= each.session_ms for each in self.members.values()
        )  # fmt: skip


class Groups:
    """The classic groups of a cluster. group.initial.rebalance.delay.ms is 0, so a group's first member waits for nobody."""

    def __init__(self, checks_ms: int) -> None:
        self.checks_ms = checks_ms
        """At each multiple of this time, the brokers delete the groups that are Empty and have no offsets
        (offsets.retention.check.interval.ms)."""
        self.held: dict[str, Group] = {}
        self.strangers: set[str] = set()
        """The groups that are, or were, of another type."""

    def forget(self) -> None:
        for group in self.held.values():
            group.is_known = False

    def see(self, exchange: Exchange, following: Exchange | None) -> None:
        """Applies a request to its group, and checks the responses that came before the next request. Raises Wrong."""
        handle = {
            "JoinGroup": self._join, "SyncGroup": self._sync, "Heartbeat": self._heartbeat, "LeaveGroup": self._leave,
            "DescribeGroups": self._describe, "DeleteGroups": self._delete,
        }.get(exchange.api)  # fmt: skip
        if exchange.api.endswith(("GroupHeartbeat", "ShareGroupOffsets")):
            self.strangers.add(exchange.request.get("group_id", ""))
        elif handle is not None and self._is_ruled(exchange):
            handle(exchange)
        for group_id, group in self.held.items():
            late = following is None or group.may_have_changed(following.now)
            for each in group.waiting() if group.is_known and not late and group_id not in self.strangers else ():
                if following is not None and 0 <= each.answered < following.asked:
                    raise Wrong(each, "no response before the other members have sent their requests")

    def _is_ruled(self, exchange: Exchange) -> bool:
        """Returns whether these rules judge the response. After an error that the rules do not judge, for example an error of
        the disk, the group's state is unknown."""
        code = code_of(exchange.response)
        ruled = code is None or not code or code in RULED
        group = self.held.get(exchange.request.get("group_id", ""))
        if group is not None and not ruled:
            group.is_known = False
        return ruled

    def _of(self, exchange: Exchange) -> Group | None:
        """Returns the group of a request, or None if its state is unknown."""
        group_id = exchange.request.get("group_id", "")
        group = self.held.setdefault(group_id, Group(checks_ms=self.checks_ms))
        if group.is_known and group.may_have_changed(exchange.now):
            group.is_known = False
        group.now = exchange.now
        return group if group.is_known and group_id not in self.strangers else None

    @staticmethod
    def _answers(exchange: Exchange, *codes: int) -> None:
        code = code_of(exchange.response)
        if code is not None and (code in RULED or not code) and code not in codes:
            raise Wrong(exchange, " or ".join(f"code {each}" for each in codes))

    def _join(self, exchange: Exchange) -> None:
        asked, response = exchange.request, exchange.response
        code, group = code_of(response), self._of(exchange)
        session = asked.get("session_timeout_ms", 0)
        if not asked.get("group_id"):
            self._answers(exchange, INVALID_GROUP)
        elif not SHORTEST_SESSION <= session <= LONGEST_SESSION:
            self._answers(exchange, INVALID_SESSION)
        elif group is None or (code is not None and code not in RULED | {0}):
            return
        else:
            self._join_group(group, exchange, session)

    def _join_group(self, group: Group, exchange: Exchange, session: int) -> None:
        asked, response = exchange.request, exchange.response or {}
        member_id, instance = asked.get("member_id", ""), asked.get("group_instance_id")
        protocols = [(each.get("name", ""), each.get("metadata")) for each in asked.get("protocols", ())]
        kind, timeouts = asked.get("protocol_type", ""), (session, asked.get("rebalance_timeout_ms", session))
        shared = group.common() & {name for name, _ in protocols} if group.members else protocols
        fits = bool(kind and protocols) if group.state == EMPTY else group.protocol_type == kind and bool(shared)
        if member_id and not group.members and not group.pending and group.generation == 0:
            self._answers(exchange, UNKNOWN_MEMBER, INCONSISTENT)
        elif not fits:
            self._answers(exchange, INCONSISTENT)
        elif member_id:
            self._join_known(group, exchange, Member(member_id, instance, protocols, *timeouts, exchange.now))
        elif (held := group.holder(instance)) is not None:
            new = response.get("member_id") or f"the member of request {exchange.asked}"
            self._return(group, held, exchange, Member(new, instance, protocols, *timeouts, exchange.now))
        elif instance is None and exchange.version >= 4:
            self._answers(exchange, NEEDS_ID)
            if response:
                group.pending[response.get("member_id", "")] = exchange.now + session
        else:
            new = response.get("member_id") or f"the member of request {exchange.asked}"
            self._admit(group, exchange, Member(new, instance, protocols, *timeouts, exchange.now))

    def _admit(self, group: Group, exchange: Exchange, member: Member) -> None:
        if not group.members:
            group.protocol_type = exchange.request.get("protocol_type", "")
        group.pending.pop(member.member_id, None)
        group.members[member.member_id] = member
        group.leader = group.leader or member.member_id
        member.joins = exchange
        group.rebalance()

    def _join_known(self, group: Group, exchange: Exchange, sent: Member) -> None:
        if sent.member_id in group.pending:
            if sent.instance is None:
                self._admit(group, exchange, sent)
            return
        error = group.member_error(sent.member_id, sent.instance)
        if error or group.state == EMPTY:
            self._answers(exchange, error or UNKNOWN_MEMBER)
            return
        member = group.members[sent.member_id]
        member.heard = exchange.now
        same = member.protocols == sent.protocols
        if same and (group.state == COMPLETING or (group.state == STABLE and group.leader != sent.member_id)):
            group.check_joined(member, exchange)
            return
        member.protocols, member.joins, member.session_ms = sent.protocols, exchange, sent.session_ms
        member.rebalance_ms = sent.rebalance_ms
        group.rebalance()

    def _return(self, group: Group, held: Member, exchange: Exchange, sent: Member) -> None:
        """Lets a static member come back with another member id. A stable group need not rebalance if the group's protocol
        stays the same."""
        response = exchange.response or {}
        led = group.leader == held.member_id
        group.dismiss(held)
        group.unsynced.discard(held.member_id)
        sent.assignment, sent.heard = held.assignment, exchange.now
        group.members[sent.member_id] = sent
        group.leader = sent.member_id if led or group.leader is None else group.leader
        at_once = group.state == STABLE and response.get("generation_id") == group.generation
        if not at_once or group.protocol not in group.common():
            sent.joins = exchange
            if group.state == STABLE and held.protocols == sent.protocols and response:
                raise Wrong(exchange, f"the member must get generation {group.generation} without a rebalance")
            group.rebalance()

    def _member_of(self, group: Group, exchange: Exchange) -> int:
        asked = exchange.request
        error = group.member_error(asked.get("member_id", ""), asked.get("group_instance_id"))
        if not error and asked.get("generation_id", 0) != group.generation:
            return ILLEGAL_GENERATION
        return error

    def _sync(self, exchange: Exchange) -> None:
        group = self._of(exchange)
        if group is None or not exchange.request.get("group_id"):
            return
        if exchange.version >= 5 and None in (exchange.request.get("protocol_type"), exchange.request.get("protocol_name")):
            self._answers(exchange, INCONSISTENT)
            return
        error = UNKNOWN_MEMBER if group.state == EMPTY else self._member_of(group, exchange)
        if error:
            self._answers(exchange, error)
            return
        for sent, known in (("protocol_type", group.protocol_type), ("protocol_name", group.protocol)):
            if exchange.request.get(sent) not in (None, known):
                self._answers(exchange, INCONSISTENT)
                return
        member = group.members[exchange.request.get("member_id", "")]
        member.heard = exchange.now
        if group.state == PREPARING:
            self._answers(exchange, REBALANCING)
        else:
            group.synced(member, exchange)

    def _heartbeat(self, exchange: Exchange) -> None:
        group = self._of(exchange)
        if group is None or not exchange.request.get("group_id"):
            return
        error = UNKNOWN_MEMBER if group.state == EMPTY else self._member_of(group, exchange)
        if error:
            self._answers(exchange, error)
            return
        group.members[exchange.request.get("member_id", "")].heard = exchange.now
        self._answers(exchange, REBALANCING if group.state == PREPARING else 0)

    def _leave(self, exchange: Exchange) -> None:
        asked, response = exchange.request, exchange.response
        group = self._of(exchange)
        if group is None or response is None or not asked.get("group_id"):
            return
        named = asked.get("members", ()) if exchange.version >= 3 else [{"member_id": asked.get("member_id", "")}]
        told = response.get("members") or [{"error_code": response.get("error_code", 0)}]
        gone, dropped = False, False
        codes: dict[str, list[int | None]] = {}
        for answer in told:
            codes.setdefault(answer.get("member_id", ""), []).append(code_of(answer))
        for one in named:
            instance = one.get("group_instance_id")
            holder = group.holder(instance)
            member_id = one.get("member_id") or (holder.member_id if holder is not None else "")
            if member_id in group.pending:
                del group.pending[member_id]
                dropped = True
                continue
            error = group.member_error(member_id, instance)
            answers = codes.get(one.get("member_id", ""), codes.get("", [error]) if len(named) == 1 else [error])
            if error in answers:
                answers.remove(error)
            elif set(answers) <= RULED | {0}:
                raise Wrong(exchange, f"code {error} for {member_id}")
            if not error:
                group.dismiss(group.members[member_id])
                group.unsynced.discard(member_id)
                gone = True
        if group.state != EMPTY and gone:
            group.rebalance()
        elif dropped:
            group.complete_if_all_joined()

    def _describe(self, exchange: Exchange) -> None:
        for each in (exchange.response or {}).get("groups", ()):
            group = self.held.get(each.get("group_id", ""))
            if group is None or not group.is_known or each.get("group_id", "") in self.strangers or code_of(each):
                continue
            if each.get("group_state") == "Dead" and group.state == EMPTY:
                continue
            told = (each.get("group_state"), len(each.get("members", ())))
            if told != (group.state, len(group.members)) and not group.may_have_changed(exchange.now):
                raise Wrong(exchange, f"{group.state} with {len(group.members)} members")

    def _delete(self, exchange: Exchange) -> None:
        for each in (exchange.response or {}).get("results", ()):
            if not code_of(each):
                group = self.held.pop(each.get("group_id", ""), None)
                self.strangers.discard(each.get("group_id", ""))
                if group is not None and group.is_known and group.members:
                    raise Wrong(exchange, "code 68, because the group has members")
