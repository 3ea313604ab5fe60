"""The controller starts and stops brokers, moves leaders, and lets followers lag (Kafka's ReplicationControlManager).

Kafka's controller notices a dead broker when the broker's session ends. In wirebroker the controller notices a dead broker
immediately, so that tests need not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from kafkawire.errors import ErrorCode
from wirebroker.common.changes import BrokerRow, InSyncRow, LeaderRow
from wirebroker.core.cluster import INTERNAL_TOPICS, Broker, Cluster
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import NEVER, Idle, Periodic
from wirebroker.core.truncation import truncate

CHANGED = 64
"""The number of partitions that one slice changes."""

CoordinatorMoved = Callable[[Partition, int], None]
"""Called after the leader of a coordinators' partition has changed. The arguments are the partition and the time."""


class Controller:
    """Changes leaders and in-sync replicas. If a change is impossible, raises ValueError with the reason."""

    def __init__(self, cluster: Cluster, coordinator_moved: CoordinatorMoved, now: int) -> None:
        self._cluster = cluster
        self._coordinator_moved = coordinator_moved
        self._lag_checks: dict[tuple[Partition, int], Periodic] = {}
        self._unfinished: Iterator[None] = iter(())
        """The rest of a change that is made in slices, because it concerns many partitions."""
        self.slow_until = 0
        """If a reassignment adds a replica before this time, the replica becomes in-sync at this time."""
        self.busy = False
        """Tells whether a change is being made in slices."""
        self.restart(now)

    def restart(self, now: int) -> None:
        """Forget the timers of lagging followers, and schedule the leader rebalance. Called when all brokers have started."""
        self._lag_checks.clear()
        configs, timers = self._cluster.configs, self._cluster.timers
        if configs.value("auto.leader.rebalance.enable") and len(self._cluster.brokers) > 1:
            timers.every(lambda: 1000 * configs.integer("leader.imbalance.check.interval.seconds"), now, self.balance)

    def finish(self) -> None:
        """Complete the change that is being made in slices (`Timers.work`)."""
        for _ in self._unfinished:
            pass

    def broker_down(self, node_id: int, now: int, how: Literal["killed", "stopped"] = "killed") -> None:
        """Handle the end of a broker: in-sync replicas take over the partitions that the broker led, in slices."""
        self.finish()
        broker = self._broker(node_id)
        if not broker.running:
            raise ValueError(f"broker {node_id} is already down")
        broker.running = False
        broker.stopped = self._cluster.metadata_offset, now
        self._cluster.report(BrokerRow(how, node_id))
        if broker.registered:
            self._fence(node_id, now)

    def unregister(self, node_id: int, now: int) -> None:
        """Remove a broker from the cluster. A running broker continues to run, but takes no part in the cluster until it is
        restarted."""
        self.finish()
        broker = self._broker(node_id)
        broker.registered = False
        self._cluster.report(BrokerRow("unregistered", node_id))
        if broker.running:
            self._fence(node_id, now)

    def _fence(self, node_id: int, now: int) -> None:
        """Make other replicas take over the partitions that the broker leads."""
        held = self._held_by(node_id)
        for partition in held:
            self._forget_lag(partition, node_id)
        self._change_all(held, lambda each: each.replication.broker_down(node_id, self._cluster.alive, now), now)

    def broker_up(self, node_id: int, now: int) -> None:
        """Start the broker if it is down.

        The broker's replicas follow and become in-sync. If a partition has no leader, the broker's replica becomes its leader.
        """
        self.finish()
        broker = self._broker(node_id)
        if broker.alive:
            return
        broker.start()
        self._cluster.report(BrokerRow("started", node_id))
        held = self._held_by(node_id)
        self._change_all(held, lambda each: each.replication.broker_up(node_id, self._cluster.alive, now), now)

    def move_leader(self, topic: str, index: int, to: int, now: int) -> None:
        """Make an in-sync replica the leader, as a reassignment or a preferred election would."""
        partition = self._partition(topic, index)
        self._replica(partition, to)
        if to not in partition.in_sync or not self._cluster.alive(to):
            where = f"{topic}-{index}: the leader must be a running broker of the in-sync replicas {partition.in_sync}"
            raise ValueError(f"broker {to} cannot lead {where}; for an unclean election, call `elect_leader(…, unclean=True)`")
        if to != partition.leader:
            self._change([partition], lambda each: each.replication.move_leader(to, self._cluster.alive, now), now)

    def move_away(self, partition: Partition, now: int) -> bool:
        """Make another live broker the leader: a broker with an in-sync replica or, if there is no such broker, a broker to
        which the leader's replica is moved. Returns whether the partition has another leader now.
        """
        leader, alive = partition.leader, self._cluster.alive
        others = [node for node in sorted(self._cluster.brokers) if node != leader and alive(node)]
        if leader == NO_LEADER or not others:
            return False
        others = [node for node in others if node > leader] + [node for node in others if node < leader]
        to = next((node for node in others if node in partition.in_sync), None)
        if to is not None:
            self.move_leader(partition.topic, partition.index, to, now)
        else:
            to = next((node for node in others if node not in partition.replicas), leader)
            self.reassign(partition, [to if node == leader else node for node in partition.replicas], now)
        return partition.leader not in (leader, NO_LEADER)

    def elect_leader(self, topic: str, index: int, now: int, *, unclean: bool = False) -> ErrorCode:
        """Elect the preferred replica, which is the first of the replicas. With `unclean`, elect any live replica if there is
        no leader."""
        partition = self._cluster.partition(topic, index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        before = partition.leader
        if before != NO_LEADER if unclean else before == partition.replicas[0]:
            return ErrorCode.ELECTION_NOT_NEEDED
        alive = self._cluster.alive
        self._change([partition], lambda each: each.replication.elect(alive, now, preferred=not unclean, unclean=unclean), now)
        if partition.leader != before:
            return ErrorCode.NONE
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    def recover(self, now: int) -> None:
        """Repair the cluster before any other request is handled: start all brokers that are down, make frozen replicas follow
        again, and make the preferred replicas the leaders."""
        self.slow_until = 0
        for node_id in self._cluster.brokers:
            self.broker_up(node_id, now)
        self.finish()
        for partition in list(self._cluster.partitions()):
            for node_id in sorted(partition.replication.frozen):
                self.thaw_replica(partition.topic, partition.index, node_id, now)
        self.balance(now)
        self.finish()

    def balance(self, now: int) -> Idle:
        """Make each preferred replica that is in sync the leader again (maybeBalancePartitionLeaders). Returns None if this
        changes a leader, else NEVER (see `Idle`)."""
        self.finish()
        alive = self._cluster.alive
        led_by_others = [each for each in self._cluster.partitions() if each.leader != (first := each.replicas[0])
                         and first in each.in_sync and alive(first)]  # fmt: skip
        if not led_by_others:
            return NEVER
        self._change_all(led_by_others, lambda each: each.replication.elect(alive, now, preferred=True), now)
        return None

    def truncate(self, partition: Partition, offset: int, now: int) -> None:
        """Delete the end of a partition's log, as an unclean election would. Raises ValueError if the offset is outside the
        log."""
        self._change([partition], lambda each: truncate(each, offset, now), now)

    def freeze_replica(self, topic: str, index: int, node_id: int, now: int) -> None:
        """Make a follower stop fetching.

        The follower falls out of sync when it has lacked records for replica.lag.time.max.ms.
        """
        partition = self._partition(topic, index)
        self._replica(partition, node_id)
        if topic in INTERNAL_TOPICS:
            raise ValueError(f"replicas of {topic} cannot be frozen: coordinators write without waiting for them")
        if node_id == partition.leader:
            raise ValueError(f"broker {node_id} leads {topic}-{index}; only a follower can be frozen")
        if not self._cluster.alive(node_id):
            raise ValueError(f"broker {node_id} is down")
        self._change([partition], lambda each: each.replication.freeze(node_id, now), now)
        self._watch_lag(partition, node_id, now)

    def thaw_replica(self, topic: str, index: int, node_id: int, now: int) -> None:
        """Make a frozen follower fetch again: it catches up immediately. Does nothing if the follower is not frozen."""
        partition = self._partition(topic, index)
        self._replica(partition, node_id)
        self._forget_lag(partition, node_id)
        self._thaw(partition, node_id, now)

    def _thaw(self, partition: Partition, node_id: int, now: int) -> None:
        self._change([partition], lambda each: each.replication.thaw(node_id, self._cluster.alive, now), now)

    def reassign(self, partition: Partition, replicas: Sequence[int], now: int) -> None:
        """Move the partition's replicas to these brokers. The caller has checked that each broker exists and is named once.

        The reassignment is in progress until the new replicas are in sync. If the broker of a new replica is up, the replica is
        in sync immediately, unless a fault makes it slow.
        """
        if list(replicas) == partition.replicas and not partition.moves:
            return
        slow, alive = now < self.slow_until, self._cluster.alive
        self._change([partition], lambda each: each.replication.reassign(replicas, alive, now, slow=slow), now)
        if slow:
            self._cluster.timers.at(self.slow_until, lambda now: self._caught_up(partition, now))

    def _caught_up(self, partition: Partition, now: int) -> None:
        """Make the slow replicas of a reassignment catch up, so that they are in sync."""
        for node in [each for each in partition.adding if each in partition.replication.frozen]:
            self._thaw(partition, node, now)

    def cancel_reassignment(self, partition: Partition, now: int) -> bool:
        """Undo a reassignment in progress: keep the former replicas.

        Returns False if this requires an unclean election, and unclean elections are disabled.
        """
        reverted = []
        self._change([partition], lambda each: reverted.append(each.replication.revert(self._cluster.alive, now)), now)
        return all(reverted)

    # Followers that lag

    @property
    def _longest_lag(self) -> int:
        return self._cluster.configs.integer("replica.lag.time.max.ms")

    def _watch_lag(self, partition: Partition, node_id: int, now: int) -> None:
        """Check the lag of a frozen replica as soon as the replica may have lagged too long, and from then on twice per
        replica.lag.time.max.ms."""
        self._forget_lag(partition, node_id)
        first, check = now + self._longest_lag + 1, partial(self._check_lag, partition, node_id)
        self._lag_checks[partition, node_id] = self._cluster.timers.every(lambda: self._longest_lag // 2, now, check, first)

    def _check_lag(self, partition: Partition, node_id: int, now: int) -> Idle:
        if partition.deleted or node_id not in partition.replication.frozen:
            self._forget_lag(partition, node_id)
            return NEVER
        out, until = partition.replication.lags(now, self._longest_lag)
        if not out:
            return until
        self._change([partition], lambda each: each.replication.shrink(out, self._cluster.alive, now), now)
        return None

    def _forget_lag(self, partition: Partition, node_id: int) -> None:
        check = self._lag_checks.pop((partition, node_id), None)
        if check is not None:
            check.cancel()

    # Checks

    def _change(self, partitions: Sequence[Partition], change: Callable[[Partition], object], now: int) -> None:
        """Make a change to each of these partitions. If a coordinators' partition gets a new leader, tell its coordinators."""
        self.finish()
        self._make(partitions, change, now)

    def _change_all(self, partitions: Sequence[Partition], change: Callable[[Partition], None], now: int) -> None:
        """Like `_change`, but in slices; the coordinators' partitions come first. Each slice is written to the metadata log
        before the next slice begins."""
        decisions = self._cluster.decisions

        def slices() -> Iterator[None]:
            self.busy = True
            for i in range(0, len(held), CHANGED):
                if i:
                    yield
                some, others = [each for each in held[i : i + CHANGED] if not each.deleted], decisions.pending
                self._make(some, change, now)
                decisions.write_down(now, () if others else some)
            self.busy = False

        held = sorted(partitions, key=lambda each: each.topic not in INTERNAL_TOPICS)
        self._unfinished = slices()
        self._cluster.timers.work(self._unfinished)

    def _make(self, partitions: Sequence[Partition], change: Callable[[Partition], object], now: int) -> None:
        moved = []
        for partition in partitions:
            before, in_sync, held = partition.leader_epoch, partition.in_sync, partition.replicas
            change(partition)
            self._cluster.version += 1  # not before the change: requests that waited for the change may write the metadata
            if partition.replicas != held:
                self._cluster.log_dirs.follow(partition)
            if partition.in_sync != in_sync:
                replicas = tuple(partition.in_sync)
                self._cluster.report(InSyncRow(partition.topic, partition.index, replicas, partition.high_watermark))
            if partition.leader_epoch != before:
                moved.append(partition)
        for partition in moved:
            leads = (partition.leader, partition.leader_epoch)
            self._cluster.report(LeaderRow(partition.topic, partition.index, *leads))
            if partition.topic in INTERNAL_TOPICS:
                self._coordinator_moved(partition, now)

    def _held_by(self, node_id: int) -> list[Partition]:
        return [partition for partition in self._cluster.partitions() if node_id in partition.replicas]

    def _broker(self, node_id: int) -> Broker:
        if node_id not in self._cluster.brokers:
            raise ValueError(f"there is no broker {node_id}; there are {sorted(self._cluster.brokers)}")
        return self._cluster.brokers[node_id]

    def _partition(self, topic: str, index: int) -> Partition:
        partition = self._cluster.partition(topic, index)
        if partition is None:
            raise ValueError(self._cluster.no_partition(topic, index))
        return partition

    def _replica(self, partition: Partition, node_id: int) -> None:
        self._broker(node_id)
        held = partition.replicas
        if node_id not in held:
            only = f" alone; create the topic with a replication factor of {len(self._cluster.brokers)}"
            where = f"{partition.topic}-{partition.index}, which is on {held if len(held) > 1 else f'broker {held[0]}{only}'}"
            raise ValueError(f"broker {node_id} has no replica of {where}")
