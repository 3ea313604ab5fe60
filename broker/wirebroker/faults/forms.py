"""Checks the values of the words of a fault rule. The type hint of each word determines which values are valid.

The hints are written for msgspec: `Annotated[int, Meta(ge=1)]`, `Literal["clean", "kill"]`. The check, the JSON schema and the
error messages are all derived from the hint.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

__tracebackhide__ = True  # pytest shows the caller's line

LONGEST = 60
"""An error message shows at most this many characters of an invalid value."""
NAMES = {
    "integer": "a whole number", "number": "a number", "string": "a text", "boolean": "true or false",
}  # fmt: skip


class FaultError(ValueError):
    """Raised if a rule cannot be used. `word` is the word that has to be changed."""

    def __init__(self, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.word = word


def check_value(kind: str, word: str, value: Any, hint: Any) -> None:
    """Raises FaultError unless the hint allows the value."""
    if get_origin(hint) is Callable:
        if not callable(value):
            raise FaultError(word, f"{kind}: {word} must be a function, not {_shown(value)}")
        return
    try:
        msgspec.convert(list(value) if isinstance(value, range) else value, hint)
    except msgspec.ValidationError:
        raise FaultError(word, f"{kind}: {word} must be {expected(schema_of(hint))}, not {_shown(value)}") from None


def schema_of(hint: Any) -> dict[str, Any]:
    """Returns the JSON schema of a hint. None is not part of the schema: it means that the word is absent."""
    if get_origin(hint) in (Union, UnionType):
        hint = Union[tuple(each for each in get_args(hint) if each is not NoneType)]  # noqa: UP007
    return msgspec.json.schema(hint)


def expected(schema: dict[str, Any]) -> str:
    """Describes in words the values that a schema allows."""
    if "anyOf" in schema:
        either, other = schema["anyOf"]
        return f"{expected(either)}, or {_several(other) if other.get('items') == either else expected(other)}"
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    return NAMES[schema["type"]] + _bounds(schema)


def _several(schema: dict[str, Any]) -> str:
    most = schema.get("maxItems")
    return f"a list of {schema.get('minItems', 0)}{f' to {most}' if most else ' or more'} of them"


def _bounds(schema: dict[str, Any]) -> str:
    least, above, most = (schema.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    if least is not None and most is not None:
        return f" from {least} to {most}"
    bounds = []
    if least is not None:
        bounds.append(f"of at least {least}")
    if above is not None:
        bounds.append(f"greater than {above}")
    if most is not None:
        bounds.append(f"at most {most}")
    return f" {' and '.join(bounds)}" if bounds else ""


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not print a whole number with thousands of digits
        return "this one"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
