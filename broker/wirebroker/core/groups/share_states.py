"""Initializes, alters and deletes the states of a share group's partitions.

The share coordinator (`core.share.coordinator`) keeps the states themselves. The group's own records say which share partitions
have a state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.primitives import format_uuid
from wirebroker.common.slices import TOPICS, after, pauses
from wirebroker.core.cluster import SHARE_TOPIC
from wirebroker.core.configs import ConfigError
from wirebroker.core.groups.modern_heartbeats import ModernGroups
from wirebroker.core.groups.share_group import Preparation, Prepared, ShareGroup, ShareMember, preparation_records
from wirebroker.core.refusals import UNKNOWN_PARTITION, Refusal
from wirebroker.core.releases.changes import since
from wirebroker.core.share.coordinator import UNKNOWN, WRITES, ShareCoordinator

GROWS_FROM_START = since("4.4", "a share group reads added partitions from their first record")
CREATES_ALTERED_GROUPS = since(
    "4.2", "AlterShareGroupOffsets can create the group, and has one error if the whole request is refused", "KIP-932"
)

Deleted = list[tuple[str, bytes, Refusal | None]]


class ShareStates:
    """Initializes, alters and deletes the states of share partitions."""

    def __init__(self, groups: ModernGroups[ShareGroup, ShareMember], coordinator: ShareCoordinator) -> None:
        self._groups = groups
        self._registry = groups.registry
        self._cluster = groups.registry.cluster
        self._coordinator = coordinator

    def prepare(self, group: ShareGroup, now: int) -> Generator[None, Any, None]:
        """Begin to initialize the state of subscribed partitions that have no state. As in Kafka, the response to the heartbeat
        does not wait until the initialization is done."""
        yield from after(group.facts)
        held = group.preparation or Preparation()
        retry = self._cluster.configs.integer("group.share.initialize.retry.interval.ms")
        recent = {topic_id: each for topic_id, each in held.initializing.items() if now - each.time < retry}
        known = _joined(held.initialized, recent)
        missing: dict[bytes, Prepared] = {}
        pause = pauses(TOPICS)
        for name in group.subscriptions():
            topic = self._cluster.topics.get(name)
            if topic is None:
                continue
            done = known[topic.topic_id].partitions if topic.topic_id in known else frozenset()
            if len(done) < len(topic.partitions):
                missing[topic.topic_id] = Prepared(name, frozenset(range(len(topic.partitions))) - done, now)
            yield from pause()
        if missing:
            grown = {*held.initialized, *held.initializing} if GROWS_FROM_START.of(self._groups.release) else ()
            wanted = {
                (topic_id, index): 0 if topic_id in grown else UNKNOWN
                for topic_id, each in missing.items()
                for index in each.partitions
            }
            yield from after(wanted)
            self._cluster.timers.work(self._initialize(group, missing, wanted, now))

    def _initialize(
        self, group: ShareGroup, topics: Mapping[bytes, Prepared], starts: Mapping[tuple[bytes, int], int], now: int
    ) -> Generator[None, Any, Mapping[tuple[bytes, int], Refusal] | Refusal]:
        """Initialize the states of share partitions, in slices. `starts` has the start offset of each share partition, by topic
        id and index. Returns the refusals by partition, or one refusal for all partitions.

        As in Kafka, a topic without partitions stays in `initializing`: it has no state whose initialization could end.
        """

        def begin(held: Preparation) -> Preparation:
            initializing = _joined(held.initializing, topics)
            deleting = {topic_id: name for topic_id, name in held.deleting.items() if topic_id not in initializing}
            return Preparation(initializing, held.initialized, deleting)

        if error := (yield from self._rewrite(group, begin, now)):
            return Refusal(error)
        topics = {topic_id: each for topic_id, each in topics.items() if each.partitions}
        if not topics:
            return {}
        self.make_state_topic(now)
        pause = pauses(WRITES)
        refused: dict[tuple[bytes, int], Refusal] = {}
        for (topic_id, index), start in starts.items():
            yield from pause()
            found = self._coordinator.initialize((group.group_id, topic_id, index), group.epoch, start, now)
            if found is not None:
                refused[topic_id, index] = found

        def end(held: Preparation) -> Preparation:
            """As in Kafka (GroupMetadataManager.initializeShareGroupState), a topic that was deleted meanwhile is left out."""
            there = {} if refused else {each: topics[each] for each in topics if each in self._cluster.topics_by_id}
            return _initialized(held, topics, there)

        yield from self._rewrite(group, end, now)
        return refused

    def make_state_topic(self, now: int) -> None:
        """Create __share_group_state if it does not exist. In Kafka the first use of a share group creates this topic."""
        if SHARE_TOPIC not in self._cluster.topics:
            with suppress(OSError, ConfigError):  # the brokers' settings may not allow this topic
                self._cluster.create_internal_topic(SHARE_TOPIC, now)
            self._cluster.decisions.write_down(now)

    def _rewrite(
        self, group: ShareGroup, change: Callable[[Preparation], Preparation], now: int
    ) -> Generator[None, Any, ErrorCode]:
        """Change the set of share partitions that have a state, and write the change to the log. The method first waits until
        other changes of the group are done. If the group was deleted meanwhile, the method changes nothing and returns an
        error. A group without members and states counts as new, not as deleted.
        """
        yield from self._groups.changes.settled([group.group_id])
        known = group.preparation is not None or bool(group.members)
        if known and self._registry.groups.get(group.group_id) is not group:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return (yield from self._groups.changes.alone(group.group_id, self._write(group, change, now)))

    def _write(
        self, group: ShareGroup, change: Callable[[Preparation], Preparation], now: int
    ) -> Generator[None, Any, ErrorCode]:
        preparation = self._without_new_strangers(group.preparation or Preparation(), change)
        yield from after(preparation.initialized)
        error = yield from self._groups.write(group, preparation_records(group.group_id, preparation), now)
        if not error:
            group.preparation = preparation
        return error

    def _without_new_strangers(self, held: Preparation, change: Callable[[Preparation], Preparation]) -> Preparation:
        """Returns the changed set, without the topics that the change would add although they do not exist. Such a topic was
        deleted between two slices, and the group has forgotten it already. Nothing would remove it again."""
        there, before = self._cluster.topics_by_id, frozenset[bytes]().union(*held.by_state)
        return Preparation(
            *({each: topics[each] for each in topics if each in there or each in before} for topics in change(held).by_state)
        )

    def topics_deleted(self, group: ShareGroup, gone: Collection[bytes], now: int) -> Generator[None, Any, None]:
        def without(held: Preparation) -> Preparation:
            return Preparation(*({each: topics[each] for each in topics if each not in gone} for topics in held.by_state))

        held = group.preparation
        if held is not None and any(not topics.keys().isdisjoint(gone) for topics in held.by_state):
            yield from self._rewrite(group, without, now)

    # Administration

    def alter_offsets(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int]], now: int
    ) -> Generator[None, Any, Mapping[tuple[str, int], Refusal] | Refusal]:
        """Set the start offsets of a group that has no members, in slices. `wanted` has the offsets by topic and partition.
        Returns the refusals by partition, or one refusal for all partitions.
        """
        group = self._groups.find(group_id, create=CREATES_ALTERED_GROUPS.of(self._groups.release))
        if isinstance(group, Refusal):
            return group
        if group.members:
            return Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        negative = [(topic, index) for topic, offsets in wanted.items() for index in offsets if index < 0]
        if negative:
            where = f"{group_id} {format_uuid(self._cluster.topics[negative[0][0]].topic_id)} {negative[0][1]}"
            problem = f"Initialize share group parameters has invalid partitionId - {where}"
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, problem)
        refused: dict[tuple[str, int], Refusal] = {}
        topics: dict[bytes, Prepared] = {}
        starts: dict[tuple[bytes, int], int] = {}
        for name, offsets in wanted.items():
            topic = self._cluster.topics[name]
            for index, start in offsets.items():
                if index < len(topic.partitions):
                    starts[topic.topic_id, index] = start
                else:
                    refused[name, index] = UNKNOWN_PARTITION
            indexes = frozenset(index for index in offsets if index < len(topic.partitions))
            topics[topic.topic_id] = Prepared(name, indexes, now)
        if not topics:
            return refused
        made = yield from self._initialize(group, topics, starts, now)
        if isinstance(made, Refusal):
            return made
        names = {topic_id: each.name for topic_id, each in topics.items()}
        return refused | {(names[topic_id], index): why for (topic_id, index), why in made.items()}

    def delete_offsets(self, group_id: str, names: Sequence[str], now: int) -> Generator[None, Any, Deleted | Refusal]:
        """Delete, in slices, what a group without members knows about these topics. For each topic, returns its name, its id
        and why the deletion is refused (None if the topic's offsets are deleted)."""
        group = self._groups.find(group_id)
        if isinstance(group, Refusal):
            return group
        if group.members:
            return Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        held = group.preparation
        if held is None:
            return []
        gone: dict[bytes, tuple[str, frozenset[int]]] = {}
        refused: Deleted = []
        pause = pauses()
        for name in names:
            yield from pause()
            topic = self._cluster.topics.get(name)
            if topic is None:
                refused.append((name, bytes(16), UNKNOWN_PARTITION))
            elif topic.topic_id in gone:
                continue
            elif topic.topic_id in held.initialized:
                gone[topic.topic_id] = name, held.initialized[topic.topic_id].partitions
            elif topic.topic_id in held.deleting:
                gone[topic.topic_id] = name, frozenset(range(len(topic.partitions)))
            else:
                why = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
                refused.append((name, bytes(16), why))
        return (yield from self._delete_state(group, gone, now)) + refused

    def _delete_state(
        self, group: ShareGroup, gone: Mapping[bytes, tuple[str, frozenset[int]]], now: int
    ) -> Generator[None, Any, Deleted]:
        pause = pauses(WRITES)

        def begin(held: Preparation) -> Preparation:
            initialized = {topic_id: each for topic_id, each in held.initialized.items() if topic_id not in gone}
            deleting = {**held.deleting, **{topic_id: name for topic_id, (name, _) in gone.items()}}
            return Preparation(held.initializing, initialized, deleting)

        def end(held: Preparation) -> Preparation:
            left = {topic_id: name for topic_id, name in held.deleting.items() if topic_id not in deleted}
            return Preparation(held.initializing, held.initialized, left)

        yield from self._rewrite(group, begin, now)
        done: Deleted = []
        for topic_id, (name, indexes) in gone.items():
            wrong = []
            for index in sorted(indexes):
                yield from pause()
                wrong.append(self._coordinator.delete((group.group_id, topic_id, index), now))
            done.append((name, topic_id, next((each for each in wrong if each is not None), None)))
        deleted = {topic_id for _, topic_id, why in done if why is None}
        if gone:
            yield from self._rewrite(group, end, now)
        return done

    def delete_all(self, group: ShareGroup, now: int) -> Generator[None, Any, ErrorCode]:
        """Delete the state of all share partitions of a group that is about to be deleted, in slices. This includes the states
        that an earlier request has failed to delete."""
        held, pause = group.preparation, pauses(WRITES)
        if held is None:
            return ErrorCode.NONE
        gone = _joined(held.initialized, held.initializing)
        for topic_id, name in held.deleting.items():
            yield from pause()
            if (topic := self._cluster.topics_by_id.get(topic_id)) is not None:
                gone = _joined(gone, {topic_id: Prepared(name, frozenset(range(len(topic.partitions))), now)})
        if gone:
            deleting = {**held.deleting, **{topic_id: each.name for topic_id, each in gone.items()}}
            yield from self._rewrite(group, lambda _: Preparation(deleting=deleting), now)
        for topic_id, each in gone.items():
            for index in sorted(each.partitions):
                yield from pause()
                refused = self._coordinator.delete((group.group_id, topic_id, index), now)
                if refused is not None:
                    return refused.code
        return ErrorCode.NONE


def _joined(one: Mapping[bytes, Prepared], other: Mapping[bytes, Prepared]) -> dict[bytes, Prepared]:
    made = dict(one)
    for topic_id, each in other.items():
        made[topic_id] = each._replace(partitions=made[topic_id].partitions | each.partitions) if topic_id in made else each
    return made


def _initialized(held: Preparation, ended: Mapping[bytes, Prepared], done: Mapping[bytes, Prepared]) -> Preparation:
    """Returns `held` with two changes: the partitions in `ended` are not being initialized any more, and the partitions in
    `done` are initialized."""
    left = {}
    for topic_id, each in held.initializing.items():
        known = ended.get(topic_id)
        if known is None:
            left[topic_id] = each
        elif rest := each.partitions - known.partitions:
            left[topic_id] = each._replace(partitions=rest)
    return Preparation(left, _joined(held.initialized, done), held.deleting)
