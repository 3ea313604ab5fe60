"""Elections of leaders and changes of the in-sync replicas, as Kafka's controller makes them (PartitionChangeBuilder).

These are pure functions over a `Registration`. A new cluster of Kafka 4.3 has eligible leader replicas (KIP-966): a
partition may have no in-sync replica at all, and a replica that left them while they were fewer than min.insync.replicas
stays eligible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

NO_LEADER = -1


class Registration(NamedTuple):
    """The controller's state of a partition. `last_known_leader` is set while there is no leader."""

    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    last_known_leader: int | None = None


class Circumstances(NamedTuple):
    """The conditions of an election besides the partition's own state."""

    replicas: Sequence[int]
    """In the order of assignment; the first one that may lead is elected."""
    alive: Callable[[int], bool]
    min_in_sync: int
    """min.insync.replicas, but at most the number of replicas."""
    unclean: bool
    """Whether a replica that is not in sync may lead, if no other can (unclean.leader.election.enable)."""
    keeps_eligible: bool = True
    """Whether the cluster has eligible leader replicas; without them the last in-sync replicas stay in sync."""


def elect(known: Registration, where: Circumstances, in_sync: Iterable[int], *, preferred: bool = False) -> Registration:
    """The partition's state once these are its in-sync replicas.

    The leader stays if it may; with `preferred` the first replica leads if it may.
    """
    in_sync = tuple(in_sync)
    if not where.keeps_eligible:
        known = known._replace(eligible=(), last_known_leader=None)
        in_sync = in_sync or known.in_sync
    eligible: tuple[int, ...] = ()
    if where.keeps_eligible and len(in_sync) < where.min_in_sync:
        candidates = sorted({*known.eligible, *known.in_sync})
        eligible = tuple(each for each in candidates if each not in in_sync)
    leader = _choose(known, where, in_sync or eligible, preferred)
    last_known = known.last_known_leader
    clean = leader is not None
    if leader is None and not in_sync and not eligible and last_known is not None and where.alive(last_known):
        leader = last_known
    if leader is None and where.unclean:
        leader = next(filter(where.alive, where.replicas), None)
    if leader is None:
        if where.keeps_eligible and known.leader != NO_LEADER and last_known is None:
            last_known = known.leader
        return Registration(NO_LEADER, _epoch(known, NO_LEADER), in_sync, eligible, last_known)
    if leader != known.leader and (not clean or leader in eligible):
        eligible = tuple(each for each in eligible if each != leader) if clean else ()
        in_sync = (leader,)
    return Registration(leader, _epoch(known, leader), in_sync, eligible)


def _choose(known: Registration, where: Circumstances, candidates: tuple[int, ...], preferred: bool) -> int | None:
    first = where.replicas[:1] if preferred else ()
    for each in (*first, known.leader, *where.replicas):
        if each in candidates and where.alive(each):
            return each
    return None


def _epoch(known: Registration, leader: int) -> int:
    return known.leader_epoch + (leader != known.leader)
