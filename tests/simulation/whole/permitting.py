"""Checks that a client without a permission gets an error, and that a client with all permissions gets no authorization error.

Kafka's StandardAuthorizer has the same rules.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzzing.script import Finding
from kafkawire.entities import holders, parts
from simulation.whole.agreeing import names

if TYPE_CHECKING:
    from simulation.whole.world import Link, Sent, World

TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
CODES = {TOPIC: 29, GROUP: 30, CLUSTER: 31, TRANSACTION: 53}
"""The authorization error for each type of resource."""
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 11
DENY, ALLOW = 2, 3
ALSO_DESCRIBE = (READ, WRITE, DELETE, ALTER)
"""A client that may do one of these operations may also describe the resource."""
FIELDS = {GROUP: ("group_id", "groups_names"), TRANSACTION: ("transactional_id", "v3_and_below_transactional_id")}
GROUP_READ, TRANSACTION_WRITE = {GROUP: READ}, {TRANSACTION: WRITE}
CLUSTER_ALTER, CLUSTER_DESCRIBE = {CLUSTER: ALTER}, {CLUSTER: DESCRIBE}
NEEDED: dict[str, dict[int, int]] = {
    "Produce": {TOPIC: WRITE, TRANSACTION: WRITE}, "Fetch": {TOPIC: READ}, "ListOffsets": {TOPIC: DESCRIBE},
    "DeleteRecords": {TOPIC: DELETE}, "CreatePartitions": {TOPIC: ALTER},
    "DescribeProducers": {TOPIC: READ}, "OffsetCommit": {GROUP: READ, TOPIC: READ}, "JoinGroup": GROUP_READ,
    "SyncGroup": GROUP_READ, "Heartbeat": GROUP_READ, "LeaveGroup": GROUP_READ, "ConsumerGroupHeartbeat": GROUP_READ,
    "ShareGroupHeartbeat": GROUP_READ, "ShareFetch": GROUP_READ, "ShareAcknowledge": GROUP_READ,
    "OffsetFetch": {TOPIC: DESCRIBE}, "DescribeShareGroupOffsets": {TOPIC: DESCRIBE},
    "DeleteGroups": {GROUP: DELETE}, "OffsetDelete": {GROUP: DELETE, TOPIC: READ}, "InitProducerId": TRANSACTION_WRITE,
    "AddPartitionsToTxn": {TRANSACTION: WRITE, TOPIC: WRITE}, "AddOffsetsToTxn": {TRANSACTION: WRITE, GROUP: READ},
    "EndTxn": TRANSACTION_WRITE, "TxnOffsetCommit": {TRANSACTION: WRITE, GROUP: READ, TOPIC: READ},
    "CreateAcls": CLUSTER_ALTER, "DeleteAcls": CLUSTER_ALTER, "ElectLeaders": CLUSTER_ALTER,
    "AlterPartitionReassignments": CLUSTER_ALTER, "AlterReplicaLogDirs": CLUSTER_ALTER,
    "AlterUserScramCredentials": CLUSTER_ALTER, "UpdateFeatures": CLUSTER_ALTER,
    "DescribeAcls": CLUSTER_DESCRIBE, "ListPartitionReassignments": CLUSTER_DESCRIBE, "DescribeLogDirs": CLUSTER_DESCRIBE,
    "AlterClientQuotas": {CLUSTER: ALTER_CONFIGS},
}  # fmt: skip
"""For each API: the operation that a client needs on the topics, groups and transactional ids in its request, or on the
cluster."""
REMEMBERING = ("Fetch", "ShareFetch")
"""The responses to these requests are also about topics that an earlier request has named."""


class Rights(NamedTuple):
    """The rights that a request needs. The keys are the resources' types and names."""

    who: str
    held: Mapping[tuple[int, str], bool]


def rights(world: World, link: Link, api: str, request: Any) -> Rights | None:
    """Returns the rights that a request needs, or None if the client may do everything."""
    who, needed = str(link.connection.session.principal), NEEDED.get(api, {})
    supers = world.engine.configs.text("super.users").split(";")
    verifies = bool(getattr(request, "transactions", ()))  # only brokers send such an AddPartitionsToTxn
    if not world.setting.secured or who in supers or not needed or verifies:
        return None
    hosts = "*", link.connection.client_host
    named = _resources(world, request, needed)
    return Rights(who, {(kind, name): _may(world, who, hosts, kind, name, needed[kind]) for kind, name in named})


def _may(world: World, who: str, hosts: Container[str], kind: int, name: str, operation: int) -> bool:
    about = [acl for acl in world.engine.cluster.acls if acl.resource_type == kind and names(acl, name)]
    mine = [acl for acl in about if acl.principal in (who, "User:*") and acl.host in hosts]
    if any(acl.permission == DENY and acl.operation in (ALL, operation) for acl in mine):
        return False
    enough = {ALL, operation, *(ALSO_DESCRIBE if operation == DESCRIBE else ())}
    return not about or any(acl.permission == ALLOW and acl.operation in enough for acl in mine)


def _resources(world: World, request: Any, needed: Mapping[int, int]) -> Iterator[tuple[int, str]]:
    if CLUSTER in needed:
        yield CLUSTER, "kafka-cluster"
    for kind, fields in FIELDS.items():
        for value in (getattr(request, field, None) for field in fields) if kind in needed else ():
            yield from ((kind, each) for each in (value if isinstance(value, list) else [value]) if each)
    topics = set(_topics(world, request)) if TOPIC in needed else set()
    # A session forgets these partitions even if the request also fetches them.
    forgotten = {topic for each in getattr(request, "forgotten_topics_data", ()) for topic in _topics(world, each)}
    for topic in topics - forgotten - {""}:
        yield TOPIC, topic


def _topics(world: World, struct: Any) -> Iterator[str]:
    yield from (topic for topic, _ in _parts(world, struct, "", 0))


def _parts(world: World, struct: Any, topic: str, version: int) -> Iterator[tuple[str, int | None]]:
    """Yields the topic and the error code of each part of a message. The error code is None if the part has no field for it in
    this version."""
    cls = type(struct)
    for field in holders(cls, "topicName"):
        if isinstance(name := getattr(struct, field), str) and name:
            topic = name
    for field in holders(cls, "topicId"):
        topic = world.names.get(bytes(getattr(struct, field) or b""), topic)
    fields = [field for field in cls.__wire__ if field.name.endswith("error_code") and field.present(version)]
    codes = [getattr(struct, field.name) for field in fields]
    yield topic, next(filter(None, codes), 0 if codes else None)
    for part in parts(struct):
        yield from _parts(world, part, topic, version)


def permitted(world: World, link: Link, sent: Sent, response: Any) -> None:
    """Checks a response. Raises Finding."""
    before, now = sent.rights, rights(world, link, sent.api, sent.request)
    if before is None or before != now:  # an ACL has changed since the request was sent
        return
    if getattr(response, "throttle_time_ms", 0):  # a Fetch that is throttled gets no partitions
        return
    told = list(_parts(world, response, "", sent.version))
    if all(code is None for _, code in told):  # the response cannot tell an error, as the response to a request for nothing
        return
    for (kind, name), may in before.held.items():
        codes = [code for topic, code in told if kind != TOPIC or topic in (name, "")]
        if not may and not any(codes):
            raise Finding(f"{sent.api}: a client does what it may not do", f"{before.who}: {(kind, name)}, {response}")
    for kind in {kind for kind, _ in before.held}:
        allowed = all(may for (of, _), may in before.held.items() if of == kind)
        if allowed and sent.api not in REMEMBERING and CODES[kind] in {code for _, code in told}:
            raise Finding(f"{sent.api}: a client may not do what it may do", f"{before}: {response}")
