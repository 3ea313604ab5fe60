"""MockKafka can do everything that the HTTP control can do. Every endpoint has a method with the same parameters.

The endpoint and the method of a deed come from one declaration. The endpoints that are not deeds are compared here.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, get_type_hints

import pytest

from wirebroker import MockKafka
from wirebroker.control.deeds import deed_endpoints
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.forms import Form
from wirebroker.control.table import endpoints_of
from wirebroker.faults.rules import Rule
from wirebroker.mock import ClockControl, Faults, Quotas, TelemetryView, TraceView
from wirebroker.testing import states

METHODS: dict[str, Callable[..., Any]] = {
    "GET /health": MockKafka.connection_count,
    "GET /metrics": MockKafka.connection_count,
    "GET /faults": Faults.rules.fget,  # type: ignore[attr-defined]
    "POST /faults": Faults.add,
    "DELETE /faults": Faults.clear,
    "GET /faults/file": Faults.as_toml,
    "POST /faults/file": Faults.load,
    "GET /faults/assert-fired": Faults.assert_fired,
    "GET /faults/{fault}": Faults.rules.fget,  # type: ignore[attr-defined]
    "DELETE /faults/{fault}": Faults.remove,
    "GET /faults/{fault}/assert-fired": Rule.assert_fired,
    "GET /faults/{fault}/wait": Rule.wait_fired,
    "GET /topics": MockKafka.topics,
    "GET /topics/{topic}": MockKafka.topics,
    "GET /topics/{topic}/records": MockKafka.records,
    "POST /topics/{topic}/records": MockKafka.produce,
    "GET /topics/{topic}/records/wait": MockKafka.wait_for_records,
    "POST /topics/{topic}/records/assert": MockKafka.assert_records,
    "GET /topics/{topic}/producers": MockKafka.producers,
    "GET /verdicts": TraceView.produce,
    "GET /verdicts/wait": MockKafka.wait_until,
    "GET /verdicts.jsonl": TraceView.produce,
    "GET /trace.jsonl": TraceView.where,
    "GET /events": TraceView.events,
    "GET /exchanges/{number}": TraceView.events,
    "POST /export/capture": TraceView.events,
    "POST /export/scenario": TraceView.events,
    "GET /explain": TraceView.explain,
    "GET /filter": TraceView.where,
    "GET /trace/level": TraceView.level.fget,  # type: ignore[attr-defined]
    "POST /trace/level": TraceView.level.fset,  # type: ignore[attr-defined]
    "GET /producers": MockKafka.producers,
    "POST /audit": MockKafka.audit,
    "POST /tests": MockKafka.begin_test,
    "GET /report": MockKafka.report,
    "GET /transactions": MockKafka.transactions,
    "GET /transactions/{transactional_id}": MockKafka.transactions,
    "GET /groups": MockKafka.groups,
    "GET /groups/{group_id}": MockKafka.groups,
    "POST /groups/{group_id}/wait": MockKafka.wait_for_group,
    "GET /quiet/wait": MockKafka.wait_until_quiet,
    "GET /pictures/{kind}": TraceView.picture,
    "GET /pictures/{kind}/marks": TraceView.picture,
    "GET /telemetry": TelemetryView.points,
    "GET /quotas": Quotas.all,
    "GET /acls": MockKafka.acls,
    "GET /brokers": MockKafka.brokers,
    "POST /upgrade": MockKafka.upgrade,
    "GET /leaders": MockKafka.partition,
    "GET /clock": ClockControl.now,
    "POST /clock/advance": ClockControl.advance,
    "POST /reset": MockKafka.reset,
    "POST /snapshots": MockKafka.snapshot,
    "POST /snapshots/{snapshot}/restore": MockKafka.restore,
    "DELETE /snapshots/{snapshot}": MockKafka.snapshot,  # in Python, a snapshot is deleted with the last reference to it
}
"""For each endpoint: the method of MockKafka that does the same."""
ONLY_HTTP = {
    "limit",
    "offset",
    "run",
    "after",
    "from_partition",
    "follow",
    "records",
    "exchanges",
    "rows",
    "first",
    "last",
    "latest",
}
"""Parameters for paging, streaming and lists. Methods in Python do not need them."""
CHOSEN_IN_PYTHON = {"GET /verdicts", "GET /verdicts/wait", "GET /verdicts.jsonl", "GET /leaders"}
"""Endpoints whose parameters choose rows. Python code chooses rows with a comprehension or a condition."""


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.shown_path}"


DEEDS = {name(endpoint) for endpoint in deed_endpoints()}
COMPARED = [each for each in endpoints_of("broker") if name(each) not in DEEDS]


def test_every_endpoint_has_a_method() -> None:
    assert set(METHODS) == set(map(name, COMPARED))


@pytest.mark.parametrize("endpoint", [each for each in COMPARED if name(each) not in CHOSEN_IN_PYTHON], ids=name)
def test_the_method_takes_the_words_of_the_endpoint(endpoint: Endpoint) -> None:
    words = set()
    for part in ("query", "body"):
        form = endpoint.hints.get(part)
        if isinstance(form, type) and issubclass(form, Form):
            words |= set(form.__struct_fields__)
    if name(endpoint) == "POST /topics/{topic}/records":
        words |= set(get_type_hints(endpoint.hints["body"])["records"].__args__[0].__struct_fields__)
    assert words - ONLY_HTTP <= set(signature(METHODS[name(endpoint)]).parameters)


@pytest.mark.parametrize("kind", [states.TopicState, states.Broker, states.Transaction, states.Group])
def test_python_returns_the_objects_that_http_writes(kind: type[states.StateView]) -> None:
    path = {"TopicState": "topics", "Broker": "brokers", "Transaction": "transactions", "Group": "groups"}[kind.__name__]
    assert kind in get_type_hints(METHODS[f"GET /{path}"])["return"].__args__
    response = next(each for each in endpoints_of("broker") if name(each) == f"GET /{path}").hints["return"]
    assert get_type_hints(response)[path].__args__ == (kind,)
