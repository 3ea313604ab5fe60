"""Consume, transform, produce: the inputs that each transaction passes, and the outputs that it has.

A group's commit passes the inputs since the group's previous commit. These checks take the numbers of records from batch
headers, and read no records. Since KIP-890 a producer has a new epoch in each transaction, so offsets and outputs with the same
epoch belong together. Under an older protocol, the brokers' clocks show which offsets and outputs belong together: the offsets
of a transaction are stored before its first marker, and after the last marker of the previous transaction. Clocks are weaker
evidence than epochs, so findings under an older protocol have only the severity `likely`.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from kafkawire.batches import TRANSACTIONAL
from wirebroker_audit.checks.consumers import ended
from wirebroker_audit.checks.contents import SIDE, data_batches, with_outcome
from wirebroker_audit.checks.pipeline import Facts, Pipeline
from wirebroker_audit.checks.pipelines import COUNTS
from wirebroker_audit.checks.rows import finding
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.pipeline_wording import WORDS
from wirebroker_audit.spark.tables import collected, settled, united
from wirebroker_audit.spark.wording import ROW

PRODUCED = ("producer_id", "producer_epoch")
NUMBER = ("group", "number")
MOST = 1 << 30
"""The value for "no limit": no input has so many outputs."""


class Counted(NamedTuple):
    """The result for one pipeline."""

    findings: list[DataFrame]
    counts: dict[str, int]


def counted(pipeline: Pipeline, facts: Facts, passed: DataFrame, batches: DataFrame, log_starts: DataFrame) -> Counted:
    """Compare the inputs and the outputs of each transaction of a pipeline's group. `passed` has the rows of that group, in the
    form `PASSED`, and the rows with the number of all holes."""
    return _Transactions(pipeline, facts, passed, batches, log_starts).counted()


class _Transactions:
    def __init__(self, pipeline: Pipeline, facts: Facts, passed: DataFrame, batches: DataFrame, log_starts: DataFrame) -> None:
        self.pipeline, self.facts, self.batches = pipeline, facts, batches
        mine = passed.where((ROW.group == facts.group) & ROW.topic.isin(*pipeline.inputs))
        holes = [row["holes"] for row in collected(passed.where("group = ''").select("holes"))]
        self.is_whole = not any(holes)
        self.pending = passed.where("group = '' AND producer_id >= 0").select("producer_id")
        self.steps = settled(self._judgeable(mine, log_starts, max(holes, default=0)))

    def _judgeable(self, mine: DataFrame, log_starts: DataFrame, holes: int) -> DataFrame:
        """Adds `known` to each commit: it is true if the previous commit is known and the log still has all inputs between the
        two commits.

        Before its first commit, a group has read from the log's start, unless the pipeline begins at `latest`.
        """
        rows = mine.join(sf.broadcast(log_starts), [*PARTITION])
        first = sf.lit(self.is_whole and self.pipeline.begin == "earliest")
        known = sf.when(ROW.start < 0, first & (ROW.log_start == 0)).otherwise(
            (ROW.start >= ROW.log_start) & (self.is_whole | (ROW.holes == holes)))  # fmt: skip
        return rows.withColumns({"known": known, "start": sf.greatest("start", sf.lit(0))}).drop("log_start")

    def counted(self) -> Counted:
        by_number = settled(self._judged())
        strangers = settled(self._strangers())
        few = by_number.where(ROW.short > 0)
        many = by_number.where("over > 0")
        again = by_number.where((ROW.again > 0) & (ROW.outs > 0))
        alone = by_number.where((ROW.ins == 0) & (ROW.outs > 0) & ~ROW.back)
        (sums,) = collected(by_number.agg(
            sf.count(sf.lit(1)).alias("transactions"),
            *(sf.sum(name).alias(name) for name in ("short", "over", "again", "spare")),
            sf.sum(sf.when((ROW.ins == 0) & ~ROW.back, ROW.outs)).alias("alone"),
            sf.sum("ins").alias("ins"), sf.sum("outs").alias("outs"),
        ))  # fmt: skip
        (others,) = collected(strangers.agg(sf.sum("records").alias("records")))
        number = {name: int(sums[name] or 0) for name in sums.__fields__}
        number["strangers"] = int(others["records"] or 0)
        counts = dict.fromkeys(COUNTS, 0) | {
            "transactions": number["transactions"], "inputs": number["ins"], "outputs": number["outs"],
            "unprocessed": number["short"], "processed_twice": number["over"] + number["again"], "dropped": number["spare"],
            "without_input": number["alone"] + number["strangers"],
        }  # fmt: skip
        name = sf.lit(self.pipeline.name)
        kinds = (
            ("short", few, "inputs", "commit_beyond_output", WORDS.transaction_short(name, self.pipeline.fan_out[0])),
            ("over", many, "inputs", "processed_twice", WORDS.transaction_over(name)),
            ("again", again, "inputs", "processed_twice", WORDS.transaction_again(name)),
            ("alone", alone, "outputs", "output_without_input", WORDS.transaction_alone(name)),
            ("strangers", strangers, "outputs", "output_without_input", WORDS.outputs_elsewhere(name)),
        )
        found = [self._found(_at(rows, side), kind, words) for what, rows, side, kind, words in kinds if number[what]]
        return Counted(found, counts)

    def _passed(self) -> DataFrame:
        """Counts the inputs that each commit passed (`ins`), and how many of these inputs an earlier commit had already passed
        (`again`)."""
        data = data_batches(self.batches).where(ROW.topic.isin(*self.pipeline.inputs))
        if self.pipeline.isolation == "read_committed":
            data = with_outcome(data, data, self.batches).where("transaction IN ('none', 'committed')")
        stored = data.select(*PARTITION, ROW.base_offset.alias("at"), sf.lit(1).alias("turn"), "records", "last_offset")
        again = sf.greatest(sf.least("stop", "reached"), "start")
        bounds = sf.array(*(
            sf.struct(sf.col(name).alias("at") if isinstance(name, str) else name.alias("at"), sf.lit(of).alias("of"),
                      sf.lit(sign).alias("sign"))
            for of, sign, name in (("ins", -1, "start"), ("ins", 1, sf.greatest("stop", "start")), ("again", -1, "start"),
                                   ("again", 1, again))
        ))  # fmt: skip
        asked = self.steps.select(*PARTITION, *NUMBER, *PRODUCED, "start", "stop", sf.explode(bounds).alias("bound"))
        asked = asked.select("*", "bound.*", sf.lit(0).alias("turn")).drop("bound")
        before = Window.partitionBy(*PARTITION).orderBy("at", "turn").rowsBetween(Window.unboundedPreceding, -1)
        sums = sf.coalesce(sf.sum("records").over(before), sf.lit(0))
        beyond = sf.greatest(sf.coalesce(sf.max("last_offset").over(before), sf.lit(-1)) + 1 - ROW.at, sf.lit(0))
        rows = united([stored, asked]).withColumn("below", sums - beyond).where("turn = 0")
        return rows.groupBy(*PARTITION, *NUMBER, "start", "stop").agg(
            *(sf.sum(sf.when(ROW.of == of, ROW.sign * ROW.below).otherwise(0)).alias(of) for of in ("ins", "again"))
        )

    def _transactions(self) -> DataFrame:
        """Returns the transactions of the group, and its commits outside of transactions; each has its own number."""
        steps = self.steps.join(self._passed(), [*PARTITION, *NUMBER, "start", "stop"])
        part = sf.struct(*PARTITION, ROW.start.alias("first_offset"), (ROW.stop - 1).alias("last_offset"))
        return steps.groupBy(*NUMBER, *PRODUCED).agg(
            sf.min("known").alias("known"), sf.min("at_ms").alias("at_ms"), sf.sum("ins").alias("ins"),
            sf.sum("again").alias("again"), sf.max(ROW.stop < ROW.start).alias("back"),
            sf.sort_array(sf.collect_list(part)).alias("inputs"),
        )  # fmt: skip

    def _pieces(self) -> DataFrame:
        """Returns the committed outputs of each producer, by partition and marker."""
        mine = self.steps.where("producer_id >= 0").select("producer_id").distinct()
        rows = ended(self.batches.where(ROW.topic.isin(*self.pipeline.outputs)).join(sf.broadcast(mine), "producer_id"))
        return rows.where("end.marker = 1").groupBy(*PARTITION, *PRODUCED, "end.offset", "end.at_ms").agg(
            sf.sum("records").alias("records"), sf.min("base_offset").alias("first_offset"),
            sf.max("last_offset").alias("last_offset"),
        )  # fmt: skip

    def _judged(self) -> DataFrame:
        """Returns the transactions with their outputs and their errors. If a transaction commits no offsets, its outputs have
        no number.

        A transaction has one marker in a partition: outputs with a second marker belong to another transaction.
        """
        transactions, pieces = self._transactions(), self._pieces()
        alike = Window.partitionBy(*PRODUCED)
        events = united([
            transactions.select(*NUMBER, *PRODUCED, "at_ms", sf.lit(0).alias("turn")),
            pieces.withColumn("turn", sf.lit(1)),
        ])  # fmt: skip
        before = sf.last(ROW.number, ignorenulls=True).over(alike.orderBy("at_ms", "turn").rowsBetween(
            Window.unboundedPreceding, Window.currentRow))  # fmt: skip
        only = sf.when(sf.count("number").over(alike) == 1, sf.max("number").over(alike))
        placed = events.withColumns({"by": sf.coalesce(only, before), "is_only": sf.count("number").over(alike) <= 1})
        second = sf.row_number().over(Window.partitionBy(*PRODUCED, "turn", *PARTITION, "by").orderBy("offset")) > 1
        placed = placed.withColumn("by", sf.when((ROW.turn == 1) & second, None).otherwise(ROW.by))
        part = sf.struct(*PARTITION, "first_offset", "last_offset")
        made = placed.where("turn = 1").groupBy(ROW.by.alias("number"), *PRODUCED, "is_only").agg(
            sf.sum("records").alias("outs"), sf.sort_array(sf.collect_list(part)).alias("outputs"),
            sf.min("at_ms").alias("ended_at"),
        )  # fmt: skip
        singles = placed.where("turn = 0").select(*NUMBER, *PRODUCED, (ROW.is_only | (ROW.producer_id < 0)).alias("is_only"))
        whole = transactions.join(singles, [*NUMBER, *PRODUCED])
        both = whole.join(made.drop("is_only"), ["number", *PRODUCED], "left").fillna(0, ["outs"])
        since = self._since()
        alone = made.where("number IS NULL").where(ROW.ended_at.between(since, self.facts.until_ms))
        alone = alone.join(self.pending, ["producer_id"], "left_anti")
        alone = alone.drop("number").withColumns({
            "number": sf.lit(-1).cast("bigint"), "known": sf.lit(True), "back": sf.lit(False),
            "group": sf.lit(self.facts.group), "ins": sf.lit(0).cast("bigint"), "again": sf.lit(0).cast("bigint"),
        })  # fmt: skip
        latest = sf.max("number").over(Window.partitionBy(*PRODUCED))
        both = both.withColumn("latest", latest).join(self._opened(), [*PRODUCED], "left").fillna(False, ["opened"])
        both = both.where(~(ROW.opened & (ROW.number == ROW.latest))).drop("opened", "latest")
        return self._with_verdict(united([both, alone]).where("known"))

    def _opened(self) -> DataFrame:
        """Returns the epochs that have outputs but no marker after them: the coordinator has not written the marker yet, or the
        audit has not read it."""
        rows = ended(self.batches.where(ROW.topic.isin(*self.pipeline.outputs) & (ROW.producer_id >= 0)))
        is_data = sf.col("attributes").bitwiseAND(sf.lit(TRANSACTIONAL)) != 0
        return rows.where(is_data & ROW.end.isNull()).select(*PRODUCED).distinct().withColumn("opened", sf.lit(True))

    def _since(self) -> int:
        """Returns the time (ms since the epoch) from which on the audit knows all commits."""
        if self.is_whole:
            return 0
        (row,) = collected(self.steps.where("known").agg(sf.min("at_ms").alias("at_ms")))
        return int(row["at_ms"]) if row["at_ms"] is not None else 1 << 62

    def _with_verdict(self, rows: DataFrame) -> DataFrame:
        least, most = self.pipeline.fan_out
        whole = sf.least(ROW.ins, sf.floor(ROW.outs / least)).cast("bigint")
        needed = sf.lit(0) if self.pipeline.may_drop is True else ROW.ins
        if self.pipeline.may_merge:
            needed, whole = sf.least(needed, sf.lit(1)), sf.when(ROW.outs >= least, ROW.ins).otherwise(0)
        over = sf.when(ROW.ins > 0, sf.greatest(ROW.outs - ROW.ins * (most or MOST), sf.lit(0))).otherwise(0)
        spare = ROW.ins - ROW.whole if self.pipeline.may_drop is True and not self.pipeline.may_merge else sf.lit(0)
        return (
            rows.withColumn("whole", whole)
            .withColumns({"short": sf.greatest(needed - ROW.whole, sf.lit(0)), "over": over})
            .withColumn("spare", spare)
        )

    def _strangers(self) -> DataFrame:
        """Returns two kinds of outputs: outputs of producers that commit no offsets of the group, and outputs outside of
        transactions."""
        mine = self.steps.where("producer_id >= 0").select("producer_id").distinct()
        data = data_batches(self.batches).where(ROW.topic.isin(*self.pipeline.outputs))
        rows = with_outcome(data, data, self.batches).where("transaction IN ('none', 'committed')")
        rows = rows.where(ROW.transaction == "none").unionByName(
            rows.where(ROW.transaction == "committed")
            .join(sf.broadcast(mine), ["producer_id"], "left_anti")
            .select(*rows.columns)
        )
        if not self.is_whole:
            rows = rows.limit(0)
        part = sf.struct(*PARTITION, "first_offset", "last_offset")
        found = rows.groupBy(*PARTITION, *PRODUCED).agg(
            sf.sum("records").alias("records"), sf.min("base_offset").alias("first_offset"),
            sf.max("last_offset").alias("last_offset"),
        )  # fmt: skip
        return found.withColumns({
            "outputs": sf.array(part), "inputs": sf.lit(None).cast("array<struct<topic:string>>"), "is_only": sf.lit(False),
            "ins": sf.lit(0), "outs": ROW.records, "group": sf.lit(self.facts.group),
        })  # fmt: skip

    def _found(self, rows: DataFrame, kind: str, words: Column) -> DataFrame:
        facts = self.facts
        certain = ROW.is_only & sf.lit(not (facts.is_damaged or facts.removed_inputs or facts.removed_outputs))
        severity = sf.when(certain, "certain").otherwise("likely")
        evidence = sf.struct(
            sf.lit(self.pipeline.name).alias("pipeline"), "group",
            ROW.ins.alias("inputs_passed"), ROW.outs.alias("outputs_made"), "inputs", "outputs",
        )  # fmt: skip
        none = {name: sf.lit(-1) for name in SIDE if name.endswith("sequence")}
        return finding(rows.withColumns(none), kind, evidence, words, severity)


def _at(rows: DataFrame, side: str) -> DataFrame:
    """Adds the topic, partition and offsets of the first stretch on this side (inputs or outputs)."""
    first = sf.get(side, sf.lit(0))
    names = {"topic": "topic", "partition": "partition", "base_offset": "first_offset", "last_offset": "last_offset"}
    return rows.withColumns({name: first.getField(field) for name, field in names.items()})
