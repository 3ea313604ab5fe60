"""Sends requests to a real Kafka (scripts/record acls) and to wirebroker as a client that has few rights.

`play` gives a user one set of rights after another. With each set, it sends requests as this user. With the sets `nothing` and
`some` in `RIGHTS`, it sends every version of each API. With each single right in `SINGLE`, it sends one request of each kind.
With each set in `SEEN`, two members of a group subscribe by regular expression. Responses are returned as plain data, without
fields that differ between clusters. Their lists are sorted, because the order of a list in Kafka's response can be random.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kafkawire.batches import Record, build_batch
from kafkawire.codec import encode
from kafkawire.declare import Message, Struct
from kafkawire.errors import EncodeError
from kafkawire.primitives import format_uuid
from kafkawire.registry import KEYS, request_class, spoken
from requesting import create_topics, new_topic, plain
from wirebroker.client.wire import Connection, ConnectionClosed
from wirebroker.core.acls import OPERATIONS, Operation, ResourceType
from wirebroker_tools.decode.plain import message_of

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
SETTINGS = {
    "group.consumer.session.timeout.ms": "600000", "group.consumer.max.session.timeout.ms": "600000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS", "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "4", "delegation.token.secret.key": "a secret of all brokers",
}  # fmt: skip
WITHIN = 20.0
"""The longest wait, in seconds, until the coordinators are loaded."""
NAMES = ("mine", "hidden", "absent", "seen")
"""The topics that requests name; `absent` does not exist."""
HIDDEN_PARTITIONS = 3
"""The number of partitions of `hidden`. All other topics have one, and requests name only partition 0."""
GROUPS, IDS = ("g-mine", "g-other"), ("tx-mine", "tx-other")
SHARE_GROUP = "g-share"
"""A share group with offsets in `mine` and `hidden`."""
SHARED = "g-other:AAAAAAAAAAAAAAAAAAAAAQ:0"
"""The key of a share partition: its group, topic id and partition."""
DIFFERS = frozenset(
    {"port", "host", "cluster_id", "log_append_time_ms", "throttle_time_ms", "producer_id", "controller_id", "node_id",
     "timestamp", "leader_id", "records", "log_dir", "total_bytes", "usable_bytes", "last_caught_up_timestamp",
     "last_fetch_timestamp", "listeners"}
)  # fmt: skip
"""Fields whose values differ from cluster to cluster."""
DIFFERS_HERE = DIFFERS | {
    "token_id", "hmac", "last_timestamp", "client_instance_id", "subscription_id", "finalized_features_epoch", "auth_bytes",
    *(f"{name}_timestamp{unit}" for name in ("issue", "expiry", "max") for unit in ("", "_ms")),
}  # fmt: skip
"""All fields whose values differ. With `blank`, `comparable` replaces their values by "…"."""
OF_OTHER_RELEASES = {"old_style_offsets", "is_default"}
"""Fields that exist only in versions that Kafka 4.3.1 does not support, so its recording does not have them."""
SIZES = ("total_bytes", "usable_bytes")
"""Fields that are −1 if a broker keeps its logs in memory."""
NOTHING = (None, -1, 0, "", b"", bytes(16), [])
"""If a broker refuses a request, each `DIFFERS_HERE` field of the response has one of these values. All clusters send the same
value, so the test compares it."""
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, IDEMPOTENT_WRITE = 2, 3, 4, 5, 6, 7, 8, 12
ANY = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
"""A filter that all ACLs match."""
Plain = dict[str, Any]
Asked = tuple[str, int, Message]
NAMELESS = ("Produce ids", "Produce transactional", "OffsetCommit ids", "OffsetFetch ids")
"""Requests whose topics have names only in some versions."""
NEW = ("new-mine", "new-other")
"""The topics that a client creates if it has the right to create topics."""


class Step(NamedTuple):
    """A request and its response, or the name of an exception if there is no response."""

    rights: str
    name: str
    version: int
    response: Any


def acl(kind: int, name: str, operation: int, *, deny: bool = False, prefix: bool = False, host: str = "*") -> Plain:
    """Returns an ACL of alice, for CreateAcls."""
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": 4 if prefix else 3, "principal": "User:alice",
        "host": host, "operation": operation, "permission_type": 2 if deny else 3,
    }  # fmt: skip


CLUSTER_NAME = "kafka-cluster"
RIGHTS: dict[str, list[Plain]] = {
    "nothing": [acl(TOPIC, "zzz", READ)],
    "some": [
        acl(TOPIC, "mine", ALL), acl(TOPIC, "new-mine", CREATE), acl(TOPIC, "mine-", DELETE, prefix=True),
        acl(TOPIC, "seen", DESCRIBE), acl(GROUP, "g-mine", ALL), acl(TRANSACTIONAL_ID, "tx-mine", ALL),
        acl(GROUP, "g848", READ),
    ],
    "wild": [
        acl(TOPIC, "*", READ), acl(TOPIC, "hidden", READ, deny=True), acl(TOPIC, "mi", WRITE, prefix=True),
        acl(GROUP, "*", DESCRIBE), acl(CLUSTER, CLUSTER_NAME, DESCRIBE), acl(TRANSACTIONAL_ID, "tx", DESCRIBE, prefix=True),
        acl(CLUSTER, CLUSTER_NAME, IDEMPOTENT_WRITE),
    ],
    "cluster": [
        acl(CLUSTER, CLUSTER_NAME, ALL), acl(TOPIC, "se", ALL, prefix=True, host="10.0.0.1"), acl(TOPIC, "mine", ALTER),
    ],
}  # fmt: skip
NAMED: dict[int, tuple[str, ...]] = {
    TOPIC: ("mine",), GROUP: ("g-mine", "g-none", SHARE_GROUP), CLUSTER: (CLUSTER_NAME,), TRANSACTIONAL_ID: ("tx-mine",),
    ResourceType.DELEGATION_TOKEN: ("*",), ResourceType.USER: ("User:bob",),
}  # fmt: skip
"""For each type of resource: the resources on which alice gets one right at a time."""


OTHERS = {
    TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


def _single() -> Iterator[tuple[str, list[Plain]]]:
    """Yields each single right with its name. For each right on topics, also yields a combination: this right on one topic, and
    all rights on groups and transactional ids.
    """
    for kind, names in NAMED.items():
        for operation in (OPERATIONS | OTHERS)[ResourceType(kind)]:
            right = f"{Operation(operation).name} {ResourceType(kind).name}"
            yield right, [acl(kind, name, operation) for name in names]
            if kind == TOPIC:
                others = [acl(other, "*", ALL) for other in (GROUP, TRANSACTIONAL_ID)]
                yield f"{right} and all groups", [acl(kind, "mine", operation), *others]


SINGLE = dict(_single())
SEEN: dict[str, list[Plain]] = {
    "no topic": [], "one topic": [acl(TOPIC, "mine", DESCRIBE)],
    "all topics but one": [acl(TOPIC, "*", READ), acl(TOPIC, "hidden", DESCRIBE, deny=True)],
}  # fmt: skip
"""Sets of rights of a member that subscribes by regular expression."""
INVALID: dict[str, Plain] = {
    "another cluster": acl(CLUSTER, "wrong", READ), "no name": acl(TOPIC, "", READ), "any type": acl(1, "x", READ),
    "unknown type": acl(0, "x", READ), "type 9": acl(9, "x", READ), "any operation": acl(TOPIC, "x", 1),
    "unknown operation": acl(TOPIC, "x", 0), "operation 77": acl(TOPIC, "x", 77),
    "any permission": acl(TOPIC, "x", READ) | {"permission_type": 1},
    "match": acl(TOPIC, "x", READ) | {"resource_pattern_type": 2},
    "any pattern": acl(TOPIC, "x", READ) | {"resource_pattern_type": 1},
    "no colon": acl(TOPIC, "x", READ) | {"principal": "alice"},
}  # fmt: skip
FILTERS: dict[str, Plain] = {
    "literal": ANY | {"resource_type_filter": TOPIC, "resource_name_filter": "mine", "pattern_type_filter": 3},
    "match": ANY | {"resource_type_filter": TOPIC, "resource_name_filter": "mine", "pattern_type_filter": 2},
    "prefixed": ANY | {"pattern_type_filter": 4}, "any": ANY, "unknown type": ANY | {"resource_type_filter": 0},
    "unknown operation": ANY | {"operation": 0}, "operation 99": ANY | {"operation": 99},
}  # fmt: skip


def plain_request(api: str, body: Plain) -> Message:
    """Returns a request with the fields in `body`. All other fields have their defaults."""
    return message_of(request_class(KEYS[api]), body, lambda _, path: b"")


def batch(**options: Any) -> memoryview:
    """Returns a batch of one record."""
    return memoryview(build_batch([Record(0, 0, None, b"v")], base_timestamp=time.time_ns() // 1_000_000, **options))


def _topics(key: str = "name", partitions: str = "partitions", **partition: Any) -> list[Plain]:
    return [{key: name, partitions: [partition]} for name in NAMES]


def requests(ids: Mapping[str, bytes]) -> Iterator[tuple[str, int, Message]]:
    """Yields three values for each request of alice: the step's name, the version and the request. The step's name begins with
    the API's name.
    """
    mine = format_uuid(ids["mine"])
    for name, version, body in [*_data(), *_groups(), *_transactions(), *_admin(), *_shares(mine), *_security()]:
        yield name, version, plain_request(name.split()[0], body)
    for name, version, body in _with_ids({name: format_uuid(each) for name, each in ids.items()}):
        yield name, version, plain_request(name.split()[0], body)
    for name, version in (("Produce ids", 13), ("Fetch ids", 16), ("Metadata ids", 12), ("DeleteTopics ids", 6)):
        yield name, version, _by_id(name.split()[0], ids)
    produced: Any = plain_request("Produce", {"acks": -1, "timeout_ms": 5000, "topic_data": _topics("name", "partition_data")})
    for topic in produced.topic_data:
        topic.partition_data[0].records = batch()
    yield "Produce", 9, produced
    transactional: Any = plain_request(
        "Produce",
        {"acks": -1, "timeout_ms": 5000, "transactional_id": IDS[1], "topic_data": _topics("name", "partition_data")[:2]},
    )
    for topic in transactional.topic_data:
        topic.partition_data[0].records = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    yield "Produce transactional", 9, transactional


def _by_id(api: str, ids: Mapping[str, bytes]) -> Message:
    request: Any
    if api == "Produce":
        request = plain_request(api, {"acks": -1, "timeout_ms": 5000, "topic_data": [{"partition_data": [{}]} for _ in ids]})
        for topic, topic_id in zip(request.topic_data, ids.values(), strict=True):
            topic.topic_id, topic.partition_data[0].records = topic_id, batch()
        return request  # type: ignore[no-any-return]
    ids = {name: ids[name] for name in ids if api != "DeleteTopics" or name != "mine"}  # later requests still need `mine`
    topic = {"partitions": [{"partition_max_bytes": 1000}]} if api == "Fetch" else {"name": None}
    request = plain_request(api, {"topics": [topic for _ in ids]} | ({"timeout_ms": 5000} if api == "DeleteTopics" else {}))
    for each, topic_id in zip(request.topics, ids.values(), strict=True):
        each.topic_id = topic_id
    return request  # type: ignore[no-any-return]


def _with_ids(ids: Mapping[str, str]) -> Iterator[tuple[str, int, Plain]]:
    topics = [{"topic_id": each, "partitions": [{"committed_offset": 1}]} for each in ids.values()]
    commit: Plain = {"group_id": GROUPS[0], "generation_id_or_member_epoch": -1, "topics": topics}
    yield "OffsetCommit ids", 10, commit
    named = [{"topic_id": each, "partition_indexes": [0]} for each in ids.values()]
    for name, wanted in (("ids", named), ("ids all", None)):
        yield f"OffsetFetch {name}", 10, {"groups": [{"group_id": GROUPS[0], "topics": wanted}]}
    member = {"group_id": GROUPS[0], "member_id": "BAAAAAAAAAAAAAAAAAAAAA"}
    most = {"max_records": 1, "batch_size": 1, "max_bytes": 1000}
    other = {"topics": [{"topic_id": ids["hidden"], "partitions": [{"partition_index": 0}]}]}
    yield "ShareFetch of other", 1, member | most | other | {"share_session_epoch": 0}
    yield "ShareAcknowledge of other", 1, member | other | {"share_session_epoch": 1}
    yield "ShareFetch at last", 1, member | most | {"share_session_epoch": -1}


def _data() -> Iterator[tuple[str, int, Plain]]:
    yield "Fetch", 12, {"topics": _topics("topic", partition_max_bytes=1000)}
    yield "Fetch as a follower", 12, {"replica_id": 7, "topics": _topics("topic", partition_max_bytes=1000)}
    yield "ListOffsets as a follower", 7, {"replica_id": 7, "topics": _topics(timestamp=-1)}
    yield "ListOffsets", 7, {"replica_id": -1, "topics": _topics(timestamp=-1)}
    for version in (0, 1, 4, 8, 10, 12, 13):
        asked = {"include_cluster_authorized_operations": version in (8, 10)}
        asked |= {"include_topic_authorized_operations": version >= 8}
        yield "Metadata all", version, asked | {"topics": None if version else []}
        named = [{"name": name} for name in NAMES]
        yield "Metadata named", version, asked | {"topics": named, "allow_auto_topic_creation": version < 8}
    yield "DeleteRecords", 2, {"timeout_ms": 5000, "topics": _topics()}
    yield "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": _topics("topic", current_leader_epoch=-1)}


def _groups() -> Iterator[tuple[str, int, Plain]]:
    for group in GROUPS:
        mine: Plain = {"group_id": group}
        member = {"member_id": "m", "generation_id": 1}
        offsets = [{"name": name, "partition_indexes": [0]} for name in NAMES]
        yield "OffsetCommit", 8, mine | {"generation_id_or_member_epoch": -1, "topics": _topics(committed_offset=1)}
        yield from (("OffsetFetch", version, mine | {"topics": offsets}) for version in (1, 7))
        yield "OffsetFetch all", 7, mine | {"topics": None}
        yield from (("FindCoordinator", version, {"key": group, "key_type": 0}) for version in (0, 3))
        joins = {"member_id": "m", "session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": [{"name": "r"}]}
        yield "JoinGroup", 9, mine | joins
        yield "SyncGroup", 5, mine | member | {"protocol_type": "consumer", "protocol_name": "range"}
        yield "Heartbeat", 4, mine | member
        yield "LeaveGroup", 5, mine | {"members": [{"member_id": "m"}]}
        for name in ("seen", "hidden"):
            subscribed = {"subscribed_topic_names": ["mine", name], "topic_partitions": [], "rebalance_timeout_ms": 60_000}
            yield f"ConsumerGroupHeartbeat {name}", 1, mine | subscribed | {"member_id": "m", "member_epoch": 3}
        yield "OffsetDelete", 0, mine | {"topics": _topics()}
        for transactional_id in IDS:
            fields: Plain = mine | {"transactional_id": transactional_id, "producer_id": 5, "producer_epoch": 0}
            yield "AddOffsetsToTxn", 3, fields
            yield "TxnOffsetCommit", 3, fields | {"generation_id": -1, "topics": _topics(committed_offset=1)}
        yield from _share_groups(mine)
    yield from _streams_groups()
    both = [{"group_id": GROUPS[0], "topics": offsets}, {"group_id": GROUPS[1], "topics": None}]
    yield "OffsetFetch groups", 8, {"groups": both}
    yield "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": list(GROUPS)}
    yield "DescribeGroups", 5, {"groups": list(GROUPS), "include_authorized_operations": True}
    yield "ListGroups", 4, {}
    yield "DeleteGroups", 2, {"groups_names": ["g-none", GROUPS[1]]}
    yield "ConsumerGroupDescribe", 1, {"group_ids": [*GROUPS, "g848"], "include_authorized_operations": True}


def _streams_groups() -> Iterator[tuple[str, int, Plain]]:
    empty: Plain = {"source_topic_regex": [], "repartition_source_topics": [], "copartition_groups": []}
    for group_id in GROUPS:
        member: Plain = {"group_id": group_id, "member_id": "m", "member_epoch": 3, "endpoint_information_epoch": 0}
        yield f"StreamsGroupHeartbeat without a topology, {group_id}", 0, member
        for source, store in (
            ("mine", "mine"),
            ("mine", "hidden"),
            ("hidden", "mine"),
            ("a b", "hidden"),
            ("__consumer_offsets", "mine"),
        ):
            changelog = {"name": store, "partitions": 0, "replication_factor": 0, "topic_configs": []}
            subtopology = empty | {
                "subtopology_id": "0", "source_topics": [source], "state_changelog_topics": [changelog],
                "repartition_sink_topics": ["seen"],
            }  # fmt: skip
            topology = {"epoch": 0, "subtopologies": [subtopology]}
            yield f"StreamsGroupHeartbeat {source} {store}, {group_id}", 0, member | {"topology": topology}
    yield "StreamsGroupDescribe", 0, {"group_ids": list(GROUPS), "include_authorized_operations": True}


def _share_groups(group: Plain) -> Iterator[tuple[str, int, Plain]]:
    member = group | {"member_id": "AAAAAAAAAAAAAAAAAAAAAA"}
    yield "ShareGroupHeartbeat", 1, member | {"member_epoch": 3, "subscribed_topic_names": ["mine", "hidden"]}
    yield "ShareFetch", 1, member | {"share_session_epoch": 7, "max_records": 1, "batch_size": 1}
    yield "ShareAcknowledge", 1, member | {"share_session_epoch": 7}
    yield "ShareGroupDescribe", 1, {"group_ids": [group["group_id"]]}
    yield "DescribeShareGroupOffsets", 0, {"groups": [group | {"topics": []}]}
    yield "FindCoordinator share", 6, {"key_type": 2, "coordinator_keys": [SHARED]}
    yield "AlterShareGroupOffsets", 0, group | {"topics": [{"topic_name": name, "partitions": []} for name in NAMES]}
    yield "DeleteShareGroupOffsets", 0, group | {"topics": [{"topic_name": name} for name in NAMES]}


def _shares(topic_id: str) -> Iterator[tuple[str, int, Plain]]:
    offsets = [{"topic_name": name, "partitions": [0]} for name in NAMES]
    for name, topics in (("all", None), ("named", offsets), ("hidden", offsets[1:])):
        yield f"DescribeShareGroupOffsets {name}", 1, {"groups": [{"group_id": SHARE_GROUP, "topics": topics}]}
    yield "ShareGroupDescribe of one", 1, {"group_ids": [SHARE_GROUP], "include_authorized_operations": True}
    for name, each in (
        ("Initialize", {"state_epoch": 0, "start_offset": 0}),
        ("Write", {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []}),
        ("Read", {"leader_epoch": 0}),
        ("Delete", {}),
    ):
        state = {"group_id": "g-state", "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0} | each]}]}
        yield f"{name}ShareGroupState", 0, state
        if name == "Read":
            yield "ReadShareGroupStateSummary", 1, state


def _security() -> Iterator[tuple[str, int, Plain]]:
    yield "DescribeDelegationToken", 3, {"owners": None}
    yield "CreateDelegationToken", 3, {"owner_principal_type": "User", "owner_principal_name": "bob", "max_lifetime_ms": -1}
    yield "RenewDelegationToken", 2, {"renew_period_ms": -1}
    yield "ExpireDelegationToken", 2, {"expiry_time_period_ms": -1}
    yield "DescribeUserScramCredentials", 0, {"users": [{"name": "nobody"}, {"name": "alice"}]}
    yield "AlterUserScramCredentials", 0, {"deletions": [{"name": name, "mechanism": 1} for name in ("nobody", "no")]}
    yield "DescribeClientQuotas", 1, {"components": [{"entity_type": "user", "match_type": 0, "match": "alice"}]}
    quota = {"entity": [{"entity_type": "user", "entity_name": "alice"}], "ops": [{"key": "producer_byte_rate", "value": 1.0}]}
    yield "AlterClientQuotas", 1, {"entries": [quota], "validate_only": True}
    yield "UnregisterBroker", 0, {"broker_id": 99}
    yield "AddRaftVoter", 1, {"cluster_id": None, "voter_id": 99, "timeout_ms": 5000}
    yield "RemoveRaftVoter", 0, {"cluster_id": None, "voter_id": 99}
    feature = {"feature": "share.version", "max_version_level": 9, "allow_downgrade": False, "upgrade_type": 1}
    yield "UpdateFeatures", 2, {"feature_updates": [feature], "validate_only": True, "timeout_ms": 5000}
    yield "ApiVersions", 4, {"client_software_name": "x", "client_software_version": "1"}
    yield "GetTelemetrySubscriptions", 0, {}
    yield "PushTelemetry", 0, {}
    yield "SaslHandshake", 1, {"mechanism": "PLAIN"}
    yield "SaslAuthenticate", 2, {}


def _transactions() -> Iterator[tuple[str, int, Plain]]:
    yield "FindCoordinator transactions", 4, {"key_type": 1, "coordinator_keys": list(IDS)}
    for transactional_id in IDS:
        yield "InitProducerId", 4, {"transactional_id": transactional_id, "transaction_timeout_ms": 10_000}
        topics = [{"name": name, "partitions": [0]} for name in (*NAMES, "__consumer_offsets")]
        yield "AddPartitionsToTxn", 3, {
            "v3_and_below_transactional_id": transactional_id, "v3_and_below_producer_id": 5, "v3_and_below_topics": topics,
        }  # fmt: skip
        yield "EndTxn", 3, {"transactional_id": transactional_id, "producer_id": 5, "producer_epoch": 9, "committed": True}
    yield "InitProducerId without", 4, {"transactional_id": None, "transaction_timeout_ms": 10_000}
    topics = [{"name": "mine", "partitions": [0]}]
    one = {"transactional_id": IDS[0], "producer_id": 5, "producer_epoch": 0, "verify_only": True, "topics": topics}
    yield "AddPartitionsToTxn", 4, {"transactions": [one]}
    marker = {"producer_id": 5, "topics": [{"name": "mine", "partition_indexes": [0]}]}
    yield "WriteTxnMarkers", 1, {"markers": [marker]}
    yield "DescribeTransactions", 0, {"transactional_ids": list(IDS)}
    yield "ListTransactions", 1, {}


def _admin() -> Iterator[tuple[str, int, Plain]]:
    created = ("mine", "new-mine", "new-other", "dup", "dup", "__cluster_metadata")
    yield "CreateTopics", 7, {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in created]}
    deleted = ["hidden", "absent", "seen", "mine-gone", "new-mine"]
    yield from (("DeleteTopics", version, {"topic_names": deleted, "timeout_ms": 5000}) for version in (3, 5))
    yield "DeleteTopics names", 6, {"topics": [{"name": name} for name in deleted[:4]], "timeout_ms": 5000}
    yield "DeleteTopics overdue", 6, {"topics": [{"name": name} for name in deleted], "timeout_ms": 0}
    wanted = [{"name": name, "count": 2, "assignments": None} for name in NAMES]
    yield "CreatePartitions", 3, {"topics": wanted, "timeout_ms": 5000, "validate_only": True}
    resources = [(2, name) for name in NAMES]
    resources += [(4, "1"), (4, ""), (8, "1"), (32, GROUPS[0]), (32, GROUPS[1]), (16, "m")]
    named = [{"resource_type": kind, "resource_name": name} for kind, name in resources]
    yield "DescribeConfigs", 4, {"resources": [each | {"configuration_keys": ["retention.ms"]} for each in named]}
    yield "AlterConfigs", 2, {"resources": named[:5], "validate_only": True}
    yield "IncrementalAlterConfigs", 1, {"resources": named, "validate_only": True}
    yield "AlterReplicaLogDirs", 2, {"dirs": [{"path": "/x", "topics": [{"name": "mine", "partitions": [0]}]}]}
    yield "DescribeLogDirs", 4, {"topics": []}
    yield "ElectLeaders", 2, {"topic_partitions": None, "timeout_ms": 5000}
    elected = [{"topic": "absent", "partitions": [0]}]
    yield "ElectLeaders named", 2, {"topic_partitions": elected, "timeout_ms": 5000}
    listed = [{"name": "absent", "partition_indexes": [0]}]
    yield "ListPartitionReassignments named", 0, {"timeout_ms": 5000, "topics": listed}
    moved = [{"name": name, "partitions": [{"partition_index": 0, "replicas": None}]} for name in ("mine", "absent")]
    yield "AlterPartitionReassignments", 1, {"timeout_ms": 5000, "topics": moved}
    yield "ListPartitionReassignments", 0, {"timeout_ms": 5000, "topics": None}
    yield "DescribeQuorum", 2, {"topics": []}
    yield "DescribeQuorum named", 2, {"topics": [{"topic_name": "mine", "partitions": [{"partition_index": 0}]}]}
    yield "DescribeCluster", 2, {"include_cluster_authorized_operations": True}
    yield "DescribeProducers", 0, {"topics": [{"name": name, "partition_indexes": [0]} for name in NAMES]}
    yield "DescribeTopicPartitions", 0, {"topics": [{"name": name} for name in NAMES]}
    after = {"topic_name": "n", "partition_index": 0}
    yield "DescribeTopicPartitions after n", 0, {"topics": [{"name": name} for name in NAMES], "cursor": after}
    after_mine = {"topic_name": "mine", "partition_index": 0}
    for name, wanted in (("named", [{"name": name} for name in NAMES]), ("all", [])):
        yield f"DescribeTopicPartitions {name} after mine", 0, {"topics": wanted, "cursor": after_mine}
    yield "DescribeTopicPartitions all after n", 0, {"topics": [], "cursor": after}
    yield "DescribeTopicPartitions all", 0, {"topics": []}
    yield "ListConfigResources", 1, {"resource_types": [TOPIC]}
    yield "DescribeAcls", 3, ANY
    yield "DescribeAcls of an unknown type", 3, ANY | {"resource_type_filter": 0}
    yield "CreateAcls of an unknown type", 3, {"creations": [acl(0, "x", READ)]}
    yield "DeleteAcls of an unknown operation", 3, {"filters": [ANY | {"operation": 0}]}
    yield "CreateAcls", 3, {"creations": [acl(TOPIC, "x", READ)]}
    yield "DeleteAcls", 3, {"filters": [ANY | {"principal_filter": "User:nobody"}]}


# Names beside ids

MIXED = ("Metadata", "DeleteTopics", "ConsumerGroupHeartbeat")
"""The APIs that have a version in which a request may have both the names and the ids of topics."""
Element = tuple[str | None, str]
"""A topic in a request: its name, and its key in `ids`. The key "" means that the request has no id for it."""


def mixes(ids: Mapping[str, bytes]) -> Iterator[Asked]:
    """Yields requests of `MIXED` with the names and ids of seen, hidden and absent topics, in every combination."""
    names, keys = (None, *NAMES, "mine-gone"), ("", "mine", "seen", "hidden", "unknown")
    elements: list[Element] = [(name, key) for name in names for key in keys]
    alone = [[element] for element in elements]
    further: list[Element] = [("hidden", ""), (None, "hidden"), ("mine", ""), (None, "mine")]
    pairs = [[element, other] for element in elements for other in [element, *further]]
    for version in (10, 11, 12, 13):
        for topics in alone + (pairs if version == 12 else []):
            wanted = {"topics": _elements(topics, ids), "allow_auto_topic_creation": False}
            yield _mixed("Metadata", version, topics, wanted | {"include_topic_authorized_operations": True})
    for topics in alone + pairs:
        if [element in (("mine", ""), (None, "mine")) for element in topics].count(True) != 1:  # keep `mine`
            yield _mixed("DeleteTopics", 6, topics, {"topics": _elements(topics, ids), "timeout_ms": 5000})
    for name, key in elements:
        owned = [{"topic_id": format_uuid(ids[key]), "partitions": [0]}] if key else []
        member = {"group_id": "g848", "member_id": "m", "rebalance_timeout_ms": 60_000, "topic_partitions": owned}
        for epoch in (0, 3) if key else ():  # without owned partitions, epoch 0 makes the member join
            wanted = member | {"member_epoch": epoch, "subscribed_topic_names": None if name is None else [name]}
            yield _mixed(f"ConsumerGroupHeartbeat at {epoch}", 1, [(name, key)], wanted)


def _elements(topics: list[Element], ids: Mapping[str, bytes]) -> list[Plain]:
    return [{"name": name} | ({"topic_id": format_uuid(ids[key])} if key else {}) for name, key in topics]


def _mixed(name: str, version: int, topics: list[Element], body: Plain) -> Asked:
    shown = ", ".join(f"{name or 'no name'} with {'the id of ' + key if key else 'no id'}" for name, key in topics)
    return f"{name} of {shown}", version, plain_request(name.split()[0], body)


# Playing


def log_in(address: tuple[str, int], user: str) -> Connection:
    """Opens a connection and logs `user` in."""
    connection = Connection(address, 10)
    authenticate(connection, user)
    return connection


def authenticate(connection: Connection, user: str) -> None:
    """Logs `user` in."""
    connection.request(plain("SaslHandshake", mechanism="PLAIN"), 1)
    response = connection.request(plain("SaslAuthenticate", auth_bytes=f"\0{user}\0{USERS[user]}".encode()), 2)
    assert response.error_code == 0, response.error_message


class Client:
    """A user's client, which reconnects if the broker has closed the connection."""

    def __init__(self, address: tuple[str, int], user: str, ids: Mapping[bytes, str]) -> None:
        self._address, self._user, self._ids = address, user, ids
        self._connection = log_in(address, user)

    def ask(self, request: Message, version: int) -> Any:
        """Returns the response as plain data, or the exception's name if there is no response."""
        response = self.raw(request, version)
        return ConnectionClosed.__name__ if response is None else comparable(response, self._ids, blank=True)

    def raw(self, request: Message, version: int) -> Any:
        """Returns the response unchanged, or None if there is no response."""
        try:
            return self._connection.request(request, version)
        except ConnectionClosed:
            self._connection = log_in(self._address, self._user)
            return None

    def until(self, request: Message, version: int, good: Callable[[Any], bool]) -> None:
        """Repeats the request until `good` returns true for the response."""
        deadline = time.monotonic() + WITHIN
        while not good(self.ask(request, version)):
            assert time.monotonic() < deadline, request


def comparable(value: Any, ids: Mapping[bytes, str], *, blank: bool = False) -> Any:
    """Returns a response as plain data, without the fields that differ between clusters.

    With `blank`, the fields that differ are kept, with the value "…".
    """
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in type(value).__slots__}
        if not blank:
            return {name: comparable(each, ids) for name, each in fields.items() if name not in DIFFERS | OF_OTHER_RELEASES}
        blanks = {name for name in DIFFERS_HERE.intersection(fields) if name in SIZES or fields[name] not in NOTHING}
        return {name: "…" if name in blanks else comparable(each, ids, blank=True) for name, each in fields.items()}
    if isinstance(value, list):
        return sorted((comparable(each, ids, blank=blank) for each in value), key=repr)
    if isinstance(value, bytes | memoryview):
        return ids.get(bytes(value), "an id" if any(bytes(value)) else "")
    if isinstance(value, str) and value.endswith(" permission."):
        return f"… needs {value.split()[-2]} permission."  # Kafka's message contains an address in memory
    return value


def play(address: tuple[str, int], pause: Callable[[], None]) -> Iterator[Step]:
    """Create topics, groups and transactional ids, and send the requests with each set of rights. `pause` waits until Kafka has
    finished its background work.
    """
    ids = prepare(address)
    names = {topic_id: name for name, topic_id in ids.items()}
    admin, alice = (Client(address, user, names) for user in USERS)
    for name, creation in INVALID.items():
        yield Step("admin", f"CreateAcls {name}", 3, admin.ask(plain_request("CreateAcls", {"creations": [creation]}), 3))
    for rights, acls in SEEN.items():
        grant(admin, [*acls, acl(GROUP, "*", READ)])  # the members subscribe before any new topic exists
        yield from _subscribe(address, rights, pause)
    for rights, acls in (SINGLE | RIGHTS).items():
        restore(admin)
        yield Step(rights, "CreateAcls by admin", 3, grant(admin, acls))
        for name, wanted in FILTERS.items() if rights in RIGHTS else ():
            yield Step(rights, f"DescribeAcls {name}", 3, admin.ask(plain_request("DescribeAcls", wanted), 3))
        asked = list(requests(ids))
        if rights in SINGLE:
            asked = once(asked)
        elif rights in ("nothing", "some"):
            asked += [*other_versions(asked), *mixes(ids)]
        for name, version, request in asked:
            yield Step(rights, name, version, alice.ask(request, version))
    yield Step("admin", "DeleteAcls", 3, admin.ask(plain_request("DeleteAcls", {"filters": [ANY]}), 3))


def _subscribe(address: tuple[str, int], rights: str, pause: Callable[[], None]) -> Iterator[Step]:
    """alice, who has these rights, and admin join a group, subscribe to all topics, and receive their assignments."""
    described = log_in(address, "admin").request(plain_request("Metadata", {"topics": None}), 12)
    names = {topic.topic_id: topic.name for topic in described.topics}
    for order in (("alice", "admin"), ("admin", "alice")):
        members = {user: _Member(Client(address, user, {}), f"{rights}, {order[0]} first", user) for user in order}
        for user in [user for user in order for _ in range(2)] + list(order) * 3:
            yield Step(rights, f"ConsumerGroupHeartbeat of {user}, {order[0]} first", 1, members[user].beat(names))
            pause()


class _Member:
    """A member of a group that subscribes to all topics."""

    def __init__(self, client: Client, group_id: str, member_id: str) -> None:
        self._client, self._epoch = client, 0
        self._body: Plain = {
            "group_id": group_id, "member_id": member_id, "rebalance_timeout_ms": 600_000, "topic_partitions": [],
            "subscribed_topic_regex": ".*", "server_assignor": "range",
        }  # fmt: skip

    def beat(self, names: Mapping[bytes, str]) -> list[Any]:
        """Sends a heartbeat. Returns the member's epoch and assignment."""
        response: Any = self._client.raw(plain_request("ConsumerGroupHeartbeat", self._body | {"member_epoch": self._epoch}), 1)
        assert response.error_code == 0, response
        self._epoch = response.member_epoch
        if response.assignment is not None:
            held = response.assignment.topic_partitions
            self._body["topic_partitions"] = [
                {"topic_id": format_uuid(each.topic_id), "partitions": each.partitions} for each in held
            ]
            return [self._epoch, sorted([names[each.topic_id], sorted(each.partitions)] for each in held)]
        return [self._epoch, None]


def grant(admin: Client, acls: list[Plain]) -> Any:
    """Replace all ACLs by `acls`. Returns the response to CreateAcls; the request contains the first ACL twice."""
    described = plain_request("DescribeAcls", ANY)
    admin.ask(plain_request("DeleteAcls", {"filters": [ANY]}), 3)
    admin.until(described, 3, lambda response: not _count(response))
    created = admin.ask(plain_request("CreateAcls", {"creations": [*acls, acls[0]]}), 3)
    admin.until(described, 3, lambda response: _count(response) == len(acls))
    return created


def once(asked: list[Asked]) -> list[Asked]:
    """For each step's name, returns its first request."""
    return list({each[0]: each for each in reversed(asked)}.values())[::-1]


def other_versions(asked: list[Asked]) -> list[Asked]:
    """Returns each request in all other versions that can encode its fields."""
    known = {(name, version) for name, version, _ in asked}
    found = []
    for name, _, request in once(asked):
        if name in NAMELESS:
            continue
        oldest, newest = spoken(KEYS[name.split()[0]])
        for version in range(oldest, newest + 1):
            with suppress(EncodeError):
                encode(request, version)
                found += [] if (name, version) in known else [(name, version, request)]
    return found


def _count(response: Any) -> int:
    return sum(len(resource["acls"]) for resource in response["resources"])


def prepare(address: tuple[str, int]) -> dict[str, bytes]:
    """Creates topics, transactional ids, a delegation token, and a consumer group (KIP-848). Returns the topics' ids."""
    topics = [new_topic(name, HIDDEN_PARTITIONS if name == "hidden" else 1) for name in NAMES if name != "absent"]
    made = log_in(address, "admin").request(create_topics(*topics), 7)
    ids = {topic.name: topic.topic_id for topic in made.topics} | {"unknown": b"x" * 16}
    admin = Client(address, "admin", {})
    for kind, keys in ((0, [*GROUPS, "g848", SHARE_GROUP]), (1, list(IDS)), (2, [SHARED])):
        found = plain("FindCoordinator", key_type=kind, coordinator_keys=keys)
        admin.until(found, 6, lambda response: not any(each["error_code"] for each in response["coordinators"]))
    for transactional_id in IDS:
        init = plain_request("InitProducerId", {"transactional_id": transactional_id, "transaction_timeout_ms": 600_000})
        admin.until(init, 4, lambda response: not response["error_code"])
    joined = {"group_id": "g848", "member_id": "mm", "rebalance_timeout_ms": 600_000, "topic_partitions": []}
    join = plain_request("ConsumerGroupHeartbeat", joined | {"subscribed_topic_names": ["mine", "hidden"]})
    admin.until(join, 1, lambda response: not response["error_code"])
    token = {"owner_principal_type": "User", "owner_principal_name": "bob", "max_lifetime_ms": -1}
    admin.ask(plain_request("CreateDelegationToken", token), 3)
    return ids


def restore(admin: Client) -> None:
    """Undo changes that a client with rights on topics and groups may have made."""
    admin.ask(plain_request("DeleteTopics", {"topic_names": list(NEW), "timeout_ms": 5000}), 5)
    admin.until(plain_request("Metadata", {"topics": None}), 12, lambda response: not _names(response).intersection(NEW))
    for group in GROUPS:
        offsets = [{"name": name, "partitions": [{"committed_offset": 1}]} for name in ("mine", "hidden")]
        commit = plain_request("OffsetCommit", {"group_id": group, "generation_id_or_member_epoch": -1, "topics": offsets})
        admin.until(commit, 8, lambda response: not any(t["partitions"][0]["error_code"] for t in response["topics"]))
    offsets = [{"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]} for name in ("mine", "hidden")]
    alter = plain_request("AlterShareGroupOffsets", {"group_id": SHARE_GROUP, "topics": offsets})
    admin.until(alter, 0, lambda response: not response["error_code"])


def _names(response: Any) -> set[str]:
    return {topic["name"] for topic in response["topics"]}


def recorded_by(broker: str) -> str:
    """Returns the name of the file in tests/data that has the recorded responses of `broker`."""
    return f"acls-{broker}.json.xz"
