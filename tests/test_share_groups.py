"""Share groups (KIP-932), tested over the wire with a frozen clock: acquisition locks, delivery counts, sessions and restarts.

The recorded dialogues test the responses to valid and invalid requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkawire.batches import Record, build_batch, iter_batches, read_header
from kafkawire.errors import ErrorCode
from kafkawire.messages.share_fetch import PartitionData, ShareFetchResponse
from requesting import plain
from responses import only, sole
from wirebroker import MockKafka
from wirebroker.apis.share_fetch import Read, ShareFetch, Slices, _in_reach, _read
from wirebroker.client.wire import WireClient
from wirebroker.core.cluster import GROUP_TOPIC, SHARE_TOPIC
from wirebroker.core.logs.interface import Slice
from wirebroker.core.logs.memory import MemoryLog
from wirebroker.core.share.partitions import Held
from wirebroker.trace.rows import ShareRow
from wirekit import NOW, client

ACCEPT, RELEASE, REJECT = 1, 2, 3
Ranges = list[tuple[int, int, int]]
"""Ranges of acquired records. Each range has the first offset, the last offset and the delivery count."""


class Shared:
    """The members of the share group "g", which consume topic "t" from its start."""

    def __init__(self, kafka: MockKafka, **settings: object) -> None:
        self.kafka, self.wire = kafka, client(kafka)
        self._epochs: dict[str, int] = {}
        configs = {"share.auto.offset.reset": "earliest", **settings}
        changes = [{"name": name, "config_operation": 0, "value": str(value)} for name, value in configs.items()]
        resource = {"resource_type": 32, "resource_name": "g", "configs": changes}
        altered = self.ask("admin", "IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert altered.responses[0].error_code == 0
        for _ in range(3):
            self.ask("admin", "FindCoordinator", 4, key_type=0, coordinator_keys=["g"])
            partitions = [{"partition_index": 0, "start_offset": 0}]
            self.ask("admin", "AlterShareGroupOffsets", 0, group_id="g", topics=[{"topic_name": "t", "partitions": partitions}])
        topics = self.ask("admin", "Metadata", 12, topics=[{"name": "t"}], allow_auto_topic_creation=False).topics
        self.topic_id: bytes = topics[0].topic_id

    def ask(self, who: str, api: str, version: int, **fields: Any) -> Any:
        """Send a request on the connection of the member `who`."""
        return self.wire.request(plain(api, **fields), version, who)

    def close(self) -> None:
        """Close all connections. Later requests open new connections."""
        self.wire.close()

    def begin_again(self) -> None:
        """Starts new share sessions, because a restarted broker has forgotten the old sessions."""
        self._epochs.clear()

    def fetch(self, who: str, acknowledged: list[tuple[int, int, int]] | None = None, **fields: Any) -> PartitionData | None:
        """Sends a member's next ShareFetch. Returns the partition in the response, or None if the response does not have the
        partition.
        """
        epoch = self._epochs.get(who, 0)
        batches = [{"first_offset": a, "last_offset": b, "acknowledge_types": [kind]} for a, b, kind in acknowledged or ()]
        partition = {"partition_index": 0, "acknowledgement_batches": batches}
        body = {
            "group_id": "g", "member_id": who, "share_session_epoch": epoch, "max_wait_ms": 0, "min_bytes": 1,
            "max_records": 500, "batch_size": 500, "topics": [{"topic_id": self.topic_id, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }  # fmt: skip
        response: ShareFetchResponse = self.ask(who, "ShareFetch", 2, **(body | fields))
        assert response.error_code == 0
        self._epochs[who] = epoch + 1
        return only(response) if response.responses else None

    def acquire(self, who: str, **fields: Any) -> Ranges:
        """Returns the records that the member acquires with its next fetch."""
        self.fetch(who)  # the group's first fetch only makes the broker read the share state
        return self.acquired(self.fetch(who, **fields))

    @staticmethod
    def acquired(data: PartitionData | None) -> Ranges:
        """Returns the acquired records in a response."""
        return [(a.first_offset, a.last_offset, a.delivery_count) for a in data.acquired_records] if data is not None else []


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"t": 1}, clock="frozen", trace="changes") as broker:
        yield broker


def produced(kafka: MockKafka, count: int) -> None:
    for i in range(count):
        kafka.produce("t", value=f"v{i}")


def shared_by(kafka: MockKafka, first: str, **settings: object) -> tuple[Shared, Ranges]:
    """Makes a share group whose first member has acquired all available records."""
    group = Shared(kafka, **settings)
    group.fetch(first)
    return group, group.acquired(group.fetch(first))


def test_a_lock_that_expires_makes_the_records_available_again(kafka: MockKafka) -> None:
    produced(kafka, 3)
    group, first = shared_by(kafka, "a")
    with closing(group):
        assert first == [(0, 2, 1)]
        assert group.acquire("b") == []
        kafka.clock.advance(milliseconds=29_999)
        assert group.acquire("b") == []
        kafka.clock.advance(milliseconds=1)
        assert group.acquired(group.fetch("b")) == [(0, 2, 2)]
        rows = [row for row in kafka.trace.events("share") if isinstance(row, ShareRow)]
        told = [(row.change, row.member, row.state, row.delivery_count) for row in rows]
        assert told == [
            ("acquired", "a", "acquired", 1), ("lock_expired", "a", "available", 1), ("acquired", "b", "acquired", 2),
        ]  # fmt: skip


def test_an_acknowledgement_after_the_lock_has_expired_is_refused(kafka: MockKafka) -> None:
    produced(kafka, 1)
    group, _ = shared_by(kafka, "a")
    with closing(group):
        kafka.clock.advance(seconds=31)
        response = group.fetch("a", [(0, 0, ACCEPT)], max_records=0)
        assert response is not None
        assert response.acknowledge_error_code == 121


def test_a_record_is_delivered_no_more_often_than_the_limit_allows(kafka: MockKafka) -> None:
    produced(kafka, 1)
    group, deliveries = shared_by(kafka, "a", **{"share.delivery.count.limit": 3})
    with closing(group):
        for _ in range(5):
            kafka.clock.advance(seconds=31)
            deliveries += group.acquired(group.fetch("a"))
        assert deliveries == [(0, 0, 1), (0, 0, 2), (0, 0, 3)]
        produced(kafka, 1)
        assert group.acquired(group.fetch("a")) == [(1, 1, 1)]


def test_a_closed_connection_releases_what_its_member_has_acquired(kafka: MockKafka) -> None:
    produced(kafka, 2)
    group, _ = shared_by(kafka, "a")
    with closing(group):
        assert group.acquire("b") == []
        group.wire.drop("a")
        kafka.wait_until(lambda: group.acquired(group.fetch("b")) == [(0, 1, 2)], timeout=5)


def test_a_fetch_waits_until_records_are_produced_or_a_lock_expires(kafka: MockKafka) -> None:
    produced(kafka, 1)
    group, _ = shared_by(kafka, "a")
    with closing(group):
        group.fetch("b")
        body = {"share_session_epoch": 1, "max_wait_ms": 600_000, "topics": [], "forgotten_topics_data": []}
        fields = {"group_id": "g", "member_id": "b", "min_bytes": 1, "max_records": 9, "batch_size": 9} | body
        group.wire.send(plain("ShareFetch", **fields), 2, "b")
        kafka.clock.advance(seconds=31)
        (topic,) = group.wire.response("b").responses
        assert group.acquired(topic.partitions[0]) == [(0, 0, 2)]


def test_aborted_records_are_skipped_by_a_group_that_reads_committed_ones(kafka: MockKafka) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="x", acks="all", enable_idempotence=True
    )
    producer.init_transactions()
    for commit in (False, True):
        producer.begin_transaction()
        producer.send("t", b"v").get(10)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    group, found = shared_by(kafka, "a", **{"share.isolation.level": "read_committed"})
    with closing(group):
        assert found == [(1, 3, 1)], (
            "the aborted record 0 is not acquired; the offsets 1 and 3 of markers are acquired with the records"
        )


@pytest.mark.parametrize("mode", ["clean", "kill"])
def test_a_restart_keeps_what_was_acknowledged(mode: str, tmp_path: Path) -> None:
    with MockKafka(topics={"t": 1}, clock="frozen", data=tmp_path) as kafka:
        produced(kafka, 4)
        group, _ = shared_by(kafka, "a")
        group.fetch("a", [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)], max_records=0)
        kafka.restart(mode)
        group.close()
        group.begin_again()
        group.fetch("a")
        assert group.acquired(group.fetch("a")) == [(1, 1, 2), (3, 3, 1)]
        described = group.ask("a", "DescribeShareGroupOffsets", 1, groups=[{"group_id": "g", "topics": None}])
        assert [p.start_offset for p in described.groups[0].topics[0].partitions] == [0]
        group.close()


def test_a_member_gets_partitions_once_their_state_is_initialized(kafka: MockKafka) -> None:
    group = Shared(kafka)
    with closing(group):
        beat = {"group_id": "h", "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
        for _ in range(3):
            joined = group.ask("m", "ShareGroupHeartbeat", 1, **beat)
        assert joined.error_code == 0
        kafka.clock.advance(seconds=2)
        beat |= {"member_epoch": joined.member_epoch, "subscribed_topic_names": None}
        response = group.ask("m", "ShareGroupHeartbeat", 1, **beat)
        assert [each.partitions for each in response.assignment.topic_partitions] == [[0]]
        state = kafka.groups()["h"]
        assert (state.type, state.state) == ("share", "Stable")
        assert [member.assignment[0].topic for member in state.members if member.assignment] == ["t"]
        kafka.clock.advance(seconds=46)
        assert kafka.groups()["h"].state == "Empty"


def fail_writes(kafka: MockKafka, topic: str, times: int) -> None:
    for partition in kafka._call(lambda engine: engine.cluster.topics[topic].partitions):
        partition.fail_next_write(times)


def delete_group(group: Shared) -> int:
    """Deletes the group, and returns the error code."""
    code: int = sole(group.ask("admin", "DeleteGroups", 2, groups_names=["g"]).results).error_code
    return code


DELETIONS: dict[tuple[str, int], dict[str, Any]] = {
    ("DeleteShareGroupOffsets", 0): {"group_id": "g", "topics": [{"topic_name": "t"}]},
    ("DeleteGroups", 2): {"groups_names": ["g"]},
}


@pytest.mark.parametrize(("api", "version"), DELETIONS)
def test_states_that_could_not_be_deleted_are_deleted_with_the_group(kafka: MockKafka, api: str, version: int) -> None:
    """An earlier request has begun to delete states. As in Kafka (GroupMetadataManager.shareGroupBuildPartitionDeleteRequest),
    DeleteGroups deletes these states again."""
    group = Shared(kafka)
    states = kafka._call(lambda engine: engine.groups.share_state.states)
    fail_writes(kafka, SHARE_TOPIC, 10**9)
    assert only(group.ask("admin", api, version, **DELETIONS[api, version])).error_code != 0
    fail_writes(kafka, SHARE_TOPIC, 0)
    assert len(states) == 1
    assert (delete_group(group), len(states)) == (0, 0)


def test_a_group_whose_records_name_a_deleted_topic_is_deleted_with_the_second_request(kafka: MockKafka) -> None:
    """The group coordinator could not write that the topic is deleted. As in Kafka, the share coordinator then refuses to
    delete the state of the unknown topic, and the group coordinator does not request this deletion again."""
    group = Shared(kafka)
    fail_writes(kafka, GROUP_TOPIC, 10**9)
    group.ask("admin", "DeleteTopics", 6, topics=[{"name": "t"}], timeout_ms=1000)
    fail_writes(kafka, GROUP_TOPIC, 0)
    assert delete_group(group) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete_group(group) == 0


def test_a_fault_matches_share_fetch_as_any_api(kafka: MockKafka) -> None:
    from wirebroker import faults

    produced(kafka, 1)
    group = Shared(kafka)
    with closing(group):
        rule = kafka.faults.add(faults.error("NOT_LEADER_OR_FOLLOWER", api="ShareFetch", topic="t"))
        data = group.fetch("a")
        assert data is not None
        assert (data.error_code, rule.fired) == (6, 1)


@pytest.mark.parametrize(("given_out", "read"), [(None, [0, 10, 20, 30]), (9, [0, 10, 20, 30, 40]), (10, [0, 10, 20, 30, 40])])
def test_a_fetch_looks_at_the_batches_in_reach_alone(given_out: int | None, read: list[int]) -> None:
    """The fetch can acquire 25 records. So it reads three batches of ten records, and also the next batch. Another member has
    already acquired the records up to the offset `given_out`.
    """
    ten = [Record(number, 0, None, b"v") for number in range(10)]
    log = b"".join(build_batch(ten, base_offset=base) for base in range(0, 500, 10))
    held = SimpleNamespace(share=SimpleNamespace(start_offset=0, end_offset=given_out or 0))
    begin = 0 if given_out in (None, 10) else 10
    data = memoryview(log)[begin * len(log) // 500 :]
    found = Slice(data, len(data))
    _, spans = _in_reach(cast("Held", held), Read(begin, found, len(data)), found, 25)
    assert [each.base for each in spans] == [base for base in read if base >= begin]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("sizes", [[1_000] * 400, [200_000, 1, 300_000, 1, 2_000_000, 1], [100_000] * 9])
def test_a_fetch_gives_out_all_records_for_which_it_has_room(sizes: list[int], on_disk: bool, tmp_path: Path) -> None:
    """The fetch first reads few bytes. If these bytes contain too few records, it reads more."""
    with MockKafka(
        topics={"t": 1}, clock="frozen", data=tmp_path if on_disk else None, configs={"message.max.bytes": 10_000_000}
    ) as kafka:
        for size in sizes:
            kafka.produce("t", value=bytes(size))
        with closing(Shared(kafka)) as group:
            group.fetch("a", max_records=1)  # the group's first fetch only makes the broker read the share state
            most = len(sizes) - 2
            data = group.fetch("a", max_records=most, share_acquire_mode=1)
            assert data is not None
            assert group.acquired(data) == [(0, most - 1, 1)]
            found = [read_header(each) for each in iter_batches(data.records or b"")]
            assert [(header.base_offset, header.last_offset) for header in found] == [(i, i) for i in range(most)]
            last = group.acquired(group.fetch("a", [(0, most - 1, RELEASE)]))
            again = group.acquired(group.fetch("a", max_records=len(sizes) - 1))
            assert (last, again) == ([(most, most + 1, 1)], [(0, most - 1, 2)])


def test_a_partition_begins_with_a_large_batch_that_the_limit_allows() -> None:
    batch = build_batch([Record(0, 0, None, bytes(200_000))])
    log = MemoryLog()
    log.append(batch, 1, 0, NOW)
    held = SimpleNamespace(
        partition=SimpleNamespace(log=log, log_start_offset=0, log_end_offset=1, high_watermark=1),
        share=SimpleNamespace(next_fetch_offset=lambda: 0), settings=SimpleNamespace(limits=SimpleNamespace(committed=False)),
    )  # fmt: skip
    sizes = [_read(cast("Held", held), limit, at_least_one=False).size for limit in (1 << 20, len(batch), len(batch) - 1)]
    assert sizes == [len(batch), len(batch), 0]


def test_a_fetch_that_loads_many_partitions_looks_at_all_of_them_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    attempt = ShareFetch._try

    def counted(fetch: ShareFetch, now: int) -> Slices:
        nonlocal tries
        tries += 1
        return attempt(fetch, now)

    monkeypatch.setattr(ShareFetch, "_try", counted)
    with MockKafka(topics={"t": 1, "wide": 64}, clock="frozen") as broker, closing(Shared(broker)) as group:
        offsets = [{"partition_index": i, "start_offset": 0} for i in range(64)]
        group.ask("admin", "AlterShareGroupOffsets", 0, group_id="g", topics=[{"topic_name": "wide", "partitions": offsets}])
        broker.produce("wide", value="v", partition=63)
        topics = group.ask("admin", "Metadata", 12, topics=[{"name": "wide"}], allow_auto_topic_creation=False).topics
        wanted = [{"partition_index": i, "acknowledgement_batches": []} for i in range(64)]
        response = group.ask(
            "m", "ShareFetch", 2, group_id="g", member_id="m", share_session_epoch=0, max_wait_ms=1000, min_bytes=1,
            max_records=500, batch_size=500, topics=[{"topic_id": topics[0].topic_id, "partitions": wanted}],
            forgotten_topics_data=[],
        )  # fmt: skip
    given = [part.partition_index for topic in response.responses for part in topic.partitions if part.acquired_records]
    assert (given, tries) == ([63], 8), "one try each when 0, 1, 2, 4, 8, 16, 32 and all states are loaded"


def test_what_a_quota_does_not_allow_is_acquired_and_not_sent(tmp_path: Path) -> None:
    """As on a real broker, the quota allows 20,000 bytes at once, because its window is ten seconds long."""
    with MockKafka(topics={"t": 1}, clock="frozen", data=tmp_path) as kafka:
        for _ in range(50):
            kafka.produce("t", value=bytes(1000))
        group, _ = shared_by(kafka, "a", **{"share.record.lock.duration.ms": 60_000})
        with closing(group):
            kafka.clock.advance(seconds=60)  # the locks expire
            kafka.quotas.set(client_id="<default>", consumer_byte_rate=2000)
            assert group.acquired(group.fetch("a")) == [(0, 17, 2)]
            assert group.fetch("a", max_bytes=3000) is None
            (row,) = kafka.trace.events("throttle")
            kafka.clock.advance(milliseconds=row.ms)
            assert group.acquired(group.fetch("a", max_bytes=3000)) == [(20, 21, 2)], "18 and 19 are acquired, but not sent"


NOT_HERE = "This is not the correct coordinator."
UNABLE = "Unable to {} share group state{}: " + NOT_HERE
MEMBER: dict[str, Any] = {
    "group_id": "g", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "member_epoch": 0, "rebalance_timeout_ms": 60_000,
}  # fmt: skip
SHARE_MEMBER = {name: value for name, value in MEMBER.items() if name != "rebalance_timeout_ms"}
TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": "p"}
OFFSETS = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 0}]}]


def places(**fields: Any) -> dict[str, Any]:
    """Returns the fields of a request about a share partition's state."""
    return {"group_id": "g", "topics": [{"topic_id": bytes(15) + b"\1", "partitions": [{"partition": 0, **fields}]}]}


COLD: dict[tuple[str, int], tuple[dict[str, Any], str | None]] = {
    ("ShareGroupHeartbeat", 1): (SHARE_MEMBER | {"subscribed_topic_names": ["t"]}, None),
    ("ConsumerGroupHeartbeat", 1): (MEMBER | {"subscribed_topic_names": ["t"], "topic_partitions": []}, None),
    ("StreamsGroupHeartbeat", 0): (MEMBER | TASKS | {"topology": {"epoch": 0, "subtopologies": []}}, None),
    ("ConsumerGroupDescribe", 1): ({"group_ids": ["g"]}, None),
    ("ShareGroupDescribe", 1): ({"group_ids": ["g"]}, NOT_HERE),
    ("StreamsGroupDescribe", 0): ({"group_ids": ["g"]}, None),
    ("DescribeShareGroupOffsets", 1): ({"groups": [{"group_id": "g", "topics": None}]}, NOT_HERE),
    ("AlterShareGroupOffsets", 0): ({"group_id": "g", "topics": OFFSETS}, NOT_HERE),
    ("DeleteShareGroupOffsets", 0): ({"group_id": "g", "topics": [{"topic_name": "t"}]}, NOT_HERE),
    ("InitializeShareGroupState", 0): (places(state_epoch=0, start_offset=0), UNABLE.format("initialize", "")),
    ("ReadShareGroupState", 0): (places(leader_epoch=0), UNABLE.format("read", "")),
    ("ReadShareGroupStateSummary", 0): (places(leader_epoch=0), UNABLE.format("read", " summary")),
    ("WriteShareGroupState", 0): (
        places(state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[]), UNABLE.format("write", "")
    ),
    ("DeleteShareGroupState", 0): (places(), UNABLE.format("delete", "")),
}  # fmt: skip


@pytest.mark.parametrize(("api", "version"), COLD)
def test_a_broker_that_coordinates_nothing_yet_says_it_in_kafkas_words(kafka: MockKafka, api: str, version: int) -> None:
    """The messages were recorded on a real broker before it received any FindCoordinator."""
    fields, message = COLD[api, version]
    with closing(WireClient.at(kafka.bootstrap_servers)) as client:
        response = client.request(plain(api, **fields), version)
    groups = getattr(response, "groups", ())
    part = response if hasattr(response, "error_code") else sole(groups) if groups else only(response)
    assert (part.error_code, part.error_message) == (16, message)
