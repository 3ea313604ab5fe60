"""The steps of scenarios about client quotas. Each client has its own connection, because a throttled connection is muted."""

from __future__ import annotations

from typing import Any

from kafkawire.declare import from_plain
from kafkawire.registry import KEYS, request_class
from wirebroker.client.wire import Connection
from wirebroker_tools.conformance.batches import record_data
from wirebroker_tools.conformance.readiness import until
from wirebroker_tools.conformance.recording import Json
from wirebroker_tools.conformance.run import Run
from wirebroker_tools.conformance.steps import shown

NOT_MUTED = 0.5
"""If a response comes within this many seconds, the connection is not muted."""


def _alter(run: Run, step: Json) -> Json:
    """Change quotas. A name that begins with `=` is literal; any other name gets this run's prefix."""
    entries = []
    for entity, limits in step["entries"]:
        named = [{"entity_type": kind, "entity_name": _real(run, name)} for kind, name in entity.items()]
        ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in limits]
        entries.append({"entity": named, "ops": ops})
    response = run.ask("AlterClientQuotas", step, 1, entries=entries, validate_only=step.get("validate_only", False))
    results = [
        {"entity": _entity(run, each.entity), "error": shown(each.error_code), "message": each.error_message}
        for each in response.entries
    ]
    if not step.get("validate_only"):
        _wait(run, step, {str(each["entity"]) for each in results if each["error"] == shown(0)})
    return {"results": sorted(results, key=str)}


def _wait(run: Run, step: Json, altered: set[str]) -> None:
    """Wait until the addressed broker shows the change.

    In Kafka the controller makes the change, and the broker learns of the change later.
    """
    for entity, limits in step["entries"]:
        wanted = {key: value for key, value in limits if value is not None}
        components = [
            {"entity_type": kind, "match_type": 0 if name is not None else 1, "match": _real(run, name)}
            for kind, name in entity.items()
        ]

        def known(components: list[Json] = components, wanted: dict[str, float] = wanted, limits: Any = limits) -> bool:
            response = run.ask("DescribeClientQuotas", {}, 1, components=components, strict=True)
            held = {value.key: value.value for each in response.entries or () for value in each.values}
            return wanted.items() <= held.items() and not any(value is None and key in held for key, value in limits)

        if str(_shown_entity(entity)) in altered and len({key for key, _ in limits}) == len(limits):
            until(known)


def _real(run: Run, name: str | None) -> str | None:
    if name is None or not name:
        return name
    return name[1:] if name.startswith("=") else run.name(name)


def _shown_entity(entity: Json) -> Json:
    return dict(sorted(entity.items()))


def _entity(run: Run, named: Any) -> Json:
    own = run.name("x")[:-1]
    return _shown_entity({each.entity_type: _symbol(each.entity_name, own) for each in named})


def _symbol(name: str | None, own: str) -> str | None:
    if not name:
        return name
    return name.removeprefix(own) if name.startswith(own) else f"={name}"


def _describe(run: Run, step: Json) -> Json:
    """Describe the quotas, and leave out quotas that earlier runs set."""
    components = [{"entity_type": kind, "match_type": how, "match": _real(run, name)} for kind, how, name in step["components"]]
    response = run.ask("DescribeClientQuotas", step, 1, components=components, strict=step.get("strict", False))
    if response.entries is None:
        return {"error": shown(response.error_code), "message": response.error_message, "entries": None}
    entries = [
        {"entity": _entity(run, each.entity), "values": [[value.key, value.value] for value in each.values]}
        for each in response.entries
        if not any(run.is_of_another(one.entity_name or "") for one in each.entity)
    ]
    return {"error": shown(response.error_code), "entries": sorted(entries, key=str)}


def _of(run: Run, step: Json) -> Connection:
    return Connection(run.broker.address, client_id=run.name(step["client"]))


def _produce(run: Run, step: Json) -> Json:
    """Send a Produce. For a client's first Produce, the throttle time depends only on the size of the Produce."""
    entry = {"pid": -1, "epoch": -1, "seq": -1, "n": step["n"]}
    records = record_data(entry, 1_000)
    data = {"name": run.topic(step), "partition_data": [{"index": 0, "records": records}]}
    fields = {"transactional_id": None, "acks": step.get("acks", -1), "timeout_ms": 5000, "topic_data": [data]}
    return _throttled(run, step, "Produce", 9, fields)


def _fetch(run: Run, step: Json) -> Json:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": run.topic(step), "partitions": [partition]}]
    fields = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 24, "session_epoch": -1, "topics": topics}
    return _throttled(run, step, "Fetch", 11, fields)


def _ask(run: Run, step: Json) -> Json:
    return _throttled(run, step, step["api"], step["v"], step.get("fields", {}))


def _throttled(run: Run, step: Json, api: str, version: int, fields: Json) -> Json:
    connection = _of(run, step)
    request = from_plain(request_class(KEYS[api]), fields)
    if fields.get("acks") == 0:
        connection.send(request, run.version(api, step, version), awaits_response=False)
        connection.send(from_plain(request_class(KEYS["ApiVersions"]), {}), 0)
        connection.response(NOT_MUTED)
        return {"answered": True}
    response = connection.request(request, run.version(api, step, version))
    connection.close()
    observed: Json = {"throttle_time_ms": response.throttle_time_ms}
    return observed | ({"topics": len(response.responses)} if api == "Fetch" else {})


def _create(run: Run, step: Json) -> Json:
    """Create, grow or delete a topic. The throttle time depends on the time between two requests."""
    name, version, timeout = run.topic(step), run.version(step["api"], step, step["v"]), {"timeout_ms": 10_000}
    if step["api"] == "CreateTopics":
        topic: Json = {"name": name, "num_partitions": step["partitions"], "replication_factor": 1}
        fields = {"topics": [topic], "validate_only": step.get("validate_only", False)}
    elif step["api"] == "CreatePartitions":
        fields = {"topics": [{"name": name, "count": step["partitions"], "assignments": None}]}
    else:
        fields = {"topics": [{"name": name}]} if version >= 6 else {"topic_names": [name]}
    request = from_plain(request_class(KEYS[step["api"]]), fields | timeout)
    response = _of(run, step).request(request, version)
    result = next(
        iter(getattr(response, {"CreateTopics": "topics", "CreatePartitions": "results"}.get(step["api"], "responses")))
    )
    return {"error": shown(result.error_code), "throttled": response.throttle_time_ms > 0}


QUOTA_OPERATIONS = {
    "alter_quotas": _alter, "describe_quotas": _describe, "quota_produce": _produce, "quota_fetch": _fetch,
    "quota_ask": _ask, "quota_change": _create,
}  # fmt: skip
