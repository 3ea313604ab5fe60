"""Each deed is a method of MockKafka, and a method that faults can call. If a deed has a path, it is also an endpoint of the
control.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import getdoc, signature
from typing import Any

import pytest

from controlkit import ControlClient
from wirebroker import MockKafka
from wirebroker.control.deeds import HOLDERS, deed_endpoints
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.fields import fields_of
from wirebroker.control.forms import Form, required
from wirebroker.control.table import endpoints_of
from wirebroker.deeds.broker import EngineBroker
from wirebroker.deeds.declaring import deed, deeds_in
from wirebroker.deeds.telemetry import TelemetryDeeds
from wirebroker.mock import Quotas, TelemetryView

DEEDS = [each for holder in (*HOLDERS, TelemetryDeeds) for each in deeds_in(holder)]
ENDPOINTS = list(deed_endpoints())
WITH_REQUIRED_FIELDS = [
    each for each in endpoints_of("broker") if issubclass(form := each.hints.get("body", str), Form) and required(form)
]
UNKNOWN: dict[str, tuple[str, str]] = {
    "topic": ("oders", "there is no topic 'oders'; did you mean 'orders'?"),
    "node_id": ("9", "there is no broker 9; there are 1, 2"),
    "transactional_id": ("till", "there is no transactional id 'till'"),
}
"""Parts of a path that name an object. For each part: a name that no object has, and the message about this name."""
NEEDED: dict[str, Any] = {"acl": "allow User:alice READ TOPIC orders", "name": "new", "to": 1, "node_id": 1, "offset": 0}
"""Values for fields that some endpoints require."""


@pytest.mark.parametrize("declared", DEEDS, ids=lambda each: each.function.__qualname__)
def test_a_deed_is_a_documented_method_of_mockkafka_and_of_the_broker_that_faults_get(declared: deed) -> None:
    name = declared.function.__name__
    (python,) = [each for each in (MockKafka, Quotas, TelemetryView) if hasattr(each, name)]
    assert getattr(python, name).deed is declared
    assert (getdoc(getattr(python, name)) or "").strip()
    assert signature(getattr(python, name)) == signature(declared.function)
    assert python is not MockKafka or getattr(EngineBroker, name).deed is declared


@pytest.fixture
def control(mock_kafka_factory: Callable[..., MockKafka]) -> ControlClient:
    return ControlClient(mock_kafka_factory(brokers=2, topics={"orders": 1}, control=True).control_url)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.shown_path}")
def test_an_endpoint_of_a_deed_says_which_object_does_not_exist(endpoint: Endpoint, control: ControlClient) -> None:
    form = endpoint.hints.get("body")
    body = {name: NEEDED[name] for name in required(form)} if form is not None else None
    known = {"topic": "orders", "partition": "0", "node_id": "1", "transactional_id": "till", "producer_id": "7"}
    assert set(endpoint.parts) <= {*UNKNOWN, "partition", "producer_id"}, "UNKNOWN needs a name that no object has"
    for part in [each for each in endpoint.parts if each in UNKNOWN]:
        name, sentence = UNKNOWN[part]
        problem = control.refused(endpoint.method, endpoint.shown_path.format(**known | {part: name}), body)
        assert (problem["status"], problem["field"], problem["detail"]) == (404, part, sentence)
    for part in {"to", "node_id"} & set(body or ()):
        problem = control.refused(endpoint.method, endpoint.shown_path.format(**known), {part: 9})
        assert (problem["status"], problem["detail"]) == (404, UNKNOWN["node_id"][1])


@pytest.mark.parametrize("endpoint", WITH_REQUIRED_FIELDS, ids=lambda each: f"{each.method} {each.shown_path}")
def test_an_endpoint_says_which_field_is_missing(endpoint: Endpoint, control: ControlClient) -> None:
    parts = dict.fromkeys(endpoint.parts, "0") | {"topic": "orders", "node_id": "1"}
    problem = control.refused(endpoint.method, endpoint.shown_path.format(**parts), {})
    missing = problem["field"]
    assert problem["status"] == 422
    assert missing in required(endpoint.hints["body"])
    assert problem["detail"].startswith(f"{missing} is missing")


def test_the_endpoint_describes_every_field_and_leaves_out_what_is_for_python() -> None:
    for endpoint in ENDPOINTS:
        assert all(": " in each.about for each in fields_of(endpoint)), endpoint.shown_path
        assert not re.search("Returns|Raises", f"{endpoint.summary} {endpoint.description}"), endpoint.shown_path
        assert 404 in endpoint.problems or not endpoint.parts


def test_a_refused_deed_has_the_status_that_it_declares(control: ControlClient) -> None:
    control.ask("POST", "/brokers/2/kill")
    assert control.refused("POST", "/brokers/2/kill")["status"] == 409
    assert control.refused("POST", "/topics/orders/partitions/0/truncate", {"offset": 5})["status"] == 422
    assert control.refused("POST", "/topics", {"name": "orders"})["field"] == "name"
