"""Start a wirebroker program with `serve`, without access to other packages, and use the broker as a client would.

    trial.py PROGRAM [WORD ...]

If kafka-python is installed, it produces a record. Otherwise the control API stores the record. Exit code 0 if the record is
stored and read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import takewhile
from typing import Any
from urllib.request import urlopen

VALUE = "a pound of tea"


def ask(address: str, body: object = None) -> Any:
    """Returns the response of the control."""
    with urlopen(address, None if body is None else json.dumps(body).encode(), timeout=20) as response:
        return json.load(response)


def produce(bootstrap: str, control: str) -> str:
    """Store a record, and return the name of the client that stored it."""
    try:
        from kafka import KafkaProducer
    except ImportError:
        ask(f"{control}/topics/orders/records", {"records": [{"value": VALUE}]})
        return "the control"
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("orders", VALUE.encode()).get(timeout=20)
    producer.close()
    return "kafka-python"


def main(program: list[str]) -> int:
    """Start the broker, produce a record, read it, request the health, and stop the broker."""
    command = [*program, "serve", "--port", "0", "--control", "0", "--topic", "orders"]
    with tempfile.TemporaryDirectory() as elsewhere:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=elsewhere)
        assert process.stdout is not None
        try:
            said = [line.split() for line in takewhile(lambda line: line != "ready\n", process.stdout)]
            addresses = {line[0]: line[2] for line in said}
            sender = produce(addresses["listening"], addresses["control"])
            (record,) = ask(f"{addresses['control']}/topics/orders/records")["records"]
            assert record["value"]["text"] == VALUE, record
            health = [*program, "health", "--bootstrap", addresses["listening"]]
            subprocess.run(health, check=True, stdout=subprocess.DEVNULL, cwd=elsewhere)
        finally:
            process.terminate()
            code = process.wait(20)
            process.stdout.close()
    print(f"{' '.join(program)}: serves, stores a record from {sender}, and ends with {code}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
