"""Endpoints for a client that runs several tests at the same broker: one begins a test, and one reports a failed test."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.endpoints import records
from wirebroker.control.forms import Form, about
from wirebroker.testing import failure_report, states
from wirebroker.testing.operations import Fate, provide
from wirebroker.testing.topic_specs import topic_specs
from wirebroker.trace.rows import TestRow


class NewTest(Form):
    """A test that begins."""

    name: Annotated[str, about("the test's name, for the trace", examples=["OrdersTest.retries"])]
    topics: Annotated[
        list[str], about("topics to create if they do not exist, written as for --topic", examples=[["orders:3", "invoices"]])
    ] = []


class Mark(Form):
    """The place in the trace at which a test begins."""

    name: str
    run: Annotated[str, about("the run that begins with the test, as in the first event of /events")]
    row: Annotated[int, about("the number of the row that marks the test; 0 if nothing is traced")]


class Judged(Form):
    """A record, and whether read_committed consumers get it."""

    record: records.Record
    fate: Annotated[Fate, about("held back: committed, but an earlier transaction is still open")]


class Section(Form):
    """A part of the report as text."""

    title: str
    text: str


class Report(Form):
    """The events since the test began: the latest 20 of each kind."""

    test: Annotated[str, about('the name of the test in POST /tests; "" without a test')]
    run: Annotated[str, about("the run, as in the first event of /events")]
    text: Annotated[str, about("the report as text")]
    sections: Annotated[list[Section], about("the parts of the text, without empty parts")]
    verdicts: Annotated[list[dict[str, Any]], about("the latest rows, as in /trace.jsonl")]
    records: Annotated[list[Judged], about("the latest records of all topics, except internal ones")]
    groups: list[states.Group]
    transactions: list[states.Transaction]
    faults: Annotated[str, about("the loaded rules as a fault file")]
    findings: Annotated[list[dict[str, Any]], about("what `wirebroker explain` finds in the rows")]


def begin_test(controlled: ControlledBroker, body: NewTest) -> Mark:
    """Begin a test: reset the broker softly, so that clients continue, mark the test in the trace, and create its topics.

    If an earlier test has left a topic with too few partitions, the missing partitions are added.
    """
    topics = topic_specs(body.topics)
    controlled.host.begin_test(body.name)
    provide(controlled.engine, topics)
    controlled.changed()
    return Mark(body.name, controlled.run, controlled.newest)


async def report(controlled: ControlledBroker) -> Report:
    """Returns what pytest shows when a test fails: verdicts, records, groups, transactions, faults and findings since the last
    reset or the beginning of the test.

    The response is text, unless the client accepts application/json.
    """
    engine = controlled.engine
    rows = engine.trace.events()
    # The search takes time. It runs in a thread, so the broker continues to serve its clients.
    made = failure_report.Report(engine, rows, await asyncio.to_thread(failure_report.findings_in, rows, engine.now))
    tests = [row.name for row in rows if isinstance(row, TestRow)]
    sections = [Section(title, text) for title, text in made.sections().items()]
    return Report(
        tests[-1] if tests else "", controlled.run,
        "".join(f"--- {each.title} ---\n{each.text.rstrip()}\n" for each in sections), sections,
        [{"event": row.event} | msgspec.to_builtins(row) for row in made.rows],
        [Judged(records.shown(record), fate) for record, fate in made.records],
        list(states.groups(engine).values()), list(states.transactions(engine).values()),
        made.faults, [each.as_json() for each in made.findings],
    )  # fmt: skip


def as_text(report: Report) -> str:
    """Returns the report as text."""
    return report.text
