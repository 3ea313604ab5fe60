"""Sends three records. The first run on a Spark executor creates a file and kills the executor (SIGKILL). Later runs find the
file and let the executor live.
"""

import os
import signal
import sys
from pathlib import Path

import psutil
from confluent_kafka import Producer

EXECUTOR = "CoarseGrainedExecutorBackend"


def main() -> None:
    """Send the records, and ignore the results, which may be errors after a fault."""
    mark = Path(sys.argv[1])
    executor = next((each for each in psutil.Process().parents() if any(EXECUTOR in word for word in each.cmdline())), None)
    if executor is not None:
        try:
            mark.open("x").close()
        except FileExistsError:
            pass
        else:
            os.kill(executor.pid, signal.SIGKILL)
            return  # the executor is dead
    producer = Producer({"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "acks": 1, "retries": 0, "linger.ms": 0})
    for number in range(3):
        producer.produce("orders", value=f"order-{number}")
        producer.flush(5)


main()
