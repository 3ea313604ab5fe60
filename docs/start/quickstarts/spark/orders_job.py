"""The job under test: it writes orders to the topic `orders`."""

from pyspark.sql import SparkSession


def send_orders(spark: SparkSession, bootstrap: str, orders: list[tuple[str, str]]) -> None:
    frame = spark.createDataFrame(orders, "key string, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", "orders").save()
