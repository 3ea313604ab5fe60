"""The example for Airflow. A test runs the task with a real audit, and loads the DAG with stand-ins for Airflow's
decorators."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "airflow" / "nightly_audit.py"


def loaded() -> ModuleType:
    """Loads the example as a module."""
    spec = importlib.util.spec_from_file_location("nightly_audit", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(900)
def test_each_night_reads_on_and_says_what_it_found(spark: SparkSession, tmp_path: Path) -> None:
    logs, report = tmp_path / "logs", tmp_path / "report"
    writer = Writer("orders", 0, random.Random(1))
    for _ in range(3):
        writer.data(1)
    writer.save(logs)
    assert loaded().audit_log(str(logs), report) == 0
    writer.sequences[1, 0] += 3
    writer.data(1)
    shutil.rmtree(logs)
    writer.save(logs)
    assert loaded().audit_log(str(logs), report) == 1
    summary = json.loads((report / "summary.json").read_text())
    assert (summary["since"], summary["findings"]) == (str(report), {"gap": 1})


class Failed(Exception):
    """Stands in for AirflowFailException. A task raises this exception if Airflow should not retry the task."""


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """The tasks of the example's DAG. The dictionary is filled when the example is loaded."""
    made: dict[str, Callable[[], None]] = {}

    def task(**_: Any) -> Callable[[Callable[[], None]], Callable[[], object]]:
        return lambda function: lambda: made.update({function.__name__: function})

    def dag(**_: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
        return lambda function: function

    sdk, exceptions = SimpleNamespace(dag=dag, task=task), SimpleNamespace(AirflowFailException=Failed)
    for name, module in (("airflow", SimpleNamespace()), ("airflow.sdk", sdk), ("airflow.exceptions", exceptions)):
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(("code", "failure"), [(0, None), (1, Failed), (2, RuntimeError)])
def test_findings_fail_the_task_at_once_and_what_cannot_be_read_is_tried_again(
    tasks: dict[str, Callable[[], None]], code: int, failure: type[Exception] | None
) -> None:
    module = loaded()
    vars(module)["audit_log"] = lambda *_: code
    if failure is None:
        tasks["audit"]()
        return
    with pytest.raises(failure):
        tasks["audit"]()
