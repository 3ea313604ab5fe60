"""Makes random messages from their declarations. The same seed makes the same messages."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkawire.declare import Field, Message, Struct
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import APIS
from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import request_class, response_class, versions

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
STRINGS = ("", "a", "orders", "größe", "主題", "🐟" * 3, "\x00", "n" * 126, "n" * 127, "n" * 300)
FLOATS = (0.0, -0.0, 1.5, -2.25, 1e300, 5e-324)

MESSAGES: list[type[Message]] = [kind(key) for key in APIS for kind in (request_class, response_class)]
"""The classes of all requests and responses."""


def versions_of(cls: type[Message]) -> range:
    oldest, newest = cls.__schema__.versions
    return range(oldest, newest + 1)


EVERY_VERSION = [(cls, version) for cls in MESSAGES for version in versions_of(cls)]


KAFKA, OLDER, NEWER = "4.3.1", "3.9.2", "4.4.0"
"""The releases whose definitions scripts/generate-messages reads to make the messages."""


BETWEEN_NODES = {
    52: (0, 2), 53: (0, 1), 54: (0, 1), 56: (2, 3), 58: (0, 0), 59: (0, 1), 62: (0, 4), 63: (0, 2), 67: (0, 0), 70: (0, 0),
    73: (0, 0), 82: (0, 0),
}  # fmt: skip
"""For the APIs that only brokers and controllers send to controllers: the lowest and the highest version in Kafka 4.3.1."""


def release_of(cls: type[Message], version: int) -> str:
    """Returns the release whose definition describes the version `version` of the message."""
    key = cls.__schema__.key
    oldest, newest = BETWEEN_NODES.get(key) or versions(key)
    if newest < 0:  # Kafka 4 removed the API, or 4.4 added it
        return OLDER if key < 90 else NEWER
    if version < oldest:
        return OLDER
    unstable = cls.__name__.startswith("InitProducerId")
    return KAFKA if version <= newest + unstable else NEWER


class Maker:
    """Makes random messages. Most arrays have at most `longest` elements; a few arrays have more."""

    def __init__(self, seed: object, longest: int = 3) -> None:
        self.random = Random(str(seed))
        self.longest = longest

    def message(self, cls: type[Struct], version: int) -> Any:
        """Returns a message or struct with random values. Fields that the version does not have keep their defaults."""
        present = [field for field in cls.__wire__ if field.present(version)]
        return cls(**{field.name: self.field(field, version) for field in present})

    def field(self, field: Field, version: int) -> Any:
        if field.nullable(version) and self.random.random() < 0.2:
            return None
        if field.tag is not None and self.random.random() < 0.4:
            return field.default() if callable(field.default) else field.default
        return self.value(field.spec, version)

    def value(self, spec: Any, version: int) -> Any:
        if isinstance(spec, list):
            return [self.value(spec[0], version) for _ in range(self.length(spec[0]))]
        if isinstance(spec, type):
            return self.message(spec, version)
        return self.primitive(spec)

    def length(self, element: Any) -> int:
        if isinstance(element, str) and self.random.random() < 0.03:
            return self.random.choice((126, 127, 128, 300))
        return self.random.randint(0, self.longest)

    def primitive(self, spec: str) -> Any:
        choose = self.random.choice
        if spec == "bool":
            return choose((True, False))
        if spec == "string":
            return choose(STRINGS)
        if spec == "uuid":
            return choose((bytes(16), self.random.randbytes(16)))
        if spec in ("bytes", "records"):
            return self.random.randbytes(choose((0, 1, 5, 126, 127, 128, 200)))
        if spec == "float64":
            return choose(FLOATS)
        low, high = INTEGERS[spec]
        return choose((low, high, 0, 1, max(low, -1), self.random.randint(low, high)))


def request_bytes(key: int, version: int, correlation_id: int = 7) -> bytes:
    """Returns a random request of the API with the key `key`. A Produce request never has acks=0."""
    version = min(max(version, versions_of(request_class(key))[0]), versions_of(request_class(key))[-1])
    message = Maker((key, version)).message(request_class(key), version)
    if isinstance(message, ProduceRequest):
        message.acks = -1
    return encode_request(correlation_id, "client", message, version)


def response_bytes(response: Message, version: int, correlation_id: int = 7) -> bytes:
    return b"".join(encode_response(correlation_id, response, version))


def random_response(key: int, version: int, seed: int = 0) -> Message:
    """Returns a random response. A response to ApiVersions never has an error code, because an ApiVersions response with an
    error has another form."""
    made: Message = Maker((key, version, seed)).message(response_class(key), version)
    if isinstance(made, ApiVersionsResponse):
        made.error_code = 0
    return made


def damaged(raw: bytes, random: Random) -> bytes:
    """Truncates the bytes, changes some bytes, or appends other bytes."""
    chance = random.random()
    if chance < 0.3:
        return raw[: random.randint(0, len(raw))]
    changed = bytearray(raw)
    for _ in range(random.randint(1, 3) if raw else 0):
        at = random.randrange(len(changed))
        bit = changed[at] ^ (1 << random.randrange(8))
        changed[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, bit, random.randrange(256)))
    if chance > 0.9:
        at = random.randint(0, len(changed))
        changed[at:at] = random.randbytes(random.randint(1, 5))
    return bytes(changed)
