"""What the audit on Spark does with contents and journals, beside the audit in the small."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import batch
from wirebroker.audit.content import head
from wirebroker_audit import contents
from wirebroker_audit.job import Request, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)


def log(folder: Path, *batches: bytes) -> Path:
    """A directory with these batches as topic orders."""
    (folder / "logs" / "orders-0").mkdir(parents=True)
    (folder / "logs" / "orders-0" / f"{0:020d}.log").write_bytes(b"".join(batches))
    return folder / "logs"


def evidence(spark: SparkSession, out: Path) -> dict[str, Any]:
    """The evidence of each finding in a report, by its kind."""
    rows = spark.read.parquet(str(out / "findings")).collect()
    return {row["kind"]: json.loads(row["evidence"]) for row in rows}


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


def test_a_key_that_is_no_text_is_shown_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    stored = [batch(at, [b"v"], key=b"\xff\xfe") for at in (0, 1)]
    journal = [
        {"topic": "orders", "key_base64": "//8=", "value": "gone"},
        {"topic": "orders", "key_base64": "//4=", "value": "v", "acknowledged": False},
    ]
    (tmp_path / "sent.jsonl").write_text("".join(json.dumps(line) + "\n" for line in journal))
    logs = log(tmp_path, *stored)
    audit(spark, Request(tmp_path / "out", logs, intended=str(tmp_path / "sent.jsonl")))
    shown = {kind: each["key"] for kind, each in evidence(spark, tmp_path / "out").items()}
    assert shown == {
        "lost": head(b"\xff\xff"), "unacknowledged_stored": head(b"\xff\xfe"), "application_duplicate": head(b"\xff\xfe"),
    }  # fmt: skip
