"""Record random dialogues with Kafka 4.3.1 about logins, delegation tokens and ACLs, into tests/data/security-4.3.1.json.

    scripts/record security [COUNT]

Needs `java` (17 or newer) and `mvn`. The dialogues are in tests/security_dialogues.py.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from functools import partial

from acl_requests import SETTINGS, USERS, log_in, plain_request
from ecosystem.kafka.security import Security
from ecosystem.kafka.server import KafkaServer
from ecosystem.recording.common import DATA, parser_of
from security_dialogues import RECORDED, SECRET, Talk

SPREADS_S = 0.2
"""Seconds after which a change of the metadata is in effect in every part of a broker. Changes of tokens take longer."""


def spread(address: tuple[str, int], change: tuple[str, int] | None) -> None:
    """Wait until a change is in effect in the broker and in the controller. `change` is a change of a token, or None for any
    other change.
    """
    deadline = time.monotonic() + 20
    while change is not None:
        with closing(log_in(address, "admin")) as admin:
            described = admin.request(plain_request("DescribeDelegationToken", {"owners": None}), 3).tokens
        found = {each.token_id: each.expiry_timestamp for each in described}
        if found.get(change[0], -1) == change[1]:
            break
        assert time.monotonic() < deadline, change
        time.sleep(0.02)
    time.sleep(SPREADS_S)


def main(arguments: list[str]) -> int:
    """Play the dialogues on a real broker, and write its responses to the file."""
    parser = parser_of("security", __doc__)
    parser.add_argument("count", nargs="?", type=int, default=60, metavar="COUNT")
    count = parser.parse_args(arguments).count
    responses = {}
    with KafkaServer(SETTINGS | SECRET, security=Security(USERS, listeners=("SASL_PLAINTEXT",))) as kafka:
        secured = kafka.addresses["SASL_PLAINTEXT"]
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("seen", "hidden")]
        log_in(secured, "admin").request(plain_request("CreateTopics", {"topics": topics, "timeout_ms": 5000}), 7)
        for seed in range(count):
            talk = Talk(seed, secured, kafka.address, kafka.now, partial(spread, secured))
            responses[seed] = list(talk.play())
    lines = [f'"{seed}": {json.dumps(steps, ensure_ascii=False)}' for seed, steps in responses.items()]
    (DATA / RECORDED).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(responses)} dialogues, {sum(map(len, responses.values()))} steps")
    return 0
