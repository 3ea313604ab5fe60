"""Readers and writers, compiled from the declarations: one pair of functions per struct, version and form.

A message's wire form is fixed once its version is known, so the work of looking it up is done once: for each
(class, version) a reader and a writer are generated as Python source on first use, with neighbouring fields of fixed
size joined into one `struct` call. `decode` raises `ProtocolError` for any damaged input and for nothing else;
`encode` raises `EncodeError` for a value that its version cannot carry.

Records are left where they are: a `records` field is a `memoryview` of the buffer it was read from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from kafkawire.declare import Field, Message, Struct
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.primitives import Buffer, read_uvarint, write_uvarint

M = TypeVar("M", bound=Message)
Reader = Callable[[memoryview, int, int], tuple[Any, int]]
Writer = Callable[[Any, bytearray, "list[Splice] | None"], None]
Splice = tuple[int, Buffer]
"""Where in the encoded bytes a large buffer belongs that was left out of them, and that buffer."""

_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "float64": "d", "uuid": "16s",
}  # fmt: skip
_DAMAGE = (struct.error, IndexError, UnicodeDecodeError, OverflowError, MemoryError)
_SPLICE_FROM = 4096
"""Bytes from which on a records field is spliced rather than copied."""


def decode(cls: type[M], buffer: Buffer, version: int, pos: int = 0) -> tuple[M, int]:
    """The message at `pos` and the position after it. Raises ProtocolError."""
    view = memoryview(buffer)
    try:
        return reader(cls, version, version >= cls.__schema__.flexible)(view, pos, len(view))
    except _DAMAGE as damage:
        raise ProtocolError(f"{cls.__name__} v{version} cannot be read: {damage}") from damage


def encode(message: Message, version: int) -> bytes:
    """The message's bytes. Raises EncodeError."""
    out = bytearray()
    encode_into(message, version, out, None)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray, splices: list[Splice] | None) -> None:
    """Append the message to `out`; with `splices`, large records are not copied but noted there."""
    cls = type(message)
    try:
        writer(cls, version, version >= cls.__schema__.flexible)(message, out, splices)
    except (struct.error, AttributeError, TypeError, ValueError) as wrong:
        raise EncodeError(f"{cls.__name__} v{version} cannot be written: {wrong}") from wrong


def reader(cls: type[Struct], version: int, flexible: bool) -> Reader:
    """The compiled reader `(view, pos, end) -> (object, pos)`."""
    made = _readers.get((cls, version, flexible))
    if made is None:
        made = _readers[cls, version, flexible] = _ReaderSource(cls, version, flexible).compile()
    return made


def writer(cls: type[Struct], version: int, flexible: bool) -> Writer:
    """The compiled writer `(object, out, splices)`."""
    made = _writers.get((cls, version, flexible))
    if made is None:
        made = _writers[cls, version, flexible] = _WriterSource(cls, version, flexible).compile()
    return made


_readers: dict[tuple[type[Struct], int, bool], Reader] = {}
_writers: dict[tuple[type[Struct], int, bool], Writer] = {}
_least: dict[tuple[type[Struct], int, bool], int] = {}


def least_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes a struct can take, so that an announced count can be held against the bytes that are there."""
    key = (cls, version, flexible)
    if key not in _least:
        size = 1 if flexible else 0
        for field in cls.__wire__:
            if field.present(version) and field.tag is None:
                size += _least_of(field.spec, version, flexible)
        _least[key] = max(size, 1)
    return _least[key]


def _least_of(spec: Any, version: int, flexible: bool) -> int:
    if isinstance(spec, str) and spec in _FORMATS:
        return struct.calcsize(_FORMATS[spec])
    if isinstance(spec, list) or spec in ("bytes", "records"):
        return 1 if flexible else 4
    if spec == "string":
        return 1 if flexible else 2
    return least_size(spec, version, flexible) if spec.__wire__ else 1


class _Source:
    """Source text under construction, with the objects that it refers to by name."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"ProtocolError": ProtocolError, "uvarint": read_uvarint}
        self.indent = 1

    def put(self, *lines: str) -> None:
        self.lines += ["    " * self.indent + line for line in lines]

    def name(self, value: Any, stem: str) -> str:
        for known, held in self.names.items():
            if held is value:
                return known
        known = f"{stem}{len(self.names)}"
        self.names[known] = value
        return known

    def compiled(self, head: str) -> Any:
        source = "\n".join([head, *self.lines])
        exec(compile(source, f"<{self.cls.__name__} v{self.version}>", "exec"), self.names)
        return self.names["made"]

    def fields(self, tagged: bool) -> list[Field]:
        return [f for f in self.cls.__wire__ if f.present(self.version) and (f.tag is not None) == tagged]


class _ReaderSource(_Source):
    def compile(self) -> Reader:
        run: list[Field] = []
        for field in self.fields(tagged=False):
            if isinstance(field.spec, str) and field.spec in _FORMATS:
                run.append(field)
                continue
            self._fixed(run)
            run = []
            self._value(field.name, field.spec, field.nullable(self.version), field)
        self._fixed(run)
        if self.flexible:
            self._tags()
        present = [f.name for f in self.fields(tagged=False)] + [f.name for f in self.fields(tagged=True)]
        if [f.name for f in self.cls.__wire__] == present:  # all there and in order: positional is fastest
            arguments = ", ".join(f"v_{name}" for name in present)
        else:
            arguments = ", ".join(f"{name}=v_{name}" for name in present)
        self.put(f"return {self.name(self.cls, 'cls')}({arguments}), pos")
        return self.compiled("def made(view, pos, end):")  # type: ignore[no-any-return]

    def _fixed(self, run: list[Field]) -> None:
        if not run:
            return
        layout = struct.Struct(">" + "".join(_FORMATS[f.spec] for f in run))
        names = ", ".join(f"v_{f.name}" for f in run)
        self.put(f"{names}, = {self.name(layout.unpack_from, 'unpack')}(view, pos)", f"pos += {layout.size}")

    def _value(self, target: str, spec: Any, nullable: bool, field: Field) -> None:
        if isinstance(spec, list):
            self._array(target, spec[0], nullable)
        elif spec in ("string", "bytes", "records"):
            self._blob(target, spec, nullable)
        elif isinstance(spec, str):
            layout = struct.Struct(">" + _FORMATS[spec])
            self.put(f"v_{target}, = {self.name(layout.unpack_from, 'unpack')}(view, pos)", f"pos += {layout.size}")
        else:
            self._struct(target, spec, nullable)

    def _struct(self, target: str, spec: type[Struct], nullable: bool) -> None:
        read = f"v_{target}, pos = {self._sub(spec)}(view, pos, end)"
        if not nullable:
            self.put(read)
            return
        self.put("mark = view[pos]", "pos += 1", "if mark > 127:", f"    v_{target} = None", "else:", f"    {read}")

    def _sub(self, spec: type[Struct]) -> str:
        return self.name(reader(spec, self.version, self.flexible), "read")

    def _length(self, layout: str) -> None:
        if self.flexible:
            self.put("n = view[pos]", "pos += 1", "if n > 127: n, pos = uvarint(view, pos - 1)", "n -= 1")
        else:
            unpack = self.name(struct.Struct(layout).unpack_from, "unpack")
            self.put(f"n, = {unpack}(view, pos)", f"pos += {struct.calcsize(layout)}")

    def _absent(self, target: str, nullable: bool) -> None:
        """The branch for a negative length; the caller goes on with `else:`."""
        self.put("if n < 0:")
        if nullable:
            self.put("    if n != -1: raise ProtocolError('negative length')", f"    v_{target} = None")
        else:
            self.put(f"    raise ProtocolError('{target} is null')")

    def _blob(self, target: str, spec: str, nullable: bool) -> None:
        self._length(">h" if spec == "string" else ">i")
        self._absent(target, nullable)
        made = {"string": "str(view[pos:stop], 'utf-8')", "bytes": "bytes(view[pos:stop])", "records": "view[pos:stop]"}
        self.put(
            "else:", "    stop = pos + n", f"    if stop > end: raise ProtocolError('{target} runs past the end')",
            f"    v_{target} = {made[spec]}", "    pos = stop",
        )  # fmt: skip

    def _array(self, target: str, spec: Any, nullable: bool) -> None:
        self._length(">i")
        self._absent(target, nullable)
        least = _least_of(spec, self.version, self.flexible)
        self.put("else:", f"    if n * {least} > end - pos: raise ProtocolError('{target} announces too many')")
        self.indent += 1
        if isinstance(spec, str) and spec in _FORMATS and spec != "uuid":
            unpack = self.name(struct.unpack_from, "unpack")
            self.put(f"v_{target} = list({unpack}(f'>{{n}}{_FORMATS[spec]}', view, pos))", f"pos += n * {least}")
        else:
            self.put(f"v_{target} = items_{target} = []", f"for _ in range(n):")  # noqa: F541
            self.indent += 1
            if isinstance(spec, str):
                self._value("item", spec, False, self.cls.__wire__[0])
            else:
                self.put(f"v_item, pos = {self._sub(spec)}(view, pos, end)")
            self.put(f"items_{target}.append(v_item)")
            self.indent -= 1
        self.indent -= 1

    def _tags(self) -> None:
        tagged = self.fields(tagged=True)
        for field in tagged:
            value = field.default
            made = f"{self.name(value, 'default')}()" if callable(value) else self.name(value, "default")
            self.put(f"v_{field.name} = {made}")
        self.put(
            "tags = view[pos]", "pos += 1", "if tags:", "    if tags > 127: tags, pos = uvarint(view, pos - 1)",
            "    last = -1", "    for _ in range(tags):",
        )  # fmt: skip
        self.indent += 2
        self.put(
            "tag, pos = uvarint(view, pos)", "size, pos = uvarint(view, pos)",
            "if tag <= last: raise ProtocolError('tags are not in ascending order')", "last = tag", "after = pos + size",
            "if after > end: raise ProtocolError('a tagged field runs past the end')",
        )  # fmt: skip
        for field in tagged:
            self.put(f"if tag == {field.tag}:")
            self.indent += 1
            self._value(field.name, field.spec, field.nullable(self.version), field)
            self.put("if pos != after: raise ProtocolError('a tagged field has another size than announced')")
            self.indent -= 1
        self.put("pos = after")
        self.indent -= 2


class _WriterSource(_Source):
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names = {"put_uvarint": write_uvarint, "splice_from": _SPLICE_FROM}

    def compile(self) -> Writer:
        run: list[Field] = []
        for field in self.fields(tagged=False):
            if isinstance(field.spec, str) and field.spec in _FORMATS:
                run.append(field)
                continue
            self._fixed(run)
            run = []
            self._value(f"o.{field.name}", field.spec, field.nullable(self.version))
        self._fixed(run)
        if self.flexible:
            self._tags()
        if not self.lines:
            self.put("pass")
        return self.compiled("def made(o, out, splices):")  # type: ignore[no-any-return]

    def _fixed(self, run: list[Field]) -> None:
        if run:
            layout = struct.Struct(">" + "".join(_FORMATS[f.spec] for f in run))
            values = ", ".join(f"o.{f.name}" for f in run)
            self.put(f"out += {self.name(layout.pack, 'pack')}({values})")

    def _value(self, value: str, spec: Any, nullable: bool) -> None:
        if isinstance(spec, str) and spec in _FORMATS:
            self.put(f"out += {self.name(struct.Struct('>' + _FORMATS[spec]).pack, 'pack')}({value})")
            return
        layout = ">h" if spec == "string" else ">i"
        if nullable:
            self.put(f"if {value} is None:")
            if isinstance(spec, type):
                self.put("    out += b'\\xff'")
            else:
                null = b"\0" if self.flexible else struct.pack(layout, -1)
                self.put(f"    out += {null!r}")
            self.put("else:")
            self.indent += 1
        if isinstance(spec, type):
            if nullable:
                self.put("out += b'\\x01'")
            self.put(f"{self._sub(spec)}({value}, out, splices)")
        elif isinstance(spec, list):
            self._array(value, spec[0])
        else:
            self._blob(value, spec, layout)
        if nullable:
            self.indent -= 1

    def _sub(self, spec: type[Struct]) -> str:
        return self.name(writer(spec, self.version, self.flexible), "write")

    def _length(self, layout: str) -> None:
        if self.flexible:
            self.put("if n < 127: out.append(n + 1)", "else: put_uvarint(out, n + 1)")
        else:
            self.put(f"out += {self.name(struct.Struct(layout).pack, 'pack')}(n)")

    def _blob(self, value: str, spec: str, layout: str) -> None:
        self.put(f"raw = {value}.encode()" if spec == "string" else f"raw = {value}", "n = len(raw)")
        self._length(layout)
        if spec == "records":
            self.put("if splices is None or n < splice_from: out += raw", "else: splices.append((len(out), raw))")
        else:
            self.put("out += raw")

    def _array(self, value: str, spec: Any) -> None:
        self.put(f"n = len({value})")
        self._length(">i")
        if isinstance(spec, str) and spec in _FORMATS and spec != "uuid":
            self.put(f"out += {self.name(struct.pack, 'pack')}(f'>{{n}}{_FORMATS[spec]}', *{value})")
        else:
            self.put(f"for item in {value}:")
            self.indent += 1
            self._value("item", spec, False)
            self.indent -= 1

    def _tags(self) -> None:
        tagged = sorted(self.fields(tagged=True), key=lambda f: f.tag or 0)
        if not tagged:
            self.put("out.append(0)")
            return
        self.put("tagged = []")
        for field in tagged:
            default = field.default() if callable(field.default) else field.default
            self.put(f"if o.{field.name} != {self.name(default, 'default')}:")
            self.indent += 1
            # The field goes into a buffer of its own, because its size comes first.
            self.put("outer, out, around, splices = out, bytearray(), splices, None")
            self._value(f"o.{field.name}", field.spec, field.nullable(self.version))
            self.put(f"tagged.append(({field.tag}, out))", "out, splices = outer, around")
            self.indent -= 1
        self.put("put_uvarint(out, len(tagged))", "for tag, raw in tagged:")
        self.put("    put_uvarint(out, tag)", "    put_uvarint(out, len(raw))", "    out += raw")
