"""Makes requests for tests. Most requests are about one group, one producer or one partition.

Each function has the name of its API and returns a request. Fields that a test does not set have the values of a normal client.
`plain` makes a request of any other API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkawire.declare import from_plain
from kafkawire.registry import KEYS, request_class

GROUP, TRANSACTION, SHARE = range(3)
"""The kinds of coordinators."""
Producer = tuple[int, int]
"""A producer's id and epoch."""
Plain = dict[str, Any]
"""A message, or a struct in a message, as a dictionary of its fields."""


def plain(api: str, **fields: Any) -> Any:
    """Makes a request of any API from plain data."""
    return from_plain(request_class(KEYS[api]), fields)


def named(names: Iterable[str], key: str = "name", **fields: Any) -> list[Plain]:
    """Makes plain data: a list with one element for each name. The other fields are the same in all elements."""
    return [{key: name, **fields} for name in names]


# Records


def produce_request(
    topic: str, data: bytes | None, partition: int = 0, acks: int = -1, *, txid: str | None = None, timeout_ms: int = 5000
) -> Any:
    """Returns a Produce request with record data for one partition."""
    topics = named([topic], partition_data=[{"index": partition, "records": data}])
    return plain("Produce", transactional_id=txid, acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def fetch(
    offset: int = 0, *, topic: str = "orders", partition: int = 0, wait_ms: int = 0, part: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Any:  # fmt: skip
    """Returns a Fetch request for one partition from `offset` on. `part` has more fields of the partition."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **(part or {})}
    topics = named([topic], "topic", partitions=[wanted])
    return plain("Fetch", max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics, **fields)


def list_offsets(timestamp: int, *, topic: str = "orders", partition: int = 0, **fields: Any) -> Any:
    """Returns a ListOffsets request for one partition."""
    part = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
    return plain("ListOffsets", replica_id=-1, topics=named([topic], partitions=[part]), **fields)


def delete_records(offset: int, *, topic: str = "orders", partition: int = 0, timeout_ms: int = 1000) -> Any:
    """Returns a DeleteRecords request that deletes the records of one partition before `offset`."""
    topics = named([topic], partitions=[{"partition_index": partition, "offset": offset}])
    return plain("DeleteRecords", topics=topics, timeout_ms=timeout_ms)


# Topics


def new_topic(
    name: str, partitions: int = 1, factor: int = 1, on: Iterable[tuple[int, Sequence[int]]] = (), **configs: str | None
) -> Plain:
    """Returns a topic for CreateTopics. `on` has the brokers of each partition. In the names of settings, `_` stands for a
    dot."""
    return {
        "name": name, "num_partitions": partitions, "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": list(nodes)} for index, nodes in on],
        "configs": [{"name": setting.replace("_", "."), "value": value} for setting, value in configs.items()],
    }  # fmt: skip


def create_topics(*topics: Plain, timeout_ms: int = 5000, **fields: Any) -> Any:
    """Returns a CreateTopics."""
    return plain("CreateTopics", topics=list(topics), timeout_ms=timeout_ms, **fields)


def create_topic(
    name: str, partitions: int = 1, factor: int = 1, configs: Mapping[str, str | None] | None = None, timeout_ms: int = 5000
) -> Any:
    """Returns a CreateTopics request for one topic."""
    return create_topics(new_topic(name, partitions, factor, **(configs or {})), timeout_ms=timeout_ms)


# Groups


def find_coordinator(*keys: str, kind: int = GROUP) -> Any:
    """Returns a FindCoordinator request for version 4 or later."""
    return plain("FindCoordinator", key_type=kind, coordinator_keys=list(keys))


def join_group(
    group: str, member: str = "", protocols: str | Iterable[tuple[str, bytes]] = "range", *, session_ms: int = 10_000,
    rebalance_ms: int = 60_000, instance: str | None = None, protocol_type: str = "consumer",
) -> Any:  # fmt: skip
    """Returns a consumer's JoinGroup request. `protocols` has names, or pairs of a name and metadata."""
    given = [(name, b"meta " + name.encode()) for name in protocols.split()] if isinstance(protocols, str) else protocols
    return plain(
        "JoinGroup", group_id=group, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms, member_id=member,
        group_instance_id=instance, protocol_type=protocol_type,
        protocols=[{"name": name, "metadata": metadata} for name, metadata in given],
    )  # fmt: skip


def sync_group(
    group: str, member: str, generation: int, assignments: Mapping[str, bytes] | None = None, instance: str | None = None,
    **fields: Any,
) -> Any:  # fmt: skip
    """Returns a SyncGroup request. The leader's request has the assignments of all members."""
    given = [{"member_id": name, "assignment": data} for name, data in (assignments or {}).items()]
    return plain("SyncGroup", **_member(group, member, instance, generation), assignments=given, **fields)


def heartbeat(group: str, member: str, generation: int, instance: str | None = None) -> Any:
    """Returns a Heartbeat."""
    return plain("Heartbeat", **_member(group, member, instance, generation))


def _member(group: str, member: str, instance: str | None, generation: int) -> Plain:
    return {"group_id": group, "member_id": member, "group_instance_id": instance, "generation_id": generation}


def leave_group(group: str, member: str, instance: str | None = None) -> Any:
    """Returns a LeaveGroup request of one member, for version 3 or later."""
    return plain("LeaveGroup", group_id=group, members=[{"member_id": member, "group_instance_id": instance}])


def offset_commit(
    group: str, offset: int, member: str = "", epoch: int = -1, *, topic: str = "orders", partition: int = 0,
    metadata: str | None = "", **fields: Any,
) -> Any:  # fmt: skip
    """Returns an OffsetCommit request for one partition. `epoch` is the member's epoch or generation."""
    part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    who = {"group_id": group, "generation_id_or_member_epoch": epoch, "member_id": member}
    return plain("OffsetCommit", **who, topics=named([topic], partitions=[part]), **fields)


def offset_fetch(group: str, *, topic: str = "orders", partitions: Sequence[int] = (0,), require_stable: bool = False) -> Any:
    """Returns an OffsetFetch request for one topic, for version 7 or earlier."""
    topics = named([topic], partition_indexes=list(partitions))
    return plain("OffsetFetch", group_id=group, topics=topics, require_stable=require_stable)


def offset_fetch_of(group: str, *, topic: str = "orders", partitions: Sequence[int] = (0,), **who: Any) -> Any:
    """Returns an OffsetFetch request for one group and topic, for version 8 or later."""
    topics = named([topic], partition_indexes=list(partitions))
    return plain("OffsetFetch", groups=[{"group_id": group, "topics": topics, **who}])


def offset_delete(group: str, *, topic: str = "orders", partitions: Sequence[int] = (0,)) -> Any:
    """Returns an OffsetDelete request for partitions of one topic."""
    parts = [{"partition_index": index} for index in partitions]
    return plain("OffsetDelete", group_id=group, topics=named([topic], partitions=parts))


# Producers and transactions


def init_producer_id(txid: str | None = None, timeout_ms: int = 60_000, current: Producer = (-1, -1), **fields: Any) -> Any:
    """Returns an InitProducerId request. `current` is the producer id and the epoch that the client already has."""
    return plain("InitProducerId", **_producer(txid, current), transaction_timeout_ms=timeout_ms, **fields)


def _producer(txid: str | None, producer: Producer) -> Plain:
    return {"transactional_id": txid, "producer_id": producer[0], "producer_epoch": producer[1]}


def add_partitions(
    txid: str, producer: Producer, topic: str = "orders", partitions: Sequence[int] = (0,), topics: list[Plain] | None = None
) -> Any:
    """Returns an AddPartitionsToTxn request for version 3 or earlier, with one topic or with `topics`."""
    fields = _producer(txid, producer) | {"topics": topics or named([topic], partitions=list(partitions))}
    return plain("AddPartitionsToTxn", **{f"v3_and_below_{name}": value for name, value in fields.items()})


def add_offsets(txid: str, producer: Producer, group: str) -> Any:
    """Returns an AddOffsetsToTxn."""
    return plain("AddOffsetsToTxn", **_producer(txid, producer), group_id=group)


def txn_offset_commit(
    txid: str, producer: Producer, group: str, offset: int, *, topic: str = "orders", partition: int = 0
) -> Any:
    """Returns a TxnOffsetCommit request for one partition."""
    part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    return plain("TxnOffsetCommit", **_producer(txid, producer), group_id=group, topics=named([topic], partitions=[part]))


def end_txn(txid: str, producer: Producer, commit: bool) -> Any:
    """Returns an EndTxn."""
    return plain("EndTxn", **_producer(txid, producer), committed=commit)
