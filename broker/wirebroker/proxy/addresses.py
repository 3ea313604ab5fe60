"""Replaces the brokers' addresses in responses by the proxy's addresses. A client that learned a broker's own address would
bypass the proxy.

The responses of seven APIs contain addresses of brokers. Responses that name controllers, such as the responses to
DescribeQuorum and Vote, are not changed, because clients do not connect to controllers through the proxy. If the proxy cannot
read a version of one of the seven APIs, the response to ApiVersions must not offer this version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafkawire.declare import Message
from kafkawire.entities import holders
from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.registry import KEYS, response_class

Address = tuple[str, int]
Locate = Callable[[str, int, int], Address]
"""A function that returns the address at which clients reach a node through the proxy. Its arguments are the node's own host,
port and id."""

CARRIERS = {
    KEYS["Metadata"]: 0, KEYS["FindCoordinator"]: 0, KEYS["DescribeCluster"]: 0, KEYS["Produce"]: 10, KEYS["Fetch"]: 16,
    KEYS["ShareFetch"]: 0, KEYS["ShareAcknowledge"]: 0,
}  # fmt: skip
"""The APIs whose responses contain addresses, each with the first version that contains addresses (KIP-951 for Produce and
Fetch)."""
PRODUCE_BY_ID = 13
"""From this version on, responses to Produce have topic ids instead of names."""
LONG = 128
"""From this value on, a length is encoded in more than one byte."""
PARTITION = 30
"""The number of bytes of a partition in a response to Produce, from the partition's index to the log start offset."""
UNREMARKABLE = b"\1\0\0"
"""The last fields of a partition in a response to Produce, if the partition has no record errors, error message or tagged
fields."""
THROTTLE = 4
NODE_LISTS = ("brokers", "coordinators", "node_endpoints")


def carries_addresses(key: int, version: int) -> bool:
    """Tells whether the response to this API in this version may contain an address."""
    since = CARRIERS.get(key)
    return since is not None and version >= since


def names_no_node(response: memoryview, version: int) -> bool:
    """Tells whether a response to Produce (version 10 or newer) has no tagged fields. A response without tagged fields names no
    node. `response` includes the size field.

    The proxy does not have to decode such a response. Nearly all responses are of this kind, and decoding is the slowest part
    of forwarding. If the check would take long, the function also returns False.
    """
    try:
        topics, pos = response[9], 10
        if response[8] or not 0 < topics < LONG:
            return False
        for _ in range(topics - 1):
            name = 16 if version >= PRODUCE_BY_ID else response[pos]
            pos += name
            partitions = response[pos]
            if not (0 < name < LONG and 0 < partitions < LONG):
                return False
            pos += 1
            for _ in range(partitions - 1):
                pos += PARTITION + len(UNREMARKABLE)
                if response[pos - len(UNREMARKABLE) : pos] != UNREMARKABLE:
                    return False
            if response[pos]:
                return False
            pos += 1
        return response[pos + THROTTLE] == 0 and len(response) == pos + THROTTLE + 1
    except IndexError:
        return False


class NamelessResponses:
    """Recognises responses to Produce that name no node.

    The responses to one producer differ only in the fields of the partition. So `includes` first compares the other fields of
    each response with the same fields of an earlier response.
    """

    def __init__(self) -> None:
        self._version, self._size, self._behind = -1, 0, 0
        self._start = self._end = b""
        """Two parts of the latest response that has exactly one partition: the bytes from position 8 to the partition's fields,
        and the bytes after these fields."""

    def includes(self, response: memoryview, version: int) -> bool:
        """Tells whether this response (including the size field) names no node. If the check would take long, also returns
        False."""
        start = self._start
        if (
            version == self._version
            and len(response) == self._size
            and response[8 : 8 + len(start)] == start
            and response[self._behind :] == self._end
        ):
            return True
        if not names_no_node(response, version):
            return False
        at = 11 + (16 if version >= PRODUCE_BY_ID else response[10])
        if response[9] == 2 == response[at - 1]:
            self._version, self._size, self._behind = version, len(response), at + PARTITION
            self._start, self._end = bytes(response[8:at]), bytes(response[at + PARTITION :])
        return True


def redirect(response: Message, locate: Locate) -> bool:
    """Replace the addresses in a response by the proxy's addresses. Returns True if an address has changed."""
    changed = False
    for node in _nodes(response):
        if node.host:  # in FindCoordinator, the host is empty if there is no coordinator
            (id_field,) = holders(type(node), "brokerId")
            own, node.host, node.port = (node.host, node.port), *locate(node.host, node.port, getattr(node, id_field))
            changed |= own != (node.host, node.port)
    return changed


def _nodes(response: Any) -> Iterator[Any]:
    """Yields the parts of a response that have a host and a port."""
    if hasattr(response, "host"):  # FindCoordinator up to version 3
        yield response
    for name in NODE_LISTS:
        yield from getattr(response, name, ())


def limit_versions(response: ApiVersionsResponse) -> bool:
    """Remove the newest versions of the seven APIs from the response, down to a version that this proxy can read. Returns True
    if a version has changed."""
    changed = False
    for offered in response.api_keys:
        if offered.api_key in CARRIERS:
            newest = response_class(offered.api_key).__schema__.versions[1]
            changed |= newest < offered.max_version
            offered.max_version = min(offered.max_version, newest)
    return changed
