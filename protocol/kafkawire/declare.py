"""Declares messages: a class of `kafkawire.messages` describes its own wire form.

    @message(key=22, versions=(0, 6), flexible=2)
    class InitProducerIdRequest:
        transactional_id: str | None = wire("string", nullable=0)
        producer_id: int = wire("int64", since=3, default=-1)

One class serves all versions. If a version does not have a field, a reader sets the field to its default, and a writer leaves
it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

T = TypeVar("T")

NEVER = 32767
"""A number above all versions of any message."""


@dataclass(slots=True, eq=False)
class Field:
    """The wire form of one field. Version bounds are inclusive. `name` is the name of the attribute."""

    spec: Any
    since: int
    until: int
    nullable_since: int
    nullable_until: int
    tag: int | None
    default: Any
    """The default value. For an array or a struct, this is the function that makes the default value: `list`, or the struct's
    class."""
    entity: str = ""
    """The kind of entity that the field's value identifies (topicName, groupId …), as in Kafka's `entityType`; "" for other
    fields."""
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def present(self, version: int) -> bool:
        """Tells whether the field exists in this version."""
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        return self.nullable_since <= version <= self.nullable_until


@dataclass(frozen=True, slots=True)
class Schema:
    """The declaration of a message class. `key` is the API key, −1 for messages that are not requests or responses."""

    key: int
    versions: tuple[int, int]
    flexible: int


class Api(NamedTuple):
    """An API in the table of all APIs: enough to respond to ApiVersions without importing any message.

    `newest` is the newest version that a broker serves, without versions that Kafka calls unstable.
    """

    name: str
    module: str
    oldest: int
    newest: int
    flexible_request: int
    flexible_response: int


class Struct:
    """The base class of every declared class. `__wire__` lists the fields in the order of the wire.

    All classes share `__eq__` and `__repr__`, because compiling both for each class would take half of the import time.
    """

    __slots__ = ()
    __wire__: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in self.__wire__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in self.__wire__)
        return f"{type(self).__qualname__}({fields})"


class Message(Struct):
    """A request, a response, or versioned data; `__schema__` holds its versions."""

    __slots__ = ()
    __schema__: ClassVar[Schema]


S = TypeVar("S", bound=Struct)

_ABSENT: Any = object()
"""Stands for a missing argument."""

_ZEROS: dict[str, Any] = {
    "bool": False, "string": "", "uuid": bytes(16), "bytes": b"", "records": None, "float64": 0.0,
}  # fmt: skip


def wire(
    spec: Any,
    *,
    since: int = 0,
    until: int = NEVER,
    nullable: int = NEVER,
    nullable_until: int = NEVER,
    tag: int | None = None,
    entity: str = "",
    default: Any = _ABSENT,
) -> Any:
    """Declares a field. `spec` is a primitive's name or a struct class; for an array, it is a list that contains this name or
    class.

    Every field has a default at run time: the declared default, or else zero, empty, or the struct's own defaults. For a type
    checker, a field is required if all versions have it and it declares no default.
    """
    if default is _ABSENT or default == []:
        default = _zero(spec)
    return Field(spec, since, until, nullable, nullable_until, tag, default, entity)


def _zero(spec: Any) -> Any:
    """Returns the default of a field that declares no default. For an array or a struct, returns the function that makes the
    default."""
    if isinstance(spec, list):
        return list
    return spec if isinstance(spec, type) else _ZEROS.get(spec, 0)


def _declared(cls: type[T]) -> type[T]:
    """Returns the class with slots for its fields. Making a dataclass would take five times as long, and a program imports 500
    classes."""
    namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    fields = tuple(value for value in namespace.values() if isinstance(value, Field))
    for field in fields:
        del namespace[field.name]
    namespace |= {"__slots__": tuple(field.name for field in fields), "__wire__": fields, "__init__": _first_init}
    made: type[T] = type(cls.__name__, cls.__bases__, namespace)
    return made


def _first_init(self: Struct, *args: Any, **values: Any) -> None:
    """Compiles the `__init__` of a class when the first object of the class is made, because a program makes objects of only a
    few classes."""
    cls: Any = type(self)
    cls.__init__ = _compiled_init(cls)
    cls.__init__(self, *args, **values)


def _compiled_init(cls: type[Struct]) -> Callable[..., None]:
    names: dict[str, Any] = {"absent": _ABSENT}
    parameters, body = ["self"], ["    pass"]
    for field in cls.__wire__:
        name, default = field.name, f"default_of_{field.name}"
        names[default] = field.default
        if callable(field.default):
            parameters.append(f"{name}=absent")
            body.append(f"    self.{name} = {default}() if {name} is absent else {name}")
        else:
            parameters.append(f"{name}={default}")
            body.append(f"    self.{name} = {name}")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(body), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of a message."""
    return _declared(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def message(*, key: int = -1, versions: tuple[int, int], flexible: int = NEVER) -> Callable[[type[T]], type[T]]:
    """Declare a message: its API key, valid versions, and first flexible version."""

    def decorate(cls: type[T]) -> type[T]:
        made = _declared(cls)
        made.__schema__ = Schema(key, versions, flexible)  # type: ignore[attr-defined]
        return made

    return decorate


def from_plain(cls: type[S], plain: Mapping[str, Any]) -> S:
    """Makes a message, or a struct of a message, from plain data. In the plain data, each struct is a mapping by field names.

    Raises TypeError for a field name that the class does not have.
    """
    declared: Any = cls
    specs = _specs(declared)
    return cls(**{name: _from_plain(specs.get(name), value) for name, value in plain.items()})


@cache
def _specs(cls: type[Any]) -> dict[str, Any]:
    return {field.name: field.spec for field in cls.__wire__}


def _from_plain(spec: Any, value: Any) -> Any:
    if isinstance(spec, list) and value is not None:
        return [_from_plain(spec[0], each) for each in value]
    return from_plain(spec, value) if isinstance(value, Mapping) else value
