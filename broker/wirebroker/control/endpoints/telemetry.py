"""The metrics that clients have pushed (KIP-714)."""

from __future__ import annotations

from typing import Annotated

from wirebroker.control.controlled import Controlled
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.testing.metric_points import MetricPoint, points


class WhichMetrics(Form):
    """The metrics to list."""

    client_id: Annotated[str | None, about("only metrics of this client")] = None
    metric: Annotated[str | None, about("only this metric", examples=["org.apache.kafka.producer.record.send.total"])] = None


class Metrics(Form):
    """Metrics of clients, oldest first."""

    points: list[MetricPoint]


def listed(controlled: Controlled, query: WhichMetrics) -> Metrics:
    """Returns the metrics that clients have pushed, oldest first."""
    try:
        return Metrics(points(controlled.pushes, query.client_id, query.metric))
    except RuntimeError as missing:
        raise Problem(501, str(missing)) from None
