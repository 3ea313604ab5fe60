"""Compares outputs with inputs, record by record: finds inputs that have no output, too many outputs, or outputs in another
order.

Inputs and outputs of a pipeline belong together if they have the same identity. One shuffle by two 64-bit hashes of the
identity counts both sides of all pipelines; it sorts on disk where needed. An identity's records are read again only if its
counts break a pipeline's promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from wirebroker_audit.checks.contents import SIDE, head
from wirebroker_audit.checks.pipeline import IN, OUT, Facts, Pipeline
from wirebroker_audit.checks.rows import finding
from wirebroker_audit.reading.identities import Part
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.pipeline_wording import WORDS
from wirebroker_audit.spark.tables import collected, local_rows, settled, united
from wirebroker_audit.spark.wording import ROW

ID = ("pipeline", "high", "low")
PLACE = ("topic", "partition", "offset")
COUNTS = ("inputs", "outputs", "dropped", "in_flight", "before_begin", "unprocessed", "processed_twice", "without_input",
          "out_of_order", "inputs_removed", "outputs_removed", "inputs_unread", "outputs_unread", "inputs_without_id",
          "outputs_without_id")  # fmt: skip
"""The numbers of records in the summary. in_flight: inputs that have no output, and that the group has not committed yet.
before_begin: inputs before the first input that was processed. inputs_removed, outputs_removed: inputs or outputs that
retention or compaction may have removed. inputs_unread, outputs_unread: inputs or outputs that may be in an unreadable part of
a topic.
"""
_BOUND = StructType(
    [
        StructField("pipeline", IntegerType()), StructField("topic", StringType()), StructField("partition", IntegerType()),
        StructField("bound", LongType()),
    ]
)  # fmt: skip
_FAR = 1 << 30
"""The value for "no limit": no input has so many outputs."""
Bounds = Mapping[tuple[int, str, int], int]
"""Maps a pipeline's number and a partition to an offset."""


class Judged(NamedTuple):
    """The result for all pipelines."""

    findings: list[DataFrame]
    unprocessed: DataFrame
    """the inputs whose missing output is a finding, by `pipeline` and `PLACE`"""
    counts: list[dict[str, int]]
    notices: list[str]
    problems: list[str]


def judged(pipelines: Sequence[Pipeline], facts: Sequence[Facts], rows: DataFrame) -> Judged:
    """Compare both sides of each pipeline. The rows are `IDENTITIES` with the outcome of their `transaction`; `pipeline` is the
    index of the row's pipeline in `pipelines`, and `side` is `IN` or `OUT`."""
    return _Comparison(pipelines, facts, rows).judged()


class _Comparison:
    def __init__(self, pipelines: Sequence[Pipeline], facts: Sequence[Facts], rows: DataFrame) -> None:
        self.pipelines, self.facts, self.spark = pipelines, facts, rows.sparkSession
        seen = sf.col("transaction").isin("none", "committed")
        uncommitted = [number for number, each in enumerate(pipelines) if each.isolation == "read_uncommitted"]
        reads = seen | ((ROW.side == IN) & ROW.pipeline.isin(uncommitted))
        hashed = _hashed(rows)
        self.rows, self.hidden = hashed.where(reads), hashed.where(~reads)
        self.policies = self._policies()
        self.parts = settled(self._counted())
        self.ids = self._by_id()

    def _policies(self) -> DataFrame:
        """Returns a row for each pipeline: the pipeline's promises, and the known facts about the pipeline."""
        named: list[dict[str, Any]] = [
            {
                "pipeline": number, "name": each.name, "group": known.group or "", "least": each.fan_out[0],
                "most": each.fan_out[1] or _FAR, "drops": each.may_drop is True, "merges": each.may_merge,
                "is_table": each.table is not None, "what": str(each.match_out or each.match),
                "few_inputs": known.removed_inputs > 0 or known.is_damaged,
                "few_outputs": known.removed_outputs > 0 or known.is_damaged, "damaged": known.is_damaged,
            }
            for number, (each, known) in enumerate(zip(self.pipelines, self.facts, strict=True))
        ]  # fmt: skip
        types = {bool: BooleanType(), str: StringType()}
        whole = {"pipeline": IntegerType()}
        columns = StructType([StructField(name, whole.get(name) or types.get(type(value), LongType()))
                              for name, value in named[0].items()])  # fmt: skip
        return local_rows(self.spark, (each.values() for each in named), columns)  # type: ignore[misc]

    def _with_policy(self, rows: DataFrame) -> DataFrame:
        return rows.join(sf.broadcast(self.policies), ["pipeline"])

    def _counted(self) -> DataFrame:
        """Counts inputs and outputs by identity and `part`. Each row also has one of the inputs, and the first output."""
        into, out = ROW.side == IN, ROW.side == OUT
        place = sf.struct("offset", *PARTITION, "key_hash")
        return self.rows.where("id IS NOT NULL").groupBy(*ID, "part").agg(
            sf.count(sf.when(into, 1)).alias("ins"), sf.count(sf.when(out, 1)).alias("outs"),
            sf.count(sf.when(into & ROW.may_drop, 1)).alias("droppable"),
            sf.max(sf.when(into, place)).alias("input"), sf.min(sf.when(out, sf.struct("timestamp", *PLACE))).alias("output"),
        )  # fmt: skip

    def _by_id(self) -> DataFrame:
        """Adds up the counts of each identity. `short` is the number of inputs that have too few outputs. `over` is the number
        of outputs above the greatest number that the inputs may have."""
        sums = [sf.sum(name).alias(name) for name in ("ins", "outs", "droppable")]
        ids = self._with_policy(self.parts.groupBy(*ID).agg(*sums, sf.max("input").alias("input")))
        merged = sf.when(ROW.outs >= ROW.least, ROW.ins).otherwise(0)
        whole = sf.least(ROW.ins, sf.floor(ROW.outs / ROW.least)).cast("bigint")
        needed = sf.when(ROW.drops, 0).otherwise(ROW.ins - ROW.droppable)
        needed = sf.when(ROW.merges, sf.least(needed, sf.lit(1))).otherwise(needed)
        ids = ids.withColumn("whole", sf.when(ROW.merges, merged).otherwise(whole)).withColumn("needed", needed)
        short = sf.greatest(ROW.needed - ROW.whole, sf.lit(0))
        partly = (ROW.whole < ROW.ins) & (ROW.outs > ROW.whole * ROW.most)
        return ids.withColumns({
            "short": sf.when(partly & ~ROW.merges, sf.greatest(short, sf.lit(1))).otherwise(short),
            "over": sf.when(ROW.ins > 0, sf.greatest(ROW.outs - ROW.ins * ROW.most, sf.lit(0))).otherwise(0),
        })  # fmt: skip

    def judged(self) -> Judged:
        counts = self._sums()
        last, first = self._processed()
        missing = settled(self._missing(last, first))
        for name, state in (("unprocessed", "due"), ("in_flight", "waiting"), ("before_begin", "before")):
            for row in collected(missing.where(ROW.state == state).groupBy("pipeline").count()):
                counts[row["pipeline"]][name] = row["count"]
        wrong = settled(self._disorder())
        for row in collected(wrong.groupBy("pipeline").count()):
            counts[row["pipeline"]]["out_of_order"] = row["count"]
        notices, problems = self._unidentified(counts)
        most_ins = [each.pop("most_ins") for each in counts]
        for pipeline, known, each, most in zip(self.pipelines, self.facts, counts, most_ins, strict=True):
            each |= _explained(pipeline, known, each, most)
        missing = missing.where(ROW.state == "due").where(ROW.pipeline.isin(_with(counts, "unprocessed")))
        found: list[DataFrame] = []
        if _with(counts, "unprocessed"):
            found.append(self._unprocessed(missing, last))
        if twice := _with(counts, "processed_twice"):
            found.append(self._twice(twice))
        if alone := _with(counts, "without_input"):
            found.append(self._orphans(alone))
        if nameless := [number for number in _with(counts, "outputs_without_id") if counts[number]["outputs"]]:
            found.append(self._unnamed(nameless))
        if _with(counts, "out_of_order"):
            found.append(self._out_of_order(wrong))
        return Judged(found, missing, counts, notices, problems)

    def _sums(self) -> list[dict[str, int]]:
        """Returns the counts of each pipeline, and `most_ins`, the largest number of inputs with the same identity."""
        spare = sf.when(ROW.merges, 0).when(ROW.drops, ROW.ins - ROW.whole).otherwise(
            sf.least(ROW.droppable, ROW.ins - ROW.whole))  # fmt: skip
        names = {"ins": "inputs", "outs": "outputs", "over": "processed_twice"}
        sums = [sf.sum(name).alias(to) for name, to in names.items()]
        alone = sf.sum(sf.when(ROW.ins == 0, ROW.outs).otherwise(0)).alias("without_input")
        rows = collected(self.ids.groupBy("pipeline").agg(
            *sums, alone, sf.max("ins").alias("most_ins"), sf.sum(sf.greatest(spare, sf.lit(0))).alias("dropped")))  # fmt: skip
        counts = [dict.fromkeys((*COUNTS, "most_ins"), 0) for _ in self.pipelines]
        for row in rows:
            counts[row["pipeline"]] |= {name: int(row[name]) for name in row.__fields__ if name != "pipeline"}
        for row in collected(self.rows.where("id IS NULL").groupBy("pipeline", "side").count()):
            counts[row["pipeline"]]["outputs_without_id" if row["side"] == OUT else "inputs_without_id"] = row["count"]
        return counts

    def _unidentified(self, counts: list[dict[str, int]]) -> tuple[list[str], list[str]]:
        """Returns notices and problems about records without an identity."""
        notices, problems = [], []
        for pipeline, each in zip(self.pipelines, counts, strict=True):
            parts = {"inputs": pipeline.match, "outputs": pipeline.match_out or pipeline.match}
            for side, part in parts.items():
                without, name = each[f"{side}_without_id"], f"pipeline {pipeline.name}"
                what = f"key of table {pipeline.table.file}" if side == "outputs" and pipeline.table else str(part)
                if without and not each[side]:
                    problems.append(f"{name}: none of its {without:,} {side} has {what}, so nothing was compared")
                elif without and side == "inputs":
                    notices.append(f"{name}: {without:,} of its inputs have no {what} and were not compared")
        return notices, problems

    def _processed(self) -> tuple[Bounds, Bounds]:
        """Returns two offsets for each partition: the last and the first offset of an input that has outputs."""
        done = self.parts.where((ROW.ins > 0) & (ROW.outs > 0) & ((ROW.ins == 1) | (ROW.outs >= ROW.ins)))
        ends = (sf.max("input.offset").alias("last"), sf.min("input.offset").alias("first"))
        rows = collected(done.groupBy("pipeline", "input.topic", "input.partition").agg(*ends))
        last, first = ({(row["pipeline"], row["topic"], row["partition"]): row[which] for row in rows}
                       for which in ("last", "first"))  # fmt: skip
        return last, first

    def _missing(self, last: Bounds, first: Bounds) -> DataFrame:
        """Returns the inputs that have too few outputs. Their `state` is "before" if the pipeline begins at `latest`
        and the input precedes the first processed input; "waiting" if the group has not committed the input, or its output is
        in an open transaction; and otherwise "due".

        If n outputs of an identity are missing, the method chooses n inputs of this identity: first inputs without an output
        for their `part`, then inputs that the group has not committed, then inputs with the highest offsets. `committed` is the
        offset that the group has committed. Without a group, it is the offset of the last input with an output.
        """
        reached: dict[tuple[int, str, int], int] = {}
        begins: dict[tuple[int, str, int], int] = {}
        for number, (pipeline, known) in enumerate(zip(self.pipelines, self.facts, strict=True)):
            own = {key: offset for key, offset in last.items() if key[0] == number}
            reached |= own if known.group is None else {(number, *key): offset for key, offset in known.reached.items()}
            if pipeline.begin == "latest":
                begins |= {key: offset for key, offset in first.items() if key[0] == number}
        latest = [number for number, each in enumerate(self.pipelines) if each.begin == "latest"]
        short = self.ids.where("short > 0").select(*ID, "short", "ins", "outs")
        rows = self.rows.where((ROW.side == IN) & ROW.id.isNotNull() & ~ROW.may_drop).join(short, [*ID])
        rows = self._bounded(self._bounded(rows, reached, "committed"), begins, "begin")
        opened = self.hidden.where((ROW.side == OUT) & (ROW.transaction == "open")).select(*ID).distinct()
        rows = rows.join(opened.withColumn("opened", sf.lit(True)), [*ID], "left").fillna(False, ["opened"])
        state = sf.when(ROW.opened | (ROW.offset >= ROW.committed), "waiting").otherwise("due")
        state = sf.when(ROW.pipeline.isin(latest) & ((ROW.begin < 0) | (ROW.offset < ROW.begin)), "before").otherwise(state)
        paired = self.parts.where("outs > 0").select(*ID, "part", (ROW.outs >= ROW.ins).alias("paired"))
        rows = rows.withColumn("state", state).join(paired, [*ID, "part"], "left").fillna(False, ["paired"])
        order = Window.partitionBy(*ID).orderBy("paired", ROW.state == "due", sf.desc("offset"))
        return rows.withColumn("number", sf.row_number().over(order)).where("number <= short")

    def _bounded(self, rows: DataFrame, bound: Bounds, name: str) -> DataFrame:
        """Adds a column `name` with the bound of each row's partition, −1 if the partition has no bound."""
        bounds = local_rows(self.spark, ((*where, offset) for where, offset in sorted(bound.items())), _BOUND)
        named = bounds.withColumnRenamed("bound", name)
        return rows.join(sf.broadcast(named), ["pipeline", *PARTITION], "left").fillna(-1, [name])

    # Findings

    def _unprocessed(self, missing: DataFrame, last: Bounds) -> DataFrame:
        """Makes one finding for each stretch of adjacent inputs."""
        rows = self._bounded(self._with_policy(missing), last, "last_processed")
        beyond = (ROW.group != "") & (ROW.offset > ROW.last_processed)
        rows = rows.withColumn("kind", sf.when(beyond, "commit_beyond_output").otherwise("input_unprocessed"))
        rows = self._near(rows, OUT)
        stretches = _stretches(rows, ("kind", *PARTITION), ("offset",), ("ins", "outs", "committed", "last_processed", "near"))
        words = WORDS.choose(
            ROW.kind == "commit_beyond_output",
            WORDS.commit_beyond_output(head("id")),
            WORDS.input_unprocessed(head("id")),
        )
        words = sf.concat(words, sf.coalesce(WORDS.hidden_record("its output"), sf.lit("")))
        input = sf.struct(*PARTITION, ROW.offset.alias("first_offset"), ROW.last_offset.alias("last_offset")).alias("input")
        evidence = _evidence(
            "records", input, sf.when(ROW.group != "", ROW.committed).alias("committed_offset"), "last_processed",
            ROW.ins.alias("inputs_alike"), ROW.outs.alias("outputs_alike"), ROW.near.alias("hidden_output"),
        )  # fmt: skip
        return _found(stretches, ROW.kind, evidence, words, (ROW.group != "") & ~ROW.few_outputs)

    def _twice(self, among: list[int]) -> DataFrame:
        """Reports identities that have more outputs than their inputs may have. Each finding has the first output and one input
        of the identity."""
        over = self.ids.where((ROW.over > 0) & ROW.pipeline.isin(among)).drop("droppable", "short", "over", "whole", "needed")
        copies = Window.partitionBy(*ID).orderBy("timestamp", *PLACE)
        rows = (
            self.rows.where((ROW.side == OUT) & ROW.id.isNotNull()).join(over, [*ID])
            .withColumn("number", sf.row_number().over(copies))
            .withColumn("once", sf.first(sf.struct(*PLACE)).over(copies))
            .where(ROW.number > ROW.ins * ROW.most)
        )  # fmt: skip
        rows = _flat(_flat(rows, "once", PLACE), "input", PLACE)
        keys = [*PARTITION, *(f"{side}_{name}" for side in ("once", "input") for name in PARTITION)]
        stretches = _stretches(rows, keys, ("offset", "once_offset", "input_offset"), ("ins", "outs", "number"))
        words = WORDS.processed_twice(head("id"))
        evidence = _evidence(
            "records", *(_range(name) for name in ("input", "once")), ROW.ins.alias("inputs_alike"),
            ROW.outs.alias("outputs_alike"), ROW.number.alias("copy"),
        )  # fmt: skip
        return _found(stretches, "processed_twice", evidence, words, ~ROW.few_inputs)

    def _orphans(self, among: list[int]) -> DataFrame:
        none = self.ids.where((ROW.ins == 0) & ROW.pipeline.isin(among)).select(*ID)
        rows = self.rows.where((ROW.side == OUT) & ROW.id.isNotNull()).join(none, [*ID], "left_semi")
        rows = rows.withColumn("number", sf.row_number().over(Window.partitionBy(*ID).orderBy(*PLACE)))
        stretches = _stretches(self._near(self._with_policy(rows), IN), PARTITION, ("offset",), ("near", "number"))
        words = WORDS.output_without_input(head("id"))
        words = sf.concat(words, sf.coalesce(WORDS.hidden_record("the input"), sf.lit("")))
        evidence = _evidence("records", ROW.near.alias("hidden_input"), ROW.number.alias("copy"))
        return _found(stretches, "output_without_input", evidence, words, ~ROW.few_inputs)

    def _unnamed(self, among: list[int]) -> DataFrame:
        """Returns outputs without an identity."""
        rows = self._with_policy(self.rows.where((ROW.side == OUT) & ROW.id.isNull() & ROW.pipeline.isin(among)))
        rows = rows.withColumn("number", sf.row_number().over(Window.partitionBy("pipeline").orderBy(*PLACE)))
        stretches = _stretches(rows, PARTITION, ("offset",), ("number",))
        words = WORDS.output_without_id()
        evidence = _evidence("records", sf.when(ROW.is_table, ROW.number).alias("copy"))
        return _found(stretches, "output_without_input", evidence, words, sf.lit(False))

    def _disorder(self) -> DataFrame:
        """Returns the inputs whose first output is stored after the output of a later input with the same key. `later` has the
        offset of the later input, and the offset of the later input's output."""
        ordered = [number for number, each in enumerate(self.pipelines) if each.order and each.table is None]
        pairs = self.parts.where("ins = 1 AND outs > 0 AND input.key_hash IS NOT NULL").where(ROW.pipeline.isin(ordered))
        keys = ("pipeline", "input.topic", "input.partition", "input.key_hash", "output.topic", "output.partition")
        before = Window.partitionBy(*keys).orderBy("output.offset").rowsBetween(Window.unboundedPreceding, -1)
        pair = sf.struct(ROW.input.offset.alias("input_offset"), ROW.output.offset.alias("output_offset"))
        later = pairs.select(*ID, "input", "output").withColumn("later", sf.max(pair).over(before))
        return later.where("later.input_offset > input.offset")

    def _out_of_order(self, wrong: DataFrame) -> DataFrame:
        rows = _flat(_flat(wrong, "input", PLACE), "output", PLACE, prefix="")
        outputs = self.rows.where(ROW.side == OUT).select(*ID, *PLACE, "id")
        rows = self._with_policy(rows.join(outputs, [*ID, *PLACE])).withColumn("last_offset", ROW.offset)
        words = WORDS.output_disorder(head("id"))
        partition = (ROW.input_topic.alias("topic"), ROW.input_partition.alias("partition"))
        later = sf.struct(*partition, "later.input_offset", "later.output_offset")
        place = sf.struct(*partition, ROW.input_offset.alias("offset")).alias("input")
        return _found(rows, "output_disorder", _evidence(place, later.alias("later")), words, ~ROW.damaged)

    def _near(self, rows: DataFrame, side: int) -> DataFrame:
        """Adds `near`: a record on this side that has the row's identity, but is hidden from consumers."""
        place = sf.struct(*PLACE, "transaction")
        hidden = self.hidden.where((ROW.side == side) & ROW.id.isNotNull())
        return rows.join(hidden.groupBy(*ID).agg(sf.max_by(place, "offset").alias("near")), [*ID], "left")


def _with(counts: Sequence[Mapping[str, int]], name: str) -> list[int]:
    """Returns the pipelines for which the count `name` is not 0."""
    return [number for number, each in enumerate(counts) if each[name]]


def _explained(pipeline: Pipeline, known: Facts, counts: Mapping[str, int], most_ins: int) -> dict[str, int]:
    """If removed or unread records explain missing records, returns the counts that change. Removed records explain missing
    records if the number of removed offsets is at least the number of missing records. A topic that was not read completely
    explains any number of missing records.

    If an output has too few inputs, it may belong to a removed input, unless each identity has a single input.
    """
    explained: dict[str, int] = {}
    if counts["unprocessed"] and not known.unread.isdisjoint(pipeline.outputs):
        explained |= {"unprocessed": 0, "outputs_unread": counts["unprocessed"]}
    elif 0 < counts["unprocessed"] <= known.removed_outputs:
        explained |= {"unprocessed": 0, "outputs_removed": counts["unprocessed"]}
    unique = most_ins <= 1 and pipeline.match != Part("key")
    repeats = [] if unique else ["processed_twice"]
    without = sum(counts[name] for name in (*repeats, "without_input"))
    if without and not known.unread.isdisjoint(pipeline.inputs):
        explained |= {**dict.fromkeys((*repeats, "without_input"), 0), "inputs_unread": without}
    elif 0 < without <= known.removed_inputs * (pipeline.fan_out[1] or _FAR):
        explained |= {**dict.fromkeys((*repeats, "without_input"), 0), "inputs_removed": without}
    return explained


def _hashed(rows: DataFrame) -> DataFrame:
    """Adds two hashes of each row's identity. The two hashes are independent of each other, so together they distinguish
    identities."""
    return rows.withColumns({
        "high": sf.xxhash64("id"), "low": sf.xxhash64(sf.lit(1), "id"),
        "part": sf.xxhash64("part"), "key_hash": sf.when(ROW.key.isNotNull(), sf.xxhash64("key")),
    })  # fmt: skip


def _flat(rows: DataFrame, name: str, fields: Sequence[str], prefix: str | None = None) -> DataFrame:
    """Replaces the struct `name` by a column for each of the `fields`."""
    begin = f"{name}_" if prefix is None else prefix
    return rows.withColumns({f"{begin}{field}": sf.col(f"{name}.{field}") for field in fields}).drop(name)


def _range(name: str) -> Column:
    """Returns the range of offsets of the records on the other side, such as the inputs that belong to a stretch of outputs."""
    names = {f"{name}_{each}": each for each in PARTITION}
    names |= {f"{name}_offset": "first_offset", f"last_{name}_offset": "last_offset"}
    return sf.struct(*(sf.col(column).alias(field) for column, field in names.items())).alias(name)


_OF_POLICY = ("name", "group", "least", "is_table", "what", "few_inputs", "few_outputs")


def _stretches(rows: DataFrame, keys: Sequence[str], offsets: Sequence[str], others: Sequence[str]) -> DataFrame:
    """Merges neighbouring rows of a pipeline: rows with equal `keys` and consecutive `offsets`.

    A merged row has the number of `records`, the first and the last of the offsets, and the first row's `id` and `others`. The
    marker of a transaction may lie between neighbours. Rows of a table, with offset −1, have no neighbours.
    """
    order = Window.partitionBy("pipeline", *keys).orderBy(*offsets)
    farthest = sf.when(ROW.transaction == "none", 1).otherwise(2)
    follows = sf.lit(True)
    for name in offsets:
        follows &= (sf.col(name) - sf.lag(name).over(order)).between(1, farthest)
    runs = rows.withColumn("breaks", sf.coalesce(~follows, sf.lit(True)).cast("int")).withColumn(
        "stretch", sf.sum("breaks").over(order)
    )
    ends: list[Any] = [sf.min(name).alias(f"min_{name}") for name in offsets]
    ends += [sf.max(name).alias("last_offset" if name == "offset" else f"last_{name}") for name in offsets]
    first = [sf.min_by(name, "offset").alias(name) for name in ("id", *_OF_POLICY, *others)]
    merged = runs.groupBy("pipeline", *keys, "stretch").agg(sf.count(sf.lit(1)).alias("records"), *ends, *first)
    return merged.withColumnsRenamed({f"min_{name}": name for name in offsets})


def _evidence(*more: Column | str) -> Column:
    """Returns the evidence of a finding: the pipeline, its group, the first record's identity, and the columns `more`."""
    digest = sf.substring(sf.sha2("id", 256), 1, 16).alias("record")
    about = (ROW.name.alias("pipeline"), sf.when(ROW.group != "", ROW.group).alias("group"), head("id").alias("id"), digest)
    return sf.struct(*about, *(sf.col(each) if isinstance(each, str) else each for each in more))


def _found(rows: DataFrame, kind: Column | str, evidence: Column, words: Column, is_certain: Column) -> DataFrame:
    severity = sf.when(is_certain, "certain").otherwise("likely")
    none = {name: sf.lit(-1) for name in SIDE if name not in ("partition", "base_offset", "last_offset")}
    return finding(rows.withColumns(none | {"base_offset": ROW.offset}), kind, evidence, words, severity)


def of_tables(keys: Mapping[int, DataFrame], pipelines: Sequence[Pipeline], none: DataFrame) -> DataFrame:
    """Returns the rows of the tables that pipelines write, as outputs without a log. For the findings, each row has the topic
    of the input. `none` is an empty DataFrame with all columns."""
    tables = [
        rows.select(
            sf.col("key").alias("id"), sf.lit(number).alias("pipeline"), sf.lit(OUT).alias("side"),
            sf.lit(pipelines[number].inputs[0]).alias("topic"), sf.lit("none").alias("transaction"),
            sf.lit(-1).alias("partition"), *(sf.lit(-1).cast("bigint").alias(name) for name in ("offset", "timestamp")),
            sf.lit(False).alias("may_drop"),
        )
        for number, rows in keys.items()
    ]  # fmt: skip
    return united([none, *tables])
