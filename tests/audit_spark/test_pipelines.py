"""Pipelines: was each input processed once? Planted losses, doubles and reorders are found; what is allowed is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.pipelines import CLEAN, PLANTED, Shop, policies
from wirebroker import MockKafka
from wirebroker_audit.job import Request, audit
from wirebroker_audit.report.formats import read_findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


def plant(folder: Path, names: dict[str, Any]) -> tuple[list[Shop], dict[str, Any]]:
    """All these pipelines in one directory, and what each plant returned."""
    with MockKafka(data=folder) as kafka:
        kafka.warm()
        shops = [Shop(kafka, name) for name in names]
        return shops, {shop.name: names[shop.name](shop) for shop in shops}


def follow(spark: SparkSession, folder: Path, shops: list[Shop], **options: Any) -> Any:
    (folder / "pipelines.toml").write_text(policies(shops))
    request = Request(out=folder / "out", path=folder / "logs", pipeline=(str(folder / "pipelines.toml"),), **options)
    return audit(spark, request)


def test_every_planted_fault_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    shops, expected = plant(tmp_path / "logs", PLANTED)
    result = follow(spark, tmp_path, shops, together=False)
    kinds = {"input_unprocessed", "commit_beyond_output", "processed_twice", "output_without_input", "output_disorder",
             "commit_jump"}  # fmt: skip
    found: dict[str, set[Any]] = {name: set() for name in expected}
    for each in read_findings(tmp_path / "out"):
        if each["kind"] in kinds:
            name, _, side = each["topic"].partition(".")
            found[name].add((each["kind"], side, each["first_offset"], each["last_offset"], each["severity"]))
    assert found == {name: set(map(tuple, each)) for name, each in expected.items()}
    assert result.summary["complete"]
    ids = [each["id"] for each in read_findings(tmp_path / "out")]
    assert len(ids) == len(set(ids))


def test_what_is_allowed_is_no_finding(spark: SparkSession, tmp_path: Path) -> None:
    shops, _ = plant(tmp_path / "logs", CLEAN)
    result = follow(spark, tmp_path, shops)
    assert result.summary["findings"] == {}, [each["explanation"] for each in result.findings]
    assert len(result.summary["followed"]) == len(CLEAN)
