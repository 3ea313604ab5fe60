"""The rows of the fairness table: the setup that each rude client needs, and its requests."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from bench.rude import Attack
from kafkawire.batches import BatchHeader, Record, build_batch, seal, write_record
from kafkawire.compression import compress
from kafkawire.declare import Message
from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.describe_groups import DescribeGroupsRequest
from kafkawire.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkawire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkawire.messages.list_groups import ListGroupsRequest
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkawire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkawire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkawire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from wirebroker.client.wire import WireClient

TOPICS, PARTITIONS = 1_000, 3
GOOD, FILLED, ANY = "good", "filled", "topic-0007"
GROUP, COMMITTING = "rude", "committing"
ZSTD = 4
WITHIN = 60.0
MIB = 1 << 20
UNFOLDED = 120 * MIB
"""The decompressed size of a bomb, slightly below the limit for a decompressed batch."""
ENTRIES = 100_000
MANY = [f"many-{number:05d}" for number in range(20_000)]


def named(number: int) -> str:
    """Returns the name of one of the thousand topics."""
    return f"topic-{number:04d}"


def frame(message: Message, version: int) -> bytes:
    """Returns the whole frame of a request."""
    return encode_request(7, "rude", message, version)


def produce(topic: str, batch: bytes, version: int = 9) -> bytes:
    """Returns the frame of a Produce of one batch to partition 0."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return frame(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[data]), version)


def small_batch() -> bytes:
    """Returns a batch of one record of 100 bytes, with the present time."""
    return build_batch([Record(0, 0, None, b"v" * 100)], base_timestamp=time.time_ns() // 1_000_000)


@dataclass(frozen=True, slots=True)
class Row:
    """A rude client: its name on the command line, its name in the table, and the function that makes the client."""

    name: str
    title: str
    attack: Callable[[], Attack]
    prepare: Callable[[WireClient], None] | None = None


def lay_out(client: WireClient) -> None:
    """Create the thousand topics, and the good client's topic."""
    create_topics(client, [named(number) for number in range(TOPICS)], PARTITIONS)
    create_topics(client, [GOOD, FILLED], 1)


def create_topics(client: WireClient, names: Sequence[str], partitions: int) -> None:
    """Create topics, a thousand in a request. Raises RuntimeError if a topic is refused."""
    for at in range(0, len(names), 1000):
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
            for name in names[at : at + 1000]
        ]
        response = client.request(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5, timeout=WITHIN)
        if codes := {topic.error_code for topic in response.topics} - {0}:
            raise RuntimeError(f"CreateTopics returned error {sorted(codes)}")


# Setup for some rows


def fill(client: WireClient) -> None:
    """Produce 734 KiB of data to one partition."""
    record = Record(0, 0, None, b"v" * (734 * 1024 - 100))
    client.send_bytes(produce(FILLED, build_batch([record], base_timestamp=time.time_ns() // 1_000_000)))
    client.frame(timeout=WITHIN)


def find_coordinator(client: WireClient, group: str) -> None:
    """Send FindCoordinator until there is a coordinator. Raises RuntimeError if it takes too long."""
    deadline = time.monotonic() + WITHIN
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    while client.request(request, 4, timeout=WITHIN).coordinators[0].error_code:
        if time.monotonic() > deadline:
            raise RuntimeError("there was no group coordinator in time")
        time.sleep(0.05)


def join_large(client: WireClient) -> None:
    """Make a stable group with one member that has 1 MB of metadata."""
    find_coordinator(client, GROUP)
    joining = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=300_000, rebalance_timeout_ms=60_000, member_id="", protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m" * 1_000_000)],
    )  # fmt: skip
    deadline = time.monotonic() + WITHIN
    while (response := client.request(joining, 7, timeout=WITHIN)).error_code:
        joining.member_id = response.member_id
        if time.monotonic() > deadline:
            raise RuntimeError(f"JoinGroup returned error {response.error_code}")
        time.sleep(0.05)
    assignments = [SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"")]
    sync = SyncGroupRequest(
        group_id=GROUP, generation_id=response.generation_id, member_id=response.member_id, protocol_type="consumer",
        protocol_name="range", assignments=assignments,
    )  # fmt: skip
    if code := client.request(sync, 5, timeout=WITHIN).error_code:
        raise RuntimeError(f"SyncGroup returned error {code}")


def commit(group: str, partitions: Sequence[int], topics: Sequence[str] = (ANY,)) -> OffsetCommitRequest:
    """Returns a request that commits offsets for a group without members."""
    entries = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
               for index in partitions]  # fmt: skip
    asked = [OffsetCommitRequestTopic(name=topic, partitions=entries) for topic in topics]
    return OffsetCommitRequest(group_id=group, topics=asked)


def many_groups(client: WireClient, count: int = 10_000) -> None:
    """Make groups that have committed one offset each."""
    find_coordinator(client, COMMITTING)
    deadline = time.monotonic() + WITHIN
    while code := client.request(commit(COMMITTING, [0]), 8, timeout=WITHIN).topics[0].partitions[0].error_code:
        if time.monotonic() > deadline:
            raise RuntimeError(f"OffsetCommit returned error {code}")
        time.sleep(0.05)
    for at in range(0, count, 1000):
        client.send_bytes(b"".join(frame(commit(f"group-{number:05d}", [0]), 8) for number in range(at, at + 1000)))
        for _ in range(1000):
            client.frame(timeout=WITHIN)


def many_topics(client: WireClient) -> None:
    """Create 20,000 topics of one partition, for a group."""
    create_topics(client, MANY, 1)
    coordinated(client)


def coordinated(client: WireClient) -> None:
    """Make sure that the coordinator is ready."""
    many_groups(client, 0)


# The requests of the rude clients


def metadata(read: bool) -> Attack:
    """Returns 6,000 requests for the metadata of all topics."""
    return Attack(6_000 * frame(MetadataRequest(topics=None), 9), 6_000 if read else 0)


def describe_configs(read: bool) -> Attack:
    """Returns 5,000 requests for the settings of all topics."""
    resources = [DescribeConfigsResource(resource_type=2, resource_name=named(number), configuration_keys=None)
                 for number in range(TOPICS)]  # fmt: skip
    count = 5_000
    return Attack(count * frame(DescribeConfigsRequest(resources=resources), 1), count if read else 0)


def once(message: Message, version: int, times: int = 1) -> Attack:
    """Returns a rude client that sends copies of one request, and reads the responses."""
    return Attack(times * frame(message, version), times)


def delete_records(unknown: bool) -> Attack:
    """Returns a DeleteRecords with 300,000 entries. If `unknown` is true, each entry names another partition, and only 3,000
    of these partitions exist. Otherwise the entries name 3,000 partitions, each one a hundred times.
    """
    topics = []
    for number in range(TOPICS):
        indexes = range(300) if unknown else [index for index in range(PARTITIONS) for _ in range(100)]
        partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in indexes]
        topics.append(DeleteRecordsTopic(name=named(number), partitions=partitions))
    return once(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 1)


@cache
def mixed_records() -> bytes:
    """Returns a batch of 15 million records of several shapes, in about 10 KiB. The records' offsets are out of order."""
    unit = bytearray()
    for number in range(40):
        key = None if number % 2 else b"k" * (number % 3)
        write_record(unit, Record(number % 50, number % 5, key, b"v" * (number % 4 // 2)))
    count = min(15_000_000, UNFOLDED // len(unit) * 40)
    body = bytes(unit) * (count // 40)
    return sealed(body, count // 40 * 40)


@cache
def bomb() -> bytes:
    """Returns a batch of zeros that decompresses to almost the largest allowed size."""
    return sealed(bytes(UNFOLDED), 1000)


def sealed(body: bytes, count: int) -> bytes:
    """Returns a zstd batch with this body and this number of records."""
    now = time.time_ns() // 1_000_000
    header = BatchHeader(0, 0, -1, 2, 0, ZSTD, count - 1, now, now + 4, -1, -1, -1, count)
    return seal(header, compress(ZSTD, body, 19))


def bombs() -> Attack:
    """Returns twenty zstd bombs, each in a separate Produce."""
    return Attack(b"".join(produce(named(number), bomb()) for number in range(20)), 20)


def fetch(names: int, max_wait_ms: int = 0, min_bytes: int = 1, offset: int = 0, topic: str = FILLED) -> FetchRequest:
    """Returns a Fetch that names the same partition many times."""
    one = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MIB)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, session_epoch=-1,
                        topics=[FetchTopic(topic=topic, partitions=[one] * names)])  # fmt: skip


def waiting_fetch() -> Attack:
    """Returns a Fetch of the partition to which the good client produces. The Fetch waits, because its `min_bytes` is never
    reached."""
    return once(fetch(ENTRIES, max_wait_ms=5_000, min_bytes=MIB * 900, topic=GOOD, offset=0), 11)


def indexes(count: int) -> list[int]:
    """Returns the indexes of `count` partitions, of which only the first three exist."""
    return list(range(count))


def list_offsets() -> Attack:
    """Returns a ListOffsets that names each partition once."""
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes(ENTRIES)]
    topics = [ListOffsetsTopic(name=ANY, partitions=asked)]
    return once(ListOffsetsRequest(replica_id=-1, topics=topics), 5)


def leader_epochs() -> Attack:
    """Returns an OffsetForLeaderEpoch that names the three partitions again and again."""
    asked = [OffsetForLeaderPartition(partition=index % 3, leader_epoch=0) for index in indexes(ENTRIES)]
    return once(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=ANY, partitions=asked)]), 3)


def offset_fetch() -> Attack:
    """Returns an OffsetFetch that names each partition once."""
    topics = [OffsetFetchRequestTopics(name=ANY, partition_indexes=indexes(ENTRIES))]
    return once(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=COMMITTING, topics=topics)]), 8)


def create_topics_at_once(count: int) -> Attack:
    """Returns a CreateTopics of `count` new topics."""
    topics = [CreatableTopic(name=f"new-{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
              for number in range(count)]  # fmt: skip
    return once(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)


def create_large_topic() -> Attack:
    """Returns a request that creates a topic with almost as many partitions as a request may create."""
    topic = CreatableTopic(name="large", num_partitions=9_990, replication_factor=1, assignments=[], configs=[])
    return once(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)


def write_markers() -> Attack:
    """Returns a request with 40,000 markers of unknown producers, for one partition."""
    topics = [WritableTxnMarkerTopic(name=ANY, partition_indexes=[0])]
    markers = [
        WritableTxnMarker(producer_id=number, producer_epoch=0, transaction_result=False, topics=topics, coordinator_epoch=0)
        for number in range(40_000)
    ]
    return once(WriteTxnMarkersRequest(markers=markers), 1)


def join_consumers() -> Attack:
    """Returns the heartbeat with which the first member joins a consumer group and subscribes to 20,000 topics."""
    joins = ConsumerGroupHeartbeatRequest(
        group_id="consumers", member_id="first", member_epoch=0, rebalance_timeout_ms=60_000, topic_partitions=[],
        subscribed_topic_names=MANY,
    )  # fmt: skip
    return once(joins, 1)


def join_sharers() -> Attack:
    """Returns the heartbeat with which the first member joins a share group and subscribes to 20,000 topics."""
    member_id = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
    joins = ShareGroupHeartbeatRequest(group_id="sharers", member_id=member_id, member_epoch=0, subscribed_topic_names=MANY)
    return once(joins, 1)


def create_partitions() -> Attack:
    """Returns a request that adds almost 9,000 partitions to a topic. A request may cause at most 10,000 records in the
    cluster's metadata."""
    topics = [CreatePartitionsTopic(name=ANY, count=9_000, assignments=None)]
    return once(CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=False), 1)


def alter_configs() -> Attack:
    """Returns 100 requests that each change one setting of every topic."""
    configs = [AlterableConfig(name="retention.ms", config_operation=0, value="3600000")]
    resources = [AlterConfigsResource(resource_type=2, resource_name=named(number), configs=configs)
                 for number in range(TOPICS)]  # fmt: skip
    return once(IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 0, 100)


def describe_topic_partitions() -> Attack:
    """Returns 300 requests that each name all topics."""
    topics = [TopicRequest(name=named(number)) for number in range(TOPICS)]
    return once(DescribeTopicPartitionsRequest(topics=topics), 0, 300)


def trickled() -> Attack:
    """Returns a frame of 90 MB of zeros that is sent in small pieces."""
    size = 90_000_000
    return Attack(size.to_bytes(4, "big") + bytes([0, 0, 0, 9]) + bytes(size - 4), 0, piece=256 * 1024, pause=0.01, silent=True)


ROWS = (
    Row("nobody", "nobody", lambda: Attack(b"", 0, times=0)),
    Row("metadata-unread", "6,000 Metadata of all topics, pipelined, never read", lambda: metadata(read=False)),
    Row("metadata", "the same, read", lambda: metadata(read=True)),
    Row("delete-records", "one DeleteRecords of 300,000 partitions (3,000 exist)",
        lambda: delete_records(unknown=True)),
    Row("delete-records-twice", "one DeleteRecords that names 3,000 partitions 100 times each",
        lambda: delete_records(unknown=False)),
    Row("zstd-mixed", "a Produce of 15 M mixed records in 10 KiB of zstd",
        lambda: Attack(produce(ANY, mixed_records()), 1)),
    Row("zstd-bombs", "20 zstd bombs of 120 MiB in 73 KiB", bombs),
    Row("fetch-200", "a Fetch that names the same partition (734 KiB) 200 times", lambda: once(fetch(200), 11), fill),
    Row("fetch-734k", "a Fetch of 734 KiB that names one partition 26,000 times",
        lambda: once(fetch(734 * 1024 // 28), 11), fill),
    Row("fetch-waiting", "a Fetch that names a partition 100,000 times, and waits while others produce to it",
        waiting_fetch),
    Row("describe-configs-unread", "5,000 DescribeConfigs of all topics, pipelined, never read",
        lambda: describe_configs(read=False)),
    Row("describe-configs", "the same, read", lambda: describe_configs(read=True)),
    Row("describe-groups", "a DescribeGroups that names a group 2,000 times (its member's metadata has 1 MB)",
        lambda: once(DescribeGroupsRequest(groups=[GROUP] * 2_000), 4), join_large),
    Row("list-offsets", "a ListOffsets of 100,000 partitions", list_offsets),
    Row("leader-epochs", "an OffsetForLeaderEpoch of 100,000 entries", leader_epochs),
    Row("offset-fetch", "an OffsetFetch of 100,000 partitions", offset_fetch, coordinated),
    Row("offset-commit", "an OffsetCommit of 100,000 entries",
        lambda: once(commit(COMMITTING, [index % 3 for index in indexes(ENTRIES)]), 8), coordinated),
    Row("list-groups", "300 ListGroups of 10,000 groups, pipelined, read",
        lambda: once(ListGroupsRequest(), 3, 300), many_groups),
    Row("alter-configs", "100 IncrementalAlterConfigs of 1,000 topics", alter_configs),
    Row("describe-topic-partitions", "300 DescribeTopicPartitions of 1,000 topics", describe_topic_partitions),
    Row("describe-log-dirs", "300 DescribeLogDirs of all", lambda: once(DescribeLogDirsRequest(topics=None), 2, 300)),
    Row("reconnect", "1,000 connections that are made again and again",
        lambda: Attack(frame(ApiVersionsRequest(client_software_name="rude", client_software_version="1"), 3), 1,
                       connections=1000, times=5)),
    Row("trickled", "a frame of 90 MB that trickles in", trickled),
    Row("write-txn-markers", "a WriteTxnMarkers of 40,000 markers", write_markers),
    Row("create-topics", "a CreateTopics of 4,900 topics", lambda: create_topics_at_once(4_900)),
    Row("create-topic", "a CreateTopics of one topic of 9,990 partitions", create_large_topic),
    Row("create-partitions", "a CreatePartitions of 9,000 partitions", create_partitions),
    Row("consumer-group", "the first ConsumerGroupHeartbeat of a group, with 20,000 topics", join_consumers, many_topics),
    Row("share-group", "the first ShareGroupHeartbeat of a group, with 20,000 topics", join_sharers, many_topics),
)  # fmt: skip
"""Rows that create topics come last, because Kafka serves all rows of a round."""
