"""The live audit reports findings while traffic runs, and continues after a restart."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import Writer, disorder, duplicate, gap, ordinary
from audit_spark.test_chaining import parts_of, rows_of
from wirebroker import MockKafka
from wirebroker_audit.checks.batches import findings_of
from wirebroker_audit.folding import micro_batches
from wirebroker_audit.live import CURRENT, LiveState, start
from wirebroker_audit.logs.planning import find_pieces
from wirebroker_audit.origin import Cluster, Directory
from wirebroker_audit.spark.tables import local
from wirekit import RawProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


def findings(out: Path) -> list[tuple[str, int]]:
    current: dict[str, Any] = json.loads((out / CURRENT).read_text())
    return sorted((each["kind"], each["first_sequence"]) for each in current["findings"])


def run(spark: SparkSession, origin: Directory | Cluster, out: Path, *steps: Callable[[], None]) -> None:
    """Start a stream, let it catch up after each step, and stop it at the end."""
    query = start(spark, origin, out, seconds=0)
    try:
        for step in steps:
            step()
            query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.slow
def test_findings_are_current_and_neither_lost_nor_repeated_over_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer("orders", 0, random.Random(4))

    def write(*events: Callable[[Writer], None]) -> None:
        for event in events:
            event(writer)
        fresh = tmp_path / f"made-{len(list(tmp_path.iterdir()))}"
        writer.save(fresh)
        for made in list(fresh.rglob("*")):
            place = logs / made.relative_to(fresh)
            if made.is_file():  # replace the file at once, because the stream may be reading the old file
                place.parent.mkdir(parents=True, exist_ok=True)
                made.replace(place)

    def expected() -> list[tuple[str, int]]:
        return sorted((each.kind, each.first_sequence) for each in writer.faults)

    write(ordinary, gap)
    origin = Directory(spark, logs, ())
    run(spark, origin, out, lambda: None, lambda: write(duplicate))
    assert findings(out) == expected()
    # After the last commit file is deleted, Spark runs the last micro-batch again, as if the process had been killed before the
    # commit.
    last = max((out / "live" / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    (out / CURRENT).unlink()
    run(spark, origin, out, lambda: write(disorder))
    assert findings(out) == expected()
    assert len(expected()) == 3


@pytest.mark.slow
def test_many_small_micro_batches_and_a_topic_created_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "BREADTH", 2)
    logs, out = tmp_path / "logs", tmp_path / "out"

    def made(seed: int, topic_id: str, *events: Callable[[Writer], None]) -> Writer:
        shutil.rmtree(logs, ignore_errors=True)
        writer = Writer("orders", 0, random.Random(seed))
        for event in events:
            event(writer)
            writer.roll()
        writer.data(1)
        writer.save(logs)
        (logs / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        return writer

    first = made(1, "4KVWbYsSQ6CGrd1Rcczhqg", gap, disorder)
    origin = Directory(spark, logs, ())
    origin.options["batch.bytes"] = "1"
    run(spark, origin, out, lambda: None)
    assert json.loads((out / CURRENT).read_text())["micro"] == 2
    assert findings(out) == sorted((each.kind, each.first_sequence) for each in first.faults)
    second = made(2, "xtzWWN4bTjitpL3kfd9s5g", duplicate)
    run(spark, origin, out, lambda: None)
    current = json.loads((out / CURRENT).read_text())
    assert current["micro"] == 4
    assert findings(out) == sorted((each.kind, each.first_sequence) for each in second.faults)
    assert current["notices"] == ["orders-0: the topic was deleted and created again; it is read from its beginning"]
    assert sorted(path.name for path in (out / "live" / "runs").iterdir()) == ["micro=0-3", "micro=4"]


def test_runs_do_not_become_more_with_each_micro_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "BREADTH", 2)
    writer = Writer("orders", 0, random.Random(5))
    first = writer.values(2)
    writer.data(1, values=first)
    for event in (gap, duplicate, disorder):
        for _ in range(6):
            writer.data(1)
        event(writer)
    writer.fault("duplicate", 0, writer.data(1, seq=0, values=first, advance=False))  # a joined run has this batch
    writer.save(tmp_path / "logs")
    (split,) = find_pieces(tmp_path / "logs")
    positions = rows_of(split)["position"].to_pylist()
    state, micros = LiveState(spark, tmp_path / "live"), 8
    for micro, part in enumerate(parts_of(split, positions[4::4][: micros - 1])):
        state.take(local(spark, rows_of(part)), micro)
    state.take(local(spark, rows_of(split).slice(0, 0)), micros)  # `take` joins the folders of the earlier micro-batches
    runs = state.runs().collect()
    assert len(runs) < state.batches().select("run").distinct().count()
    assert sum(each["batches"] for each in runs) == len(positions)
    origin = Directory(spark, tmp_path / "logs", ())
    origin.look()
    found = findings_of(state.batches(), state.runs(), origin.bounds_frame()).collect()
    assert sorted((each["kind"], each["first_sequence"]) for each in found) == sorted(
        each[:1] + each[3:4] for each in writer.faults
    )


def test_a_live_broker_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        producer.send(0, 3)
        run(
            spark, Cluster(spark, kafka.bootstrap_servers, ("orders",)), tmp_path / "out",
            lambda: None, lambda: producer.send(4, 5), lambda: RawProducer(kafka).send(0),
        )  # fmt: skip
    rows = spark.read.parquet(str(tmp_path / "out" / "live" / "batches")).orderBy("base_offset").collect()
    assert [row["base_offset"] for row in rows] == [0, 4, 6]
    assert findings(tmp_path / "out") == []
