"""The topics, leaders and fetch sessions that a proxy learns from forwarded requests and responses (see
`requests.received.Directory`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kafkawire.declare import Message
from kafkawire.disk.names import METADATA_TOPIC, METADATA_TOPIC_ID
from kafkawire.entities import first, parts
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.metadata import MetadataResponse
from kafkawire.primitives import ZERO_UUID
from kafkawire.registry import KEYS
from wirebroker.requests.parts import NOT_ABOUT

TEACHING = frozenset((KEYS["Metadata"], KEYS["CreateTopics"], KEYS["DescribeTopicPartitions"]))
"""The APIs whose responses name topics and their ids."""
MOST_SESSIONS = 10_000
"""At most this many fetch sessions are remembered. Each broker keeps 1,000."""
UNKNOWN_OFFSET = -1
INITIAL_EPOCH, FINAL_EPOCH = 0, -1

MOST_LEADERS = 100_000
"""The leaders of at most this many partitions are remembered."""
Session = tuple[int, int]
"""The id of a node, and the id of a fetch session on that node."""


class LearnedLeaders:
    """The partition leaders that responses to Metadata have named. A response with an earlier leader epoch is ignored."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, int]] = {}

    def learn(self, response: MetadataResponse) -> Iterator[tuple[str, int, int, int]]:
        """Remember the leaders in a response. For each leader that has changed, yields the topic, the partition, the leader and
        the leader epoch.
        """
        for topic in response.topics:
            for part in topic.partitions:
                key, found = (topic.name or "", part.partition_index), (part.leader_id, part.leader_epoch)
                known = self._known.get(key)
                if known is not None and (found == known or found[1] < known[1]):
                    continue
                if known is None and len(self._known) >= MOST_LEADERS:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = found
                if known is not None:
                    yield *key, *found


class LearnedDirectory:
    """The topics and fetch sessions that requests and responses have named. The directory has no committed offsets."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {METADATA_TOPIC_ID: METADATA_TOPIC}
        self._ids: dict[str, bytes] = {}
        self._sessions: dict[Session, dict[tuple[str, int], int]] = {}
        """The partitions of each fetch session, each with the latest requested offset."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of the topic with this id, or None."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> bytes:
        """Returns the id of the topic with this name, or zeros if the id is not known."""
        return self._ids.get(name, ZERO_UUID)

    def topics(self) -> Iterable[str]:
        """Returns the names of the known topics."""
        return tuple(self._ids)

    def session_partitions(self, request: FetchRequest, node_id: int) -> Iterable[tuple[str, int]]:
        """Returns the partitions in the session of an incremental Fetch. The Fetch reads all these partitions, but
        names only some of them."""
        if request.session_epoch <= INITIAL_EPOCH:
            return ()
        return tuple(self._sessions.get((node_id, request.session_id), ()))

    def session_offset(self, request: FetchRequest, node_id: int, topic: str, partition: int) -> int:
        """Returns the offset from which a Fetch reads a partition, or −1 if the offset is unknown. The partition is in the
        session of the Fetch, but not in its request."""
        return self._sessions.get((node_id, request.session_id), {}).get((topic, partition), UNKNOWN_OFFSET)

    def group_partitions(self, group_id: str) -> Iterable[tuple[str, int]]:
        """Returns nothing, because the directory of a proxy has no committed offsets."""
        return ()

    def learn(self, response: Message) -> None:
        """Remember the name and the id of each topic for which the response has both."""
        for part in parts(response):
            name, topic_id = first(part, "topicName"), first(part, "topicId")
            if name and topic_id and topic_id != ZERO_UUID:
                self._names[topic_id] = name
                self._ids[name] = topic_id

    def fetched(self, request: FetchRequest, response: FetchResponse, node_id: int) -> None:
        """Update a fetch session (KIP-227). The Fetch has added partitions to the session or removed partitions from it."""
        if request.session_epoch == FINAL_EPOCH or not response.session_id or response.error_code:
            self._sessions.pop((node_id, request.session_id), None)
            return
        held = self._sessions.setdefault((node_id, response.session_id), {})
        if request.session_epoch == INITIAL_EPOCH:
            held.clear()
        for topic in request.topics:
            if name := topic.topic or self._names.get(topic.topic_id, ""):
                held.update({(name, each.partition): each.fetch_offset for each in topic.partitions})
        for forgotten in self._forgotten(request):
            held.pop(forgotten, None)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))

    def _forgotten(self, request: Any) -> Iterable[tuple[str, int]]:
        for topic in getattr(request, NOT_ABOUT[0]):
            name = topic.topic or self._names.get(topic.topic_id, "")
            yield from ((name, index) for index in topic.partitions)
