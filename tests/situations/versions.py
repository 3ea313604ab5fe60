"""Requests in versions that the broker does not announce. They are requests of each API that it announces, and of other
APIs.
"""

from __future__ import annotations

from kafkawire.frames import encode_request
from kafkawire.messages import APIS
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.registry import api_name, request_class, versions
from situations.side import LATE_S, Side
from wirebroker.client.wire import ConnectionClosed

KEYS = range(-1, max(APIS) + 3)
BESIDE = 2
"""The number of versions that are tried after the newest known version."""
BODY = bytes(64)
"""The body of requests whose form is unknown. Kafka does not read the body."""
CLIENT = "client"
ID_BYTES = 4


def play(side: Side) -> dict[str, str]:
    """Sends all requests, each on a connection of its own. Returns "closed", or the response without its correlation id."""
    hello = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    announced = {each.api_key: range(each.min_version, each.max_version + 1) for each in side.wire.request(hello, 4).api_keys}
    outcomes = {}
    for key in KEYS:
        newest = max(versions(key)[1] if key in APIS else 0, *announced.get(key, [0]))
        for version in range(-1, newest + BESIDE + 1):
            if version not in announced.get(key, ()):
                outcomes[f"{api_name(key)} v{version}"] = _outcome(side, key, version)
    return outcomes


def _outcome(side: Side, key: int, version: int) -> str:
    with side.link() as wire:
        oldest, newest = versions(key) if key in APIS else (0, -1)
        if oldest <= version <= newest:
            wire.send_bytes(encode_request(1, CLIENT, _request(key), version))
        else:
            wire.send_raw(key, version, BODY, 1)
        try:
            return bytes(wire.frame(LATE_S))[ID_BYTES:].hex()
        except ConnectionClosed:
            return "closed"


def _request(key: int) -> object:
    """Returns a request with default values. A client_instance_id is set, because the broker would replace the default by a
    random id."""
    request = request_class(key)()
    if hasattr(request, "client_instance_id"):
        request.client_instance_id = b"\2" * 16
    return request
