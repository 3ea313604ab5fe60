"""Timers and periodic work: each ends, whatever state it meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dialogue import Dialogue, accepted, answered, tagged
from inprocess import InProcess
from requesting import delete_records
from wirebroker.core.partition import Partition
from wirebroker.storage.log import FolderLog

pytestmark = pytest.mark.timeout(30)  # a timer that never ends fails soon

RETENTIONS = {"by-time": {"retention.ms": 60_000}, "by-size": {"retention.bytes": 0}, "never": {"retention.ms": -1}}


def retained(data: Path | None) -> InProcess:
    """Returns a broker with a topic for each kind of retention. A retention check takes place each minute."""
    topics = {name: {"partitions": 4, "configs": configs} for name, configs in RETENTIONS.items()}
    return InProcess(topics=topics, data=data, configs={"log.retention.check.interval.ms": 60_000})


def partitions(broker: InProcess) -> list[Partition]:
    return [each for name in RETENTIONS for each in broker.engine.cluster.topics[name].partitions]


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("kept", ["memory", "disk", "disk-that-refuses"])
def test_a_retention_check_ends_wherever_the_log_starts(
    kept: str, rolled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = retained(None if kept == "memory" else tmp_path)
    for partition in partitions(broker):
        for offset in range(3):
            Dialogue(broker) >> tagged("v", topic=partition.topic, partition=partition.index) << accepted(at=offset)
        if rolled:
            partition.log.roll(broker.clock.now())
    with monkeypatch.context() as patched:
        if kept == "disk-that-refuses":
            patched.setattr(FolderLog, "_discard", refuse)
        for partition in partitions(broker):
            wanted = delete_records(partition.index, topic=partition.topic, partition=partition.index)
            Dialogue(broker) >> wanted << answered(error_code=0)
        broker.clock.advance(minutes=5)
        for partition in partitions(broker):
            ends = partition.index if partition.topic == "never" else 3
            assert (partition.log_start_offset, partition.log_end_offset) == (ends, 3)
    broker.clock.advance(minutes=1)
    for partition in partitions(broker):
        assert len(partition.log.segments) == (2 if rolled and partition.log_start_offset < 3 else 1)


def refuse(*_: Any) -> None:
    raise OSError("the disk refuses")
