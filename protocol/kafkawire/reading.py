"""Compiles the reader of a struct: a function `(view, pos, end, budget) -> (object, pos)`.

A reader accepts everything that Kafka's generated readers accept. Kafka's readers accept more than the protocol's documentation
allows: any negative length is null; tagged fields may come in any order, and the last of repeated fields counts; the announced
size of a known tag is not compared with its value; invalid UTF-8 becomes U+FFFD.

`budget` is a list with one number: how many more array elements the message may have. Kafka itself has no such limit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from kafkawire.compiling import FORMATS, LONGEST_STRING, Counted, Source, is_fixed, layout, least_of
from kafkawire.declare import Field, Struct
from kafkawire.errors import ProtocolError, TooManyElements
from kafkawire.primitives import LIKE_JAVA, read_uvarint, skip_tagged_fields

Reader = Callable[[memoryview, int, int, list[int]], tuple[Any, int]]

_EXHAUSTED = "it has too many elements"
_MADE = {
    "string": f"str(view[pos:stop], 'utf-8', {LIKE_JAVA!r})",
    "bytes": "bytes(view[pos:stop])",
    "records": "view[pos:stop]",
}
_unpackers = {spec: Counted(letter, "unpack_from") for spec, letter in FORMATS.items()}


def reader(cls: type[Struct], version: int, flexible: bool) -> Reader:
    """Returns the compiled reader of a struct in one version. The reader raises ProtocolError, IndexError or struct.error."""
    made = _readers.get((cls, version, flexible))
    if made is None:
        made = _readers[cls, version, flexible] = _ReaderSource(cls, version, flexible).compile()
    return made


_readers: dict[tuple[type[Struct], int, bool], Reader] = {}


def _spend(budget: list[int], elements: int) -> None:
    budget[0] -= elements
    if budget[0] < 0:
        raise TooManyElements(_EXHAUSTED)


def _pass_tags(view: memoryview, pos: int, end: int, budget: list[int], count: int) -> int:
    """Returns the position after unknown tagged fields. `count` is the byte before `pos`: the first byte of the number of
    tagged fields."""
    count, pos = _open_tags(view, pos, budget, count)
    return skip_tagged_fields(view, pos, end, count)


def _open_tags(view: memoryview, pos: int, budget: list[int], count: int) -> tuple[int, int]:
    if count > 127:
        count, pos = read_uvarint(view, pos - 1)
    _spend(budget, count)
    return count, pos


class _ReaderSource(Source):
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names |= {
            "new": object.__new__, "uvarint": read_uvarint, "ProtocolError": ProtocolError,
            "TooManyElements": TooManyElements,
            "spend": _spend, "exhausted": _EXHAUSTED,
        }  # fmt: skip

    def compile(self) -> Reader:
        begun = False  # whether the previous fields' code also reads this field's length, or the number of tags
        for step, after in pairwise([*self.steps(), []]):
            field = step[0]
            if is_fixed(field.spec):
                begun = self._fixed(step, after)
            else:
                self._value(f"v_{field.name}", field.spec, field.nullable(self.version), field.name, begun)
                begun = False
        if self.flexible:
            if not begun:
                self.put("tags = view[pos]", "pos += 1")
            self._tags()
        self._object()
        return self.made("view, pos, end, budget")  # type: ignore[no-any-return]

    def _object(self) -> None:
        """Writes the code that makes the object without calling the `__init__` of its class, which would take twice as long."""
        self.put(f"o = new({self.name(self.cls, 'cls')})")
        for field in self.cls.__wire__:
            value = f"v_{field.name}" if field.present(self.version) else self._default(field)
            self.put(f"o.{field.name} = {value}")
        self.put("return o, pos")

    def _default(self, field: Field) -> str:
        if field.default is list:
            return "[]"
        name = self.name(field.default, "default")
        return f"{name}()" if callable(field.default) else name

    def _fixed(self, run: list[Field], after: list[Field]) -> bool:
        """Writes the code that reads a run of fixed-size fields in one step. Returns whether this code also reads the first
        number after these fields."""
        formats, names = [FORMATS[field.spec] for field in run], [f"v_{field.name}" for field in run]
        if not after and self.flexible:
            formats.append("B")
            names.append("tags")
        elif after and not isinstance(after[0].spec, type):
            formats.append("B" if self.flexible else "h" if after[0].spec == "string" else "i")
            names.append("n")
        form = layout(">" + "".join(formats))
        self.put(f"{', '.join(names)}, = {self.name(form.unpack_from, 'unpack')}(view, pos)", f"pos += {form.size}")
        return len(names) > len(run)

    def _value(self, target: str, spec: Any, nullable: bool, label: str, begun: bool = False) -> None:
        if isinstance(spec, list):
            self._length(">i", begun)
            self._unless_null(target, nullable, label)
            self._array(target, spec[0], label)
            self.indent -= 1
        elif isinstance(spec, type):
            self._struct(target, spec, nullable)
        elif is_fixed(spec):
            form = layout(">" + FORMATS[spec])
            self.put(f"{target}, = {self.name(form.unpack_from, 'unpack')}(view, pos)", f"pos += {form.size}")
        else:
            self._length(">h" if spec == "string" else ">i", begun)
            self._unless_null(target, nullable, label)
            self.put("stop = pos + n", f"if stop > end: raise ProtocolError('{label} runs past the end')")
            self.put(f"{target} = {_MADE[spec]}", "pos = stop")
            self.indent -= 1

    def _struct(self, target: str, spec: type[Struct], nullable: bool) -> None:
        read = f"{target}, pos = {self._sub(spec)}(view, pos, end, budget)"
        if nullable:  # a signed byte precedes the struct: negative means null
            self.put("mark = view[pos]", "pos += 1", f"if mark > 127: {target} = None", f"else: {read}")
        else:
            self.put(read)

    def _sub(self, spec: type[Struct]) -> str:
        return self.name(reader(spec, self.version, self.flexible), "read")

    def _length(self, form: str, begun: bool) -> None:
        if self.flexible:
            if not begun:
                self.put("n = view[pos]", "pos += 1")
            self.put("if n > 127:", "    n, pos = uvarint(view, pos - 1)")
            if form == ">h":
                self.put(f"    if n > {LONGEST_STRING + 1}: raise ProtocolError('a string is too long')")
            self.put("n -= 1")
        elif not begun:
            self.put(f"n, = {self.name(layout(form).unpack_from, 'unpack')}(view, pos)", f"pos += {layout(form).size}")

    def _unless_null(self, target: str, nullable: bool, label: str) -> None:
        """Writes an `if` for null, and the `else` of this `if`. The code that is written next belongs to the `else`."""
        self.put("if n < 0:", f"    {target} = None" if nullable else f"    raise ProtocolError('{label} is null')")
        self.put("else:")
        self.indent += 1

    def _array(self, target: str, spec: Any, label: str) -> None:
        """Writes the code that reads the elements of a non-null array, after it has compared their number with the remaining
        bytes."""
        least = least_of(spec, self.version, self.flexible)
        self.put(f"if n * {least} > end - pos: raise ProtocolError('{label} announces more elements than bytes are left')")
        if is_fixed(spec):  # eight elements of fixed size count as one, and up to seven count as none
            self.put("if n > 7: spend(budget, n >> 3)")
            if spec == "uuid":
                self.put(f"{target} = [bytes(view[at:at + 16]) for at in range(pos, pos + n * 16, 16)]")
            else:
                self.put(f"{target} = list({self.name(_unpackers[spec], 'unpackers')}[n](view, pos))")
            self.put(f"pos += n * {least}")
            return
        self.put("budget[0] -= n", "if budget[0] < 0: raise TooManyElements(exhausted)")
        self.put(f"{target} = []", "for _ in range(n):")
        self.indent += 1
        self._value("item", spec, False, f"an element of {label}")
        self.put(f"{target}.append(item)")
        self.indent -= 1

    def _tag(self, target: str, field: Field) -> None:
        nullable = field.nullable(self.version)
        if nullable and isinstance(field.spec, type):  # in a tagged field zero means null, unlike in other fields
            self.put("mark, pos = uvarint(view, pos)", f"if not mark: {target} = None")
            self.put(f"else: {target}, pos = {self._sub(field.spec)}(view, pos, end, budget)")
        else:
            self._value(target, field.spec, nullable, field.name)

    def _tags(self) -> None:
        tagged = self.tagged()
        for field in tagged:
            self.put(f"v_{field.name} = {self._default(field)}")
        unknown_here = [f.tag for f in self.cls.__wire__ if f.tag is not None and f not in tagged]
        if not tagged and not unknown_here:
            self.put(f"if tags: pos = {self.name(_pass_tags, 'pass_tags')}(view, pos, end, budget, tags)")
            return
        self.put("if tags:", f"    tags, pos = {self.name(_open_tags, 'open_tags')}(view, pos, budget, tags)")
        self.put("    for _ in range(tags):")
        self.indent += 2
        self.put("tag, pos = uvarint(view, pos)", "size, pos = uvarint(view, pos)")
        for number, field in enumerate(tagged):
            self.put(f"{'elif' if number else 'if'} tag == {field.tag}:")
            self.indent += 1
            self._tag(f"v_{field.name}", field)
            self.indent -= 1
        if unknown_here:  # Kafka refuses a tag that belongs to another version, but accepts a tag that it does not know at all
            word = "elif" if tagged else "if"
            self.put(f"{word} tag in {unknown_here}: raise ProtocolError(f'tag {{tag}} does not exist in this version')")
        self.put("else:", "    pos += size", "    if pos > end: raise ProtocolError('a tag runs past the end')")
        self.indent -= 2
