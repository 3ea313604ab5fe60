"""The checks of the stored batches, which turn DataFrames into findings. Their rules are in `wirebroker.audit.rules`."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.checks.offsets import boundaries, damages, holes, offset_gaps, offset_regressions, splits
from wirebroker_audit.checks.sequences import (
    disorder,
    duplicates,
    epoch_regressions,
    examined,
    gaps,
    in_life,
    late_starts,
    suspects,
    unexplained,
    with_copies,
    with_reasons,
)
from wirebroker_audit.checks.transactions import transactions
from wirebroker_audit.folding.schema import FINDINGS
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.tables import collected, local_rows, settled, united


def findings_of(batches: DataFrame, folded: DataFrame, bounds: DataFrame, expiration_ms: int = EXPIRATION_MS) -> DataFrame:
    """Returns every finding in the batches. `folded` are the batches' `runs`; `bounds` has the schema `BOUNDS`."""
    troubled = settled(batches.where("problem IS NOT NULL"))
    between = settled(boundaries(settled(splits(folded)), troubled, bounds))
    missing = settled(holes(batches, between, bounds))
    found, told = [local_rows(batches.sparkSession, [], FINDINGS)], None
    if not troubled.isEmpty():
        found.append(damages(troubled))
    if not (troubled.isEmpty() and between.isEmpty()):
        found.append(offset_regressions(troubled, between))
    if not folded.where("kind <> 0").isEmpty():
        found += transactions(troubled, folded, bounds)
    suspicious = settled(suspects(folded))
    if not suspicious.isEmpty():
        heads = settled(in_life(folded, troubled, suspicious, expiration_ms))
        ordered = settled(with_copies(examined(heads, suspicious, batches)))
        told = settled(unexplained(with_reasons(united([gaps(ordered), late_starts(ordered)]), missing)))
        found += [epoch_regressions(heads), duplicates(ordered), disorder(ordered), told]
    if not missing.isEmpty():
        found.append(offset_gaps(missing, told))
    return united(found)


def summed(folded: DataFrame) -> dict[tuple[str, int], Row]:
    """Returns the numbers of batches, records, bytes, commits and aborts in each partition, and the partition's `last`
    offset."""
    sums = (sf.sum(name).cast("bigint").alias(name) for name in ("batches", "records", "bytes", "committed", "aborted"))
    rows = collected(folded.groupBy(*PARTITION).agg(*sums, sf.max("last.last_offset").alias("last")))
    return {(row["topic"], row["partition"]): row for row in rows}


def with_compaction(bounds: DataFrame, folded: DataFrame) -> DataFrame:
    """Increases `cleaned_until` in the bounds if the batches show that compaction has progressed further."""
    shown = folded.groupBy(*PARTITION).agg(sf.max("compacted_to").alias("shown")).where("shown >= 0")
    known = bounds.join(sf.broadcast(shown), [*PARTITION], "left")
    cleaned_until = sf.greatest("cleaned_until", sf.coalesce("shown", sf.lit(-1)))
    return known.withColumn("cleaned_until", cleaned_until).drop("shown")
