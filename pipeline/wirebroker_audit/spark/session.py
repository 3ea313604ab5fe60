"""The Spark session: one on this machine, or the cluster's session of `spark-submit`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from wirebroker_audit.spark.java import provide_java

if TYPE_CHECKING:
    from pyspark import SparkContext

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1500m",  # the heap; the whole JVM stays below 2 GiB
    "spark.log.level": "ERROR",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # with `true`, PySpark calls the JVM eight times for each column
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.limit.initialNumPartitions": "1000",  # a single job then finds out whether a table has a row
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}
"""Settings for a session that this process begins."""
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Settings for executors on this machine. A cluster's executors could not reach the driver at this address."""
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
ONCE = {"spark.driver.defaultJavaOptions": _FIRST_COMPILER}
"""Settings for one audit. An audit runs many queries once, and most of the time goes into their planning. Java's second
compiler would take more time for the queries' code than it saves."""
BRIEF = {"spark.driver.defaultJavaOptions": f"{_FIRST_COMPILER} -XX:+UseSerialGC"}
"""Settings for one audit of a small log."""


def get_session(
    master: str | None = None, settings: Mapping[str, str] | None = None, name: str = "wirebroker-audit"
) -> SparkSession:
    """Returns a session with this name. `settings` apply unless `spark-submit` has begun the session. Raises NoJava."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    if not submitted:
        provide_java()
        master = master or "local[*]"
        builder = builder.master(master)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if here := master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for word, value in {**LOCAL, **(LOOPBACK if here else {}), **(settings or {})}.items():
            builder = builder.config(word, value)
    spark: SparkSession = builder.getOrCreate()
    _remember_functions(spark.sparkContext)
    return spark


class _Members:
    """A Java class; each of its members is looked up only once."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java, name)
        setattr(self, name, member)
        return member


def _remember_functions(context: SparkContext) -> None:
    """Makes PySpark remember the JVM's functions. For every column, PySpark asks the JVM for the class and the method, and an
    audit makes thousands of columns."""
    jvm: Any = context._jvm
    jvm.PythonUtils, functions = _Members(jvm.PythonUtils), _Members(jvm.functions)
    for name in ("functions", "org.apache.spark.sql.functions"):
        setattr(jvm, name, functions)
