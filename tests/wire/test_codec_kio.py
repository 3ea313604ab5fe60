"""For the requests and responses of every API and version in Kafka 4.3.1, the codec writes the same bytes as kio and reads the
same values.

kio (an independent implementation, one class per version) knows every API that a broker listens to. For some numbers (error
codes, durations, points in time) kio has its own types. So each pair of equal messages contains only numbers that our type and
kio's type can both represent.
"""

from __future__ import annotations

import io
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args, get_type_hints
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from kafkawire import codec
from kafkawire.declare import Field, Message, Struct
from kafkawire.registry import request_header_version, response_header_version
from wire.random_messages import EVERY_VERSION, KAFKA, MESSAGES, Maker, release_of, versions_of

MESSAGES_PER_VERSION = 8
CODES = [code.value for code in ErrorCode]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The numbers from which the test chooses, for each field type that kio represents by an enum, a timedelta or a datetime.
CHOICES: dict[str, tuple[int, ...]] = {
    "error_code": tuple(CODES),
    "timedelta_i32": (-(2**31), -1, 0, 1, 30_000, 2**31 - 1),
    "timedelta_i64": (-(2**40), -1, 0, 1, 30_000, 2**40),
    "datetime_i64": (0, 1_000, 1_700_000_000_000, 253_402_300_799_000),
}


def known_to_kio(cls: type[Message]) -> list[int]:
    """Returns the versions of a message that Kafka 4.3.1 has."""
    return [version for version in versions_of(cls) if release_of(cls, version) == KAFKA]


KNOWN = [cls for cls in MESSAGES if known_to_kio(cls)]


def test_kio_knows_every_api_and_version_of_its_release() -> None:
    assert {cls.__schema__.key for cls in KNOWN} - api_key_map.keys() == set()
    for cls, version in EVERY_VERSION:
        if release_of(cls, version) == KAFKA:
            assert kio_class(cls, version).__version__ == version
        else:
            with pytest.raises(Exception, match="Failed mapping"):
                kio_class(cls, version)


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
def test_messages_equal_those_of_kio_byte_for_byte(cls: type[Message]) -> None:
    for version in known_to_kio(cls):
        theirs_class = kio_class(cls, version)
        twins = Twins((cls.__name__, version))
        for _ in range(MESSAGES_PER_VERSION):
            ours, theirs = twins.message_pair(cls, theirs_class, version)
            out = io.BytesIO()
            entity_writer(theirs_class)(out, theirs)
            raw = out.getvalue()
            assert (version, codec.encode(ours, version)) == (version, raw)
            assert (version, *codec.decode(cls, raw, version)) == (version, ours, len(raw))
            assert (version, entity_reader(theirs_class)(raw, 0)) == (version, (theirs, len(raw)))


def test_header_versions_are_those_of_kio() -> None:
    for cls, version in EVERY_VERSION:
        if release_of(cls, version) != KAFKA:
            continue
        header = request_header_version if cls.__name__.endswith("Request") else response_header_version
        theirs = kio_class(cls, version)
        assert (cls, version, header(cls.__schema__.key, version)) == (
            cls,
            version,
            theirs.__header_schema__.__version__,
        )
        assert theirs.__flexible__ == (version >= cls.__schema__.flexible)


@cache
def kio_class(cls: type[Message], version: int) -> Any:
    load = load_request_schema if cls.__name__.endswith("Request") else load_response_schema
    return load(cls.__schema__.key, version)


@cache
def types_of(theirs: Any) -> dict[str, Any]:
    return get_type_hints(theirs)


class Twins(Maker):
    """Makes pairs of equal messages: ours and kio's."""

    def message_pair(self, cls: type[Struct], theirs: Any, version: int) -> tuple[Any, Any]:
        ours_values, theirs_values = {}, {}
        present = [field for field in cls.__wire__ if field.present(version)]
        for field, other in zip(present, fields(theirs), strict=True):
            assert other.name.removesuffix("_") in {
                field.name.removesuffix(end) for end in ("", "_ms", "_timestamp_ms", "_legacy")
            }
            pair = self.field_pair(field, types_of(theirs)[other.name], other.metadata.get("kafka_type"), version)
            ours_values[field.name], theirs_values[other.name] = pair
        return cls(**ours_values), theirs(**theirs_values)

    def field_pair(self, field: Field, hint: Any, kind: str | None, version: int) -> tuple[Any, Any]:
        if field.nullable(version) and self.random.random() < 0.2:
            return None, None
        if isinstance(field.spec, list):
            element = next(part for part in get_args(hint) if part is not type(None))
            element = get_args(element)[0] if field.nullable(version) else element
            pairs = [self.value_pair(field.spec[0], element, kind, version) for _ in range(self.length(field.spec[0]))]
            return [ours for ours, _ in pairs], tuple(theirs for _, theirs in pairs)
        return self.value_pair(field.spec, hint, kind, version)

    def value_pair(self, spec: Any, hint: Any, kind: str | None, version: int) -> tuple[Any, Any]:
        if isinstance(spec, type):
            theirs = next((part for part in get_args(hint) if part is not type(None)), hint)
            return self.message_pair(spec, theirs, version)
        ours = self.random.choice(CHOICES[kind]) if kind in CHOICES else self.primitive(spec)
        if kind == "datetime_i64" and type(None) in get_args(hint) and self.random.random() < 0.3:
            return -1, None
        return ours, kio_form(ours, kind, hint)


def kio_form(value: Any, kind: str | None, hint: Any) -> Any:
    if kind == "error_code":
        return ErrorCode(value)
    if kind in ("timedelta_i32", "timedelta_i64"):
        return timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return EPOCH + timedelta(milliseconds=value)
    if kind == "uuid":
        return None if value == bytes(16) and type(None) in get_args(hint) else UUID(bytes=value)
    return value
