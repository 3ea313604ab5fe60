"""Tiered storage (KIP-405): the audit reads the segments in a remote store together with the local segments."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from wirebroker_audit.job import Request, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wirebroker_audit.job import Result

pytestmark = pytest.mark.timeout(900)
RECORDED = Path(__file__).parents[1] / "data" / "tiered-kafka-4.3.1.tar.xz"
TOPICS = ("orders", "payments", "trimmed")


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """Returns a folder with the log directory `node` of a real Kafka, and with `remote`, to which it has moved segments."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def audited(spark: SparkSession, folder: Path, store: Path | None, topics: tuple[str, ...] = TOPICS, **more: Any) -> Result:
    return audit(spark, Request(folder / "report", path=folder / "node", topics=topics, remote_store=store, **more))


def segments(folder: Path, topic: str) -> list[Path]:
    return sorted(folder.glob(f"remote/*/{topic}-0-*/*.log"))


def short(result: Result) -> list[tuple[str, str, int, int]]:
    return sorted((each["kind"], each["severity"], each["first_offset"], each["last_offset"]) for each in result.findings)


# A real Kafka's directories


def test_a_tiered_log_is_audited_whole(spark: SparkSession, kafka: Path) -> None:
    consumed = json.loads((kafka / "consumed.json").read_text())
    result = audited(spark, kafka, kafka / "remote")
    assert (short(result), result.summary["notices"], result.exit_code) == ([], [], 0)
    counts = result.summary["topics"]
    assert {name: counts[name]["records"] for name in ("orders", "trimmed")} == {
        name: len(consumed[name]) for name in ("orders", "trimmed")
    }
    assert (counts["payments"]["committed"], counts["payments"]["aborted"]) == (60, 20)
    assert counts["payments"]["records"] - 20 * 5 == len(consumed["payments"]), "the rest was aborted"
    assert [(each["first"], each["end"]) for each in result.summary["ranges"]] == [(0, 600), (0, 480), (481, 600)]
    covered = result.summary["coverage"]["topics"]
    assert [(each["remote_segments"], each["remote_missing"]) for each in covered.values()] == [(18, 0), (14, 0), (2, 0)]
    assert "<th>remote segments</th>" in (kafka / "report" / "report.html").read_text().replace(' class="number"', "")


def test_without_the_store_the_audit_says_what_it_did_not_read(spark: SparkSession, kafka: Path) -> None:
    result = audited(spark, kafka, None)
    assert (short(result), result.exit_code) == ([], 0)
    (notice,) = result.summary["notices"]
    assert "orders-0 (offsets 0 to 540)" in notice
    assert "--remote-store" in notice
    (orders, _, trimmed) = result.summary["ranges"]
    assert orders["remote"] == {"segments": 0, "missing": 541, "missing_offsets": [[0, 540]]}
    assert trimmed["remote"]["missing_offsets"] == [[481, 540]]


LOST = {0: ("offset_gap", 0, 30), 7: ("gap", 210, 241), -2: ("gap", 510, 541)}
"""For each lost segment of `orders`, the finding. A producer's gap is reported if its sequences show which records are gone."""


@pytest.mark.parametrize("index", LOST, ids=["first", "middle", "last before the local log"])
def test_a_lost_remote_segment_is_found(spark: SparkSession, kafka: Path, index: int) -> None:
    gone, following = segments(kafka, "orders")[index], segments(kafka, "orders")[index + 1]
    first, last = int(gone.name[:20]), int(following.name[:20]) - 1
    gone.unlink()
    result = audited(spark, kafka, kafka / "remote", ("orders",))
    assert LOST[index] in [(kind, *offsets) for kind, severity, *offsets in short(result) if severity == "certain"]
    assert result.exit_code == 1
    assert f"lacks offsets {first} to {last}" in result.summary["notices"][0]
    assert result.summary["ranges"][0]["remote"]["missing_offsets"] == [[first, last]]
