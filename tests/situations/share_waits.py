"""How long a ShareFetch waits: the conditions in Kafka's classes KafkaApis, SharePartitionManager and DelayedShareFetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from requesting import Plain, delete_records
from responses import only
from situations.recreated_shares import VERSION, Member
from situations.side import Side
from situations.waits import transaction
from wirebroker.client.wire import Connection

LOADED_WITHIN = 3
"""Kafka needs at most this many requests to read the state of the share partitions."""
ABSENT_ID = b"\1" * 16
Situation = Callable[[Side], str]
SITUATIONS: dict[str, Situation] = {}


def situation(play: Situation) -> Situation:
    """Adds a situation to `SITUATIONS`, under the function's name."""
    SITUATIONS[play.__name__.replace("_", " ")] = play
    return play


def play(side: Side) -> dict[str, str]:
    """Plays all situations, and returns the response in each situation as a text."""
    return {name: play(side) for name, play in SITUATIONS.items()}


class Place:
    """A topic that a member of a share group reads. The group has read no records yet."""

    def __init__(
        self, side: Side, wire: Connection, partitions: int, beside: Sequence[Plain], committed: bool, size: str
    ) -> None:
        self.side, self.name = side, side.new_name("t")
        topic_id = side.create(self.name, partitions, **({"internal_segment_bytes": size} if size else {}))
        self.member = Member(side, {topic_id: "t", ABSENT_ID: "none"})
        self.member.join([self.name], "read_committed" if committed else "read_uncommitted")
        parts = [{"partition_index": index} for index in range(partitions)]
        self.topics = [{"topic_id": topic_id, "partitions": parts}, *beside]
        for number in range(LOADED_WITHIN):
            side.ask(wire, self.member.fetch(topics=[] if number else self.topics, wait_ms=0), VERSION)
            side.settle()

    def put(self, count: int = 1, size: int = 10, partition: int = 0) -> None:
        """Produce batches."""
        self.side.put(self.name, count, partition, size)


def asked(
    side: Side, before: Callable[[Place], Any] | None = None, meanwhile: Callable[[Place], Any] | None = None, *,
    partitions: int = 1, beside: Sequence[Plain] = (), committed: bool = False, size: str = "", **fields: Any,
) -> str:  # fmt: skip
    """Sends a ShareFetch, and returns the response. The topic can change before the request or while it waits."""
    with side.link() as wire:
        place = Place(side, wire, partitions, beside, committed, size)
        if before is not None:
            before(place)
        wire.send(place.member.fetch(**fields), VERSION)
        if meanwhile is not None:
            side.settle()
            meanwhile(place)
        return place.member.told(*side.take(wire))


@situation
def no_records(side: Side) -> str:
    return asked(side)


@situation
def no_records_wanted(side: Side) -> str:
    return asked(side, min_bytes=0)


@situation
def no_records_and_no_wait(side: Side) -> str:
    return asked(side, wait_ms=0)


@situation
def records(side: Side) -> str:
    return asked(side, Place.put)


@situation
def too_few_records(side: Side) -> str:
    return asked(side, Place.put, min_bytes=1000)


@situation
def max_records_of_0(side: Side) -> str:
    return asked(side, max_records=0)


@situation
def max_records_of_0_and_records(side: Side) -> str:
    return asked(side, Place.put, max_records=0)


@situation
def max_bytes_of_0(side: Side) -> str:
    return asked(side, max_bytes=0)


@situation
def max_bytes_below_min_bytes(side: Side) -> str:
    return asked(side, lambda place: place.put(10, 100), min_bytes=100_000, max_bytes=500)


@situation
def too_few_for_a_max_bytes_below_min_bytes(side: Side) -> str:
    return asked(side, lambda place: place.put(2), min_bytes=100_000, max_bytes=500)


@situation
def the_brokers_limit_below_min_bytes(side: Side) -> str:
    return asked(side, lambda place: place.put(30, 100), min_bytes=3000)


@situation
def too_few_for_the_brokers_limit(side: Side) -> str:
    return asked(side, lambda place: place.put(3, 100), min_bytes=3000)


@situation
def two_partitions_that_suffice_together(side: Side) -> str:
    def before(place: Place) -> None:
        place.put(4, 100)
        place.put(4, 100, 1)

    return asked(side, before, partitions=2, min_bytes=1000)


@situation
def two_partitions_with_too_little_room(side: Side) -> str:
    def before(place: Place) -> None:
        place.put(10, 100)
        place.put(1, 10, 1)

    return asked(side, before, partitions=2, min_bytes=900, max_bytes=1000)


@situation
def records_in_one_of_two_partitions(side: Side) -> str:
    return asked(side, lambda place: place.put(partition=1), partitions=2)


@situation
def an_absent_topic_beside(side: Side) -> str:
    return asked(side, beside=[{"topic_id": ABSENT_ID, "partitions": [{"partition_index": 0}]}])


@situation
def an_older_segment(side: Side) -> str:
    return asked(side, lambda place: place.put(4, 400), size="1000", min_bytes=1900, max_bytes=1950)


@situation
def the_active_segment(side: Side) -> str:
    return asked(side, lambda place: place.put(2, 400), size="1000", min_bytes=1900, max_bytes=1950)


@situation
def committed_at_the_last_stable_offset(side: Side) -> str:
    return asked(side, lambda place: transaction(side, place.name), committed=True)


@situation
def committed_before_the_last_stable_offset(side: Side) -> str:
    def before(place: Place) -> None:
        place.put()
        transaction(side, place.name)

    return asked(side, before, committed=True)


@situation
def uncommitted_records(side: Side) -> str:
    return asked(side, lambda place: transaction(side, place.name))


@situation
def a_commit_meanwhile(side: Side) -> str:
    ends: list[Callable[[bool], None]] = []
    return asked(side, lambda place: ends.append(transaction(side, place.name)), lambda _: ends[0](True), committed=True)


@situation
def records_meanwhile(side: Side) -> str:
    return asked(side, None, Place.put)


@situation
def too_few_records_meanwhile(side: Side) -> str:
    return asked(side, None, Place.put, min_bytes=1000)


@situation
def max_bytes_below_min_bytes_meanwhile(side: Side) -> str:
    return asked(side, None, lambda place: place.put(6, 100), min_bytes=100_000, max_bytes=500)


@situation
def records_in_one_of_two_partitions_meanwhile(side: Side) -> str:
    return asked(side, None, lambda place: place.put(partition=1), partitions=2)


@situation
def records_are_deleted_meanwhile(side: Side) -> str:
    def delete(place: Place) -> None:
        assert only(side.wire.request(delete_records(1, topic=place.name), 2)).error_code == 0

    return asked(side, lambda place: place.put(2), delete, min_bytes=1000)


@situation
def all_records_are_acquired(side: Side) -> str:
    held: list[Connection] = []
    return asked(side, lambda place: held.append(_acquire(place)))


@situation
def acquired_records_are_released_meanwhile(side: Side) -> str:
    others: list[Connection] = []

    def release(_: Place) -> None:
        for each in others:
            each.close()

    return asked(side, lambda place: others.append(_acquire(place)), release)


def _acquire(place: Place) -> Connection:
    """Lets another member acquire all records of the topic. Returns this member's connection. When the connection closes, the
    records are free again."""
    place.put(3)
    wire = place.side.connect()
    other = Member(place.side, place.member.names, place.member.group, "B" * 22)
    other.acquire(wire, [each["topic_id"] for each in place.topics])
    return wire
