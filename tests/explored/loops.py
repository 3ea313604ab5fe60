"""Commits a transaction, and repeats the commit after any error."""

import os
import time

from confluent_kafka import KafkaException, Producer

producer = Producer({"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "transactional.id": "till", "linger.ms": 0})
producer.init_transactions(10)
producer.begin_transaction()
producer.produce("orders", value="order-1")
while True:
    try:
        producer.commit_transaction(10)
        break
    except KafkaException:
        time.sleep(0.05)
