"""The replicas of one partition. Each replica holds a prefix of the leader's log, usually the whole log.

A follower normally has a record as soon as the leader has it. So all replicas share the leader's log, and no records are
copied. A replica does not follow while it is frozen or its broker is down. Such a replica has a `Prefix`: its log end offset,
and the producers' states and the transactions at that offset. If such a replica becomes the leader, the shared log is truncated
to the replica's log end offset, and the state in the `Prefix` takes effect. So records that only the former leader had are lost
at the election. In Kafka, such records are lost later: when the former leader returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol
from weakref import proxy

from msgspec import Struct

from wirebroker.core.configs import TopicConfigs
from wirebroker.core.elections import NO_LEADER, Assignment, Circumstances, Registration, elect
from wirebroker.core.open_transactions import OpenTransactions
from wirebroker.core.producers import Key, follower_state, open_transactions
from wirebroker.core.profile import Rules
from wirebroker.core.purgatory import NEVER
from wirebroker.core.releases.changes import since

CAPS_MIN_IN_SYNC = since(
    "3.7", "a min.insync.replicas above the number of replicas counts as the number of replicas", "KIP-966"
)

Alive = Callable[[int], bool]


class Prefix(Struct):
    """The state of a replica that does not follow the leader. The state has the log end offset, and the producers' states at
    that offset."""

    log_end_offset: int
    log_start_offset: int
    high_watermark: int
    producers: dict[Key, bytes]
    transactions: OpenTransactions
    epoch_starts: list[tuple[int, int]]
    caught_up: int
    """The time at which the replica last had the leader's whole log, in ms since the epoch."""
    forgetful: bool = False
    """Tells whether the replica was restarted. After a restart, the replica has only the last batch of each producer from
    before the restart."""
    cut_off: bool = False
    """Tells whether the replica's log was truncated because a new leader had fewer records. After the truncation, the replica
    rebuilds its producers' state from the log."""

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read from this replica."""
        unstable = self.transactions.first_unstable()
        return self.high_watermark if unstable is None else min(max(unstable, self.log_start_offset), self.high_watermark)


class Replicated(Protocol):
    """The part of a partition that its `Replication` uses."""

    configs: TopicConfigs
    rules: Rules
    replicas: list[int]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    in_sync: list[int]
    eligible: list[int]
    leader: int
    leader_epoch: int
    last_known_leader: int | None
    log_start_offset: int
    held_at: int | None
    producers: dict[Key, bytes]
    transactions: OpenTransactions

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are replicated."""

    def prefix(self, now: int) -> Prefix:
        """Returns the state of a replica that stops replicating the leader's log now."""

    def take_over(self, prefix: Prefix) -> None:
        """Continue from `prefix`, the new leader's state."""

    def new_leader_epoch(self, epoch: int, *, elected: bool) -> None:
        """Begin a new leader epoch."""

    def producers_after_restart(self, producers: Mapping[Key, bytes], start: int, end: int) -> dict[Key, bytes]:
        """Returns the producers' states after a restart, with a log from `start` to `end`."""

    def notify(self, now: int) -> None:
        """Call the callbacks of the waiting requests, because more records are visible or the leader has changed."""


class Replication:
    """The replication of one partition: the replicas that follow the leader, the replicas that lag, and the high watermark."""

    __slots__ = ("_partition", "frozen", "lagging", "since_restart", "uncapped")

    def __init__(self, partition: Replicated) -> None:
        self._partition = partition
        self.lagging: dict[int, Prefix] = {}
        self.frozen: set[int] = set()
        self.since_restart: dict[int, Prefix] = {}
        """The state of each restarted follower at the time when it began to follow again."""
        self.uncapped = False
        """Tells whether the release is before Kafka 3.7. In such a release, min.insync.replicas may require more replicas than
        the partition has."""
        self.become_release()

    def become_release(self) -> None:
        """Follow the rules of the release that the brokers run now."""
        self.uncapped = not CAPS_MIN_IN_SYNC.of(self._partition.configs.release)

    # State

    @property
    def min_in_sync(self) -> int:
        """The effective value of min.insync.replicas. From Kafka 3.7 on, the effective value is at most the partition's number
        of replicas (KIP-966)."""
        partition = self._partition
        wanted = partition.configs.integer("min.insync.replicas")
        return wanted if self.uncapped else min(wanted, len(partition.replicas))

    @property
    def too_few(self) -> bool:
        """Tells whether fewer replicas are in sync than acks=all requires."""
        in_sync = self._partition.in_sync
        return (len(in_sync) < len(self._partition.replicas) or self.uncapped) and len(in_sync) < self.min_in_sync

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the replicas whose brokers are up."""
        starts = [self.lagging[node].log_start_offset for node in self.frozen if node in self.lagging]
        return min([self._partition.log_start_offset, *starts])

    def lags(self, now: int, longest_ms: int) -> tuple[list[int], int]:
        """Returns two values: the in-sync replicas that have lacked records for longer than `longest_ms`
        (replica.lag.time.max.ms), and the time at which the next in-sync replica will exceed this limit (NEVER if none
        will)."""
        partition = self._partition
        times = {
            node: prefix.caught_up + longest_ms + 1
            for node in partition.in_sync
            if (prefix := self.lagging.get(node)) is not None and prefix.log_end_offset < partition.log_end_offset
        }
        out = [node for node, when in times.items() if when <= now]
        return out, min((when for when in times.values() if when > now), default=NEVER)

    def weaken(self) -> None:
        """The partition is deleted: keep only a weak reference to it, so that its memory can be freed."""
        self._partition = proxy(self._partition)

    def review(self) -> None:
        """Compute the high watermark again (Partition.maybeIncrementLeaderHW).

        The high watermark is the smallest log end offset of the in-sync replicas, and it never decreases. From Kafka 3.7 on
        (KIP-966), the high watermark does not advance while the number of in-sync replicas is below min.insync.replicas.
        """
        partition = self._partition
        visible = min(partition.high_watermark, partition.log_end_offset)
        ends = [self.lagging[node].log_end_offset for node in partition.in_sync if node in self.lagging]
        if partition.leader == NO_LEADER or (self.too_few and not self.uncapped):
            partition.held_at = visible
        else:
            partition.held_at = max(visible, min(ends)) if ends else None
        partition.transactions.replicated_up_to(partition.high_watermark)

    # Events

    def freeze(self, node_id: int, now: int) -> None:
        """Make a follower on a running broker stop replicating the leader's log."""
        self.frozen.add(node_id)
        self._stop_following(node_id, now)
        self.review()

    def thaw(self, node_id: int, alive: Alive, now: int) -> None:
        """Make a frozen replica follow the leader again. The replica catches up and becomes in sync immediately."""
        self.frozen.discard(node_id)
        self._change(self._registration, alive, now)

    def absent(self, node_id: int, now: int) -> None:
        """Register that the broker `node_id`, which has a replica, was down when the partition was created."""
        partition = self._partition
        self._stop_following(node_id, now)
        partition.in_sync.remove(node_id)
        partition.leader = next(iter(partition.in_sync), NO_LEADER)
        self.review()

    def broker_down(self, node_id: int, alive: Alive, now: int) -> None:
        """Handle a kill of the replica's broker: the replica is no longer in sync, and another replica becomes the leader."""
        self.frozen.discard(node_id)
        self._stop_following(node_id, now)
        if node_id in self._partition.in_sync:
            self._elect([each for each in self._partition.in_sync if each != node_id], alive, now)

    def broker_up(self, node_id: int, alive: Alive, now: int) -> None:
        """Handle the start of the replica's broker after a kill. The replica continues with the state that is on its disk."""
        prefix, partition = self.lagging[node_id], self._partition
        if not prefix.cut_off:
            prefix.producers = partition.producers_after_restart(
                prefix.producers, prefix.log_start_offset, prefix.log_end_offset
            )
            prefix.transactions.reopen(open_transactions(prefix.producers))
            prefix.forgetful = True
        if partition.leader == NO_LEADER:
            partition.eligible = [each for each in partition.eligible if each != node_id]
            self._elect(partition.in_sync, alive, now)
        else:
            self._change(self._registration, alive, now)

    def shrink(self, out: Iterable[int], alive: Alive, now: int) -> None:
        """Remove the replicas `out` from the in-sync replicas."""
        gone = set(out)
        self._elect([each for each in self._partition.in_sync if each not in gone], alive, now)

    def move_leader(self, to: int, alive: Alive, now: int) -> None:
        """Make a live in-sync replica the leader. The former leader follows the new leader."""
        known = self._registration
        self._change(known._replace(leader=to, leader_epoch=known.leader_epoch + 1), alive, now)

    def elect(self, alive: Alive, now: int, *, preferred: bool = False, unclean: bool = False) -> None:
        """Elect a leader. With `preferred`, the first replica becomes the leader. With `unclean`, a live replica that is not in
        sync may become the leader if no in-sync replica can lead."""
        self._elect(self._partition.in_sync, alive, now, preferred=preferred, unclean=unclean)

    def reassign(self, wanted: Sequence[int], alive: Alive, now: int, *, slow: bool = False) -> None:
        """Move the partition's replicas to the brokers `wanted`. The reassignment lasts until the new replicas are in sync. A
        new replica on a live broker becomes in sync immediately. With `slow`, the new replicas become in sync only when `thaw`
        is called.
        """
        to = self._registration.assignment.towards(wanted)
        for node in set(to.replicas).difference(self._partition.replicas):
            self.lagging[node] = Prefix(0, 0, 0, {}, OpenTransactions(), [], now)
            if slow:
                self.frozen.add(node)
        self._elect(self._partition.in_sync, alive, now, to=to)

    def revert(self, alive: Alive, now: int) -> bool:
        """Cancel a reassignment. Returns False and changes nothing if this requires an unclean election, and the settings
        forbid unclean elections."""
        known = self._registration
        to = known.assignment.reverted()
        in_sync = [node for node in known.in_sync if node not in known.assignment.adding]
        if not in_sync and not self._circumstances(alive).unclean:
            return False
        self._elect(in_sync or to.replicas[:1], alive, now, to=to)
        return True

    def restart(self, now: int) -> None:
        """Handle a restart of all brokers: all replicas follow, and a partition without a leader gets a leader."""
        self.frozen.clear()
        if self._partition.leader == NO_LEADER:
            self._elect(self._partition.in_sync, lambda _: True, now)
        self._change(self._registration, lambda _: True, now)
        self.since_restart.clear()

    # Implementation

    @property
    def _registration(self) -> Registration:
        partition = self._partition
        return Registration(
            Assignment(tuple(partition.replicas), partition.adding, partition.removing), partition.leader,
            partition.leader_epoch, tuple(partition.in_sync), tuple(partition.eligible), partition.last_known_leader,
        )  # fmt: skip

    def _circumstances(self, alive: Alive, unclean: bool = False) -> Circumstances:
        partition = self._partition
        allowed = unclean or bool(partition.configs.value("unclean.leader.election.enable"))
        return Circumstances(alive, self.min_in_sync, allowed, partition.configs.keeps_eligible)

    def _elect(
        self, in_sync: Iterable[int], alive: Alive, now: int,
        *, to: Assignment | None = None, preferred: bool = False, unclean: bool = False,
    ) -> None:  # fmt: skip
        where = self._circumstances(alive, unclean)
        self._change(elect(self._registration, where, in_sync, to=to, preferred=preferred), alive, now)

    def _change(self, to: Registration, alive: Alive, now: int) -> None:
        """Change the partition's state to `to`. All replicas catch up with the leader and become in sync, except frozen
        replicas and replicas whose brokers are down."""
        partition = self._partition
        if to.leader not in (partition.leader, NO_LEADER):
            self._lead(to.leader, now)
        joining = [node for node in self.lagging if alive(node) and node not in self.frozen and node in to.assignment.replicas]
        if to.leader == NO_LEADER:
            joining = []
        for node in joining:
            self._catch_up(node)
        if not set(joining).issubset(to.in_sync):
            completed = elect(to, self._circumstances(alive), sorted({*to.in_sync, *joining}))
            if completed.leader not in (to.leader, NO_LEADER):  # the election may complete a reassignment
                self._lead(completed.leader, now)
            to = completed
        if to.leader_epoch != partition.leader_epoch:
            partition.new_leader_epoch(to.leader_epoch, elected=to.leader != NO_LEADER)
            for each in self.lagging.values():  # a new epoch begins to measure the lag again (Replica.resetReplicaState)
                each.caught_up = now
        partition.leader, partition.in_sync, partition.eligible = to.leader, list(to.in_sync), list(to.eligible)
        partition.last_known_leader = to.last_known_leader
        self._assign(to.assignment)
        self.review()
        partition.notify(now)

    def _assign(self, to: Assignment) -> None:
        """Forget replicas that are no longer assigned."""
        partition = self._partition
        for gone in set(partition.replicas).difference(to.replicas):
            self.lagging.pop(gone, None)
            self.since_restart.pop(gone, None)
            self.frozen.discard(gone)
        partition.replicas, partition.adding, partition.removing = list(to.replicas), to.adding, to.removing

    def _stop_following(self, node_id: int, now: int) -> None:
        if node_id not in self.lagging:
            prefix = self.lagging[node_id] = self._partition.prefix(now)
            restarted = self.since_restart.pop(node_id, None)
            if restarted is not None:
                prefix.producers, prefix.forgetful = self._followed(restarted), True
                prefix.transactions.reopen(open_transactions(prefix.producers))

    def _catch_up(self, node_id: int) -> None:
        prefix = self.lagging.pop(node_id)
        if prefix.forgetful:
            self.since_restart[node_id] = prefix

    def _lead(self, node_id: int, now: int) -> None:
        """Make the replica on the broker `node_id` the leader. All records that this replica lacks are lost, with their effect
        on the producers' states."""
        partition = self._partition
        self.frozen.discard(node_id)
        prefix, restarted = self.lagging.pop(node_id, None), self.since_restart.pop(node_id, None)
        if prefix is not None:
            partition.take_over(prefix)
            self.cut_off(prefix.log_end_offset)
        elif restarted is not None:
            known = partition.prefix(now)
            for each in partition.replicas:
                if each not in self.lagging and each != node_id:
                    self.since_restart.setdefault(each, known)
            partition.producers = self._followed(restarted)
            partition.transactions.reopen(open_transactions(partition.producers))
        partition.transactions.verifications.clear()

    def cut_off(self, end: int) -> None:
        """A new leader's log ends at `end`. Truncate the followers that have later records. The truncated followers rebuild
        their state from the log."""
        for node, prefix in list(self.lagging.items()):
            if prefix.log_end_offset > end:
                prefix = self.lagging[node] = self._partition.prefix(prefix.caught_up)
                prefix.cut_off = True
            prefix.high_watermark = min(prefix.high_watermark, end)
        self.since_restart = {node: own for node, own in self.since_restart.items() if own.log_end_offset <= end}

    def _followed(self, restarted: Prefix) -> dict[Key, bytes]:
        """Returns the producers' states of a follower. `restarted` is the follower's state after its restart. Since then, the
        follower has replicated the leader's log."""
        partition, followed = self._partition, {}
        for key, leaders in partition.producers.items():
            mine = restarted.producers.get(key)
            state = follower_state(mine, leaders, restarted.log_end_offset, partition.rules.window)
            if state is not None:
                followed[key] = state
        return followed
