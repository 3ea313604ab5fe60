"""One table with the findings of every audit, in Spark's catalog or in a folder: Delta, Iceberg or another format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from wirebroker_audit.folding import schema

ABOUT = {"origin": "audited", "time": "audited_at", "host": "host", "version": "version"}
"""Maps the summary's fields about the audit to the table's columns."""


class FindingsTable(NamedTuple):
    """The name of a table, and the format with which it is created if it does not exist; "" is the session's default."""

    name: str
    format: str = ""

    @classmethod
    def of(cls, text: str) -> FindingsTable:
        """Parses `[FORMAT:]NAME`."""
        kind, colon, name = text.partition(":")
        return cls(name, kind) if colon and not name.startswith("//") else cls(text)

    @property
    def is_folder(self) -> bool:
        """Tells whether the name is a path or an address, and not a name in the catalog."""
        return "/" in self.name

    def check(self, spark: SparkSession) -> None:
        """Checks that the name can be a table. Raises PySparkException."""
        if not self.is_folder:
            spark.catalog.tableExists(self.name)

    def append(self, spark: SparkSession, summary: Mapping[str, Any], findings: Path) -> None:
        """Append the findings of a report; the table is created if it does not exist. Raises PySparkException."""
        about = [sf.lit(summary[key]).alias(name) for key, name in ABOUT.items()]
        rows = spark.read.schema(schema.REPORTED).parquet(findings.resolve().as_uri())
        writer = rows.select(*about, "*").write.mode("append")
        write = writer.save if self.is_folder else writer.saveAsTable
        write(self.name, self.format or None)
