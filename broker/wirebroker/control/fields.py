"""Describes the fields of each endpoint's query and body, for docs/reference/control.md and the page at `/`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wirebroker.control.endpoint import TOML, Endpoint
from wirebroker.control.forms import Form, schema
from wirebroker.faults.forms import expected

Schemas = Mapping[str, Any]


class Field(NamedTuple):
    """A field of a query or a body. `name` is the path of the field, such as `records[].key`."""

    where: str
    name: str
    about: str


def fields_of(endpoint: Endpoint) -> list[Field]:
    """Returns the fields of an endpoint's query and body, in their order."""
    found = []
    for where in ("query", "body"):
        form = endpoint.hints.get(where)
        if form is not None and issubclass(form, Form):
            named: dict[str, Any] = {}
            schema(form, named)
            found += [Field(where, *each) for each in _of_form(form.__name__, named, "")]
        elif form is not None:
            found.append(Field(where, "kind, …", "a rule (needed), in the words of a fault file, which faults.md lists"))
    if "text" in endpoint.hints:
        found.append(Field("body", "", "a fault file (needed)" if endpoint.takes == TOML else "a text (needed)"))
    return found


def _of_form(name: str, named: Schemas, within: str) -> Iterator[tuple[str, str]]:
    form = named[name]
    for field, about in form["properties"].items():
        yield within + field, _about(about, field in form["required"], named)
        items: Schemas = next((each["items"] for each in _alternatives(about) if "items" in each), {})
        if "$ref" in items:
            yield from _of_form(_name(items), named, f"{within}{field}[].")


def _about(field: Schemas, needed: bool, named: Schemas) -> str:
    kinds = ", or ".join(_kind(each, named) for each in _alternatives(field))
    default = field.get("default")
    given = " (needed)" if needed else f" ({json.dumps(default)} unless given)" if default not in (None, [], {}, "") else ""
    description = field.get("description")
    return kinds + given + (f": {description}" if description else "")


def _alternatives(field: Schemas) -> list[Any]:
    return [each for each in field.get("anyOf", [field]) if each.get("type") != "null"]


def _kind(field: Schemas, named: Schemas) -> str:
    if "$ref" in field:
        names = list(named[_name(field)]["properties"])
        return f"an object with {' or '.join(names) if len(names) < 3 else ', '.join(names)}"
    if field.get("type") == "array":
        return "a list of objects" if "$ref" in field["items"] else f"a list, each {_kind(field['items'], named)}"
    if "type" not in field and "enum" not in field:
        return "any JSON"
    return "an object" if field.get("type") == "object" else expected(dict(field))


def _name(field: Schemas) -> str:
    return str(field["$ref"]).rpartition("/")[2]
