"""Sends six records with acks=1 and never looks at their results."""

import os

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "acks": 1, "retries": 0, "linger.ms": 0})
for number in range(6):
    producer.produce("orders", key=f"key-{number % 2}", value=f"order-{number}")
    producer.flush(5)
