"""The Spark operator accepts the example resource of an audit on Kubernetes."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "docs" / "how-to" / "audit-spark" / "spark-application.yaml"
SCHEMA = ROOT / "tests" / "data" / "sparkapplication-v1beta2.schema.json.xz"
"""The schema of the resource SparkApplication; its `$comment` names its source and licence."""


def test_the_manifest_fits_the_schema_of_the_spark_operator() -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    yaml: Any = pytest.importorskip("yaml")
    with lzma.open(SCHEMA) as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    manifest = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)] == []
    manifest["spec"]["executor"]["memmory"] = "4g"
    manifest["spec"]["driver"]["cores"] = "two"
    assert {error.json_path for error in validator.iter_errors(manifest)} == {"$.spec.executor", "$.spec.driver.cores"}
