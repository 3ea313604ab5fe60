"""Sends requests with numbers out of range to a real Kafka (`scripts/record oracle --numbers`) and to wirebroker.

`CASES` has valid requests of every API that has numeric fields. `play` changes one number of a request at a time, and returns
the responses as plain data, without values that differ between clusters. Each request acts on its own topics, groups,
transactional ids and members, because most of the requests change these things.
"""

from __future__ import annotations

import json
import lzma
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import acl_requests
import requesting as of
from kafkawire.batches import Record, build_batch, iter_batches, read_header
from kafkawire.declare import Field, Message, Struct
from kafkawire.entities import holders
from kafkawire.errors import ErrorCode
from kafkawire.primitives import format_uuid
from kafkawire.registry import KEYS, spoken
from requesting import Plain, plain
from responses import only
from wirebroker.client.wire import Connection, ConnectionClosed, NoResponse
from wirebroker.core.releases import release

SETTINGS = {name: value for name, value in acl_requests.SETTINGS.items() if not name.startswith("group.consumer.")}
WAITS_S = 1.2
"""If there is no response after this many seconds, the request counts as unanswered."""
WITHIN_S = 20.0
"""The longest wait, in seconds, until a broker is ready for a request."""
SIZES = {"int8": 1 << 7, "int16": 1 << 15, "uint16": 1 << 16, "int32": 1 << 31, "int64": 1 << 63}
"""The number types. For each type: the smallest number that is too large for this type."""
BEYOND = {"partition": 2, "isolation_level": 2, "acks": 2, "key_type": 3, "type": 9, "operation": 16, "epoch": 1, "offset": 7}
"""Each key is the end of a field's name. The value is a number just above the valid numbers of such fields."""
FLOATS = (-2.0, -1.0, 0.0, 0.5, float("inf"), float("nan"), 1.7e308)
LEFT_OUT = frozenset({"throttle_time_ms", "total_bytes", "usable_bytes"})
BLANK = re.compile("host|port|cluster_id|log_dir|token_id|hmac|client_instance_id|.*timestamp.*|.*(append|start)_time_ms")
"""Fields whose values differ from cluster to cluster."""
NOTHING = (None, -1, 0, "", b"")
"""If a broker refuses a request, each `BLANK` field of the response has one of these values. All clusters then send the same
value.
"""
KNOWN = ("producer_id", "session_id", "subscription_id")
"""Ids that a broker generates. A response shows "another" for an id that the broker has not returned to this world before."""
RANDOM = re.compile(r"[\w-]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}(?![\w-])")
"""A random id in a text."""
ORDERS, SINK, TXNS = "orders", "sink", "txns"
"""The topics that cases share: `orders` has five records, Produce writes to `sink`, and transactions use `txns`."""


class Broker(Protocol):
    """The broker to which the requests go."""

    def connect(self, *, secured: bool = False) -> Connection:
        """Opens a connection; if it is secured, admin is logged in."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""


class Step(NamedTuple):
    """A request with one changed number, and its response or the name of the exception. `field` is "" for a valid request."""

    case: str
    version: int
    field: str
    value: str
    response: Any


class World:
    """The environment of one request: its own names, and the topics, members and producers that it needs."""

    def __init__(self, broker: Broker, number: int, ids: dict[bytes, str], version: int = 0) -> None:
        self.broker, self.number, self.version = broker, number, version
        self.connection = broker.connect()
        self.ids = ids
        """The names of the topics by id."""
        self.given: dict[Any, str] = {}
        """For each name and id of this world: the text that replaces the name or id in the response."""

    def ask(self, request: Message, version: int) -> Any:
        """Returns the response. Raises ConnectionClosed, NoResponse."""
        self.connection.send(request, version)
        try:
            return self.connection.response()
        except NoResponse:
            self.broker.pause(0.01)
            return self.connection.response()

    def until(self, request: Message, version: int, good: Callable[[Any], bool]) -> Any:
        """Repeats a request until `good` returns true for its response. Returns this response."""
        deadline = time.monotonic() + WITHIN_S
        while not good(response := self.ask(request, version)):
            assert time.monotonic() < deadline, (request, response)
            self.broker.pause(0.01)
        return response

    def accepted(self, request: Message, version: int) -> Any:
        """Repeats a request until its response has no error."""
        return self.until(request, version, lambda response: not any(_codes(response)))

    def name(self, kind: str) -> str:
        """Returns a name that only this world has."""
        made = f"{kind}-{self.number}"
        self.given[made] = f"@{kind}"
        return made

    def member(self) -> str:
        """Returns a member id in the form of a Java client's random ids."""
        made = f"{self.number:022}"
        self.given[made] = "@member"
        return made

    def topic_id(self, name: str = ORDERS) -> bytes:
        return next(raw for raw, known in self.ids.items() if known == name)

    def topic(self, partitions: int = 1, records: int = 0) -> str:
        """Creates a topic with records in its first partition."""
        name = self.name("t")
        self.create(name, partitions=partitions)
        self.produce(name, records)
        return name

    def create(self, *names: str, partitions: int) -> None:
        """Creates topics, and waits until the broker leads them."""
        made = self.ask(of.create_topics(*[of.new_topic(name, partitions) for name in names]), 7)
        self.ids |= {topic.topic_id: topic.name for topic in made.topics}
        self.accepted(plain("Metadata", topics=of.named(names)), 12)

    def produce(self, name: str, records: int) -> None:
        for _ in range(records):
            self.accepted(of.produce_request(name, batch()), 9)

    def producer(self, transactional: bool = True) -> tuple[str | None, of.Producer]:
        name = self.name("x") if transactional else None
        made = self.accepted(of.init_producer_id(name, 600_000), 4)
        self.given[made.producer_id] = "@producer"
        return name, (made.producer_id, made.producer_epoch)

    def transaction(self, group: str = "") -> tuple[str, of.Producer]:
        """Begins a transaction, and adds a partition of `TXNS` to it. If `group` is given, also adds this group's offsets."""
        name, producer = self.producer()
        assert name is not None
        self.accepted(of.add_partitions(name, producer, TXNS), 3)
        if group:
            self.accepted(of.add_offsets(name, producer, group), 3)
        self.broker.pause(0.002)  # when a request asks about the transaction, it must have lasted for some time
        return name, producer

    def classic_member(self) -> tuple[str, str, int]:
        """Joins a classic group. Returns the group, the member and the generation."""
        group = self.name("g")
        wanted = partial(of.join_group, group, protocols=PROTOCOLS, session_ms=600_000)
        first = self.until(wanted(), 5, lambda response: response.error_code == ErrorCode.MEMBER_ID_REQUIRED)
        joined = self.ask(wanted(member=first.member_id), 5)
        self.given[joined.member_id] = "@member"
        self.ask(of.sync_group(group, joined.member_id, joined.generation_id, {joined.member_id: b""}), 3)
        return group, joined.member_id, joined.generation_id

    def consumer_member(self) -> tuple[str, str, int]:
        """Joins a consumer group. Returns the group, the member and its epoch."""
        group, member = self.name("g"), self.member()
        joined = self.accepted(consumer_heartbeat(group, member, 0, subscribed_topic_names=[ORDERS], topic_partitions=[]), 1)
        return group, member, joined.member_epoch

    def share_member(self) -> tuple[str, str, int]:
        """Joins a share group that reads from the first records. Returns the group, the member and its epoch."""
        group, member = self.name("s"), self.member()
        earliest = {"name": "share.auto.offset.reset", "value": "earliest", "config_operation": 0}
        self.ask(plain("IncrementalAlterConfigs", resources=[_resource(group, 32, configs=[earliest])]), 1)
        joined = self.accepted(share_heartbeat(group, member, 0, subscribed_topic_names=[ORDERS]), 1)
        return group, member, joined.member_epoch

    def share_session(self) -> tuple[str, str, int]:
        """Acquires three records in a share session. Returns the group, the member and the epoch of the next request."""
        group, member, member_epoch = self.share_member()
        deadline, epoch, acquired = time.monotonic() + WITHIN_S, 0, False
        while not acquired:
            assert time.monotonic() < deadline, group
            topics = [] if epoch else [self.share_topic()]
            response = self.ask(share_fetch(group, member, epoch, max_wait_ms=0, topics=topics), 1)
            acquired = any(part.acquired_records for topic in response.responses for part in topic.partitions)
            epoch += 1
            if not acquired:  # Kafka creates the state of the share partition after a heartbeat
                self.broker.pause(0.02)
                member_epoch = self.ask(share_heartbeat(group, member, member_epoch), 1).member_epoch or member_epoch
        return group, member, epoch

    def share_topic(self, *acknowledged: Plain, **fields: Any) -> Plain:
        part = {"partition_index": 0, "acknowledgement_batches": list(acknowledged), **fields}
        return {"topic_id": self.topic_id(), "partitions": [part]}

    def share_state(self, **part: Any) -> Plain:
        """Creates the state of a share partition. Returns the fields of a request about this partition. The partition in the
        request has the fields `part`."""
        group, topic_id = self.name("s"), self.topic_id()
        self.find_share_coordinator()
        state = {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": [NEW_STATE]}]}
        self.accepted(plain("InitializeShareGroupState", **state), 0)
        return {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0, **part}]}]}

    def find_share_coordinator(self) -> None:
        self.accepted(of.find_coordinator(f"s:{format_uuid(self.topic_id())}:0", kind=of.SHARE), 6)

    def share_offsets(self) -> str:
        """Sets the start offset of a share group without members."""
        group, topics = self.name("s"), [_topic_name(partitions=[{"partition_index": 0, "start_offset": 2}])]
        self.accepted(plain("AlterShareGroupOffsets", group_id=group, topics=topics), 0)
        return group

    def streams_member(self) -> tuple[str, str, int]:
        """Joins a streams group, and sends heartbeats until the member has its tasks."""
        group, member = self.name("g"), self.member()
        topology = {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": [ORDERS]}]}
        joined = self.accepted(streams_heartbeat(group, member, 0, topology=topology, process_id="p", **NO_TASKS), 0)
        for _ in range(5):
            joined = self.ask(streams_heartbeat(group, member, joined.member_epoch, **NO_TASKS), 0)
        return group, member, joined.member_epoch

    def token(self) -> bytes:
        """Creates a delegation token, as admin. Returns its hmac."""
        self.connection = self.broker.connect(secured=True)
        made = self.accepted(plain("CreateDelegationToken", max_lifetime_ms=86_400_000), 3)
        listed = plain("DescribeDelegationToken", owners=None)
        self.until(listed, 3, lambda response: made.token_id in [each.token_id for each in response.tokens])
        return bytes(made.hmac)


def _codes(struct: Any) -> Iterator[int]:
    for field in struct.__wire__:
        value = getattr(struct, field.name)
        if field.entity == "errorCode":
            yield value
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                yield from _codes(each)


# Requests

NO_TASKS: Plain = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
PROTOCOLS = [("range", b"")]
NEW_STATE: Plain = {"partition": 0, "state_epoch": 1, "start_offset": 2}
ACL: Plain = {
    "resource_type": 2, "resource_pattern_type": 3, "principal": "User:bob", "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip


def batch(**options: Any) -> bytes:
    """Returns a batch of one record."""
    return build_batch([Record(0, 0, None, b"value")], base_timestamp=time.time_ns() // 1_000_000, **options)


def consumer_heartbeat(group: str, member: str, epoch: int, **fields: Any) -> Any:
    member_of: Plain = {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout_ms": 600_000}
    return plain("ConsumerGroupHeartbeat", **member_of, **fields)


def share_heartbeat(group: str, member: str, epoch: int, **fields: Any) -> Any:
    return plain("ShareGroupHeartbeat", group_id=group, member_id=member, member_epoch=epoch, **fields)


def streams_heartbeat(group: str, member: str, epoch: int, **fields: Any) -> Any:
    who: Plain = {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout_ms": 600_000}
    return plain("StreamsGroupHeartbeat", **who, **fields)


def share_fetch(group: str, member: str, epoch: int, **fields: Any) -> Any:
    most = {"max_wait_ms": 300, "min_bytes": 0, "max_bytes": 10_000, "max_records": 3, "batch_size": 3}
    return plain("ShareFetch", group_id=group, member_id=member, share_session_epoch=epoch, **(most | fields))


def _resource(name: str, kind: int = 2, **fields: Any) -> Plain:
    return {"resource_type": kind, "resource_name": name, **fields}


def _topic_name(**fields: Any) -> Plain:
    return {"topic_name": ORDERS, **fields}


def _fetch(world: World, known_epochs: bool = True, session: tuple[int, int] = (0, -1), **fields: Any) -> Any:
    epoch = 0 if known_epochs else -1
    part = {"partition_max_bytes": 1000, "current_leader_epoch": epoch, "last_fetched_epoch": epoch, "log_start_offset": -1}
    limits = {"wait_ms": 100, "session_id": session[0], "session_epoch": session[1]}
    return of.fetch(1, part=part, **limits, **fields)


def _fetch_in_session(world: World) -> Any:
    parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in (0, 1)]
    opening = plain("Fetch", max_wait_ms=0, min_bytes=0, session_epoch=0, topics=of.named([ORDERS], "topic", partitions=parts))
    opened = world.ask(fitting(opening, world, version := min(world.version, 13)), version)
    world.given[opened.session_id] = "@session"
    forgotten = of.named([ORDERS], "topic", partitions=[1])
    return _fetch(world, session=(opened.session_id, 1), forgotten_topics_data=forgotten)


def _list_offsets(timestamp: int) -> Any:
    part = {"partition_index": 0, "current_leader_epoch": 0, "timestamp": timestamp}
    return plain("ListOffsets", replica_id=-1, topics=of.named([ORDERS], partitions=[part]), timeout_ms=1000)


def _offset_commit(group: str, member: str = "", epoch: int = -1) -> Any:
    part = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 0}
    who = {"group_id": group, "generation_id_or_member_epoch": epoch, "member_id": member}
    return plain("OffsetCommit", **who, retention_time_ms=-1, topics=of.named([ORDERS], partitions=[part]))


def _offset_fetch(world: World, group: str, member: str | None = None, epoch: int = -1) -> Any:
    world.accepted(_offset_commit(group, member or "", epoch), 9)
    asked = {"group_id": group, "topics": of.named([ORDERS], partition_indexes=[0])}
    return plain("OffsetFetch", **asked, groups=[asked | {"member_id": member, "member_epoch": epoch}])


def _join_again(world: World) -> Any:
    group = world.name("g")
    first = world.until(
        of.join_group(group, protocols=PROTOCOLS), 5, lambda response: response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    )
    world.given[first.member_id] = "@member"
    return of.join_group(group, first.member_id, PROTOCOLS)


def _sync(group: str, member: str, generation: int) -> Any:
    return of.sync_group(group, member, generation, protocol_type="consumer", protocol_name="range")


def _create_partitions(world: World, assignments: list[Plain] | None) -> Any:
    topics = of.named([world.topic(2)], count=3, assignments=assignments)
    return plain("CreatePartitions", topics=topics, timeout_ms=5000)


def _offset_delete(world: World) -> Any:
    world.accepted(_offset_commit(world.name("g")), 9)
    return of.offset_delete(world.name("g"))


def _add_partitions(world: World) -> Any:
    name, (producer_id, epoch) = world.producer()
    request = of.add_partitions(name or "", (producer_id, epoch), TXNS)
    return _with(request, transactions=_verifying(name, producer_id, epoch, verify_only=False).transactions)


def _verifying(name: str | None, producer_id: int, epoch: int, *, verify_only: bool = True) -> Any:
    who = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
    topics = of.named([TXNS], partitions=[0])
    return plain("AddPartitionsToTxn", transactions=[who | {"verify_only": verify_only, "topics": topics}])


def _with(request: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def _write_markers(world: World) -> Any:
    producer_id, epoch = world.producer()[1]
    topics = of.named([world.topic()], partition_indexes=[0])
    marker = {"producer_id": producer_id, "producer_epoch": epoch, "transaction_result": True, "topics": topics}
    return plain("WriteTxnMarkers", markers=[marker])


def _txn_offset_commit(world: World, member: str = "", generation: int = -1) -> Any:
    group = world.name("g")
    name, producer = world.transaction(group)
    request = of.txn_offset_commit(name, producer, group, 5)
    only(request).committed_leader_epoch = 0
    return _with(request, generation_id=generation, member_id=member)


def _acl_filter(world: World) -> Plain:
    name = world.name("t")
    world.ask(plain("CreateAcls", creations=[ACL | {"resource_name": name}]), 3)
    return {
        "resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": 3, "principal_filter": None,
        "host_filter": None, "operation": 3, "permission_type": 3,
    }  # fmt: skip


def _create_token(world: World) -> Any:
    world.connection = world.broker.connect(secured=True)
    return plain("CreateDelegationToken", max_lifetime_ms=1_000_000)


def _scram(world: World) -> Any:
    added = {"iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    return plain(
        "AlterUserScramCredentials", deletions=of.named([world.name("d")], mechanism=1),
        upsertions=of.named([world.name("u")], mechanism=1, **added),
    )  # fmt: skip


def _share_fetch_first(world: World) -> Any:
    """Returns the first ShareFetch of a member. Another member has made the broker load the share partition, and has acquired
    the first three records.
    """
    group, other, _ = world.share_session()
    member = other.replace("0", "1")
    world.given[member] = "@member"
    return share_fetch(group, member, 0, min_bytes=1, topics=[world.share_topic(partition_max_bytes=1000)])


def _share_fetch_later(world: World) -> Any:
    accepted = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    forgotten = [{"topic_id": world.topic_id(), "partitions": [1]}]
    topics = [world.share_topic(accepted, partition_max_bytes=1000)]
    return share_fetch(*world.share_session(), max_wait_ms=100, topics=topics, forgotten_topics_data=forgotten)


def _share_acknowledge(world: World) -> Any:
    group, member, epoch = world.share_session()
    accepted = {"first_offset": 0, "last_offset": 1, "acknowledge_types": [1]}
    session = {"group_id": group, "member_id": member, "share_session_epoch": epoch}
    return plain("ShareAcknowledge", **session, topics=[world.share_topic(accepted)])


def _write_share_state(world: World) -> Any:
    written = {"first_offset": 3, "last_offset": 4, "delivery_state": 0, "delivery_count": 1}
    fields = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 2, "delivery_complete_count": 0}
    return plain("WriteShareGroupState", **world.share_state(**fields, state_batches=[written]))


def _alter_share_offsets(world: World) -> Any:
    topics = [_topic_name(partitions=[{"partition_index": 0, "start_offset": 1}])]
    return plain("AlterShareGroupOffsets", group_id=world.share_offsets(), topics=topics)


def _describe_partitions(world: World) -> Any:
    cursor = _topic_name(partition_index=0)
    return plain("DescribeTopicPartitions", topics=of.named([ORDERS]), response_partition_limit=2000, cursor=cursor)


def _streams_join(world: World) -> Any:
    internal = {"partitions": 2, "replication_factor": 1}
    subtopology = {
        "subtopology_id": "0", "source_topics": [ORDERS], "state_changelog_topics": of.named([ORDERS], **internal),
        "repartition_source_topics": of.named([SINK], **internal),
        "copartition_groups": [{"source_topics": [0], "source_topic_regex": [0], "repartition_source_topics": [0]}],
    }  # fmt: skip
    topology = {"epoch": 1, "subtopologies": [subtopology]}
    endpoint = {"process_id": "p", "user_endpoint": {"host": "h", "port": 9}}
    return streams_heartbeat(world.name("g"), world.member(), 0, topology=topology, **endpoint, **NO_TASKS)


def _streams_later(world: World) -> Any:
    tasks, offsets = [{"subtopology_id": "0", "partitions": [0]}], [{"subtopology_id": "0", "partition": 0, "offset": 1}]
    fields = {"active_tasks": tasks, "task_offsets": offsets, "task_end_offsets": offsets}
    return streams_heartbeat(*world.streams_member(), **fields, standby_tasks=[], warmup_tasks=[])


def _streams_standby(world: World) -> Any:
    tasks = [{"subtopology_id": "0", "partitions": [index]} for index in (0, 1)]
    return streams_heartbeat(*world.streams_member(), active_tasks=[], standby_tasks=tasks[:1], warmup_tasks=tasks[1:])


def _push(world: World) -> Any:
    told = world.ask(plain("GetTelemetrySubscriptions"), 0)
    world.given[told.subscription_id] = "@subscription"
    given = {"client_instance_id": told.client_instance_id, "subscription_id": told.subscription_id}
    return plain("PushTelemetry", **given, metrics=b"\x0a\x00")


def _quota(world: World) -> Any:
    entity = [{"entity_type": "client-id", "entity_name": world.name("c")}]
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 100.0}]}
    return plain("AlterClientQuotas", entries=[entry])


def _feature(name: str, level: int) -> Any:
    updates = [{"feature": name, "max_version_level": level, "upgrade_type": 1}]
    return plain("UpdateFeatures", timeout_ms=5000, validate_only=True, feature_updates=updates)


def _topics(world: World, api: str, key: str = "name", **fields: Any) -> Any:
    """Returns a request about a topic that no other request uses."""
    return plain(api, topics=of.named([world.topic()], key, **fields), timeout_ms=5000)


VOTER = {"voter_id": 7, "voter_directory_id": b"d" * 16}
CASES: dict[str, Callable[[World], Message]] = {
    "ListTransactions": lambda w: plain("ListTransactions", producer_id_filters=[w.transaction()[1][0]], duration_filter=-1),
    "Produce": lambda w: of.produce_request(SINK, batch()),
    "Fetch": _fetch,
    "Fetch without epochs": partial(_fetch, known_epochs=False),
    "Fetch in a new session": partial(_fetch, session=(0, 0)),
    "Fetch in a session": _fetch_in_session,
    "ListOffsets": lambda w: _list_offsets(-1),
    "ListOffsets by time": lambda w: _list_offsets(5),
    "OffsetCommit": lambda w: _offset_commit(w.name("g")),
    "OffsetCommit of a classic member": lambda w: _offset_commit(*w.classic_member()),
    "OffsetCommit of a member": lambda w: _offset_commit(*w.consumer_member()),
    "OffsetFetch": lambda w: _offset_fetch(w, w.name("g")),
    "OffsetFetch of a member": lambda w: _offset_fetch(w, *w.consumer_member()),
    "FindCoordinator": lambda w: plain("FindCoordinator", key=w.name("g"), coordinator_keys=[w.name("g")]),
    "JoinGroup": lambda w: of.join_group(w.name("g"), protocols=PROTOCOLS),
    "JoinGroup of a known member": _join_again,
    "Heartbeat": lambda w: of.heartbeat(*w.classic_member()),
    "SyncGroup": lambda w: _sync(*w.classic_member()),
    "CreateTopics": lambda w: of.create_topic(w.name("t"), 2),
    "CreateTopics assigned": lambda w: of.create_topics(of.new_topic(w.name("t"), -1, -1, on=[(0, [1])])),
    "DeleteTopics": lambda w: plain("DeleteTopics", topics=of.named([w.topic()]), topic_names=[w.name("t")], timeout_ms=5000),
    "DeleteRecords": lambda w: of.delete_records(1, topic=w.topic(records=3), timeout_ms=5000),
    "InitProducerId": lambda w: of.init_producer_id(),
    "InitProducerId with an id": lambda w: of.init_producer_id(current=w.producer(transactional=False)[1]),
    "InitProducerId transactional": lambda w: of.init_producer_id(w.name("x")),
    "InitProducerId transactional again": lambda w: of.init_producer_id(w.name("x"), current=w.producer()[1]),
    "OffsetForLeaderEpoch": lambda w: plain(
        "OffsetForLeaderEpoch", replica_id=-1, topics=of.named([ORDERS], "topic", partitions=[{"current_leader_epoch": 0}])
    ),
    "DescribeConfigs": lambda w: plain("DescribeConfigs", resources=[_resource(ORDERS, configuration_keys=["retention.ms"])]),
    "AlterConfigs": lambda w: plain(
        "AlterConfigs", resources=[_resource(w.topic(), configs=of.named(["retention.ms"], value="1000000"))]
    ),
    "IncrementalAlterConfigs": lambda w: plain(
        "IncrementalAlterConfigs", resources=[_resource(w.topic(), configs=of.named(["cleanup.policy"], value="compact"))]
    ),
    "DescribeLogDirs": lambda w: plain("DescribeLogDirs", topics=of.named([ORDERS], "topic", partitions=[0])),
    "CreatePartitions": lambda w: _create_partitions(w, None),
    "CreatePartitions assigned": lambda w: _create_partitions(w, [{"broker_ids": [1]}]),
    "OffsetDelete": _offset_delete,
    "AddPartitionsToTxn": _add_partitions,
    "AddPartitionsToTxn verifying": lambda w: _verifying(*_flat(w.transaction())),
    "AddOffsetsToTxn": lambda w: of.add_offsets(w.name("x"), w.producer()[1], w.name("g")),
    "EndTxn": lambda w: of.end_txn(*w.transaction(), True),
    "WriteTxnMarkers": _write_markers,
    "TxnOffsetCommit": _txn_offset_commit,
    "TxnOffsetCommit of a member": lambda w: _txn_offset_commit(w, *w.classic_member()[1:]),
    "DescribeCluster": lambda w: plain("DescribeCluster", endpoint_type=1),
    "DescribeProducers": lambda w: plain("DescribeProducers", topics=of.named([ORDERS], partition_indexes=[0])),
    "ConsumerGroupHeartbeat": lambda w: consumer_heartbeat(
        w.name("g"), w.member(), 0, subscribed_topic_names=[ORDERS], topic_partitions=[]
    ),
    "ConsumerGroupHeartbeat later": lambda w: consumer_heartbeat(
        *w.consumer_member(), topic_partitions=[{"topic_id": w.topic_id(), "partitions": [0, 1]}]
    ),
    "DescribeTopicPartitions": _describe_partitions,
    "ElectLeaders": lambda w: plain(
        "ElectLeaders", topic_partitions=of.named([w.topic()], "topic", partitions=[0]), timeout_ms=5000
    ),
    "AlterPartitionReassignments": lambda w: _topics(
        w, "AlterPartitionReassignments", partitions=[{"partition_index": 0, "replicas": [1]}]
    ),
    "ListPartitionReassignments": lambda w: _topics(w, "ListPartitionReassignments", partition_indexes=[0]),
    "AlterReplicaLogDirs": lambda w: plain(
        "AlterReplicaLogDirs", dirs=[{"path": "/x", "topics": of.named([ORDERS], partitions=[0])}]
    ),
    "DescribeQuorum": lambda w: plain(
        "DescribeQuorum", topics=of.named(["__cluster_metadata"], "topic_name", partitions=[{"partition_index": 7}])
    ),
    "ListConfigResources": lambda w: plain("ListConfigResources", resource_types=[16]),
    "DescribeAcls": lambda w: plain("DescribeAcls", **_acl_filter(w)),
    "CreateAcls": lambda w: plain("CreateAcls", creations=[ACL | {"resource_name": w.name("t")}]),
    "DeleteAcls": lambda w: plain("DeleteAcls", filters=[_acl_filter(w)]),
    "CreateDelegationToken": _create_token,
    "RenewDelegationToken": lambda w: plain("RenewDelegationToken", hmac=w.token(), renew_period_ms=1_000_000),
    "ExpireDelegationToken": lambda w: plain("ExpireDelegationToken", hmac=w.token(), expiry_time_period_ms=1_000_000),
    "AlterUserScramCredentials": _scram,
    "ShareGroupHeartbeat": lambda w: share_heartbeat(w.name("s"), w.member(), 0, subscribed_topic_names=[ORDERS]),
    "ShareGroupHeartbeat later": lambda w: share_heartbeat(*w.share_member()),
    "ShareFetch": _share_fetch_first,
    "ShareFetch in a session": _share_fetch_later,
    "ShareAcknowledge": _share_acknowledge,
    "InitializeShareGroupState": lambda w: plain(
        "InitializeShareGroupState", group_id=w.name("s"), topics=[{"topic_id": w.topic_id(), "partitions": [NEW_STATE]}]
    ),
    "ReadShareGroupState": lambda w: plain("ReadShareGroupState", **w.share_state(leader_epoch=0)),
    "WriteShareGroupState": _write_share_state,
    "DeleteShareGroupState": lambda w: plain("DeleteShareGroupState", **w.share_state()),
    "ReadShareGroupStateSummary": lambda w: plain("ReadShareGroupStateSummary", **w.share_state(leader_epoch=0)),
    "DescribeShareGroupOffsets": lambda w: plain(
        "DescribeShareGroupOffsets", groups=[{"group_id": w.share_offsets(), "topics": [_topic_name(partitions=[0])]}]
    ),
    "AlterShareGroupOffsets": _alter_share_offsets,
    "StreamsGroupHeartbeat": _streams_join,
    "StreamsGroupHeartbeat later": _streams_later,
    "StreamsGroupHeartbeat of standby tasks": _streams_standby,
    "DescribeClientQuotas": lambda w: plain(
        "DescribeClientQuotas", components=[{"entity_type": "client-id", "match_type": 0, "match": "x"}]
    ),
    "AlterClientQuotas": _quota,
    "UnregisterBroker": lambda w: plain("UnregisterBroker", broker_id=77),
    "AddRaftVoter": lambda w: plain(
        "AddRaftVoter", timeout_ms=1000, listeners=of.named(["CONTROLLER"], host="127.0.0.1", port=9), **VOTER
    ),
    "RemoveRaftVoter": lambda w: plain("RemoveRaftVoter", **VOTER),
    "UpdateFeatures": lambda w: _feature("group.version", 1),
    "UpdateFeatures of transactions": lambda w: _feature("transaction.version", 2),
    "PushTelemetry": _push,
}
"""For each case, a function that makes a valid request. The name of a case begins with the API's name."""


def _flat(transaction: tuple[str, of.Producer]) -> tuple[str, int, int]:
    name, (producer_id, epoch) = transaction
    return name, producer_id, epoch


# Playing


class Slot(NamedTuple):
    """A number in a request: a field of a struct, or the first element in a list of numbers."""

    path: str
    spec: str
    now: float
    set: Callable[[Any], None]


def slots(struct: Struct, version: int, path: str = "") -> Iterator[Slot]:
    """Yields the numbers of a request. Of each list, yields only the numbers of the first element."""
    for field in struct.__wire__:
        name, value = f"{path}{field.name}", getattr(struct, field.name)
        spec: Any = field.spec[0] if isinstance(field.spec, list) else field.spec
        if not field.present(version) or value in (None, []):
            continue
        first = value[0] if isinstance(field.spec, list) else value
        if isinstance(spec, type):
            yield from slots(first, version, f"{name}.")
        elif spec in SIZES or spec == "float64":
            put = partial(value.__setitem__, 0) if isinstance(value, list) else partial(setattr, struct, field.name)
            yield Slot(name, spec, first, put)


def values(slot: Slot) -> list[float]:
    """Returns the numbers with which `play` replaces the number in `slot`, one at a time."""
    if slot.spec == "float64":
        return list(FLOATS)
    size = SIZES[slot.spec]
    name = slot.path.rpartition(".")[2].removesuffix("s").removesuffix("_index").removesuffix("_indexe")
    beyond = [number for end, number in BEYOND.items() if name.endswith(end)]
    wanted = [0, 1, size - 1] if slot.spec == "uint16" else [-2, -1, 0, size - 1, *beyond]
    return [each for each in dict.fromkeys(wanted) if each != slot.now]


def versions(api: str, of_release: str) -> list[int]:
    """Returns the two highest versions of the API in this release, or the only version."""
    oldest, newest = spoken(KEYS[api])
    announced = release(of_release).announced.get(KEYS[api], (oldest, newest))
    newest = min(newest, announced[1])
    return [newest - 1, newest] if newest > max(oldest, announced[0]) else [newest]


def fitting(request: Message, world: World, version: int) -> Any:
    """Returns the request in the form of `version`: with the ids of its topics, and without fields that this version does not
    have."""
    _fit(request, world, version)
    return request


def _fit(struct: Struct, world: World, version: int) -> None:
    for field in struct.__wire__:
        if field.entity == "topicName" and not field.present(version):
            for id_field in holders(type(struct), "topicId"):
                setattr(struct, id_field, world.topic_id(getattr(struct, field.name)))
    for field in struct.__wire__:
        value = getattr(struct, field.name)
        if not field.present(version):
            setattr(struct, field.name, field.default() if callable(field.default) else field.default)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct) and field.present(version):
                _fit(each, world, version)


def recorded(of_release: str) -> dict[tuple[Any, ...], Any]:
    """Returns Kafka's recorded responses. A key has the fields of a `Step` except its response."""
    steps = json.loads(lzma.decompress(_file(of_release).read_bytes()))
    return {tuple(step[:-1]): step[-1] for step in steps}


def write(of_release: str, steps: Iterable[Step]) -> None:
    """Write Kafka's responses to the file in tests/data."""
    _file(of_release).write_bytes(lzma.compress(json.dumps(list(steps), separators=(",", ":")).encode(), preset=9))


def _file(of_release: str) -> Path:
    return Path(__file__).with_name("data") / f"numbers-{of_release}.json.xz"


def prepare(broker: Broker) -> dict[bytes, str]:
    """Creates the shared topics, and waits for the coordinators. Returns the names of the topics by id."""
    world = World(broker, 0, {})
    for kind, name in ((of.GROUP, "g"), (of.TRANSACTION, "x")):
        world.accepted(of.find_coordinator(*[f"{name}-{number}" for number in range(12)], kind=kind), 4)
    for number in range(12):
        world.accepted(plain("OffsetFetch", group_id=f"g-{number}", topics=None), 7)
    world.create(ORDERS, SINK, TXNS, partitions=2)
    world.produce(ORDERS, 5)
    world.find_share_coordinator()
    return world.ids


def play(broker: Broker, of_release: str, cases: Iterable[str] = CASES) -> Iterator[Step]:
    """Sends the valid request of each case. Then changes one number at a time to each of its `values`, and sends the request
    again."""
    ids, number = prepare(broker), 100
    for case in cases:
        for version in versions(case.split()[0], of_release):
            changes: list[tuple[str, float]] = [("", 0)]
            while changes:
                path, value = changes.pop(0)
                number += 1
                world = World(broker, number, ids, version)
                request = fitting(CASES[case](world), world, version)
                for slot in slots(request, version):
                    if slot.path == path:
                        slot.set(value)
                    changes += [(slot.path, each) for each in values(slot) if not path]
                yield Step(case, version, path, str(value) if path else "", _response(world, request, version))
                world.connection.close()


def _response(world: World, request: Message, version: int) -> Any:
    try:
        world.connection.send(request, version)
        try:
            response = world.connection.response(WAITS_S)
        except NoResponse:
            world.broker.pause(WAITS_S)
            response = world.connection.response(0.01)
    except (ConnectionClosed, NoResponse) as missing:
        return type(missing).__name__
    return _shown(response, world, None)


def _shown(value: Any, world: World, field: Field | None) -> Any:
    """Returns a part of a response as plain data, without values that differ between clusters."""
    if isinstance(value, Struct):
        fields = [each for each in value.__wire__ if each.name not in LEFT_OUT]
        return {each.name: _shown(getattr(value, each.name), world, each) for each in fields}
    if isinstance(value, list):
        shown = [_shown(each, world, field) for each in value]
        return sorted(shown, key=repr) if shown and isinstance(shown[0], dict) else shown
    if field is not None and field.spec == "records":
        return [[read_header(each).base_offset, len(each)] for each in iter_batches(memoryview(value or b""))]
    if field is not None and field.name in KNOWN:
        return world.given.get(value, "another") if value not in NOTHING else value
    if field is not None and BLANK.fullmatch(field.name) and value not in NOTHING:
        return "…"
    if isinstance(value, bytes | memoryview):
        known = world.ids.get(bytes(value))
        unknown = "an id" if any(value) and len(value) == 16 else bytes(value).hex()
        return unknown if known is None else _own_names(known, world)
    return _own_names(value, world) if isinstance(value, str) else value


def _own_names(text: str, world: World) -> str:
    for name, short in world.given.items():
        text = text.replace(str(name), short) if isinstance(name, str) else text
    return RANDOM.sub("…", text)
