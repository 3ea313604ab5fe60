"""The application's own table as the journal. The audit reports rows without a record, and how late records are."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from audit_spark.synthetic import Writer, batch
from wirebroker_audit.checks import against_table
from wirebroker_audit.checks.against_table import BadTable, read_description, sentence
from wirebroker_audit.job import audit
from wirebroker_audit.request import CannotAudit, Request
from wirebroker_audit.spark.tables import local_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
T = 1_700_000_000_000
ROWS = [(f"o{number}", T + 1000 * number, "new") for number in range(10)] + [
    ("thrice", T + 20_000, "new"), ("thrice", T + 40_000, "new"), ("thrice", T + 60_000, "new"), ("late", T + 61_000, "new"),
    ("not yet", 2 * T, "new"), ("after the end", T + 500_000, "new"), ("never meant", T + 5000, "draft"),
]  # fmt: skip
"""The key, the time and the state of each row."""
RECORDS = [(f"o{number}", T + 1000 * number + 500) for number in range(10) if number != 4] + [
    ("o7", T + 15_000), ("thrice", T + 20_500), ("thrice", T + 60_500), ("ghost", T + 61_000), ("late", T + 91_000),
]  # fmt: skip
DESCRIPTION = """topic = "orders"
key = "order_id"
time = "created_at"
where = "state <> 'draft'"
grace = 5
"""


def log(folder: Path) -> Path:
    writer = Writer("orders", 0, random.Random(1))
    for sequence, (key, time) in enumerate(RECORDS):
        value = f"{key} {time}".encode()
        writer.put(batch(writer.offset, [value], pid=1, epoch=0, seq=sequence, time=time, key=key.encode()), 1)
    writer.save(folder)
    return folder


def in_parquet(spark: SparkSession, folder: Path) -> str:
    columns = dict(zip(("order_id", "created_at", "state"), map(list, zip(*ROWS, strict=True)), strict=True))
    pq.write_table(pa.table(columns | {"more": [0.5] * len(ROWS)}), folder / "outbox.parquet")
    return f'format = "parquet"\npath = "{folder / "outbox.parquet"}"\n'


def in_a_database(spark: SparkSession, folder: Path) -> str:
    """Writes the table into Derby, which comes with PySpark. The times are of the type TIMESTAMP."""
    spark._jvm.System.setProperty("derby.stream.error.file", str(folder / "derby.log"))
    url = f"jdbc:derby:{folder / 'shop'}"
    driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    rows = spark.createDataFrame(ROWS, "order_id string, ms long, state string")
    rows = rows.selectExpr("order_id", "timestamp_millis(ms) AS created_at", "state")
    options = {"url": f"{url};create=true", "driver": driver, "dbtable": "outbox"}
    options["createTableColumnTypes"] = "order_id VARCHAR(40), state VARCHAR(10)"  # a CLOB cannot be compared
    rows.coalesce(1).write.format("jdbc").options(**options).save()
    return f'format = "jdbc"\n[options]\nurl = {{ env = "SHOP" }}\ndriver = "{driver}"\ndbtable = "outbox"\n'


@pytest.mark.parametrize(("table", "together"), [(in_parquet, True), (in_a_database, False)])
def test_rows_without_a_record_are_found_and_counted_over_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Any, together: bool
) -> None:
    monkeypatch.setenv("SHOP", f"jdbc:derby:{tmp_path / 'shop'}")
    (tmp_path / "outbox.toml").write_text(DESCRIPTION + table(spark, tmp_path))
    intended = str(tmp_path / "outbox.toml")
    result = audit(spark, Request(tmp_path / "out", log(tmp_path / "logs"), intended=intended, together=together))
    lost = {(json.loads(each["evidence"])["key"], each["severity"]): each for each in result.findings}
    assert set(lost) == {("'o4'", "certain"), ("'thrice'", "certain"), ("'after the end'", "likely")}
    assert {each["kind"] for each in result.findings} == {"lost"}
    said = lost["'thrice'", "certain"]["explanation"]
    assert said.startswith("orders: the row with key 'thrice' from 2023-11-14 22:14:00 UTC has no record; ")
    assert said.endswith("the table has 3 rows with this key, the log 2")
    sums = result.summary["table"]["topics"]["orders"]
    counts = {"stored": 12, "missing": 3, "pending": 1, "gone": 0, "beyond": 1, "unnamed": 1, "latest_ms": 30_000}
    assert counts.items() <= sums.items()
    buckets = sums["buckets"]
    assert sum(each["missing"] for each in buckets) == 3
    assert buckets[0]["median"] == 500
    page = (tmp_path / "out" / "report.html").read_text()
    assert sentence(sums) in page
    assert "Rows of the application&#x27;s table for orders" in page or "Rows of the application's table for orders" in page
    assert result.summary["complete"]


def pairs_of(spark: SparkSession, rows: list[tuple[str, int]], records: list[tuple[str, int]]) -> list[Any]:
    schemas = (
        "topic string, key binary, value_hash string, time long",
        "topic string, key binary, value_hash string, timestamp long",
    )
    made = [
        local_rows(spark, [("t", key.encode(), None, time) for key, time in each], spark.createDataFrame([], schema).schema)
        for each, schema in zip((rows, records), schemas, strict=True)
    ]
    units = made[1].selectExpr("*", "0L AS base_offset")
    return against_table.paired(made[0], units).collect()


def test_each_row_and_each_record_is_in_one_pair(spark: SparkSession) -> None:
    chance = random.Random(3)
    rows, records = ([(f"k{chance.randrange(30)}", chance.randrange(50)) for _ in range(150)] for _ in range(2))
    pairs = pairs_of(spark, rows, records)
    assert Counter((each["key"].decode(), each["time"]) for each in pairs if each["time"] is not None) == Counter(rows)
    assert Counter((each["key"].decode(), each["timestamp"]) for each in pairs if each["timestamp"] is not None) == Counter(
        records
    )
    wanted, stored = Counter(key for key, _ in rows), Counter(key for key, _ in records)
    whole = Counter(each["key"].decode() for each in pairs if None not in (each["time"], each["timestamp"]))
    assert whole == wanted & stored


@pytest.mark.parametrize(
    ("rows", "records", "expected"),
    [
        ([1, 2, 3], [4, 5, 6], [(1, 4), (2, 5), (3, 6)]),  # equal numbers: matched in order
        ([10, 20, 30], [11, 31], [(10, 11), (20, None), (30, 31)]),  # a record matches the latest row before it
        ([10], [9, 11], [(None, 11), (10, 9)]),  # the clocks differ
        ([10, 20], [], [(10, None), (20, None)]),
    ],
)
def test_which_record_belongs_to_which_row(spark: SparkSession, rows: Any, records: Any, expected: Any) -> None:
    pairs = pairs_of(spark, [("k", each) for each in rows], [("k", each) for each in records])
    found = [(each["time"], each["timestamp"]) for each in pairs]
    assert sorted(found, key=lambda each: each[0] or 0) == expected


def test_what_retention_and_compaction_remove_is_not_missing(spark: SparkSession) -> None:
    columns = "topic string, key binary, value_hash string, rows long, records long, time long, timestamp long"
    pairs = spark.createDataFrame(
        [("cut", b"old", None, 1, 0, 50, None), ("cut", b"new", None, 1, 0, 150, None),
         ("compacted", b"kept", None, 2, 1, 50, None), ("compacted", b"none", None, 1, 0, 60, None),
         ("whole", b"none", None, 1, 0, 60, None), ("absent", b"none", None, 1, 0, 60, None)], columns,
    )  # fmt: skip
    facts = local_rows(
        spark, [("cut", 100, 900, 0), ("compacted", None, 900, 1), ("whole", None, 900, 0)], against_table._FACTS
    )
    rows = against_table.judged(pairs, facts, now=1000, grace_ms=10).collect()
    missing = {(each["topic"], bytes(each["key"])): each["severity"] for each in rows if each["state"] == "missing"}
    likely = {("cut", b"new"), ("compacted", b"none"), ("absent", b"none")}
    assert missing == dict.fromkeys(likely, "likely") | {("whole", b"none"): "certain"}
    assert {bytes(each["key"]) for each in rows if each["state"] == "gone"} == {b"old", b"kept"}


def test_stretches_of_time_are_round_and_not_too_many() -> None:
    assert [against_table.width_for(0, ms) for ms in (0, 59_000, 3_600_000, 86_400_000, 365 * 86_400_000)] == [
        1000, 1000, 300_000, 3_600_000, 7 * 86_400_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("key = ", "this is not TOML"),
        ('topic = "t"\nkey = "k"', "time is missing"),
        ('key = "k"\ntime = "t"', "give either topic .one topic for all rows. or topic_from"),
        (DESCRIPTION + 'kee = "x"', "there is no setting 'kee'; did you mean 'key'?"),
        (DESCRIPTION.replace("5", "true"), "grace must be int, not True"),
        (
            DESCRIPTION + '[options]\npassword = { env = "NOT_SET_ANYWHERE" }',
            "there is no environment variable 'NOT_SET_ANYWHERE'",
        ),
    ],
)
def test_a_wrong_description_is_refused_before_spark_starts(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "table.toml").write_text(text)
    with pytest.raises(BadTable, match=words.replace("?", r"\?")):
        read_description(str(tmp_path / "table.toml"))
    with pytest.raises(CannotAudit, match=words.replace("?", r"\?")):
        Request(tmp_path / "out", log(tmp_path / "logs"), intended=str(tmp_path / "table.toml")).check()


def test_a_password_is_in_no_text_of_the_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    (tmp_path / "table.toml").write_text(DESCRIPTION + 'jars = ["db.jar"]\n[options]\npassword = { env = "SHOP_PASSWORD" }')
    described = read_description(str(tmp_path / "table.toml"))
    assert described.options == {"password": "hunter2"}
    assert "hunter2" not in repr(described)
    assert described.settings == {"spark.jars": "db.jar"}


def test_a_table_that_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "table.toml").write_text(DESCRIPTION + in_parquet(spark, tmp_path).replace("outbox", "inbox"))
    request = Request(tmp_path / "out", log(tmp_path / "logs"), intended=str(tmp_path / "table.toml"))
    with pytest.raises(CannotAudit, match=r"table.toml: the table cannot be read: .*inbox"):
        audit(spark, request)
    (tmp_path / "table.toml").write_text(DESCRIPTION.replace("order_id", "order_no") + in_parquet(spark, tmp_path))
    with pytest.raises(CannotAudit, match=r"table.toml: the table cannot be read: .*order_no"):
        audit(spark, replace(request))
