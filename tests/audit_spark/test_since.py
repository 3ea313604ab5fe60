"""Audits that continue from an earlier report. The tests have findings across the border between the two audits, logs that were
truncated or created again between the audits, and reports that an audit cannot continue.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import TRANSACTIONAL, Writer
from wirebroker_audit.folding.since import BadReport, Onward, ReportState, onward, onward_live, read_state
from wirebroker_audit.job import audit
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.logs.planning import find_pieces
from wirebroker_audit.reading.live_segments import topic_id_of
from wirebroker_audit.reading.pieces import Mark
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.request import Request
from wirebroker_audit.wire import LivePartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
KEY = ("orders", 0)
ID, OTHER_ID = "4KVWbYsSQ6CGrd1Rcczhqg", "xtzWWN4bTjitpL3kfd9s5g"


def saved(writer: Writer, logs: Path, topic_id: str = "") -> None:
    shutil.rmtree(logs / "orders-0", ignore_errors=True)
    writer.save(logs)
    if topic_id:
        (logs / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


def covered(logs: Path) -> ReportState:
    """Returns the state that a report would record after an audit of `logs`."""
    rows = [row for split in find_pieces(logs) for chunk in read_piece(split) for row in chunk.rows.to_pylist()]
    last = rows[-1]
    base = int(last["segment"].rpartition("/")[2].removesuffix(".log"))
    end, topic_id = last["position"] + last["bytes"], topic_id_of(logs / "orders-0")
    mark = Mark(last["last_offset"] + 1, base, end, last["position"], last["crc_stored"], base, topic_id=topic_id)
    return ReportState(False, 1, 7, {KEY: mark})


def left(logs: Path, state: ReportState) -> tuple[Onward, list[tuple[str, int]]]:
    """Returns the segment and the base offset of each batch that the next audit reads."""
    found = onward(state, find_partitions(logs), find_pieces(logs))
    rows = [row for split in found.pieces for chunk in read_piece(split) for row in chunk.rows.to_pylist()]
    assert {row["problem"] for row in rows} <= {None}
    assert [each.number for each in found.pieces] == list(range(7, 7 + len(found.pieces)))
    return found, [(row["segment"].removeprefix("orders-0/").lstrip("0"), row["base_offset"]) for row in rows]


def log(batches: int, *rolls: int, seed: int = 1) -> Writer:
    """Writes a log whose batches have one record each. A new segment begins at each offset in `rolls`."""
    writer = Writer("orders", 0, random.Random(seed))
    for number in range(batches):
        if number in rolls:
            writer.roll()
        writer.data(1, count=1)
    return writer


def test_only_what_came_after_the_seam_is_read(tmp_path: Path) -> None:
    saved(log(6, 3), tmp_path, ID)
    state = covered(tmp_path)
    assert left(tmp_path, state)[1] == []
    saved(log(9, 3, 8), tmp_path, ID)
    found, rows = left(tmp_path, state)
    assert rows == [("3.log", 6), ("3.log", 7), ("8.log", 8)]
    assert (list(found.goes_on), found.notices) == ([KEY], [])
    saved(log(7, 3, 6), tmp_path, ID)
    assert left(tmp_path, state)[1] == [("6.log", 6)]


def test_a_rewritten_segment_is_read_from_the_offset_under_a_name_that_sorts_later(tmp_path: Path) -> None:
    saved(log(6, 3), tmp_path)
    state = covered(tmp_path)
    for rolls in ((), (8,)):
        saved(log(9, *rolls), tmp_path)  # without the segment at offset 3, as if the cleaner had merged it
        found, rows = left(tmp_path, state)
        assert rows == [("6.log", 6), ("6.log", 7), (f"{6 if not rolls else 8}.log", 8)]
        assert found.physical == {"orders-0/00000000000000000006.log": 0}


def test_offsets_that_nobody_read_are_told(tmp_path: Path) -> None:
    saved(log(6, 3), tmp_path)
    state = covered(tmp_path)
    saved(log(12, 9), tmp_path)
    (tmp_path / "orders-0" / f"{0:020d}.log").unlink()
    found, rows = left(tmp_path, state)
    assert [offset for _, offset in rows] == [9, 10, 11]
    assert found.notices == ["orders-0: offsets 6 to 8 were deleted before they were read"]
    assert list(found.goes_on) == [KEY]


@pytest.mark.parametrize(
    ("after", "topic_id", "words"),
    [
        (log(9), OTHER_ID, "the topic was deleted and created again"),
        (log(4), ID, "the log was read up to offset 6 but now ends before that"),
        (log(9, seed=2), ID, "the batch before offset 6 has changed, so the log was truncated"),
    ],
)
def test_a_log_that_restarted_is_read_from_its_beginning(tmp_path: Path, after: Writer, topic_id: str, words: str) -> None:
    saved(log(6), tmp_path, ID)
    state = covered(tmp_path)
    saved(after, tmp_path, topic_id)
    found, rows = left(tmp_path, state)
    assert [offset for _, offset in rows] == list(range(after.offset))
    assert found.goes_on == {}
    assert [each.partition(": ")[2].startswith(words) for each in found.notices] == [True]


def test_a_partition_that_is_gone_is_told(tmp_path: Path) -> None:
    saved(log(6), tmp_path)
    state = covered(tmp_path)
    more = replace(state, partitions={**state.partitions, ("payments", 3): state.partitions[KEY]})
    assert left(tmp_path, more)[0].notices == ["payments-3: this audit does not read it, so its earlier batches were left out"]


@pytest.mark.parametrize(
    ("live", "crc", "begin", "words"),
    [
        (LivePartition(*KEY, "", 0, 9, False, ID), 5, 6, ""),
        (LivePartition(*KEY, "", 0, 9, False, ID), -1, 6, ""),
        (LivePartition(*KEY, "", 0, 9, True, ID), 8, 6, ""),
        (LivePartition(*KEY, "", 8, 9, False, ID), 8, 8, "offsets 6 to 7 were deleted"),
        (LivePartition(*KEY, "", 0, 9, False, ID), 8, 0, "the batch before offset 6 has changed"),
        (LivePartition(*KEY, "", 0, 5, False, ID), 5, 0, "the log was read up to offset 6"),
        (LivePartition(*KEY, "", 0, 9, False, OTHER_ID), 5, 0, "the topic was deleted and created again"),
    ],
)
def test_the_same_for_a_cluster(live: LivePartition, crc: int, begin: int, words: str) -> None:
    state = ReportState(True, 1, 0, {KEY: Mark(6, last=5, crc=5, topic_id=ID)})
    found = onward_live(state, [live], lambda each, offset: crc)
    assert [each.start for each in found.live] == [begin]
    assert (KEY in found.goes_on) == (begin > 0)
    assert all(words in each for each in found.notices)
    assert len(found.notices) == bool(words)


def test_reports_that_cannot_be_continued(tmp_path: Path) -> None:
    def refused(**told: Any) -> str:
        with pytest.raises(BadReport) as why:
            read_state(tmp_path, **({"is_cluster": False, "expiration_ms": 1} | told))
        return str(why.value)

    assert "this is not a report that an audit can continue" in refused()
    ReportState(False, 1, 7, {}).save(tmp_path)
    summary = {"complete": True, "origin": "/logs", "audited_at": "now", "problems": []}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert "the report lacks its folder runs; audit the whole log once" in refused()
    for name in ("batches", "runs"):
        (tmp_path / name).mkdir()
    assert read_state(tmp_path, is_cluster=False, expiration_ms=1).pieces == 7
    whole = (tmp_path / "covered.json").read_text()
    (tmp_path / "covered.json").write_text(whole.replace('"format":', '"form":'))
    assert "another version of the audit wrote this report" in refused()
    (tmp_path / "covered.json").write_text("{")
    assert "covered.json or summary.json is damaged; audit the whole log once" in refused()
    (tmp_path / "covered.json").write_text(whole)
    assert "that audit read /logs; --path continues only an audit with --path" in refused(is_cluster=True)
    assert "that audit had --producer-expiration 1, this audit 2" in refused(expiration_ms=2)
    (tmp_path / "summary.json").write_text(json.dumps(summary | {"complete": False, "problems": ["x is missing"]}))
    assert "could not read everything (x is missing)" in refused()


def test_two_audits_find_what_one_of_the_whole_finds_also_across_the_seam(spark: SparkSession, tmp_path: Path) -> None:
    """The first audit ends with an open transaction and an incomplete batch. A gap and a duplicate are at the border."""
    writer = Writer("orders", 0, random.Random(3))
    for _ in range(4):
        writer.data(1, count=2)
        writer.data(2, count=2)
    again = writer.values(2)
    writer.data(3, count=2, values=again)
    writer.data(5, count=1, attributes=TRANSACTIONAL)
    saved(writer, tmp_path / "logs")
    segment = tmp_path / "logs" / "orders-0" / f"{0:020d}.log"
    whole = segment.read_bytes()
    segment.write_bytes(whole + writer.pieces[-1][:20])

    def run(out: str, since: str | None = None) -> tuple[dict[str, Any], list[tuple[str, int, int]]]:
        request = Request(out=tmp_path / out, path=tmp_path / "logs", since=tmp_path / since if since else None)
        result = audit(spark, request)
        return result.summary, sorted((each["kind"], each["producer_id"], each["first_offset"]) for each in result.findings)

    assert [kind for kind, *_ in run("first")[1]] == ["open_transaction", "torn_tail"]
    writer.sequences[1, 0] += 3
    gap = writer.data(1, count=2)
    duplicate = writer.data(3, count=2, seq=0, values=again, advance=False)
    writer.end(5, 0, True)
    saved(writer, tmp_path / "logs")
    summary, findings = run("second", "first")
    assert findings == [("duplicate", 3, duplicate), ("gap", 1, gap - 6)]
    assert summary["topics"]["orders"]["batches"] == 12
    assert summary["ranges"][0]["end"] == writer.offset
