"""Converts a group with members to another protocol (group.consumer.migration.policy, KIP-848).

A classic group of consumers becomes a consumer group when the first member that uses the new protocol joins. The other members
continue to send JoinGroup and SyncGroup (`classic_in_consumer`). When the last member that uses the new protocol leaves, the
group becomes a classic group again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from wirebroker.common.slices import after
from wirebroker.core.cluster import Cluster
from wirebroker.core.groups.assignors import as_assignment
from wirebroker.core.groups.classic import CONSUMER, Group
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.consumer_member import ClassicSide, ConsumerMember, Owned
from wirebroker.core.groups.embedded import read_assignment, read_subscription, version_of, write_assignment
from wirebroker.core.groups.modern import topic_facts
from wirebroker.core.groups.registry import Registry
from wirebroker.core.groups.roster import Member
from wirebroker.core.refusals import Refusal

CANNOT_UPGRADE = "Cannot upgrade classic group {} to consumer group because {}."
MALFORMED = "the embedded consumer protocol is malformed"
CUSTOM = (
    "an unsupported custom assignor is in use. "
    "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade"
)


def policy(cluster: Cluster) -> str:
    """Returns group.consumer.migration.policy in capitals."""
    return str(cluster.configs.value("group.consumer.migration.policy")).upper()


def upgrade_error(group: Group, cluster: Cluster) -> Refusal | None:
    """Returns a refusal if this classic group cannot become a consumer group, else None. The group must have members."""
    reason = None
    if policy(cluster) not in ("UPGRADE", "BIDIRECTIONAL"):
        reason = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > cluster.configs.integer("group.consumer.max.size"):
        reason = "the group size exceeds the consumer group maximum size"
    return None if reason is None else _cannot_upgrade(group, reason)


def _cannot_upgrade(group: Group, reason: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, CANNOT_UPGRADE.format(group.group_id, reason))


def upgraded(group: Group, registry: Registry) -> Generator[None, Any, ConsumerGroup | Refusal]:
    """Returns a consumer group with the members of a classic group, and asks these members to join again. The members and the
    state of the classic group do not change."""
    topics = registry.cluster.topics
    group.refuse_waiting(ErrorCode.REBALANCE_IN_PROGRESS)
    members, protocol = list(group.members.values()), group.protocol  # a timer may change the group between slices
    speak = [{name for name, _ in member.protocols} for member in members]
    if protocol is None or any(protocol not in names for names in speak):
        # Kafka's code fails if the group had no generation yet, or if a new member does not support the group's protocol.
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    made = ConsumerGroup(group.group_id, registry.changes)
    made.epoch = made.assignment_epoch = group.generation
    for member in members:
        try:
            subscription = read_subscription(member.metadata(protocol))
            given = read_assignment(member.assignment) if member.assignment else None
        except ProtocolError:
            return _cannot_upgrade(group, MALFORMED)
        if given is not None and given.user_data:
            return _cannot_upgrade(group, CUSTOM)
        partitions = {each.topic: each.partitions for each in given.assigned_partitions} if given else {}
        known = {topics[name].topic_id: held for name, held in partitions.items() if name in topics}
        yield from after(subscription.topics)
        made.targets[member.member_id] = yield from as_assignment(known)
        owned: Owned = {topic: dict.fromkeys(held, group.generation) for topic, held in known.items()}
        made.update(_consumer_member(member, subscription, owned, group.generation))
        yield from after(subscription.topics)
    made.facts = topic_facts(made.subscriptions.topics(), topics)
    return made


def _consumer_member(member: Member, subscription: ConsumerProtocolSubscription, owned: Owned, epoch: int) -> ConsumerMember:
    return ConsumerMember(
        member.member_id, epoch, epoch, subscription.rack_id or None, member.client_id, member.client_host,
        member.rebalance_timeout, instance_id=member.instance_id, topics=frozenset(subscription.topics), assigned=owned,
        classic=ClassicSide(member.session_timeout, tuple(member.protocols)),
    )  # fmt: skip


def may_downgrade(group: ConsumerGroup, leaving: Sequence[ConsumerMember], cluster: Cluster, joining: int = 0) -> bool:
    """Tells whether the group may become a classic group when these members leave. All remaining members must use the classic
    protocol, and their number and the migration policy must allow the change. `joining` is the number of classic members that
    join at the same time."""
    left = len(group.members) - len(leaving) + joining
    if group.classic_members - sum(member.classic is not None for member in leaving) + joining != left or left <= 0:
        return False
    return left <= cluster.configs.integer("group.max.size") and policy(cluster) in ("DOWNGRADE", "BIDIRECTIONAL")


def make_classic(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], joining: ConsumerMember | None, rebalance: bool,
    registry: Registry, now: int,
) -> ErrorCode:  # fmt: skip
    """Convert a consumer group to a classic group. The members in `leaving` are left out, and `joining` (if given) is added.
    Returns the error for the client if that fails."""
    made = registry.new_classic(group.group_id, now)
    try:
        downgraded(group, leaving, joining, made, registry.cluster)
    except ProtocolError:  # the subscription of a member cannot be read
        return ErrorCode.GROUP_ID_NOT_FOUND
    if error := registry.log(group.group_id, [*group.tombstones(), made.record()], now):
        return error
    registry.enter(made, now)
    made.is_written()
    for member in made.members.values():
        made.alive(member, now)
    if rebalance:
        made.prepare_rebalance(now)
    return ErrorCode.NONE


def downgraded(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], joining: ConsumerMember | None, made: Group, cluster: Cluster
) -> None:
    """Fill a new classic group with the members of a consumer group, except the members in `leaving`. If a member has the
    group.instance.id of `joining`, `joining` replaces this member."""
    gone = {member.member_id for member in leaving}
    stay = [group.members[member_id] for member_id in group.in_order() if member_id not in gone]
    if joining is not None:
        stay = [member for member in stay if member.instance_id != joining.instance_id] + [joining]
    members = []
    for member in stay:
        assert member.classic is not None
        members.append(
            Member(
                member.member_id, member.instance_id, member.client_id, member.client_host, member.rebalance_timeout,
                member.classic.session_timeout, member.classic.protocols, is_new=False,
            )
        )  # fmt: skip

    targets = {member.member_id: group.target_of(member) for member in stay}

    def assignment(member: Member, protocol: str) -> bytes:
        known = cluster.topics_by_id
        target = targets[member.member_id]
        named = {known[topic].name: held for topic, held in target.items() if topic in known}
        return write_assignment(named, version_of(member.metadata(protocol)))

    made.take_over(group.epoch, members, assignment)
