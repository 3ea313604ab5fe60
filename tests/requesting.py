"""Requests as tests send them: one group, one producer, one partition, in the words of Kafka's protocol.

Each function has the name of its API and makes the request's message; fields that a test does not name have the value of a
client that does nothing unusual. A request about several things is made of its message classes (`kafkawire.messages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkawire.declare import Message, from_plain
from kafkawire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkawire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkawire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkawire.messages.end_txn import EndTxnRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.heartbeat import HeartbeatRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkawire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkawire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafkawire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkawire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkawire.registry import KEYS, request_class

GROUP, TRANSACTION, SHARE = range(3)
"""The kinds of coordinators."""
Producer = tuple[int, int]
"""A producer's id and epoch."""
Plain = dict[str, Any]
"""A message, or a part of one, by the names of its fields."""


def plain(api: str, **fields: Any) -> Message:
    """A request of any API from plain data."""
    made: Message = from_plain(request_class(KEYS[api]), fields)
    return made


def named(names: Iterable[str], key: str = "name", **fields: Any) -> list[Plain]:
    """An element of plain data for each name, all with the same further fields."""
    return [{key: name, **fields} for name in names]


# Records


def produce_request(
    topic: str, data: bytes | None, partition: int = 0, acks: int = -1, *, txid: str | None = None, timeout_ms: int = 5000
) -> ProduceRequest:
    """A Produce of one partition's record data."""
    topic_data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
    return ProduceRequest(transactional_id=txid, acks=acks, timeout_ms=timeout_ms, topic_data=[topic_data])


def fetch(
    offset: int = 0, *, topic: str = "orders", partition: int = 0, wait_ms: int = 0, part: Mapping[str, Any] | None = None,
    **fields: Any,
) -> FetchRequest:  # fmt: skip
    """A Fetch of one partition from this offset on; `part` has further fields of the partition."""
    named = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20, **(part or {}))
    topics = [FetchTopic(topic=topic, partitions=[named])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics, **fields)


def list_offsets(timestamp: int, *, topic: str = "orders", partition: int = 0, **fields: Any) -> ListOffsetsRequest:
    """A ListOffsets of one partition."""
    part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part])], **fields)


def delete_records(
    offset: int, *, topic: str = "orders", partition: int = 0, timeout_ms: int = 1000
) -> DeleteRecordsRequest:  # fmt: skip
    """A DeleteRecords of one partition up to this offset."""
    part = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=timeout_ms)


def create_topic(
    name: str, partitions: int = 1, factor: int = 1, configs: Mapping[str, str | None] | None = None, timeout_ms: int = 5000
) -> CreateTopicsRequest:
    """A CreateTopics of one topic."""
    settings = [CreatableTopicConfig(name=setting, value=value) for setting, value in (configs or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=[], configs=settings)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


# Groups


def find_coordinator(*keys: str, kind: int = GROUP) -> FindCoordinatorRequest:
    """A FindCoordinator, from version 4 on."""
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))


def join_group(
    group: str, member: str = "", protocols: str | Mapping[str, bytes] = "range", *, session_ms: int = 10_000,
    rebalance_ms: int = 60_000, instance: str | None = None,
) -> JoinGroupRequest:  # fmt: skip
    """A JoinGroup of a consumer; `protocols` are names, or names with metadata."""
    given = protocols if isinstance(protocols, Mapping) else {name: b"meta " + name.encode() for name in protocols.split()}
    return JoinGroupRequest(
        group_id=group, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms, member_id=member,
        group_instance_id=instance, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in given.items()],
    )  # fmt: skip


def sync_group(
    group: str, member: str, generation: int, assignments: Mapping[str, bytes] | None = None, instance: str | None = None
) -> SyncGroupRequest:
    """A SyncGroup; that of the leader has the assignments of all members."""
    given = [SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in (assignments or {}).items()]
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance, assignments=given
    )  # fmt: skip


def heartbeat(group: str, member: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    """A Heartbeat."""
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)


def leave_group(group: str, member: str, instance: str | None = None) -> LeaveGroupRequest:
    """A LeaveGroup of one member, from version 3 on."""
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member, group_instance_id=instance)])


def offset_commit(
    group: str, offset: int, member: str = "", epoch: int = -1, *, topic: str = "orders", partition: int = 0,
    metadata: str | None = "", **fields: Any,
) -> OffsetCommitRequest:  # fmt: skip
    """An OffsetCommit of one partition; `epoch` is the member's epoch, or its generation."""
    part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[part])]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=topics, **fields)


def offset_fetch(
    group: str, *, topic: str = "orders", partitions: Sequence[int] = (0,), require_stable: bool = False
) -> OffsetFetchRequest:  # fmt: skip
    """An OffsetFetch of one topic, up to version 7."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=require_stable)


def offset_fetch_of(
    group: str, *, topic: str = "orders", partitions: Sequence[int] = (0,), **who: Any
) -> OffsetFetchRequest:  # fmt: skip
    """An OffsetFetch of one group and topic, from version 8 on."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics, **who)])


def offset_delete(group: str, *, topic: str = "orders", partition: int = 0) -> OffsetDeleteRequest:
    """An OffsetDelete of one partition."""
    part = OffsetDeleteRequestPartition(partition_index=partition)
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=[part])])


# Producers and transactions


def init_producer_id(
    txid: str | None = None, timeout_ms: int = 60_000, current: Producer = (-1, -1), **fields: Any
) -> InitProducerIdRequest:
    """An InitProducerId; `current` is the producer that the client has."""
    return InitProducerIdRequest(
        transactional_id=txid, transaction_timeout_ms=timeout_ms, producer_id=current[0], producer_epoch=current[1], **fields
    )  # fmt: skip


def add_partitions(
    txid: str, producer: Producer, topic: str = "orders", partitions: Sequence[int] = (0,)
) -> AddPartitionsToTxnRequest:  # fmt: skip
    """An AddPartitionsToTxn of one topic, up to version 3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=txid, v3_and_below_producer_id=producer[0], v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )  # fmt: skip


def add_offsets(txid: str, producer: Producer, group: str) -> AddOffsetsToTxnRequest:
    """An AddOffsetsToTxn."""
    return AddOffsetsToTxnRequest(
        transactional_id=txid, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )  # fmt: skip


def txn_offset_commit(
    txid: str, producer: Producer, group: str, offset: int, *, topic: str = "orders", partition: int = 0
) -> TxnOffsetCommitRequest:
    """A TxnOffsetCommit of one partition."""
    part = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id=txid, group_id=group, producer_id=producer[0], producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
    )  # fmt: skip


def end_txn(txid: str, producer: Producer, commit: bool) -> EndTxnRequest:
    """An EndTxn."""
    return EndTxnRequest(transactional_id=txid, producer_id=producer[0], producer_epoch=producer[1], committed=commit)
