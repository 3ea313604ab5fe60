"""Decodes the metrics that clients push: reads the data points of an OTLP MetricsData. Needs the extra `telemetry`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kafkawire.extras import how_to_install
from kafkawire.primitives import format_uuid
from wirebroker.core.telemetry import Push

__tracebackhide__ = True  # pytest shows the caller's line


class MetricPoint(msgspec.Struct, frozen=True):
    """One value of a metric that a client has pushed."""

    time: int
    """the time of the push, in ms since the epoch"""
    node: int
    client_id: str | None
    client_instance_id: str
    name: str
    kind: str
    """`gauge`, `sum`, `histogram` or another OTLP type"""
    value: float
    """for a histogram, the sum of its values"""
    attributes: dict[str, str]


def points(pushes: Iterable[Push], client_id: str | None = None, metric: str | None = None) -> list[MetricPoint]:
    """Returns the values in these pushes, in order. With `client_id` or `metric`, returns only the values of this client or
    metric.

    Raises RuntimeError if the extra `telemetry` is not installed, and ValueError if a push cannot be decoded.
    """
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError:
        raise RuntimeError(f"another package is needed to read metrics of clients; {how_to_install('telemetry')}") from None
    found: list[MetricPoint] = []
    for push in (each for each in pushes if client_id in (None, each.client_id)):
        try:
            data = MetricsData.FromString(push.metrics)
        except DecodeError:
            raise ValueError(f"the client {push.client_id} pushed bytes that are not an OTLP MetricsData") from None
        for resource in data.resource_metrics:
            shared = _attributes(resource.resource.attributes)
            for scope in resource.scope_metrics:
                for each in scope.metrics:
                    if metric in (None, each.name):
                        found += _of(each, shared, push)
    return found


def _of(metric: Any, shared: dict[str, str], push: Push) -> Iterator[MetricPoint]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    for point in getattr(metric, kind).data_points:
        held = getattr(point, point.WhichOneof("value")) if kind in ("gauge", "sum") and point.WhichOneof("value") else None
        value = getattr(point, "sum", 0.0) if held is None else held
        instance = format_uuid(push.client_instance_id)
        attributes = shared | _attributes(point.attributes)
        yield MetricPoint(push.time, push.node, push.client_id, instance, metric.name, kind, float(value), attributes)


def _attributes(pairs: Any) -> dict[str, str]:
    return {pair.key: str(getattr(pair.value, pair.value.WhichOneof("value") or "string_value")) for pair in pairs}
