"""Fault files: the same rules in TOML, with errors that point at the line.

seed = 7

[[fault]]
kind = "lose_ack"
api = "Produce"
topic = "orders"
nth = 4
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from wirebroker import faults
from wirebroker.faults.rules import Count, FaultError, Match, Rule

MAKERS: dict[str, tuple[Callable[..., Rule], tuple[str, ...]]] = {
    "lose_request": (faults.lose_request, ("then",)),
    "lose_ack": (faults.lose_ack, ("then",)),
    "error": (faults.error, ("code", "after")),
    "delay": (faults.delay, ("ms", "after")),
    "disconnect": (faults.disconnect, ("after",)),
    "throttle": (faults.throttle, ("ms",)),
    "reorder": (faults.reorder, ("others",)),
    "cut": (faults.cut, ("bytes", "request")),
    "slice": (faults.slice, ("bytes", "ms")),
    "bandwidth": (faults.bandwidth, ("rate",)),
    "corrupt": (faults.corrupt, ("bytes", "at")),
    "reset": (faults.reset, ("after",)),
    "refuse": (faults.refuse, ()),
    "close": (faults.close, ("ms",)),
    "fail_write": (faults.fail_write, ()),
    "slow_write": (faults.slow_write, ("ms",)),
    "disk_full": (faults.disk_full, ()),
    "crash_after_write": (faults.crash_after_write, ()),
    "expire_producer": (faults.expire_producer, ()),
    "expire_transactional_id": (faults.expire_transactional_id, ()),
    "fence": (faults.fence, ()),
    "restart": (faults.restart, ("mode",)),
    "truncate": (faults.truncate, ("offset",)),
    "lose_coordinator": (faults.lose_coordinator, ()),
}
"""Kind to what makes it, and the words that it has beside those of every rule."""
REQUIRED: dict[str, tuple[str, ...]] = {
    "error": ("code",), "delay": ("ms",), "throttle": ("ms",), "cut": ("bytes",), "slice": ("bytes",), "bandwidth": ("rate",),
    "slow_write": ("ms",), "expire_transactional_id": ("transactional_id",), "fence": ("transactional_id",),
    "truncate": ("offset", "topic", "partition"),
}  # fmt: skip
"""Words that a kind cannot do without."""
_NUMBER = {"type": "integer"}
_NUMBERS = {"oneOf": [_NUMBER, {"type": "array", "items": _NUMBER, "minItems": 1}]}
_RANGE = {"oneOf": [_NUMBER, {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": 2}]}
_WORDS: dict[str, dict[str, Any]] = {
    "api": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
    "version": _RANGE, "topic": {"type": "string"}, "partition": _NUMBER | {"minimum": 0}, "client_id": {"type": "string"},
    "node": _NUMBER, "producer_id": _NUMBER, "producer_epoch": _NUMBER, "sequence": _RANGE,
    "transactional_id": {"type": "string"}, "group": {"type": "string"}, "nth": _NUMBERS,
    "every": _NUMBER | {"minimum": 1}, "probability": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "times": _NUMBER | {"minimum": 1}, "name": {"type": "string"}, "then": {"enum": ["disconnect", "silence"]},
    "code": {"type": ["integer", "string"], "minimum": -(2**15), "maximum": 2**15 - 1},
    "after": {"type": "boolean"}, "ms": _NUMBER | {"minimum": 0},
    "others": _NUMBER | {"minimum": 1}, "bytes": _NUMBER | {"minimum": 0}, "rate": _NUMBER | {"minimum": 1}, "at": _NUMBER,
    "offset": _NUMBER | {"minimum": 0}, "request": {"type": "boolean"}, "mode": {"enum": ["clean", "kill"]},
}  # fmt: skip
MOST_DOTS = 100
"""Dots that a line of a fault file may have: what tomllib takes for a dotted key grows with the square of its parts."""


def words_of(kind: str) -> tuple[str, ...]:
    """The words that a fault of this kind may have, beside its kind."""
    match = ("node",) if kind == "refuse" else Match.__slots__
    return (*match, *Count.__slots__, "name", *MAKERS[kind][1])


class FaultFileError(ValueError):
    """A fault file that cannot be used; the message names the file, the line and what to do."""


class FaultFile(NamedTuple):
    """What a fault file says; `seed` is None if it says none."""

    rules: list[Rule]
    seed: int | None


def load(path: Path) -> FaultFile:
    """Read a fault file. Raises FaultFileError, OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise FaultFileError(f"{path}: this is not UTF-8: {wrong}") from None
    return loads(text, str(path))


def loads(text: str, where: str) -> FaultFile:
    """Read the text of a fault file; errors call it `where`. Raises FaultFileError."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS:
            raise FaultFileError(f"{where}:{number}: this line has more than {MOST_DOTS} dots")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as damage:  # a number of thousands of digits is a plain ValueError
        raise FaultFileError(f"{where}: this is no TOML: {damage}") from None
    return parse(document, where, text)


def parse(document: dict[str, Any], where: str, text: str = "") -> FaultFile:
    """The rules of a document; `text` is what it was read from, for the lines in errors. Raises FaultFileError."""
    lines = _Lines(where, text)
    for key in document:
        if key not in ("seed", "fault"):
            raise FaultFileError(f"{lines.of(None, key)}: there is no {key!r} here{_nearest(key, ('seed', 'fault'))}")
    seed = document.get("seed")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise FaultFileError(f"{lines.of(None, 'seed')}: the seed is a whole number, not {seed!r}")
    tables = document.get("fault", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FaultFileError(f"{lines.of(None, 'fault')}: rules are written as [[fault]]")
    return FaultFile([_rule(table, lines, number) for number, table in enumerate(tables)], seed)


def _rule(table: dict[str, Any], lines: _Lines, number: int) -> Rule:
    try:
        return read_rule(table)
    except FaultError as wrong:
        raise FaultFileError(f"{lines.of(number, wrong.word)}: {wrong}") from None


def read_rule(table: Mapping[str, Any]) -> Rule:
    """A rule from the words of one [[fault]]. Raises FaultError."""
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in MAKERS:
        what = "this fault has no kind" if kind is None else f"there is no kind {kind!r}"
        raise FaultError("kind", f"{what}{_nearest(str(kind), MAKERS)}")
    maker, known = MAKERS[kind][0], words_of(kind)
    words = {word: value for word, value in table.items() if word != "kind"}
    for word, value in words.items():
        if word not in known:
            raise FaultError(word, f"{kind} knows no {word!r}{_nearest(word, known)}")
        if not _is_of(value, _WORDS[word]):
            raise FaultError(word, f"{word} cannot be {value!r}")
    for needed in REQUIRED.get(kind, ()):
        if needed not in words:
            raise FaultError("kind", f"{kind} needs {needed!r}")
    return maker(**words)


def _is_of(value: Any, wanted: dict[str, Any]) -> bool:
    """Whether a value is of the type that the schema says."""
    if "oneOf" in wanted:
        return any(_is_of(value, each) for each in wanted["oneOf"])
    if "enum" in wanted:
        return value in wanted["enum"]
    kinds = wanted["type"] if isinstance(wanted["type"], list) else [wanted["type"]]
    if isinstance(value, list):
        return "array" in kinds and bool(value) and all(_is_of(each, wanted["items"]) for each in value)
    if isinstance(value, bool):
        return "boolean" in kinds
    names = {int: ("integer", "number"), float: ("number",), str: ("string",)}
    return any(name in kinds for name in names.get(type(value), ()))


class _Lines:
    """Where in the text the fault with this number has a word."""

    def __init__(self, where: str, text: str) -> None:
        self._where = where
        self._starts: list[int] = []
        self._lines = text.splitlines()
        for index, line in enumerate(self._lines):
            if re.match(r"\s*\[\[\s*fault\s*\]\]", line):
                self._starts.append(index)

    def of(self, number: int | None, word: str) -> str:
        """`file:line`, or the file alone if it cannot be told."""
        if not self._lines:
            return self._where if number is None else f"{self._where}, fault {number + 1}"
        first, last = 0, len(self._lines)
        if number is not None and number < len(self._starts):
            first = self._starts[number]
            last = self._starts[number + 1] if number + 1 < len(self._starts) else last
        for index in range(first, last):
            if re.match(rf"\s*\"?{re.escape(word)}\"?\s*=", self._lines[index]):
                return f"{self._where}:{index + 1}"
        return f"{self._where}:{first + 1}"


def dump(rules: Iterable[Rule], seed: int) -> str:
    """The rules as a fault file. A rule with a callable cannot be written, and is named in a comment."""
    parts = [f"seed = {seed}\n"]
    for rule in rules:
        if rule.kind == "answer":
            parts.append(f"# not written, because it is a function: {rule}\n")
            continue
        words = "".join(f"{word} = {_toml(value)}\n" for word, value in rule.described().items())
        parts.append(f"[[fault]]\n{words}")
    return "\n".join(parts)


def _toml(value: Any) -> str:
    """A value as TOML, which is JSON but for one character that it wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def schema() -> dict[str, Any]:
    """The JSON schema of a fault file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wirebroker fault file",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "seed": {"type": "integer", "description": "what probabilities are drawn from"},
            "fault": {"type": "array", "items": rule_schema()},
        },
    }


def rule_schema() -> dict[str, Any]:
    """The JSON schema of one [[fault]]."""
    return {"oneOf": [_schema_of(kind) for kind in MAKERS]}


def _schema_of(kind: str) -> dict[str, Any]:
    words = {word: _WORDS[word] for word in words_of(kind)}
    if "ms" in words and kind not in ("slice", "close"):
        words["ms"] = _NUMBER | {"minimum": 1} | ({"maximum": 2**31 - 1} if kind == "throttle" else {})
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", *REQUIRED.get(kind, ())],
        "properties": {"kind": {"const": kind}, **words},
    }


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(known))}"
