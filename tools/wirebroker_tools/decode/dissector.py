"""Writes a dissector for Wireshark. The dissector consists of Lua tables that declare all messages, and of `dissector.lua`,
which interprets the tables."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

from kafkawire.declare import Struct
from kafkawire.errors import ErrorCode
from kafkawire.messages import APIS, BASE
from kafkawire.registry import request_class, response_class

HEAD = f"""\
-- Written by `wirebroker dissector`: every message of Apache Kafka {BASE} in every version. Wireshark loads it from its
-- folder of plugins (Help, About, Folders), tshark with `-X lua_script:kafka.lua`. Its name is `kafka4`, because Wireshark
-- has a `kafka` of its own.
"""
CLASSES = {
    "bool": "bool", "uint16": "uint", "uint32": "uint", "float64": "float", "string": "string", "uuid": "string",
    "bytes": "bytes", "records": "bytes",
}  # fmt: skip
"""For some types of fields, the kind of value that Wireshark uses. Any other type is a number of the kind `int`."""
OWN_FIELDS = {
    "api": "string", "api_version": "int16", "correlation_id": "int32", "client_id": "string", "frame_size": "int32",
    "record_key": "bytes", "record_value": "bytes", "record_header": "string", "record_header_value": "bytes",
    "base_offset": "int64", "batch_length": "int32", "partition_leader_epoch": "int32", "magic": "int8", "crc": "uint32",
    "attributes": "int16", "last_offset_delta": "int32", "base_timestamp": "int64", "max_timestamp": "int64",
    "producer_id": "int64", "producer_epoch": "int16", "base_sequence": "int32", "records_count": "int32",
}  # fmt: skip
"""The types of the fields of frame headers, batches and records. No message declares these fields."""


def lua() -> Iterator[str]:
    """Yields the lines of the dissector."""
    tables = _Tables()
    apis = [_api(key, tables) for key in APIS]
    yield from HEAD.splitlines()
    yield "local FIELDS = {"
    yield from (f"  [{_text(name)}] = {_text(kind)}," for name, kind in tables.fields.items())
    yield "}"
    yield f"local NAMES = {{{', '.join(f'{name} = {_text(found)}' for name, found in tables.own.items())}}}"
    yield f"local ERRORS = {{{', '.join(f'[{code.value}] = {_text(code.name)}' for code in ErrorCode)}}}"
    yield "local STRUCTS = {"
    yield from tables.structs
    yield "}"
    yield "local APIS = {"
    yield from apis
    yield "}"
    yield ""
    yield from (
        resources.files(__package__).joinpath("dissector.lua").read_text("utf-8").replace("@RELEASE@", BASE).splitlines()
    )


def _api(key: int, tables: _Tables) -> str:
    request, response = request_class(key), response_class(key)
    oldest, newest = request.__schema__.versions
    return (
        f"  [{key}] = {{key = {key}, name = {_text(APIS[key].name)}, oldest = {oldest}, newest = {newest}, "
        f"flexible = {request.__schema__.flexible}, request = {tables.struct(request)}, response = {tables.struct(response)}}},"
    )


class _Tables:
    """Collects the structs of the messages, and the names of their fields."""

    def __init__(self) -> None:
        self.structs: list[str] = []
        self.fields: dict[str, str] = {}
        self._numbers: dict[type[Struct], int] = {}
        self.own = {name: self._name(name, spec) for name, spec in OWN_FIELDS.items()}

    def struct(self, cls: type[Struct]) -> int:
        """Returns the position of a struct in `structs`, counted from 1. Adds the struct if it is new."""
        if cls not in self._numbers:
            fields = ", ".join(self._field(field) for field in cls.__wire__)
            self.structs.append(f"  {{{fields}}}, -- {cls.__name__}")
            self._numbers[cls] = len(self.structs)
        return self._numbers[cls]

    def _field(self, field: Any) -> str:
        tag = f", tag = {field.tag}" if field.tag is not None else ""
        names, spec = "", field.spec[0] if isinstance(field.spec, list) else field.spec
        if isinstance(spec, str):
            names = f"{spec} = {_text(self._name(field.name, spec))}"
        return (
            f"{{name = {_text(field.name)}, kind = {self._kind(field.spec)}, names = {{{names}}}, since = {field.since}, "
            f"until_ = {field.until}, null_since = {field.nullable_since}, null_until = {field.nullable_until}{tag}}}"
        )

    def _kind(self, spec: Any) -> str:
        if isinstance(spec, list):
            return f"{{{self._kind(spec[0])}}}"
        return str(self.struct(spec)) if isinstance(spec, type) else _text(spec)

    def _name(self, name: str, spec: str) -> str:
        """Returns the name of a field in Wireshark's display filters. If another kind of field already has this name, the kind
        of this field is appended to the name.
        """
        kind = CLASSES.get(spec, "int")
        for known in (name, f"{name}_{kind}"):
            if self.fields.setdefault(known, kind) == kind:
                return known
        raise ValueError(name)


def _text(text: str) -> str:
    return f'"{text}"'
