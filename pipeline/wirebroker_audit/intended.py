"""What an application meant to send: its journal, as `wirebroker.audit.journal` describes it, JSON lines or Parquet."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, StringType, StructField, StructType

FIELDS = StructType(
    [
        StructField("topic", StringType()), StructField("partition", IntegerType()), StructField("key", StringType()),
        StructField("key_base64", StringType()), StructField("value", StringType()),
        StructField("value_base64", StringType()), StructField("value_sha256", StringType()),
        StructField("acknowledged", BooleanType()), StructField("producer", StringType()), StructField("id", StringType()),
    ]
)  # fmt: skip
SHOWN = 40
"""Characters of a value that explanations show."""
_BROKEN = "broken"


class BadJournal(Exception):
    """A line or a file is no journal; the text says which and why."""


def read_journal(spark: SparkSession, path: str) -> DataFrame:
    """One row for each intended record: topic, partition, key, value_hash, acknowledged, producer, shown. Raises BadJournal."""
    given = _parquet(spark, path) if _is_parquet(path) else _lines(spark, path)
    for name in ("key_base64", "value_base64"):
        if (bad := given.where(sf.col(name).isNotNull() & _bytes(name).isNull()).first()) is not None:
            raise BadJournal(f"{path}: this is no base64: {name} {bad[name]!r}")
    rows = _merged(given)
    if (nameless := rows.where("topic IS NULL").first()) is not None:
        raise BadJournal(f"{path}: a record has no topic: {nameless.asDict()}")
    value = sf.coalesce(_bytes("value_base64"), sf.encode("value", "utf-8"))
    return rows.select(
        "topic", "partition",
        sf.coalesce(_bytes("key_base64"), sf.encode("key", "utf-8")).alias("key"),
        sf.coalesce(sf.col("value_sha256"), sf.sha2(value, 256)).alias("value_hash"),
        "acknowledged", "producer", sf.coalesce(sf.substring("value", 1, SHOWN), sf.concat(sf.lit("SHA-256 "), "value_sha256"),
                                                sf.lit("of bytes")).alias("shown"),
    )  # fmt: skip


def _bytes(name: str) -> Column:
    """The bytes of a column of base64, null where it is none."""
    return sf.try_to_binary(sf.col(name), sf.lit("base64"))


def _is_parquet(path: str) -> bool:
    local = Path(path)
    return path.endswith(".parquet") or (local.is_dir() and any(local.glob("*.parquet")))


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    try:
        rows = spark.read.parquet(path)
    except (PySparkException, Py4JError) as refused:
        raise BadJournal(f"{path}: this is not Parquet") from refused
    _check_names(rows.columns, path)
    for name in ("key", "value"):
        if name in rows.columns and rows.schema[name].dataType == BinaryType():
            rows = rows.withColumn(f"{name}_base64", sf.base64(name)).drop(name)
    return rows.select(
        *(
            (sf.col(field.name) if field.name in rows.columns else sf.lit(None)).cast(field.dataType).alias(field.name)
            for field in FIELDS.fields
        )
    )


def _lines(spark: SparkSession, path: str) -> DataFrame:
    schema = StructType([*FIELDS.fields, StructField(_BROKEN, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    lines = spark.read.text(path).where("trim(value) <> ''").withColumnRenamed("value", "line")
    parsed = lines.withColumn("row", sf.from_json("line", schema, options))
    parsed = parsed.withColumn("names", sf.map_keys(sf.from_json("line", "map<string,string>")))
    wrong = (sf.col(f"row.{_BROKEN}").isNotNull()) | (
        sf.size(sf.array_except("names", sf.array(*(sf.lit(field.name) for field in FIELDS.fields)))) > 0
    )
    if (bad := parsed.where(wrong).first()) is not None:
        if bad["row"][_BROKEN] is None:
            _check_names(bad["names"], _where(path, bad["line"]))
        raise BadJournal(f"{_where(path, bad['line'])}: this is not a line of a journal: {bad['line'][:80]}")
    return parsed.select("row.*").drop(_BROKEN)


def _where(path: str, line: str) -> str:
    """The file and the number of a line, where the file is at hand."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            number = next((number for number, each in enumerate(file, 1) if each.rstrip("\r\n") == line), 0)
    except (OSError, UnicodeDecodeError):
        number = 0
    return f"{path}, line {number}" if number else path


def _check_names(names: list[str], where: str) -> None:
    known = FIELDS.fieldNames()
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise BadJournal(
                f"{where}: there is no field {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
            )


def _merged(rows: DataFrame) -> DataFrame:
    """Lines with the same id are one record: each adds what the others leave null, and true outranks false."""
    plain = [name for name in FIELDS.fieldNames() if name not in ("id", "acknowledged")]
    by_id = (
        rows.where("id IS NOT NULL").groupBy("id")
        .agg(*(sf.first(name, ignorenulls=True).alias(name) for name in plain), sf.max("acknowledged").alias("acknowledged"))
        .drop("id")
    )  # fmt: skip
    return rows.where("id IS NULL").drop("id").unionByName(by_id)
