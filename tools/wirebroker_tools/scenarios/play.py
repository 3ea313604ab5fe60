"""Plays one run of a scenario: starts a broker, loads the faults, runs the workload, and returns the result.

The workload runs in a thread and may take `LIMIT` seconds. If the client needs more time, the outcome is "hangs", and the run
ends although the client still runs.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from wirebroker.audit.report import AuditReport
from wirebroker.mock import MockKafka, StoredRecord
from wirebroker.trace.rows import ProduceRow
from wirebroker_tools.drivers import ClientName, client_version, driver
from wirebroker_tools.scenarios import outcome
from wirebroker_tools.scenarios.journal import Journal, Note
from wirebroker_tools.scenarios.scenario import TOPIC, Part, Scenario
from wirebroker_tools.scenarios.setup import bring_about, broker
from wirebroker_tools.scenarios.watch import Event, Watch
from wirebroker_tools.scenarios.workload import Workload

LIMIT = 8.0
"""A part may take at most this many seconds. The clients' own timeouts are shorter: see ProducerSettings."""
LAST_RECORDS = 2.0
"""After the workload, the broker has this many seconds to receive records that were sent with acks=0."""


@dataclass(slots=True)
class Result:
    """The result of one part with one client."""

    scenario: Scenario
    part: Part
    client: ClientName
    version: str
    outcome: outcome.Outcome
    journal: Journal
    events: list[Event]
    log: list[StoredRecord]
    audit: AuditReport
    """the audit of the stored records against the journal"""
    requests: dict[str, int]
    refusal: str
    """the reason why the client refuses the settings; "" if it accepts them"""
    seconds: float

    @property
    def differences(self) -> list[str]:
        """The differences between the outcome of the run and the outcome of a good client."""
        return self.outcome.differences

    @property
    def met(self) -> bool:
        """True if the client did what a good client does."""
        return not self.differences

    @property
    def rows(self) -> list[ProduceRow]:
        """The trace rows with the verdicts on the run's batches, oldest first."""
        return [event.row for event in self.events if event.row is not None]


def play(scenario: Scenario, part: Part, client: ClientName, *, limit: float = LIMIT) -> Result:
    """Play a part with a client. Raises NotInstalled. Exceptions that the client raises become part of the result."""
    clients = driver(client)
    started = time.monotonic()
    with broker(part) as kafka:
        now = kafka.clock.now()
        watch = Watch(kafka)
        rules = kafka._call(lambda engine: bring_about(part, engine, now))
        workload = Workload(part, clients, kafka, watch, started + limit)
        hung = _run(workload, limit)
        if part.producer.acks == 0:
            _wait_until_disconnected(kafka, time.monotonic() + LAST_RECORDS)
        written = list(dict.fromkeys(each.topic for each in workload.journal.sent)) or [TOPIC]
        log = [record for topic in written for record in kafka.records(topic)]
        counts = outcome.count(workload.journal, log, workload.transactions)
        judged = outcome.judge(counts, hung or workload.hung, bool(workload.refusal), part.expect.of(client))
        unfired = [str(rule) for rule in (*rules, *workload.rules) if not rule.fired]
        judged.differences += workload.differences
        if not workload.refusal:
            judged.differences += [f"the fault {rule} never fired, so this run shows nothing" for rule in unfired]
        audit = kafka.audit(written, intended=workload.journal.intended())
        return Result(
            scenario, part, client, client_version(client), judged, workload.journal, watch.events(), log, audit,
            dict(watch.requests), workload.refusal, time.monotonic() - started,
        )  # fmt: skip


def _wait_until_disconnected(kafka: MockKafka, end: float) -> None:
    """Wait until no client is connected. A client with acks=0 may end before the broker has read all of its requests."""
    while kafka._call(lambda engine: bool(engine.connections)) and time.monotonic() < end:
        time.sleep(0.01)


def _run(workload: Workload, limit: float) -> bool:
    """Run the workload in a thread. Returns True if the workload hangs. An exception from the workload is a bug of
    wirebroker.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            workload.run()
        except BaseException as wrong:
            if not workload.abandoned:
                raised.append(wrong)

    thread = threading.Thread(target=work, name="workload", daemon=True)
    thread.start()
    thread.join(limit + 1)
    if raised:
        raise raised[0]
    if not thread.is_alive():
        return False
    workload.journal.notes.append(Note(workload.doing, f"has not come back after {limit:.0f} s"))
    workload.abandon()
    return True
