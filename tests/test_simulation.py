"""Runs simulated schedules with fixed seeds, and checks that the schedules detect broken validators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulation.schedule import Schedule, shrink
from simulation.world import Violation, World
from wirebroker.apis import produce
from wirebroker.core import partition as partition_module
from wirebroker.core import producers
from wirebroker.core.profile import PROFILES
from wirebroker.core.replication import Replication

CHUNK, CHUNKS = 100, 20


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        Schedule(seed).run()


def test_a_schedule_is_the_same_each_time() -> None:
    logs = []
    for _ in range(2):
        schedule = Schedule(11)
        schedule.run()
        logs.append((schedule.world.log, schedule.world.steps, [bytes(b) for b in schedule.partitions[0].log.batches()]))
    assert logs[0] == logs[1]


def test_schedules_are_long_enough() -> None:
    steps = []
    for seed in range(40):
        schedule = Schedule(seed)
        schedule.run()
        steps.append(schedule.world.steps)
    assert sum(steps) / len(steps) >= 200


# Each function breaks the validator in one way. The schedules must notice this.


def window_of_four(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"rules": PROFILES["kafka-4.3"].with_setting("window", "4")}


def wraps_one_early(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(producers, "SEQUENCES", 2**31 - 1)
    return {}


def rejected_epoch_still_bumps(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    def append(self: Any, records: Any, now: int, version: int, **options: Any) -> Any:
        appended = original(self, records, now, version, **options)
        if appended.error_code and appended.header is not None and appended.state_before is not None:
            entry = producers.unpack(appended.state_before)
            bumped = entry._replace(producer_epoch=entry.producer_epoch + 1)
            self.producers[appended.header.producer_id] = producers.pack(bumped)
        return appended

    original = partition_module.Partition.append
    monkeypatch.setattr(partition_module.Partition, "append", append)
    return {}


def state_kept_when_the_write_failed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    def append(self: Any, records: Any, now: int, version: int, **options: Any) -> Any:
        fails = self.write_fails
        appended = original(self, records, now, version, **options)
        if fails and appended.header is not None and appended.header.producer_id >= 0:
            state = self.producers.get(appended.header.producer_id)
            base = self.log.end_offset
            self.producers[appended.header.producer_id] = producers.advance(state, appended.header, base, now, self.rules)
        return appended

    original = partition_module.Partition.append
    monkeypatch.setattr(partition_module.Partition, "append", append)
    return {}


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], dict[str, Any]]] = {
    "window of four": window_of_four,
    "wraps one early": wraps_one_early,
    "a rejected epoch raises the epoch": rejected_epoch_still_bumps,
    "the state stays after a failed write": state_kept_when_the_write_failed,
}


# Each of these functions breaks replication in one way.


def all_is_acknowledged_at_once(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(produce, "_awaited", lambda *_: ())
    return {}


def consumers_see_what_is_not_replicated(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(partition_module.Partition, "high_watermark", property(lambda self: self.log.end_offset))
    return {}


def a_new_leader_knows_what_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    def take_over(self: Any, prefix: Any) -> None:
        known = self.producers
        original(self, prefix)
        self.producers = known

    original = partition_module.Partition.take_over
    monkeypatch.setattr(partition_module.Partition, "take_over", take_over)
    return {}


def anybody_may_lead(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    def circumstances(self: Any, alive: Any, unclean: bool = False) -> Any:
        return original(self, alive, True)

    original = Replication._circumstances
    monkeypatch.setattr(Replication, "_circumstances", circumstances)
    return {}


BROKEN |= {
    "acks=all is acknowledged at once": all_is_acknowledged_at_once,
    "consumers see unreplicated records": consumers_see_what_is_not_replicated,
    "a new leader knows records that it lacks": a_new_leader_knows_what_it_does_not_have,
    "anybody may lead": anybody_may_lead,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rules_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = BROKEN[name](monkeypatch)
    caught = 0
    for seed in range(300):
        try:
            Schedule(seed, **options).run()
        except Violation:
            caught += 1
            break
    assert caught, f"300 schedules found no error in: {name}"


def test_a_failing_schedule_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    options = window_of_four(monkeypatch)
    for seed in range(300):
        try:
            Schedule(seed, **options).run()
        except Violation as found:
            shape, smaller = shrink(seed, found, **options)
            assert shape.restarts == shape.failing_writes == shape.transactional == 0
            assert "but the error is 45" in str(smaller)
            return
    pytest.fail("nothing to shrink")


def test_a_failing_schedule_names_its_seed() -> None:
    def spoil(world: World) -> None:
        world.engine.cluster.topics["orders"].partitions[0].log.end_offset += 1

    with pytest.raises(Violation, match=r"seed 3: .*\n.*Shape\("):
        Schedule(3, spoil=spoil).run()
