"""Reads the arrivals in order from the trace of a broker (JSON lines, `wirebroker serve --trace FILE.jsonl`)."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, LongType, ShortType, StringType, StructField, StructType

from wirebroker_audit.checks.other_rules import Arrived
from wirebroker_audit.spark.tables import settled

_BROKEN = "broken"
ROWS = StructType(
    [
        StructField("event", StringType()), StructField("time", LongType()), StructField("client_id", StringType()),
        StructField("topic", StringType()), StructField("partition", IntegerType()),
        StructField("producer_id", LongType()), StructField("producer_epoch", ShortType()),
        StructField("first_sequence", IntegerType()), StructField("records", IntegerType()),
        StructField("bytes", IntegerType()), StructField("verdict", StringType()), StructField("rule", StringType()),
        StructField(_BROKEN, StringType()),
    ]
)  # fmt: skip
"""The audit reads these fields of a row."""


class BadTrace(Exception):
    """Raised if a file is not a trace. The message gives the reason."""


def read_trace(spark: SparkSession, path: str, topics: tuple[str, ...] = ()) -> tuple[DataFrame, int]:
    """Returns the Produce rows with their `order`, and the number of malformed lines. Raises BadTrace."""
    lines = spark.read.text(path).where("trim(value) <> ''")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    order = sf.struct("_metadata.file_path", "_metadata.file_block_start", sf.monotonically_increasing_id().alias("line"))
    rows = lines.select(sf.from_json("value", ROWS, options).alias("row"), order.alias("order")).select("row.*", "order")
    rows = settled(rows.where("event IS NULL OR event = 'produce'"))
    whole = rows.where(f"{_BROKEN} IS NULL AND topic IS NOT NULL AND verdict IS NOT NULL AND time IS NOT NULL")
    total, good = rows.count(), whole.count()
    if not good and total:
        raise BadTrace(f"{path}: the file is not a trace: none of its {total} lines is a row of a trace")
    chosen = whole.where(sf.col("topic").isin(*topics)) if topics else whole
    return chosen.select(*Arrived._fields, "order"), total - good
