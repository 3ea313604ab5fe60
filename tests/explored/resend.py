"""Sends three records with kafka-python, and waits for each. With the argument "again", the program sends a record again if the
client has given up this record."""

import os
import sys

from kafka import KafkaProducer
from kafka.errors import KafkaError

again = "again" in sys.argv
reliable = {"enable_idempotence": not again, "retries": 0 if again else 100, "delivery_timeout_ms": 3000}
producer = KafkaProducer(
    bootstrap_servers=os.environ["WIREBROKER_BOOTSTRAP"],
    acks="all",
    request_timeout_ms=1000,
    retry_backoff_ms=10,
    reconnect_backoff_ms=10,
    max_block_ms=3000,
    **reliable,
)
for number in range(3):
    for attempt in range(5 if again else 1):
        try:
            producer.send("orders", key=b"key", value=b"order-%d" % number).get(5)
            break
        except KafkaError as wrong:
            if not again or attempt == 4:
                sys.exit(f"not sent: {wrong}")
producer.close(3)
