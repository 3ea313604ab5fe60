"""Converts messages' fields to plain data that JSON can represent, and back.

A string stays a string. Bytes become a string if they are printable text, else `{"hex": …}`. A UUID becomes a string in the
form in which Kafka prints it. When a string is converted back, the declared type of the field determines the form of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafkawire.declare import Struct
from kafkawire.fields import UNKNOWN_TAG, Node
from kafkawire.primitives import format_uuid, parse_uuid
from wirebroker.common.suggestions import did_you_mean

S = TypeVar("S", bound=Struct)
InBytes = Callable[[str, bytes], Any]
"""A function that converts the bytes of a field to a message. Its arguments are the field's name and the bytes. The function
returns None if the bytes are not a message."""
FromPlain = Callable[[dict[str, Any], str], bytes]
"""A function that converts the result of an `InBytes` function back to bytes. Its second argument is the path of the field, for
the message of PlainError."""


class PlainError(ValueError):
    """Raised if plain data does not fit the fields of the message. The error's message names the path of the field."""


def plain_of(nodes: list[Node], in_bytes: InBytes, records: Callable[[Node], Any] | None = None) -> dict[str, Any]:
    """Returns the fields of a message or struct as plain data. The function `records` converts a field that contains record
    batches."""
    return {node.name: _plain(node, node.name, in_bytes, records) for node in nodes}


def _plain(node: Node, name: str, in_bytes: InBytes, records: Callable[[Node], Any] | None) -> Any:
    value, spec = node.value, node.spec
    if value is None:
        return None
    if isinstance(spec, list):
        return [_plain(each, name, in_bytes, records) for each in value]
    if isinstance(spec, type):
        return plain_of(value, in_bytes, records)
    if spec == "uuid":
        return format_uuid(value)
    if spec == "records" and records is not None:
        return records(node)
    if spec in ("bytes", "records"):
        found = in_bytes(name, value)
        return plain_bytes(value) if found is None else found
    return value


def plain_bytes(raw: bytes | None) -> Any:
    """Returns bytes as a string if they are printable text, else as `{"hex": …}`."""
    if raw is None:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return {"hex": raw.hex()}
    return text if all(letter.isprintable() or letter in "\n\t" for letter in text) else {"hex": raw.hex()}


def bytes_of(plain: Any, from_plain: FromPlain, path: str) -> bytes | None:
    """Converts `plain`, the result of `plain_bytes` or of an `InBytes` function, back to bytes. Raises PlainError."""
    if plain is None:
        return None
    if isinstance(plain, str):
        try:
            return plain.encode()
        except UnicodeEncodeError:
            raise PlainError(f"{path}: this text is not valid Unicode") from None
    if not isinstance(plain, Mapping):
        raise PlainError(f'{path}: {plain!r} is neither a text nor {{"hex": …}}')
    if set(plain) != {"hex"}:
        return from_plain(dict(plain), path)
    try:
        return bytes.fromhex(plain["hex"])
    except (TypeError, ValueError):
        raise PlainError(f"{path}: {plain['hex']!r} is not hex") from None


def message_of(
    cls: type[S], plain: Any, from_plain: FromPlain, path: str = "",
    records: Callable[[Any, str], bytes] | None = None,
) -> S:  # fmt: skip
    """Returns the message or struct with the fields in `plain`. Fields that are not in `plain` get their default values. Raises
    PlainError."""
    if not isinstance(plain, Mapping):
        raise PlainError(f"{path}: {plain!r} is not an object with the fields of {cls.__name__}")
    specs = {field.name: field.spec for field in cls.__wire__}
    values = {}
    for name, value in plain.items():
        where = f"{path}.{name}" if path else name
        if name.startswith(UNKNOWN_TAG):
            raise PlainError(f"{where}: wirebroker cannot write a tagged field that Kafka does not have; leave the field out")
        if name not in specs:
            raise PlainError(f"{where}: {cls.__name__} has no such field{did_you_mean(name, specs)}")
        values[name] = _value(specs[name], value, from_plain, where, records)
    return cls(**values)


def _value(spec: Any, plain: Any, from_plain: FromPlain, path: str, records: Callable[[Any, str], bytes] | None) -> Any:
    if plain is None:
        return None
    if isinstance(spec, list):
        if not isinstance(plain, list):
            raise PlainError(f"{path}: {plain!r} is not a list")
        return [_value(spec[0], each, from_plain, f"{path}[{at}]", records) for at, each in enumerate(plain)]
    if isinstance(spec, type):
        return message_of(spec, plain, from_plain, path, records)
    if spec == "records" and records is not None:
        return records(plain, path)
    if spec in ("bytes", "records"):
        return bytes_of(plain, from_plain, path)
    if spec == "uuid":
        try:
            return parse_uuid(plain)
        except (TypeError, ValueError):
            raise PlainError(f"{path}: {plain!r} is not an id as Kafka prints it") from None
    if spec == "float64" and isinstance(plain, int):
        return float(plain)
    return plain
