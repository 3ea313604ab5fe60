from collections.abc import Iterator

import pytest
from orders_job import send_orders
from pyspark.sql import SparkSession

from wirebroker import MockKafka, faults


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    connector = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
    session = SparkSession.builder.master("local[1]").config("spark.jars.packages", connector).getOrCreate()
    yield session
    session.stop()


@pytest.mark.mock_kafka(topics={"orders": 3})
def test_a_lost_acknowledgement_doubles_nothing(spark: SparkSession, mock_kafka: MockKafka) -> None:
    lost = mock_kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=1))

    send_orders(spark, mock_kafka.bootstrap_servers, [("order-1", "a pound of tea")])

    lost.assert_fired()
    assert [row.verdict for row in mock_kafka.trace.produce("orders")] == ["accepted", "duplicate"]
    mock_kafka.audit().assert_exactly_once(intended=[("orders", b"order-1", b"a pound of tea")])
