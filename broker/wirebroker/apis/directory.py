"""A broker's directory of topics, sessions and offsets (see `requests.received.Directory`)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.messages.fetch import FetchRequest
from kafkawire.primitives import ZERO_UUID
from wirebroker.core.cluster import Cluster
from wirebroker.core.fetch_sessions import INITIAL_EPOCH, FetchSessions
from wirebroker.core.groups.offsets import OffsetStore


class EngineDirectory:
    """The topics, fetch sessions and committed offsets of an engine."""

    def __init__(self, cluster: Cluster, sessions: FetchSessions, offsets: OffsetStore) -> None:
        self._cluster = cluster
        self._sessions = sessions
        self._offsets = offsets

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._cluster.topic_name(topic_id)

    def topic_id(self, name: str) -> bytes:
        """Returns the id of the topic with this name, or zeros if the topic does not exist."""
        known = self._cluster.topics.get(name)
        return known.topic_id if known else ZERO_UUID

    def topics(self) -> Iterable[str]:
        return self._cluster.topics

    def session_partitions(self, request: FetchRequest, node_id: int) -> Iterable[tuple[str, int]]:
        """Returns the partitions in the session of an incremental Fetch. The Fetch reads all these partitions."""
        if request.session_epoch <= INITIAL_EPOCH:
            return
        for topic, index in self._sessions.held(request, node_id):
            name = self.topic_name(topic) if isinstance(topic, bytes) else topic
            if name in self._cluster.topics:
                yield name, index

    def group_partitions(self, group_id: str) -> Iterable[tuple[str, int]]:
        """Returns the partitions for which the group has committed offsets."""
        return self._offsets.of(group_id)
