"""Plays the deeds (operations of clients). For each deed, reads the records that the coordinators write. tests/data has the
records that real brokers wrote for the same deeds.

Names replace the values that differ from cluster to cluster: times, generated ids, and the hashes of topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from acl_requests import batch, plain_request
from kafkawire import coordinator_records
from kafkawire.batches import iter_batches, iter_records, read_header
from kafkawire.coordinator_log import read_record
from kafkawire.declare import Struct
from requesting import create_topics, new_topic, plain
from responses import only

TOPICS = {
    "__consumer_offsets": coordinator_records.GROUP_RECORDS,
    "__transaction_state": coordinator_records.TRANSACTION_RECORDS,
    "__share_group_state": coordinator_records.SHARE_RECORDS,
}
PARTITIONS = 4
NOT_YET = (14, 15, 16, 51)
"""The errors of a coordinator that is loading or busy."""
A_TIME = 1_600_000_000_000
"""Larger numbers are times in ms."""
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
SUBSCRIPTION = bytes([0, 1]) + b"\0\0\0\1\0\2d1" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
SETTINGS = {
    "offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0",
}  # fmt: skip
Records = list[tuple[str, Any, int | None, Any]]
"""The kind, the key, the version and the value of each record."""


class Deeds:
    """A client. The function `request` sends a request, and `pause` lets a number of seconds pass."""

    def __init__(self, request: Callable[[Any, int], Any], pause: Callable[[float], None]) -> None:
        self._request, self._pause = request, pause
        self._names: dict[Any, str] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._topic_ids: dict[str, bytes] = {}

    def play(self) -> Iterator[tuple[str, Records]]:
        """For each deed, yields its name and its sorted records."""
        for kind, key in enumerate(("g", "g", f"g:{MEMBER}:0")):
            self._ask("FindCoordinator", 6, key_type=kind, coordinator_keys=[key])
        self._pause(1)
        for topic in self._request(create_topics(new_topic("d1", 3), new_topic("d2", 2)), 7).topics:
            self._topic_ids[topic.name] = bytes(topic.topic_id)
            self._names[bytes(topic.topic_id)] = topic.name
        self._pause(1)
        self._written()
        for deeds in (self._classic, self._transactions, self._consumers, self._shares, self._streams):
            for name in deeds():
                self._pause(0.3)
                yield name, self._written()

    def _ask(self, api: str, version: int, **fields: Any) -> Any:
        return self._again(plain_request(api, fields), version)

    def _again(self, request: Any, version: int) -> Any:
        for _ in range(40):
            response = self._request(request, version)
            parts = [response, *(getattr(response, "coordinators", None) or ()), *(getattr(response, "topics", None) or ())]
            parts += [each for part in parts for each in getattr(part, "partitions", None) or ()]
            if not any(getattr(part, "error_code", 0) in NOT_YET for part in parts):
                break
            self._pause(0.2)
        return response

    # Deeds

    def _join(self, group: str, member: str, instance: str | None = None) -> Any:
        joining = {"group_id": group, "member_id": member, "group_instance_id": instance, "protocol_type": "consumer"}
        joining |= {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 60_000, "protocols": [{"name": "range"}]}
        request: Any = plain_request("JoinGroup", joining)
        request.protocols[0].metadata = SUBSCRIPTION
        return self._again(request, 9)

    def _sync(self, group: str, joined: Any, instance: str | None = None) -> None:
        member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        member |= {"group_instance_id": instance, "protocol_type": "consumer", "protocol_name": "range"}
        self._ask("SyncGroup", 5, **member, assignments=[{"member_id": joined.member_id}])

    def _classic(self) -> Iterator[str]:
        joined = self._join("classic", self._join("classic", "").member_id)
        self._names[joined.member_id] = "a member"
        self._sync("classic", joined)
        yield "a classic member joins"
        by = {"group_id": "classic", "member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
        first = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": "m"}
        second = {"partition_index": 1, "committed_offset": 6, "committed_leader_epoch": -1, "committed_metadata": None}
        self._ask("OffsetCommit", 8, **by, topics=[{"name": "d1", "partitions": [first, second]}])
        by_id: Any = plain_request("OffsetCommit", by | {"topics": [{"partitions": [first | {"partition_index": 2}]}]})
        by_id.topics[0].topic_id = self._topic_ids["d1"]
        self._again(by_id, 10)
        yield "a member commits"
        simple = {"group_id": "simple", "member_id": "", "generation_id_or_member_epoch": -1}
        for version, keep in ((2, -1), (3, 600_000)):
            kept = [{"name": f"d{version - 1}", "partitions": [first]}]
            self._ask("OffsetCommit", version, **simple, retention_time_ms=keep, topics=kept)
        yield "a client without a group commits"
        self._ask("LeaveGroup", 5, group_id="classic", members=[{"member_id": joined.member_id}])
        yield "a classic member leaves"
        self._ask("OffsetDelete", 0, group_id="classic", topics=[{"name": "d1", "partitions": [{"partition_index": 1}]}])
        yield "an offset is deleted"
        self._ask("DeleteGroups", 2, groups_names=["classic", "simple"])
        yield "groups are deleted"
        for name in ("a static member", "the same instance"):
            joined = self._join("static", "", "instance")
            self._names[joined.member_id] = name
            self._sync("static", joined, "instance")
            yield f"{name} joins a classic group"

    def _transactions(self) -> Iterator[str]:
        for version, commits in ((4, True), (5, False)):
            started = {"transactional_id": "t", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
            begun = self._ask("InitProducerId", version, **started)
            self._names["producer"] = begun.producer_id
            by = {"transactional_id": "t", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
            named = [{"name": "d2", "partitions": [1, 0]}, {"name": "d1", "partitions": [2]}]
            if version == 4:
                old = {f"v3_and_below_{name}": value for name, value in by.items()}
                self._ask("AddPartitionsToTxn", 3, **old, v3_and_below_topics=named)
                self._ask("AddOffsetsToTxn", 3, **by, group_id="tg")
            offset = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": "m"}
            committed = {"group_id": "tg", "generation_id": -1, "member_id": ""}
            self._ask("TxnOffsetCommit", version, **by, **committed, topics=[{"name": "d1", "partitions": [offset]}])
            self._ask("EndTxn", version, **by, committed=commits)
            self._pause(1)
            yield f"a transaction of version {version} ends"

    def _beat(self, group: str, member: str, epoch: int, instance: str | None = None, **fields: Any) -> int:
        sent = {"group_id": group, "member_id": member, "member_epoch": epoch, "instance_id": instance}
        if epoch == 0:
            sent |= {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
            sent |= {} if "subscribed_topic_regex" in fields else {"subscribed_topic_names": ["d1", "d2", "absent"]}
        response = self._ask("ConsumerGroupHeartbeat", 1, **sent, **fields)
        return int(response.member_epoch)

    def _consumers(self) -> Iterator[str]:
        self._beat("c", "c1", 0)
        yield "a consumer joins"
        self._beat("c", "c2", 0, rack_id="r", server_assignor="range")
        self._pause(1.2)
        self._beat("c", "c1", 2)
        self._beat("c", "c2", 2)
        yield "a second consumer joins"
        self._beat("c", "c2", -1)
        yield "a consumer leaves"
        self._beat("c", "c1", -1)
        yield "the last consumer leaves"
        self._ask("DeleteGroups", 2, groups_names=["c"])
        yield "a consumer group is deleted"
        self._beat("cs", "s1", 0, "i")
        self._beat("cs", "s1", -2, "i")
        yield "a static consumer leaves for a while"
        self._beat("cs", "s2", 0, "i")
        yield "a static consumer comes back"
        self._beat("cr", "r1", 0, subscribed_topic_regex="d.")
        self._pause(0.5)
        self._beat("cr", "r1", 1)
        yield "a consumer subscribes to a pattern"
        self._beat("cr", "r1", -1)
        yield "a consumer with a pattern leaves"

    def _share(self, epoch: int) -> int:
        sent = {"group_id": "s", "member_id": MEMBER, "member_epoch": epoch}
        sent |= {"rack_id": "r", "subscribed_topic_names": ["d1"]} if epoch == 0 else {}
        return int(self._ask("ShareGroupHeartbeat", 1, **sent).member_epoch)

    def _fetch(self, epoch: int, *acks: tuple[int, int, int]) -> None:
        given = [{"first_offset": first, "last_offset": last, "acknowledge_types": [kind]} for first, last, kind in acks]
        most = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000_000, "max_records": 100, "batch_size": 100}
        topics = [{"partitions": [{"partition_index": 0, "acknowledgement_batches": given}]}]
        asked = {"group_id": "s", "member_id": MEMBER, "share_session_epoch": epoch, "topics": topics}
        request: Any = plain_request("ShareFetch", asked | most)
        request.topics[0].topic_id = self._topic_ids["d1"]
        self._again(request, 1)

    def _shares(self) -> Iterator[str]:
        self._share(0)
        self._pause(2)
        self._share(self._share(1))
        self._pause(1.2)
        yield "a share member joins"
        self._fetch(0)
        for _ in range(4):
            partition = {"index": 0}
            data = [{"name": "d1", "partition_data": [partition]}]
            produced: Any = plain_request("Produce", {"acks": -1, "timeout_ms": 5000, "topic_data": data})
            produced.topic_data[0].partition_data[0].records = batch()
            self._request(produced, 9)
        for epoch in (1, 2):
            self._pause(0.5)
            self._fetch(epoch)
        self._fetch(3, (0, 0, 1), (1, 1, 3))
        yield "records are accepted and rejected"
        self._fetch(4, (2, 3, 2))
        yield "records are released"
        self._share(-1)
        yield "a share member leaves"
        altered = [{"topic_name": "d1", "partitions": [{"partition_index": 0, "start_offset": 2}]}]
        self._ask("AlterShareGroupOffsets", 0, group_id="s", topics=altered)
        self._pause(0.5)
        yield "offsets of a share group are altered"
        self._ask("DeleteGroups", 2, groups_names=["s"])
        self._pause(0.5)
        yield "a share group is deleted"

    def _streams(self) -> Iterator[str]:
        empty: dict[str, Any] = {"source_topic_regex": [], "repartition_source_topics": [], "copartition_groups": []}
        empty |= {"state_changelog_topics": [], "repartition_sink_topics": []}
        topology = {"epoch": 1, "subtopologies": [empty | {"subtopology_id": "0", "source_topics": ["d1"]}]}
        joins = {
            "rebalance_timeout_ms": 60_000, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "rack_id": "r",
            "client_tags": [{"key": "z", "value": "2"}, {"key": "a", "value": "1"}], "topology": topology,
            "user_endpoint": {"host": "h", "port": 9},
        }  # fmt: skip

        def beat(member: str, epoch: int) -> None:
            sent = {"group_id": "st", "member_id": member, "member_epoch": epoch, "endpoint_information_epoch": 0}
            self._ask("StreamsGroupHeartbeat", 0, **sent, **(joins | {"process_id": f"p-{member}"} if epoch == 0 else {}))

        beat("t1", 0)
        yield "a streams member joins"
        beat("t2", 0)
        self._pause(5)
        beat("t1", 1)
        beat("t2", 1)
        yield "a second streams member joins"
        beat("t2", -1)
        beat("t1", -1)
        yield "streams members leave"
        self._ask("DeleteGroups", 2, groups_names=["st"])
        yield "a streams group is deleted"

    # Reading

    def _written(self) -> Records:
        found: Records = []
        for topic, kinds in TOPICS.items():
            for partition in range(PARTITIONS):
                found += self._after(topic, partition, kinds)
        return sorted(found, key=repr)

    def _after(self, topic: str, partition: int, kinds: Mapping[int, tuple[str, str]]) -> Records:
        offset = self._read.get((topic, partition), 0)
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
        fetching = plain(
            "Fetch", replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=0, session_epoch=-1,
            isolation_level=0, topics=[{"topic": topic, "partitions": [asked]}], forgotten_topics_data=[],
        )  # fmt: skip
        told = only(self._request(fetching, 12))
        found: Records = []
        for each in iter_batches(told.records or b""):
            header = read_header(each)
            self._read[topic, partition] = header.last_offset + 1
            for record in () if header.is_control or header.last_offset < offset else iter_records(each):
                read = read_record(kinds, record.key or b"", record.value)
                assert read is not None
                version = int.from_bytes(bytes(record.value[:2]), "big") if record.value else None
                found.append((type(read.key).__name__, self._shown(read.key), version, self._shown(read.value)))
        return found

    def _shown(self, value: Any, field: str = "") -> Any:
        if isinstance(value, Struct):
            return {name: self._shown(getattr(value, name), name) for name in type(value).__slots__}
        if isinstance(value, list):
            shown = [self._shown(each) for each in value]
            by_topic = all(isinstance(each, dict) and "topic_id" in each for each in shown)
            return sorted(shown, key=lambda each: str(each["topic_id"])) if by_topic else shown
        if isinstance(value, bytes | memoryview):
            return self._names.get(bytes(value), bytes(value).hex())
        if isinstance(value, int) and (value > A_TIME or (field == "metadata_hash" and value)):
            return "a hash" if field == "metadata_hash" else "a time"
        if field.endswith("producer_id") and value == self._names.get("producer"):
            return "a producer"
        if field in ("client_id", "version"):
            return "…"
        return self._names.get(value, value) if isinstance(value, str) else value
