"""A faulty application on a real Kafka: it consumes in a group, transforms and produces, with one fault in each pipeline.

Each function of `FAULTS` plays its pipeline from topic NAME.in to NAME.out. It returns the records that the audit must report.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 3
WITHIN = 60.0
OLD = "likely"
"""Findings about transactions have this severity, because librdkafka uses the protocol before KIP-890."""


class Expected(NamedTuple):
    """A record in doubt: the kind of its finding, its place, and the severity."""

    kind: str
    topic: str
    partition: int
    offset: int
    severity: str = "certain"


class Application:
    """Consumes with a real group, and produces with or without transactions. Input n has one of six keys, and the id `o`
    followed by n."""

    def __init__(self, bootstrap: str, name: str, inputs: int = 60, **topic: str) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.source, self.sink = f"{name}.in", f"{name}.out"
        self.policy: dict[str, Any] = {"in": self.source, "out": self.sink, "match": "header:id", "group": name}
        self.isolation = "read_committed"
        self.made = self.fed = 0
        self.begun: dict[int, int] = {}
        """the committed offset of each partition"""
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics(
            [NewTopic(each, PARTITIONS, 1, config=topic) for each in (self.source, self.sink)]
        ).values():
            made.result(30)
        self.plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.max.bytes": 10_000_000})
        self.producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        self.producer.init_transactions(WITHIN)
        self.consumer: Consumer | None = None
        self.feed(self.plain, inputs)
        self.plain.flush(WITHIN)

    def feed(self, producer: Producer, count: int, state: str = "new") -> None:
        for number in range(self.fed, self.fed + count):
            value = json.dumps({"order": {"id": f"o{number}"}, "state": state})
            producer.produce(self.source, value, f"k{number % 6}", number % PARTITIONS, headers={"id": f"o{number}"})
        self.fed += count

    def read(self, count: int) -> list[Message]:
        """Returns the next records. The first call joins the group."""
        if self.consumer is None:
            self.consumer = Consumer({
                "bootstrap.servers": self.bootstrap, "group.id": self.name, "enable.auto.commit": False,
                "auto.offset.reset": "earliest", "isolation.level": self.isolation,
            })  # fmt: skip
            self.consumer.subscribe([self.source])
        records: list[Message] = []
        end = time.monotonic() + WITHIN
        while len(records) < count:
            assert time.monotonic() < end, f"{self.name}: {len(records)} of {count} records within {WITHIN:.0f} s"
            record = self.consumer.poll(1)
            if record is not None and record.error() is None:
                records.append(record)
        return records

    def rest(self) -> list[Message]:
        """Returns all records that the group has not committed."""
        return self.read(self.fed - sum(self.begun.values()))

    def out(self, record: Message, producer: Producer | None = None, **headers: str) -> Expected:
        """Produce an output. Returns the output's place, which is known once the output is acknowledged."""
        self.made += 1
        value = json.dumps({"output": self.made})
        place: list[int] = []
        own = producer or self.producer
        own.produce(self.sink, value, record.key(), headers=headers or record.headers(),
                    on_delivery=lambda error, stored: place.extend([stored.partition(), stored.offset()]))  # fmt: skip
        own.flush(WITHIN)  # each output has its own batch, so that the outputs have the order of the calls
        return Expected("", self.sink, *place)

    def transform(
        self, records: Sequence[Message], outputs: Sequence[Message] | None = None, *, offsets: bool = True
    ) -> list[Expected]:
        """Run a transaction with these inputs and outputs. Returns the places of the outputs."""
        self.producer.begin_transaction()
        places = [self.out(each) for each in (records if outputs is None else outputs)]
        if offsets:
            assert self.consumer is not None
            metadata = self.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(self.after(records), metadata, WITHIN)
        self.producer.commit_transaction(WITHIN)
        return places

    def after(self, records: Sequence[Message]) -> list[TopicPartition]:
        """Returns the offsets to commit after these records."""
        self.begun |= {each.partition(): each.offset() + 1 for each in records}
        return [TopicPartition(self.source, each, self.begun[each]) for each in {each.partition() for each in records}]

    def commit(self, records: Sequence[Message]) -> None:
        """Commit outside of transactions."""
        assert self.consumer is not None
        self.consumer.commit(offsets=self.after(records), asynchronous=False)

    def restart(self) -> None:
        """Leave the group; the next `read` joins it again."""
        if self.consumer is not None:
            self.consumer.close()
            self.consumer = None

    def reset(self, offsets: dict[int, int]) -> None:
        """Set the group's offsets, as an operator does while the group has no member."""
        self.restart()
        operator = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name, "enable.auto.commit": False})
        operator.commit(offsets=[TopicPartition(self.source, *each) for each in offsets.items()], asynchronous=False)
        operator.close()
        self.begun |= offsets

    def passed(self, records: Sequence[Message], begun: dict[int, int]) -> list[tuple[int, int]]:
        """Returns the inputs in the first partition of these records, from the committed offset in `begun` to the present
        committed offset.
        """
        first = min(each.partition() for each in records)
        return [(first, offset) for offset in range(begun.get(first, 0), self.begun[first])]


FAULTS: dict[str, Callable[[Application], list[Expected]]] = {}


def fault(play: Callable[[Application], list[Expected]]) -> Callable[[Application], list[Expected]]:
    FAULTS[play.__name__] = play
    return play


def inputs(kind: str, records: Iterable[Message], severity: str = "certain") -> list[Expected]:
    return [Expected(kind, each.topic(), each.partition(), each.offset(), severity) for each in records]


def named(kind: str, places: Iterable[Expected], severity: str = "certain") -> list[Expected]:
    return [each._replace(kind=kind, severity=severity) for each in places]


@fault
def skips_a_record(app: Application) -> list[Expected]:
    records = app.rest()
    app.transform(records, records[:20] + records[21:])
    return inputs("input_unprocessed", [records[20]])


@fault
def sends_a_record_twice(app: Application) -> list[Expected]:
    app.policy["match"] = "header:id"
    records = app.rest()
    places = app.transform(records, [*records, records[20]])
    return named("processed_twice", places[-1:])


@fault
def swaps_two_records_of_a_key(app: Application) -> list[Expected]:
    records = app.rest()
    earlier, later = [each for each in records if each.key() == b"k3"][3:5]
    swapped = [later if each is earlier else earlier if each is later else each for each in records]
    places = app.transform(records, swapped)
    return named("output_disorder", [places[swapped.index(earlier)]])


@fault
def invents_an_output(app: Application) -> list[Expected]:
    records = app.read(30)
    app.transform(records)
    app.producer.begin_transaction()
    place = app.out(records[0], id="nobody")
    app.producer.commit_transaction(WITHIN)
    app.transform(app.rest())
    return named("output_without_input", [place])


@fault
def commits_beyond_its_outputs(app: Application) -> list[Expected]:
    app.transform(app.read(45))
    records = app.rest()
    app.transform(records, [])
    return inputs("commit_beyond_output", records)


@fault
def jumps_to_the_end(app: Application) -> list[Expected]:
    """An operator resets a group that lags."""
    app.feed(app.plain, 1200)
    app.plain.flush(WITHIN)
    for _ in range(6):
        app.transform(app.read(6))
    begun, target = dict(app.begun), app.fed // PARTITIONS - 10
    app.reset(dict.fromkeys(range(PARTITIONS), target))
    app.transform(app.rest())
    passed = [(each, offset) for each in range(PARTITIONS) for offset in range(begun.get(each, 0), target)]
    jumped = [each for each in passed if each[0] in begun]  # the first commit of a group never counts as a jump
    return [Expected("input_unprocessed", app.source, *each) for each in passed] + [
        Expected("commit_jump", app.source, *each) for each in jumped
    ]


@fault
def aborts_but_commits_the_offsets(app: Application) -> list[Expected]:
    app.transform(app.read(20))
    records = app.read(10)
    app.producer.begin_transaction()
    for each in records:
        app.out(each)
    app.producer.abort_transaction(WITHIN)
    app.commit(records)
    app.transform(app.rest())
    return inputs("input_unprocessed", records)


@fault
def commits_outputs_without_offsets(app: Application) -> list[Expected]:
    app.transform(app.read(20))
    begun = dict(app.begun)
    records = app.read(10)
    app.transform(records, offsets=False)
    app.begun = begun
    app.restart()
    again = app.rest()
    places = app.transform(again)
    known = {each.headers()[0] for each in records}
    return named("processed_twice", [place for each, place in zip(again, places, strict=True) if each.headers()[0] in known])


@fault
def reads_uncommitted_records(app: Application) -> list[Expected]:
    app.isolation = "read_uncommitted"
    feed = Producer({"bootstrap.servers": app.bootstrap, "transactional.id": f"{app.name}-feed"})
    feed.init_transactions(WITHIN)
    feed.begin_transaction()
    app.feed(feed, 6)
    feed.flush(WITHIN)
    records = app.rest()
    places = app.transform(records)
    feed.abort_transaction(WITHIN)
    return named("output_without_input", [place for each, place in zip(records, places, strict=True) if each.offset() >= 20])


@fault
def is_killed_before_its_commit(app: Application) -> list[Expected]:
    """At least once, without transactions: the application is killed after its outputs and before its commit."""
    first = app.read(20)
    for each in first:
        app.out(each, app.plain)
    app.commit(first[:10])
    app.restart()
    known = {each.headers()[0] for each in first}
    again = app.rest()
    places = [app.out(each, app.plain) for each in again]
    app.commit(again)
    return named("processed_twice", [place for each, place in zip(again, places, strict=True) if each.headers()[0] in known])


@fault
def commits_before_it_processes(app: Application) -> list[Expected]:
    """At most once: the application commits, and is killed before it produces the outputs."""
    app.transform(app.read(20))
    records = app.read(10)
    app.commit(records)
    app.restart()
    app.transform(app.rest())
    return inputs("input_unprocessed", records)


@fault
def ignores_a_failed_delivery(app: Application) -> list[Expected]:
    """One output is larger than the topic allows, and the application ignores the delivery report."""
    records = app.rest()
    lost = records[20]
    for each in records:
        if each is lost:
            app.plain.produce(app.sink, b"x" * 2_000_000, each.key(), headers=each.headers())
        else:
            app.out(each, app.plain)
    app.plain.flush(WITHIN)
    app.commit(records)
    return inputs("input_unprocessed", [lost])


@fault
def goes_on_as_a_zombie(app: Application) -> list[Expected]:
    """Another member takes over, and the first member still produces the outputs of the records that it has consumed."""
    held = app.read(12)
    app.restart()
    records = app.rest()
    for each in records:
        app.out(each, app.plain)
    app.commit(records)
    return named("processed_twice", [app.out(each, app.plain) for each in held])


@fault
def loses_one_of_three_outputs(app: Application) -> list[Expected]:
    app.policy["fan_out"] = 3
    records = app.rest()
    app.transform(records, [each for each in records for _ in range(2 if each is records[20] else 3)])
    return inputs("input_unprocessed", [records[20]])


@fault
def drops_more_than_drafts(app: Application) -> list[Expected]:
    app.policy["may_drop"] = "value:$.state=draft"
    app.feed(app.plain, 6, "draft")
    app.plain.flush(WITHIN)
    records = app.rest()
    needed = [each for each in records if b"draft" not in each.value()]
    app.transform(records, needed[:20] + needed[21:])
    return inputs("input_unprocessed", [needed[20]])


def _by_transaction(app: Application, kind: str, more: Callable[[list[Message]], list[Message]]) -> list[Expected]:
    app.policy["match"] = "transaction"
    app.transform(app.read(20))
    begun, records = dict(app.begun), app.read(20)
    app.transform(records, more(records))
    expected = [Expected(kind, app.source, *each, OLD) for each in app.passed(records, begun)]
    app.transform(app.rest())
    return expected


@fault
def commits_a_transaction_short_of_outputs(app: Application) -> list[Expected]:
    return _by_transaction(app, "commit_beyond_output", lambda records: records[1:])


@fault
def commits_a_transaction_with_too_many_outputs(app: Application) -> list[Expected]:
    return _by_transaction(app, "processed_twice", lambda records: [*records, records[0]])


@fault
def goes_back(app: Application) -> list[Expected]:
    """An operator resets the group to earlier offsets."""
    app.policy["match"] = "transaction"
    app.transform(app.rest())
    begun = dict.fromkeys(range(PARTITIONS), 15)
    app.reset(begun)
    records = app.rest()
    app.transform(records)
    return [Expected("processed_twice", app.source, *each, OLD) for each in app.passed(records, begun)]


@fault
def commits_a_transaction_without_offsets(app: Application) -> list[Expected]:
    app.policy["match"] = "transaction"
    app.transform(app.read(20))
    begun = dict(app.begun)
    places = app.transform(app.read(5)[:1], offsets=False)
    app.begun = begun
    app.restart()
    app.transform(app.rest())
    return named("output_without_input", places, OLD)
