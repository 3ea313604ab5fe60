"""The journal: the records that an application meant to send, as a file or as rows.

A journal is a file of JSON lines. Each line is an object with these fields; a missing field is null:

    topic          text
    partition      number; null: any
    key            text (UTF-8), or key_base64 for other bytes; null: a record without a key
    value          text, or value_base64, or value_sha256, the hash alone (`audit.content.digest`); all null: a null value
    acknowledged   true: the broker acknowledged the record · false: sending was reported as failed · null: unknown
    producer       the application's name for the sender
    id             lines with the same id are one record: each adds fields that the others leave null, and `acknowledged`
                   is true if any line says so

So an application can write a record down before it sends the record, and append the outcome later. Lines are never rewritten,
and their order does not matter. A Parquet file has the same fields, one row for each record.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from wirebroker.audit.content import digest, head
from wirebroker.audit.wording import Wording
from wirebroker.common.suggestions import did_you_mean

FIELDS = (
    "topic", "partition", "key", "key_base64", "value", "value_base64", "value_sha256", "acknowledged", "producer", "id",
)  # fmt: skip
PARTITIONS = 2**31
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
Data = bytes | str | None
Rows = Iterable["Intended | Mapping[str, Any] | tuple[Any, ...]"] | str | os.PathLike[str]
"""Intended records: rows as mappings or tuples, or the path of a journal."""


class Intended(NamedTuple):
    """One record that an application meant to send.

    A plain tuple has topic, key and value, and then the other fields if known.
    """

    topic: str
    key: bytes | None = None
    value: bytes | None = None
    partition: int | None = None
    acknowledged: bool | None = None
    producer: str | None = None
    value_hash: str | None = None
    """the SHA-256, if the value itself is not known"""

    @property
    def digest(self) -> str | None:
        """Returns the hash of the value, or None for a null value."""
        return self.value_hash if self.value_hash is not None else digest(self.value)

    def __str__(self) -> str:
        return str(Wording().record(self.key is not None, head(self.key), self.shown))

    @property
    def shown(self) -> str:
        """The value for explanations."""
        return f"the SHA-256 {self.value_hash}" if self.value_hash is not None else head(self.value)


class Journal:
    """Writes a journal. Each line is written immediately, so a killed process does not lose the line. Any thread may use the
    journal.

        with Journal("sent.jsonl", producer="till 3") as journal:
            entry = journal.sent("orders", key=b"17", value=b"a pound of tea")
            producer.send(...).add_callback(lambda _: journal.acknowledged(entry)).add_errback(lambda _: journal.failed(entry))

    If the file exists, lines are appended to it.
    """

    def __init__(self, path: str | os.PathLike[str], producer: str | None = None) -> None:
        self._producer = producer
        self._file = Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._token = os.urandom(6).hex()
        self._numbers = count(1)
        self._lock = threading.Lock()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def sent(self, topic: str, *, key: Data = None, value: Data = None, partition: int | None = None) -> str:
        """Write down a record before it is sent. Returns the record's id. Pass this id to `acknowledged` or `failed`, which
        write down the outcome."""
        entry = f"{self._token}-{next(self._numbers)}"
        line = {"id": entry, "topic": topic, "partition": partition, "producer": self._producer}
        self._write(line | _as_json("key", key) | _as_json("value", value))
        return entry

    def acknowledged(self, entry: str) -> None:
        """Write down that the broker has acknowledged the record."""
        self._write({"id": entry, "acknowledged": True})

    def failed(self, entry: str) -> None:
        """Write down that the client has reported a failure to send the record."""
        self._write({"id": entry, "acknowledged": False})

    def close(self) -> None:
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps({name: value for name, value in line.items() if value is not None})
        with self._lock:
            self._file.write(text + "\n")


def _as_json(name: str, data: Data) -> dict[str, str]:
    if data is None:
        return {}
    if isinstance(data, str):
        return {name: data}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def intended_rows(rows: Rows) -> list[Intended]:
    """Returns the intended records in one form, whichever form the rows have. Raises a ValueError that names the malformed row
    and the reason."""
    if isinstance(rows, str | os.PathLike):
        return _merged(_lines(Path(rows)))
    return _merged((f"intended row {number}", row) for number, row in enumerate(rows, 1))


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path.name}, line {number}"
            if line.strip():
                yield where, parse_line(line, where)


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """Returns the JSON object in a line. Raises a ValueError whose text begins with `where`."""
    try:
        row = json.loads(line.decode().rstrip())
    except UnicodeDecodeError as wrong:
        raise ValueError(f"{where}: the line is not UTF-8: {wrong}") from None
    except (ValueError, RecursionError) as wrong:  # for a number with thousands of digits, json raises a plain ValueError
        raise ValueError(f"{where}: the line is not JSON: {wrong}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected a JSON object with a topic, not {line.decode().strip()[:40]}")
    return row


def part_of(row: Mapping[str, Any], where: str) -> Intended:
    """Returns the intended record in one row, before rows with the same id are merged.

    A row with an id may leave out the topic, which is then empty.

    Raises a ValueError whose text begins with `where`.
    """
    _check_fields(row, where)
    topic = row.get("topic")
    return _of_mapping({**row, "topic": "" if topic is None and row.get("id") is not None else topic}, where)


def _merged(rows: Iterable[tuple[str, Any]]) -> list[Intended]:
    single: list[Intended] = []
    by_id: dict[Any, tuple[str, dict[str, Any]]] = {}
    for where, row in rows:
        if not isinstance(row, Mapping):
            single.append(_of_tuple(row, where))
            continue
        _check_fields(row, where)
        if (entry := row.get("id")) is None:
            single.append(_of_mapping(row, where))
            continue
        _, known = by_id.setdefault(entry, (where, {}))
        for name, value in row.items():
            if value is not None and (name != "acknowledged" or value or known.get(name) is None):
                known[name] = value
    return single + [_of_mapping(row, where) for where, row in by_id.values()]


def _check_fields(row: Mapping[str, Any], where: str) -> None:
    for name in row:
        if name not in FIELDS:
            raise ValueError(f"{where}: there is no field {name!r}{did_you_mean(str(name), FIELDS)}")
    if isinstance(row.get("id"), list | dict):
        raise ValueError(f"{where}: id must be text or a number, not {row['id']!r}")


def _of_mapping(row: Mapping[str, Any], where: str) -> Intended:
    if row.get("topic") is None:
        raise ValueError(
            f"{where}: the row has no topic" + (", and no other row with this id has a topic" if "id" in row else "")
        )
    key, value = _bytes_of("key", row, where), _bytes_of("value", row, where)
    given = (row["topic"], key, value, row.get("partition"), row.get("acknowledged"), row.get("producer"))
    return _checked((*given, row.get("value_sha256")), where)


def _bytes_of(name: str, row: Mapping[str, Any], where: str) -> Data:
    given = [form for form in (name, f"{name}_base64", f"{name}_sha256") if row.get(form) is not None]
    if len(given) > 1:
        raise ValueError(f"{where}: {' and '.join(given)} give the {name} twice; use one of them")
    encoded = row.get(f"{name}_base64")
    if encoded is None:
        return row.get(name)
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError) as wrong:
        raise ValueError(f"{where}: {name}_base64 is not base64: {wrong}") from None


def _of_tuple(row: Any, where: str) -> Intended:
    if not isinstance(row, tuple) or not 1 <= len(row) <= len(Intended._fields):
        raise ValueError(f"{where}: expected a mapping or a tuple of topic, key, value, …, not {row!r}")
    return _checked(row, where)


def _checked(values: tuple[Any, ...], where: str) -> Intended:
    row = Intended(*values)
    kinds: dict[str, tuple[type, ...]] = {
        "topic": (str,), "key": (bytes, str), "value": (bytes, str), "partition": (int,), "acknowledged": (bool,),
        "producer": (str,), "value_hash": (str,),
    }  # fmt: skip
    for name, allowed in kinds.items():
        value = getattr(row, name)
        if value is not None and not (isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))):
            words = " or ".join(kind.__name__ for kind in allowed)
            raise ValueError(f"{where}: {name} must be {words}, not {value!r}")
        if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
            raise ValueError(f"{where}: {name} cannot be encoded as UTF-8: {value!r}")
    if row.partition is not None and not 0 <= row.partition < PARTITIONS:
        raise ValueError(f"{where}: partition must be between 0 and {PARTITIONS - 1}, not {row.partition}")
    if row.value_hash is not None and not SHA256.fullmatch(row.value_hash):
        raise ValueError(f"{where}: value_sha256 must be 64 hexadecimal digits, not {row.value_hash!r}")
    key, value = row.key, row.value
    return row._replace(
        key=key.encode() if isinstance(key, str) else key, value=value.encode() if isinstance(value, str) else value,
        value_hash=None if row.value_hash is None else row.value_hash.lower(),
    )  # fmt: skip
