"""A service that keeps running while its broker is reset. Arguments: LIBRARY BOOTSTRAP. For each order it produces a result and
commits the offset.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import chain
from typing import Any

ORDERS, RESULTS, GROUP = "orders", "results", "service"


def kafka_python(address: str) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    assert consumer.partitions_for_topic(ORDERS)  # otherwise the member gets no partitions until its next Metadata request
    consumer.subscribe([ORDERS])
    producer = kafka.KafkaProducer(bootstrap_servers=address, enable_idempotence=True)
    while True:
        for record in chain(*consumer.poll(timeout_ms=1000).values()):
            producer.send(RESULTS, record.value).get(10)
            consumer.commit()


def aiokafka(address: str) -> None:
    import aiokafka

    async def serve() -> None:
        settings: dict[str, Any] = {"group_id": GROUP, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        async with (
            aiokafka.AIOKafkaConsumer(ORDERS, bootstrap_servers=address, **settings) as consumer,
            aiokafka.AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer,
        ):
            async for record in consumer:
                await producer.send_and_wait(RESULTS, record.value)
                await consumer.commit()

    asyncio.run(serve())


def confluent_kafka(address: str) -> None:
    """Processes each order exactly once: one transaction has the result and the committed offset."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })  # fmt: skip
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": GROUP})
    consumer.subscribe([ORDERS])
    producer.init_transactions(10)
    while True:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            producer.begin_transaction()
            producer.produce(RESULTS, record.value())
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 10)
            producer.commit_transaction(10)


if __name__ == "__main__":
    _, library, bootstrap = sys.argv
    {"kafka-python": kafka_python, "aiokafka": aiokafka, "confluent-kafka": confluent_kafka}[library](bootstrap)
