"""Finds the value that made a writer fail."""

from __future__ import annotations

import struct
from typing import Any

from kafkawire.compiling import FORMATS, fits, is_fixed
from kafkawire.declare import Message, Struct

_MISSING = object()


def blame(message: Message, version: int) -> str | None:
    """Returns the first value that this version cannot carry, such as `topics[0].error_code: 70000 is not a valid int16`, or
    None.
    """
    return _struct(message, type(message), version, "")


def _struct(value: Any, cls: type[Struct], version: int, path: str) -> str | None:
    for field in cls.__wire__:
        if not field.present(version):
            continue
        held = getattr(value, field.name, _MISSING)
        where = f"{path}.{field.name}" if path else field.name
        if held is _MISSING:
            return f"{where}: {_shown(value)} has no such field"
        if held is None and field.nullable(version):
            continue
        found = _value(held, field.spec, version, where)
        if found:
            return found
    return None


def _value(value: Any, spec: Any, version: int, path: str) -> str | None:
    if value is None:
        return f"{path}: None, but version {version} does not allow null"
    if isinstance(spec, list):
        if isinstance(value, str) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
            return f"{path}: {_shown(value)} is not a list"
        found = (_value(item, spec[0], version, f"{path}[{at}]") for at, item in enumerate(value))
        return next((complaint for complaint in found if complaint), None)
    if isinstance(spec, type):
        return _struct(value, spec, version, path)
    return None if _fits(value, spec) else f"{path}: {_shown(value)} is not a valid {spec}"


def _fits(value: Any, spec: str) -> bool:
    if spec == "uuid":
        return isinstance(value, (bytes, bytearray, memoryview)) and len(value) == 16
    if is_fixed(spec):
        try:
            struct.pack(">" + FORMATS[spec], value)
        except (struct.error, OverflowError, TypeError):
            return False
        return True
    if spec != "string":
        return isinstance(value, (bytes, bytearray, memoryview))
    return isinstance(value, str) and fits(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
