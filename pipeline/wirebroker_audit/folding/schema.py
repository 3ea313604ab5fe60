"""The schemas of the audit's tables, as Spark has them. The classes of the rows are in `wirebroker.audit.findings`."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, IntegerType, LongType, ShortType, StringType, StructField, StructType

from wirebroker_audit.folding import runs
from wirebroker_audit.reading import identities, records, scan

BATCHES: StructType = from_arrow_schema(scan.BATCHES)
RUNS: StructType = from_arrow_schema(runs.RUNS)
RECORDS: StructType = from_arrow_schema(records.RECORDS)
IDENTITIES: StructType = from_arrow_schema(identities.IDENTITIES)

FINDINGS = StructType(
    [
        StructField("kind", StringType()), StructField("severity", StringType()), StructField("topic", StringType()),
        StructField("partition", IntegerType()), StructField("producer_id", LongType()),
        StructField("producer_epoch", ShortType()), StructField("first_sequence", IntegerType()),
        StructField("last_sequence", IntegerType()), StructField("first_offset", LongType()),
        StructField("last_offset", LongType()), StructField("evidence", StringType()),
        StructField("explanation", StringType()),
    ]
)  # fmt: skip
"""The schema of a `Finding`."""
REPORTED = StructType([*FINDINGS, StructField("id", StringType())])
"""The findings of a report; see `checks.rows.identified`."""

BOUNDS = StructType(
    [
        StructField("topic", StringType()), StructField("partition", IntegerType()),
        StructField("log_start", LongType()), StructField("cleaned_until", LongType()),
        StructField("policy_known", BooleanType()),
    ]
)  # fmt: skip
"""The bounds of each partition. `policy_known`: whether a file says that the topic is compacted, or that it is not
compacted."""
