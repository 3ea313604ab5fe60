"""The JSON schema of a line of the trace, made of the rows' fields; docs/trace.schema.json is this."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from wirebroker.trace.rows import EVENTS, Row

_NAMES = {int: "integer", str: "string", bool: "boolean", NoneType: "null"}


def schema() -> dict[str, Any]:
    """The JSON schema of one line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a line of a wirebroker trace",
        "oneOf": [_schema_of(row) for row in EVENTS.values()],
    }


def _schema_of(row: type[Row]) -> dict[str, Any]:
    hints = get_type_hints(row)
    names = [field.name for field in fields(row)]
    return {
        "title": (row.__doc__ or "").partition("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "required": ["event", *names],
        "properties": {"event": {"const": row.event}} | {name: _type(hints[name]) for name in names},
    }


def _type(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _type(get_args(hint)[0])}
    kinds = [_NAMES[each] for each in get_args(hint)] or [_NAMES[hint]]
    return {"type": kinds if len(kinds) > 1 else kinds[0]}
