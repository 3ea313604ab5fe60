"""Finds the operations that a broker has denied to a client, from the errors in its response.

The error code determines the type of the resource, and the API determines the operation (see Kafka's KafkaApis and
ControllerApis).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.entities import first, holders, mentions, parts, values
from kafkawire.errors import ErrorCode
from kafkawire.registry import api_name
from wirebroker.core.acls import CLUSTER_NAME, Operation, ResourceType
from wirebroker.requests.facts import Facts, facts_of
from wirebroker.requests.parts import topic_name
from wirebroker.requests.received import Directory, Received

_O, _R = Operation, ResourceType
KINDS: Mapping[int, ResourceType] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _R.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _R.GROUP,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _R.CLUSTER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _R.TRANSACTIONAL_ID,
}
READ_BY_MEMBERS = ("Fetch", "OffsetCommit", "TxnOffsetCommit", "ShareFetch", "ShareAcknowledge", "OffsetDelete")
OPERATIONS: Mapping[tuple[str, ResourceType], Operation] = {
    **{(api, _R.TOPIC): _O.READ for api in READ_BY_MEMBERS},
    ("Produce", _R.TOPIC): _O.WRITE, ("AddPartitionsToTxn", _R.TOPIC): _O.WRITE,
    ("Produce", _R.CLUSTER): _O.IDEMPOTENT_WRITE, ("InitProducerId", _R.CLUSTER): _O.IDEMPOTENT_WRITE,
    ("CreateTopics", _R.TOPIC): _O.CREATE, ("CreateTopics", _R.CLUSTER): _O.CREATE,
    ("DeleteTopics", _R.TOPIC): _O.DELETE, ("DeleteRecords", _R.TOPIC): _O.DELETE, ("DeleteGroups", _R.GROUP): _O.DELETE,
    ("CreatePartitions", _R.TOPIC): _O.ALTER,
    ("FindCoordinator", _R.GROUP): _O.DESCRIBE, ("FindCoordinator", _R.TRANSACTIONAL_ID): _O.DESCRIBE,
    ("OffsetFetch", _R.GROUP): _O.DESCRIBE,
}  # fmt: skip
BY_PREFIX = (
    ("DescribeConfigs", _O.DESCRIBE_CONFIGS), ("AlterConfigs", _O.ALTER_CONFIGS), ("IncrementalAlterConfigs", _O.ALTER_CONFIGS),
    ("AlterClientQuotas", _O.ALTER_CONFIGS), ("DescribeClientQuotas", _O.DESCRIBE_CONFIGS),
    ("Describe", _O.DESCRIBE), ("List", _O.DESCRIBE), ("Create", _O.ALTER), ("Delete", _O.ALTER), ("Alter", _O.ALTER),
)  # fmt: skip
"""The operations of the other APIs, by the first words of the API's name."""
IN_GENERAL = {_R.TOPIC: _O.DESCRIBE, _R.GROUP: _O.READ, _R.CLUSTER: _O.CLUSTER_ACTION, _R.TRANSACTIONAL_ID: _O.WRITE}


class Denied(NamedTuple):
    """An operation that a broker has denied. The names of the operation and of the resource's type are the names in ACLs."""

    operation: str
    resource_type: str
    resource: str
    reason: str


def denials(request: Message, response: Message, received: Received) -> Iterator[Denied]:
    """Yields each operation that this response denies, without repetitions."""
    if KINDS.keys().isdisjoint(values(response, "errorCode")):
        return
    found = dict.fromkeys(_denied(response, received.directory, ""))
    facts, api = facts_of(request, received), api_name(received.api_key)
    for code, name in found:
        kind = KINDS[code]
        for each in [name] if name else _asked(kind, facts):
            yield Denied(_operation(api, kind).name, kind.name, each, f"the broker answered {ErrorCode(code).name}")


def _operation(api: str, kind: ResourceType) -> Operation:
    if (api, kind) in OPERATIONS:
        return OPERATIONS[api, kind]
    return next((operation for prefix, operation in BY_PREFIX if api.startswith(prefix)), IN_GENERAL[kind])


def _asked(kind: ResourceType, facts: Facts) -> list[str]:
    """Returns the names of the resources of this type in the request. They are needed for an error that names no resource."""
    names = {_R.TOPIC: facts.topics, _R.GROUP: facts.groups, _R.TRANSACTIONAL_ID: facts.transactional_ids}
    return sorted(names[kind]) if kind in names else [CLUSTER_NAME]


def _denied(struct: Any, directory: Directory, name: str) -> Iterator[tuple[int, str]]:
    """Yields the authorization errors at any depth of a response, each with the name of its resource."""
    if not mentions(type(struct), "errorCode"):
        return
    name = topic_name(struct, directory) or first(struct, "groupId") or first(struct, "transactionalId") or name
    key = getattr(struct, "key", "")  # of FindCoordinator
    for field in holders(type(struct), "errorCode"):
        if (code := getattr(struct, field)) in KINDS:
            yield code, "" if KINDS[code] is _R.CLUSTER else name or key
    for part in parts(struct):
        yield from _denied(part, directory, name)
