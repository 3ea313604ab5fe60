"""A real cluster in place of each run's own broker: reads a run's records, and prepares the cluster for the next run.

The records of earlier runs stay in the cluster. A run's own records are the records after the log end offsets at the start of
the run. After a run, the application's transactions are aborted, its members leave their groups, and its groups commit the log
end offsets.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kafkawire.batches import iter_batches, read_header
from kafkawire.errors import ErrorCode, error_name
from kafkawire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkawire.messages.describe_groups import DescribeGroupsRequest
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from wirebroker.client.brokers import Brokers, leaders_in
from wirebroker.client.wire import address_of
from wirebroker.testing.operations import StoredRecord, records_in, visible
from wirebroker.testing.topic_specs import Topics, topic_specs

Ends = dict[tuple[str, int], int]
Committed = dict[tuple[str, str, int], int]
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
LATEST = BROKERS_DEFAULT = -1
GROUP, TRANSACTION = 0, 1
LEAVES = -1
"""A ConsumerGroupHeartbeat with this member epoch leaves the group."""
CHUNK = 16 * 1024 * 1024
WITHIN_S, PAUSE_S = 20.0, 0.05
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)  # fmt: skip
"""Errors that go away by themselves, as soon as a group's members have left or a new topic has its leaders."""


class UpstreamError(RuntimeError):
    """Raised if the cluster refuses a request; the message is a sentence."""


class Left(NamedTuple):
    """The records, offsets and transactions that a run left in the cluster."""

    stored: dict[str, list[StoredRecord]]
    committed: Committed
    """the offsets that were committed since the start of the run"""
    open_transactions: list[str]
    """the open transactions that hold records back"""
    has_static_members: bool = False


def open_producers(records: Iterable[StoredRecord]) -> set[int]:
    """Returns the ids of the producers whose open transactions contain some of these records.

    An open transaction without records does no harm. A client leaves one if its AddPartitionsToTxn arrives after its commit.
    """
    found: set[tuple[int, int]] = set()
    for each in records:
        if each.control:
            found.discard((each.partition, each.producer_id))
        elif each.transactional:
            found.add((each.partition, each.producer_id))
    return {producer_id for _, producer_id in found}


class Upstream:
    """The cluster to which the broker at `address` belongs.

    All requests work with Kafka 3.0 and newer. Only one thread may use an object of this class at a time.

    Every method can raise UpstreamError, and the errors of `Brokers`.
    """

    def __init__(self, address: str, topics: Topics = ()) -> None:
        """`topics` are created if they do not exist. Raises ValueError."""
        address_of(address)
        self.address = address
        self._brokers = Brokers()
        self.topics = topics
        self._topics = topic_specs(topics).values()
        self._known: set[tuple[str, str, int]] = set()
        """the groups, topics and partitions for which the application's groups have committed offsets"""

    def close(self) -> None:
        self._brokers.close()

    def begin(self) -> None:
        """Bring the cluster into the state in which a run begins."""
        if self._topics:
            self._create()
        ends = self.ends()
        for group in {group for group, _, _ in self._known}:
            self._remove_members(group)
            places = [(topic, partition) for name, topic, partition in sorted(self._known) if name == group]
            self._commit(group, {place: ends[place] for place in places if place in ends})

    def ends(self) -> Ends:
        """Returns the log end offset of each partition of the application's topics. All topics except internal topics count as
        the application's."""
        answered = self._retried("ListOffsets", self._offsets, _worst)
        return {place: each.offset for place, each in answered.items()}

    def left(self, begin: Mapping[tuple[str, int], int], groups: Iterable[str], transactional_ids: Iterable[str]) -> Left:
        """Read the records, offsets and transactions of a run, and abort its open transactions."""
        states = [self._settled(each) for each in sorted(transactional_ids)]
        logs, leaders = defaultdict(list), self._leaders()
        for (topic, partition), end in sorted(self.ends().items()):
            if end > (start := begin.get((topic, partition), 0)):
                logs[topic, partition] = list(self._records(leaders[topic, partition], topic, partition, start, end))
        writers = {each for records in logs.values() for each in open_producers(records)}
        ongoing = [each for each in states if each.transaction_state == "Ongoing"]
        for each in ongoing:
            self._abort(each.transactional_id)
        stored: dict[str, list[StoredRecord]] = {topic: [] for topic, _ in leaders}
        for (topic, _), records in logs.items():
            stored[topic] += visible(records)[0]
        committed = {
            (group, *place): offset - begin.get(place, 0)
            for group in groups
            for place, offset in self._committed(group).items()
        }
        self._known |= committed.keys()
        return Left(stored, committed, [each.transactional_id for each in ongoing if each.producer_id in writers])

    def has_static_members(self, group: str) -> bool:
        """Tells whether a member of the group has a group.instance.id.

        Such a member stays in the group when its process ends.
        """
        return any(instance_id for _, instance_id, _ in self._members(group))

    # Each of these methods sends one request

    def _create(self) -> None:
        made = [
            CreatableTopic(
                name=each.name, num_partitions=each.partitions or BROKERS_DEFAULT, assignments=[],
                replication_factor=each.replication_factor or BROKERS_DEFAULT,
                configs=[CreatableTopicConfig(name=name, value=str(value)) for name, value in each.configs.items()],
            )
            for each in self._topics
        ]  # fmt: skip
        for each in self._brokers.request(CreateTopicsRequest(topics=made), 4, self._controller()).topics:
            if each.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                self._check(f"CreateTopics of {each.name}", each.error_code)

    def _offsets(self) -> dict[tuple[str, int], Any]:
        by_leader: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for place, leader in self._leaders().items():
            by_leader[leader].append(place)
        found = {}
        for leader, places in by_leader.items():
            topics = [
                ListOffsetsTopic(name=topic, partitions=[
                    ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in partitions
                ])
                for topic, partitions in _by_topic(places).items()
            ]  # fmt: skip
            for topic in self._brokers.request(ListOffsetsRequest(replica_id=-1, topics=topics), 2, leader).topics:
                found.update({(topic.name, each.partition_index): each for each in topic.partitions})
        return found

    def _leaders(self) -> dict[tuple[str, int], str]:
        metadata = self._brokers.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), 4, self.address)
        return {place: leader for place, leader in leaders_in(metadata) if place[0] not in INTERNAL and leader}

    def _controller(self) -> str:
        metadata = self._brokers.request(MetadataRequest(topics=[], allow_auto_topic_creation=False), 4, self.address)
        return next(
            (f"{each.host}:{each.port}" for each in metadata.brokers if each.node_id == metadata.controller_id), self.address
        )

    def _coordinator(self, kind: int, key: str) -> str:
        def ask() -> Any:
            return self._brokers.request(FindCoordinatorRequest(key_type=kind, key=key), 3, self.address)

        found = self._retried("FindCoordinator", ask, lambda response: response.error_code)
        return f"{found.host}:{found.port}"

    def _records(self, leader: str, topic: str, partition: int, start: int, end: int) -> Iterator[StoredRecord]:
        offset = start
        while offset < end:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=CHUNK)
            topics = [FetchTopic(topic=topic, partitions=[wanted])]
            request = FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=CHUNK, topics=topics)
            (answered,) = self._brokers.request(request, 11, leader).responses
            (data,) = answered.partitions
            self._check("Fetch", data.error_code)
            batches = list(iter_batches(data.records or b""))
            if not batches:
                raise UpstreamError(f"{leader} has no record of {topic}-{partition} at offset {offset}; the log ends at {end}")
            for batch in batches:
                yield from (each for each in records_in(batch, topic, partition) if start <= each.offset < end)
            offset = read_header(batches[-1]).last_offset + 1

    def _committed(self, group: str) -> dict[tuple[str, int], int]:
        coordinator = self._coordinator(GROUP, group)

        def ask() -> Any:
            return self._brokers.request(OffsetFetchRequest(group_id=group, topics=None), 7, coordinator)

        found = self._retried("OffsetFetch", ask, lambda response: response.error_code)
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in found.topics for each in topic.partitions if each.committed_offset >= 0
        }  # fmt: skip

    def _commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        coordinator = self._coordinator(GROUP, group)
        topics = [
            OffsetCommitRequestTopic(name=topic, partitions=[
                OffsetCommitRequestPartition(partition_index=each, committed_offset=offsets[topic, each], committed_metadata="")
                for each in partitions
            ])
            for topic, partitions in _by_topic(offsets).items()
        ]  # fmt: skip

        def ask() -> dict[tuple[str, int], Any]:
            response = self._brokers.request(OffsetCommitRequest(group_id=group, topics=topics), 7, coordinator)
            return {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}

        self._retried(f"OffsetCommit of the group {group}", ask, _worst)

    def _members(self, group: str) -> Iterator[tuple[str, str | None, bool]]:
        """For each member, yields its id, its group.instance.id, and whether the member uses the group protocol of KIP-848."""
        coordinator = self._coordinator(GROUP, group)
        (classic,) = self._brokers.request(DescribeGroupsRequest(groups=[group]), 4, coordinator).groups
        yield from ((each.member_id, each.group_instance_id, False) for each in classic.members)
        if classic.group_state == "Dead":  # a group of KIP-848 is in this state, too
            request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
            (found,) = self._brokers.request(request, 0, coordinator).groups
            yield from ((each.member_id, each.instance_id, True) for each in found.members)

    def _remove_members(self, group: str) -> None:
        """Remove the members of a command that was ended by force."""
        coordinator = self._coordinator(GROUP, group)
        for member_id, instance_id, is_new in self._members(group):
            if is_new:
                leave = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=LEAVES)
                self._brokers.request(leave, 0, coordinator)
            else:
                member = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                self._brokers.request(LeaveGroupRequest(group_id=group, members=[member]), 4, coordinator)

    def _settled(self, transactional_id: str) -> Any:
        """Returns the state of a transaction. If the transaction is ending, first waits until it has ended."""
        coordinator = self._coordinator(TRANSACTION, transactional_id)
        deadline = time.monotonic() + WITHIN_S
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        while True:
            (state,) = self._brokers.request(request, 0, coordinator).transaction_states
            if not state.transaction_state.startswith("Prepare") or time.monotonic() > deadline:
                return state
            time.sleep(PAUSE_S)

    def _abort(self, transactional_id: str) -> None:
        """Abort a transaction: begin another producer with the transactional id, so that the coordinator aborts the
        transaction."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)
        coordinator = self._coordinator(TRANSACTION, transactional_id)
        self._retried("InitProducerId", lambda: self._brokers.request(request, 2, coordinator), lambda each: each.error_code)

    def _retried(self, what: str, ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while True:
            response = ask()
            code = code_of(response)
            if code not in PASSING or time.monotonic() > deadline:
                self._check(what, code)
                return response
            time.sleep(PAUSE_S)

    def _check(self, what: str, code: int) -> None:
        if code != ErrorCode.NONE:
            raise UpstreamError(f"{self.address}: {what}: {error_name(code)}")


def _worst(answered: Mapping[Any, Any]) -> int:
    return max((each.error_code for each in answered.values()), default=0)


def _by_topic(places: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        found[topic].append(partition)
    return found
