"""Finds the fields of messages that hold topics, partitions, groups, producers …, by `entityType` in Kafka's definitions.

Messages name the same entity in different fields (`name`, `topic`, `topic_name`, `topic_names`). Code that looks for topics in
any message asks for the entity "topicName" and needs no table of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, ParamSpec, TypeVar, cast

from kafkawire.declare import Struct

P = ParamSpec("P")
T = TypeVar("T")
Entity = Literal[
    "topicName", "topicId", "partition", "groupId", "transactionalId", "producerId", "producerEpoch", "brokerId",
    "coordinatorKey", "errorCode",
]  # fmt: skip
"""Kafka's entity types, and five types that scripts/generate-messages adds."""


def _cached(function: Callable[P, T]) -> Callable[P, T]:
    """Caches a function as `functools.cache` does, and keeps its signature. Without this wrapper, mypy refuses classes as
    arguments, as if classes were not hashable."""
    return cast("Callable[P, T]", cache(function))


@_cached
def holders(cls: type, entity: Entity) -> tuple[str, ...]:
    """Returns the names of the fields of a class that hold an entity of this kind, or a list of such entities."""
    return tuple(field.name for field in getattr(cls, "__wire__", ()) if field.entity == entity)


@_cached
def lists(cls: type) -> tuple[str, ...]:
    """Returns the fields of a class that hold a list."""
    return tuple(field.name for field in getattr(cls, "__wire__", ()) if isinstance(field.spec, list))


@_cached
def struct_lists(cls: type) -> tuple[tuple[str, type[Struct]], ...]:
    """Returns the fields of a class that hold a list of structs, with the structs' class."""
    fields = getattr(cls, "__wire__", ())
    return tuple((f.name, f.spec[0]) for f in fields if isinstance(f.spec, list) and isinstance(f.spec[0], type))


@_cached
def mentions(cls: type, entity: Entity) -> bool:
    """Tells whether a message of this class can name an entity of this kind, in one of its fields or in a list at any depth."""
    return bool(holders(cls, entity)) or any(mentions(part, entity) for _, part in struct_lists(cls))


@_cached
def has_field(cls: type, name: str) -> bool:
    """Tells whether a message of this class has a field of this name, in itself or in a list at any depth."""
    own = any(field.name == name for field in getattr(cls, "__wire__", ()))
    return own or any(has_field(part, name) for _, part in struct_lists(cls))


def parts(struct: Any) -> Iterator[Any]:
    """Yields the structs in the lists of a message or struct."""
    for name, _ in struct_lists(type(struct)):
        yield from getattr(struct, name) or ()


def first(struct: Any, entity: Entity) -> Any:
    """Returns the first non-empty value of this entity in the struct itself, or None."""
    for name in holders(type(struct), entity):
        if value := getattr(struct, name):
            return value
    return None


def values(struct: Any, entity: Entity) -> Iterator[Any]:
    """Yields every value of an entity of this kind in a message, at any depth, except null."""
    for name in holders(type(struct), entity):
        value = getattr(struct, name)
        if isinstance(value, list):
            yield from value
        elif value is not None:
            yield value
    for name, part_class in struct_lists(type(struct)):
        if mentions(part_class, entity):
            for part in getattr(struct, name) or ():
                yield from values(part, entity)
