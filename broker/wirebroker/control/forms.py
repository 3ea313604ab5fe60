"""Forms: dataclasses that are read from JSON, written as JSON, and described as JSON schemas.

The type hints decide: str, int, float, bool, None, Any, Literal, `X | Y`, list, dict with names as keys, and other
dataclasses; `Annotated[int, "what it is", Limits(minimum=1)]` says more. A class with a `json_schema` of its own is taken
as it comes.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

_NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_SAID = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null"}


LONGEST_WORD = 100
"""Of a word that does not exist so many characters are compared with those that do; comparing takes long."""


class Misfit(ValueError):
    """What was given does not fit the form; `field` says where, as `headers[0].name`."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class Limits:
    """What JSON schema says of a value beside its type: `minimum`, `maximum`, `examples` …"""

    def __init__(self, **words: Any) -> None:
        self.words = words


class Hint(NamedTuple):
    """The type of a field, and what its annotation says of it."""

    kind: Any
    words: dict[str, Any]


@cache
def hints(kind: Any) -> dict[str, Hint]:
    """The fields of a form. Beside a type, text is its description."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is ClassVar:
            continue
        words: dict[str, Any] = {}
        for said in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
            words |= {"description": said} if isinstance(said, str) else said.words
        found[name] = Hint(get_args(hint)[0] if get_origin(hint) is Annotated else hint, words)
    return found


def needed(kind: Any) -> list[str]:
    """The fields that must be given."""
    return [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]


# Reading


def read(kind: Any, value: Any, where: str = "", *, as_text: bool = False) -> Any:
    """The value as this dataclass. `as_text`: every value came as text, as in a query. Raises Misfit."""
    if not isinstance(value, Mapping):
        raise Misfit(where, f"{where or 'the body'} is a JSON object, not {_shown(value)}")
    known = hints(kind)
    found = {}
    for name, given in value.items():
        place = _within(where, name)
        if name not in known:
            raise Misfit(place, f"there is no {place!r} here{nearest(name, known)}")
        kind_of, limits = known[name]
        found[name] = _fit(kind_of, _from_text(kind_of, given) if as_text else given, place, limits)
    for name in needed(kind):
        if name not in found:
            place, what = _within(where, name), known[name].words.get("description", "")
            raise Misfit(place, f"{place} is missing{what and f': {what}'}")
    return kind(**found)


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _fit(hint: Any, value: Any, where: str, limits: Mapping[str, Any]) -> Any:
    """The value as what the hint says. Raises Misfit."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where, limits)
    if origin is Literal:
        if value not in get_args(hint):
            raise Misfit(where, f"{where} is {' or '.join(map(repr, get_args(hint)))}, not {_shown(value)}")
        return value
    if origin is list and isinstance(value, list):
        return [_fit(get_args(hint)[0], each, f"{where}[{i}]", {}) for i, each in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {key: _fit(get_args(hint)[1], each, _within(where, key), {}) for key, each in value.items()}
    if is_dataclass(hint):
        return read(hint, value, where)
    if not _is(hint, value):
        raise Misfit(where, f"{where} is {_wanted(hint)}, not {_shown(value)}")
    if value is not None:
        _check_limits(value, where, limits)
    return value


def _one_of(hints: tuple[Any, ...], value: Any, where: str, limits: Mapping[str, Any]) -> Any:
    for hint in hints:
        if _is(hint, value):
            return _fit(hint, value, where, limits)
    raise Misfit(where, f"{where} is {' or '.join(map(_wanted, hints))}, not {_shown(value)}")


def _is(hint: Any, value: Any) -> bool:
    """Whether the value is of this kind, its parts not looked at."""
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) in (list, dict):
        return isinstance(value, get_origin(hint))
    if is_dataclass(hint):
        return isinstance(value, dict)
    return type(value) is hint


def _wanted(hint: Any) -> str:
    if get_origin(hint) is list:
        return "a list"
    return _SAID.get(_NAMES.get(hint, ""), "a JSON object")


def _check_limits(value: Any, where: str, limits: Mapping[str, Any]) -> None:
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise Misfit(where, f"{where} does not fit into 64 bits")
    least, most, longest = (limits.get(word) for word in ("minimum", "maximum", "maxLength"))
    if least is not None and value < least:
        raise Misfit(where, f"{where} is at least {least}, not {value}")
    if most is not None and value > most:
        raise Misfit(where, f"{where} is at most {most}, not {value}")
    if longest is not None and len(value) > longest:
        raise Misfit(where, f"{where} has at most {longest} characters, not {len(value)}")


def _from_text(hint: Any, text: str) -> Any:
    """What a text in a query stands for; the text itself if it cannot be read as what is wanted."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if bool in kinds and text.lower() in ("true", "false", "1", "0", ""):
        return text.lower() in ("true", "1", "")
    for kind in (int, float):
        if kind in kinds and len(text) <= 40:
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is none of these."""
    close = get_close_matches(word[:LONGEST_WORD], list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


# Writing


def plain(value: Any) -> Any:
    """What JSON can say of it: dataclasses as objects."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


# Describing


def schema(hint: Any, named: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type; dataclasses are put into `named` and referred to."""
    origin, parts = get_origin(hint), get_args(hint)
    if hasattr(hint, "json_schema"):
        described: dict[str, Any] = hint.json_schema()
        return described
    if origin in (Union, types.UnionType):
        simple = [_NAMES[part] for part in parts if part in _NAMES]
        if len(simple) == len(parts):
            return {"type": simple}
        return {"anyOf": [schema(part, named) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(parts[0], named)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(parts[1], named)}
    if is_dataclass(hint):
        return _form(hint, named)
    return {} if hint is Any else {"type": _NAMES[hint]}


def _form(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    if kind.__name__ not in named:
        named[kind.__name__] = {}  # so that a form may hold itself
        named[kind.__name__] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip(),
            "properties": {name: schema(hint.kind, named) | hint.words for name, hint in hints(kind).items()},
            "required": needed(kind),
            "additionalProperties": False,
        }
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
