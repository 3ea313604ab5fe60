"""The requests whose instructions, system calls and copied bytes are counted. A row sends the same request again and again, one
at a time.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import count

from bench.real import lines
from kafkawire.batches import Record, build_batch
from kafkawire.compression import NONE, ZSTD
from kafkawire.messages import fetch, share_fetch
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.heartbeat import HeartbeatRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wirebroker.client.wire import Connection, address_of

Step = Callable[[], None]
"""A call that sends one request and reads its response."""
Wanted = Callable[[str], bool]
WITHIN = 120.0
"""A response may take this many seconds. Under Valgrind a server is some fifty times slower."""
MEMBER = str(uuid.UUID(int=7))
ACCEPT = 1
PROXIED = (
    "Produce through a proxy, 160 equal records", "Produce through a proxy, 70 mixed records, zstd",
    "Fetch through a proxy of 160 equal records", "Fetch through a proxy of 70 mixed records, zstd",
)  # fmt: skip


def broker_rows(address: str, secured: str, wanted: Wanted) -> Iterator[tuple[str, Step]]:
    """Yields the rows for a broker with a plaintext and a TLS listener. Each row is yielded after its setup."""
    makers = {f"Produce, {name}": _producing(address, records, codec) for name, (records, codec) in _batches().items()}
    mixed = _mixed(70)
    makers["Produce over TLS, 100 equal records"] = _producing(secured, _equal(100, 92), NONE, _tls())
    makers["Produce over TLS, 70 mixed records, zstd"] = _producing(secured, mixed, ZSTD, _tls())
    makers["Fetch of 160 equal records"] = lambda: fetching(address, _equal(160, 92), NONE)
    makers["Fetch of 70 mixed records, zstd"] = lambda: fetching(address, mixed, ZSTD)
    makers["Fetch over TLS of 160 equal records"] = lambda: fetching(secured, _equal(160, 92), NONE, _tls())
    makers["Heartbeat"] = lambda: classic_heartbeat(address)
    makers["ConsumerGroupHeartbeat"] = lambda: heartbeat(address)
    makers["Produce and ShareFetch, 16 equal records"] = lambda: sharing(address, _equal(16, 52), NONE)
    makers["Produce and ShareFetch, 70 mixed records, zstd"] = lambda: sharing(address, mixed, ZSTD)
    makers["5 Produces and ShareFetch, 500 equal records"] = lambda: sharing(address, _equal(100, 92), NONE, 5)
    for name, make in makers.items():
        if wanted(name):
            yield name, make()


def proxy_rows(address: str, wanted: Wanted) -> Iterator[tuple[str, Step]]:
    """Yields the rows for a proxy."""
    for name in filter(wanted, PROXIED):
        records, codec = (_mixed(70), ZSTD) if "mixed" in name else (_equal(160, 92), NONE)
        yield name, (producing(address, records, codec, None) if "Produce" in name else fetching(address, records, codec))


def _batches() -> dict[str, tuple[list[Record], int]]:
    equal, mixed = _equal(160, 92), _mixed(70)
    return {
        "16 equal records of 1 KiB together": (_equal(16, 52), NONE), "160 equal records of 16 KiB together": (equal, NONE),
        "160 equal records, zstd": (equal, ZSTD), "70 mixed records": (mixed, NONE), "70 mixed records, zstd": (mixed, ZSTD),
        "8,000 equal records of 0.9 MB together": (_equal(8_000, 104), NONE),
    }  # fmt: skip


def _equal(number: int, size: int) -> list[Record]:
    return [Record(i, 0, None, b"v" * size) for i in range(number)]


def _mixed(number: int) -> list[Record]:
    """Returns records like the records of a real load. Each record is 1 ms later than the record before it."""
    found = []
    for i, line in zip(range(number), lines(), strict=False):
        key, header, value = line.encode().split(b"\t", 2)
        found.append(Record(i, i, key, value, (("trace", header),) if header else ()))
    return found


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _producing(address: str, records: list[Record], codec: int, tls: ssl.SSLContext | None = None) -> Callable[[], Step]:
    return lambda: producing(address, records, codec, tls)


def producing(address: str, records: list[Record], codec: int, tls: ssl.SSLContext | None, topic: str | None = None) -> Step:
    """Returns a step that produces a batch of these records, to `topic` or else to a new topic. Each call sends the next
    sequence."""
    connection = Connection(address_of(address), WITHIN, tls=tls)
    name = topic or create_topic(connection)[0]
    producer = connection.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1)
    sequences, now = count(0, len(records)), time.time_ns() // 1_000_000

    def step() -> None:
        batch = build_batch(
            records, base_timestamp=now, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch,
            base_sequence=next(sequences), compression=codec,
        )  # fmt: skip
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data])
        code = connection.request(request, 9).responses[0].partition_responses[0].error_code
        _check("Produce", code)

    return step


def fetching(address: str, records: list[Record], codec: int, tls: ssl.SSLContext | None = None) -> Step:
    """Returns a step that fetches the same batch again and again."""
    connection = Connection(address_of(address), WITHIN, tls=tls)
    topic, _ = create_topic(connection)
    producing(address, records, codec, tls, topic)()
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[fetch.FetchTopic(topic=topic, partitions=[partition])]
    )

    def step() -> None:
        found = connection.request(request, 12).responses[0].partitions[0]
        _check("Fetch", found.error_code)
        if not found.records:
            raise RuntimeError("Fetch returned no records")

    return step


def classic_heartbeat(address: str) -> Step:
    """Returns a step that sends a heartbeat of the only member of a classic group."""
    connection = Connection(address_of(address), WITHIN)
    group = f"bench-{time.time_ns()}"
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    joins = JoinGroupRequest(
        group_id=group, session_timeout_ms=300_000, rebalance_timeout_ms=300_000, member_id="", protocol_type="consumer",
        protocols=[protocol],
    )  # fmt: skip
    joined = connection.request(joins, 3)
    _check("JoinGroup", joined.error_code)
    named = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    given = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
    _check("SyncGroup", connection.request(SyncGroupRequest(**named, assignments=[given]), 2).error_code)
    beat = HeartbeatRequest(**named)
    return lambda: _check("Heartbeat", connection.request(beat, 4).error_code)


def heartbeat(address: str) -> Step:
    """Returns a step that sends a heartbeat of the only member of a consumer group."""
    connection = Connection(address_of(address), WITHIN)
    topic, _ = create_topic(connection)
    joins = ConsumerGroupHeartbeatRequest(
        group_id=topic, member_id=MEMBER, member_epoch=0, rebalance_timeout_ms=300_000, subscribed_topic_names=[topic],
        topic_partitions=[],
    )  # fmt: skip
    joined = connection.request(joins, 1)
    _check("ConsumerGroupHeartbeat", joined.error_code)
    beat = ConsumerGroupHeartbeatRequest(group_id=topic, member_id=MEMBER, member_epoch=joined.member_epoch)
    return lambda: _check("ConsumerGroupHeartbeat", connection.request(beat, 1).error_code)


def sharing(address: str, records: list[Record], codec: int, batches: int = 1) -> Step:
    """Returns a step that produces batches and fetches them as the member of a share group. The ShareFetch also acknowledges
    the batches of the previous step."""
    connection = Connection(address_of(address), WITHIN)
    topic, topic_id = create_topic(connection)
    joins = ShareGroupHeartbeatRequest(group_id=topic, member_id=MEMBER, member_epoch=0, subscribed_topic_names=[topic])
    _check("ShareGroupHeartbeat", connection.request(joins, 1).error_code)
    epochs, accepted = count(), list[share_fetch.AcknowledgementBatch]()

    def take() -> None:
        partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=list(accepted))
        request = share_fetch.ShareFetchRequest(
            group_id=topic, member_id=MEMBER, share_session_epoch=next(epochs), max_wait_ms=0, min_bytes=1, max_records=500,
            batch_size=500, topics=[share_fetch.FetchTopic(topic_id=topic_id, partitions=[partition])],
            forgotten_topics_data=[],
        )  # fmt: skip
        response = connection.request(request, 1)
        _check("ShareFetch", response.error_code)
        found = [partition for each in response.responses for partition in each.partitions]
        accepted.clear()
        for each in (acquired for partition in found for acquired in partition.acquired_records):
            accepted.append(share_fetch.AcknowledgementBatch(each.first_offset, each.last_offset, [ACCEPT]))

    take()  # the group begins at the end of the topic, which is empty
    produce = producing(address, records, codec, None, topic)

    def step() -> None:
        for _ in range(batches):
            produce()
        take()
        if not accepted:
            raise RuntimeError("ShareFetch returned no records")

    return step


def create_topic(connection: Connection) -> tuple[str, bytes]:
    """Creates a topic with one partition. Returns its name and id; all names have the same length."""
    name = f"bench-{time.time_ns()}"
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (made,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7).topics
    _check("CreateTopics", made.error_code)
    return name, made.topic_id


def _check(api: str, code: int) -> None:
    if code:
        raise RuntimeError(f"{api} returned error {code}")
