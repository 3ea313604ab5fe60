"""A proxy has no coordinator, so it learns about groups from requests and responses: members, assignments, heartbeats, commits
and lag.

A request counts only if the broker's response confirms it. A member that sends no heartbeat within its session timeout counts
as gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafkawire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkawire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.messages.fetch import FetchResponse
from kafkawire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafkawire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from kafkawire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafkawire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from wirebroker.common.bounded import Bounded, cut
from wirebroker.proxy.directory import LearnedDirectory
from wirebroker.proxy.sender import Sender
from wirebroker.proxy.transactions import ENDED_BY_BROKER
from wirebroker.requests.assignments import assigned

EMPTY, STABLE, PREPARING, COMPLETING, RECONCILING = (
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Reconciling",
)
ASSIGNING, NOT_READY = "Assigning", "NotReady"
LACKS_TOPICS, ASSIGNMENT_DELAYED = {1, 2, 3}, 5
"""Statuses in the response to a streams group's heartbeat: the statuses for missing or wrong topics, and the status for a
delayed assignment."""
MOST_GROUPS = 1_000
"""At most this many groups are remembered. The group without a request for the longest time is forgotten first."""
MOST_MEMBERS, MOST_OFFSETS = 20_000, 100_000
"""In all groups together, at most this many members and at most this many offsets are remembered."""
COUNTED_EACH = 1_000
"""Members and offsets are counted again after this many were added."""
MOST_PARTITIONS = 100_000
"""The high watermarks of at most this many partitions are remembered."""
MOST_ASSIGNED = 10_000
"""For each member, at most this many partitions are remembered."""
SESSION_TIMEOUT_MS = 45_000
"""The brokers' default session timeout for members of consumer, share and streams groups."""
NONE, LATEST = -1, -1
DEAD = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH))
"""The errors that a heartbeat gets if its member is not in the group."""
_NEW_TYPES = {
    ConsumerGroupHeartbeatRequest: ("consumer", "consumer"), ShareGroupHeartbeatRequest: ("share", "share"),
    StreamsGroupHeartbeatRequest: ("streams", "streams"),
}  # fmt: skip
"""For each heartbeat API of groups with server-side assignment: the group type and the protocol type."""

Assignment = dict[str, list[int]]
Where = tuple[str, int]


class PassingMember(Struct):
    member_id: str
    instance_id: str | None
    sender: Sender
    session_timeout_ms: int
    heartbeat: int
    """the time at which the broker last confirmed the member, in ms since the epoch"""
    epoch: int = NONE
    """the generation or the epoch that the broker has confirmed"""
    assignment: Assignment | None = None
    """the partitions by topic, or None if the assignment is not known"""
    tasks: dict[str, list[int]] = {}
    """in a streams group, the active tasks by subtopology"""


class PassingOffset(Struct):
    """An offset that a client has committed. An offset in an open transaction is in `pending` until the transaction is
    committed."""

    offset: int
    leader_epoch: int
    metadata: str
    time: int


class PassingGroup(Struct):
    group_id: str
    kind: str = "classic"
    state: str = EMPTY
    generation: int = NONE
    protocol_type: str = ""
    protocol: str = ""
    leader: str | None = None
    members: dict[str, PassingMember] = {}
    offsets: dict[Where, PassingOffset] = {}
    pending: dict[tuple[str, Where], PassingOffset] = {}
    """The pending offsets, by transactional id and partition."""
    traced: tuple[str, int, int] | None = None
    """The state, generation and number of members in the group's latest trace row."""
    sources: dict[str, tuple[str, ...]] = {}
    """The topics that each subtopology of a streams group reads."""


class PassingGroups:
    """The groups in forwarded requests and responses. `directory` has the names of topics."""

    def __init__(self, directory: LearnedDirectory) -> None:
        self._directory = directory
        self._held: Bounded[str, PassingGroup] = Bounded(MOST_GROUPS)
        self._ends: Bounded[Where, int] = Bounded(MOST_PARTITIONS)
        """The latest known high watermark of each partition."""
        self._in_transactions: Bounded[str, set[str]] = Bounded(MOST_GROUPS)
        """For each transactional id, the groups that have pending offsets from its transaction."""
        self._added = 0
        """The number of entries that were added since the last count."""

    def at(self, now: int) -> Iterator[PassingGroup]:
        """Yields the groups with their state at the time `now`. Members whose sessions have ended are removed first."""
        for group in self._held.values():
            for member_id in [each.member_id for each in group.members.values() if _is_over(each, now)]:
                self._gone(group, member_id)
            yield group

    def end_of(self, where: Where) -> int:
        """Returns the offset of the partition's next record, or −1 for an unknown offset."""
        found = self._ends.get(where)
        return NONE if found is None else found

    # Classic groups

    def joined(self, now: int, sender: Sender, request: JoinGroupRequest, response: JoinGroupResponse) -> PassingGroup | None:
        """Remember that a member has joined a generation."""
        if response.error_code:
            return None
        group = self._known(request.group_id)
        if response.generation_id > group.generation or group.kind != "classic":
            group.kind, group.generation, group.state = "classic", response.generation_id, COMPLETING
        group.protocol_type, group.protocol = cut(request.protocol_type), cut(response.protocol_name or "")
        group.leader = cut(response.leader) or None
        member = self._member(group, response.member_id, now, sender, request.group_instance_id)
        if member.epoch != response.generation_id:
            member.assignment = {}
        member.session_timeout_ms, member.epoch = request.session_timeout_ms, response.generation_id
        if response.members:  # only the leader's response lists the members of the generation
            present = {cut(each.member_id) for each in response.members}
            for member_id in [each for each in group.members if each not in present]:
                del group.members[member_id]
        return group

    def synced(self, now: int, sender: Sender, request: SyncGroupRequest, response: SyncGroupResponse) -> PassingGroup | None:
        """Remember that a member has received its assignment."""
        if response.error_code:
            return self._refused(request.group_id, request.member_id, response.error_code)
        group = self._known(request.group_id)
        member = self._member(group, request.member_id, now, sender, request.group_instance_id)
        member.epoch, member.assignment = request.generation_id, _assigned(bytes(response.assignment), group.protocol_type)
        if request.generation_id >= group.generation:
            group.generation, group.state = request.generation_id, STABLE
        return group

    def heard(self, now: int, sender: Sender, request: HeartbeatRequest, response: HeartbeatResponse) -> PassingGroup | None:
        """Note a heartbeat of a classic member."""
        if response.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            return self._refused(request.group_id, request.member_id, response.error_code)
        group = self._known(request.group_id)
        self._member(group, request.member_id, now, sender, request.group_instance_id).epoch = request.generation_id
        group.generation = max(group.generation, request.generation_id)
        if response.error_code:
            group.state = PREPARING
        elif request.generation_id == group.generation and group.state != COMPLETING:
            group.state = STABLE
        return group

    def left(self, now: int, sender: Sender, request: LeaveGroupRequest, response: LeaveGroupResponse) -> PassingGroup | None:
        """Remember that members have left the group, or that a tool has removed them."""
        if response.error_code or (group := self._held.get(cut(request.group_id))) is None:
            return None
        gone = [(each.member_id, each.group_instance_id) for each in response.members if not each.error_code]
        for member_id, instance_id in gone or [(request.member_id, None)]:
            named = [
                each.member_id for each in group.members.values()
                if each.member_id == cut(member_id) or (instance_id and each.instance_id == instance_id)
            ]  # fmt: skip
            for each in named:
                self._gone(group, each)
        if group.members:
            group.state = PREPARING
        return group

    # Groups whose assignments the broker computes: KIP-848, KIP-932, KIP-1071

    def beaten(
        self, now: int, sender: Sender,
        request: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest | StreamsGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse | StreamsGroupHeartbeatResponse,
    ) -> PassingGroup | None:  # fmt: skip
        """Note a heartbeat of a member of a consumer, share or streams group."""
        if response.error_code:
            return self._refused(request.group_id, request.member_id, response.error_code)
        group = self._known(request.group_id)
        group.kind, group.protocol_type = _NEW_TYPES[type(request)]
        group.leader = None
        member_id = response.member_id or request.member_id
        if response.member_epoch < 0:
            self._gone(group, cut(member_id))
            return group
        instance_id = None if isinstance(request, ShareGroupHeartbeatRequest) else request.instance_id
        member = self._member(group, member_id, now, sender, instance_id)
        member.epoch = response.member_epoch
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.server_assignor:
            group.protocol = cut(request.server_assignor)
        if isinstance(request, StreamsGroupHeartbeatRequest) and isinstance(response, StreamsGroupHeartbeatResponse):
            _streams_tasks(group, member, request, response)
        elif not isinstance(response, StreamsGroupHeartbeatResponse) and response.assignment is not None:
            member.assignment = self._named(response.assignment.topic_partitions)
        group.generation = max(group.generation, response.member_epoch)
        agree = all(each.epoch == group.generation for each in group.members.values())
        group.state = STABLE if agree else RECONCILING
        if isinstance(response, StreamsGroupHeartbeatResponse):
            told = {each.status_code for each in response.status or ()}
            group.state = NOT_READY if told & LACKS_TOPICS else ASSIGNING if ASSIGNMENT_DELAYED in told else group.state
        return group

    def _named(self, parts: Iterable[Any]) -> Assignment:
        """Returns an assignment with topic names in place of topic ids. An unknown topic keeps its id."""
        made: Assignment = {}
        left = MOST_ASSIGNED
        for part in parts:
            name = self._directory.topic_name(part.topic_id) or part.topic_id.hex()
            made[name] = sorted(part.partitions)[:left]
            left -= len(made[name])
        return made

    # Offsets

    def committed(
        self, now: int, sender: Sender, request: OffsetCommitRequest, response: OffsetCommitResponse
    ) -> PassingGroup | None:
        if not (found := self._accepted(now, request, response)):
            return None
        group = self._known(request.group_id)
        group.offsets |= found
        self._count(len(found))
        member = group.members.get(cut(request.member_id))
        if member is not None and group.kind == "classic":
            member.heartbeat = now  # a commit also renews the member's session
        return group

    def committed_in_transaction(
        self, now: int, sender: Sender, request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse
    ) -> PassingGroup | None:
        """Note offsets that were written in a transaction. The offsets are pending until the transaction is committed."""
        if not (found := self._accepted(now, request, response)):
            return None
        group = self._known(request.group_id)
        transactional_id = cut(request.transactional_id)
        group.pending |= {(transactional_id, where): each for where, each in found.items()}
        self._in_transactions.get_or_make(transactional_id, set).add(group.group_id)
        self._count(len(found))
        return group

    def transaction_ended(self, request: EndTxnRequest, response: EndTxnResponse) -> None:
        """Note the end of a transaction. If it was committed, its pending offsets are committed, too. If it was aborted, they
        are dropped."""
        if response.error_code and response.error_code not in ENDED_BY_BROKER:
            return
        transactional_id, counts = cut(request.transactional_id), request.committed and not response.error_code
        for group_id in self._in_transactions.pop(transactional_id, ()):
            if (group := self._held.get(group_id)) is not None:
                for key in [each for each in group.pending if each[0] == transactional_id]:
                    offset = group.pending.pop(key)
                    if counts:
                        group.offsets[key[1]] = offset

    def fetched(self, now: int, sender: Sender, request: OffsetFetchRequest, response: OffsetFetchResponse) -> None:
        """Note the committed offsets in a response to OffsetFetch, including offsets that were committed before the proxy
        started."""
        for topic in response.topics:
            self._found(request.group_id, topic.name, topic.partitions)
        for group in response.groups:
            for part in group.topics:
                self._found(group.group_id, part.name or self._directory.topic_name(part.topic_id) or "", part.partitions)

    def _found(
        self, group_id: str, topic: str, partitions: Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]
    ) -> None:
        for each in partitions:
            if group_id and topic and not each.error_code and each.committed_offset >= 0:
                offset = PassingOffset(each.committed_offset, each.committed_leader_epoch, cut(each.metadata or ""), NONE)
                self._known(group_id).offsets.setdefault((topic, each.partition_index), offset)
                self._count(1)

    def offsets_deleted(self, now: int, sender: Sender, request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> None:
        """Remember that offsets have been deleted."""
        group = self._held.get(cut(request.group_id))
        for topic in response.topics if group is not None and not response.error_code else ():
            for each in topic.partitions:
                if not each.error_code and group is not None:
                    group.offsets.pop((topic.name, each.partition_index), None)

    def deleted(self, now: int, sender: Sender, request: DeleteGroupsRequest, response: DeleteGroupsResponse) -> None:
        """Remember that groups have been deleted."""
        for each in response.results:
            if not each.error_code:
                self._held.pop(cut(each.group_id), None)

    def _accepted(
        self, now: int, request: OffsetCommitRequest | TxnOffsetCommitRequest,
        response: OffsetCommitResponse | TxnOffsetCommitResponse,
    ) -> dict[Where, PassingOffset]:  # fmt: skip
        """Returns those offsets in a request that the broker has committed, by partition."""
        taken = _taken(response, self._directory)
        return {where: each for where, each in self._offsets(request, now) if where in taken}

    def _offsets(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest, now: int
    ) -> Iterator[tuple[Where, PassingOffset]]:
        for topic in request.topics:
            name = topic.name or self._directory.topic_name(topic.topic_id)
            for each in topic.partitions if name else ():
                offset = PassingOffset(
                    each.committed_offset, each.committed_leader_epoch, cut(each.committed_metadata or ""), now
                )
                yield (name or "", each.partition_index), offset

    def forget_topics(self, topics: Collection[str]) -> None:
        """Forget the offsets and the ends of topics that were created again: a group loses its offsets with the topic."""
        for where in [where for where in self._ends if where[0] in topics]:
            self._ends.pop(where)
        for group in self._held.values():
            group.offsets = {where: each for where, each in group.offsets.items() if where[0] not in topics}
            group.pending = {key: each for key, each in group.pending.items() if key[1][0] not in topics}

    # The ends of partitions

    def read(self, response: FetchResponse) -> None:
        """Note the high watermarks in a response to Fetch."""
        for topic in response.responses:
            name = topic.topic or self._directory.topic_name(topic.topic_id)
            for each in topic.partitions if name else ():
                if not each.error_code and each.high_watermark >= 0:
                    self._ends.put((name or "", each.partition_index), each.high_watermark)

    def written(self, topic: str, partition: int, end: int) -> None:
        """Remember that a batch was stored, and that the log now ends at `end`."""
        if end > self.end_of((topic, partition)):
            self._ends.put((topic, partition), end)

    def listed(self, now: int, sender: Sender, request: ListOffsetsRequest, response: ListOffsetsResponse) -> None:
        """Note the ends of partitions in a response to ListOffsets."""
        if request.isolation_level:
            return
        asked = {
            (topic.name, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
            if each.timestamp == LATEST
        }
        for topic in response.topics:
            for each in topic.partitions:
                where = topic.name, each.partition_index
                if where in asked and not each.error_code and each.offset >= 0:
                    self._ends.put(where, each.offset)

    # Groups and members that are remembered

    def _known(self, group_id: str) -> PassingGroup:
        name = cut(group_id)
        return self._held.get_or_make(name, lambda: PassingGroup(name))

    def _member(self, group: PassingGroup, member_id: str, now: int, sender: Sender, instance_id: str | None) -> PassingMember:
        name = cut(member_id)
        member = group.members.get(name)
        if member is None:
            if instance_id:  # a static member gets a new member id when it restarts
                for other in [each.member_id for each in group.members.values() if each.instance_id == cut(instance_id)]:
                    del group.members[other]
            member = group.members[name] = PassingMember(
                name, instance_id and cut(instance_id), sender, SESSION_TIMEOUT_MS, now
            )
            self._count(1)
        member.heartbeat, member.sender = now, sender
        return member

    def _gone(self, group: PassingGroup, member_id: str) -> None:
        if group.members.pop(member_id, None) is not None and not group.members:
            group.state = EMPTY
            if group.kind == "classic":  # the coordinator begins an empty generation when the last member leaves
                group.generation, group.protocol, group.leader = group.generation + 1, "", None

    def _refused(self, group_id: str, member_id: str, error: int) -> PassingGroup | None:
        group = self._held.get(cut(group_id))
        if group is None or error not in DEAD or cut(member_id) not in group.members:
            return None
        self._gone(group, cut(member_id))
        return group

    def _count(self, added: int) -> None:
        """Keep the number of members and offsets within the limits. Members and offsets are counted only after `COUNTED_EACH`
        further additions.
        """
        self._added += added
        if self._added >= COUNTED_EACH:
            self._added = 0
            self._make_room(MOST_MEMBERS, lambda each: len(each.members))
            self._make_room(MOST_OFFSETS, lambda each: len(each.offsets) + len(each.pending))

    def _make_room(self, most: int, size: Callable[[PassingGroup], int]) -> None:
        """Forget groups until at most `most` members or offsets remain. First forget the group that was without a request for
        the longest time. A single group with more than `most` members or offsets is forgotten, too.
        """
        total = sum(map(size, self._held.values()))
        for name in list(self._held) if total > most else ():
            if total <= most:
                return
            total -= size(self._held.pop(name))


def _is_over(member: PassingMember, now: int) -> bool:
    return now - member.heartbeat > member.session_timeout_ms


def _assigned(assignment: bytes, protocol_type: str) -> Assignment | None:
    """Returns the assignment of a classic member, with at most `MOST_ASSIGNED` partitions of each topic."""
    found = assigned(assignment, protocol_type)
    return found and {topic: indexes[:MOST_ASSIGNED] for topic, indexes in islice(found.items(), MOST_ASSIGNED)}


def _taken(response: OffsetCommitResponse | TxnOffsetCommitResponse, directory: LearnedDirectory) -> set[Where]:
    """Returns the partitions whose offsets the broker has committed without an error."""
    return {
        (topic.name or directory.topic_name(topic.topic_id) or "", each.partition_index)
        for topic in response.topics for each in topic.partitions if not each.error_code
    }  # fmt: skip


def _streams_tasks(
    group: PassingGroup, member: PassingMember, request: StreamsGroupHeartbeatRequest, response: StreamsGroupHeartbeatResponse
) -> None:
    """Update the tasks of a streams member. The member's assignment consists of the partitions that its active tasks read."""
    if request.topology is not None:
        group.sources = {
            each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
            for each in request.topology.subtopologies[:MOST_ASSIGNED]
        }
    if response.active_tasks is not None:
        member.tasks = {each.subtopology_id: sorted(each.partitions)[:MOST_ASSIGNED] for each in response.active_tasks}
    reads: Mapping[str, tuple[str, ...]] = group.sources
    member.assignment = {topic: indexes for task, indexes in member.tasks.items() for topic in reads.get(task, ())}
