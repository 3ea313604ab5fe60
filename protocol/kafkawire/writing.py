"""Compiles the writer of a struct: a function `(object, out, splices)` that appends to `out`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.compiling import FORMATS, LONGEST_STRING, Counted, Source, is_fixed, layout
from kafkawire.declare import Field, Struct
from kafkawire.errors import MessageTooLarge
from kafkawire.primitives import Buffer, Pieces, write_uvarint

Splice = tuple[int, Buffer | Pieces]
"""A position in the encoded bytes, and the large buffer that belongs at this position but was not copied."""
Writer = Callable[[Any, bytearray, "list[Splice] | None"], None]

MOST_BYTES = 128 * 1024 * 1024
"""The size limit of a message in bytes. Once a message has exceeded the limit, the writer raises an error before it writes
another array or large value.

Record data does not count, because it has its own limits.
"""
SPLICE_FROM = 4096
"""A records field of at least this many bytes is spliced instead of copied."""

_packers = {spec: Counted(letter, "pack") for spec, letter in FORMATS.items()}


def writer(cls: type[Struct], version: int, flexible: bool) -> Writer:
    """Returns the compiled writer of a struct in one version. The type of the exception that a writer raises depends on the
    wrong value."""
    made = _writers.get((cls, version, flexible))
    if made is None:
        made = _writers[cls, version, flexible] = _WriterSource(cls, version, flexible).compile()
    return made


_writers: dict[tuple[type[Struct], int, bool], Writer] = {}


class _WriterSource(Source):
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names |= {
            "put_uvarint": write_uvarint, "put_tagged": _put_tagged, "too_large": _too_large,
            "buffers": (memoryview, bytes, bytearray, Pieces), "pieces": Pieces,
        }  # fmt: skip

    def compile(self) -> Writer:
        end_written = False
        steps = list(self.steps())
        for step in steps:
            if is_fixed(step[0].spec):
                end_written = self.flexible and step is steps[-1] and not self.tagged()
                self._pack("o", step, end_written)
            else:
                self._value(f"o.{step[0].name}", step[0].spec, step[0].nullable(self.version))
        if self.flexible and not end_written:
            self._tags()
        if not self.lines:
            self.put("pass")
        return self.made("o, out, splices")  # type: ignore[no-any-return]

    def _pack(self, struct: str, run: list[Field], with_tags: bool) -> None:
        """Makes the code that writes a run of fixed-size fields in one step. With `with_tags` the code also writes a number of
        tags, which is 0.
        """
        for field in run:
            if field.spec == "uuid":
                self._check_uuid(f"{struct}.{field.name}")
        form = layout(">" + "".join(FORMATS[field.spec] for field in run) + "B" * with_tags)
        values = ", ".join([f"{struct}.{field.name}" for field in run] + ["0"] * with_tags)
        self.put(f"out += {self.name(form.pack, 'pack')}({values})")

    def _check_uuid(self, value: str) -> None:
        self.put(f"if len({value}) != 16: raise ValueError('an id has 16 bytes')")

    def _value(self, value: str, spec: Any, nullable: bool, null_struct: bytes = b"\xff") -> None:
        if is_fixed(spec):
            self.put(f"out += {self.name(layout('>' + FORMATS[spec]).pack, 'pack')}({value})")
            return
        form = ">h" if spec == "string" else ">i"
        if nullable:
            self.put(f"if {value} is None:", f"    out += {self._null(spec, form, null_struct)!r}", "else:")
            self.indent += 1
        if isinstance(spec, type):
            if nullable:
                self.put("out.append(1)")
            self._struct(value, spec)
        elif isinstance(spec, list):
            self._array(value, spec[0])
        else:
            self._blob(value, spec, form)
        if nullable:
            self.indent -= 1

    def _struct(self, value: str, spec: type[Struct]) -> None:
        """Makes the code that writes a struct. If all its fields have a fixed size, the code does not call the struct's writer,
        because an array may have many such structs."""
        fields = [field for field in spec.__wire__ if field.present(self.version)]
        if fields and all(field.tag is None and is_fixed(field.spec) for field in fields):
            self._pack(value, fields, self.flexible)
        else:
            self.put(f"{self._sub(spec)}({value}, out, splices)")

    def _null(self, spec: Any, form: str, null_struct: bytes) -> bytes:
        if isinstance(spec, type):
            return null_struct
        return b"\0" if self.flexible else layout(form).pack(-1)

    def _sub(self, spec: type[Struct]) -> str:
        return self.name(writer(spec, self.version, self.flexible), "write")

    def _length(self, form: str) -> None:
        if not self.flexible:
            self.put(f"out += {self.name(layout(form).pack, 'pack')}(n)")
            return
        self.put("if n < 127: out.append(n + 1)", "else:")
        if form == ">h":
            self.put(f"    if n > {LONGEST_STRING}: raise ValueError('a string is too long')")
        self.put("    put_uvarint(out, n + 1)")

    def _blob(self, value: str, spec: str, form: str) -> None:
        self.put(f"raw = {value}.encode()" if spec == "string" else f"raw = {value}", "n = len(raw)")
        self._length(form)
        if spec == "bytes":
            self.put(f"if n >= {SPLICE_FROM} and len(out) + n > {MOST_BYTES}: raise too_large()")
        if spec != "records":
            self.put("out += raw")
            return
        self.put(f"if splices is None or n < {SPLICE_FROM}: out += bytes(raw) if type(raw) is pieces else raw")
        self.put("elif isinstance(raw, buffers): splices.append((len(out), raw))", "else: raise TypeError('no bytes')")

    def _array(self, value: str, spec: Any) -> None:
        if spec == "string":  # a string would be taken for an array of its letters
            self.put(f"if isinstance({value}, str): raise TypeError('a string where an array belongs')")
        self.put(f"if len(out) > {MOST_BYTES}: raise too_large()", f"n = len({value})")
        self._length(">i")
        if is_fixed(spec) and spec != "uuid":
            self.put(f"out += {self.name(_packers[spec], 'packers')}[n](*{value})")
            return
        self.put(f"for item in {value}:")
        self.indent += 1
        if spec == "uuid":
            self._check_uuid("item")
        self._value("item", spec, False)
        self.indent -= 1

    def _tags(self) -> None:
        tagged = self.tagged()
        if not tagged:
            self.put("out.append(0)")
            return
        self.put("tagged = []")
        for field in tagged:
            value = f"o.{field.name}"
            self.put(f"if {self._differs(value, field.default)}:")
            self.indent += 1
            # The field is written to a separate buffer, because its size must come before it.
            self.put("outer, out, around, splices = out, bytearray(), splices, None")
            if field.spec == "uuid":
                self._check_uuid(value)
            self._value(value, field.spec, field.nullable(self.version), b"\0")
            self.put(f"tagged.append(({field.tag}, out))", "out, splices = outer, around")
            self.indent -= 1
        self.put("if tagged: put_tagged(out, tagged)", "else: out.append(0)")

    def _differs(self, value: str, default: Any) -> str:
        """Returns the condition for writing a tagged field, as source text. A struct is compared field by field, which is
        faster than !=.
        """
        if isinstance(default, type) and issubclass(default, Struct):
            parts = [self._differs(f"{value}.{field.name}", field.default) for field in default.__wire__]
            return " or ".join([f"{value} is None", *parts])
        plain = default() if callable(default) else default
        return f"{value} != {self.name(plain, 'default')}"


def _too_large() -> MessageTooLarge:
    return MessageTooLarge(f"it takes more than {MOST_BYTES} bytes")


def _put_tagged(out: bytearray, tagged: list[tuple[int, bytearray]]) -> None:
    write_uvarint(out, len(tagged))
    for tag, raw in tagged:
        write_uvarint(out, tag)
        write_uvarint(out, len(raw))
        out += raw
