"""One schedule: who takes part, what goes wrong, and what must hold throughout and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kafkawire.batches import SEQUENCES, read_header
from simulation.actors import Consumer, IdempotentProducer, TransactionalProducer
from simulation.world import PARTITIONS, TOPIC, Violation, World
from wirebroker.core.partition import Partition
from wirebroker.core.profile import Rules

EVENTS = 30_000
"""After so many events a schedule that does not come to an end is one that hangs."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schedule is made of; it follows from the seed."""

    producers: int
    transactional: int
    in_flight: int
    cuts: int
    restarts: int
    failing_writes: int
    near_the_end: bool
    """Whether sequences begin just below 2³¹."""


def shape_of(world: World) -> Shape:
    """Restarts forget all but the last batch of a producer, as Kafka's do, so that with them one batch is in flight."""
    chance = world.random
    restarts = chance.choice([0, 0, 1, 2])
    return Shape(
        producers=chance.randint(1, 2), transactional=chance.randint(0, 3), in_flight=1 if restarts else 5,
        cuts=chance.randint(0, 8), restarts=restarts, failing_writes=chance.choice([0, 0, 2]),
        near_the_end=chance.random() < 0.3,
    )  # fmt: skip


def shrink(seed: int, found: Violation, **options: Any) -> tuple[Shape, Violation]:
    """The smallest schedule of this seed that still goes wrong, and how it does."""
    shape = Schedule(seed, **options).shape
    smaller = True
    while smaller:
        smaller = False
        for name in ("producers", "transactional", "cuts", "restarts", "failing_writes", "in_flight", "near_the_end"):
            value = getattr(shape, name)
            least = 1 if name == "in_flight" else 0
            if value <= least:
                continue
            tried = replace(shape, **{name: False if isinstance(value, bool) else value - 1})
            try:
                Schedule(seed, shape=tried, **options).run()
            except Violation as still:
                shape, found, smaller = tried, still, True
    return shape, found


class Schedule:
    """A run of one seed. `spoil` may break the engine, to see whether the checks notice."""

    def __init__(
        self, seed: int, rules: Rules | None = None, spoil: Callable[[World], None] | None = None,
        shape: Shape | None = None,
    ) -> None:  # fmt: skip
        self.world = world = World(seed, rules=rules)
        self.shape = shape = shape or shape_of(world)
        self.partitions: list[Partition] = world.engine.cluster.topics[TOPIC].partitions
        self.producers = [
            IdempotentProducer(
                world, f"p{number}", batches=world.random.randint(15, 40), in_flight=shape.in_flight,
                first_sequence=SEQUENCES - 9 if shape.near_the_end else 0,
            )
            for number in range(shape.producers)
        ]  # fmt: skip
        self.transactional = [
            TransactionalProducer(world, f"t{number}", f"tx{min(number, 1)}", world.random.randint(4, 12))
            for number in range(shape.transactional)
        ]
        self.consumers = [Consumer(world, f"c{index}", index) for index in range(PARTITIONS)]
        self._seen = [0] * PARTITIONS
        self._stored: set[tuple[int, int, int, int]] = set()
        for _ in range(shape.cuts):
            world.soon(self._cut, 900)
        for _ in range(shape.restarts):
            world.soon(lambda: world.restart(world.random.choice(["clean", "kill"])), 900)
        for _ in range(shape.failing_writes):
            world.soon(self._fail_a_write, 900)
        if spoil is not None:
            spoil(world)

    def run(self) -> None:
        """Run it to its end. Raises Violation, with the seed, and what happened before."""
        try:
            if not self.world.run(self._step, EVENTS):
                raise Violation("it does not come to an end")
            self._in_the_end()
        except Exception as found:
            lines = "\n".join(self.world.log[-40:])
            raise Violation(f"seed {self.world.seed}: {found!r}\n{self.shape}\n{lines}") from found

    def _step(self) -> bool:
        for partition in self.partitions:
            self._check_new(partition)
        finished = all(each.done for each in (*self.producers, *self.transactional))
        finished = finished and all(partition.transactions.first_offset() is None for partition in self.partitions)
        return finished and all(
            consumer.offset == self.partitions[consumer.partition].last_stable_offset for consumer in self.consumers
        )

    # What goes wrong

    def _cut(self) -> None:
        links = [link for link in self.world.links.values() if link.open]
        if links:
            link = self.world.random.choice(links)
            self.world.say(f"connection {link.connection.number} is cut")
            link.cut()

    def _fail_a_write(self) -> None:
        """A write fails, but not the first of a producer: Kafka then takes what comes after it, and the first is lost."""
        partition = self.world.random.choice(self.partitions)
        if all(producer.begun for producer in self.producers if producer.partition == partition.index):
            self.world.say(f"the next write to partition {partition.index} fails")
            partition.fail_next_write()

    # What must hold

    def _check_new(self, partition: Partition) -> None:
        """Offsets are dense, and every sequence of a producer's epoch is stored once."""
        if partition.log_end_offset == self._seen[partition.index]:
            return
        for raw in partition.log.batches(self._seen[partition.index]):
            header = read_header(raw)
            if header.base_offset < self._seen[partition.index]:
                continue
            if header.base_offset != self._seen[partition.index]:
                raise Violation(f"offset {header.base_offset} follows {self._seen[partition.index] - 1}")
            self._seen[partition.index] = header.last_offset + 1
            if header.base_sequence < 0:
                continue
            for number in range(header.records_count):
                sequence = (header.base_sequence + number) % SEQUENCES
                key = (partition.index, header.producer_id, header.producer_epoch, sequence)
                if key in self._stored:
                    raise Violation(f"sequence {sequence} of producer {key[1]} epoch {key[2]} is stored twice")
                self._stored.add(key)

    def _in_the_end(self) -> None:
        read = {consumer.partition: consumer.values for consumer in self.consumers}
        twice = [value for values in read.values() for value, times in Counter(values).items() if times > 1]
        if twice:
            raise Violation(f"read twice: {twice}")
        for producer in self.producers:
            sent = [value for batch in producer.batches for value in batch.values]
            got = [value for value in read[producer.partition] if value.startswith(f"{producer.name}.")]
            if got != sent:
                raise Violation(f"{producer.name} sent {sent}, and {got} was read")
        for producer in self.transactional:
            for outcome in producer.outcomes:
                shown = [value in read[index] for index, values in outcome.values.items() for value in values]
                if any(shown) != all(shown):
                    raise Violation(f"a transaction of {producer.name} was read in part: {outcome.values}")
                if outcome.said != "unknown" and shown[0] != (outcome.said == "committed"):
                    raise Violation(f"a transaction of {producer.name} was {outcome.said}, and reading says otherwise")
