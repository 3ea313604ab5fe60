"""Pipelines with known faults on a real Kafka: a faulty application, and the pipelines of tests/audit_spark/pipelines.py."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from actors import TransactionalProducer
from audit_spark.pipelines import CLEAN, PLANTED, Shop
from ecosystem.pipelines.faulty import FAULTS, Application, Expected
from responses import parts

RETRIABLE = {14, 15, 16, 51}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS."""
KINDS = ("input_unprocessed", "commit_beyond_output", "processed_twice", "output_without_input", "output_disorder",
         "commit_jump")  # fmt: skip

CONSEQUENCES = ("application_duplicate", "epoch_duplicate", "commit_regression")
"""The faults may also cause findings of these kinds: outputs have equal contents, or a group commits an earlier offset."""


class RealKafka:
    """Has the methods of a MockKafka that a `Shop` uses, but works on a real Kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap_servers = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})

    def create_topic(self, name: str, partitions: int = 1) -> None:
        for made in self.admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(30)

    def produce(self, topic: str, *, key: str, value: str, headers: dict[str, str]) -> int:
        stored: list[int] = []
        self.producer.produce(topic, value, key, headers=headers, on_delivery=lambda _, each: stored.append(each.offset()))
        self.producer.flush(30)
        return stored[0]


class PatientProducer(TransactionalProducer):
    """Sends a request again while the coordinator is not ready."""

    def ask(self, request: Any, version: int) -> Any:
        while True:
            response = super().ask(request, version)
            if not RETRIABLE.intersection(_codes(response)):
                return response
            time.sleep(0.02)


def _codes(response: Any) -> Iterator[int]:
    for each in (response, *parts(response)):
        yield from (getattr(each, name) for name in ("error_code", "partition_error_code") if hasattr(each, name))


class Planted:
    """The pipelines in one cluster, and the records that the audit must report."""

    def __init__(self) -> None:
        self.policies: dict[str, dict[str, Any]] = {}
        self.expected: dict[str, set[Expected]] = {}

    def plant(self, bootstrap: str, say: Callable[[str], None]) -> None:
        for name, play in FAULTS.items():
            settings = {"max.message.bytes": "100000"} if name == "ignores_a_failed_delivery" else {}
            application = Application(bootstrap, name, **settings)
            self.expected[name] = set(play(application))
            application.restart()
            self.policies[name] = application.policy
            say(f"{name}: {len(self.expected[name])} records in doubt")
        kafka = RealKafka(bootstrap)
        for name, plant in (PLANTED | CLEAN).items():
            shop = Shop(kafka, name)  # type: ignore[arg-type]
            shop._producer = PatientProducer(kafka, name)
            planted = plant(shop) or []
            self.expected[name] = {
                Expected(each.kind, f"{name}.{each.side}", 0, offset, each.severity)
                for each in planted for offset in range(each.first, each.last + 1)
            }  # fmt: skip
            self.policies[name] = shop.policy
            say(f"{name}: {len(self.expected[name])} records in doubt")

    def toml(self) -> str:
        return "\n".join(
            f"[pipelines.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in policy.items())
            for name, policy in self.policies.items()
        )

    def differences(self, findings: list[dict[str, Any]]) -> list[str]:
        """Returns the expected records that no finding reports, and the false findings."""
        found: dict[str, set[Expected]] = {name: set() for name in self.expected}
        others: list[str] = []
        for each in findings:
            of = each["topic"].rpartition(".")[0]
            if of in found and each["kind"] in KINDS:
                places = range(each["first_offset"], each["last_offset"] + 1)
                found[of] |= {
                    Expected(each["kind"], each["topic"], each["partition"], place, each["severity"]) for place in places
                }
            elif each["kind"] not in CONSEQUENCES or not self.expected.get(of):
                others.append(f"false: {each['severity']} {each['kind']}: {each['topic']}: {each['explanation']}")
        wrong = [line for name, those in self.expected.items() for line in _lines("not found", those - found[name])]
        wrong += [line for name, those in found.items() for line in _lines("false", those - self.expected[name])]
        return wrong + others


def _lines(what: str, records: set[Expected]) -> list[str]:
    """Returns a line for each kind and partition."""
    rows: dict[tuple[str, str, int, str], list[int]] = {}
    for each in sorted(records):
        rows.setdefault((each.kind, each.topic, each.partition, each.severity), []).append(each.offset)
    return [f"{what}: {severity} {kind}: {topic}-{partition}: offsets {offsets[0]} to {offsets[-1]}, {len(offsets)} records"
            for (kind, topic, partition, severity), offsets in rows.items()]  # fmt: skip
