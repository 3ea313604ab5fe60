"""The cost of a request is the number of lines of Python that run while the broker handles the request. In a broker with twice
as much of everything, a request that is twice as long runs at most twice as many lines. The cost of a short request does not
depend on how many topics, groups and so on other clients have made.

The count of lines is the same on every machine. Work in C, such as copying or sorting a list, is not counted.
"""

from __future__ import annotations

import copyreg
import gc
import sys
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from functools import cache
from types import FrameType
from typing import Any, NamedTuple

import pytest

from acl_requests import requests
from inprocess import InProcess, Link
from kafkawire.declare import Message, Struct
from kafkawire.frames import encode_request
from requesting import find_coordinator, init_producer_id, named, new_topic, offset_commit, plain
from wirebroker.security.principals import Principal

FEW = 25
"""The number of topics, the number of groups, the number of users … in the small broker, and the number of elements in a short
request. The large broker has twice as many, and a long request has twice as many elements."""
TYPES = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "USER", "DELEGATION_TOKEN")
RIGHTS = {
    "all": [f"allow User:ANONYMOUS ALL {kind} {'kafka-cluster' if kind == 'CLUSTER' else '*'}" for kind in TYPES],
    "none": ["allow User:ANONYMOUS READ TOPIC nothing"],
}
ROOT = Principal("User", "root")
"""The super user whose requests fill the brokers."""
SETTINGS = {
    "super.users": str(ROOT), "log.retention.check.interval.ms": "1000000000", "group.initial.rebalance.delay.ms": "0",
    "delegation.token.secret.key": "a secret of all brokers",
}  # fmt: skip
BY_ENTITY = {"topicName": "topic", "groupId": "group", "transactionalId": "tx"}
TOLERANCE = 1.15
SEARCHING = frozenset(
    {"DescribeAcls", "DeleteAcls", "DescribeClientQuotas", "DescribeDelegationToken", "DescribeTopicPartitions", "ElectLeaders",
     "GetTelemetrySubscriptions", "ListGroups", "ListTransactions", "ListPartitionReassignments", "DescribeLogDirs", "Metadata",
     "ListConfigResources", "OffsetFetch"}
)  # fmt: skip
"""For these APIs, the broker may look at all topics, groups and so on, even if the response has only a few."""
copyreg.pickle(memoryview, lambda view: (memoryview, (bytes(view),)))  # type: ignore[arg-type]  # so that requests can be copied


class World(NamedTuple):
    """A broker that already has `size` topics, groups, tokens and so on, which other clients have made."""

    broker: InProcess
    size: int
    ids: list[bytes]

    def ask(self, request: Message, version: int, link: Link | None = None) -> int:
        """Sends a request. Returns the size of the response in bytes."""
        link = link or self.broker.link()
        link.send_bytes(encode_request(7, "client", request, version))
        return sum(map(len, link._arrived))


@cache
def world(rights: str, size: int) -> World:
    """Returns a broker with much state. The clients of this test have the rights `rights`."""
    others = [
        f"allow User:other-{i} READ {resource}"
        for i in range(size)
        for resource in (
            f"TOPIC topic-{i}",
            f"GROUP group-{i}",
            f"TRANSACTIONAL_ID tx-{i}",
            "TOPIC *",
            "TOPIC topic*",
        )
    ]
    broker = InProcess(
        acls=[*RIGHTS[rights], *others] if rights in RIGHTS else [], telemetry=True, warm=True, configs=SETTINGS,
        quotas=[f"user=user-{i},producer_byte_rate=1000000" for i in range(size)],
        topics={"mine": size} | {f"topic-{i}": 1 for i in range(size)},
    )  # fmt: skip
    ids = [broker.engine.cluster.topics[f"topic-{i}"].topic_id for i in range(size)]
    made = World(broker, size, ids)
    root = broker.link()
    root.connection.session.principal = ROOT
    for request, version in _state(size):
        made.ask(request, version, root)
    broker.engine.trace_at("exchanges")
    return made


def _state(size: int) -> Iterator[tuple[Message, int]]:
    yield find_coordinator("g"), 4
    resources: list[dict[str, object]] = []
    for i in range(size):
        yield offset_commit(f"group-{i}", i, topic=f"topic-{i}"), 8
        yield init_producer_id(f"tx-{i}", 1000), 3
        owner = {"owner_principal_type": "User", "owner_principal_name": f"user-{i}"}
        yield plain("CreateDelegationToken", **owner, renewers=[], max_lifetime_ms=-1), 3
        metrics = {"metrics": "*", "match": f"client_id=of-{i}.*"}
        for kind, name, settings in (
            (16, f"metrics-{i}", metrics),
            (32, f"group-{i}", {"consumer.session.timeout.ms": "50000"}),
        ):
            changes = [{"name": key, "value": value, "config_operation": 0} for key, value in settings.items()]
            resources.append({"resource_type": kind, "resource_name": name, "configs": changes})
    yield plain("IncrementalAlterConfigs", resources=resources), 1
    credential = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
    yield plain("AlterUserScramCredentials", upsertions=named([f"name-{i}" for i in range(size)], **credential)), 0


# Requests that grow

Path = tuple[str, ...]


def lists_in(struct: Struct, at: Path = ()) -> Iterator[Path]:
    """Yields the paths of the lists in a request that are not empty."""
    for field in type(struct).__wire__:
        value = getattr(struct, field.name)
        if isinstance(field.spec, list) and value:
            yield (*at, field.name)
            if isinstance(value[0], Struct):
                yield from lists_in(value[0], (*at, field.name))


def grown(request: Message, path: Path, count: int, ids: list[bytes]) -> Message:
    """Returns a copy of the request. It has `count` elements in the list at `path`, and one element in each list around it. The
    elements name different topics, groups, users … These exist if the broker has at least `count` of each kind."""
    whole: Any = deepcopy(request)
    around: Any = whole
    for name in path[:-1]:
        setattr(around, name, getattr(around, name)[:1])
        (around,) = getattr(around, name)
    element = getattr(around, path[-1])[0]
    setattr(around, path[-1], [_another(element, number, ids) for number in range(count)])
    return whole  # type: ignore[no-any-return]


def _another(element: Any, number: int, ids: list[bytes]) -> Any:
    """Copies a list's element. The copy names another topic, group, user …"""
    if isinstance(element, str):
        return f"{element.rstrip('0123456789-')}-{number}"
    if isinstance(element, bytes):
        return ids[number % len(ids)] if len(element) == 16 else element
    if not isinstance(element, Struct):
        return number % 100 if type(element) is int else element
    other: Any = copy(element)
    for field in type(other).__wire__:
        value = getattr(other, field.name)
        if isinstance(value, str):
            setattr(other, field.name, f"{BY_ENTITY.get(field.entity or '', value)}-{number}")
        elif field.entity == "topicId" and isinstance(value, bytes):
            setattr(other, field.name, ids[number % len(ids)])
        elif field.entity == "partition" and type(value) is int:
            setattr(other, field.name, number)
    return other


# Counting


class Cost(NamedTuple):
    """The number of lines that a request runs, and the sizes of the request and its response in bytes."""

    lines: int
    asked: int
    answered: int


def cost(where: World, request: Message, version: int) -> Cost:
    """Returns the cost of a request."""
    link = where.broker.link()
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return trace

    gc.disable()
    sys.settrace(trace)
    try:
        answered = where.ask(request, version, link)
    finally:
        sys.settrace(None)
        gc.enable()
        link.close()
        where.broker._links.remove(link)
    return Cost(lines, len(encode_request(7, "client", request, version)), answered)


def asked_for(topic_id: bytes) -> Iterator[tuple[str, int, Message]]:
    """Yields a short request of each kind: its name, its version, and the request."""
    yield from requests(dict.fromkeys(("mine", "other", "hidden", "absent", "seen"), topic_id))
    credential = {"name": "bob", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
    yield "AlterUserScramCredentials of users", 0, plain("AlterUserScramCredentials", upsertions=[credential])
    topic = new_topic("new", retention_ms="1000") | {"num_partitions": -1, "replication_factor": -1}
    assigned = topic | {"assignments": [{"partition_index": 0, "broker_ids": [1]}]}
    yield "CreateTopics with assignments", 7, plain("CreateTopics", topics=[assigned], timeout_ms=1000, validate_only=True)
    setting = {"resource_type": 2, "resource_name": "mine", "configs": [{"name": "retention.ms", "value": "7"}]}
    yield "IncrementalAlterConfigs of a topic", 1, plain("IncrementalAlterConfigs", resources=[setting], validate_only=True)
    owner = {"owners": [{"principal_type": "User", "principal_name": "user"}]}
    yield "DescribeDelegationToken of owners", 3, plain("DescribeDelegationToken", **owner)


def excessive(rights: str) -> Iterator[str]:
    """Yields the requests whose cost grows faster than the request's size, and also faster than the response's size."""
    small, large = world(rights, FEW), world(rights, 2 * FEW)
    for name, version, request in asked_for(small.broker.engine.cluster.topics["mine"].topic_id):
        for path in [(), *lists_in(request)]:
            few = grown(request, path, FEW, small.ids) if path else request
            many = grown(request, path, 2 * FEW, large.ids) if path else request
            for where in (small, large):
                where.ask(request, version)  # the first request of a kind compiles its codec
            before = cost(small, few, version)
            found = {"longer": cost(large, many, version)} if path else {}
            if name.split()[0] not in SEARCHING:
                found["in the large broker"] = cost(large, few, version)
            for what, now in found.items():
                explained = max(1.0, now.asked / before.asked, now.answered / max(before.answered, 1))
                if now.lines > before.lines * explained * TOLERANCE:
                    yield f"{name} v{version} {'.'.join(path)} {what}: {before} becomes {now}"


@pytest.mark.parametrize("rights", RIGHTS)
def test_no_request_costs_more_than_its_size_explains(rights: str) -> None:
    assert list(excessive(rights)) == []
