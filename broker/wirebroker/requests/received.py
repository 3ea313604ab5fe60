"""The facts about a received request besides its message, and the directory of the cluster that received the request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkawire.messages.fetch import FetchRequest
from wirebroker.requests.connection import Connection


class Directory(Protocol):
    """Finds topic names by id, and the partitions of fetch sessions and groups. A broker knows these facts; a proxy learns them
    from responses.
    """

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of the topic with this id."""

    def topic_id(self, name: str) -> bytes:
        """Returns the id of the topic with this name; zeros if the topic is not known."""

    def topics(self) -> Iterable[str]:
        """Returns the names of all topics."""

    def session_partitions(self, request: FetchRequest, node_id: int) -> Iterable[tuple[str, int]]:
        """Returns the partitions that an incremental Fetch reads because they are in its session. The request itself does not
        name these partitions.
        """

    def group_partitions(self, group_id: str) -> Iterable[tuple[str, int]]:
        """Returns the partitions for which the group has committed offsets."""


class Received(Protocol):
    """The facts about a received request besides its message."""

    api_key: int
    version: int
    client_id: str | None
    connection: Connection

    @property
    def node_id(self) -> int:
        """The id of the node that received the request."""

    @property
    def directory(self) -> Directory:
        """The topic names, sessions and groups of the cluster that received the request."""
