"""A received request without its message, and the cluster that it reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkawire.messages.fetch import FetchRequest
from wirebroker.requests.connection import Connection


class Directory(Protocol):
    """The names that belong to ids, sessions and groups. A broker knows them; a proxy learns them from passing responses."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""

    def topic_id(self, name: str) -> bytes:
        """The id of the topic with this name; zeros if it is not known."""

    def topics(self) -> Iterable[str]:
        """The names of all topics."""

    def session_partitions(self, request: FetchRequest, node_id: int) -> Iterable[tuple[str, int]]:
        """The partitions that an incremental Fetch reads because its session holds them."""

    def group_partitions(self, group_id: str) -> Iterable[tuple[str, int]]:
        """The partitions for which the group has committed offsets."""


class Received(Protocol):
    """A request that reached a node, apart from its message."""

    api_key: int
    version: int
    client_id: str | None
    connection: Connection

    @property
    def node_id(self) -> int:
        """The node that it reached."""

    @property
    def directory(self) -> Directory:
        """The names that the cluster knows."""
