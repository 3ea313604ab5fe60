"""Sends six records with retries, and checks every result. With the argument "idempotent", the producer is idempotent."""

import os
import sys

from confluent_kafka import Producer

failed = []
producer = Producer({
    "bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "enable.idempotence": "idempotent" in sys.argv,
    "retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "linger.ms": 0, "batch.num.messages": 1,
    "message.timeout.ms": 4000, "socket.timeout.ms": 1000,
})  # fmt: skip
for number in range(6):
    producer.produce("orders", key="key", value=f"order-{number}", on_delivery=lambda error, _: error and failed.append(error))
if producer.flush(5) or failed:
    sys.exit(f"not delivered: {failed}")
