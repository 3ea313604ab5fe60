"""The topics, leaders and fetch sessions that a proxy learns from forwarded requests and responses (see
`requests.received.Directory`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kafkawire.declare import Message
from kafkawire.disk.names import METADATA_TOPIC, METADATA_TOPIC_ID
from kafkawire.entities import first, parts
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.metadata import MetadataResponse
from kafkawire.primitives import ZERO_UUID
from kafkawire.registry import KEYS
from wirebroker.common.bounded import Bounded
from wirebroker.requests.parts import NOT_ABOUT

TEACHING = frozenset((KEYS["Metadata"], KEYS["CreateTopics"], KEYS["DescribeTopicPartitions"]))
"""The APIs whose responses name topics and their ids."""
MOST_SESSIONS = 10_000
"""At most this many fetch sessions are remembered. Each broker keeps 1,000."""
UNKNOWN_OFFSET = -1
INITIAL_EPOCH, FINAL_EPOCH = 0, -1

MOST_TOPICS = 100_000
"""At most this many topics are remembered. A topic that was deleted and created again counts twice."""
MOST_LEADERS = 100_000
"""The leaders of at most this many partitions are remembered."""
Session = tuple[int, int]
"""The id of a node, and the id of a fetch session on that node."""


class LearnedLeaders:
    """The partition leaders that responses to Metadata have named. A response with an earlier leader epoch is ignored."""

    def __init__(self) -> None:
        self._known: Bounded[tuple[str, int], tuple[int, int]] = Bounded(MOST_LEADERS)

    def forget(self, topics: Collection[str]) -> None:
        """Forget the leaders of topics that were created again."""
        for key in [key for key in self._known if key[0] in topics]:
            del self._known[key]

    def learn(self, response: MetadataResponse, directory: LearnedDirectory) -> Iterator[tuple[str, int, int, int]]:
        """Remember the leaders in a response, except the leaders of topics that were deleted. For each leader that has changed,
        yields the topic, the partition, the leader and the leader epoch.
        """
        for topic in response.topics:
            for part in topic.partitions if not directory.is_former(topic.topic_id) else ():
                key, found = (topic.name or "", part.partition_index), (part.leader_id, part.leader_epoch)
                known = self._known.get(key)
                if known is not None and (found == known or found[1] < known[1]):
                    continue
                self._known.put(key, found)
                if known is not None:
                    yield *key, *found


class LearnedDirectory:
    """The topics and fetch sessions that requests and responses have named. The directory has no committed offsets."""

    def __init__(self) -> None:
        self._names: Bounded[bytes, str] = Bounded(MOST_TOPICS)
        """The names of topics by id. If a topic was deleted and created again, the former id still has the name, because a
        broker may name such an id for some time after another broker has named the new id."""
        self._ids: Bounded[str, bytes] = Bounded(MOST_TOPICS)
        self._sessions: Bounded[Session, dict[tuple[str, int], tuple[bytes, int]]] = Bounded(MOST_SESSIONS)
        """The partitions of each fetch session, each with the id of its topic and the latest requested offset."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of the topic with this id, or None."""
        return METADATA_TOPIC if topic_id == METADATA_TOPIC_ID else self._names.get(topic_id)

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
        held = self._sessions.get((node_id, request.session_id), {}).get((topic, partition))
        return UNKNOWN_OFFSET if held is None else held[1]

    def group_partitions(self, group_id: str) -> Iterable[tuple[str, int]]:
        """Returns nothing, because the directory of a proxy has no committed offsets."""
        return ()

    def is_former(self, topic_id: bytes) -> bool:
        """Tells whether the topic with this id was deleted, and another topic has its name."""
        return self._ids.get(self._names.get(topic_id, ""), topic_id) != topic_id

    def learn(self, response: Message) -> set[str]:
        """If the response has the name and the id of a topic, remember both. Returns the names of topics that were deleted and
        created again."""
        renewed = set()
        for part in parts(response):
            name, topic_id = first(part, "topicName"), first(part, "topicId")
            if not name or not topic_id or topic_id == ZERO_UUID or self.is_former(topic_id):
                continue
            if self._ids.get(name, topic_id) != topic_id:
                renewed.add(name)
            self._names.put(topic_id, name)
            self._ids.put(name, topic_id)
        return renewed

    def fetched(self, request: FetchRequest, response: FetchResponse, node_id: int) -> None:
        """Update a fetch session (KIP-227). The Fetch has added partitions to the session or removed partitions from it."""
        if request.session_epoch == FINAL_EPOCH or not response.session_id or response.error_code:
            self._sessions.pop((node_id, request.session_id), None)
            return
        held = self._sessions.get_or_make((node_id, response.session_id), dict)
        if request.session_epoch == INITIAL_EPOCH:
            held.clear()
        for topic in request.topics:
            if name := topic.topic or self.topic_name(topic.topic_id):
                held.update({(name, each.partition): (topic.topic_id, each.fetch_offset) for each in topic.partitions})
        for where, topic_id in self._forgotten(request):
            # If a topic was created again, one Fetch forgets the partition of the former topic and adds that of the new one.
            if held.get(where, (topic_id,))[0] == topic_id:
                held.pop(where, None)

    def _forgotten(self, request: Any) -> Iterable[tuple[tuple[str, int], bytes]]:
        for topic in getattr(request, NOT_ABOUT[0]):
            name = topic.topic or self.topic_name(topic.topic_id) or ""
            yield from (((name, index), topic.topic_id) for index in topic.partitions)
