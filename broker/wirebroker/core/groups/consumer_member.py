"""A member of a consumer group, and the steps from its assigned partitions to its target (KIP-848).

`reconcile` is Kafka's CurrentAssignmentBuilder. A member first gives up the partitions that are not in its target assignment.
Then the member moves to the epoch of the target assignment. The member gets each further partition as soon as no other member
owns the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from wirebroker.core.groups.modern import LEAVES_FOR_A_WHILE, MemberState, ModernMember

NOT_OWNED = -1

Owned = Mapping[bytes, Mapping[int, int]]
"""The member epoch at which each partition was assigned, by topic id and partition."""
Claimed = Sequence[tuple[bytes, Sequence[int]]]
"""The topic ids and partitions that a member claims to own."""


class ClassicSide(Struct, frozen=True):
    """The data about a member of a consumer group, if the member uses the classic protocol. The timeout is in ms."""

    session_timeout: int
    protocols: Sequence[tuple[str, bytes]]


class ConsumerMember(ModernMember, frozen=True):
    topics: frozenset[str] = frozenset()
    regex: str = ""
    """The member subscribes to the topics whose names match this regular expression. If this is empty, the member has no
    regular expression."""
    assignor: str | None = None
    assigned: Owned = {}
    revoking: Owned = {}
    """The partitions that the member must give up."""
    classic: ClassicSide | None = None
    """The data of the classic protocol; None if the member does not use this protocol."""

    @property
    def speaks_classic(self) -> bool:
        return self.classic is not None

    def away(self) -> ConsumerMember:
        assigned = {topic: dict.fromkeys(owned, 0) for topic, owned in self.assigned.items()}
        return replace(self, epoch=LEAVES_FOR_A_WHILE, assigned=assigned, revoking={})

    def assignment_epoch(self, topic_id: bytes, index: int) -> int | None:
        """Returns the epoch at which the partition was assigned to the member, or None if the member does not own the
        partition."""
        for owned in (self.assigned, self.revoking):
            if index in owned.get(topic_id, {}):
                return owned[topic_id][index]
        return None

    def owns_all(self, claimed: Claimed | None) -> bool:
        """Tells whether all partitions that the member claims are assigned to the member."""
        if claimed is None:
            return False
        return all(index in self.assigned.get(topic, {}) for topic, indexes in claimed for index in indexes) and all(
            topic in self.assigned for topic, _ in claimed
        )


class Target(NamedTuple):
    """A member's target assignment with its epoch, and the ids of the topics to which the member subscribes."""

    epoch: int
    partitions: Mapping[bytes, Collection[int]]
    subscribed: Container[bytes]
    subscribes_to_nothing: bool


def reconcile(
    member: ConsumerMember, target: Target, changed: bool, owner_epoch: Callable[[bytes, int], int],
    claimed: Claimed | None,
) -> ConsumerMember:  # fmt: skip
    """Returns the member as it is after one step towards its target assignment.

    `changed` tells whether the member's subscription has just changed. `owner_epoch` returns the epoch of a partition's owner,
    or NOT_OWNED. `claimed` are the partitions that the member's request lists as owned, or None if the request has no such
    list.
    """
    if not changed and member.reconciled_to(target.epoch):
        return member
    if member.state is MemberState.STABLE:
        if member.epoch != target.epoch:
            return _next(member, target, owner_epoch, claimed)
        return _only_subscribed(member, target, claimed) if changed else member
    if member.state is MemberState.UNREVOKED and _claims(claimed, member.revoking):
        return _only_subscribed(member, target, claimed) if changed else member
    return _next(member, target, owner_epoch, claimed)


def _claims(claimed: Claimed | None, revoking: Owned) -> bool:
    """Tells whether the member may still own a partition in `revoking`: the member's request lists such a partition as owned,
    or has no list of owned partitions."""
    if claimed is None:
        return True
    return any(index in revoking.get(topic, {}) for topic, indexes in claimed for index in indexes)


def _only_subscribed(member: ConsumerMember, target: Target, claimed: Claimed | None) -> ConsumerMember:
    """Returns a copy of the member without the partitions of those topics to which the member no longer subscribes. The
    member's epoch does not change."""
    dropped = {topic: owned for topic, owned in member.assigned.items() if topic not in target.subscribed}
    if not dropped and not (target.subscribes_to_nothing and not member.revoking):
        return member
    kept = {topic: owned for topic, owned in member.assigned.items() if topic not in dropped}
    revoking = {topic: dict(owned) for topic, owned in member.revoking.items()}
    for topic, owned in dropped.items():
        revoking.setdefault(topic, {}).update(owned)
    if revoking and _claims(claimed, revoking):
        return member.moved(member.epoch, MemberState.UNREVOKED, kept, revoking)
    return member.moved(member.epoch, member.state, kept, member.revoking)


def _next(
    member: ConsumerMember, target: Target, owner_epoch: Callable[[bytes, int], int], claimed: Claimed | None
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic, owned in member.assigned.items():
        wanted = frozenset(target.partitions.get(topic, ()) if topic in target.subscribed else ())
        for index, epoch in owned.items():
            (kept if index in wanted else revoking).setdefault(topic, {})[index] = epoch
    if revoking and _claims(claimed, revoking):
        return member.moved(member.epoch, MemberState.UNREVOKED, kept, revoking)
    waits = False
    for topic, indexes in target.partitions.items():
        if topic not in target.subscribed:
            continue
        for index in indexes:
            if index in member.assigned.get(topic, {}):
                continue
            # A partition that this member gives up is free, because no other member can own it.
            if owner_epoch(topic, index) != NOT_OWNED and index not in member.revoking.get(topic, {}):
                waits = True
            else:
                kept.setdefault(topic, {})[index] = target.epoch
    state = MemberState.UNRELEASED if waits else MemberState.STABLE
    return member.moved(target.epoch, state, kept, {})
