"""Three Python clients with plain settings are explored. Without a hint, this finds the flows of docs/reference/behaviours.md.

No flag names a fault or an API. The applications run in this process, so a run takes a tenth of a second. Faults that make a
connection silent are left out, because a client would wait for its own timeout.

No run finds B4, because B4 needs more than five batches in flight. No idempotent client allows this. B9 and B12 are in
test_explore.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from wirebroker.trace.rows import ProduceRow
from wirebroker_tools.campaign.application import Application, Run, Watch
from wirebroker_tools.campaign.exploration import Exploration
from wirebroker_tools.campaign.misfortunes import is_slow
from wirebroker_tools.campaign.workers import workers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # clients that stopped because of a fault
]

RECORDS = 3
Way = Literal["exactly once", "at least once", "at most once"]
ACKS: dict[Way, Any] = {"exactly once": "all", "at least once": 1, "at most once": 0}


@dataclass(frozen=True, slots=True)
class InProcess(Application):
    """An application that is a function in the test's own process."""

    function: Callable[[str], None] = print

    def _watched(self, kafka: Any, watch: Watch) -> Run:
        began, code = time.monotonic(), 0
        try:
            self.function(kafka.bootstrap_servers)
        except Exception:
            code = 1
        seconds = time.monotonic() - began
        with suppress(TimeoutError):  # waits for records that were sent with acks=0
            kafka.wait_until(lambda: not kafka.connection_count(), 1)
        return Run(code, seconds, rows=list(watch.rows), requests=watch.requests)


def kafka_python(servers: str, way: Way) -> None:
    producer = KafkaProducer(
        bootstrap_servers=servers, acks=ACKS[way], enable_idempotence=way == "exactly once", linger_ms=0, batch_size=1
    )
    try:
        for sent in [producer.send("orders", key=b"key", value=b"%d" % each) for each in range(RECORDS)]:
            sent.get(5)
    finally:
        producer.close(5)


def aiokafka(servers: str, way: Way) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=servers, acks=ACKS[way], enable_idempotence=way == "exactly once")
        await producer.start()
        try:
            for each in range(RECORDS):
                await producer.send_and_wait("orders", key=b"key", value=b"%d" % each)
        finally:
            await asyncio.wait_for(producer.stop(), 5)

    asyncio.run(run())


def confluent(servers: str, way: Way) -> None:
    errors: list[Any] = []
    producer = Producer({
        "bootstrap.servers": servers, "enable.idempotence": way == "exactly once", "acks": ACKS[way], "linger.ms": 0,
        "batch.num.messages": 1,
    })  # fmt: skip
    for each in range(RECORDS):
        producer.produce("orders", key=b"key", value=b"%d" % each, on_delivery=lambda error, _: error and errors.append(error))
    if producer.flush(5) or errors:
        raise RuntimeError(str(errors))


CLIENTS = {"kafka-python": kafka_python, "aiokafka": aiokafka, "confluent": confluent}
each_client = pytest.mark.parametrize("client", CLIENTS)


@cache
def explored(client: str, way: Way) -> tuple[Exploration, list[dict[str, Any]]]:
    """Explores a client. Returns the exploration, and the results of all faults whose runs are short."""
    application = InProcess([], {"topics": ["orders"]}, function=lambda servers: CLIENTS[client](servers, way))
    try:
        exploration = Exploration(application)
        exploration.begin()
        with workers(jobs=4) as players:
            quick = [case for case in exploration.table if not is_slow(case)]
            return exploration, list(players.executor.map(exploration.case, quick))
    finally:
        application.stop()


def results(client: str, way: Way, *faults: str) -> list[dict[str, Any]]:
    """Returns the results of faults at Produce requests. With `faults`, returns only the results of faults that have these
    kinds or error codes."""
    return [
        each for each in explored(client, way)[1] if each["api"] == "Produce" and each["fired"]
        and (not faults or {each["fault"]["kind"], (each.get("second") or each["fault"]).get("code")} & {*faults})
    ]  # fmt: skip


def outcomes(found: Iterable[dict[str, Any]]) -> set[str]:
    return {name for each in found for name in each["outcomes"]}


@each_client
def test_b1_without_a_fault_all_are_accepted(client: str) -> None:
    rows = [row for row in explored(client, "exactly once")[0].plain.rows if isinstance(row, ProduceRow)]
    assert [row.verdict for row in rows] == ["accepted"] * RECORDS


@each_client
def test_b2_b5_a_retry_is_recognised(client: str) -> None:
    late = results(client, "exactly once", "lose_ack", "cut", "crash_after_write")
    assert len(late) == 3 * RECORDS
    assert [(each["outcomes"], each["verdicts"].get("duplicate")) for each in late] == [(["as_before"], 1)] * len(late)
    assert outcomes(results(client, "exactly once", "lose_request")) == {"as_before"}


@each_client
def test_b3_b10_batches_behind_a_refused_one_are_out_of_order(client: str) -> None:
    refused = [each for each in results(client, "exactly once", "NOT_LEADER_OR_FOLLOWER") if each["nth"] == 2]
    assert outcomes(refused) == {"as_before"}
    in_flight = any("rejected" in each["verdicts"] for each in refused)
    assert in_flight == (client == "confluent")  # the other clients send no further batch until the refused batch has succeeded
    assert outcomes(results(client, "exactly once", "OUT_OF_ORDER_SEQUENCE_NUMBER")) == {"failed"}


@each_client
def test_b4_b8_exactly_once_is_never_lost_doubled_or_reordered(client: str) -> None:
    assert outcomes(explored(client, "exactly once")[1]) <= {"as_before", "failed", "kafka_defect"}


@each_client
def test_b6_acks_1_loses_what_a_new_leader_lacks(client: str) -> None:
    assert "lost" in outcomes(results(client, "at least once", "truncate"))
    assert not results(client, "exactly once", "truncate")


@each_client
def test_b7_b8_without_idempotence_a_retry_is_stored_again(client: str) -> None:
    again = results(client, "at least once", "lose_ack", "crash_after_write")
    assert all("doubled" in each["outcomes"] for each in again if each["fault"]["kind"] == "lose_ack")
    assert "doubled" in outcomes(again)
    assert "lost" in outcomes(results(client, "at most once"))


@each_client
def test_b11_without_idempotence_a_retry_reorders(client: str) -> None:
    reordered = "reordered" in outcomes(results(client, "at least once", "NOT_LEADER_OR_FOLLOWER"))
    assert reordered == (client != "aiokafka")  # aiokafka has only one batch per partition in flight
