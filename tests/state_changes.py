"""For each API that changes state, makes a request that a broker accepts. In this request, no text and no array is empty."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafkawire.declare import Struct, from_plain
from kafkawire.frames import encode_request
from kafkawire.registry import KEYS, request_class, versions
from requesting import Plain, new_topic

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true", "delegation.token.secret.key": "secret",
    "group.initial.rebalance.delay.ms": "0",
}  # fmt: skip
STREAMS = {"group.streams.topology.description.plugin.class": "any"}
INVALID = "Q" * 20_000
"""A placeholder for bytes that are not UTF-8. `frame` replaces each Q by 0xFF, which the broker reads as U+FFFD (three bytes in
UTF-8)."""
LONGEST = "x" * 32_767
"""The longest text that the protocol allows."""
ACL: Plain = {"resource_type": 2, "resource_pattern_type": 3, "host": "*", "operation": 3, "permission_type": 3}
STREAMS_TOPIC: Plain = {
    "name": "store", "partitions": 0, "replication_factor": 0, "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
}  # fmt: skip
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
JOINS: Plain = {
    "session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
}  # fmt: skip
ALTERED = (
    (2, "orders", "follower.replication.throttled.replicas", "0:1"), (4, "", "my.own.setting", "value"),
    (4, "1", "my.own.setting", "value"), (16, "metrics", "match", "client_id=x"), (16, "metrics", "metrics", "*"),
    (32, "team", "streams.assignor.name", "sticky"), (32, "team", "consumer.session.timeout.ms", "45000"),
)  # fmt: skip
"""Settings that can be altered. Each setting has the type and the name of its resource."""
TASKS = [{"subtopology_id": "0", "partitions": [0]}]
NODES = [
    {"name": f"node-{kind}", "node_type": kind, "source_topics": ["orders"], "sink_topic": "orders", "stores": ["store"],
     "successors": ["next"]}
    for kind in (1, 2, 3)
]  # fmt: skip


class State(NamedTuple):
    """Values from earlier responses: a topic's id, a classic member, a producer, and a token's HMAC."""

    topic_id: bytes
    member_id: str
    generation: int
    producer_id: int
    producer_epoch: int
    hmac: bytes


def prepare(ask: Callable[..., Any]) -> State:
    """Creates a topic, a classic member, a transactional producer and a delegation token. `ask` takes the API, a version and
    the fields of a request."""
    ask("CreateTopics", 7, topics=[new_topic("orders")], timeout_ms=5000)
    for kind, key in ((0, "classic"), (1, "till")):
        ask("FindCoordinator", 4, key_type=kind, key=key, coordinator_keys=[key])
    topics = ask("Metadata", 12, topics=[{"name": "orders"}]).topics
    joined = ask("JoinGroup", 3, group_id="classic", member_id="", **JOINS)
    producer = ask("InitProducerId", 4, transactional_id="till", transaction_timeout_ms=60_000)
    token = ask("CreateDelegationToken", 3, max_lifetime_ms=-1)
    return State(
        topics[0].topic_id, joined.member_id, joined.generation_id, producer.producer_id, producer.producer_epoch,
        bytes(token.hmac) if token is not None else b"",
    )  # fmt: skip


def requests(known: State) -> Iterator[tuple[str, int, Plain]]:
    """Yields the API, a version, and the fields of each request."""
    yield from _groups(known)
    yield from _modern_groups(known)
    yield from _transactions(known)
    yield from metadata_requests(known)


def metadata_requests(known: State) -> Iterator[tuple[str, int, Plain]]:
    """Yields the requests that change the cluster's metadata."""
    yield from _cluster()
    yield from _security(known)


def _groups(known: State) -> Iterator[tuple[str, int, Plain]]:
    yield "JoinGroup", 3, {"group_id": "old", "member_id": "", **JOINS}
    yield "JoinGroup", 9, {"group_id": "static", "member_id": "", "group_instance_id": "one", "reason": "new", **JOINS}
    member: Plain = {"group_id": "classic", "member_id": known.member_id}
    yield "JoinGroup", 9, {**member, "group_instance_id": None, "reason": "again", **JOINS}
    at = member | {"generation_id": known.generation, "group_instance_id": None}
    assignments = [{"member_id": known.member_id, "assignment": b"all"}]
    yield "SyncGroup", 5, at | {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
    yield "SyncGroup", 3, at | {"group_instance_id": "one", "assignments": assignments}
    yield "Heartbeat", 4, at | {"group_instance_id": "one"}
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "note"}]
    commit: Plain = {"member_id": "", "generation_id_or_member_epoch": -1, "retention_time_ms": -1}
    named = [{"name": "orders", "partitions": partitions}]
    yield "OffsetCommit", 2, commit | {"group_id": "committer", "topics": named}
    yield "OffsetCommit", 9, commit | {"group_id": "committer", "group_instance_id": "one", "topics": named}
    by_id = [{"topic_id": known.topic_id, "partitions": partitions}]
    yield "OffsetCommit", 10, commit | {"group_id": "committer", "topics": by_id}
    yield "OffsetDelete", 0, {"group_id": "committer", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}
    yield "LeaveGroup", 2, {"group_id": "old", "member_id": "gone"}
    leaves = [{"member_id": "gone", "group_instance_id": "one", "reason": "bye"}]
    yield "LeaveGroup", 5, {"group_id": "static", "members": leaves}
    yield "DeleteGroups", 2, {"groups_names": ["committer"]}


def _modern_groups(known: State) -> Iterator[tuple[str, int, Plain]]:
    joins: Plain = {"member_id": "member", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
    yield "ConsumerGroupHeartbeat", 1, {
        "group_id": "team", **joins, "instance_id": None, "rack_id": "rack", "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": "or.*", "server_assignor": "uniform", "topic_partitions": [],
    }  # fmt: skip
    yield "ConsumerGroupHeartbeat", 1, {
        "group_id": "team", **joins, "member_id": "static", "instance_id": "one", "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }  # fmt: skip
    shares: Plain = {"group_id": "shares", "member_id": "AAAAAAAAAAAAAAAAAAAAAA"}
    yield "ShareGroupHeartbeat", 1, shares | {"member_epoch": 0, "rack_id": "rack", "subscribed_topic_names": ["orders"]}
    fetched = [{"topic_id": known.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}]
    yield "ShareFetch", 1, shares | {
        "share_session_epoch": 0, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 1, "batch_size": 1,
        "topics": fetched,
    }  # fmt: skip
    yield "ShareAcknowledge", 1, shares | {"share_session_epoch": 1, "topics": fetched}
    for api, version, fields in (
        ("InitializeShareGroupState", 0, {"state_epoch": 0, "start_offset": 0}),
        ("WriteShareGroupState", 0, {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []}),
        ("ReadShareGroupState", 0, {"leader_epoch": 0}), ("ReadShareGroupStateSummary", 0, {"leader_epoch": 0}),
        ("DeleteShareGroupState", 0, {}),
    ):  # fmt: skip
        at = [{"topic_id": known.topic_id, "partitions": [{"partition": 0, **fields}]}]
        yield api, version, {"group_id": "state", "topics": at}
    offsets = [{"topic_name": "orders", "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    yield "AlterShareGroupOffsets", 0, {"group_id": "shares2", "topics": offsets}
    yield "DeleteShareGroupOffsets", 0, {"group_id": "shares2", "topics": [{"topic_name": "orders"}]}
    subtopology = {
        "subtopology_id": "0", "source_topics": ["orders"], "source_topic_regex": [],
        "state_changelog_topics": [STREAMS_TOPIC], "repartition_sink_topics": ["again"],
        "repartition_source_topics": [STREAMS_TOPIC | {"name": "again"}],
        "copartition_groups": [{"source_topics": [0], "source_topic_regex": [], "repartition_source_topics": [0]}],
    }  # fmt: skip
    streams: Plain = {
        "group_id": "streams", **joins, "endpoint_information_epoch": 0, "rack_id": "rack",
        "topology": {"epoch": 0, "subtopologies": [subtopology]}, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
        "process_id": "process", "user_endpoint": {"host": "localhost", "port": 1}, "client_tags": [{"key": "k", "value": "v"}],
    }  # fmt: skip
    yield "StreamsGroupHeartbeat", 0, streams
    yield "StreamsGroupHeartbeat", 0, streams | {"member_id": "static", "instance_id": "one"}
    by_regex = {"epoch": 0, "subtopologies": [subtopology | {"source_topic_regex": ["or.*"]}]}
    yield "StreamsGroupHeartbeat", 0, streams | {"topology": by_regex}
    offset = [{"subtopology_id": "0", "partition": 0, "offset": 0}]
    yield "StreamsGroupHeartbeat", 0, {
        "group_id": "streams", "member_id": "member", "member_epoch": 1, "endpoint_information_epoch": 0, "instance_id": "one",
        "active_tasks": TASKS, "standby_tasks": TASKS, "warmup_tasks": TASKS, "task_offsets": offset,
        "task_end_offsets": offset,
    }  # fmt: skip
    described: Plain = {
        "subtopologies": [{"subtopology_id": "0", "nodes": NODES}],
        "global_stores": [{"source": NODES[0], "processor": NODES[1]}],
    }
    yield "StreamsGroupTopologyDescriptionUpdate", 0, {
        "group_id": "streams", "member_id": "member", "topology_epoch": 0, "topology_description": described,
    }  # fmt: skip


def _transactions(known: State) -> Iterator[tuple[str, int, Plain]]:
    yield "InitProducerId", 4, {"transactional_id": "other", "transaction_timeout_ms": 60_000}
    by: Plain = {"producer_id": known.producer_id, "producer_epoch": known.producer_epoch}
    topics = [{"name": "orders", "partitions": [0]}]
    old = {"transactional_id": "till", **by, "topics": topics}
    yield "AddPartitionsToTxn", 3, {f"v3_and_below_{name}": value for name, value in old.items()}
    yield "AddPartitionsToTxn", 4, {"transactions": [old]}
    yield "AddOffsetsToTxn", 3, {"transactional_id": "till", **by, "group_id": "paid"}
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "note"}]
    commit: Plain = {"transactional_id": "till", "group_id": "paid", **by, "generation_id": -1, "member_id": ""}
    named = [{"name": "orders", "partitions": partitions}]
    yield "TxnOffsetCommit", 3, commit | {"group_instance_id": "one", "topics": named}
    yield "WriteTxnMarkers", 1, {"markers": [{**by, "topics": [{"name": "orders", "partition_indexes": [0]}]}]}
    yield "EndTxn", 3, {"transactional_id": "till", **by, "committed": True}
    yield "Produce", 12, {"transactional_id": "till", "acks": -1, "timeout_ms": 1000, "topic_data": [
        {"name": "orders", "partition_data": [{"index": 0, "records": b""}]},
    ]}  # fmt: skip


def _cluster() -> Iterator[tuple[str, int, Plain]]:
    yield "CreateTopics", 7, {"topics": [new_topic("new", retention_ms="1000")], "timeout_ms": 5000}
    yield "CreatePartitions", 3, {"topics": [{"name": "new", "count": 2, "assignments": None}], "timeout_ms": 5000}
    for api, version in (("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)):
        for kind, name, setting, value in ALTERED:
            configs = [{"name": setting, "value": value}]
            yield api, version, {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}
    replicas = [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    yield "AlterPartitionReassignments", 1, {"timeout_ms": 5000, "topics": replicas}
    yield "AlterReplicaLogDirs", 2, {"dirs": [{"path": "/x", "topics": [{"name": "orders", "partitions": [0]}]}]}
    yield "ElectLeaders", 2, {"topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout_ms": 5000}
    yield "DeleteRecords", 2, {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}]}
    yield "DeleteTopics", 5, {"topic_names": ["new"], "timeout_ms": 5000}
    yield "DeleteTopics", 6, {"topics": [{"name": "new"}], "timeout_ms": 5000}
    listener = {"name": "CONTROLLER", "host": "localhost", "port": 1}
    yield "AddRaftVoter", 1, {"cluster_id": "x", "voter_id": 99, "listeners": [listener], "timeout_ms": 1000}
    yield "RemoveRaftVoter", 0, {"cluster_id": "x", "voter_id": 99}
    feature = {"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}
    yield "UpdateFeatures", 1, {"feature_updates": [feature], "timeout_ms": 5000}


def _security(known: State) -> Iterator[tuple[str, int, Plain]]:
    acl = ACL | {"resource_name": "secret", "principal": "User:alice"}
    yield "CreateAcls", 3, {"creations": [acl]}
    shown: Plain = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
    names = {"resource_name_filter": "secret", "principal_filter": "User:alice", "host_filter": "*"}
    yield "DeleteAcls", 3, {"filters": [shown | names]}
    entity = [{"entity_type": "user", "entity_name": "alice"}, {"entity_type": "client-id", "entity_name": "app"}]
    ops = [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]
    yield "AlterClientQuotas", 1, {"entries": [{"entity": entity, "ops": ops}]}
    upsertion = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"secret"}
    yield "AlterUserScramCredentials", 0, {"upsertions": [upsertion], "deletions": []}
    yield "AlterUserScramCredentials", 0, {"upsertions": [], "deletions": [{"name": "alice", "mechanism": 1}]}
    owner = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    renewers = [{"principal_type": "User", "principal_name": "carol"}]
    yield "CreateDelegationToken", 3, owner | {"renewers": renewers, "max_lifetime_ms": -1}
    yield "RenewDelegationToken", 2, {"hmac": known.hmac, "renew_period_ms": 2_000_000}
    yield "ExpireDelegationToken", 2, {"hmac": known.hmac, "expiry_time_period_ms": 1_000_000}
    yield "DescribeDelegationToken", 3, {"owners": [{"principal_type": "User", "principal_name": "bob"}]}


# Fields


Place = tuple[str | int, ...]
"""The place of a value in plain data."""


def texts(cls: type[Struct], version: int, value: Any, path: Place = ()) -> Iterator[tuple[Place, str]]:
    """For each text and each value of bytes in a request's plain data, yields its place and its type ("string" or "bytes")."""
    for field in cls.__wire__:
        held = value.get(field.name)
        if field.present(version) and held is not None:
            yield from _texts(field.spec, version, held, (*path, field.name))


def _texts(spec: Any, version: int, value: Any, path: Place) -> Iterator[tuple[Place, str]]:
    if spec in ("string", "bytes"):
        yield path, spec
    elif isinstance(spec, type):
        yield from texts(spec, version, value, path)
    elif isinstance(spec, list):
        for i, each in enumerate(value):
            yield from _texts(spec[0], version, each, (*path, i))


def declared(cls: type[Struct], version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the path of each text field that this version of a message has: the names of the fields around it, and its own
    name.
    """
    for field in cls.__wire__:
        spec = field.spec[0] if isinstance(field.spec, list) else field.spec
        if not field.present(version):
            continue
        if spec == "string":
            yield (*path, field.name)
        elif isinstance(spec, type):
            yield from declared(spec, version, (*path, field.name))


def replaced(fields: Plain, path: Place, value: Any) -> Plain:
    """Returns a copy of plain data in which `value` is at the place `path`."""
    made = copy.deepcopy(fields)
    within: Any = made
    for step in path[:-1]:
        within = within[step]
    within[path[-1]] = value
    return made


def frame(api: str, version: int, fields: Plain, client_id: str = "test") -> bytes:
    """Returns the frame of a request. In this frame, invalid bytes replace `INVALID`."""
    made = encode_request(7, client_id, from_plain(request_class(KEYS[api]), fields), version)
    return made.replace(INVALID.encode(), b"\xff" * len(INVALID))


def newest(api: str) -> int:
    """Returns the newest version of an API."""
    return max(versions(KEYS[api])[1], 0)
