"""Record how three brokers of Kafka 4.3.1 move replicas while brokers are down, into tests/data/reassignments-4.3.1.json.

    scripts/record reassignments

The steps are in tests/reassignment_steps.py. Takes some three minutes; needs `java` and `mvn`.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack

from rich.progress import track

from ecosystem.kafka.server import KafkaServer
from ecosystem.recording.common import DATA, parser_of
from reassignment_steps import play, steps
from wirebroker.client.wire import WireClient

TABLE = DATA / "reassignments-4.3.1.json"
NODES = (1, 2, 3)
CAUGHT_UP_WITHIN = 2.0
STARTED_WITHIN = 4.0
"""Seconds after which a follower of an empty log is in sync. Kafka does not report when this happens."""


class Kafkas:
    """Three brokers. The first broker is the controller."""

    def __init__(self, stack: ExitStack) -> None:
        first = KafkaServer(_settings(1))
        self._servers = {node: first if node == 1 else KafkaServer(_settings(node), joins=first) for node in NODES}
        for server in self._servers.values():
            stack.enter_context(server)
        time.sleep(STARTED_WITHIN)
        self.wire = WireClient(*self._servers[1].address)

    def stop(self, node: int) -> None:
        self._servers[node].stop()

    def start(self, node: int) -> None:
        self._servers[node].start()
        time.sleep(STARTED_WITHIN)

    def settle(self) -> None:
        time.sleep(CAUGHT_UP_WITHIN)


def _settings(node: int) -> dict[str, str]:
    return {"node.id": str(node), "auto.leader.rebalance.enable": "false"}


def main(arguments: list[str]) -> int:
    parser_of("reassignments", __doc__).parse_args(arguments)
    with ExitStack() as stack:
        told = [{"step": step, "observed": seen} for step, seen in track(play(Kafkas(stack)), "recording", total=len(steps()))]
    lines = ",\n".join(json.dumps(each) for each in told)
    TABLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(told)} steps in {TABLE.name}")
    return 0
