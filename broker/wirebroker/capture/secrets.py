"""Secrets in frames: what proves who somebody is never goes into a capture.

A frame with a secret keeps its size and its other fields. Where it cannot be read, nothing of it is kept but its header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafkawire.errors import ProtocolError
from kafkawire.fields import Node, read_fields
from kafkawire.frames import SIZE, read_request_header, read_response_header
from kafkawire.registry import KEYS, request_class, response_class

SECRET_APIS = frozenset(
    KEYS[name]
    for name in (
        "SaslAuthenticate", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
        "DescribeDelegationToken", "AlterUserScramCredentials", "AlterConfigs", "IncrementalAlterConfigs",
    )
)  # fmt: skip
SECRET_FIELDS = frozenset(("auth_bytes", "hmac", "salt", "salted_password"))
SECRET_SETTING = re.compile(r"password|passphrase|secret|jaas|certificate|credential|token|\.key$")
"""In the name of a setting: its value is a secret. Kafka's settings of type password are all like that, of any listener."""
REDACTED = b"*"
ANSWER_HEADER, REQUEST_HEADER = 4, 8


def redacted_request(frame: bytes) -> bytes:
    """A request, with its size in front, of one of SECRET_APIS."""
    try:
        header = read_request_header(memoryview(frame)[SIZE.size :])
        cls = request_class(header.api_key)
        nodes, _ = read_fields(cls, frame, header.api_version, SIZE.size + header.end)
    except (ProtocolError, KeyError):
        return hidden(frame, SIZE.size + REQUEST_HEADER)
    return _without(frame, nodes)


def redacted_answer(frame: bytes, key: int, version: int) -> bytes:
    """An answer, with its size in front, to a request of one of SECRET_APIS."""
    try:
        _, pos = read_response_header(memoryview(frame)[SIZE.size :], key, version)
        nodes, _ = read_fields(response_class(key), frame, version, SIZE.size + pos)
    except (ProtocolError, KeyError):
        return hidden(frame, SIZE.size + ANSWER_HEADER)
    return _without(frame, nodes)


def hidden(data: bytes, start: int) -> bytes:
    """The same number of bytes, of which only the first `start` are as they were."""
    return data[:start] + REDACTED * (len(data) - start)


def _without(frame: bytes, nodes: list[Node]) -> bytes:
    found = bytearray(frame)
    for leaf in _secrets(nodes):
        size = len(leaf.value.encode() if isinstance(leaf.value, str) else leaf.value)
        found[leaf.end - size : leaf.end] = REDACTED * size
    return bytes(found)


def _secrets(nodes: list[Node]) -> Iterator[Node]:
    """The secret fields among these of one struct, and inside them. A setting is a struct with a name and a value."""
    name = next((str(node.value) for node in nodes if node.name == "name"), "")
    for node in nodes:
        if isinstance(node.value, list):
            yield from _secrets(node.value)
        elif node.value and (node.name in SECRET_FIELDS or (node.name == "value" and SECRET_SETTING.search(name))):
            yield node
