"""Makes the JSON schema of a line of the trace from the fields of the rows. scripts/generate-docs writes the schema to
docs/reference/trace.schema.json.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec

from wirebroker.requests.facts import Batch
from wirebroker.trace.rows import EVENTS, Row

REF = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    """Returns the JSON schema of one line."""
    _, parts = msgspec.json.schema_components([Batch], ref_template=REF)
    for part in parts.values():
        part["description"] = " ".join(part["description"].split())  # releases of msgspec differ in a docstring's indentation
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a line of a wirebroker trace",
        "oneOf": [_schema_of(row) for row in EVENTS.values()],
        "$defs": parts,
    }


def _schema_of(row: type[Row]) -> dict[str, Any]:
    hints = get_type_hints(row)
    names = row.__struct_fields__
    schemas, _ = msgspec.json.schema_components([hints[name] for name in names], ref_template=REF)
    return {
        "title": (row.__doc__ or "").partition("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "required": ["event", *names],
        "properties": {"event": {"const": row.event}} | dict(zip(names, schemas, strict=True)),
    }
