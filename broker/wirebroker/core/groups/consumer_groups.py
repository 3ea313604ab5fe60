"""The requests of KIP-848 groups: ConsumerGroupHeartbeat, and the removal of members.

The rules are those of GroupMetadataManager in Kafka 4.3.1. A heartbeat's result is computed first and written down only at
the end, so a refused request changes nothing. Requests about many topics are handled in slices.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafkawire.errors import ErrorCode
from wirebroker.common.slices import after, at_once, pauses, weighted_pauses
from wirebroker.core.changes import GroupChange
from wirebroker.core.cluster import Cluster
from wirebroker.core.config_resources import group_number
from wirebroker.core.coordinator_errors import RETRY_MS
from wirebroker.core.groups.assignors import ASSIGNORS, NOTHING, Partitions, Subscriber
from wirebroker.core.groups.assignors import Group as AssignorGroup
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.consumer import ConsumerGroup, Resolved, Subscriptions, TopicFacts
from wirebroker.core.groups.java_order import buckets_for, hash_order, set_of_names, topic_ids
from wirebroker.core.groups.members import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    Claimed,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
    reconcile,
)
from wirebroker.core.names import java_hash
from wirebroker.core.patterns import Pattern, PatternError, compile_pattern

REGEX_REFRESH_MIN_MS = 10_000
"""The time after which regular expressions are matched with the topics again, in ms."""
SESSION, REBALANCE, JOIN, SYNC, REGEX = "session", "rebalance", "join", "sync", "regex"
STEPS_AT_ONCE = 500_000
"""The steps of matching with regular expressions in one slice; see `Pattern.learn`."""
MAX_SIZE = "The consumer group has reached its maximum capacity of {} members."
ABANDON = "The member must abandon all its partitions and rejoin."


class Refused(NamedTuple):
    """The error of a refused request, with Kafka's message for the client."""

    code: ErrorCode
    message: str | None = None


class GroupHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat. Fields that are None (−1 for the timeout, in ms) have not changed."""

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
    """Whether a regular expression may find a topic for this client; None: all."""


class HeartbeatResult(NamedTuple):
    """The answer to a heartbeat. `assigned` is None if the member already knows it. The interval is in ms."""

    member_id: str
    epoch: int
    interval: int = 0
    assigned: Owned | None = None


@dataclass(slots=True)
class Change:
    """A member that joins or changes, and the resulting state of its group, before it is written down."""

    group: ConsumerGroup
    old: ConsumerMember
    """The member before the change; if it replaces a static one, that one under the new id."""
    new: ConsumerMember
    replaces: str | None
    """The id of the static member that it replaces."""
    epoch: int
    facts: TopicFacts
    same: bool
    forgotten_regex: str | None = None
    targets: dict[str, Partitions] | None = None
    """The new targets of all members, if they were computed again."""
    moved: bool = False
    """Whether the member came closer to its target, or another target."""


class ConsumerGroups:
    """The consumer groups of the cluster.

    `find` returns the group of a heartbeat, or the refusal. `adopt` prepares a new group to replace the one with its id.
    `downgrade` makes it a classic group if only classic members remain without the given ones, else returns None. `log`
    writes down the changes; if that fails, it undoes them and returns the client's error.
    """

    def __init__(
        self,
        cluster: Cluster,
        changes: Changes,
        find: Callable[[str, bool, int], Generator[None, Any, ConsumerGroup | Refused]],
        adopt: Callable[[ConsumerGroup], Generator[None, Any, None]],
        downgrade: Callable[[ConsumerGroup, Sequence[ConsumerMember], int], ErrorCode | None],
        log: Callable[[ConsumerGroup, int], Generator[None, Any, ErrorCode]],
    ) -> None:
        self._cluster = cluster
        self.changes = changes
        self._find = find
        self._adopt = adopt
        self._downgrade = downgrade
        self._log = log

    # Settings

    def setting(self, group_id: str, name: str) -> int:
        """A group's own setting, else the broker's, in ms."""
        configs = self._cluster.configs
        return group_number(configs.groups.get(group_id, {}), name, configs)

    @property
    def enabled(self) -> bool:
        """Whether group.coordinator.rebalance.protocols includes consumer groups."""
        protocols = self._cluster.configs.value("group.coordinator.rebalance.protocols")
        return isinstance(protocols, list) and "consumer" in protocols

    def _known_assignors(self) -> list[str]:
        names = self._cluster.configs.value("group.consumer.assignors")
        return [str(name) for name in names] if isinstance(names, list) else []

    def default_assignor(self) -> str:
        """The assignor of a group whose members ask for none."""
        return self._known_assignors()[0]

    # Heartbeats

    def request_error(self, requested: GroupHeartbeat, version: int) -> Refused | None:
        """The refusal of a request that is invalid for every group, or None."""
        invalid = ErrorCode.INVALID_REQUEST
        if not requested.member_id and (version >= 1 or requested.epoch > 0 or requested.epoch == LEAVES):
            return Refused(invalid, "MemberId can't be empty.")
        named = {"GroupId": requested.group_id, "InstanceId": requested.instance_id, "RackId": requested.rack_id}
        for name, value in named.items():
            if value is not None and not value.strip():
                return Refused(invalid, f"{name} can't be empty.")
        if requested.epoch == 0:
            if requested.rebalance_timeout == -1:
                return Refused(invalid, "RebalanceTimeoutMs must be provided in first request.")
            if requested.claimed is None or requested.claimed:
                return Refused(invalid, "TopicPartitions must be empty when (re-)joining.")
            if requested.topics is None and requested.regex is None:
                either = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
                return Refused(invalid, either)
        elif requested.epoch == LEAVES_FOR_A_WHILE:
            if requested.instance_id is None:
                return Refused(invalid, "InstanceId can't be null.")
        elif requested.epoch < LEAVES_FOR_A_WHILE:
            return Refused(invalid, "MemberEpoch is invalid.")
        known = self._known_assignors()
        if requested.assignor is not None and requested.assignor not in known:
            offered = f"Supported assignors: {', '.join(set_of_names(known))}."
            return Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {requested.assignor} is not supported. {offered}")
        return None

    def heartbeat(self, requested: GroupHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refused]:
        """A member joins, stays or leaves."""
        leaves = requested.epoch in (LEAVES, LEAVES_FOR_A_WHILE)
        steps = self._leave(requested, now) if leaves else self._heartbeat(requested, now)
        return (yield from self.changes.alone(requested.group_id, steps))

    def _heartbeat(self, requested: GroupHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refused]:
        group = yield from self._find(requested.group_id, requested.epoch == 0, now)
        if isinstance(group, Refused):
            return group
        if error := self.is_full(group, requested.member_id):
            return error
        member_id = requested.member_id or self.new_member_id()
        found = self._member(group, member_id, requested)
        if isinstance(found, Refused):
            return found
        old, replaces = found
        change = yield from self.change(group, old, _updated(old, requested), replaces)
        if isinstance(change, Refused):
            return change
        changed = old.topics != change.new.topics or old.regex != change.new.regex
        target_epoch, target = yield from self.compute_target(change, now)
        yield from self.reconcile(change, target_epoch, target, changed, requested.claimed)
        due = self.regexes_due(change, now)
        if refused := (yield from self.write_down(change, now)):
            return Refused(refused)
        self.await_heartbeat(group, member_id, self.setting(requested.group_id, "consumer.session.timeout.ms"), now)
        yield from self.match_regexes(group, due, requested.sees, now)
        full = requested.rebalance_timeout != -1 and requested.claimed is not None
        full = full and (requested.topics is not None or requested.regex is not None)
        included = requested.epoch == 0 or full or old.assigned != change.new.assigned
        interval = self.setting(requested.group_id, "consumer.heartbeat.interval.ms")
        return HeartbeatResult(member_id, change.new.epoch, interval, change.new.assigned if included else None)

    def new_member_id(self) -> str:
        """An id for a member that sends none: Kafka's Uuid in base64, made again if it begins with a dash."""
        made = "-"
        while made.startswith("-"):
            made = self._base64_id()
        return made

    def _base64_id(self) -> str:
        return base64.urlsafe_b64encode(self._cluster.random_bytes(16)).decode().rstrip("=")

    def is_full(self, group: ConsumerGroup, member_id: str) -> Refused | None:
        """Whether the group has no room for a new member."""
        largest = self._cluster.configs.integer("group.consumer.max.size")
        if len(group.members) >= largest and member_id not in group.members:
            return Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, MAX_SIZE.format(largest))
        return None

    def _member(
        self, group: ConsumerGroup, member_id: str, requested: GroupHeartbeat
    ) -> tuple[ConsumerMember, str | None] | Refused:
        """The member that sent a heartbeat, and the id of the static member that it replaces, if any."""
        joins = requested.epoch == 0
        if requested.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                return (ConsumerMember(member_id), None) if joins else unknown_member(group, member_id)
            return epoch_error(member, requested) or (member, None)
        if error := instance_gone(group, requested.instance_id):
            return error
        static = group.static_member(requested.instance_id)
        if joins:
            if static is None:
                return group.members.get(member_id) or ConsumerMember(member_id), None
            if static.classic is None and static.epoch != LEAVES_FOR_A_WHILE:
                return Refused(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {requested.instance_id} cannot join the group because the "
                    f"instance id is owned by {static.member_id} member.",
                )
            return replace(static, member_id=member_id, epoch=0, previous_epoch=0), static.member_id
        if error := instance_error(static, member_id, requested.instance_id):
            return error
        assert static is not None
        return epoch_error(static, requested) or (static, None)

    # Computing the result

    def change(
        self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, replaces: str | None
    ) -> Generator[None, Any, Change | Refused]:
        """The group after `old` becomes `new`. Refused if a new regular expression does not compile."""
        bumps = old.topics != new.topics
        forgotten = None
        if old.regex != new.regex:
            if old.regex and group.subscriptions.regexes[old.regex] == 1:
                forgotten = old.regex
            if new.regex and not group.subscriptions.regexes[new.regex]:
                try:
                    compile_pattern(new.regex)
                except PatternError as error:
                    message = f"SubscribedTopicRegex `{new.regex}` is not a valid regular expression: {error}."
                    return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
            # An unresolved expression makes the epoch rise when it is resolved.
            bumps = bumps or not new.regex or new.regex in group.resolved
        if not bumps and not self._facts_are_old(group):
            return Change(group, old, new, replaces, group.epoch, group.facts, group.same, forgotten)
        yield from after(new.topics)
        would_be = group.subscriptions_with(old, new)
        yield from after(would_be.names)
        size = len(group.members)
        if new.member_id not in group.members and (new.instance_id or "") not in group.static_members:
            size += 1
        facts = self.facts(would_be)
        group.facts_version = self._cluster.version
        epoch = group.epoch + (bumps or facts != group.facts)
        yield from after(facts)
        return Change(group, old, new, replaces, epoch, facts, would_be.same(size), forgotten)

    def _facts_are_old(self, group: ConsumerGroup) -> bool:
        """Whether the group's topics have changed since it last looked, or it has never looked."""
        version = self._cluster.version
        if group.facts_version == version:
            return False
        if group.facts_version is None or self.facts(group.subscriptions) != group.facts:
            return True
        group.facts_version = version
        return False

    def facts(self, subscriptions: Subscriptions) -> TopicFacts:
        """The facts about the topics that are subscribed to."""
        topics = self._cluster.topics
        return {
            name: (topics[name].topic_id, len(topics[name].partitions)) for name in subscriptions.topics() if name in topics
        }

    def compute_target(self, change: Change, now: int) -> Generator[None, Any, tuple[int, Partitions]]:
        """The target epoch and the member's target, computed again if the group's epoch has risen, but at most once in
        group.consumer.assignment.interval.ms.
        """
        group, new = change.group, change.new
        interval = self.setting(group.group_id, "consumer.assignment.interval.ms")
        too_soon = group.assigned_at and interval and now < group.assigned_at + interval
        if group.assignment_epoch >= change.epoch or too_soon:
            return group.assignment_epoch, group.target_of(new.member_id, new.instance_id)
        assignor = group.assignor_with(change.old, new) or self.default_assignor()
        change.targets = yield from ASSIGNORS[assignor]((yield from self._for_assignor(change)))
        return change.epoch, change.targets.get(new.member_id, NOTHING)

    def _for_assignor(self, change: Change) -> Generator[None, Any, AssignorGroup]:
        group, new = change.group, change.new
        ids = group.in_order()
        if new.member_id not in group.members:
            ids.append(new.member_id)
        ids = hash_order(ids, java_hash, buckets_for(len(ids)))
        cached: dict[frozenset[str], list[bytes]] = {}
        sizes: dict[bytes, int] = {}
        members: dict[str, Subscriber] = {}
        pause = weighted_pauses()
        for member_id in ids:
            if member_id == change.replaces and member_id != new.member_id:
                continue
            member = new if member_id == new.member_id else group.members[member_id]
            wanted = group.topics_of(member)
            if wanted not in cached:
                cached[wanted] = yield from topic_ids(wanted, self._cluster.topics)
                sizes |= self._sizes(cached[wanted])
                yield from after(wanted)
            given = group.targets.get(member_id, NOTHING)
            if member_id == new.member_id and new.instance_id is not None:
                given = group.targets.get(group.static_members.get(new.instance_id, member_id), NOTHING)
            members[member_id] = Subscriber(member.instance_id, cached[wanted], given)
        taken: dict[bytes, set[int]] = defaultdict(set)
        for given in group.targets.values():
            for topic, indexes in given.items():
                taken[topic].update(indexes)
            if pause(len(given)):
                yield
        return AssignorGroup(members, sizes, change.same, taken)

    def _sizes(self, ids: Iterable[bytes]) -> dict[bytes, int]:
        known = self._cluster.topics_by_id
        return {topic_id: len(known[topic_id].partitions) for topic_id in ids}

    def reconcile(
        self, change: Change, epoch: int, target: Partitions, changed: bool, claimed: Claimed | None
    ) -> Generator[None, Any, None]:
        """Move the member one step towards its target."""
        group, member = change.group, change.new
        if not changed and member.reconciled_to(epoch):
            return
        names, topics = group.topics_of(member), self._cluster.topics
        subscribed = frozenset(topics[name].topic_id for name in names if name in topics)
        yield from after(subscribed)
        change.new = reconcile(member, Target(epoch, target, subscribed, not names), changed, group.owner_epoch, claimed)
        change.moved = change.new != member
        yield from after(target)

    def _await_revocation(self, group: ConsumerGroup, member: ConsumerMember, now: int) -> None:
        """Remove the member if it has not given up its partitions, and left its epoch, within its rebalance timeout."""

        def expire(when: int) -> None:
            known = group.members.get(member.member_id)
            if known is not None and known.epoch == member.epoch and self.fence(group, [known], when):
                group.set_timer(REBALANCE, member.member_id, when + RETRY_MS, expire)

        group.set_timer(REBALANCE, member.member_id, now + member.rebalance_timeout, expire)

    def write_down(self, change: Change, now: int) -> Generator[None, Any, ErrorCode]:
        """Apply the step and write it down; if that fails, change nothing and return the client's error.

        Giving up partitions has a timeout.
        """
        group, new = change.group, change.new
        yield from self._adopt(group)
        if change.replaces is not None:
            given = group.targets.get(change.replaces, NOTHING)
            group.remove(change.replaces)
            group.targets[new.member_id] = given
        if change.forgotten_regex is not None:
            group.resolve(change.forgotten_regex, None)
        if group.members.get(new.member_id) != new:
            group.update(new)
        rose = change.epoch != group.epoch
        group.epoch, group.facts = change.epoch, change.facts
        if change.targets is not None:
            group.take_targets(change.targets)
            group.assignment_epoch, group.assigned_at = change.epoch, now
        if error := (yield from self._written(group, now)):
            return error
        if change.moved and new.classic is None:
            if new.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, new, now)
            else:
                group.cancel_timer(REBALANCE, new.member_id)
        if rose:
            self._report(group)
        return error

    def _written(self, group: ConsumerGroup, now: int) -> Generator[None, Any, ErrorCode]:
        """Write down the changes. If the broker stops meanwhile, they are undone."""
        try:
            return (yield from self._log(group, now))
        except GeneratorExit:
            group.revert()
            raise

    # Regular expressions

    def regexes_due(self, change: Change, now: int) -> bool:
        """Whether the group's regular expressions must be matched with the topics once the change is written down."""
        group = change.group
        if not group.subscriptions.regexes and not change.new.regex:
            return False
        regexes = group.regexes_with(change.old, change.new)
        if not regexes:
            return False
        last = next(iter(group.resolved.values()), None)
        if last is None:
            return True
        longest = self._cluster.configs.integer("group.consumer.regex.refresh.interval.ms")
        new = change.new.regex
        return now > last.time + REGEX_REFRESH_MIN_MS and (
            (bool(new) and change.old.regex != new and not group.subscriptions.regexes[new])
            or len(regexes) != len(group.resolved)
            or last.created < self._cluster.topics_created
            or now > last.time + longest
        )

    def match_regexes(
        self, group: ConsumerGroup, due: bool, sees: Callable[[str], bool] | None, now: int
    ) -> Generator[None, Any, None]:
        """Match the group's regular expressions with the topics that the client sees whose request makes it due, if due.

        Kafka does this in the background, right after the heartbeat: a member learns the matches of its expression from a
        later heartbeat. Timers continue long work. What is found is for all members, as in Kafka's TopicRegexResolver.
        """
        if not due:
            return
        topics, patterns = self._cluster.topics, _compiled(group.subscriptions.regexes)
        if not all(pattern.learn(topics, STEPS_AT_ONCE) for pattern in patterns.values()):
            group.set_timer(REGEX, "", now + 1, lambda when: self._match_again(group, sees, when))
            return
        matches = {}
        for regex, pattern in patterns.items():
            yield from after(topics)
            matched = yield from _seen(pattern.matching(topics), sees)
            matches[regex] = Resolved(matched, self._cluster.topics_created, now)
        bumps = False
        for regex, resolved in matches.items():
            before = group.resolved.get(regex)
            bumps = bumps or (before.topics if before is not None else frozenset()) != resolved.topics
            group.resolve(regex, resolved)
        facts = self.facts(group.subscriptions)
        if bumps or facts != group.facts:
            group.epoch += 1
            group.facts, group.facts_version = facts, self._cluster.version
            bumps = True
        if not (yield from self._written(group, now)) and bumps:
            self._report(group)

    def _match_again(self, group: ConsumerGroup, sees: Callable[[str], bool] | None, now: int) -> None:
        steps = self.match_regexes(group, _has_regexes(group), sees, now)
        self.changes.timers.work(self.changes.alone(group.group_id, steps))

    # Leaving

    def _leave(self, requested: GroupHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refused]:
        group = yield from self._find(requested.group_id, False, now)
        if isinstance(group, Refused):
            return group
        if requested.instance_id is None:
            member = group.members.get(requested.member_id)
            if member is None:
                return unknown_member(group, requested.member_id)
        else:
            member = group.static_member(requested.instance_id)
            if error := instance_gone(group, requested.instance_id) or instance_error(
                member, requested.member_id, requested.instance_id
            ):
                return error
            assert member is not None
            if requested.epoch == LEAVES_FOR_A_WHILE:
                assigned = {topic: dict.fromkeys(owned, 0) for topic, owned in member.assigned.items()}
                group.update(replace(member, epoch=LEAVES_FOR_A_WHILE, assigned=assigned, revoking={}))
                refused = yield from self._written(group, now)
                return Refused(refused) if refused else HeartbeatResult(member.member_id, LEAVES_FOR_A_WHILE)
        refused = self.fence(group, [member], now)
        return Refused(refused) if refused else HeartbeatResult(requested.member_id, requested.epoch)

    def await_heartbeat(self, group: ConsumerGroup, member_id: str, timeout: int, now: int) -> None:
        """Remove the member if it sends nothing within the timeout (ms)."""
        self.fence_at(group, SESSION, member_id, now + timeout)

    def fence_at(self, group: ConsumerGroup, kind: str, member_id: str, when: int) -> None:
        """Remove a member at `when` (ms since the epoch), if it is still one; later if that cannot be written down then."""

        def expire(now: int) -> None:
            member = group.members.get(member_id)
            if member is not None and self.fence(group, [member], now):
                self.fence_at(group, kind, member_id, now + RETRY_MS)

        group.set_timer(kind, member_id, when, expire)

    def fence(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now: int) -> ErrorCode:
        """Remove these members. The group's epoch rises, and the next heartbeat computes a new target.

        If that cannot be written down, nobody is removed and the client's error is returned.
        """
        if not leaving:
            return ErrorCode.NONE
        if (downgraded := self._downgrade(group, leaving, now)) is not None:
            return downgraded
        if self._facts_are_old(group):
            group.facts_version = None
        before = set(group.subscriptions.regexes)
        for member in leaving:
            group.remove(member.member_id)
        for regex in before - set(group.subscriptions.regexes):
            group.resolve(regex, None)
        group.facts = self.facts(group.subscriptions)
        group.epoch += 1
        if error := at_once(self._log(group, now)):
            return error
        for member in leaving:
            for kind in (SESSION, REBALANCE, JOIN, SYNC):
                group.cancel_timer(kind, member.member_id)
        self._report(group)
        return ErrorCode.NONE

    def await_classic_members(self, group: ConsumerGroup, now: int) -> None:
        """Remove the members of a group that was a classic one, too, if they send nothing."""
        for member in group.members.values():
            if member.classic is not None:
                self.await_heartbeat(group, member.member_id, member.classic.session_timeout, now)

    def _report(self, group: ConsumerGroup) -> None:
        self._cluster.report(GroupChange(group.group_id, group.state, group.epoch, len(group.members)))

    # Restarting

    def restart(self, group: ConsumerGroup, now: int) -> None:
        """Continue from the records, which hold all of the group except its timers."""
        group.cancel_timers()
        group.facts_version = None
        timeout = self.setting(group.group_id, "consumer.session.timeout.ms")
        for member in list(group.members.values()):
            self.await_heartbeat(group, member.member_id, timeout, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, member, now)


def _updated(member: ConsumerMember, requested: GroupHeartbeat) -> ConsumerMember:
    """The member with the data of this request."""
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


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    """The refusal of an unknown member id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def instance_gone(group: ConsumerGroup, instance_id: str) -> Refused | None:
    """Whether the instance still points to a member that is gone, because that member changed its instance before it left."""
    member_id = group.static_members.get(instance_id)
    return None if member_id is None or member_id in group.members else unknown_member(group, member_id)


def instance_error(member: ConsumerMember | None, member_id: str, instance_id: str) -> Refused | None:
    """The refusal if the client is not `member`, which has this instance; else None."""
    if member is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        who = f"Static member {member_id} with instance id {instance_id}"
        return Refused(ErrorCode.FENCED_INSTANCE_ID, f"{who} was fenced by member {member.member_id}.")
    return None


def epoch_error(member: ConsumerMember, requested: GroupHeartbeat) -> Refused | None:
    """The refusal of a member epoch that is neither the present one nor, after a lost answer, the previous one; else None."""
    if requested.epoch in (0, member.epoch):
        return None
    if requested.epoch == member.previous_epoch and requested.epoch < member.epoch and member.owns_all(requested.claimed):
        return None
    size = "greater" if requested.epoch > member.epoch else "smaller"
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({requested.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). {ABANDON}",
    )


def _seen(topics: frozenset[str], sees: Callable[[str], bool] | None) -> Generator[None, Any, frozenset[str]]:
    if sees is None:
        return topics
    found, pause = set(), pauses()
    for name in topics:
        if sees(name):
            found.add(name)
        if pause():
            yield
    return frozenset(found)


def _has_regexes(group: ConsumerGroup) -> bool:
    return bool(group.subscriptions.regexes)


def _compiled(regexes: Iterable[str]) -> dict[str, Pattern]:
    """The compiled patterns. One from a data directory that does not compile is left out, as in Kafka."""
    found = {}
    for regex in regexes:
        with suppress(PatternError):
            found[regex] = compile_pattern(regex)
    return found
