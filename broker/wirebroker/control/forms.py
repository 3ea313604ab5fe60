"""Forms: msgspec structs that are read from JSON and from queries, written as JSON, and described as JSON schemas.

`Annotated[Positive | None, about("how many")]` gives a field its limits and its description. msgspec reads and checks the
values. This module turns msgspec's errors into sentences that name the field and the value. For a mistyped name, the sentence
also has the most similar name. A class can define its own JSON schema with `json_schema`.
"""

from __future__ import annotations

import re
import types
from contextlib import suppress
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from wirebroker.common.suggestions import nearest
from wirebroker.deeds.declaring import about as about

Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]

LONGEST_WORD = 100
"""Only this many characters of an unknown word are compared with the known words, because the comparison of long words takes
too much time."""
LONGEST_NUMBER = 40
"""A number in a query may have at most this many characters."""
REFERENCE = "#/components/schemas/{name}"
KINDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "null",
    "array": "a list", "object": "a JSON object",
}  # fmt: skip
BOUNDS = {">=": "at least", "<=": "at most"}
_PLACE = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


class Form(msgspec.Struct, forbid_unknown_fields=True):
    """A request or a response of an endpoint."""


class Misfit(ValueError):
    """Raised if a value does not fit its form. `field` is the place of the value, such as `headers[0].name`."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


def required(form: type[Form]) -> list[str]:
    """Returns the names of the fields without a default."""
    return [each.name for each in msgspec.structs.fields(form) if each.required]


# Reading


def read(form: type[Form], value: Any, *, as_text: bool = False) -> Any:
    """Converts the value to this form. With `as_text`, every value is a text, as in a query. Raises Misfit."""
    if as_text:
        hints = get_type_hints(form)
        value = {name: _from_text(hints[name], text) if name in hints else text for name, text in value.items()}
    try:
        found = msgspec.convert(value, form)
    except msgspec.ValidationError as wrong:
        raise _explained(form, value, str(wrong)) from None
    for name in form.__struct_fields__ if as_text else ():
        number = getattr(found, name)
        if type(number) is int and not -(2**63) <= number < 2**63:
            raise Misfit(name, f"{name} does not fit into 64 bits")
    return found


def _from_text(hint: Any, text: str) -> Any:
    """Converts a text in a query to a value of this type. Returns the text itself if it cannot be converted."""
    kinds = _alternatives(hint)
    if bool in kinds:
        return {"": True, "true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    for kind in (int, float):
        if kind in kinds and len(text) <= LONGEST_NUMBER:
            with suppress(ValueError):
                return kind(text)
    return text


def _explained(form: Any, value: Any, error: str) -> Misfit:
    """Returns msgspec's error as a sentence about the field."""
    match = _PLACE.fullmatch(error)
    assert match is not None
    problem = match[1]
    try:
        kind, value, place = _at(form, value, match[2] or "")
    except (LookupError, StopIteration, TypeError):  # the name of an unknown field looks like a path in msgspec's error
        problem, kind, place = error, form, ""
    what = place or "the body"
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", problem, re.DOTALL):
        name = _within(place, found[1])
        return Misfit(name, f"there is no {_shown(name)} here{nearest(found[1], _struct(kind).__struct_fields__)}")
    if found := re.fullmatch(r"Object missing required field `(.*)`", problem):
        hint = get_type_hints(_struct(kind), include_extras=True)[found[1]]
        told = [each.description for each in getattr(hint, "__metadata__", ()) if isinstance(each, Meta) and each.description]
        description = f": {told[0]}" if told else ""
        name = _within(place, found[1])
        return Misfit(name, f"{name} is missing{description}")
    if found := re.fullmatch(r"Expected `\w+` (>=|<=) (\S+)", problem):
        return Misfit(place, f"{what} is {BOUNDS[found[1]]} {float(found[2]):g}, not {value}"[:LONGEST_WORD])
    if found := re.fullmatch(r"Expected `(.*)`, got `.*`", problem):
        wanted = " or ".join(KINDS.get(each, each) for each in found[1].split(" | "))
        return Misfit(place, f"{what} is {wanted}, not {_shown(value)}")
    if choices := [repr(each) for one in _alternatives(kind) if get_origin(one) is Literal for each in get_args(one)]:
        return Misfit(place, f"{what} is {' or '.join(choices)}, not {_shown(value)}")
    return Misfit(place, f"{what}: {problem}")


def _at(kind: Any, value: Any, path: str) -> tuple[Any, Any, str]:
    """Returns the type, the value and the complete path of a field. `path` is msgspec's path, which omits the keys of dicts."""
    place = ""
    for name, index in _STEP.findall(path):
        if name:
            kind, value, place = get_type_hints(_struct(kind), include_extras=True)[name], value[name], _within(place, name)
            continue
        kind = get_args(next(each for each in _alternatives(kind) if get_origin(each) in (list, dict)))[-1]
        if index == "...":
            key = next(key for key, each in value.items() if not _fits(kind, each))
            value, place = value[key], _within(place, key)
        else:
            value, place = value[int(index)], f"{place}[{index}]"
    return kind, value, place


def _fits(kind: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _alternatives(hint: Any) -> list[Any]:
    """Returns the types that a type hint allows, without their annotations."""
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return [each for part in get_args(hint) for each in _alternatives(part)]
    return [hint]


def _struct(hint: Any) -> Any:
    return next(each for each in _alternatives(hint) if isinstance(each, type) and issubclass(each, Form))


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Describing


def schema(hint: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON schema of a type. Adds the schemas of forms to `named`, and refers to them by name."""
    if hasattr(hint, "json_schema"):
        described: dict[str, Any] = hint.json_schema()
        return described
    (found,), forms = msgspec.json.schema_components([hint], ref_template=REFERENCE)
    named |= forms
    return found
