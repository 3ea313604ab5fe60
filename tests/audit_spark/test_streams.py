"""What Spark is handed of a log, as a whole or as a stream: damage, retention, out of reach. No Spark is started here."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import Writer
from wirebroker import MockKafka
from wirebroker_audit import wire
from wirebroker_audit.sources import files
from wirebroker_audit.sources.files import SegmentReader
from wirebroker_audit.sources.streams import BrokerStream, SegmentStream, Standing
from wirekit import RawProducer


@pytest.fixture
def writer() -> Writer:
    writer = Writer("orders", 0, random.Random(1))
    for _ in range(40):
        writer.data(7, count=2)
    return writer


def log_of(folder: Path) -> Path:
    return folder / "orders-0" / f"{0:020d}.log"


def rows(stream: SegmentStream | BrokerStream, start: Standing, end: Standing) -> list[dict[str, Any]]:
    read: Iterator[Any] = (batch for each in stream.partitions(start, end) for batch in stream.read(each))
    return [row for batch in read for row in batch.to_pylist()]


def test_damage_does_not_stop_the_stream(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    whole = bytearray(log_of(tmp_path).read_bytes())
    whole[16 + sum(map(len, writer.pieces[:10]))] = 1  # the magic byte of the eleventh batch
    log_of(tmp_path).write_bytes(whole)
    stream = SegmentStream({"path": str(tmp_path)})
    found = rows(stream, {}, stream.latestOffset())
    assert [row["problem"] for row in found] == [None] * 10 + ["bad_batch"] + [None] * 29


def test_a_batch_is_read_when_it_is_whole(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    whole = log_of(tmp_path).read_bytes()
    log_of(tmp_path).write_bytes(whole[:-5])
    stream = SegmentStream({"path": str(tmp_path)})
    first = stream.latestOffset()
    assert len(rows(stream, {}, first)) == 39
    assert stream.latestOffset() == first
    log_of(tmp_path).write_bytes(whole)
    assert [row["base_offset"] for row in rows(stream, first, stream.latestOffset())] == [78]


def test_what_retention_took_before_it_was_read_is_said(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    stream = SegmentStream({"path": str(tmp_path)})
    first = stream.latestOffset()
    for _ in range(3):
        writer.roll()
        writer.data(7, count=2)
    writer.save(tmp_path / "later")
    segments = sorted((tmp_path / "later" / "orders-0").iterdir())
    assert [path.name for path in segments[1:]] == [f"{offset:020d}.log" for offset in (80, 82, 84)]
    log_of(tmp_path).unlink()
    for path in segments[2:]:
        path.rename(tmp_path / "orders-0" / path.name)
    found = rows(stream, first, stream.latestOffset())
    assert [(row["problem"], row["base_offset"]) for row in found] == [("deleted", 80), (None, 82), (None, 84)]
    assert found[0]["detail"] == "offsets 80 to 81 were deleted before they were read"
    assert found[0]["segment"] < found[1]["segment"]


def test_nothing_is_missing_where_retention_took_what_was_read(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    stream = SegmentStream({"path": str(tmp_path)})
    first = stream.latestOffset()
    writer.roll()
    writer.data(7, count=2)
    writer.save(tmp_path / "later")
    log_of(tmp_path).unlink()
    (tmp_path / "later" / "orders-0" / f"{80:020d}.log").rename(tmp_path / "orders-0" / f"{80:020d}.log")
    assert [row["problem"] for row in rows(stream, first, stream.latestOffset())] == [None]


def test_a_range_that_cannot_be_read_fails_and_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAUSE", 0)
    with MockKafka(topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        for number in range(5):
            producer.send(number)
        stream = BrokerStream({"bootstrap": kafka.bootstrap_servers})
        end = stream.latestOffset()
        kafka.kill_broker(1)
        with pytest.raises(OSError, match="orders-0 at offset 0"):
            rows(stream, {}, end)
        kafka.start_broker(1)
        assert len(rows(stream, {}, end)) == 5


def test_a_log_that_is_not_large_keeps_all_cores_busy(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.save(tmp_path)
    reader = SegmentReader({"path": str(tmp_path), "parallelism": "2"}, records=False)
    assert len(reader.partitions()) == 1
    monkeypatch.setattr(files, "LEAST_SHARE", 1000)
    parts = reader.partitions()
    assert len(parts) == 2
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 40
