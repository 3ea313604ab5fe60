"""The broker's timers, by the names of their actions. For each timer: how a schedule meets it, or why no schedule can meet
it.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "timer: "
"""The kind of a timer is this prefix and the timer's name."""


class Timer(NamedTuple):
    """A timer that a schedule can meet."""

    first: tuple[str, ...] = ()
    """The kinds of steps that set the timer."""
    clock: str = "clock: minutes"
    """The kind of step in which the timer fires."""
    seed: int = 0
    """With this seed, a plan that begins with the steps in `first` meets the timer."""


HOURS, MINUTES, SECONDS = "clock: hours", "clock: minutes", "clock: seconds"
TIMERS: dict[str, Timer] = {
    "Compaction._rounds": Timer(),
    "Controller._check_lag": Timer(("cluster: freeze_replica",), seed=5),
    "Controller.balance": Timer((), HOURS),
    "Controller.reassign.<locals>.<lambda>": Timer(("reassignments are slow", "AlterPartitionReassignments"), HOURS),
    "Decisions._again": Timer(("the disk is full", "CreateAcls", "AlterClientQuotas", "the disk is well again"), SECONDS),
    "Delayed._finish": Timer(("cluster: freeze_replica", "cluster: freeze_replica", "Produce", "Produce"), SECONDS, 10),
    "Engine.unauthenticated.<locals>.end": Timer(("SaslHandshake", "SaslAuthenticate"), SECONDS, 8),
    "Exchange.mute.<locals>.end": Timer(("quota: set", "Produce", "Produce"), MINUTES, 4),
    "FaultPlan._close": Timer(("fault: close", "Metadata", "Fetch", "Produce"), SECONDS),
    "FaultPlan.hold.<locals>.<lambda>": Timer(("fault: delay", "Metadata", "Fetch", "Produce")),
    "Fetch._finish": Timer(("Fetch", "Fetch", "Fetch"), SECONDS, 2),
    "FolderStore._sync_by_timer": Timer((), HOURS),
    "FolderStore.checkpoint": Timer((), HOURS),
    "FolderStore.compact": Timer((), HOURS),
    "Group._await_heartbeat.<locals>.expire": Timer(("JoinGroup", "JoinGroup", "SyncGroup"), HOURS, 7),
    "Group._complete_late_join": Timer(("JoinGroup", "SyncGroup", "JoinGroup", "a member's session ends"), SECONDS, 23),
    "Group._complete_join": Timer(("JoinGroup", "JoinGroup", "JoinGroup"), MINUTES, 23),
    "Group._sync_expired": Timer(("JoinGroup", "JoinGroup"), MINUTES, 1),
    "Group.add_pending.<locals>.expire": Timer(("JoinGroup",), HOURS, 2),
    "GroupCoordinator._expire_offsets": Timer((), HOURS),
    "Maintenance._expire_producers": Timer((), HOURS),
    "Maintenance._expire_tokens": Timer((), HOURS),
    "Maintenance._retain": Timer((), HOURS),
    "ModernGroup.set_timer.<locals>.<lambda>": Timer(("ConsumerGroupHeartbeat", "ShareGroupHeartbeat"), MINUTES, 2),
    "ShareCoordinator._prune": Timer((), HOURS),
    "ShareCoordinator._write_again": Timer((), HOURS),
    "ShareFetch._expire": Timer(("ShareGroupHeartbeat", "ShareFetch", "ShareFetch"), SECONDS),
    "SharePartition.lock.<locals>.<lambda>": Timer(
        ("ShareGroupHeartbeat", "ShareFetch", "Produce", "ShareFetch", "ShareFetch"), MINUTES, 59
    ),
    "TransactionCoordinator._abort_timed_out": Timer((), HOURS),
    "TransactionCoordinator._expire": Timer((), HOURS),
    "TransactionCoordinator._retry.<locals>.again": Timer(("Produce", "a partition goes offline"), MINUTES, 22),
    "Upgrading.go_on": Timer(("upgrade",), SECONDS, 2),
}
"""The timers that schedules can meet."""
NO_TIMERS = {
    "Cluster.auto_create_topic.<locals>.<lambda>": "topics are created at once unless the clock is the system's",
    "Cluster.create_internal_topic.<locals>.<lambda>": "coordinators load at once unless the clock is the system's",
    "Cluster.keep_name.<locals>.free": "only releases with ZooKeeper keep names, and schedules have none",
    "DeadLetters._sent.<locals>.<lambda>": "no dialogue asks for dead letters",
    "Engine._hold_back.<locals>.<lambda>": "a quota on connections would hold back the world's own administrator, too",
    "Exchange._send_later.<locals>.<lambda>": "a test's own function decides on the delay, and schedules have none",
    "Group._wait_for_first_members.<locals>.over": "group.initial.rebalance.delay.ms is 0, because schedules are short",
    "Handshakes._stall.<locals>.<lambda>": "there are no handshakes without sockets",
    "Interest._end": "only a proxy observes",
    "handle.<locals>.<lambda>": "a schedule opens fewer share sessions than the broker allows",
}
"""The other timers, and why no schedule can meet them."""
