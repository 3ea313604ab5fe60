"""Measures how much faster two threads do the work of one: a loop on each core of a free-threaded CPython.

    python3.14t scripts/measure_threads.py
    python3.14t -X gil=1 scripts/measure_threads.py   the same interpreter with the lock

python3.14t is a CPython configured with --disable-gil, with crc32c, msgspec, cramjam and rich.

Each thread has an engine of its own and handles Produce requests of 70 mixed records, without a network. Nothing is shared
between the threads but the code. The best of five rounds counts.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from pathlib import Path

argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / name) for name in ("broker", "protocol", "tests")]

from kafkawire.batches import Record, build_batch
from kafkawire.frames import encode_request
from requesting import produce_request
from wirebroker.engine.engine import Engine

NOW = 1_700_000_000_000
REQUESTS, RECORDS, ROUNDS = 4000, 70, 5


def frames() -> list[memoryview]:
    """Returns twenty different requests."""
    dice, made = random.Random(7), []
    for _ in range(20):
        records = [Record(i, i, dice.randbytes(12), dice.randbytes(dice.randrange(80, 400))) for i in range(RECORDS)]
        request = produce_request("orders", build_batch(records, base_timestamp=NOW))
        made.append(memoryview(bytearray(encode_request(5, "me", request, 9)[4:])))
    return made


def work() -> None:
    """Handle the requests in a new engine."""
    engine = Engine(NOW, random.Random(5).randbytes)
    engine.cluster.create_topic("orders", NOW, partitions=1)
    connection, requests = engine.connect(1), frames()
    for number in range(REQUESTS):
        engine.receive(connection, requests[number % len(requests)], NOW)
        engine.take_effects()


def seconds(threads: int) -> tuple[float, float]:
    """Returns the elapsed seconds and the CPU seconds of this number of threads."""
    workers = [threading.Thread(target=work) for _ in range(threads)]
    began, used = time.perf_counter(), time.process_time()
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return time.perf_counter() - began, time.process_time() - used


def main() -> None:
    """Measure one thread and two threads in turns."""
    work()
    rounds = [(seconds(1), seconds(2)) for _ in range(ROUNDS)]
    one, two = (tuple(min(figures) for figures in zip(*runs, strict=True)) for runs in zip(*rounds, strict=True))
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"CPython {sys.version.split()[0]}, {'with' if lock else 'without'} the global lock, µs for each request:")
    for name, (elapsed, used), work_done in (("one thread", one, 1), ("two threads", two, 2)):
        each = REQUESTS * work_done / 1e6
        print(f"  {name}: {elapsed / each:.0f} elapsed, {used / each:.0f} of CPU")
    print(f"  two threads do {2 * one[0] / two[0]:.2f} times as much as one in the same time")


if __name__ == "__main__":
    main()
