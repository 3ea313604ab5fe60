"""Two tests that attach to the broker of WIREBROKER_CONTROL and reset it, as the libraries in clients/ do.

Each test sends one record and ignores the result. With the argument "asserting", each test asserts that its record is stored.
With "wrong", the second test fails.
"""

import json
import os
import sys
from urllib.request import Request, urlopen

from confluent_kafka import Producer


def ask(path: str, body: object) -> None:
    urlopen(Request(os.environ["WIREBROKER_CONTROL"] + path, json.dumps(body).encode()), timeout=10).close()


producer = Producer({"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "acks": 1, "retries": 0, "linger.ms": 0})
for name in ("first", "second"):
    ask("/tests", {"name": name})
    producer.produce("orders", value=name)
    producer.flush(5)
    if "asserting" in sys.argv:
        if "wrong" in sys.argv and name == "second":
            producer.produce("orders", value="of another test")
            producer.flush(5)
        ask("/topics/orders/records/assert", {"records": [{"value": name}], "timeout": 0})
