"""The requests of KIP-848 groups: ConsumerGroupHeartbeat, and the removal of members.

The rules come from Kafka's GroupMetadataManager. The result of a heartbeat is computed first, and written to the log at the
end. So a refused request changes nothing. Requests about many topics run in slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from kafkawire.primitives import format_uuid, new_uuid
from wirebroker.common.slices import after, weighted_pauses
from wirebroker.core.groups import migration
from wirebroker.core.groups.assignors import ASSIGNORS, NOTHING, Partitions, Subscriber
from wirebroker.core.groups.assignors import Group as AssignorGroup
from wirebroker.core.groups.classic import Group as ClassicGroup
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.consumer_log import regex_tombstones
from wirebroker.core.groups.consumer_member import Claimed, ConsumerMember, Target, reconcile
from wirebroker.core.groups.consumer_regexes import Regexes
from wirebroker.core.groups.metadata_hash import metadata_hash
from wirebroker.core.groups.modern import LEAVES, LEAVES_FOR_A_WHILE
from wirebroker.core.groups.modern_heartbeats import (
    HeartbeatResult,
    ModernGroups,
    Step,
    blank_name,
)
from wirebroker.core.groups.registry import Registry
from wirebroker.core.java_order import buckets_for, hash_order, java_hash, set_of_names, topic_ids
from wirebroker.core.patterns import PatternError, compile_pattern
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases.changes import since

FOLLOWS_ASSIGNORS = since("4.4", "a consumer group's epoch increases if its members choose another assignor")


class GroupHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat. A field that has not changed is None; if the rebalance timeout (in ms) has not changed, it is
    −1."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: int
    topics: Sequence[str] | None
    regex: str | None
    assignor: str | None
    claimed: Claimed | None
    client_id: str
    client_host: str
    sees: Callable[[str], bool] | None = None
    """Tells whether the client may see a topic. The member's regular expression matches only topics that the client may see.

    None means that the client may see all topics.
    """

    def changes_no_field_of(self, member: ConsumerMember) -> bool:
        """Tells whether the heartbeat changes no field of the member. This is so for nearly all heartbeats."""
        sent = (self.instance_id, self.rack_id, self.rebalance_timeout, self.topics, self.regex, self.assignor)
        client = (member.client_id, member.client_host, member.classic)
        return sent == (None, None, -1, None, None, None) and (self.client_id, self.client_host, None) == client


class ConsumerStep(Step[ConsumerGroup, ConsumerMember], kw_only=True):
    """A change of a consumer group that is computed, but not written yet."""

    same: bool
    """Tells whether all members will subscribe to the same topics once this change is made."""
    forgotten_regex: str | None = None

    @property
    def resubscribes(self) -> bool:
        """Tells whether the member's subscription changes."""
        return self.old.topics != self.new.topics or self.old.regex != self.new.regex

    def other_records(self) -> Iterable[CoordinatorRecord]:
        """Returns the tombstone of the regular expression that the group forgets, if there is one."""
        forgotten = self.forgotten_regex
        if forgotten is None or forgotten not in self.group.resolved:
            return ()
        return regex_tombstones(self.group.group_id, [forgotten])

    def apply(self, targets: Mapping[str, Partitions], now: int) -> None:
        if self.forgotten_regex is not None:
            self.group.resolve(self.forgotten_regex, None)
        super().apply(targets, now)


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerMember]):
    def __init__(self, registry: Registry) -> None:
        super().__init__(registry, ConsumerGroup)
        self.regexes = Regexes(self)

    # Settings

    def _known_assignors(self) -> list[str]:
        names = self._cluster.configs.value("group.consumer.assignors")
        return [str(name) for name in names] if isinstance(names, list) else []

    def default_assignor(self) -> str:
        """Returns the assignor of a group in which no member requests an assignor."""
        return self._known_assignors()[0]

    # Heartbeats

    def request_error(self, requested: GroupHeartbeat, version: int) -> Refusal | None:
        """Returns the refusal of a request that is invalid for every group, or None."""
        invalid = ErrorCode.INVALID_REQUEST
        named = {"GroupId": requested.group_id, "InstanceId": requested.instance_id, "RackId": requested.rack_id}
        needs_id = version >= 1 or requested.epoch > 0 or requested.epoch == LEAVES
        member = {"MemberId": requested.member_id} if needs_id else {}
        if blank := blank_name({**member, **named}):
            return Refusal(invalid, blank)
        if requested.epoch == 0:
            if requested.rebalance_timeout == -1:
                return Refusal(invalid, "RebalanceTimeoutMs must be provided in first request.")
            if requested.claimed is None or requested.claimed:
                return Refusal(invalid, "TopicPartitions must be empty when (re-)joining.")
            if requested.topics is None and requested.regex is None:
                either = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
                return Refusal(invalid, either)
        elif requested.epoch == LEAVES_FOR_A_WHILE:
            if requested.instance_id is None:
                return Refusal(invalid, "InstanceId can't be null.")
        elif requested.epoch < LEAVES_FOR_A_WHILE:
            return Refusal(invalid, "MemberEpoch is invalid.")
        known = self._known_assignors()
        if requested.assignor is not None and requested.assignor not in known:
            offered = f"Supported assignors: {', '.join(set_of_names(known))}."
            return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {requested.assignor} is not supported. {offered}")
        return None

    def heartbeat(self, requested: GroupHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refusal]:
        """Handle the heartbeat of a member that joins, stays or leaves."""
        leaves = requested.epoch in (LEAVES, LEAVES_FOR_A_WHILE)
        steps = self._leave(requested, now) if leaves else self._stay(requested, now)
        return (yield from self.changes.alone(requested.group_id, steps))

    def find_or_upgrade(self, requested: GroupHeartbeat) -> Generator[None, Any, ConsumerGroup | Refusal]:
        """Returns the group of a heartbeat, or the refusal.

        If a classic group may be converted, returns a new group with the members of the classic group.
        """
        held = self.registry.groups.get(requested.group_id)
        if requested.epoch == 0 and isinstance(held, ClassicGroup) and not held.is_empty:
            if refused := migration.upgrade_error(held, self._cluster):
                return refused
            return (yield from migration.upgraded(held, self.registry))
        return self.find(requested.group_id, create=requested.epoch == 0)

    def _stay(self, requested: GroupHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refusal]:
        group = yield from self.find_or_upgrade(requested)
        if isinstance(group, Refusal):
            return group
        if full := self.is_full(group, requested.member_id, requested.instance_id):
            return full
        member_id = requested.member_id or self.new_member_id()
        found = self.sender(
            group, member_id, requested.instance_id, requested.epoch, lambda member: member.owns_all(requested.claimed)
        )
        if isinstance(found, Refusal):
            return found
        old, replaces = found
        step = yield from self.step(group, old, _updated(old, requested), replaces)
        if isinstance(step, Refusal):
            return step
        target_epoch, target = yield from self.compute_target(step, now)
        yield from self.reconcile(step, target_epoch, target, requested.claimed)
        due = self.regexes.due(group, old, step.new, now)
        if refused := (yield from self.write_down(step, now)):
            return Refusal(refused)
        self.await_heartbeat(group, member_id, now)
        if due:
            yield from self.regexes.match(group, requested.sees, now)
        full_request = requested.rebalance_timeout != -1 and requested.claimed is not None
        full_request = full_request and (requested.topics is not None or requested.regex is not None)
        included = requested.epoch == 0 or full_request or old.assigned != step.new.assigned
        interval = self.setting(requested.group_id, "heartbeat.interval.ms")
        return HeartbeatResult(member_id, step.new.epoch, interval, step.new.assigned if included else None)

    def new_member_id(self) -> str:
        """Returns a new member id: Kafka's Uuid as text."""
        return format_uuid(new_uuid(self._cluster.random_bytes))

    # Computing the result

    def step(
        self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, replaces: str | None
    ) -> Generator[None, Any, ConsumerStep | Refusal]:
        """Computes how the group changes when `new` replaces `old`. Returns a refusal if a new regular expression does not
        compile."""
        bumps = not group.epoch or old.topics != new.topics or self._chooses_otherwise(group, old, new)
        forgotten = None
        if old.regex != new.regex:
            if old.regex and group.subscriptions.regexes[old.regex] == 1:
                forgotten = old.regex
            if new.regex and not group.subscriptions.regexes[new.regex]:
                try:
                    compile_pattern(new.regex)
                except PatternError as error:
                    message = f"SubscribedTopicRegex `{new.regex}` is not a valid regular expression: {error}."
                    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
            # A new expression that has no matches yet raises the epoch later, when it is matched.
            bumps = bumps or not new.regex or new.regex in group.resolved
        if not bumps and not self._facts_are_old(group):
            return ConsumerStep(
                group=group, old=old, new=new, replaces=replaces, epoch=group.epoch, facts=group.facts, same=group.same,
                forgotten_regex=forgotten,
            )  # fmt: skip
        yield from after(new.topics)
        would_be = group.subscriptions_without([old], new)
        yield from after(would_be.names)
        size = len(group.members)
        if new.member_id not in group.members and (new.instance_id or "") not in group.static_members:
            size += 1
        facts = self.facts(would_be.topics())
        group.facts_version = self._cluster.version
        epoch = group.epoch + (bumps or facts != group.facts)
        yield from after(facts)
        return ConsumerStep(
            group=group, old=old, new=new, replaces=replaces, epoch=epoch, facts=facts, same=would_be.same(size),
            forgotten_regex=forgotten,
        )  # fmt: skip

    def _chooses_otherwise(self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Tells whether the group's assignor changes when `new` replaces `old`."""
        if new.assignor == old.assignor or new.speaks_classic or not FOLLOWS_ASSIGNORS.of(self.release):
            return False
        default = self.default_assignor()
        return (group.assignor_with(old, old) or default) != (group.assignor_with(old, new) or default)

    def _facts_are_old(self, group: ConsumerGroup) -> bool:
        """Tells whether the group's topics have changed since they were last compared with `facts`."""
        version = self._cluster.version
        if group.facts_version == version:
            return False
        if group.facts_version is None or self.facts(group.subscriptions.topics()) != group.facts:
            return True
        group.facts_version = version
        return False

    def _assign(self, step: ConsumerStep) -> Generator[None, Any, Mapping[str, Partitions]]:
        assignor = step.group.assignor_with(step.old, step.new) or self.default_assignor()
        wanted = yield from self._for_assignor(step)
        made = yield from ASSIGNORS[assignor](wanted)
        return {member_id: made.get(member_id, NOTHING) for member_id in wanted.members}

    def _for_assignor(self, step: ConsumerStep) -> Generator[None, Any, AssignorGroup]:
        group, new, known = step.group, step.new, self._cluster.topics_by_id
        ids = group.in_order()
        if new.member_id not in group.members:
            ids.append(new.member_id)
        ids = hash_order(ids, java_hash, buckets_for(len(ids)))
        cached: dict[frozenset[str], list[bytes]] = {}
        sizes: dict[bytes, int] = {}
        members: dict[str, Subscriber] = {}
        pause = weighted_pauses()
        for member_id in ids:
            if member_id == step.replaces and member_id != new.member_id:
                continue
            member = new if member_id == new.member_id else group.members[member_id]
            wanted = group.topics_of(member)
            if wanted not in cached:
                cached[wanted] = yield from topic_ids(wanted, self._cluster.topics)
                sizes |= {topic_id: len(known[topic_id].partitions) for topic_id in cached[wanted]}
                yield from after(wanted)
            given = group.targets.get(member_id, NOTHING)
            if member_id == new.member_id and new.instance_id is not None:
                given = group.targets.get(group.static_members.get(new.instance_id, member_id), NOTHING)
            members[member_id] = Subscriber(member.instance_id, cached[wanted], given)
        taken: dict[bytes, set[int]] = defaultdict(set)
        for given in group.targets.values():
            for topic, indexes in given.items():
                taken[topic].update(indexes)
            yield from pause(len(given))
        return AssignorGroup(members, sizes, step.same, taken)

    def reconcile(
        self, step: ConsumerStep, epoch: int, target: Partitions, claimed: Claimed | None
    ) -> Generator[None, Any, None]:
        """Move the member one step towards its target assignment."""
        group, member = step.group, step.new
        if not step.resubscribes and member.reconciled_to(epoch):
            return
        names, topics = group.topics_of(member), self._cluster.topics
        subscribed = frozenset(topics[name].topic_id for name in names if name in topics)
        yield from after(subscribed)
        aim = Target(epoch, target, subscribed, not names)
        step.new = reconcile(member, aim, step.resubscribes, group.owner_epoch, claimed)
        step.moved = step.new != member
        yield from after(target)

    def write(
        self, group: ConsumerGroup, records: Iterable[CoordinatorRecord | None], now: int
    ) -> Generator[None, Any, ErrorCode]:
        """Write records to the log and register the group. If the group was converted from a classic group, the records of its
        members are written first."""
        if group.members and self.registry.groups.get(group.group_id) is not group:
            records = chain(group.all_records(metadata_hash(group.facts, self._cluster)), records)
        return (yield from super().write(group, records, now))

    def _entered(self, group: ConsumerGroup, now: int) -> None:
        """Start the session timers of the members that come from a classic group, so that a member that sends nothing is
        removed."""
        for member in group.members.values():
            if member.classic is not None:
                self.await_heartbeat(group, member.member_id, now, member.classic.session_timeout)

    # Leaving

    def _leave(self, requested: GroupHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refusal]:
        refused = yield from self.leave(requested.group_id, requested.member_id, requested.instance_id, requested.epoch, now)
        return refused or HeartbeatResult(requested.member_id, requested.epoch)

    def fence(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now: int) -> ErrorCode:
        """Remove these members. If only classic members remain, the group may become a classic group."""
        if not leaving:
            return ErrorCode.NONE
        if migration.may_downgrade(group, leaving, self._cluster):
            return migration.make_classic(group, leaving, None, True, self.registry, now)
        if self._facts_are_old(group):
            group.facts_version = None
        left = group.subscriptions_without(leaving)
        unused = [regex for regex in group.resolved if regex in group.subscriptions.regexes and regex not in left.regexes]
        return self.remove(group, leaving, self.facts(left.topics()), regex_tombstones(group.group_id, unused), now)

    # Loading

    def loaded(self, group: ConsumerGroup, now: int) -> None:
        """Continue with a group that was read from the log."""
        for regex, resolved in list(group.resolved.items()):
            group.resolve(regex, resolved._replace(created=self._cluster.topics_created))
        super().loaded(group, now)


def _updated(member: ConsumerMember, requested: GroupHeartbeat) -> ConsumerMember:
    """Returns a copy of the member with the new values from this request."""
    if requested.changes_no_field_of(member):
        return member
    return replace(
        member,
        instance_id=member.instance_id if requested.instance_id is None else requested.instance_id,
        rack_id=member.rack_id if requested.rack_id is None else requested.rack_id,
        rebalance_timeout=member.rebalance_timeout if requested.rebalance_timeout == -1 else requested.rebalance_timeout,
        assignor=member.assignor if requested.assignor is None else requested.assignor,
        topics=member.topics if requested.topics is None else frozenset(requested.topics),
        regex=member.regex if requested.regex is None else requested.regex,
        client_id=requested.client_id,
        client_host=requested.client_host,
        classic=None,
    )
