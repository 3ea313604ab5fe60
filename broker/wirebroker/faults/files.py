"""Reads and writes fault files, which contain fault rules in TOML. An error message names the line of the error.

seed = 7

[[fault]]
kind = "lose_ack"
api = "Produce"
topic = "orders"
nth = 4
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kafkawire.printable import printable
from wirebroker.common.suggestions import nearest
from wirebroker.common.toml import read_toml, text_of, toml_of
from wirebroker.faults.forms import FaultError, schema_of
from wirebroker.faults.rules import KINDS, Rule, needed_by, words_of


def file_kinds() -> list[str]:
    """Returns the names of the kinds of faults that a fault file can contain."""
    return [name for name, kind in KINDS.items() if kind.in_files]


class FaultFileError(ValueError):
    """Raised if a fault file cannot be used. The message names the file and the line, and says how to correct the file."""


class FaultFile(NamedTuple):
    """The content of a fault file. `seed` is None if the file has no seed."""

    rules: list[Rule]
    seed: int | None
    places: list[str]
    """the file and line of each rule"""


def load(path: Path) -> FaultFile:
    """Read a fault file. Raises FaultFileError, OSError."""
    return loads(text_of(path, FaultFileError), str(path))


def loads(text: str, where: str) -> FaultFile:
    """Read the text of a fault file. `where` is the file's name in error messages. Raises FaultFileError."""
    return parse(read_toml(text, where, FaultFileError), where, text)


def parse(document: dict[str, Any], where: str, text: str = "") -> FaultFile:
    """Returns the rules of a parsed TOML document. `text` is the source of the document, from which error messages get the line
    numbers. Raises FaultFileError."""
    lines = _Lines(where, text)
    for key in document:
        if key not in ("seed", "fault"):
            raise FaultFileError(f"{lines.of(None, key)}: a fault file has no {key!r}{nearest(key, ('seed', 'fault'))}")
    seed = document.get("seed")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise FaultFileError(f"{lines.of(None, 'seed')}: seed must be a whole number, not {seed!r}")
    tables = document.get("fault", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FaultFileError(f"{lines.of(None, 'fault')}: write each rule as a table [[fault]]")
    rules = [_rule(table, lines, number) for number, table in enumerate(tables)]
    return FaultFile(rules, seed, [lines.of(number, "kind") for number in range(len(rules))])


def _rule(table: dict[str, Any], lines: _Lines, number: int) -> Rule:
    try:
        return read_rule(table)
    except FaultError as wrong:
        raise FaultFileError(f"{lines.of(number, wrong.word)}: {wrong}") from None


def read_rule(table: Mapping[str, Any]) -> Rule:
    """Returns the rule that one table [[fault]] describes. Raises FaultError."""
    name = table.get("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None or not kind.in_files:
        what = "this fault has no kind" if name is None else f"there is no kind {name!r}"
        raise FaultError("kind", f"{what}{nearest(str(name), file_kinds())}")
    for word, value in table.items():
        if value is None:
            raise FaultError(word, f"{name}: {word} must not be null; leave it out")
    return kind(**{word: value for word, value in table.items() if word != "kind"})


class _Lines:
    """Finds the line in a fault file at which a given fault has a given word."""

    def __init__(self, where: str, text: str) -> None:
        self._where = where
        self._starts: list[int] = []
        self._lines = text.splitlines()
        for index, line in enumerate(self._lines):
            if re.match(r"\s*\[\[\s*fault\s*\]\]", line):
                self._starts.append(index)

    def of(self, number: int | None, word: str) -> str:
        """Returns `file:line`. If the file's text is empty, returns the file's name and the fault's number instead."""
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
    """Returns the rules as the text of a fault file. A rule that has a function cannot be written, so a comment takes its
    place."""
    parts = [f"seed = {seed}\n"]
    for rule in rules:
        if not rule.in_files:
            parts.append(printable(f"# not written, because it has a function: {rule}") + "\n")
            continue
        words = "".join(f"{word} = {toml_of(value)}\n" for word, value in rule.described().items())
        parts.append(f"[[fault]]\n{words}")
    return "\n".join(parts)


def schema() -> dict[str, Any]:
    """Returns the JSON schema of a fault file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wirebroker fault file",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "seed": {"type": "integer", "description": "the seed of the random choices of rules with a probability"},
            "fault": {"type": "array", "items": rule_schema()},
        },
    }


def rule_schema() -> dict[str, Any]:
    """Returns the JSON schema of one [[fault]]."""
    return {"oneOf": [_schema_of_kind(KINDS[name]) for name in file_kinds()]}


def _schema_of_kind(kind: type[Rule]) -> dict[str, Any]:
    words = {word: schema_of(hint) for word, hint in words_of(kind).items()}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", *needed_by(kind)],
        "properties": {"kind": {"const": kind.kind}, **words},
    }
