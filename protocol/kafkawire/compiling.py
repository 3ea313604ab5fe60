"""The common parts of the compilers of readers and writers: fixed-size types, and the source text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

from kafkawire.declare import Field, Struct

FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "float64": "d", "uuid": "16s",
}  # fmt: skip
"""The types of fixed size, each with its letter in the formats of the struct module."""

LONGEST_STRING = 0x7FFF
"""The size limit of a string in bytes. It holds in flexible versions, too, although their length field allows larger sizes."""


def fits(text: str) -> bool:
    """Tells whether a message can hold the text: it is not too long, and has no half of a surrogate pair."""
    try:
        return len(text if text.isascii() else text.encode()) <= LONGEST_STRING
    except UnicodeEncodeError:
        return False


layout = cache(struct.Struct)
"""Returns the `struct.Struct` of a format."""


def is_fixed(spec: Any) -> bool:
    """Tells whether the type has a fixed size."""
    return isinstance(spec, str) and spec in FORMATS


class Counted(dict[int, Callable[..., Any]]):
    """For each length of an array: the function that packs or unpacks the array, whose elements are numbers of one type. Only
    the functions for short arrays are kept."""

    def __init__(self, letter: str, method: Literal["pack", "unpack_from"]) -> None:
        super().__init__()
        self._letter = letter
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(struct.Struct(f">{count}{self._letter}"), self._method)
        if count < 256:
            self[count] = made
        return made


@cache
def least_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Returns the smallest size of a struct in bytes, at least 1. A reader uses this size to refuse an array whose count is too
    large for the remaining bytes."""
    size = sum(
        1 if isinstance(field.spec, type) and field.nullable(version) else least_of(field.spec, version, flexible)
        for field in cls.__wire__
        if field.present(version) and field.tag is None
    )
    return max(size + flexible, 1)


def least_of(spec: Any, version: int, flexible: bool) -> int:
    """Returns the smallest size of a non-null value of this type."""
    if is_fixed(spec):
        return layout(">" + FORMATS[spec]).size
    if isinstance(spec, type):
        return least_size(spec, version, flexible)
    if flexible:
        return 1
    return 2 if spec == "string" else 4


class Source:
    """Source text under construction, with the objects that it refers to by name."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.indent = 1

    def put(self, *lines: str) -> None:
        """Append lines with the current indentation."""
        self.lines += ["    " * self.indent + line for line in lines]

    def name(self, value: Any, stem: str) -> str:
        """Returns a name for this object. The source may use this name."""
        for known, held in self.names.items():
            if held is value:
                return known
        known = f"{stem}{len(self.names)}"
        self.names[known] = value
        return known

    def made(self, parameters: str) -> Any:
        """Returns the function with this assembled body."""
        source = "\n".join([f"def made({parameters}):", *self.lines])
        exec(compile(source, f"<{self.cls.__name__} v{self.version}>", "exec"), self.names)
        return self.names["made"]

    def plain(self) -> list[Field]:
        """Returns the fields of this version that are not tagged, in order."""
        return [f for f in self.cls.__wire__ if f.tag is None and f.present(self.version)]

    def tagged(self) -> list[Field]:
        """Returns the tagged fields of this version, in order of their tags."""
        return sorted((f for f in self.cls.__wire__ if f.tag is not None and f.present(self.version)), key=_tag)

    def steps(self) -> Iterator[list[Field]]:
        """Yields the plain fields in groups. Adjacent fields of fixed size are one group. Every other field is a group of its
        own."""
        run: list[Field] = []
        for field in self.plain():
            if is_fixed(field.spec):
                run.append(field)
                continue
            if run:
                yield run
            yield [field]
            run = []
        if run:
            yield run


def _tag(field: Field) -> int:
    return field.tag if field.tag is not None else -1
