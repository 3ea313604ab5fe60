"""Requests with unusual values: characters that are blanks for Java or in Unicode, empty texts, topics without an id, changes
of settings whose order matters, and overdue requests, whose topics never reach the controller."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from requesting import Plain, named, plain
from situations.lists import shown
from situations.side import Side
from wirekit import batch

BLANKS = {"empty": "", "a blank": " ", "a null character": "\0", "a unit separator": "\x1f", "a no-break space": "\xa0"}
"""Java's `trim` keeps only one of these characters, the no-break space. Python's `strip` removes the no-break space, and keeps
the null character."""
NO_ID, NOWHERE, STATE = bytes(16), b"\1" * 16, "AAAAAAAAAAAAAAAAAAAAAQ"
SET, APPEND, UNKNOWN = 0, 2, 9
TOPIC, METRICS, GROUP = 2, 16, 32
_VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|, \"(host|port)\": [^,}]*")
"""Texts that differ from broker to broker: random parts of member ids, and addresses."""
STREAMS: Plain = {
    "group_id": "streaming", "member_epoch": 0, "endpoint_information_epoch": 0, "rebalance_timeout_ms": 5000,
    "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["a"]}]},
    "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": "p",
}  # fmt: skip
"""The first heartbeat of a member of a streams group, without the member's id."""
Named = tuple[str, str, int, Plain]
"""The name of a situation, and its request: the API, the version and the fields."""


def play(side: Side) -> dict[str, str]:
    """Sends all requests, and returns the responses as texts."""
    ids = {name: side.create(name) for name in ("a", "b")}
    for group in ("classic", "modern", "shared"):
        side.find(group)
    names = {topic_id: f"id of {name}" for name, topic_id in ids.items()} | {NOWHERE: "no such id"}
    side.producer("transaction")
    situations = [*_blanks(), *_overdue(ids["a"]), *_fetches(ids["a"]), *_changes(), *_acks(), *_empty()]
    responses = {name: _response(side, api, version, fields, names) for name, api, version, fields in situations}
    return responses | _claims(side, names)


def _response(side: Side, api: str, version: int, fields: Plain, names: dict[bytes, str]) -> str:
    with side.link() as wire:
        _, response = side.ask(wire, plain(api, **fields), version)
        side.settle()
    return "closed" if response is None else _VARYING.sub("", json.dumps(shown(response, names), sort_keys=True))


def _claims(side: Side, names: dict[bytes, str]) -> dict[str, str]:
    """A member claims the tasks of a subtopology twice: before another member changes the target assignment, and after it."""
    side.find("streaming")
    changes = [(f"streams.{name}.ms", SET, "0") for name in ("initial.rebalance.delay", "assignment.interval")]
    _response(side, *_alter(GROUP, "streaming", changes, validate_only=False), names)
    joins = plain("StreamsGroupHeartbeat", **STREAMS, member_id="one")
    epoch = side.until(joins, 0, lambda told: not told.error_code).member_epoch
    claims = STREAMS | {"member_id": "one", "member_epoch": epoch, "topology": None, "rebalance_timeout_ms": -1}
    claims |= {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}] * 2}
    before = _response(side, "StreamsGroupHeartbeat", 0, claims, names)
    _response(side, "StreamsGroupHeartbeat", 0, STREAMS | {"member_id": "two", "process_id": "q"}, names)
    after = _response(side, "StreamsGroupHeartbeat", 0, claims, names)
    return {"claims twice": before, "claims twice after another assignment": after}


def _blanks() -> Iterator[Named]:
    for name, blank in BLANKS.items():
        joins = {"member_epoch": 0, "subscribed_topic_names": ["a"]}
        yield f"share member: {name}", "ShareGroupHeartbeat", 1, {"group_id": "shared", "member_id": blank} | joins
        stays = {"group_id": blank, "member_id": "m", "member_epoch": 5, "subscribed_topic_names": ["a"]}
        yield f"share group: {name}", "ShareGroupHeartbeat", 1, stays
        joins |= {"rebalance_timeout_ms": 5000, "topic_partitions": []}
        yield f"member: {name}", "ConsumerGroupHeartbeat", 1, {"group_id": f"{name} joins", "member_id": blank} | joins
        yield f"streams instance: {name}", "StreamsGroupHeartbeat", 0, STREAMS | {"member_id": "m", "instance_id": blank}
        instance = {"group_id": "modern", "member_id": "m", "instance_id": blank}
        yield f"instance: {name}", "ConsumerGroupHeartbeat", 1, instance | joins
        key = f"{blank}:{STATE}:0"
        yield f"share state: {name}", "FindCoordinator", 6, {"key_type": 2, "coordinator_keys": [key]}
        yield f"state: {name}", "ListGroups", 5, {"states_filter": [f"{blank}Dead{blank}"], "types_filter": []}
        yield f"number: {name}", *_alter(TOPIC, "a", [("retention.ms", SET, f"{blank}5")])
        yield f"list: {name}", *_alter(TOPIC, "a", [("cleanup.policy", SET, f"delete{blank},{blank}compact")])
        yield f"pattern: {name}", *_alter(METRICS, "m", [("match", SET, f"{blank}client_id{blank}=x")])


def _overdue(topic_id: bytes) -> Iterator[Named]:
    overdue = {"timeout_ms": -1}
    made = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    for what, names in {"twice": ["x", "x"], "twice and once": ["x", "x", "y"]}.items():
        yield f"overdue, {what}", "CreateTopics", 7, overdue | {"topics": named(names, **made)}
        yield f"overdue, more partitions, {what}", "CreatePartitions", 3, overdue | {"topics": named(names, count=2)}
        yield f"overdue, deleted, {what}", "DeleteTopics", 6, overdue | {"topics": named(names)}
        yield f"overdue, deleted in old versions, {what}", "DeleteTopics", 5, overdue | {"topic_names": names}
    for what, name, ids in (("no name", None, [NO_ID]), ("both", "a", [topic_id]), ("id twice", None, [topic_id] * 2)):
        topics = [{"name": name, "topic_id": each} for each in ids]
        yield f"overdue, deleted, {what}", "DeleteTopics", 6, overdue | {"topics": topics}


def _fetches(topic_id: bytes) -> Iterator[Named]:
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100}
    kinds = {"no id": NO_ID, "unknown": NOWHERE, "known": topic_id}
    lists = (
        [("no id", 0)], [("no id", 0), ("no id", 1)], [("no id", 0), ("unknown", 0)], [("unknown", 0), ("no id", 0)],
        [("no id", 0), ("known", 0)], [("known", 0), ("no id", 0)], [("no id", 0), ("known", 9)], [("known", 9), ("no id", 0)],
    )  # fmt: skip
    for parts in lists:
        topics = [
            {"topic_id": kinds[kind], "partitions": [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 9}]}
            for kind, index in parts
        ]
        for epoch in (-1, 0):
            what = ", ".join(f"{kind} {index}" for kind, index in parts)
            yield f"fetch of {what}, epoch {epoch}", "Fetch", 13, limits | {"session_epoch": epoch, "topics": topics}


def _changes() -> Iterator[Named]:
    """The controller makes the changes in the order of a hash table, until it fails at an unknown operation."""
    first, second = ("message.timestamp.type", "retention.ms")
    for what, one, other in (("appends first", APPEND, UNKNOWN), ("appends last", UNKNOWN, APPEND)):
        yield what, *_alter(TOPIC, "a", [(second, other, "1"), (first, one, "CreateTime")])


def _acks() -> Iterator[Named]:
    """The producer is not in the transaction, so its verification fails before Kafka looks at acks."""
    records = batch(0, pid=4000, epoch=0, transactional=True)
    data = named(["a", "none"], partition_data=[{"index": 0, "records": records}])
    for acks in (-1, 2):
        fields = {"transactional_id": "transaction", "acks": acks, "timeout_ms": 5000, "topic_data": data}
        yield f"transactional records, acks {acks}", "Produce", 11, fields


def _alter(kind: int, name: str, changes: list[tuple[str, int, str]], *, validate_only: bool = True) -> tuple[str, int, Plain]:
    configs = [{"name": setting, "config_operation": how, "value": value} for setting, how, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": validate_only}


def _empty() -> Iterator[Named]:
    joins = {"group_id": "classic", "member_id": "", "protocol_type": "any", "group_instance_id": "i"}
    joins |= {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocols": [{"name": "", "metadata": b"m"}]}
    for version in (6, 7):
        yield f"a protocol without a name, v{version}", "JoinGroup", version, joins
    for password in (b"", b"p"):
        credential = {"name": "user", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": password}
        changes = {"deletions": [], "upsertions": [credential]}
        yield f"a salted password of {len(password)} bytes", "AlterUserScramCredentials", 0, changes
