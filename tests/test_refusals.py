"""The answer that an `error` makes, over all APIs and versions: where the code is, and what has become of the request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.declare import Struct
from kafkawire.frames import decode_response, encode_request
from kafkawire.registry import KEYS, request_class, versions
from wirebroker import faults, operations
from wirebroker.apis import SERVED
from wirebroker.engine import Engine
from wirebroker.exchange import Connection, Reply
from wirebroker.faults.refusals import CODES
from wirekit import NOW, batch

REFUSED = 41


def engine_with(*rules: faults.Rule) -> Engine:
    """An engine with a topic and these rules."""
    engine = Engine(NOW, os.urandom, cold_start=False)
    operations.create_topic(engine, "orders", NOW, 3)
    for rule in rules:
        engine.plan.add(rule)
    return engine


def ask(engine: Engine, request: Any, version: int, connection: Connection | None = None) -> Any:
    """What the engine answers, after whatever it has to wait for."""
    key = type(request).__schema__.key
    connection = connection or engine.connect(1)
    engine.receive(connection, memoryview(bytearray(encode_request(7, "raw", request, version)[4:])), NOW)
    if connection.parked is not None:
        engine.tick(NOW + 10_000)
    (parts,) = [effect.parts for effect in engine.take_effects() if isinstance(effect, Reply)]
    return decode_response(b"".join(map(bytes, parts))[4:], key, version)[1]


def filled(cls: type[Struct], version: int, topic_id: bytes) -> Any:
    """A request with something in each of its lists; every name is "orders"."""
    values = {field.name: _value(field.spec, version, topic_id) for field in cls.__wire__ if field.present(version)}
    return cls(**{name: value for name, value in values.items() if value is not None})


def _value(spec: Any, version: int, topic_id: bytes) -> Any:
    if isinstance(spec, list):
        return [_value(spec[0], version, topic_id)]
    if isinstance(spec, type):
        return filled(spec, version, topic_id)
    plain = {"string": "orders", "uuid": topic_id, "records": batch(), "bytes": b"", "bool": False}
    return plain.get(spec, 0)


def codes(part: Any) -> Iterator[int]:
    """Every error code in an answer."""
    for attribute in type(part).__slots__:
        value = getattr(part, attribute)
        if attribute in CODES:
            yield value
        for each in value if isinstance(value, list) else ():
            if isinstance(each, Struct):
                yield from codes(each)


EVERY_VERSION = [
    (name, version)
    for name in SERVED
    for version in range(versions(KEYS[name])[0], versions(KEYS[name])[1] + 1)
    if name != "Produce" or version >= 3
]


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
def test_every_refusal_has_the_code(name: str, version: int) -> None:
    rule = faults.error(REFUSED, api=name)
    engine = engine_with(rule)
    request = filled(request_class(KEYS[name]), version, engine.cluster.topics["orders"].topic_id)
    if name == "Produce":
        request.acks = -1
    answer = ask(engine, request, version)
    assert REFUSED in codes(answer)
    assert rule.fired == 1
