"""Campaigns that run each case as a Spark task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from simulation.schedule import play_case
from wirebroker.commands.cli import main
from wirebroker_tools.campaign.cases import Results, play_all
from wirebroker_tools.campaign.workers import NoSpark, workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).resolve().parents[1]
APPLICATIONS = TESTS / "explored"
INVALID = ("--topic", "orders", "--api", "Produce", "--faults", "INVALID_RECORD,throttle")


def test_an_exploration_on_spark_finds_what_threads_find(spark: SparkSession, tmp_path: Path) -> None:
    found = {}
    for place, flags in {"threads": (), "spark": ("--master", "local[2]")}.items():
        command = [sys.executable, str(APPLICATIONS / "fire_and_forget.py")]
        assert main(["explore", *INVALID, *flags, "--out", str(tmp_path / place), "--", *command]) == 1
        runs = json.loads((tmp_path / place / "explore.json").read_text())["runs"]
        found[place] = {run["id"]: (run["outcomes"], run["missing"], run["fired"], run.get("again")) for run in runs}
        traces = [path.name for path in (tmp_path / place / "traces").glob("*.jsonl")]
        assert len(traces) == 3
    assert found["spark"] == found["threads"]
    rows = spark.read.parquet(str(tmp_path / "spark" / "runs.parquet"))
    lost = rows.where("array_contains(outcomes, 'lost') AND id NOT LIKE '%#%'")
    assert sorted(lost.selectExpr("get_json_object(fault, '$.nth')").toPandas().iloc[:, 0]) == ["1", "2", "6"]


def test_a_failing_schedule_is_made_small_where_it_was_found(spark: SparkSession, tmp_path: Path) -> None:
    def wraps_early(case: Any) -> dict[str, Any]:  # nested, so that Spark pickles the function by value
        from simulation.schedule import play_case
        from wirebroker.core import producers

        with patch.object(producers, "SEQUENCES", 2**31 - 1):
            return play_case(case)

    table = [{"id": str(first), "first": first, "schedules": 20} for first in range(0, 80, 20)]
    with workers(master="local[2]", folders=[TESTS]) as players:
        broken = list(play_all(table, wraps_early, Results(tmp_path / "broken.jsonl"), players, go_on=lambda: True))
        right = list(play_all(table[:2], play_case, Results(tmp_path / "right.jsonl"), players, go_on=lambda: True))
    wrong = [each["wrong"] for each in broken if each["wrong"] is not None]
    assert wrong
    assert all("reduced to: Shape(" in each for each in wrong)
    assert [each["wrong"] for each in right] == [None, None]


def test_what_executors_lack_is_said(spark: SparkSession, tmp_path: Path) -> None:
    def play(case: Any) -> dict[str, Any]:
        import a_module_of_this_machine

        return a_module_of_this_machine.played(case)  # type: ignore[no-any-return]

    lacking = "the executors lack what the driver has: No module named 'a_module_of_this_machine'"
    with pytest.raises(NoSpark, match=lacking), workers(master="local[2]") as players:
        list(play_all([{"id": "1"}], play, Results(tmp_path / "results.jsonl"), players, go_on=lambda: True))


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_an_executor_that_is_killed_loses_no_case(tmp_path: Path) -> None:
    command = [sys.executable, str(APPLICATIONS / "executor_dies.py"), str(tmp_path / "mark")]
    explore = [sys.executable, "-m", "wirebroker", "explore", *INVALID, "--master", "local-cluster[2,1,1024]"]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(
        [*explore, "--out", str(tmp_path), "--", *command], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "mark").exists()
    summary = json.loads((tmp_path / "explore.json").read_text())
    assert summary["summary"]["not_tried"] == 0
    outcomes = sorted((run["fault"].get("code", "throttle"), run["outcomes"]) for run in summary["runs"])
    assert outcomes == [("INVALID_RECORD", ["lost"])] * 3 + [("throttle", ["as_before"])] * 3
