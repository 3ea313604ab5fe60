"""Reads a message field by field, with the position of each field in the bytes.

`codec` reads a message quickly, and reports only that a message cannot be read. This module reads messages slowly, and finds
the field of every byte. The module serves people who look at the bytes, and code that replaces a field in the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.codec import MAX_ELEMENTS
from kafkawire.compiling import FORMATS, LONGEST_STRING, is_fixed, layout, least_of
from kafkawire.declare import Field, Message, Struct
from kafkawire.errors import ProtocolError
from kafkawire.primitives import LIKE_JAVA, Buffer, read_uvarint

UNKNOWN_TAG = "unknown tag "
"""If a message does not declare a tagged field, the field's name begins with these words."""


class FieldDamage(ProtocolError):
    """Raised if a field cannot be read. `position` is the position of the field's first byte in the buffer."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}" if path else f"byte {position}: {reason}")
        self.path, self.position, self.reason = path, position, reason


@dataclass(slots=True)
class Node:
    """A field or an array element; the bytes from `start` to `end` include its length, but not its tag."""

    name: str
    spec: Any
    start: int
    end: int
    value: Any
    """A number, a text, bytes, or None for null. For a struct or an array, this is the list of the nodes inside."""

    def leaves(self) -> Iterator[Node]:
        """Yields the node itself. If the node is a struct or an array, yields instead all its inner nodes that are neither
        structs nor arrays."""
        if isinstance(self.value, list):
            for node in self.value:
                yield from node.leaves()
        else:
            yield self


def read_fields(cls: type[Message], buffer: Buffer, version: int, pos: int = 0) -> tuple[list[Node], int]:
    """Returns two values: the fields that the message at `pos` has in this version, and the position after the message.

    Raises FieldDamage exactly where `codec.decode` raises ProtocolError. Raises ProtocolError itself for a version that the
    message does not have.
    """
    oldest, newest = cls.__schema__.versions
    if not oldest <= version <= newest:
        raise ProtocolError(f"{cls.__name__} has versions {oldest} to {newest}, not {version}")
    walk = _Walk(memoryview(buffer), pos, version, version >= cls.__schema__.flexible)
    try:
        return walk.struct(cls), walk.pos
    except (ProtocolError, struct.error, IndexError) as damage:
        raise FieldDamage(walk.path(), walk.began, walk.reason(damage)) from damage


class _Walk:
    """A position in a message, and the names of the fields around it."""

    def __init__(self, view: memoryview, pos: int, version: int, flexible: bool) -> None:
        self.view, self.pos, self.version, self.flexible = view, pos, version, flexible
        self.began = pos
        """The position where the current field begins."""
        self._elements = MAX_ELEMENTS
        self._names: list[str | int] = []

    def path(self) -> str:
        """The current field, such as `topics[0].partitions[2].records`."""
        text = ""
        for name in self._names:
            text += f"[{name}]" if isinstance(name, int) else f".{name}" if text else name
        return text

    def reason(self, damage: Exception) -> str:
        """Returns the reason why the current field cannot be read."""
        if isinstance(damage, ProtocolError):
            return str(damage)
        left = len(self.view) - self.began
        return f"the bytes end here; {left} byte{' is' if left == 1 else 's are'} left"

    def struct(self, cls: type[Struct]) -> list[Node]:
        nodes = [self._field(field) for field in cls.__wire__ if field.tag is None and field.present(self.version)]
        return nodes + list(self._tags(cls)) if self.flexible else nodes

    def _field(self, field: Field) -> Node:
        return self._node(field.name, field.name, field.spec, field.nullable(self.version))

    def _node(self, name: str, step: str | int, spec: Any, nullable: bool) -> Node:
        self._names.append(step)
        start = self.began = self.pos
        value = self._value(spec, nullable)
        self._names.pop()
        return Node(name, spec, start, self.pos, value)

    def _value(self, spec: Any, nullable: bool) -> Any:
        if isinstance(spec, list):
            count = self._length(4, nullable)
            return None if count is None else self._array(spec[0], count)
        if isinstance(spec, type):
            return None if nullable and self._take("b") < 0 else self.struct(spec)
        if is_fixed(spec):
            return self._take(FORMATS[spec])
        size = self._length(2 if spec == "string" else 4, nullable)
        return None if size is None else self._blob(spec, size)

    def _blob(self, spec: str, size: int) -> Any:
        end = self.pos + size
        if end > len(self.view):
            raise ProtocolError(f"it announces {size} bytes, but only {len(self.view) - self.pos} are left")
        raw, self.pos = self.view[self.pos : end], end
        return str(raw, "utf-8", LIKE_JAVA) if spec == "string" else bytes(raw)

    def _array(self, spec: Any, count: int) -> list[Node]:
        left = len(self.view) - self.pos
        if count * least_of(spec, self.version, self.flexible) > left:
            raise ProtocolError(f"it announces {count} elements, but only {left} bytes are left")
        if not is_fixed(spec):
            self._spend(count)
        elif count > 7:
            self._spend(count >> 3)
        return [self._node(f"[{at}]", at, spec, False) for at in range(count)]

    def _spend(self, elements: int) -> None:
        self._elements -= elements
        if self._elements < 0:
            raise ProtocolError("the message has too many elements")

    def _take(self, letter: str) -> Any:
        form = layout(">" + letter)
        (value,) = form.unpack_from(self.view, self.pos)
        self.pos += form.size
        return value

    def _length(self, size: int, nullable: bool) -> int | None:
        """Returns the length of a text, of bytes or of an array, or None for null."""
        length: int = self._uvarint() - 1 if self.flexible else self._take("h" if size == 2 else "i")
        if length < 0 and not nullable:
            raise ProtocolError("it is null, but this field must have a value")
        if size == 2 and length > LONGEST_STRING:
            raise ProtocolError(f"a text of {length} bytes is too long")
        return length if length >= 0 else None

    def _uvarint(self) -> int:
        value, self.pos = read_uvarint(self.view, self.pos)
        return value

    def _tags(self, cls: type[Struct]) -> Iterator[Node]:
        known = {field.tag: field for field in cls.__wire__ if field.tag is not None}
        self.began = self.pos
        count = self._uvarint()
        self._spend(count)
        for _ in range(count):
            self.began = self.pos
            tag, size = self._uvarint(), self._uvarint()
            field = known.get(tag)
            if field is None:
                start = self.pos
                yield Node(f"{UNKNOWN_TAG}{tag}", "bytes", start, start + size, self._blob("bytes", size))
            elif not field.present(self.version):
                raise ProtocolError(f"tag {tag} ({field.name}) does not exist in version {self.version}")
            elif isinstance(field.spec, type) and field.nullable(self.version):
                yield self._nullable_struct(field)
            else:
                yield self._field(field)

    def _nullable_struct(self, field: Field) -> Node:
        """Reads a tagged nullable struct, for which zero means null. (For an untagged struct, a negative byte means null.)"""
        self._names.append(field.name)
        start = self.began = self.pos
        value = self.struct(field.spec) if self._uvarint() else None
        self._names.pop()
        return Node(field.name, field.spec, start, self.pos, value)
