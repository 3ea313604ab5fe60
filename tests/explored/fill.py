"""Fills the topic orders."""

import os

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "linger.ms": 0})
for number in range(4):
    producer.produce("orders", key=f"key-{number}", value=f"order-{number}")
producer.flush(5)
