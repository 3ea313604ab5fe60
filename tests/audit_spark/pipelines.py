"""Pipelines from topic `NAME.in` to topic `NAME.out`, each with one known fault or with none. wirebroker writes the logs.

    with MockKafka(data=folder) as kafka:
        PLANTED["skipped"](Shop(kafka, "skipped"))

An input has a key from `k0` to `k3`, the header `id` and a JSON value with the same id. Its output has the same key and id.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from actors import TransactionalProducer
from kafkawire.batches import Record, build_batch
from requesting import delete_records, offset_commit, produce_request
from responses import only
from wirebroker import MockKafka


class Expected(NamedTuple):
    """An expected finding. `side` says whether the offsets are offsets of inputs or of outputs."""

    kind: str
    side: str
    first: int
    last: int
    severity: str = "certain"


class Shop:
    """Writes the inputs, outputs and commits of one pipeline."""

    def __init__(self, kafka: MockKafka, name: str, inputs: int = 12, **topic: Any) -> None:
        self.kafka, self.name = kafka, name
        self.source, self.sink = f"{name}.in", f"{name}.out"
        for each in (self.source, self.sink):
            kafka.create_topic(each, partitions=1, **topic)
        self.policy: dict[str, Any] = {"in": self.source, "out": self.sink, "match": "header:id"}
        self.outputs = 0
        self._producer = TransactionalProducer(kafka, name)
        for number in range(inputs):
            self.order(number)

    @staticmethod
    def record(number: int, **value: Any) -> dict[str, Any]:
        told = {"id": f"o{number}", **value}
        return {"key": f"k{number % 4}", "headers": {"id": f"o{number}"}, "value": json.dumps(told)}

    def order(self, number: int, **value: Any) -> int:
        return self.kafka.produce(self.source, **self.record(number, **value))

    def out(self, *numbers: int, **value: Any) -> None:
        for number in numbers:
            self.outputs += 1
            self.kafka.produce(self.sink, **self.record(number, output=self.outputs, **value))

    def commit(self, offset: int, group: str = "") -> None:
        response = self._producer.ask(offset_commit(group or self.name, offset, topic=self.source), 7)
        assert not only(response).error_code

    def transform(self, *numbers: int, upto: int | None = None, commit: bool = True, version: int = 12) -> None:
        """Runs a transaction that writes the outputs `numbers` and commits the offset `upto`."""
        producer = self._producer
        producer.version = version
        if producer.pid < 0:
            assert producer.init() == 0
        if version < 12 and numbers:
            assert producer.add(self.sink) == 0
        self.send(self.sink, *numbers)
        if upto is not None:
            assert producer.send_offsets(self.name, upto, topic=self.source, version=5 if version >= 12 else 4) == 0
        assert producer.end(commit) == 0

    def send(self, topic: str, *numbers: int) -> None:
        producer = self._producer
        records = []
        for index, number in enumerate(numbers):
            told = self.record(number)
            headers = [("id", told["headers"]["id"].encode())]
            records.append(Record(index, 0, told["key"].encode(), told["value"].encode(), headers))
        if not records:
            return
        first = producer.sequences.get((topic, 0), 0)
        data = build_batch(
            records, base_timestamp=time.time_ns() // 1_000_000, producer_id=producer.pid, producer_epoch=producer.epoch,
            base_sequence=first, transactional=True,
        )  # fmt: skip
        response = only(producer.ask(produce_request(topic, data, 0, txid=producer.txid), producer.version))
        assert not response.error_code
        producer.sequences[topic, 0] = first + len(records)


PLANTED: dict[str, Callable[[Shop], list[Expected]]] = {}
CLEAN: dict[str, Callable[[Shop], None]] = {}


def planted(plant: Callable[[Shop], list[Expected]]) -> Callable[[Shop], list[Expected]]:
    PLANTED[plant.__name__] = plant
    return plant


def clean(plant: Callable[[Shop], None]) -> Callable[[Shop], None]:
    CLEAN[plant.__name__] = plant
    return plant


@planted
def skipped(shop: Shop) -> list[Expected]:
    """An exception was swallowed: one input in the middle has no output."""
    shop.out(*range(5), *range(6, 12))
    shop.commit(12)
    return [Expected("input_unprocessed", "in", 5, 5)]


@planted
def skipped_by_key(shop: Shop) -> list[Expected]:
    """Like `skipped`, except that inputs are matched by key, several inputs share a key, and outputs have their inputs'
    values."""
    shop.policy["match"] = "key"
    for number in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11):
        shop.kafka.produce(shop.sink, **shop.record(number))
    shop.commit(12)
    return [Expected("input_unprocessed", "in", 7, 7)]


@planted
def committed_too_early(shop: Shop) -> list[Expected]:
    """A consumer commits inputs before it processes them, and is killed after the commit."""
    shop.out(*range(9))
    shop.commit(12)
    return [Expected("commit_beyond_output", "in", 9, 11)]


@planted
def redelivered(shop: Shop) -> list[Expected]:
    """A consumer is killed after it has written outputs, and before it commits their inputs."""
    shop.out(*range(9))
    shop.commit(6)
    shop.out(*range(6, 12))
    shop.commit(12)
    return [Expected("processed_twice", "out", 9, 11)]


@planted
def sent_twice(shop: Shop) -> list[Expected]:
    """A producer without idempotence retries, so one output is stored twice."""
    shop.policy["match"] = "value:$.id"
    shop.out(*range(5), 4, *range(5, 12))
    shop.commit(12)
    return [Expected("processed_twice", "out", 5, 5)]


@planted
def invented(shop: Shop) -> list[Expected]:
    """Some outputs belong to no input."""
    shop.out(*range(6), 77, 78, *range(6, 12))
    shop.commit(12)
    return [Expected("output_without_input", "out", 6, 7)]


@planted
def read_uncommitted(shop: Shop) -> list[Expected]:
    """The consumer reads an input whose transaction is later aborted, and writes an output for it."""
    assert shop._producer.init() == 0
    shop.send(shop.source, 40)
    assert shop._producer.end(False) == 0
    shop.out(*range(12), 40)
    shop.commit(14)
    return [Expected("output_without_input", "out", 12, 12)]


@planted
def reordered(shop: Shop) -> list[Expected]:
    """A retried output is stored after a later output with the same key."""
    shop.out(0, 1, 2, 3, 5, 6, 8, 4, 7, 9, 10, 11)
    shop.commit(12)
    return [Expected("output_disorder", "out", 7, 7)]


@planted
def reordered_by_key(shop: Shop) -> list[Expected]:
    """Like `reordered`, except that inputs are matched by key, and outputs have the values of their inputs."""
    shop.policy["match"] = "key"
    for number in (0, 1, 2, 3, 5, 6, 8, 4, 7, 9, 10, 11):
        shop.kafka.produce(shop.sink, **shop.record(number))
    shop.commit(12)
    return [Expected("output_disorder", "out", 7, 7)]


@planted
def reset_to_latest(shop: Shop) -> list[Expected]:
    """An operator resets the group to the end of the log, so the next commit is hundreds of offsets higher."""
    for number in range(12, 500):
        shop.order(number)
    shop.out(*range(10))
    shop.commit(10)
    shop.commit(490)
    shop.out(*range(490, 500))
    shop.commit(500)
    return [Expected("input_unprocessed", "in", 10, 489), Expected("commit_jump", "in", 10, 489)]


@planted
def part_of_the_outputs(shop: Shop) -> list[Expected]:
    """One input has only two of its three outputs."""
    shop.policy["fan_out"] = 3
    for number in range(12):
        shop.out(*[number] * (2 if number == 4 else 3))
    shop.commit(12)
    return [Expected("input_unprocessed", "in", 4, 4)]


@planted
def offsets_outside_the_transaction(shop: Shop) -> list[Expected]:
    """The transaction with the outputs is aborted, but the offsets were committed outside it."""
    shop.transform(*range(6), upto=6)
    shop.transform(6, 7, 8, commit=False)
    shop.commit(9)
    shop.transform(9, 10, 11, upto=12)
    return [Expected("input_unprocessed", "in", 6, 8)]


@planted
def outputs_without_the_offsets(shop: Shop) -> list[Expected]:
    """A transaction commits outputs without the offsets of their inputs, so the inputs are processed again."""
    shop.transform(*range(6), upto=6)
    shop.transform(6, 7, 8)
    shop.transform(*range(6, 12), upto=12)
    return [Expected("processed_twice", "out", 11, 13)]


@planted
def a_transaction_short_of_outputs(shop: Shop) -> list[Expected]:
    """The third transaction commits the offsets of three inputs, but has one output."""
    shop.policy["match"] = "transaction"
    shop.transform(*range(4), upto=4)
    shop.transform(*range(4, 8), upto=8)
    shop.transform(8, upto=11)
    shop.transform(11, upto=12)
    return [Expected("commit_beyond_output", "in", 8, 10)]


@planted
def a_commit_outside_of_transactions(shop: Shop) -> list[Expected]:
    shop.policy["match"] = "transaction"
    shop.transform(*range(4), upto=4)
    shop.commit(7)
    shop.transform(*range(7, 12), upto=12)
    return [Expected("commit_beyond_output", "in", 4, 6)]


@planted
def a_transaction_without_offsets(shop: Shop) -> list[Expected]:
    shop.policy["match"] = "transaction"
    shop.transform(*range(4), upto=4)
    shop.transform(4, 5)
    shop.transform(*range(4, 12), upto=12)
    return [Expected("output_without_input", "out", 5, 6)]


@planted
def a_transaction_with_too_many_outputs(shop: Shop) -> list[Expected]:
    shop.policy["match"] = "transaction"
    shop.transform(*range(4), upto=4)
    shop.transform(*range(4, 12), 10, upto=12)
    return [Expected("processed_twice", "in", 4, 11)]


@planted
def offsets_that_go_back(shop: Shop) -> list[Expected]:
    shop.policy["match"] = "transaction"
    shop.transform(*range(8), upto=8)
    shop.commit(5)
    shop.transform(*range(5, 12), upto=12)
    return [Expected("processed_twice", "in", 5, 11)]


@planted
def another_writer(shop: Shop) -> list[Expected]:
    """Another producer writes to the topic of outputs."""
    shop.policy["match"] = "transaction"
    shop.transform(*range(12), upto=12)
    shop.out(3)
    return [Expected("output_without_input", "out", 13, 13, "likely")]


@planted
def by_the_old_protocol(shop: Shop) -> list[Expected]:
    """The pipeline does not use transaction version 2, so all transactions of a producer have the same epoch."""
    shop.policy["match"] = "transaction"
    for first in (0, 4, 8):
        shop.transform(*range(first, first + (4 if first != 4 else 2)), upto=first + 4, version=11)
        time.sleep(0.01)  # so that the broker's times distinguish the transactions
    return [Expected("commit_beyond_output", "in", 4, 7, "likely")]


@planted
def outputs_without_offsets_by_the_old_protocol(shop: Shop) -> list[Expected]:
    """The second transaction commits no offsets. Only markers separate the outputs of the three transactions."""
    shop.policy["match"] = "transaction"
    shop.transform(*range(4), upto=4, version=11)
    time.sleep(0.01)
    shop.transform(4, 5, version=11)
    time.sleep(0.01)
    shop.transform(*range(4, 12), upto=12, version=11)
    return [Expected("output_without_input", "out", 5, 6, "likely")]


@planted
def two_consumers(shop: Shop) -> list[Expected]:
    """A zombie continues to process a partition that is assigned to another consumer."""
    shop.out(*range(4))
    for number in range(4, 8):
        shop.out(number, number)
    shop.out(*range(8, 12))
    shop.commit(12)
    return [Expected("processed_twice", "out", offset, offset) for offset in (5, 7, 9, 11)]


@planted
def a_drop_that_is_not_allowed(shop: Shop) -> list[Expected]:
    """The pipeline may drop drafts, but it drops an input that is not a draft."""
    shop.policy["may_drop"] = "value:$.state=draft"
    shop.order(12, state="draft")
    shop.order(13, state="new")
    shop.order(14, state="new")
    shop.out(*range(12), 14)
    shop.commit(15)
    return [Expected("input_unprocessed", "in", 13, 13)]


@planted
def without_a_group(shop: Shop) -> list[Expected]:
    """No offsets are committed, as with Flink or Spark. Only a later output shows that an input was lost."""
    shop.out(*range(3), *range(4, 9))
    return [Expected("input_unprocessed", "in", 3, 3, "likely")]


@clean
def transactions(shop: Shop) -> None:
    """One output transaction is aborted, one input belongs to an aborted transaction, and the last inputs are not processed
    yet."""
    shop.policy["match"] = "transaction"
    shop.transform(*range(4), upto=4)
    shop.transform(4, 5, upto=6, commit=False)
    shop.transform(*range(4, 8), upto=8)
    shop.send(shop.source, 40)
    assert shop._producer.end(False) == 0
    shop.transform(8, upto=9)


@clean
def transactions_of_the_old_protocol(shop: Shop) -> None:
    shop.policy["match"] = "transaction"
    for first in (0, 4, 8):
        shop.transform(*range(first, first + 4), upto=first + 4, version=11)
        time.sleep(0.01)


@clean
def filtered_in_transactions(shop: Shop) -> None:
    shop.policy |= {"match": "transaction", "may_drop": True}
    shop.transform(1, upto=4)
    shop.transform(upto=8)
    shop.transform(9, upto=12)


@clean
def in_flight(shop: Shop) -> None:
    """Some inputs are not processed yet, and some have an output but are not committed yet."""
    shop.out(*range(9))
    shop.commit(7)


@clean
def aborted_and_done_again(shop: Shop) -> None:
    """A transaction is aborted, and the next transaction processes its inputs again."""
    shop.transform(*range(6), upto=6)
    shop.transform(6, 7, upto=8, commit=False)
    shop.transform(*range(6, 12), upto=12)


@clean
def filtered(shop: Shop) -> None:
    shop.policy["may_drop"] = True
    shop.out(*range(0, 12, 3))
    shop.commit(12)


@clean
def drafts_are_filtered(shop: Shop) -> None:
    shop.policy["may_drop"] = "value:$.state=draft"
    shop.order(12, state="draft")
    shop.out(*range(12))
    shop.commit(13)


@clean
def several_outputs(shop: Shop) -> None:
    shop.policy["fan_out"] = [1, 3]
    for number in range(12):
        shop.out(*[number] * (1 + number % 3))
    shop.commit(12)


@clean
def any_number_of_outputs(shop: Shop) -> None:
    shop.policy["fan_out"] = "any"
    for number in range(12):
        shop.out(*[number] * (1 + number % 5))
    shop.commit(12)


@clean
def merged(shop: Shop) -> None:
    """The pipeline writes only the latest output of each key, as Kafka Streams does for a table that has a cache."""
    shop.policy |= {"match": "key", "may_merge": True}
    shop.out(8, 9, 10, 11)
    shop.commit(12)


@clean
def dead_letters(shop: Shop) -> None:
    shop.policy["out"] = [shop.sink, f"{shop.name}.dead"]
    shop.kafka.create_topic(f"{shop.name}.dead", partitions=1)
    shop.out(*range(4), *range(5, 12))
    shop.kafka.produce(f"{shop.name}.dead", **shop.record(4))
    shop.commit(12)


@clean
def began_at_the_end(shop: Shop) -> None:
    shop.policy["begin"] = "latest"
    shop.out(*range(7, 12))
    shop.commit(12)


@clean
def inputs_were_deleted(shop: Shop) -> None:
    shop.out(*range(12))
    shop.commit(12)
    shop._producer.ask(delete_records(6, topic=shop.source), 2)


@clean
def outputs_were_deleted(shop: Shop) -> None:
    shop.out(*range(12))
    shop.commit(12)
    shop._producer.ask(delete_records(6, topic=shop.sink), 2)


@clean
def an_aborted_input(shop: Shop) -> None:
    assert shop._producer.init() == 0
    shop.send(shop.source, 40)
    assert shop._producer.end(False) == 0
    shop.out(*range(12))
    shop.commit(14)


@clean
def one_key_many_times(shop: Shop) -> None:
    """Inputs are matched by key, and no output has the same value as its input."""
    shop.policy["match"] = "key"
    shop.out(*range(12))
    shop.commit(12)


@clean
def nobody_commits(shop: Shop) -> None:
    shop.out(*range(9))


def policies(shops: list[Shop]) -> str:
    """Returns the content of the TOML file that describes the pipelines of `shops`."""
    return "\n".join(
        f"[pipelines.{shop.name}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in shop.policy.items())
        for shop in shops
    )
