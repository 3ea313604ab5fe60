"""One Spark session for all tests of the audit, because a start is expensive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""Spark settings that suit many small queries instead of one large query."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests that use a Spark session in the same process (xdist does so with `--dist loadgroup`)."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Returns a Spark session that runs on this machine."""
    from wirebroker_audit.spark.session import get_session

    session = get_session("local[2]", QUICK)
    yield session
    session.stop()
