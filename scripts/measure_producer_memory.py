#!/usr/bin/env python3
"""Measures the resident memory of the validator's state for one partition, whose producers have five cached batches each.

scripts/measure_producer_memory.py [--producers 1000000]
"""

from __future__ import annotations

import argparse
import gc

from _environment import enter

enter("crc32c", "psutil")

from kafkawire.batches import BatchHeader
from wirebroker.core.producers import advance
from wirebroker.core.profile import Rules

BATCHES = 5


def resident() -> int:
    """Returns the resident memory of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def fill(producers: int) -> dict[int, bytes]:
    """Returns the validator's state by producer id, after each producer has stored five batches in one partition."""
    rules = Rules()
    states: dict[int, bytes] = {}
    for number in range(BATCHES):
        for producer_id in range(1000, 1000 + producers):
            header = BatchHeader(0, 100, 0, 2, 0, 0, 9, 10**12, 10**12, producer_id, 0, 10 * number, 10)
            offset = 10 * (number * producers + producer_id)
            states[producer_id] = advance(states.get(producer_id), header, offset, 10**12 + offset, rules)
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=1_000_000)
    producers = parser.parse_args().producers
    gc.collect()
    before = resident()
    states = fill(producers)
    gc.collect()
    each = (resident() - before) / len(states)
    print(f"{len(states)} producers with {BATCHES} batches each on one partition: {each:.0f} bytes each")
    print(f"100,000 producers on 1,000 partitions each would take {each * 1e8 / 1e9:.0f} GB")


if __name__ == "__main__":
    main()
