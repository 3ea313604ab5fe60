"""The fast search, chunk by chunk, finds the same runs and repeated contents as a slow search, batch by batch."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra wirebroker[audit] is not installed")
pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

import pyarrow.parquet as pq  # noqa: E402

from audit_spark.synthetic import make_directory  # noqa: E402
from wirebroker_audit.checks.contents import doubles, pack  # noqa: E402
from wirebroker_audit.folding.runs import HEADER, RUNS, _by_number, _together, fold, folded  # noqa: E402
from wirebroker_audit.logs.planning import find_pieces  # noqa: E402
from wirebroker_audit.reading import parts  # noqa: E402
from wirebroker_audit.reading.parts import kept  # noqa: E402
from wirebroker_audit.reading.reader import read_piece  # noqa: E402
from wirebroker_audit.reading.scan import BATCHES  # noqa: E402


@pytest.fixture(scope="module")
def chunks(tmp_path_factory: pytest.TempPathFactory) -> list[pa.RecordBatch]:
    """The batches of logs with all kinds of faults, in chunks of nine."""
    path = tmp_path_factory.mktemp("logs") / "logs"
    make_directory(path, seed=7, partitions=14)
    whole = [chunk.rows for split in find_pieces(path) for chunk in read_piece(split)]
    return [rows.slice(at, 9) for rows in whole for at in range(0, rows.num_rows, 9)]


KEYS = ("topic", "partition", "segment", "run", "producer_id")


def slowly_folded(rows: list[dict[str, Any]]) -> list[str]:
    sound = [row for row in rows if row["problem"] in (None, "offset_regression")]
    by_key = sorted(sound, key=lambda row: (*(str(row[name]) for name in KEYS), row["position"]))
    found = []
    for _, group in groupby(by_key, key=lambda row: tuple(row[name] for name in KEYS)):
        run = list(group)
        data = [row for row in run if not row["attributes"] & 32]
        marked = max((row["position"] for row in run if row["attributes"] & 32), default=-1)
        begun = [row for row in data if row["position"] > marked and row["attributes"] & 16]
        shown = [row["last_offset"] + 1 for row in run if row["records"] < row["last_offset"] - row["base_offset"] + 1]
        made = {name: run[0][name] for name in KEYS} | {
            "kind": run[0]["attributes"] & 0x30, "first": header(run), "data": header(data[-1:]), "last": header(run[-1:]),
            "open": header(begun), "last_bytes": run[-1]["bytes"], "last_crc": run[-1]["crc_stored"],
            "marked": marked, "batches": len(data), "records": sum(row["records"] for row in data),
            "bytes": sum(row["bytes"] for row in run), "committed": sum(row["marker"] == 1 for row in run),
            "aborted": sum(row["marker"] == 0 for row in run), "max_timestamp": max(row["max_timestamp"] for row in run),
            "compacted_to": max(shown, default=-1),
        }  # fmt: skip
        found.append(str(made))
    return found


def header(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    return {field.name: rows[0][field.name] for field in HEADER} if rows else None


def test_batches_are_folded_into_runs(chunks: list[pa.RecordBatch]) -> None:
    dice = random.Random(1)
    assert any(chunk.column("problem").null_count < len(chunk) for chunk in chunks)
    for chunk in chunks:
        order = list(range(chunk.num_rows))
        dice.shuffle(order)
        made = fold(chunk.take(pa.array(order)))
        assert made.schema == RUNS
        assert Counter(map(str, made.to_pylist())) == Counter(slowly_folded(chunk.to_pylist()))


def test_chunks_may_be_folded_in_any_order_and_grouping(chunks: list[pa.RecordBatch]) -> None:
    """The order in which runs are merged does not change the result."""
    dice = random.Random(2)
    batches = pa.Table.from_batches(chunks)
    for segment in batches["segment"].unique().to_pylist():
        mine = [rows for chunk in chunks if len(rows := chunk.filter(pa.compute.equal(chunk.column("segment"), segment)))]
        parts = [fold(rows) for rows in mine]
        expected = Counter(slowly_folded([row for rows in mine for row in rows.to_pylist()]))
        dice.shuffle(parts)
        while len(parts) > 1:
            at = dice.randrange(len(parts) - 1)
            parts[at : at + 2] = [_by_number(_together(parts[at : at + 2]))]
        assert Counter(map(str, parts[0].to_pylist())) == expected


@pytest.mark.parametrize("held", [0, 50_000])
def test_a_worker_gives_away_the_runs_that_cannot_go_on(
    chunks: list[pa.RecordBatch], held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirebroker_audit.folding.runs.HELD", held)
    rows = [row for made in folded(chunks) for row in made.to_pylist()]
    assert Counter(map(str, rows)) == Counter(slowly_folded([row for chunk in chunks for row in chunk.to_pylist()]))


def test_small_batches_are_gathered_and_written_together(chunks: list[pa.RecordBatch], tmp_path: Path) -> None:
    """Each Arrow batch becomes a row group of the Parquet file, and readers must load each row group. If small batches were not
    gathered, 20,000 partitions would make 20,000 row groups.
    """
    small = [chunk.slice(at, 7) for chunk in chunks for at in range(0, len(chunk), 7)]
    rows = pa.Table.from_batches(small)
    for most in (50, 1 << 30):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(parts, "GATHERED_ROWS", most)
            made = list(parts.gathered(iter(small)))
        assert pa.Table.from_batches(made).equals(rows)
        assert max(map(len, made)) <= max(most, 7) + 7
        assert len(made) <= len(rows) // 50 + 1 < len(small)
    path = tmp_path / "part-00000.parquet"
    (told,) = parts.counted(parts.gathered(iter(small)), path, BATCHES)
    assert (told.to_pylist(), pq.ParquetFile(path).num_row_groups) == ([{"rows": len(rows)}], 1)


def test_the_batches_are_kept_when_all_are_read_and_not_before(chunks: list[pa.RecordBatch], tmp_path: Path) -> None:
    path = tmp_path / "part-00000.parquet"
    batches = kept(iter(chunks), path, BATCHES)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):  # a repeated task
        assert sum(each.num_rows for each in folded(kept(iter(chunks), path, BATCHES))) > 0
    assert list(tmp_path.iterdir()) == [path]
    assert pq.read_table(path).equals(pa.Table.from_batches(chunks, schema=BATCHES))


@pytest.mark.parametrize("buckets", [1, 3, 50])
def test_checksums_that_repeat_in_their_topic_are_found(buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirebroker_audit.checks.contents.BUCKET", 64)
    dice = random.Random(buckets)
    rows = [(f"t{dice.randrange(3)}", dice.choice((dice.randrange(-40, 40) << 32, dice.getrandbits(63)))) for _ in range(500)]
    given = [
        pa.RecordBatch.from_pylist([{"topic": topic, "content": content} for topic, content in rows[at : at + 30]])
        for at in range(0, len(rows), 30)
    ]
    packed = pa.Table.from_batches(list(pack(given, buckets)))
    found = set()
    for topic, bucket in {(row["topic"], row["bucket"]) for row in packed.to_pylist()}:
        chosen = pa.compute.and_(pa.compute.equal(packed["topic"], topic), pa.compute.equal(packed["bucket"], bucket))
        found |= {(row["topic"], row["content"]) for row in doubles(packed.filter(chosen)).to_pylist()}
    assert found == {row for row, count in Counter(rows).items() if count > 1}
