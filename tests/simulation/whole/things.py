"""The things that steps are about: topics, groups, transactional ids, producers, brokers, and the cluster as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from kafkawire.declare import Field, Struct
from kafkawire.entities import Entity, has_field, holders, mentions, struct_lists
from kafkawire.registry import KEYS, request_class

Things = frozenset[str]
CLUSTER = "the cluster"
"""Stands for every thing."""
FAMILIES = {
    "Acl": "ACLs", "Quota": "quotas", "Scram": "users", "Token": "tokens", "Sasl": "users", "Telemetry": "metrics",
    "Feature": "features", "Raft": "the quorum", "Quorum": "the quorum", "Config": "settings",
}  # fmt: skip
"""The things that requests concern if they name nothing. The key is a part of the API's name."""


def topic_thing(name: str) -> str:
    return f"topic {name}"


def txn_thing(name: str) -> str:
    return f"transaction {name}"


def node_thing(node_id: int) -> str:
    return f"broker {node_id}"


NAMING: dict[str, tuple[Entity, ...]] = {
    "topic": ("topicName", "topicId"), "group": ("groupId",), "transaction": ("transactionalId",),
}  # fmt: skip
"""For each sort of thing that requests name: the entity types of the fields that have its name or id."""

INTERNAL = {"DescribeQuorum"}
"""Requests about the topic of the metadata log. No other request names this topic."""
RESOURCES = {"Config": {2: "topic", 32: "group"}, "Acl": {2: "topic", 3: "group", 5: "transaction"}}
"""The sort of thing for each type of resource. The key is a part of the API's name."""
NEWEST = 2**15 - 2
"""A version that is later than all versions of requests."""
SORTS = frozenset({*NAMING, "broker"})
"""The sorts of things that can exist several times in a cluster."""


@cache
def sorts_of(api: str) -> frozenset[str]:
    """Returns the sorts of things that a request can be about: topics, groups, transactional ids, a family of `FAMILIES`, or
    the whole cluster. If a request has no name, or if null can stand for all names, it can be about a family or the whole
    cluster."""
    if api in INTERNAL:
        return frozenset({_family(api)})
    cls = request_class(KEYS[api])
    found = {sort for sort, entities in NAMING.items() if any(mentions(cls, each) for each in entities)}
    if has_field(cls, "resource_name"):
        found |= {*_resources(api).values(), _family(api)}
    fields: Sequence[Field] = getattr(cls, "__wire__", ())
    lists = [field for field in fields if isinstance(field.spec, list) and field.nullable(NEWEST)]
    named = any(field.entity in ("groupId", "transactionalId") and not isinstance(field.spec, list) for field in fields)
    if not found or (not named and any(_names(field) for field in lists)):
        found.add(_family(api))
    return frozenset(found)


def _names(field: Field) -> bool:
    entities: set[Entity] = {each for named in NAMING.values() for each in named}
    within = field.spec[0]
    return field.entity in entities or (isinstance(within, type) and any(mentions(within, each) for each in entities))


def _resources(api: str) -> Mapping[int, str]:
    return next((sorts for part, sorts in RESOURCES.items() if part in api), {})


def _family(api: str) -> str:
    return next((thing for part, thing in FAMILIES.items() if part in api), CLUSTER)


def things_of(api: str, request: Struct, names: Mapping[bytes, str]) -> Things:
    """Returns the things that a request names. `names` has the names of topics by id."""
    if api in INTERNAL:
        return sorts_of(api)
    found = frozenset(_named(request, names, _resources(api)))
    return found or sorts_of(api) & {_family(api)}


def _named(struct: Struct, names: Mapping[bytes, str], resources: Mapping[int, str]) -> Iterator[str]:
    cls = type(struct)
    for field in holders(cls, "topicName"):
        yield from map(topic_thing, _texts(getattr(struct, field)))
    for field in holders(cls, "topicId"):
        topic_id = bytes(getattr(struct, field) or b"")
        if topic_id in names:
            yield topic_thing(names[topic_id])
    for field in holders(cls, "groupId"):
        yield from (f"group {each}" for each in _texts(getattr(struct, field)))
    for field in holders(cls, "transactionalId"):
        yield from map(txn_thing, _texts(getattr(struct, field)))
    if hasattr(struct, "resource_name") and (sort := resources.get(getattr(struct, "resource_type", 0))) is not None:
        yield f"{sort} {struct.resource_name}"
    for field, _ in struct_lists(cls):
        for each in getattr(struct, field) or ():
            yield from _named(each, names, resources)


def _texts(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
