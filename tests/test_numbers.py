"""Numbers out of range: for each number in a request that is changed, wirebroker responds like a real Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from acl_requests import USERS, authenticate
from inprocess import InProcess, Link
from kafkawire.registry import KEYS, request_class
from number_requests import SETTINGS, SIZES, play, recorded, versions
from wirebroker.apis import SERVED, TELEMETRY
from wirebroker.security.protocols import SecurityProtocol

BASE = "4.3"


class Own:
    """A wirebroker to which the test sends requests."""

    def __init__(self, of_release: str) -> None:
        self._broker = InProcess(profile=f"kafka-{of_release}", configs=SETTINGS, users=USERS, telemetry=True)
        self._broker.engine.cluster.brokers[1].addresses["PLAINTEXT"] = ("127.0.0.1", 9092)

    def connect(self, *, secured: bool = False) -> Link:
        link = self._broker.link()
        if secured:
            protocol, now = SecurityProtocol.SASL_PLAINTEXT, self._broker.clock.now()
            link.connection = self._broker.engine.connect(1, now=now, protocol=protocol, listener=protocol.name)
            authenticate(link, "admin")
        return link

    def pause(self, seconds: float) -> None:
        self._broker.clock.advance(seconds=seconds)


@pytest.mark.parametrize("of_release", [BASE, "4.4"])
def test_each_number_out_of_range_gets_the_response_of_kafka(of_release: str) -> None:
    theirs = recorded(of_release)
    steps = play(Own(of_release), of_release, dict.fromkeys(case for case, *_ in theirs))
    ours = {step[:-1]: json.loads(json.dumps(step.response)) for step in steps}
    assert ours.keys() == theirs.keys()
    different = {step: (theirs[step], ours[step]) for step in theirs if theirs[step] != ours[step] and not incomparable(*step)}
    assert different == {}


def incomparable(case: str, version: int, field: str, value: str) -> bool:
    """Returns true if the response describes the metadata log, or if Kafka looks for an unknown partition for half a minute."""
    state = (case, field) == ("DescribeShareGroupOffsets", "groups.topics.partitions") and int(value) > 1
    return state or (case, value) == ("DescribeQuorum", "0")


def test_each_number_of_each_request_was_changed() -> None:
    changed = {(case.split()[0], field) for case, _, field, _ in recorded(BASE)}
    newest = {api: versions(api, BASE)[-1] for api in (*SERVED, *TELEMETRY)}
    numbers = {(api, path) for api in newest for path in _numbers(request_class(KEYS[api]), newest[api])}
    assert numbers - changed == set()


def _numbers(cls: Any, version: int, path: str = "") -> Iterator[str]:
    for field in cls.__wire__:
        spec = field.spec[0] if isinstance(field.spec, list) else field.spec
        if not field.present(version):
            continue
        if isinstance(spec, type):
            yield from _numbers(spec, version, f"{path}{field.name}.")
        elif spec in SIZES or spec == "float64":
            yield f"{path}{field.name}"
