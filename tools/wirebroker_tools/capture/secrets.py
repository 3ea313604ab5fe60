"""Hides secrets in frames, so that a capture never contains a credential.

A frame with a secret keeps its size and its other fields. If the frame cannot be read, only its header is kept.

The value of a setting is kept if Kafka knows the setting and does not hide it (`Definitions`). The value of any other setting
is hidden, because the setting's name does not tell whether the value is a secret. Responses to DescribeConfigs stay unchanged,
because the broker itself hides secret values in these responses.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.errors import ProtocolError
from kafkawire.fields import UNKNOWN_TAG, Node, read_fields
from kafkawire.frames import SIZE, read_request_header, read_response_header
from kafkawire.registry import KEYS, request_class, response_class
from wirebroker.core.setting_definitions import CLIENT_METRICS_SETTINGS, DEFINITIONS, GROUP_SETTINGS, TOPIC_SETTINGS

SECRET_APIS = frozenset(
    KEYS[name]
    for name in (
        "SaslAuthenticate", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
        "DescribeDelegationToken", "AlterUserScramCredentials", "AlterConfigs", "IncrementalAlterConfigs", "CreateTopics",
    )
)  # fmt: skip
SECRET_FIELDS = frozenset(("auth_bytes", "hmac", "salt", "salted_password"))
SHOWN_SETTINGS = TOPIC_SETTINGS.keys() | GROUP_SETTINGS.keys() | CLIENT_METRICS_SETTINGS.keys()
LOGGERS = 8
"""The resource type whose settings are levels of loggers."""
REDACTED = b"*"
RESPONSE_HEADER, REQUEST_HEADER = 4, 8


def redacted_request(frame: bytes) -> bytes:
    """Hides the secrets in a request of one of SECRET_APIS. The frame begins with its size."""
    try:
        header = read_request_header(memoryview(frame)[SIZE.size :])
        cls = request_class(header.api_key)
        nodes, _ = read_fields(cls, frame, header.api_version, SIZE.size + header.end)
    except (ProtocolError, KeyError):
        return hidden(frame, SIZE.size + REQUEST_HEADER)
    return _without(frame, nodes)


def redacted_response(frame: bytes, key: int, version: int) -> bytes:
    """Hides the secrets in a response to one of SECRET_APIS. The frame begins with its size."""
    try:
        _, pos = read_response_header(memoryview(frame)[SIZE.size :], key, version)
        nodes, _ = read_fields(response_class(key), frame, version, SIZE.size + pos)
    except (ProtocolError, KeyError):
        return hidden(frame, SIZE.size + RESPONSE_HEADER)
    return _without(frame, nodes)


def hidden(data: bytes, start: int) -> bytes:
    """Returns a copy of the data, in which all bytes after the first `start` bytes are overwritten."""
    return data[:start] + REDACTED * (len(data) - start)


def _without(frame: bytes, nodes: list[Node]) -> bytes:
    found = bytearray(frame)
    for leaf in _secrets(nodes):
        size = len(leaf.value.encode() if isinstance(leaf.value, str) else leaf.value)
        found[leaf.end - size : leaf.end] = REDACTED * size
    return bytes(found)


def _secrets(nodes: list[Node]) -> Iterator[Node]:
    """Yields the secret fields of a struct and of its nested structs. A setting is a struct with a name and a value."""
    values = {node.name: node.value for node in nodes}
    if values.get("resource_type") == LOGGERS:
        return
    for node in nodes:
        if isinstance(node.value, list):
            yield from _secrets(node.value)
        elif node.value and (
            node.name in SECRET_FIELDS
            or node.name.startswith(UNKNOWN_TAG)
            or (node.name == "value" and _may_be_secret(str(values.get("name"))))
        ):
            yield node


def _may_be_secret(setting: str) -> bool:
    return setting not in SHOWN_SETTINGS and DEFINITIONS.of_broker(setting).sensitive
