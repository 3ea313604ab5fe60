"""Sends an order. If this fails, it sends the order with a second producer, and ignores the result."""

import os

from confluent_kafka import Producer

where = {"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "acks": 1, "retries": 0, "linger.ms": 0}


def send(client_id: str) -> list[object]:
    errors: list[object] = []
    producer = Producer({**where, "client.id": client_id})
    producer.produce("orders", value="order", on_delivery=lambda error, _: error and errors.append(error))
    producer.flush(5)
    return errors


if send("first"):
    send("spare")
