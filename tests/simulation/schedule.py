"""A schedule: its clients, its failures, and the conditions that must hold after each event and at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkawire.batches import SEQUENCES, read_header
from simulation.actors import ModelConsumer, ModelProducer, ModelTransactions
from simulation.world import PARTITIONS, TOPIC, Violation, World
from wirebroker.core.partition import Partition
from wirebroker.core.profile import Rules

EVENTS = 30_000
"""If a schedule has more events than this, the schedule is considered to hang."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The settings of a schedule. The seed determines these settings."""

    producers: int
    transactional: int
    in_flight: int
    cuts: int
    restarts: int
    failing_writes: int
    near_the_end: bool
    """Tells whether the first sequences of producers are just below 2³¹. Then the sequences wrap."""
    kills: int = 0
    """How many times a broker is killed, and later started again."""
    freezes: int = 0
    """How many times a follower is frozen for a while."""
    moves: int = 0
    """How many times a partition's leader is moved."""


CLUSTERS = 4
"""If this is n, every n-th schedule has three brokers and three replicas."""


def brokers_of(seed: int) -> int:
    """Returns the number of brokers in a schedule."""
    return 3 if seed % CLUSTERS == 2 else 1


def shape_of(world: World) -> Shape:
    """Returns the random settings of a schedule. If the broker is restarted, clients have only one batch in flight. As in
    Kafka, a restarted broker knows only the last batch of each producer.
    """
    chance = world.random
    if brokers_of(world.seed) > 1:
        return Shape(
            producers=chance.randint(1, 2), transactional=chance.randint(0, 2), in_flight=1, cuts=chance.randint(0, 3),
            restarts=chance.choice([0, 0, 0, 1]), failing_writes=0, near_the_end=chance.random() < 0.3,
            kills=chance.randint(1, 5), freezes=chance.randint(0, 4), moves=chance.randint(0, 3),
        )  # fmt: skip
    restarts = chance.choice([0, 0, 1, 2])
    return Shape(
        producers=chance.randint(1, 2), transactional=chance.randint(0, 3), in_flight=1 if restarts else 5,
        cuts=chance.randint(0, 8), restarts=restarts, failing_writes=chance.choice([0, 0, 2]),
        near_the_end=chance.random() < 0.3,
    )  # fmt: skip


def shrink(seed: int, found: Violation, **options: Any) -> tuple[Shape, Violation]:
    """Makes a schedule smaller and smaller while it still fails. Returns the settings of the smallest schedule, and its
    failure.
    """
    shape = Schedule(seed, **options).shape
    smaller = True
    while smaller:
        smaller = False
        for name in (
            "producers", "transactional", "kills", "freezes", "moves", "cuts", "restarts", "failing_writes", "in_flight",
            "near_the_end",
        ):  # fmt: skip
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
    """Plays the schedule of one seed. To test the checks, `spoil` can break the engine."""

    def __init__(
        self, seed: int, rules: Rules | None = None, spoil: Callable[[World], None] | None = None, shape: Shape | None = None
    ) -> None:
        self.world = world = World(seed, rules=rules, brokers=brokers_of(seed))
        self.shape = shape = shape or shape_of(world)
        self.partitions: list[Partition] = world.engine.cluster.topics[TOPIC].partitions
        self.producers = [
            ModelProducer(
                world, f"p{number}", batches=world.random.randint(15, 40), in_flight=shape.in_flight,
                first_sequence=SEQUENCES - 9 if shape.near_the_end else 0,
            )
            for number in range(shape.producers)
        ]  # fmt: skip
        self.transactional = [
            ModelTransactions(world, f"t{number}", f"tx{min(number, 1)}", world.random.randint(4, 12))
            for number in range(shape.transactional)
        ]
        self.consumers = [ModelConsumer(world, f"c{index}", index) for index in range(PARTITIONS)]
        self._seen = [0] * PARTITIONS
        self._epochs = [0] * PARTITIONS
        self._visible = [0] * PARTITIONS
        self._stored: set[tuple[int, int, int, int]] = set()
        for _ in range(shape.cuts):
            world.soon(self._cut, 900)
        for _ in range(shape.restarts):
            world.soon(lambda: world.restart(world.random.choice(["clean", "kill"])), 900)
        for _ in range(shape.failing_writes):
            world.soon(self._fail_a_write, 900)
        for times, failure in ((shape.kills, self._kill), (shape.freezes, self._freeze), (shape.moves, self._move)):
            for _ in range(times):
                world.soon(failure, 900)
        if spoil is not None:
            spoil(world)

    def run(self) -> None:
        """Run the schedule to its end. Raises Violation with the seed and the earlier events."""
        try:
            if not self.world.run(self._step, EVENTS):
                raise Violation("the schedule does not end")
            self._in_the_end()
        except Exception as found:
            lines = "\n".join(self.world.log[-40:])
            raise Violation(f"seed {self.world.seed}: {found!r}\n{self.shape}\n{lines}") from found

    def _step(self) -> bool:
        for partition in self.partitions:
            self._check_new(partition)
        finished = all(each.done for each in (*self.producers, *self.transactional))
        ends = [partition.log_end_offset for partition in self.partitions]
        finished = finished and ends == [partition.last_stable_offset for partition in self.partitions]
        return finished and all(consumer.offset == ends[consumer.partition] for consumer in self.consumers)

    # Failures

    def _cut(self) -> None:
        links = [link for link in self.world.links.values() if link.open]
        if links:
            link = self.world.random.choice(links)
            self.world.say(f"connection {link.connection.number} is cut")
            link.cut()

    def _kill(self) -> None:
        cluster = self.world.engine.cluster
        if cluster.live_brokers:
            node = self.world.random.choice(sorted(cluster.live_brokers))
            self.world.kill(node)
            self.world.soon(lambda: self._start(node), 250)

    def _start(self, node: int) -> None:
        if not self.world.engine.cluster.alive(node):  # a restart of all brokers may have started this broker already
            self.world.say(f"broker {node} is started")
            self.world.engine.start_broker(node, self.world.now)

    def _freeze(self) -> None:
        partition = self.world.random.choice(self.partitions)
        followers = [node for node in self.world.engine.cluster.live_brokers if node != partition.leader]
        if not followers:
            return
        node = self.world.random.choice(followers)
        self.world.say(f"the replica of partition {partition.index} on broker {node} is frozen")
        controller = self.world.engine.controller
        controller.freeze_replica(TOPIC, partition.index, node, self.world.now)
        self.world.soon(lambda: controller.thaw_replica(TOPIC, partition.index, node, self.world.now), 400)

    def _move(self) -> None:
        partition = self.world.random.choice(self.partitions)
        able = [node for node in partition.in_sync if self.world.engine.cluster.alive(node)]
        if able:
            to = self.world.random.choice(able)
            self.world.say(f"broker {to} leads partition {partition.index}")
            self.world.engine.controller.move_leader(TOPIC, partition.index, to, self.world.now)

    def _fail_a_write(self) -> None:
        """Makes a write fail, but never a producer's first write. If the first write fails, Kafka accepts the second batch, and
        loses the first.
        """
        partition = self.world.random.choice(self.partitions)
        if all(producer.begun for producer in self.producers if producer.partition == partition.index):
            self.world.say(f"the next write to partition {partition.index} fails")
            partition.fail_next_write()

    # Conditions

    def _check_new(self, partition: Partition) -> None:
        """Checks that no offset is missing, that each sequence of an epoch is stored only once, and that visible records stay
        visible.
        """
        index = partition.index
        if partition.high_watermark < self._visible[index] or partition.high_watermark > partition.log_end_offset:
            visible = f"{self._visible[index]} records of partition {index} were visible"
            raise Violation(f"{visible}, but now {partition.high_watermark} of {partition.log_end_offset} are")
        self._visible[index] = partition.high_watermark
        if partition.leader_epoch != self._epochs[index]:  # a new leader may lack records that were not replicated
            self._epochs[index], self._seen[index] = partition.leader_epoch, 0
            self._stored = {key for key in self._stored if key[0] != index}
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
                raise Violation(f"{producer.name} sent {sent}, but {got} was read")
        for producer in self.transactional:
            for outcome in producer.outcomes:
                shown = [value in read[index] for index, values in outcome.values.items() for value in values]
                if any(shown) != all(shown):
                    raise Violation(f"a transaction of {producer.name} was read in part: {outcome.values}")
                if outcome.said != "unknown" and shown[0] != (outcome.said == "committed"):
                    raise Violation(f"a transaction of {producer.name} was {outcome.said}, but consumers saw the opposite")


def play_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the schedules of one case. Returns the number of steps. If a schedule failed, also returns the failure and the
    smallest schedule that still fails."""
    steps = 0
    for seed in range(case["first"], case["first"] + case["schedules"]):
        schedule = Schedule(seed)
        try:
            schedule.run()
        except Violation as found:
            shape, smaller = shrink(seed, found)
            wrong = f"{found}\n\nreduced to: {shape}\n{smaller}"
            return {**case, "schedules": seed - case["first"], "steps": steps, "wrong": wrong}
        steps += schedule.world.steps
    return {**case, "steps": steps, "wrong": None}
