"""Sends six records with acks=1, and ignores their results. With the argument "once", the client retries each record once."""

import os
import sys

from confluent_kafka import Producer

where = {"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "retry.backoff.ms": 10}
producer = Producer({**where, "acks": 1, "retries": 1 if "once" in sys.argv else 0, "linger.ms": 0})
for number in range(6):
    producer.produce("orders", key=f"key-{number % 2}", value=f"order-{number}")
    producer.flush(5)
