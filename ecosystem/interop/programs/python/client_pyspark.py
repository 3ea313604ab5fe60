"""Uses PySpark's Kafka source and sink in batch queries and in streaming queries. Spark's sink does not support transactions.
So the Java producer that Spark contains writes the transactions, and Spark reads them with `isolation.level` read_committed.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pyspark
from kit import numbered, run, same
from pyspark.sql import DataFrame, SparkSession

CONNECTOR = os.environ["CONNECTOR"]
"""Maven coordinates of spark-sql-kafka."""
STRING = "org.apache.kafka.common.serialization.StringSerializer"
_sessions: list[SparkSession] = []


def session() -> SparkSession:
    """Returns the Spark session, which the first call starts."""
    if not _sessions:
        builder = SparkSession.builder.master("local[2]").appName("interop").config("spark.ui.enabled", "false")
        builder = builder.config("spark.jars.packages", CONNECTOR).config("spark.jars.ivy", os.environ["IVY"])
        _sessions.append(builder.config("spark.sql.shuffle.partitions", "2").getOrCreate())
        _sessions[0].sparkContext.setLogLevel("ERROR")
    return _sessions[0]


def settings(bootstrap: str, topic: str, isolation: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest",
        "kafka.isolation.level": isolation,
    }  # fmt: skip


def values(frame: DataFrame) -> list[str]:
    return sorted(row.value for row in frame.selectExpr("cast(value as string) as value").collect())


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[str]:
    """Returns the values of the records in a topic, read by a batch query."""
    return values(session().read.format("kafka").options(**settings(bootstrap, topic, isolation)).load())


def stream(bootstrap: str, source: str, target: str, checkpoint: str, isolation: str = "read_committed") -> None:
    """Copies all new records of a topic to another topic, by a streaming query that ends when it has caught up."""
    frame = session().readStream.format("kafka").options(**settings(bootstrap, source, isolation)).load()
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": checkpoint}
    query = frame.select("key", "value").writeStream.format("kafka").options(**sink).trigger(availableNow=True).start()
    if not query.awaitTermination(40):
        raise AssertionError("the stream did not catch up within 40 s")


def produce(bootstrap: str, name: str) -> None:
    """A batch query writes to a topic, a streaming query copies the records in two runs, and a batch query reads the copies."""
    target = f"{name}-copy"
    sent = [value.decode() for value in numbered("value", 9)]
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": name, "kafka.enable.idempotence": "true"}
    with tempfile.TemporaryDirectory() as checkpoint:
        for part in (sent[:5], sent[5:]):
            frame = session().createDataFrame([(value, value) for value in part], "key string, value string")
            frame.write.format("kafka").options(**sink).save()
            stream(bootstrap, name, target, checkpoint)
    same(read(bootstrap, name), sent, "the source has")
    same(read(bootstrap, target), sent, "the copy has")


def transactions(bootstrap: str, name: str, ends: list[tuple[str, str]]) -> None:
    """Runs a transaction for each pair of a value and an end: it writes a record with the value, and then commits or aborts."""
    session()
    java: Any = _sessions[0].sparkContext._jvm
    properties = java.java.util.Properties()
    for key, value in {"bootstrap.servers": bootstrap, "transactional.id": name, "key.serializer": STRING,
                       "value.serializer": STRING}.items():  # fmt: skip
        properties.setProperty(key, value)
    producer = java.org.apache.kafka.clients.producer.KafkaProducer(properties)
    producer.initTransactions()
    for value, end in ends:
        producer.beginTransaction()
        producer.send(java.org.apache.kafka.clients.producer.ProducerRecord(name, value, value)).get()
        getattr(producer, f"{end}Transaction")()
    producer.close()


def commit(bootstrap: str, name: str) -> None:
    transactions(bootstrap, name, [("1", "commit"), ("2", "commit")])
    same(read(bootstrap, name), ["1", "2"], "a batch read with read_committed saw")
    with tempfile.TemporaryDirectory() as checkpoint:
        stream(bootstrap, name, f"{name}-copy", checkpoint)
    same(read(bootstrap, f"{name}-copy"), ["1", "2"], "a stream with read_committed saw")


def abort(bootstrap: str, name: str) -> None:
    transactions(bootstrap, name, [("1", "commit"), ("2-aborted", "abort"), ("3", "commit")])
    same(read(bootstrap, name), ["1", "3"], "a batch read with read_committed saw")
    same(read(bootstrap, name, "read_uncommitted"), ["1", "2-aborted", "3"], "a batch read with read_uncommitted saw")
    with tempfile.TemporaryDirectory() as checkpoint:
        stream(bootstrap, name, f"{name}-copy", checkpoint)
    same(read(bootstrap, f"{name}-copy"), ["1", "3"], "a stream with read_committed saw")


if __name__ == "__main__":
    version = f"{pyspark.__version__} (connector {CONNECTOR.rpartition(':')[2]})"
    run("pyspark", version, {"produce": produce, "commit": commit, "abort": abort})
    for each in _sessions:
        each.stop()
