"""A finding has the same `id` in every audit, so a report can say which findings are new, still there, or gone."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import Writer, batch, gap
from wirebroker_audit.job import audit
from wirebroker_audit.report.formats import read_findings, sarif
from wirebroker_audit.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


def log(folder: Path, *, more: bool) -> Path:
    """Writes a log with a gap. With `more`, the log has more batches and a second gap."""
    writer = Writer("orders", 0, random.Random(1))
    for sequence, value in enumerate((b"a", b"b", b"c")):
        writer.put(batch(writer.offset, [value], pid=1, epoch=0, seq=sequence, key=value), 1)
    gap(writer)
    if more:
        gap(writer)
    shutil.rmtree(folder, ignore_errors=True)
    writer.save(folder)
    return folder


def journal(path: Path, *values: str) -> str:
    """Writes a journal of the records that the application meant to send."""
    path.write_text("".join(json.dumps({"topic": "orders", "key": each, "value": each}) + "\n" for each in values))
    return str(path)


@pytest.mark.parametrize("together", [True, False])
def test_each_finding_has_an_id_that_later_audits_repeat(spark: SparkSession, tmp_path: Path, together: bool) -> None:
    out = tmp_path / "out"
    meant = journal(tmp_path / "sent.jsonl", "a", "b", "c", "lost", "lost", "lost too")
    first = audit(spark, Request(out, log(tmp_path / "logs", more=False), intended=meant, together=together))
    assert first.summary["changes"] is None
    ids = {each["id"]: each["kind"] for each in read_findings(out)}
    assert sorted(ids.values()) == ["gap", "lost", "lost", "lost"]
    results = json.loads(sarif(first.summary, read_findings(out)))["runs"][0]["results"]
    assert {each["partialFingerprints"]["finding/v1"] for each in results} == set(ids)

    meant = journal(tmp_path / "sent.jsonl", "lost too", "lost", "c", "b", "a")
    then = audit(spark, Request(out, log(tmp_path / "logs", more=True), intended=meant, together=together))
    changed = then.summary["changes"]
    assert (changed["time"], changed["new"], changed["still"], changed["gone"]) == (first.summary["time"], 1, 3, 1)
    assert [each["kind"] for each in changed["gone_findings"]] == ["lost"]
    stated = then.summary["coverage"]
    assert stated["topics"]["orders"].items() >= {"contents": "record by record", "journal": meant, "partitions": 1}.items()
    assert stated["digest"] != first.summary["coverage"]["digest"]
    again = audit(spark, Request(tmp_path / "again", tmp_path / "logs", together=not together))
    assert again.summary["coverage"]["digest"] == stated["digest"], "the digest depends only on the batches"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "1 new, 3 still there, 1 gone" in page
    assert page.count("<b>new</b>") == 1
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out).returncode == 0
    (out / "report.html").write_text("Yes")
    assert subprocess.run(["sha256sum", "--check", "--status", "SHA256SUMS"], cwd=out).returncode == 1
