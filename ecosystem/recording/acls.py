#!/usr/bin/env -S python3
"""Record the responses of Kafka 4.3.1 to a client that has few rights, into tests/data/acls-4.3.1.json.xz.

    scripts/record-acls

Needs `java` (17 or newer) and `mvn`. The requests and the ACLs are in tests/acl_requests.py.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from functools import partial

from _environment import ROOT, enter

enter()
from _kafka_security import Security
from _kafka_releases import VERSION, KafkaUnavailable
from _kafka_server import TELEMETRY_RECEIVER, KafkaServer
from acl_requests import SETTINGS, USERS, play, recorded_by

PAUSE_S = 1.1
"""Seconds after which a broker has resolved the groups' regular expressions again, and may assign new partitions."""


def main() -> int:
    """Send all requests to a real broker, and write its responses to the file."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    try:
        with KafkaServer(
            SETTINGS | {"metric.reporters": TELEMETRY_RECEIVER}, security=Security(USERS, listeners=("SASL_PLAINTEXT",))
        ) as kafka:
            steps = list(play(kafka.addresses["SASL_PLAINTEXT"], partial(time.sleep, PAUSE_S)))
    except KafkaUnavailable as unavailable:
        print(f"nothing was recorded: {unavailable}", file=sys.stderr)
        return 2
    text = json.dumps(steps, ensure_ascii=False, separators=(",", ":"))
    (ROOT / "tests" / "data" / recorded_by(VERSION)).write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{len(steps)} responses of Kafka {VERSION}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
