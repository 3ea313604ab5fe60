"""One classic group: its members, its generation, and the protocol by which they agree on an assignment.

A rebalance has two phases. First all members join: the coordinator responds when every known member has sent a JoinGroup, or
when the rebalance timeout is over. Only the leader's response names all members. Then all members send a SyncGroup. The
leader's SyncGroup has the assignment of all members. The coordinator responds to the other members when it has the assignment.
A member that misses a phase, or sends nothing during its session timeout, is removed. The rules come from ClassicGroup and
GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkawire.errors import ErrorCode
from wirebroker.core.groups.group import AnyGroup, Committer, Where
from wirebroker.core.groups.offsets import Committed
from wirebroker.core.groups.roster import Joined, Joiner, Member, Protocols, Roster, Synced, Syncer
from wirebroker.core.groups.states import PREVIOUS, ClassicGroupState
from wirebroker.core.purgatory import NEVER, Idle, Periodic, Timer, Timers
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since, until

STRICT_MEMBERS = since("3.0", "an unknown group.instance.id is refused")
"""A TxnOffsetCommit is refused, too, if it names a member but no generation."""
IGNORES_COMMITTERS = until("3.0", "OffsetCommit without a generation to a group without members must not name a member").then(
    "3.3", True, "OffsetCommit without a generation to a group without members may name any member"
)
IDENTIFIES_COMMITTERS = since(
    "2.4", "OffsetCommit checks the member and the generation also while the group waits for the leader's SyncGroup"
)
REBALANCES_FOR_RETURNING = since(
    "2.5", "a static member that returns while its group waits for the leader's SyncGroup starts a rebalance"
)
COMPARES_RETURNING = since(
    "2.6",
    "a static member that returns with other protocols can start a rebalance, and its new member id is written to the log",
)

CONSUMER = "consumer"
"""The protocol type of consumers, whose metadata the coordinator can read."""
RECORD_VERSION = 3
LEAST_LATE_JOIN_MS = 200
"""If only static members are left, and none of them has joined again, a group waits for at least this many ms before it looks
again. Kafka waits for the rebalance timeout even if this is 0 ms, so it looks without a pause until the sessions end."""
NEW_MEMBER_TIMEOUT_MS = 300_000
"""A new member is removed if its first JoinGroup has waited for this time in ms."""


class Snapshot(Struct):
    """The record that Kafka writes when a group becomes stable or empty."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: list[Member] = []

    @classmethod
    def of(cls, value: GroupMetadataValue) -> Snapshot:
        """Returns the group's state that a record contains."""
        members = [
            Member(
                each.member_id, each.group_instance_id, each.client_id, each.client_host, each.rebalance_timeout,
                each.session_timeout, [(value.protocol or "", each.subscription)], each.assignment, is_new=False,
            )
            for each in value.members
        ]  # fmt: skip
        return cls(value.generation, value.protocol_type or None, value.protocol, value.leader, members)


class Group(AnyGroup):
    """A classic group. `now` is in ms since the epoch.

    `written` is called to write the group to the log, and returns the error for clients if the write fails. `entered` is called
    when the group has entered another state. `release` returns the release that the brokers run.
    """

    kind = "classic"

    def __init__(
        self, group_id: str, timers: Timers, initial_delay: Callable[[], int], now: int,
        written: Callable[[Group, int], ErrorCode], entered: Callable[[Group], None], release: Callable[[], Release],
    ) -> None:  # fmt: skip
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.state_since = now
        self.previous = ClassicGroupState.EMPTY
        """The previous state, which is EMPTY while the first members join."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.subscribed: set[str] | None = None
        """The topics to which the members of this generation subscribe; None if unknown."""
        self.members: Roster = Roster()
        self.pending: dict[str, Timer] = {}
        """The member ids that were issued, but with which no member has joined yet."""
        self.snapshot = Snapshot(0, None, None, None)
        self._timers = timers
        self._initial_delay = initial_delay
        self._written = written
        self._entered = entered
        self._release = release
        self._phase: Timer | Periodic | None = None
        self._unsynced: set[str] = set()
        self._added_meanwhile = False

    # Queries

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def generation_or_epoch(self) -> int:
        return self.generation

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    def subscribes(self, topic: str) -> bool:
        """Tells whether members subscribe to the topic. A consumer whose metadata cannot be read counts as a subscriber."""
        return self.protocol_type == CONSUMER and (self.subscribed is None or topic in self.subscribed)

    def deletion_error(self) -> ErrorCode:
        """Returns NON_EMPTY_GROUP if the group has members whose subscriptions the coordinator cannot read: then offsets must
        not be deleted. Otherwise returns NONE."""
        unreadable = not self.is_empty and self.protocol_type != CONSUMER
        return ErrorCode.NON_EMPTY_GROUP if unreadable else ErrorCode.NONE

    def kept_since(self, committed: Committed) -> int | None:
        """Returns the time at which an offset's retention starts, in ms since the epoch, or None while the offset does not
        expire."""
        if self.protocol_type is None:
            return committed.time
        if self.is_empty:
            return self.state_since
        return committed.time if self.protocol_type == CONSUMER and self.state is ClassicGroupState.STABLE else None

    def commit_error(self, by: Committer, version: int | None, where: Iterable[Where], now: int) -> ErrorCode:
        """Returns the error if a member must not commit offsets, else NONE. A commit outside of a transaction keeps the
        member's session alive."""
        transactional = version is None
        if transactional and not STRICT_MEMBERS.of(self._release()):
            return self._named_error(by)
        simple = by.generation < 0 and self.is_empty and (by.anonymous or IGNORES_COMMITTERS.of(self._release()))
        if simple or (by.generation < 0 and transactional and by.anonymous):
            return ErrorCode.NONE
        error = self.member_error(by.member_id, by.instance_id)
        syncs = not transactional and self.state is ClassicGroupState.COMPLETING_REBALANCE
        if syncs and error is not ErrorCode.FENCED_INSTANCE_ID and not IDENTIFIES_COMMITTERS.of(self._release()):
            return ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            return error
        if by.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if not transactional:
            if syncs:
                return ErrorCode.REBALANCE_IN_PROGRESS
            self.alive(self.members[by.member_id], now)
        return ErrorCode.NONE

    def _named_error(self, by: Committer) -> ErrorCode:
        """Returns the error if a transactional commit names an unknown member, a fenced member or a wrong generation; else
        NONE.

        Before Kafka 3.0, a commit may name a member without a generation, or a generation without a member.
        """
        if by.instance_id is not None and self.members.static.get(by.instance_id, by.member_id) != by.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if by.member_id and by.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.ILLEGAL_GENERATION if by.generation not in (self.generation, -1) else ErrorCode.NONE

    # Records

    def record(self) -> CoordinatorRecord:
        """Returns the record that is written when the group becomes stable or empty."""
        members = [
            MemberMetadata(
                member_id=each.member_id, group_instance_id=each.instance_id, client_id=each.client_id,
                client_host=each.client_host, rebalance_timeout=each.rebalance_timeout,
                session_timeout=each.session_timeout, subscription=each.metadata(self.protocol),
                assignment=each.assignment,
            )
            for each in self.members.values()
        ]  # fmt: skip
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "", generation=self.generation, protocol=self.protocol,
            leader=self.members.leader, current_state_timestamp=self.state_since, members=members,
        )  # fmt: skip
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value, RECORD_VERSION)

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    # State

    def transition(self, state: ClassicGroupState, now: int) -> None:
        """Enter a state. Raises ValueError if the table does not allow this transition from the present state."""
        if self.state not in PREVIOUS[state]:
            raise ValueError(f"group {self.group_id} cannot go from {self.state.value} to {state.value}")
        self.previous, self.state = self.state, state
        self.state_since = now
        self._entered(self)

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Returns NONE if the group has a member with this id, else the error. If a group.instance.id is given, the member must
        have it, too."""
        if instance_id is not None:
            known = self.members.static.get(instance_id)
            if known is not None and known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if known is None and STRICT_MEMBERS.of(self._release()):
                return ErrorCode.UNKNOWN_MEMBER_ID
        # For a subclass of dict, `in` goes through Python's slots. This would cost a heartbeat 1.7 % more instructions.
        return ErrorCode.UNKNOWN_MEMBER_ID if self.members.get(member_id) is None else ErrorCode.NONE

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Tells whether a client with these protocols can join: at least one of these protocols must be supported by all
        members."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.members.support_one_of(protocols)

    def accepts(self, member_id: str, largest: int) -> bool:
        """Tells whether the group has room for this member. `largest` is group.max.size.

        In the join phase, only members that have joined are counted. Therefore, if the group is too large, the last members to
        join are refused.
        """
        if self.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD):
            return True
        member = self.members.get(member_id)
        if self.state is not ClassicGroupState.PREPARING_REBALANCE or len(self.members) < largest:
            return member is not None or len(self.members) < largest
        return (member is not None and member.joiner is not None) or len(self.members.joined()) < largest

    # Joining

    def add_pending(self, member_id: str, session_timeout: int, now: int) -> None:
        """Issue a member id, which expires if no member joins with this id within the session timeout."""

        def expire(when: int) -> None:
            if self.pending.pop(member_id, None) is not None:
                self._complete_join_after_loss(when)

        self.pending[member_id] = self._timers.at(now + session_timeout, expire)

    def drop_pending(self, member_id: str) -> None:
        """Forget an issued member id, because a member has joined with this id or has left."""
        self.pending.pop(member_id).cancel()

    def add(self, member: Member, protocol_type: str, joiner: Joiner, now: int) -> None:
        """Add a new member, which joins the group."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.member_id in self.pending:
            self.drop_pending(member.member_id)
        self.members.admit(member)
        member.joiner = joiner
        if self.state is ClassicGroupState.PREPARING_REBALANCE and self.previous is ClassicGroupState.EMPTY:
            self._added_meanwhile = True
        self._await_heartbeat(member, NEW_MEMBER_TIMEOUT_MS, now)
        self.rebalance_or_complete(now)

    def update(self, member: Member, protocols: Protocols, timeouts: tuple[int, int], joiner: Joiner, now: int) -> None:
        """Handle a JoinGroup of a member that joins again, perhaps with other protocols or timeouts. `timeouts` are the
        rebalance timeout and the session timeout."""
        self.members.change_protocols(member, protocols)
        member.rebalance_timeout, member.session_timeout = timeouts
        member.joiner = joiner
        self.rebalance_or_complete(now)

    def replace_static(self, requested: Member, joiner: Joiner, skips: bool, now: int) -> None:
        """Replace a static member by its new incarnation (`requested`), and fence a client that still uses the old member id.

        If the group is stable and its protocol stays the same, no rebalance follows. `skips` tells whether a returning leader
        can be told to skip the assignment (JoinGroup 9).
        """
        assert requested.instance_id is not None
        members, former_leader = self.members, self.members.leader
        old = members[members.static[requested.instance_id]]
        members.dismiss(old)
        old.refuse_waiting(ErrorCode.FENCED_INSTANCE_ID)
        old.stop_timer()
        # As in Kafka, the member keeps the client id and the host of its first incarnation.
        member = replace(requested, client_id=old.client_id, client_host=old.client_host, assignment=old.assignment)
        member.is_new = False
        member.joiner = joiner
        members.admit(member)
        if former_leader == old.member_id:
            members.leader = member.member_id
        self._await_heartbeat(member, old.session_timeout, now)
        release = self._release()
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and REBALANCES_FOR_RETURNING.of(release):
            self.prepare_rebalance(now)  # the leader may already have assigned partitions to the old id
        elif self.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_join_if_all_joined(now)
        elif COMPARES_RETURNING.of(release) and self.protocol != members.choose_protocol(release):
            self.rebalance_or_complete(now)
        elif COMPARES_RETURNING.of(release) and (error := self._persist(now)):
            self._put_back(old, member, former_leader, now)
            joiner(Joined(error, "", self.generation, self.protocol_type, self.protocol, former_leader or ""))
        else:
            member.joiner = None
            response = self.joined(member)
            leads = member.member_id == members.leader
            joiner(
                response._replace(skip_assignment=leads) if skips else response._replace(members=(), leader=former_leader or "")
            )

    def _put_back(self, old: Member, new: Member, leader: str | None, now: int) -> None:
        """Undo the replacement of a static member, because it could not be written to the log."""
        new.stop_timer()
        new.joiner = None
        self.members.dismiss(new)
        self.members.admit(old)
        self.members.leader = leader
        self._await_heartbeat(old, old.session_timeout, now)

    def joined(self, member: Member) -> Joined:
        """Returns the JoinGroup response for a member, with the current generation."""
        leader, members = self.members.leader or "", []
        if member.member_id == leader:
            members = [(m.member_id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values()]
        return Joined(0, member.member_id, self.generation, self.protocol_type, self.protocol, leader, members)

    # Rebalancing

    def rebalance_or_complete(self, now: int) -> None:
        """Begin a rebalance, or end the join phase of a running rebalance if all members have joined."""
        if self.state in PREVIOUS[ClassicGroupState.PREPARING_REBALANCE]:
            self.prepare_rebalance(now)
        else:
            self.complete_join_if_all_joined(now)

    def prepare_rebalance(self, now: int) -> None:
        """Ask all members to join again."""
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._respond_to_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now)
        initial = self.state is ClassicGroupState.EMPTY
        self.transition(ClassicGroupState.PREPARING_REBALANCE, now)
        self._cancel_phase()
        if initial:
            delay = self._initial_delay()
            self._wait_for_first_members(delay, max(self.members.rebalance_timeout() - delay, 0), now)
        elif not self._all_have_joined():
            self._phase = self._timers.at(now + self.members.rebalance_timeout(), self._complete_join)
        else:
            self._complete_join(now)

    def _wait_for_first_members(self, delay: int, left: int, now: int) -> None:
        """Wait for more members to join a group that was empty (group.initial.rebalance.delay.ms)."""
        if delay <= 0:
            self._complete_join(now)
            return

        def over(when: int) -> None:
            if self._added_meanwhile and left:
                self._added_meanwhile = False
                self._wait_for_first_members(min(self._initial_delay(), left), max(left - delay, 0), when)
            else:
                self._complete_join(when)

        self._phase = self._timers.at(now + delay, over)

    def complete_join_if_all_joined(self, now: int) -> None:
        """End the join phase if all members have joined. If the group was empty, the join phase always lasts for the whole
        initial delay."""
        if self.previous is not ClassicGroupState.EMPTY:
            self._complete_join_after_loss(now)

    def _complete_join_after_loss(self, now: int) -> None:
        if self.state is ClassicGroupState.PREPARING_REBALANCE and self._all_have_joined():
            self._complete_join(now)

    def _all_have_joined(self) -> bool:
        return not self.pending and all(member.joiner is not None for member in self.members.values())

    def _complete_join(self, now: int) -> None:
        """End the join phase: remove missing members, and begin a new generation."""
        self._cancel_phase()
        members = self.members
        for member in list(members.values()):
            if member.joiner is None and member.instance_id is None:
                self._forget(member)
        here = members.joined()
        if members and not here:  # all members are static, and no member has joined again yet
            self._phase = self._timers.every(self._late_join_interval, now, self._complete_late_join)
            return
        if here and (members.leader is None or members[members.leader].joiner is None):
            members.leader = here[0].member_id
        self.generation += 1
        if not members:
            self._become_empty(now)
            return
        self.protocol = members.choose_protocol(self._release())
        self._read_subscriptions()
        self.transition(ClassicGroupState.COMPLETING_REBALANCE, now)
        self._unsynced = set(members)
        self._phase = self._timers.at(now + members.rebalance_timeout(), self._sync_expired)
        for member in members.values():
            joiner, member.joiner = member.joiner, None
            member.is_new = False
            self._await_heartbeat(member, member.session_timeout, now)
            if joiner is not None:
                joiner(self.joined(member))

    def _late_join_interval(self) -> int:
        return max(self.members.rebalance_timeout(), LEAST_LATE_JOIN_MS)

    def _complete_late_join(self, now: int) -> Idle:
        if self.members and not self.members.joined():
            return NEVER
        self._complete_join(now)
        return None

    def _become_empty(self, now: int) -> None:
        self.transition(ClassicGroupState.EMPTY, now)
        self.protocol = None
        self._read_subscriptions()
        self._persist(now)  # as in Kafka, a failed write does not matter: after a restart the old members time out

    def _read_subscriptions(self) -> None:
        """Read the subscriptions of this generation's members into `subscribed`."""
        self.subscribed = self.members.topics(self.protocol) if self.protocol_type == CONSUMER else None

    def _sync_expired(self, now: int) -> None:
        """Remove the members that sent no SyncGroup in time, and begin another rebalance."""
        self._phase = None
        for member_id in list(self._unsynced):
            if (member := self.members.get(member_id)) is not None:
                self._forget(member)
        self.prepare_rebalance(now)

    # Syncing

    def sync(self, member: Member, assignments: Sequence[tuple[str, bytes]], syncer: Syncer, now: int) -> None:
        """Handle a member's SyncGroup: the member requests its assignment, and the leader sends the assignments of all
        members."""
        member.syncer = syncer
        self.has_synced(member)
        if member.member_id == self.members.leader:
            given = dict(assignments)
            for known in self.members.values():
                known.assignment = given.get(known.member_id, b"")
            if error := self._persist(now):
                self._respond_to_syncs(error, now)
                self.prepare_rebalance(now)
                return
            self.transition(ClassicGroupState.STABLE, now)
            self._respond_to_syncs(ErrorCode.NONE, now)

    def has_synced(self, member: Member) -> None:
        """Register that the member has sent its SyncGroup.

        When all members have sent their SyncGroup, the timeout of the phase is cancelled.
        """
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._cancel_phase()

    def _respond_to_syncs(self, code: ErrorCode, now: int) -> None:
        for member in self.members.values():
            syncer, member.syncer = member.syncer, None
            if code:
                member.assignment = b""
            if syncer is not None:
                syncer(self.synced(member, code))
                self.alive(member, now)

    def synced(self, member: Member, code: int = 0) -> Synced:
        """Returns the SyncGroup response for a member, with its assignment or an error."""
        if code:
            return Synced(code)
        return Synced(0, member.assignment, self.protocol_type, self.protocol)

    # Staying and leaving

    def alive(self, member: Member, now: int) -> None:
        """Start the member's session timeout again, because the member sent a request."""
        self._await_heartbeat(member, member.session_timeout, now)

    def _await_heartbeat(self, member: Member, timeout: int, now: int) -> None:
        if member.heartbeat is not None:  # the same as `stop_timer`, without a call for each heartbeat
            member.heartbeat.cancel()

        def expire(when: int) -> None:
            self.session_ends(member, when)

        member.heartbeat = self._timers.at(now + timeout, expire)

    def session_ends(self, member: Member, now: int) -> bool:
        """Remove a member whose session timeout is over. Returns False if the member stays.

        A member stays while its SyncGroup, or a JoinGroup that is not its first, waits for other members.
        """
        waiting = member.joiner is not None or member.syncer is not None
        if self.members.get(member.member_id) is not member or (waiting and not member.is_new):
            return False
        self.remove(member)
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(now)
        else:
            self._complete_join_after_loss(now)
        return True

    def remove(self, member: Member) -> None:
        """Remove a member that leaves or is removed. The caller must start the rebalance."""
        if member.joiner is not None:
            member.joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(member)

    def _forget(self, member: Member) -> None:
        member.joiner = member.syncer = None
        member.stop_timer()
        self.members.dismiss(member)
        self._unsynced.discard(member.member_id)

    def _cancel_phase(self) -> None:
        if self._phase is not None:
            self._phase.cancel()
            self._phase = None

    # Changing the protocol

    def refuse_waiting(self, code: ErrorCode) -> None:
        """Respond with an error to all waiting requests."""
        for member in self.members.values():
            member.refuse_waiting(code)

    def take_over(self, generation: int, members: Sequence[Member], assignment: Callable[[Member, str], bytes]) -> None:
        """Become a stable classic group. The members come from a group that used another protocol. `assignment` encodes a
        member's partitions."""
        self.state = self.previous = ClassicGroupState.STABLE
        self.generation, self.protocol_type = generation, CONSUMER
        self.members = Roster(members)
        self.protocol = self.members.choose_protocol(self._release())
        self._read_subscriptions()
        for member in members:
            member.assignment = assignment(member, self.protocol)

    # Restarting

    def _persist(self, now: int) -> ErrorCode:
        error = self._written(self, now)
        if not error:
            self.is_written()
        return error

    def is_written(self) -> None:
        """Remember that the group's present state is in the log, so that a restart restores this state."""
        value = self.record().value
        assert isinstance(value, GroupMetadataValue)
        self.snapshot = Snapshot.of(value)

    def unload(self) -> None:
        """Respond NOT_COORDINATOR to waiting requests and stop the timers, because the broker no longer coordinates the
        group."""
        self.refuse_waiting(ErrorCode.NOT_COORDINATOR)
        self._cancel_timers()

    def restart(self, now: int) -> None:
        """Restore the last state that was written to the log, as if a broker loaded the group."""
        kept = self.snapshot
        self.state = self.previous = ClassicGroupState.STABLE if kept.members else ClassicGroupState.EMPTY
        self.state_since = now
        self.generation, self.protocol_type, self.protocol = kept.generation, kept.protocol_type, kept.protocol
        members = [replace(member) for member in kept.members]
        self.members = Roster(members, kept.leader)
        self.pending.clear()
        self._phase = None
        self._unsynced.clear()
        self._read_subscriptions()
        for member in members:
            self._await_heartbeat(member, member.session_timeout, now)

    def change_times(self, changed: Callable[[int], int]) -> None:
        self.state_since = changed(self.state_since)

    def die(self, now: int) -> None:
        """End the group, because it is deleted."""
        self.transition(ClassicGroupState.DEAD, now)
        self._cancel_timers()

    def _cancel_timers(self) -> None:
        self._cancel_phase()
        for timer in self.pending.values():
            timer.cancel()
        for member in self.members.values():
            member.stop_timer()
