"""Sends orders over SASL_SSL until SIGTERM, and prints how many were sent and how many were lost: till.py BOOTSTRAP CA RATE."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from confluent_kafka import Producer

lost = 0


def delivered(error: Any, _: Any) -> None:
    global lost
    lost += error is not None


def main(bootstrap: str, ca: str, rate: str) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    producer = Producer({
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": ca,
        "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "till", "sasl.password": "secret", "enable.idempotence": True,
    })  # fmt: skip
    number = 0
    while not stopped:
        producer.produce("orders", f"order {number}", on_delivery=delivered)
        number += 1
        producer.poll(1 / float(rate))
        time.sleep(1 / float(rate))
    lost_in_the_end = producer.flush(120)
    print(json.dumps({"sent": number, "lost": lost + lost_in_the_end}))


if __name__ == "__main__":
    main(*sys.argv[1:])
