"""Follows the logs and the acquired records of a world from step to step, and checks what no reader may see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuzzing.script import Finding
from kafkawire.batches import read_header
from simulation.whole.done import TOPIC
from wirebroker.core.cluster import Topic
from wirebroker.core.partition import Partition
from wirebroker.core.share.in_flight import InFlight, RecordState

if TYPE_CHECKING:
    from simulation.whole.world import World
    from wirebroker.engine.engine import Engine


@dataclass(slots=True)
class Followed:
    """What is known of one log: where its next batch begins, its open transactions by producer id, each with its first
    offset, and the largest high watermark that readers have seen."""

    epoch: int = -1
    position: int = 0
    open: dict[int, int] = field(default_factory=dict)
    high: int = 0
    start: int = 0
    batches: list[tuple[int, int]] = field(default_factory=list)
    """The last offset and the largest timestamp of each batch."""


class Following:
    """Follows the logs of one world."""

    def __init__(self) -> None:
        self._logs: dict[tuple[bytes, int], Followed] = {}

    def look(self, world: World) -> None:
        """Follow all logs up to their ends. Raises Finding."""
        for topic in world.engine.cluster.topics.values():
            falls = bool(world.done.falls & {topic.name, "*"})
            for partition in topic.partitions:
                known = self._logs.setdefault((topic.topic_id, partition.index), Followed())
                self._follow(partition, known, falls)
                if not falls and partition.log_start_offset > known.start:
                    self._deleted(world, topic, partition, known)
                known.start = partition.log_start_offset
        for record, member in _acquired(world.engine):
            if record.lock is None or record.lock.action is None:
                raise Finding("an acquired record has no lock that ends", member)

    @staticmethod
    def _follow(partition: Partition, known: Followed, falls: bool) -> None:
        where, high = f"{partition.topic}-{partition.index}", partition.high_watermark
        if high < known.high and not falls:
            raise Finding("the high watermark falls", f"{where}: from {known.high} to {high}")
        known.high = high
        if partition.leader_epoch != known.epoch or partition.log_end_offset < known.position:
            known.epoch, known.position = partition.leader_epoch, partition.log_start_offset
            known.open.clear()
            known.batches.clear()
        if partition.log_end_offset > known.position:
            for raw in partition.log.batches(known.position):
                header = read_header(raw)
                known.batches.append((header.last_offset, header.max_timestamp))
                if header.is_control:
                    known.open.pop(header.producer_id, None)
                elif header.is_transactional and header.producer_id >= 0:
                    known.open.setdefault(header.producer_id, header.base_offset)
            known.position = partition.log_end_offset
        first = min((each for each in known.open.values() if each >= partition.log_start_offset), default=high)
        if partition.last_stable_offset > first:
            told = f"{where}: the last stable offset is {partition.last_stable_offset}, and a transaction is open at {first}"
            raise Finding("readers see an open transaction", told)

    @staticmethod
    def _deleted(world: World, topic: Topic, partition: Partition, known: Followed) -> None:
        """Checks that retention deletes nothing too early. Settings that a schedule has changed are left out."""
        begin = world.done.starts.get((topic.topic_id, partition.index), 0)
        changed = [world.done.since.get(("config", TOPIC, topic.name, f"retention.{each}"), 0) for each in ("ms", "bytes")]
        if topic.internal or max(changed) > world.began or world.in_trouble or "topic" in world.done.vague:
            return
        keep_ms = partition.configs.integer("retention.ms")
        for last, latest in known.batches:
            if begin <= last < partition.log_start_offset and (keep_ms < 0 or world.now - latest <= keep_ms):
                raise Finding("retention deletes a batch too early", f"{topic.name}-{partition.index}: the batch up to {last}")
        known.batches = [each for each in known.batches if each[0] >= partition.log_start_offset]


def _acquired(engine: Engine) -> Iterator[tuple[InFlight, str]]:
    """Yields the records that members of share groups have acquired, with the group and the member."""
    for held in engine.shares._held.values():
        for batch in held.share.batches:
            for _, _, record in batch.states():
                if record.state is RecordState.ACQUIRED:
                    yield record, f"{held.key} {record.member_id}"


def all_leave(world: World) -> None:
    """Lets all clients leave, and checks that no request of theirs waits any more. Raises Finding."""
    engine = world.engine
    for where in list(world.links):
        world.leave(where)
    for partition in engine.cluster.partitions():
        if partition.waiting:
            raise Finding("a request of a client that has left waits for records", f"{partition.topic}-{partition.index}")
    if engine.shares._waiting:
        raise Finding("a ShareFetch of a client that has left waits for records", str([*engine.shares._waiting]))
    for _, _, timer in engine.timers._heap:
        if getattr(timer.action, "__module__", "").startswith("wirebroker.apis."):
            raise Finding("a timer of a client that has left stays", str(timer.action))
