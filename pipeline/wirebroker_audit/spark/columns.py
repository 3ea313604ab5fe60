"""The columns by which the audit groups and joins its rows."""

from __future__ import annotations

from pyspark.sql import DataFrame

PARTITION = ("topic", "partition")
PRODUCER = (*PARTITION, "producer_id")
LOG_ORDER = ("segment", "position")


def intact(batches: DataFrame) -> DataFrame:
    """Returns the batches whose headers can be trusted."""
    return batches.where("problem IS NULL OR problem = 'offset_regression'")
