"""Elections of leaders and changes of the in-sync replicas, as Kafka's controller makes them (PartitionChangeBuilder).

The functions of this module are pure functions over a `Registration`. A new cluster of Kafka 4.3 has eligible leader replicas
(KIP-966). With eligible leader replicas a partition may have no in-sync replica at all. A replica that falls out of sync while
fewer than min.insync.replicas replicas are in sync stays eligible to lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

NO_LEADER = -1


class Assignment(NamedTuple):
    """The replicas of a partition, the preferred leader first. During a reassignment, the leaving replicas come last."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def in_progress(self) -> bool:
        """Tells whether replicas are being moved."""
        return bool(self.adding or self.removing)

    def towards(self, wanted: Sequence[int]) -> Assignment:
        """Returns the assignment during a reassignment to these brokers (PartitionReassignmentReplicas).

        As in Kafka, if the new reassignment adds no replica, the additions of the previous reassignment stay in progress. In
        the same way, if the new reassignment removes no replica, the removals of the previous reassignment stay in progress.
        """
        removing = tuple(sorted(set(self.replicas).difference(wanted)))
        adding = tuple(sorted(set(wanted).difference(self.replicas)))
        return Assignment((*wanted, *removing), adding or self.adding, removing or self.removing)

    def reverted(self) -> Assignment:
        """Returns the assignment without the replicas that are being added (PartitionReassignmentRevert)."""
        return Assignment(tuple(each for each in self.replicas if each not in self.adding))

    def completed(self) -> Assignment:
        """Returns the assignment without the replicas that are being removed."""
        return Assignment(tuple(each for each in self.replicas if each not in self.removing))

    def may_complete(self, in_sync: Iterable[int]) -> bool:
        """Tells whether enough of the new replicas are in sync (maybeCompleteReassignment)."""
        kept, left = self.completed().replicas, {each for each in in_sync if each not in self.removing}
        if not self.in_progress or (self.removing and not (left and kept)):
            return False
        shrinks = len(self.adding) < len(self.removing)
        return left.issuperset(self.adding) and (not shrinks or left.issuperset(kept))


class Registration(NamedTuple):
    """The controller's state of a partition. `last_known_leader` is set while the partition has no leader."""

    assignment: Assignment
    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    last_known_leader: int | None = None


class Circumstances(NamedTuple):
    """Those conditions of an election that are not part of the partition's state."""

    alive: Callable[[int], bool]
    min_in_sync: int
    """The value of min.insync.replicas, but at most the number of replicas."""
    unclean: bool
    """Tells whether a replica that is not in sync may lead as a last resort (unclean.leader.election.enable)."""
    keeps_eligible: bool = True
    """Tells whether the cluster has eligible leader replicas.

    In a cluster without eligible leader replicas, the last in-sync replicas stay in sync even when they are down.
    """


def elect(
    known: Registration, where: Circumstances, in_sync: Iterable[int], *, to: Assignment | None = None, preferred: bool = False
) -> Registration:
    """Returns the partition's state with these in-sync replicas and, if `to` is given, with the assignment `to`.

    If enough replicas are in sync, a reassignment in progress is completed. The leader stays the leader if it may lead;
    otherwise the first replica that may lead becomes the leader. With `preferred`, the preferred replica becomes the leader if
    it may lead.
    """
    assignment, in_sync = to or known.assignment, tuple(in_sync)
    if assignment.may_complete(in_sync):
        in_sync = tuple(each for each in in_sync if each not in assignment.removing)
        assignment = assignment.completed()
    if not where.keeps_eligible:
        known = known._replace(eligible=(), last_known_leader=None)
        in_sync = in_sync or known.in_sync
    eligible: tuple[int, ...] = ()
    if where.keeps_eligible and len(in_sync) < where.min_in_sync:
        eligible = tuple(each for each in sorted({*known.eligible, *known.in_sync}) if each not in in_sync)
    replicas = assignment.replicas
    first = replicas[:1] if preferred else ()
    candidates = in_sync or eligible
    leader = next((each for each in (*first, known.leader, *replicas) if each in candidates and where.alive(each)), None)
    last_known = known.last_known_leader
    clean = leader is not None
    if leader is None and not in_sync and not eligible and last_known is not None and where.alive(last_known):
        leader = last_known
    if leader is None and where.unclean:
        leader = next(filter(where.alive, replicas), None)
    if leader is None:
        if where.keeps_eligible and known.leader != NO_LEADER and last_known is None:
            last_known = known.leader
        return Registration(assignment, NO_LEADER, _epoch(known, assignment, NO_LEADER), in_sync, eligible, last_known)
    if leader != known.leader and (not clean or leader in eligible):
        eligible = tuple(each for each in eligible if each != leader) if clean else ()
        in_sync = (leader,)
    return Registration(assignment, leader, _epoch(known, assignment, leader), in_sync, eligible)


def _epoch(known: Registration, assignment: Assignment, leader: int) -> int:
    """Returns the next leader epoch. The epoch rises if the leader changes or if a replica is removed."""
    loses = not set(assignment.replicas).issuperset(known.assignment.replicas)
    return known.leader_epoch + (leader != known.leader or loses)
