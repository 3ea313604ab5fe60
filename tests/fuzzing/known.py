"""The facts that the fuzzer has learned from the broker's responses: topics, members, producers and offsets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kafkawire.declare import Message, Struct

REMEMBERED = 12
"""At most this many values of each kind are remembered. The oldest value is forgotten first."""

KINDS = {
    "topic_id": "topic_id", "member_id": "member_id", "leader": "member_id", "generation_id": "generation",
    "member_epoch": "generation", "producer_id": "producer_id", "producer_epoch": "producer_epoch",
    "session_id": "session", "base_offset": "offset", "high_watermark": "offset", "log_start_offset": "offset",
    "end_offset": "offset", "committed_offset": "offset", "offset": "offset", "timestamp": "timestamp",
    "node_id": "node", "leader_epoch": "leader_epoch", "log_dir": "path", "transactional_id": "transactional_id",
    "group_id": "group", "topic_name": "topic", "group_instance_id": "instance",
}  # fmt: skip
"""Fields of responses, and the kinds of their values."""


@dataclass(slots=True)
class Member:
    """A member of a group: the values that its requests contain."""

    group: str
    member_id: str
    generation: int
    classic: bool = True


@dataclass(slots=True)
class Producer:
    """A producer, and its next sequence in each partition."""

    producer_id: int
    epoch: int
    transactional_id: str | None
    sequences: dict[tuple[Any, int], int] = field(default_factory=dict)


class Known:
    """Remembered values by kind. If the seed and the responses are the same, the choices are the same."""

    def __init__(self, random: Random, topics: tuple[str, ...]) -> None:
        self.random = random
        self._pools: dict[str, deque[Any]] = {}
        self.members: deque[Member] = deque(maxlen=REMEMBERED)
        self.producers: deque[Producer] = deque(maxlen=REMEMBERED)
        for name in topics:
            self.add("topic", name)
        for number in range(2):
            self.add("group", f"group-{number}")
            self.add("transactional_id", f"transaction-{number}")
            self.add("instance", f"instance-{number}")
        self.add("node", 1)

    def add(self, kind: str, value: Any) -> None:
        """Remember a value."""
        pool = self._pools.setdefault(kind, deque(maxlen=REMEMBERED))
        if value not in pool:
            pool.append(value)

    def pick(self, kind: str, default: Any) -> Any:
        """Chooses a remembered value of this kind, or returns the default if there is none."""
        pool = self._pools.get(kind)
        return self.random.choice(pool) if pool else default

    def all(self, kind: str) -> list[Any]:
        """Returns every remembered value of this kind."""
        return list(self._pools.get(kind, ()))

    def learn(self, request: Message | None, response: Message) -> None:
        """Remembers those values of a response that later requests can use."""
        self._walk(response)
        if request is not None and getattr(response, "error_code", 0) in (
            0,
            79,
        ):  # a response with MEMBER_ID_REQUIRED also has a member id
            self._learn_who(request, response)

    def _learn_who(self, request: Any, response: Any) -> None:
        kind = type(request).__name__
        if kind == "JoinGroupRequest":
            self._is_member(Member(request.group_id, response.member_id, response.generation_id))
        elif kind == "ConsumerGroupHeartbeatRequest":
            member_id = response.member_id or request.member_id
            self._is_member(Member(request.group_id, member_id, response.member_epoch, classic=False))
        elif kind == "InitProducerIdRequest":
            producer = Producer(response.producer_id, response.producer_epoch, request.transactional_id)
            self.producers.append(producer)
        elif kind == "EndTxnRequest" and response.producer_id >= 0:
            self.producers.append(Producer(response.producer_id, response.producer_epoch, request.transactional_id))
        elif kind == "CreateTopicsRequest":
            for topic in response.topics:
                if topic.error_code == 0:
                    self.add("topic", topic.name)

    def _is_member(self, member: Member) -> None:
        """Remembers the member, and forgets its earlier state."""
        for known in [each for each in self.members if each.member_id == member.member_id]:
            self.members.remove(known)
        self.members.append(member)

    def _walk(self, part: Struct) -> None:
        for each in part.__wire__:
            value = getattr(part, each.name)
            if isinstance(value, Struct):
                self._walk(value)
            elif isinstance(value, list):
                for element in value[:REMEMBERED]:
                    if isinstance(element, Struct):
                        self._walk(element)
            elif (kind := KINDS.get(each.name)) is not None and value not in (None, "", -1, bytes(16)):
                self.add(kind, value)
