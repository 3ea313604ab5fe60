"""How long a Fetch waits: all conditions in Kafka's KafkaApis, ReplicaManager.fetchMessages and DelayedFetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from requesting import Plain, add_partitions, create_topic, delete_records, end_txn, plain, produce_request
from responses import only
from situations.side import WAIT_MS, Side, fetched, partitions_of
from wirekit import batch

VERSION = 12
COMMITTED = 1
LARGE = 1 << 20
Situation = Callable[[Side], str]
SITUATIONS: dict[str, Situation] = {}
Part = tuple[str, Plain]


def situation(play: Situation) -> Situation:
    """Adds a situation to `SITUATIONS`, under the function's name."""
    SITUATIONS[play.__name__.replace("_", " ")] = play
    return play


def play(side: Side) -> dict[str, str]:
    """Plays all situations, and returns the response in each situation as a text."""
    return {name: play(side) for name, play in SITUATIONS.items()}


def part(at: int = 0, index: int = 0, most: int = LARGE, **fields: Any) -> Plain:
    """Returns a partition of a Fetch."""
    return {"partition": index, "fetch_offset": at, "partition_max_bytes": most, **fields}


def fetch(*parts: Part, wait_ms: int = WAIT_MS, least: int = 1, most: int = LARGE, isolation: int = 0, session: int = 0,
          epoch: int = -1) -> Any:  # fmt: skip
    """Returns a Fetch that reads the partitions `parts`."""
    return plain(
        "Fetch", max_wait_ms=wait_ms, min_bytes=least, max_bytes=most, isolation_level=isolation, session_id=session,
        session_epoch=epoch, topics=partitions_of([(name, bytes(16), [each]) for name, each in parts]),
    )  # fmt: skip


def asked(side: Side, request: Any) -> str:
    """Returns the response to a request."""
    with side.link() as wire:
        return fetched(*side.ask(wire, request, VERSION), {})


def meanwhile(side: Side, request: Any, happens: Callable[[], Any]) -> str:
    """Sends a request, calls `happens` while the request waits, and returns the response."""
    with side.link() as wire:
        wire.send(request, VERSION)
        side.settle()
        happens()
        return fetched(*side.take(wire), {})


def stored(side: Side, count: int, size: int = 10, partitions: int = 1, **fields: Any) -> str:
    """Makes a topic with `count` batches in each partition. Returns the topic's name."""
    name = side.topic(partitions=partitions)
    for index in range(partitions):
        side.put(name, count, index, size, **fields)
    return name


# Limits


@situation
def no_records(side: Side) -> str:
    return asked(side, fetch((side.topic(), part())))


@situation
def no_records_and_no_wait(side: Side) -> str:
    return asked(side, fetch((side.topic(), part()), wait_ms=0))


@situation
def no_records_wanted(side: Side) -> str:
    return asked(side, fetch((side.topic(), part()), least=0))


@situation
def no_topics(side: Side) -> str:
    return asked(side, fetch())


@situation
def records(side: Side) -> str:
    return asked(side, fetch((stored(side, 1), part())))


@situation
def too_few_records(side: Side) -> str:
    return asked(side, fetch((stored(side, 1), part()), least=1000))


@situation
def max_bytes_below_min_bytes(side: Side) -> str:
    return asked(side, fetch((stored(side, 10, 100), part()), least=100_000, most=500))


@situation
def too_few_for_a_max_bytes_below_min_bytes(side: Side) -> str:
    return asked(side, fetch((stored(side, 2), part()), least=100_000, most=500))


@situation
def max_bytes_of_0(side: Side) -> str:
    return asked(side, fetch((side.topic(), part()), most=0))


@situation
def max_bytes_of_0_and_records(side: Side) -> str:
    return asked(side, fetch((stored(side, 1), part()), most=0))


@situation
def the_brokers_limit_below_min_bytes(side: Side) -> str:
    return asked(side, fetch((stored(side, 30, 100), part()), least=3000))


@situation
def too_few_for_the_brokers_limit(side: Side) -> str:
    return asked(side, fetch((stored(side, 3, 100), part()), least=3000))


@situation
def a_partitions_limit_below_min_bytes(side: Side) -> str:
    return asked(side, fetch((stored(side, 20), part(most=100)), least=1000))


@situation
def a_large_batch_beyond_a_partitions_limit(side: Side) -> str:
    return asked(side, fetch((stored(side, 1, 2000), part(most=100)), least=1000))


@situation
def a_batch_beyond_a_partitions_limit(side: Side) -> str:
    return asked(side, fetch((stored(side, 2, 700), part(most=100)), least=1000))


@situation
def a_partitions_limit_of_0(side: Side) -> str:
    return asked(side, fetch((stored(side, 2, 700), part(most=0)), least=500))


@situation
def two_partitions_with_limits_of_0(side: Side) -> str:
    name = stored(side, 2, 700, partitions=2)
    return asked(side, fetch((name, part(most=0)), (name, part(0, 1, most=0)), least=1000))


@situation
def two_limits_that_suffice(side: Side) -> str:
    name = stored(side, 20, partitions=2)
    return asked(side, fetch((name, part(most=500)), (name, part(0, 1, most=500)), least=900, most=1000))


@situation
def two_limits_that_do_not_suffice(side: Side) -> str:
    name = stored(side, 20, partitions=2)
    return asked(side, fetch((name, part(most=300)), (name, part(0, 1, most=300)), least=900, most=1000))


@situation
def a_second_partition_that_does_not_fit(side: Side) -> str:
    name = side.topic(partitions=2)
    side.put(name, 5)
    side.put(name, 5, 1, 300)
    return asked(side, fetch((name, part(most=500)), (name, part(0, 1, most=500)), least=600, most=600))


@situation
def records_in_one_of_two_partitions(side: Side) -> str:
    name = side.topic(partitions=2)
    side.put(name, partition=1)
    return asked(side, fetch((name, part()), (name, part(0, 1))))


@situation
def the_middle_of_a_batch(side: Side) -> str:
    return asked(side, fetch((stored(side, 1, 20, records=20), part(10)), least=500))


# Errors


@situation
def out_of_range(side: Side) -> str:
    return asked(side, fetch((side.topic(), part(5))))


@situation
def out_of_range_beside(side: Side) -> str:
    return asked(side, fetch((side.topic("other"), part()), (side.topic(), part(5))))


@situation
def an_absent_topic_beside(side: Side) -> str:
    return asked(side, fetch((side.new_name("none"), part()), (side.topic("other"), part())))


@situation
def an_absent_partition_beside(side: Side) -> str:
    name = side.topic()
    return asked(side, fetch((name, part(0, 7)), (name, part())))


@situation
def an_unknown_leader_epoch_beside(side: Side) -> str:
    return asked(side, fetch((side.topic("other"), part()), (side.topic(), part(current_leader_epoch=9))))


@situation
def a_diverging_epoch_beside(side: Side) -> str:
    return asked(side, fetch((side.topic("other"), part()), (stored(side, 1), part(9, last_fetched_epoch=0))))


@situation
def an_unknown_last_epoch_beside(side: Side) -> str:
    return asked(side, fetch((side.topic("other"), part()), (stored(side, 1), part(1, last_fetched_epoch=5))))


@situation
def the_same_last_epoch(side: Side) -> str:
    return asked(side, fetch((stored(side, 1), part(1, last_fetched_epoch=0))))


# Transactions


def transaction(side: Side, topic: str, count: int = 3) -> Callable[[bool], None]:
    """Writes batches of an open transaction. Returns a function that ends the transaction."""
    txid = side.new_name("transaction")
    producer = side.producer(txid)
    request = add_partitions(txid, producer, topic)
    side.until(request, 3, lambda told: not told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    for sequence in range(count):
        data = batch(sequence, 1, pid=producer[0], epoch=producer[1], transactional=True, tag="x" * 10)
        assert only(side.wire.request(produce_request(topic, data, txid=txid), 9)).error_code == 0

    def end(commit: bool) -> None:
        assert side.wire.request(end_txn(txid, producer, commit), 3).error_code == 0
        side.settle()

    return end


def opened(side: Side, count: int = 3, before: int = 0) -> str:
    """Makes a topic with two kinds of batches: first batches outside transactions, and then batches of an open transaction.
    Returns its name.
    """
    name = stored(side, before)
    transaction(side, name, count)
    return name


@situation
def committed_past_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side), part(2)), isolation=COMMITTED))


@situation
def committed_at_the_end_past_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side), part(3)), isolation=COMMITTED))


@situation
def committed_past_the_last_stable_offset_beside(side: Side) -> str:
    return asked(side, fetch((side.topic("other"), part()), (opened(side), part(2)), isolation=COMMITTED))


@situation
def committed_at_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side), part()), isolation=COMMITTED))


@situation
def committed_before_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side, 30, before=1), part()), isolation=COMMITTED))


@situation
def committed_and_too_few_before_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side, 30, before=1), part()), isolation=COMMITTED, least=1000))


@situation
def uncommitted_past_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side), part(2))))


@situation
def too_few_past_the_last_stable_offset(side: Side) -> str:
    return asked(side, fetch((opened(side), part(2)), least=1000))


@situation
def a_session_past_the_last_stable_offset(side: Side) -> str:
    return in_session(side, fetch((opened(side), part(2)), isolation=COMMITTED, epoch=0), [()], isolation=COMMITTED)


def ended_meanwhile(side: Side, commit: bool) -> str:
    name = side.topic()
    end = transaction(side, name)
    return meanwhile(side, fetch((name, part()), isolation=COMMITTED), lambda: end(commit))


@situation
def a_commit_meanwhile(side: Side) -> str:
    return ended_meanwhile(side, True)


@situation
def an_abort_meanwhile(side: Side) -> str:
    return ended_meanwhile(side, False)


@situation
def records_after_the_last_stable_offset_meanwhile(side: Side) -> str:
    name = opened(side)
    return meanwhile(side, fetch((name, part()), isolation=COMMITTED), lambda: side.put(name, 3))


@situation
def a_transaction_meanwhile(side: Side) -> str:
    name = stored(side, 1)
    return meanwhile(side, fetch((name, part()), isolation=COMMITTED, least=150), lambda: transaction(side, name, 30))


# Changes meanwhile


@situation
def records_meanwhile(side: Side) -> str:
    name = side.topic()
    return meanwhile(side, fetch((name, part())), lambda: side.put(name))


@situation
def too_few_records_meanwhile(side: Side) -> str:
    name = side.topic()
    return meanwhile(side, fetch((name, part()), least=1000), lambda: side.put(name))


@situation
def max_bytes_below_min_bytes_meanwhile(side: Side) -> str:
    name = side.topic()
    return meanwhile(side, fetch((name, part()), least=10_000, most=200), lambda: side.put(name, 4))


@situation
def a_partitions_limit_meanwhile(side: Side) -> str:
    name = side.topic()
    return meanwhile(side, fetch((name, part(most=100)), least=1000), lambda: side.put(name, 1, size=2000))


@situation
def records_in_one_of_two_partitions_meanwhile(side: Side) -> str:
    name = side.topic(partitions=2)
    return meanwhile(side, fetch((name, part()), (name, part(0, 1))), lambda: side.put(name, partition=1))


def deleted_meanwhile(side: Side, before: int, size: int = 0) -> str:
    name = stored(side, 3)

    def happens() -> None:
        assert only(side.wire.request(delete_records(before, topic=name), 2)).error_code == 0
        if size:
            side.put(name, size=size)

    return meanwhile(side, fetch((name, part()), least=10_000), happens)


@situation
def records_are_deleted_meanwhile(side: Side) -> str:
    return deleted_meanwhile(side, 2)


@situation
def records_are_deleted_and_too_few_added_meanwhile(side: Side) -> str:
    return deleted_meanwhile(side, 2, 10)


@situation
def records_are_deleted_and_enough_added_meanwhile(side: Side) -> str:
    return deleted_meanwhile(side, 2, 20_000)


@situation
def all_records_are_deleted_meanwhile(side: Side) -> str:
    return deleted_meanwhile(side, -1)


@situation
def an_absent_topic_is_made_meanwhile(side: Side) -> str:
    other, name = side.topic("other"), side.new_name("none")

    def happens() -> None:
        side.create(name)
        side.put(name)

    return meanwhile(side, fetch((name, part()), (other, part())), happens)


@situation
def an_absent_partition_is_made_meanwhile(side: Side) -> str:
    name = side.topic()

    def happens() -> None:
        topics = [{"name": name, "count": 2, "assignments": None}]
        assert only(side.wire.request(plain("CreatePartitions", topics=topics, timeout_ms=5000), 3)).error_code == 0
        side.put(name, partition=1)

    return meanwhile(side, fetch((name, part()), (name, part(0, 1))), happens)


# Segments


def segmented(side: Side, count: int) -> str:
    """Makes a topic with `count` batches. Each segment has two of them."""
    name = side.new_name("t")
    request = create_topic(name, configs={"internal.segment.bytes": "1000"})
    side.until(request, 7, lambda told: not only(told).error_code)
    side.put(name, count, size=400)
    return name


@situation
def an_older_segment(side: Side) -> str:
    return asked(side, fetch((segmented(side, 4), part()), least=100_000))


@situation
def the_active_segment(side: Side) -> str:
    return asked(side, fetch((segmented(side, 3), part(2)), least=1000))


@situation
def the_end_of_a_full_segment(side: Side) -> str:
    return asked(side, fetch((segmented(side, 2), part(2)), least=1000))


@situation
def a_new_segment_meanwhile(side: Side) -> str:
    name = segmented(side, 1)
    return meanwhile(side, fetch((name, part()), least=100_000), lambda: side.put(name, 3, size=400))


@situation
def a_new_segment_at_the_end_meanwhile(side: Side) -> str:
    name = segmented(side, 2)
    return meanwhile(side, fetch((name, part(2)), least=100_000), lambda: side.put(name, size=400))


# Sessions


def in_session(side: Side, first: Any, rest: list[tuple[Part, ...]], isolation: int = 0) -> str:
    """Sends a request that begins a session, and then the following requests. Returns all responses."""
    with side.link() as wire:
        how, response = side.ask(wire, first, VERSION)
        told = [fetched(how, response, {})]
        for epoch, parts in enumerate(rest, 1):
            request = fetch(*parts, session=response.session_id, epoch=epoch, isolation=isolation)
            told.append(fetched(*side.ask(wire, request, VERSION), {}))
        return "; ".join(told)


@situation
def a_session_that_waits(side: Side) -> str:
    return in_session(side, fetch((side.topic(), part()), epoch=0, wait_ms=0), [()])


@situation
def a_session_without_partitions(side: Side) -> str:
    return in_session(side, fetch(epoch=0), [(), ()])


@situation
def a_session_that_gets_its_first_partition(side: Side) -> str:
    return in_session(side, fetch(epoch=0), [((stored(side, 1), part()),), ()])
