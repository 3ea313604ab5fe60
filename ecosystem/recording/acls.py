"""Record the responses of Kafka 4.3.1 to a client that has few rights, into tests/data/acls-4.3.1.json.xz.

    scripts/record acls

Needs `java` (17 or newer) and `mvn`. The requests and the ACLs are in tests/acl_requests.py.
"""

from __future__ import annotations

import json
import lzma
import time
from functools import partial

from acl_requests import SETTINGS, USERS, play, recorded_by
from ecosystem.kafka.releases import VERSION
from ecosystem.kafka.security import Security
from ecosystem.kafka.server import TELEMETRY_RECEIVER, KafkaServer
from ecosystem.recording.common import DATA, parser_of

PAUSE_S = 1.1
"""Seconds after which a broker has resolved the groups' regular expressions again, and may assign new partitions."""


def main(arguments: list[str]) -> int:
    """Send all requests to a real broker, and write its responses to the file."""
    parser_of("acls", __doc__).parse_args(arguments)
    with KafkaServer(
        SETTINGS | {"metric.reporters": TELEMETRY_RECEIVER}, security=Security(USERS, listeners=("SASL_PLAINTEXT",))
    ) as kafka:
        steps = list(play(kafka.addresses["SASL_PLAINTEXT"], partial(time.sleep, PAUSE_S)))
    text = json.dumps(steps, ensure_ascii=False, separators=(",", ":"))
    (DATA / recorded_by(VERSION)).write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{len(steps)} responses of Kafka {VERSION}")
    return 0
