"""ShareFetch and ShareAcknowledge requests for a topic that is deleted, or deleted and made again. This happens before the
request, or while the request waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from requesting import Plain, plain
from situations.side import TRIES, WAIT_MS, Side

KINDS = (
    "new session", "new session beside", "next", "next beside", "next named", "next named beside", "next acknowledges",
    "next acknowledges beside", "next forgets beside", "acknowledge", "acknowledge beside", "final", "final acknowledges",
)  # fmt: skip
"""Kinds of requests. With `beside`, the request also has a partition of a topic that exists. `next` and `final` requests
continue and end a session; `acknowledge` is a ShareAcknowledge."""
MEMBER = "A" * 22
GROUP_RESOURCE, SET, ACCEPT, VERSION = 32, 0, 1, 2


class Member:
    """A member of a share group. It has a share session for its topics."""

    def __init__(self, side: Side, names: dict[bytes, str], group: str = "", member_id: str = MEMBER) -> None:
        self.group, self.epoch, self.names = group or side.new_name("group"), 0, names
        self._side, self._id = side, member_id

    def join(self, topics: list[str], isolation: str = "read_uncommitted") -> None:
        """Join the group, and wait until the group can read the topics from their start."""
        settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}
        configs = [{"name": name, "config_operation": SET, "value": value} for name, value in settings.items()]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.group, "configs": configs}
        self._side.wire.request(plain("IncrementalAlterConfigs", resources=[resource]), 1)
        self._side.find(self.group)
        beat = self._side.until(self._heartbeat(0, topics), 1, lambda told: not told.error_code)
        for _ in range(TRIES):
            if beat.assignment is not None and len(beat.assignment.topic_partitions) == len(topics):
                return
            self._side.settle()
            beat = self._side.wire.request(self._heartbeat(beat.member_epoch, None), 1)
        raise AssertionError(beat)

    def _heartbeat(self, epoch: int, topics: list[str] | None) -> Any:
        return plain(
            "ShareGroupHeartbeat", group_id=self.group, member_id=self._id, member_epoch=epoch, subscribed_topic_names=topics
        )

    def acquire(self, wire: Any, topics: Sequence[bytes]) -> None:
        """Begin a session, and acquire the records of `topics`."""
        acquired = set()
        for number in range(TRIES):
            _, response = self._side.ask(wire, self.fetch(topics if not number else (), wait_ms=0), VERSION)
            acquired |= {topic.topic_id for topic in response.responses for part in topic.partitions if part.acquired_records}
            if len(acquired) == len(topics):
                return
            self._side.settle()
        raise AssertionError(response)

    def fetch(
        self, named: Iterable[bytes] = (), *, accepts: bool = False, forgotten: Iterable[bytes] = (), final: bool = False,
        wait_ms: int = WAIT_MS, **fields: Any,
    ) -> Any:  # fmt: skip
        """Returns the next ShareFetch. If `accepts` is true, the request acknowledges the first record of each topic."""
        limits = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        asked = [_topic(each, accepts) for each in named]
        dropped = [{"topic_id": each, "partitions": [0]} for each in forgotten]
        body = {**limits, "topics": asked, "forgotten_topics_data": dropped, **fields}
        return plain("ShareFetch", **self._next(final), **body)

    def acknowledge(self, topics: Iterable[bytes]) -> Any:
        """Returns the next ShareAcknowledge."""
        return plain("ShareAcknowledge", **self._next(), topics=[_topic(each, accepts=True) for each in topics])

    def _next(self, final: bool = False) -> Plain:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return {"group_id": self.group, "member_id": self._id, "share_session_epoch": -1 if final else epoch}

    def told(self, how: str, response: Any) -> str:
        """Returns a response as a text."""
        if response is None:
            return how
        parts = [_part(self.names[topic.topic_id], part) for topic in response.responses for part in topic.partitions]
        return f"{how}{f' error {response.error_code}' if response.error_code else ''} [{', '.join(sorted(parts))}]"


def _topic(topic_id: bytes, accepts: bool) -> Plain:
    batches = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [ACCEPT]}] if accepts else []
    return {"topic_id": topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}]}


def _part(label: str, part: Any) -> str:
    text = f"{label}: {part.error_code}{'' if part.error_message is None else ' with a message'}"
    if getattr(part, "acknowledge_error_code", 0):
        text += f", acknowledged: {part.acknowledge_error_code}"
    ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in getattr(part, "acquired_records", ())]
    return f"{text}, acquired {ranges}" if ranges else text


def play(side: Side) -> dict[str, str]:
    """Plays all situations, and returns the responses in each situation as one text."""
    played = {}
    for kind, event, when in product(KINDS, ("deleted", "made again"), ("before", "meanwhile")):
        if when == "before" or kind.startswith(("new", "next")):
            played[f"{kind}, {event} {when}"] = "; ".join(_play(side, kind, event == "made again", when == "meanwhile"))
    return played


def _play(side: Side, kind: str, again: bool, meanwhile: bool) -> Iterator[str]:
    gone, other = side.new_name("gone"), side.new_name("other")
    names = {side.create(gone): "gone", side.create(other): "other"}
    old_id, other_id = names
    side.put(gone)
    side.put(other)
    member = Member(side, names)
    member.join([gone, other])
    topics = (old_id, other_id) if "beside" in kind else (old_id,)

    def make() -> None:
        names[side.create(gone)] = "new"
        side.put(gone)

    def happen() -> None:
        side.delete(gone)
        if again:
            make()

    with side.link() as wire:
        if not kind.startswith("new"):
            member.acquire(wire, topics)
        request = _request(member, kind.removesuffix(" beside"), topics)
        if meanwhile:
            wire.send(request, VERSION)
            side.settle()
            happen()
            yield member.told(*side.take(wire))
        else:
            happen()
            yield member.told(*side.ask(wire, request, VERSION))
        if kind.startswith("final"):
            return
        for _ in range(2):
            yield member.told(*side.ask(wire, member.fetch(), VERSION))
        yield "acknowledge: " + member.told(*side.ask(wire, member.acknowledge([old_id]), VERSION))
        if not again:
            make()
            yield "made again: " + member.told(*side.ask(wire, member.fetch(), VERSION))


def _request(member: Member, kind: str, topics: Sequence[bytes]) -> Any:
    gone = topics[:1]
    match kind.split():
        case ["new", _]:
            return member.fetch(topics)
        case ["acknowledge"]:
            return member.acknowledge(topics)
        case ["next", "forgets"]:
            return member.fetch(forgotten=gone)
        case ["next"]:
            return member.fetch()
    return member.fetch(gone, accepts=kind.endswith("acknowledges"), final=kind.startswith("final"))
