"""For contents and journals, the audit on Spark and the in-memory audit have the same findings."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from kafkawire.batches import DECOMPRESSED_LIMIT, Record, build_batch
from kafkawire.compression import ZSTD, TooLarge
from wirebroker.audit import stored
from wirebroker.audit.checks import Bounds
from wirebroker.audit.content import digest, head
from wirebroker.audit.journal import intended_rows
from wirebroker.audit.matching import Repeats
from wirebroker.audit.stored import StoredPartition
from wirebroker_audit.checks import contents, names
from wirebroker_audit.checks.reconcile import reconcile, shown_of_intended
from wirebroker_audit.inputs import journal as intended
from wirebroker_audit.inputs.columns import columns_of, parsed
from wirebroker_audit.inputs.journal import BadJournal, read_journal
from wirebroker_audit.reading import records
from wirebroker_audit.reading.naming import with_names
from wirebroker_audit.reading.scan import BATCHES, Chunk
from wirebroker_audit.spark import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


SHOWN = [
    None, b"", b"k", b"\xff\xfe", b"a\xffb\xe2\x82", "ä€𝄞".encode() * 30, "𝄞".encode() * 40, b"x" * 40, b"x" * 41,
    b"\xff" * 161, b"tab\tline\nzero\0", "no-break\u00a0space\u2028".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80 \xc0\xaf",
]  # fmt: skip


def test_bytes_are_shown_as_the_audit_in_the_small_shows_them(spark: SparkSession) -> None:
    chance = random.Random(4)
    given = SHOWN + [bytes(chance.choices(b"a \xc3\xa4\xe2\x82\xac\xf0\x9d\x84\x9e\xff", k=n)) for n in range(100)]
    rows = spark.createDataFrame([(n, each) for n, each in enumerate(given)], "n int, data binary")
    shown = {row["n"]: row["shown"] for row in rows.select("n", contents.head("data").alias("shown")).collect()}
    assert [shown[n] for n in range(len(given))] == [head(each) for each in given]


def test_a_key_that_is_no_text_is_shown_all_the_same(spark: SparkSession) -> None:
    key, value = b"\xff\xfe", digest(b"v")
    stored = [("orders", 0, at, at, 0, -1, -1, -1, -1, "c", key, value, "'v'", "none") for at in (0, 1)]
    units = spark.createDataFrame(stored, f"{UNITS}, transaction string")
    journal = spark.createDataFrame(
        [("orders", None, b"\xff\xff", digest(b"gone"), None, None, "'gone'"),
         ("orders", None, key, value, False, None, "'v'")],
        "topic string, partition int, key binary, value_hash string, acknowledged boolean, producer string, shown string",
    )  # fmt: skip
    nothing = spark.createDataFrame([], "topic string, partition int, deleted long")
    named = (sf.xxhash64("topic", "key", "value_hash").alias("hash"), sf.lit(0).cast("long").alias("check"))
    came = reconcile(
        units.select("*", *named), lambda rows: rows.drop("check"), journal.select("*", *named), nothing, names.LeftOut(), 10
    )
    again = came.beyond.withColumn("kind", sf.lit("application_duplicate"))
    found = came.findings.unionByName(contents.stored_again(again)).collect()
    assert {row["kind"]: json.loads(row["evidence"])["key"] for row in found} == {
        "lost": head(b"\xff\xff"), "unacknowledged_stored": head(key), "application_duplicate": head(key),
    }  # fmt: skip


UNITS = (
    "topic string, partition int, base_offset long, last_offset long, timestamp long, producer_id long, producer_epoch short, "
    "base_sequence int, last_sequence int, content string, key binary, value_hash string, shown string"
)


# Contents that repeat

BOTH = {"heartbeats": [500] + [1] * 30 + [5, 20, 21], "states": [5] * 300, "few": [5] * 200}
"""Maps each topic to a list: how often each content of the topic occurs."""


def test_contents_that_repeat_are_judged_as_the_audit_in_the_small_judges_them(spark: SparkSession) -> None:
    rows = [(topic, f"{n}") for topic, counts in BOTH.items() for n, count in enumerate(counts) for _ in range(count)]
    units = spark.createDataFrame(rows, "topic string, content string")
    alike = contents.repeated(units).localCheckpoint()
    repeats = contents.repeats(units, alike)
    assert repeats == {topic: Repeats.of(counts) for topic, counts in BOTH.items()}
    left = contents.told_apart(alike, repeats).groupBy("topic", "content").count().collect()
    assert sorted((row["topic"], row["count"]) for row in left) == sorted(
        [("heartbeats", 5), ("heartbeats", 20), *[("few", 5)] * 200]
    )


# The journal

BROKEN = [
    "{", "[1]", '{"topic": "orders", "valeu": "x"}', '{"value": "x"}', '{"topic": "orders", "key": 4}',
    '{"topic": "orders", "value": 7}', '{"topic": "orders", "partition": true}',
    '{"topic": "orders", "partition": 3000000000}',
    '{"topic": "orders", "value_base64": "?"}', '{"topic": "orders", "value": "v", "value_base64": "eA=="}',
    '{"topic": "orders", "value_sha256": "ABCD"}', '{"topic": "orders", "id": [1]}', '{"topic": "\udcff"}',
    '{"topic": "\\udcff"}', '{"topic": "orders", "producer": 7}',
]  # fmt: skip


@pytest.mark.parametrize("line", BROKEN)
def test_a_line_is_refused_as_the_audit_in_the_small_refuses_it(line: str, tmp_path: Path) -> None:
    (tmp_path / "sent.jsonl").write_bytes(line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(ValueError) as small:
        intended_rows(tmp_path / "sent.jsonl")
    chunk = pa.RecordBatch.from_pydict({"line": [b" ", line.encode(errors="surrogateescape")]})
    (row,) = next(iter(intended._of_lines([chunk]))).to_pylist()
    assert f"sent.jsonl, line 1{row['problem']}" == str(small.value)


def test_a_journal_is_read_as_the_audit_in_the_small_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": 1, "acknowledged": False}, {"id": 1, "topic": "t", "value": "a"}, {"id": 1, "acknowledged": True},
        {"id": "1", "topic": "t", "value_base64": "/w=="}, {"id": "1", "acknowledged": False}, {"topic": "t", "key": "k"},
        {"topic": "t", "value_sha256": "ABCDEF01" * 8, "partition": 3, "producer": "till"},
        {"topic": "t", "key_base64": "/w=="},
    ]  # fmt: skip
    path = tmp_path / "sent.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n \n")
    rows = read_journal(spark, str(path), tmp_path / "kept").rows.withColumn("shown", shown_of_intended()).collect()
    told = {
        (row["topic"], row["key"] and bytes(row["key"]), row["value_hash"], row["partition"], row["acknowledged"],
         row["producer"], row["shown"])
        for row in rows
    }  # fmt: skip
    small = intended_rows(path)
    assert len(rows) == len(small)
    assert told == {
        (each.topic, each.key, each.digest, each.partition, each.acknowledged, each.producer, str(each).rpartition("value ")[2])
        for each in small
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"topic": "t"}', '{"topic": "t", "value_sha256": "AB"}'],
         "sent.jsonl, line 2: value_sha256 must be 64 hexadecimal digits"),
        (['{"id": 4, "acknowledged": true}'], "sent.jsonl: no row with the id 4 has a topic"),
        (['{"id": 4, "topic": "t", "value": "v"}', '{"id": 4, "value_base64": "dg=="}'],
         "sent.jsonl: the rows with the id 4: value and value_base64 give the value twice"),
    ],
)  # fmt: skip
def test_a_journal_that_cannot_be_understood_is_refused(
    spark: SparkSession, lines: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "sent.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(BadJournal, match=re.escape(message)):
        read_journal(spark, str(tmp_path / "sent.jsonl"), tmp_path / "kept")


def test_a_journal_in_parquet_is_read_and_refused_alike(spark: SparkSession, tmp_path: Path) -> None:
    good = {"topic": ["t", "t"], "key": [b"\xff", b"k"], "value": ["v", None], "partition": [1.0, None]}
    pq.write_table(pa.table(good), tmp_path / "good.parquet")
    read = read_journal(spark, str(tmp_path / "good.parquet"), tmp_path / "good")
    rows = read.rows.withColumn("shown", shown_of_intended()).collect()
    assert {(bytes(row["key"]), row["value_hash"], row["partition"], row["shown"]) for row in rows} == {
        (b"\xff", digest(b"v"), 1, "'v'"), (b"k", None, None, "null"),
    }  # fmt: skip
    pq.write_table(pa.table({"topic": ["t"], "value": [7]}), tmp_path / "bad.parquet")
    with pytest.raises(BadJournal, match=r"bad.parquet: value must be bytes or str, not 7"):
        read_journal(spark, str(tmp_path / "bad.parquet"), tmp_path / "bad")


LINES: list[Callable[[random.Random], Any]] = [
    lambda rng: {"topic": "orders", "partition": rng.randrange(3), "key": f"{rng.random()}", "value": "ä\t" * rng.randrange(9)},
    lambda rng: {"topic": "bills", "value_sha256": "AB" * 32, "acknowledged": rng.choice([True, False, None])},
    lambda rng: {"topic": "orders", "key_base64": "AAE=", "value_base64": rng.choice(["/w==", "", None]), "producer": "till 3"},
    lambda rng: {"id": rng.choice([7, "x", "ü"]), "acknowledged": True},
    lambda rng: {"topic": "orders", "value": None},
]
IN_TOPIC: list[dict[str, Any]] = [
    {"id": 2.5}, {"id": True}, {"id": [1]}, {"partition": True}, {"partition": -1}, {"partition": 1 << 31}, {"partition": 1.0},
    {"value_sha256": "ab"}, {"value": "1", "value_base64": "AA=="}, {"value_base64": "A"}, {"value_base64": "ü"},
    {"value": "\udc00"}, {"keys": "k"}, {"value": {}}, {"acknowledged": 1},
]  # fmt: skip
ODD: list[Any] = [
    {"topic": ""},
    {"topic": 5},
    {},
    {"topic": "\ud800"},
    [],
    None,
    3,
    *({"topic": "a"} | each for each in IN_TOPIC),
]


def test_rows_made_by_columns_are_those_made_one_by_one() -> None:
    """Normal rows are converted column by column. If one row is wrong, all rows are converted singly, so that the messages are
    exact."""
    rng, fast = random.Random(5), 0
    for number in range(300):
        kinds = rng.sample(LINES, rng.randrange(1, 3))
        rows = [rng.choice(kinds)(rng) for _ in range(rng.randrange(1, 9))]
        if odd := number % 2:
            rows.insert(rng.randrange(len(rows) + 1), ODD[number // 2 % len(ODD)])
        lines = [json.dumps(row).encode() for row in rows]
        slow, block = [intended._of_line(line) for line in lines], b"\n".join([*lines, b""])
        wanted = pa.RecordBatch.from_pylist(slow, schema=intended.PARTS)
        assert intended._made_of(block).equals(wanted), rows
        made = columns_of(table, intended.PARTS) if (table := parsed(block)) is not None else None
        assert not (odd and made is not None and any("problem" in each for each in slow)), rows
        fast += made is not None
    assert fast > 60, "most ordinary rows"


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"topic": "a"},{"topic": "b"}'],
        [b'{"topic": "a"},{"topic": "b"}', b'{"topic": "c", "value": "}', b'{"}'],
        [b'{"topic": "a"},{"topic": "b"}', b'{"topic": "c", "value": [{}', b'{}]}'],
        [b'{"topic": "a"}, ', b'{"topic": "b"}'],
        [b'{"topic": "a"}]', b'[{"topic": "b"}'],
        [b"\xff\xfe{\x00}\x00"], [b'\xef\xbb\xbf{"topic": "a"}'], [b'{"topic": "a\nb"}'], [b"[" * 100_000], [b"1" * 5000],
    ],
)  # fmt: skip
def test_lines_that_only_together_are_json_stay_malformed(lines: list[bytes]) -> None:
    lines = [each for line in lines for each in line.split(b"\n")]
    rows = intended._made_of(b"\n".join([*lines, b""])).to_pylist()
    assert len(rows) == len(lines)
    assert any(row["problem"] for row in rows)


def test_names_are_odd_unless_they_occur_once_on_both_sides() -> None:
    """`odd_of` finds the same names as a slow count, however the rows are divided among tasks."""
    rng = random.Random(3)
    for buckets in (1, 7):
        rows = [
            (
                rng.randrange(40),
                rng.choice([0, 0, 0, 1]),
                rng.choice([-1, 0, 0, 0, 1]),
                int(rng.random() < 0.1),
                rng.randrange(2),
            )
            for _ in range(70)
        ]
        rows = [(name, check, max(place, 0) if stored else place, 0 if stored else failed, stored)
                for name, check, place, failed, stored in rows]  # fmt: skip
        tasks = [rows[start::3] for start in range(3)]
        sides = [[row for row in task if row[4] == side] for task in tasks for side in (0, 1)]
        packed = [part for side in sides if side for part in names.pack([np.array(side, names.NAME)], buckets)]
        table = pa.Table.from_batches(packed)
        found = [names.odd_of(table.filter(pc.equal(table["bucket"], bucket))) for bucket in set(table["bucket"].to_pylist())]
        told = {row["hash"]: (row["stored"] > 0, row["wanted"] > 0) for each in found for row in each.to_pylist()}
        wanted = {}
        for name in {row[0] for row in rows}:
            mine = [row for row in rows if row[0] == name]
            stored, meant = [row for row in mine if row[4]], [row for row in mine if not row[4]]
            well = len(stored) == len(meant) == 1 and stored[0][1] == meant[0][1] and not meant[0][3]
            if not (well and meant[0][2] in (-1, stored[0][2])):
                wanted[name] = bool(stored), bool(meant)
        assert told == wanted
        assert wanted
        assert len(told) < len({row[0] for row in rows})
    (only,) = names.pack([np.zeros(1000, names.NAME)], 5)
    assert len(only.column("names")[0].as_py()) == 2 * names.NAME.itemsize


def test_odd_names_and_their_rows_are_the_same_read_by_python_and_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a limit, a task holds the hashes of odd names and the batches without a commit. Beyond the limit, Spark joins
    them."""
    count, start, hidden = 400, 20, range(120, 124)
    keys = [b"%d" % (each // 2 if each > 300 else each) for each in range(count)]
    log = pa.RecordBatch.from_pydict(
        {
            "topic": ["a"] * count, "segment": ["0.log"] * count, "partition": pa.array([0] * count, pa.int32()),
            "position": [each // 4 for each in range(count)], "offset": [*range(count)], "key": keys,
            "value_hash": pa.nulls(count, pa.string()), "problem": pa.nulls(count, pa.string()),
        }
    )  # fmt: skip
    stored = with_names(log)
    wanted = stored.slice(50).append_column("acknowledged", pa.array([True] * (count - 50)))
    for name, table in (("stored", stored), ("wanted", wanted)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_batches([table]), tmp_path / name / "part.parquet", row_group_size=64)
    of_files = [spark.read.parquet((tmp_path / name).as_uri()) for name in ("stored", "wanted")]
    places = spark.createDataFrame([("a", 0, "0.log", 30)], "topic string, partition int, segment string, position long")
    told = []
    for most in (1000, 0):
        monkeypatch.setattr(names, "MOST_HIDDEN", most)
        monkeypatch.setattr(names, "MOST_PICKED", most)
        odd = names.odd_names(*of_files, names.left_out(places, [("a", 0, start)]), 2 * count).localCheckpoint()
        sides = sorted((row["hash"], row["stored"] > 0, row["wanted"] > 0) for row in odd.collect())
        told.append((sides, sorted(row["offset"] for row in names.picked(of_files[0], odd).collect())))
    assert told[0] == told[1]
    seen = Counter(key for offset, key in enumerate(keys) if offset >= start and offset not in hidden)
    meant = Counter(keys[50:])
    assert told[0][1] == [
        offset for offset, key in enumerate(keys) if not seen[key] == meant[key] == 1 and seen[key] + meant[key]
    ]


# Batches that decompress to very large data


def test_a_batch_may_unfold_into_more_than_a_broker_of_ours_would_take() -> None:
    large = build_batch([Record(0, 0, None, bytes(DECOMPRESSED_LIMIT), [])], compression=ZSTD)
    small = StoredPartition("orders", 0, Bounds(0), [memoryview(large)]).read()
    (row,) = records_of(large)
    assert (row["content"], row["problem"]) == (small.records[0].content, None)
    assert [type(each).__name__ for each in small.entries] == ["BatchRow"]


def test_what_unfolds_into_too_much_could_not_be_read_and_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (records, stored):
        monkeypatch.setattr(module, "UNFOLDED", 1000)
    large = build_batch([Record(0, 0, None, bytes(1001), [])], compression=ZSTD)
    (row,) = records_of(large)
    assert row["problem"] == "unreadable"
    assert row["detail"] == "0.log at 0: zstd data decompresses to more than 1000 bytes"
    with pytest.raises(TooLarge):
        StoredPartition("orders", 0, Bounds(0), [memoryview(large)]).read()


def records_of(raw: bytes) -> list[dict[str, Any]]:
    """Returns a row for each record of a batch."""
    rows = [{"topic": "orders", "partition": 0, "base_offset": 0, "bytes": len(raw), "attributes": 4, "segment": "0.log",
             "position": 0, "problem": None}]  # fmt: skip
    chunk = Chunk(memoryview(raw), pa.RecordBatch.from_pylist(rows, schema=pa.schema(
        [field for field in BATCHES if field.name in rows[0]])), 0)  # fmt: skip
    return [row for made in records.record_rows([chunk]) for row in made.to_pylist()]


@pytest.mark.parametrize("few", [2, 100], ids=["many rows", "few rows"])
def test_settled_rows_are_computed_once_and_stay_as_they_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(tables, "FEW", few)
    rows = spark.range(5, numPartitions=3).selectExpr("id", "named_struct('a', id, 'b', null) AS pair", "rand() AS chance")
    held = tables.settled(rows)
    assert held.schema == rows.schema
    assert held.orderBy("id").collect() == held.orderBy("id").collect()
    assert [row["pair"]["a"] for row in held.orderBy("id").collect()] == list(range(5))
    assert tables.settled(rows.where("id < 0")).isEmpty()
