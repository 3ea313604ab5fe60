"""Filters for trace rows. `trace show --where`, `kafka.trace.where(…)`, the HTTP control and the live page use the same
grammar.

    api=Produce error!=NONE               both hold
    topic=orders or topic=payments
    not (client~load or latency<100)      `~`: contains
    "out of order"                        some field contains these words

A filter can name the fields of rows (docs/reference/trace.md) and the fields in `NAMES`. A field such as `topic` may have
several values in a row. The row meets `=` if one of the values is equal, and `!=` if all values are different. A row without
the field meets only `!=` and `!~`. There is one exception: only rows with an error meet `error!=NONE`. Upper and lower case are
the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from kafkawire.errors import ErrorCode
from kafkawire.registry import KEYS
from wirebroker.common.suggestions import did_you_mean
from wirebroker.requests import details
from wirebroker.trace import selection
from wirebroker.trace.rows import EVENTS, ReplyRow, Row
from wirebroker.trace.selection import topics_of, values_of

DEEPEST = 50
"""Parentheses and `not` may be nested at most this deep."""
LONGEST = 2000
"""A filter may have at most this many characters."""
_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")
_TOKEN = re.compile(r'\s*(?:(\()|(\))|(!=|!~|<=|>=|=|~|<|>)|"([^"]*)"|([^\s()=~<>!"]+))')
NO_ERROR = "none"
API_OF = {"produce": "Produce", "shadow": "Produce", "fetch": "Fetch"}
"""For each kind of event that only one API causes: this API. The rows of such an event do not name the API."""


def _api(row: Row) -> Iterable[Any]:
    return (API_OF[row.event],) if row.event in API_OF else values_of("api")(row)


def _errors(row: Row) -> Iterable[Any]:
    if isinstance(row, ReplyRow):
        return row.errors or ("NONE",)
    return values_of("error")(row)


def _latency(row: Row) -> Iterable[Any]:
    """Returns the latency minus the time in which the broker waited intentionally."""
    return (row.latency - row.waited,) if isinstance(row, ReplyRow) else ()


NAMES: Mapping[str, Callable[[Row], Iterable[Any]]] = {
    **selection.NAMES,
    "event": lambda row: (row.event,),
    "api": _api,
    "partition": lambda row: [index for _, index in topics_of(row) if index is not None],
    "error": _errors,
    "latency": _latency,
    "host": values_of("client_host"),
}
"""Fields whose values are computed from a row's own fields."""
OWN = {name for row in EVENTS.values() for name in row.__struct_fields__} | details.NAMES
"""The names of all fields that rows have, and of all fields that a row's `details` can have."""


KNOWN: Mapping[str, Iterable[str]] = {
    "api": KEYS, "event": EVENTS, "error": ErrorCode.__members__, "verdict": ("accepted", "duplicate", "rejected"),
}  # fmt: skip
"""The fields whose values are names, each with the valid names."""
LIKE = 0.6
"""A value counts as a misspelt name if its similarity to the name (0 to 1) is at least this."""


class FilterError(ValueError):
    """Raised if a text is not a valid filter. The message names the mistake and its place."""


class Word(Struct, frozen=True):
    """A row meets this filter if one of the row's fields contains this text."""

    text: str

    def has(self, row: Row) -> bool:
        """Tells whether the row meets the filter."""
        names = (*row.__struct_fields__, *NAMES)
        return any(self.text in _text(value) for name in names for value in _values(row, name))

    def tree(self) -> list[Any]:
        """Returns the filter as JSON, for the live page."""
        return ["word", self.text]


class Comparison(Struct, frozen=True):
    """A filter that compares a field with a value."""

    field: str
    operator: str
    value: str

    def has(self, row: Row) -> bool:
        """Tells whether the row meets the filter."""
        values = _values(row, self.field)
        if self.field == "error" and self.value == NO_ERROR and not values:
            return False
        met = any(_meets(value, self.operator.removeprefix("!"), self.value) for value in values)
        return not met if self.operator.startswith("!") else met

    def tree(self) -> list[Any]:
        """Returns the filter as JSON, for the live page."""
        return ["is", self.field, self.operator, self.value]


class Combined(Struct, frozen=True):
    """A filter that combines other filters with `all`, `any` or `not`."""

    how: str
    parts: tuple[Filter, ...]

    def has(self, row: Row) -> bool:
        """Tells whether the row meets the filter."""
        if self.how == "not":
            return not self.parts[0].has(row)
        return (all if self.how == "all" else any)(part.has(row) for part in self.parts)

    def tree(self) -> list[Any]:
        """Returns the filter as JSON, for the live page."""
        return [self.how, *(part.tree() for part in self.parts)]


Filter = Word | Comparison | Combined


def parsed(text: str) -> Filter:
    """Parses the text of a filter. An empty text gives a filter that every row meets. Raises FilterError."""
    if len(text) > LONGEST:
        raise FilterError(f"a filter has at most {LONGEST} characters, not {len(text)}")
    reader = _Reader(list(_tokens(text)))
    found = reader.either(0) if reader.tokens else Combined("all", ())
    if reader.at < len(reader.tokens):
        raise FilterError(f"the filter has a ) without a (, at character {reader.tokens[reader.at][2] + 1}")
    return found


NAMED_IN_JSON = {*selection.NAMES, "event", "api", "partition", "error"}
"""The computed fields whose values are also in the row's JSON, except the values in `DERIVED_VALUES`."""
DERIVED_VALUES = {("api", "produce"), ("api", "fetch"), ("event", "produce"), ("error", "none")}
"""For some fields, the values that a row can have although the row's JSON does not contain them."""


def needles(wanted: Filter) -> tuple[bytes, ...] | None:
    """Returns lower-case texts. If a row meets the filter, its JSON contains at least one of these texts. Returns None if there
    are no such texts.

    A search in a large file can skip rows without any of these texts.
    """
    if isinstance(wanted, Combined):
        parts = [needles(part) for part in wanted.parts]
        if wanted.how == "any":
            return None if None in parts else tuple(each for part in parts for each in part or ())
        found = [part for part in parts if part is not None] if wanted.how == "all" else []
        return min(found, key=lambda part: (len(part), -min(map(len, part), default=0))) if found else None
    if isinstance(wanted, Comparison):
        if wanted.operator not in ("=", "~") or (wanted.field, wanted.value) in DERIVED_VALUES:
            return None
        if wanted.field in NAMES and wanted.field not in NAMED_IN_JSON:
            return None
        if wanted.operator == "~" and wanted.field in ("api", "event", "error"):
            return None
        text = wanted.value
    else:
        text = wanted.text
        if any(text in value for _, value in DERIVED_VALUES):
            return None
    safe = re.fullmatch(r"[ -!#-.0-\[\]-~]+", text)  # a text without characters that JSON escapes
    return (text.encode(),) if safe else None


ALIASES = {"client": "client_id", "host": "client_host"}
"""Maps each short name that a filter may use to the full name of the field."""


def contradiction(wanted: Filter) -> str:
    """Returns a sentence if the filter names an event and also a field that rows of this event do not have: no row can meet
    such a filter. Otherwise returns "".
    """
    parts = wanted.parts if isinstance(wanted, Combined) and wanted.how == "all" else (wanted,)
    compared = [each for each in parts if isinstance(each, Comparison) and not each.operator.startswith("!")]
    for event in (each.value for each in compared if each.field == "event" and each.operator == "=" and each.value in EVENTS):
        own = EVENTS[event].__struct_fields__
        for each in compared:
            name = ALIASES.get(each.field, each.field)
            if each.field in NAMES and each.field not in ALIASES:
                continue  # computed from other fields of the row
            if name not in own and (name in OWN - details.NAMES or (name in details.NAMES and "details" not in own)):
                return f"rows of the event {event} have no {each.field}"
    return ""


def _values(row: Row, name: str) -> Iterable[Any]:
    return (NAMES.get(name) or values_of(name))(row)


def _text(value: Any) -> str:
    """Returns the value as its text in JSON, in lower case."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value).lower()


def _meets(value: Any, operator: str, wanted: str) -> bool:
    if operator == "=":
        return _text(value) == wanted
    if operator == "~":
        return wanted in _text(value)
    if isinstance(value, str | bool):
        return False
    limit = float(wanted)
    return bool({"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[operator])


Token = tuple[str, str, int]
"""The kind of a token, its text, and the index of its first character."""


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FilterError(f'character {at + 1} begins a quoted text that has no second "')
        kind = ("open", "close", "operator", "quoted", "word")[(match.lastindex or 1) - 1]
        yield kind, match[match.lastindex or 1], match.start(match.lastindex or 1)
        at = match.end()


class _Reader:
    """Parses filters from tokens. The parser begins with the operator that binds loosest, `or`."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def _next(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", -1)

    def _take(self, kind: str, text: str = "") -> bool:
        found = self._next()
        taken = found[0] == kind and (not text or found[1].lower() == text)
        self.at += taken
        return taken

    def either(self, depth: int) -> Filter:
        """Reads filters with `or` between them."""
        parts = [self.both(depth)]
        while self._take("word", "or"):
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else Combined("any", tuple(parts))

    def both(self, depth: int) -> Filter:
        """Reads filters that follow one another directly, or with `and` between them."""
        parts = [self.one(depth)]
        while self._take("word", "and") or not (self._next()[0] in ("end", "close") or self._next()[1].lower() == "or"):
            parts.append(self.one(depth))
        return parts[0] if len(parts) == 1 else Combined("all", tuple(parts))

    def one(self, depth: int) -> Filter:
        """Reads one comparison, some words, or a filter in parentheses."""
        if depth > DEEPEST:
            raise FilterError(f"a filter may be nested at most {DEEPEST} deep")
        if self._take("word", "not"):
            return Combined("not", (self.one(depth + 1),))
        if self._take("open"):
            inner = self.either(depth + 1)
            if not self._take("close"):
                raise FilterError("the filter has a ( without a )")
            return inner
        kind, text, at = self._next()
        if kind not in ("word", "quoted"):
            where = f"at character {at + 1}" if kind != "end" else "at its end"
            raise FilterError(f"the filter needs a field or a word {where}, as in api=Produce")
        self.at += 1
        if kind == "word" and self._next()[0] == "operator":
            return self._comparison(text)
        return Word(text.lower())

    def _comparison(self, field: str) -> Filter:
        if field not in NAMES and field not in OWN:
            raise FilterError(f"no row has a field {field!r}{did_you_mean(field, (*NAMES, *OWN))}")
        operator = self._next()[1]
        self.at += 1
        kind, value, _ = self._next()
        if kind not in ("word", "quoted"):
            raise FilterError(f'{field}{operator} needs a value; write {field}{operator}"" for an empty value')
        self.at += 1
        if operator in ("=", "!="):
            _check_name(field, value)
        if operator in ("<", "<=", ">", ">="):
            _check_number(field, operator, value)
        return Comparison(field, operator, value.lower())


def _check_name(field: str, value: str) -> None:
    """Refuses a value that is not a valid name of its field, but is similar to a valid name."""
    known = {name.lower(): name for name in KNOWN.get(field, ())}
    if known and value.lower() not in known and (advice := did_you_mean(value.lower(), known, LIKE)):
        meant = next(name for name in known if repr(name) in advice)
        raise FilterError(f"there is no {field} {value!r}; did you mean {known[meant]!r}?")


def _check_number(field: str, operator: str, value: str) -> None:
    if not _NUMBER.fullmatch(value):
        raise FilterError(f"{field}{operator} needs a number, not {value!r}")
