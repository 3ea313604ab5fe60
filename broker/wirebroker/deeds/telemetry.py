"""The metrics that clients push (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable

from wirebroker.core.config_resources import Alteration, Change, Operation, ResourceType
from wirebroker.deeds.declaring import Deeds, deed

__tracebackhide__ = True  # pytest shows the caller's line


class TelemetryDeeds(Deeds):
    """The deeds that concern the metrics of clients."""

    @deed()
    def subscribe(
        self, metrics: Iterable[str] = ("*",), *, interval_ms: int = 1000, match: Iterable[str] = (), name: str = "wirebroker"
    ) -> None:
        """Subscribe to metrics of clients. The names in `metrics` are prefixes, and `"*"` stands for all metrics. Clients push
        these metrics every `interval_ms` (100 to 3,600,000).

        `match` selects clients, for example `client_id=app.*`. Raises RuntimeError without `telemetry=True`, and ValueError if
        Kafka would refuse the subscription.
        """
        engine = self._engine
        if not engine.telemetry.announced:
            raise RuntimeError(
                "this broker does not ask clients for metrics; start it with MockKafka(telemetry=True) or serve --telemetry"
            )
        wanted = {"metrics": ",".join(metrics), "interval.ms": str(interval_ms), "match": ",".join(match)}
        changes = [Change(key, Operation.SET, value) for key, value in wanted.items() if value]
        node = min(engine.cluster.brokers)
        made = Alteration(engine.cluster, node, ResourceType.CLIENT_METRICS, name, changes, replaces=True)
        if (refusal := made.alter(validate_only=False)) is not None:
            raise ValueError(refusal.message)
        self._write_down()
