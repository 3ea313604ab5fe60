"""The table of the control's endpoints, with a row for each endpoint that is not a deed (`wirebroker.deeds`).

Two things are made from this table and from the deeds: the routes (`app`), and the descriptions of the control (`openapi`,
`page`).

A proxy has the endpoints whose handlers take any `Controlled`.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from wirebroker.control.deeds import deed_endpoints
from wirebroker.control.endpoint import EVENTS, JSON_LINES, PROMETHEUS, TOML, Endpoint
from wirebroker.control.endpoints import (
    acls,
    audit,
    cluster,
    events,
    faults,
    metrics,
    quotas,
    records,
    report,
    running,
    state,
    telemetry,
    topics,
    verdicts,
)
from wirebroker.deeds.declaring import NO_ID, NO_TOPIC
from wirebroker.tools import installed_tools

NO_SNAPSHOT = {404: "there is no snapshot of this id"}
NO_FAULT = {404: "there is no fault of this id"}
BAD_RULE = {422: "the rule can never match, or has an unknown word"}
TOO_FEW = {409: "too few records or verdicts arrived within the timeout", 503: "the broker is stopping"}
TOO_LATE = {409: "the goal was not reached within the timeout", 503: "the broker is stopping"}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/health", running.health),
    Endpoint("GET", "/metrics", metrics.metrics, media=PROMETHEUS),
    # Faults
    Endpoint("GET", "/faults", faults.listed),
    Endpoint("POST", "/faults", faults.add, 201, problems=BAD_RULE),
    Endpoint("DELETE", "/faults", faults.clear),
    Endpoint("GET", "/faults/file", faults.as_file, media=TOML),
    Endpoint("POST", "/faults/file", faults.add_file, 201, takes=TOML, problems=BAD_RULE),
    Endpoint("GET", "/faults/assert-fired", faults.assert_fired, problems={409: "a rule has not fired"}),
    Endpoint("GET", "/faults/{fault:number}", faults.one, problems=NO_FAULT),
    Endpoint("DELETE", "/faults/{fault:number}", faults.remove, problems=NO_FAULT),
    Endpoint("GET", "/faults/{fault:number}/assert-fired", faults.assert_one_fired,
             problems=NO_FAULT | {409: "the rule has not fired, or has not fired as often as expected"}),
    Endpoint("GET", "/faults/{fault:number}/wait", faults.wait, problems=NO_FAULT | TOO_LATE),
    # Topics and records
    Endpoint("GET", "/topics", topics.listed),
    Endpoint("GET", "/topics/{topic}", topics.one, problems=NO_TOPIC),
    Endpoint("GET", "/topics/{topic}/records", records.page, problems=NO_TOPIC),
    Endpoint("POST", "/topics/{topic}/records", records.store, 201, problems=NO_TOPIC),
    Endpoint("GET", "/topics/{topic}/records/wait", records.wait, problems=TOO_FEW),
    Endpoint("POST", "/topics/{topic}/records/assert", records.compare,
             problems={404: "the topic does not exist although no records are expected, or the partition does not exist",
                       409: "the records differ", 503: "the broker is stopping"}),
    Endpoint("GET", "/topics/{topic}/producers", state.producers, problems=NO_TOPIC),
    # Verdicts and the trace
    Endpoint("GET", "/verdicts", verdicts.listed),
    Endpoint("GET", "/verdicts/wait", verdicts.wait, problems=TOO_FEW),
    Endpoint("GET", "/verdicts.jsonl", verdicts.lines, media=JSON_LINES),
    Endpoint("GET", "/trace.jsonl", verdicts.trace, media=JSON_LINES),
    Endpoint("GET", "/events", events.events, media=EVENTS, problems={503: "too many clients read the rows already"}),
    Endpoint("GET", "/filter", events.read_filter),
    Endpoint("GET", "/trace/level", events.level),
    Endpoint("POST", "/trace/level", events.set_level),
    # Tests
    Endpoint("POST", "/tests", report.begin_test, 201),
    Endpoint("GET", "/report", report.report, as_text=report.as_text),
    # The audit
    Endpoint("POST", "/audit", audit.audit, problems={404: "there is no such topic"}),
    # Clients
    Endpoint("GET", "/transactions", state.transactions),
    Endpoint("GET", "/transactions/{transactional_id:id}", state.transaction, problems=NO_ID),
    Endpoint("GET", "/producers", state.all_producers),
    Endpoint("GET", "/groups", state.groups),
    Endpoint("POST", "/groups/{group_id:id}/wait", state.wait_for_group, problems=TOO_LATE),
    Endpoint("GET", "/groups/{group_id:id}", state.group, problems={404: "there is no such group"}),
    Endpoint("GET", "/telemetry", telemetry.listed, problems={501: "the extra telemetry is not installed"}),
    # Quotas
    Endpoint("GET", "/quotas", quotas.listed),
    # ACLs
    Endpoint("GET", "/acls", acls.listed),
    # The cluster
    Endpoint("GET", "/brokers", cluster.brokers),
    Endpoint("POST", "/upgrade", cluster.upgrade,
             problems={409: "the upgrade is refused, or a reset cut it off; `detail` gives the reason",
                       503: "the broker is stopping, or the feature levels could not be written"}),
    Endpoint("GET", "/leaders", cluster.leaders, problems=NO_TOPIC),
    # The broker as a whole
    Endpoint("GET", "/quiet/wait", running.wait_until_quiet, problems=TOO_LATE),
    Endpoint("GET", "/clock", running.clock),
    Endpoint("POST", "/clock/advance", running.advance,
             problems={409: "a reset has set the clock back meanwhile", 503: "the broker is stopping"}),
    Endpoint("POST", "/reset", running.reset),
    Endpoint("POST", "/snapshots", running.take_snapshot, 201,
             problems={409: "the broker cannot take a snapshot now, or keeps too many; `detail` gives the reason"}),
    Endpoint("POST", "/snapshots/{snapshot:number}/restore", running.restore, problems=NO_SNAPSHOT),
    Endpoint("DELETE", "/snapshots/{snapshot:number}", running.delete_snapshot, problems=NO_SNAPSHOT),
)  # fmt: skip


@cache
def endpoints_of(kind: Literal["broker", "proxy"]) -> tuple[Endpoint, ...]:
    """Returns the endpoints that a broker or a proxy has, with the tools' endpoints."""
    tools = installed_tools()
    every = [*ENDPOINTS, *deed_endpoints(), *(tools.endpoints() if tools is not None else ())]
    roots = [_root(each) for each in every]
    # A path that ends with an id also matches all longer paths, so it comes after the longer paths.
    every.sort(key=lambda each: (roots.index(_root(each)), each.path.endswith(":id}")))
    return tuple(each for each in every if kind == "broker" or not each.of_brokers)


def _root(endpoint: Endpoint) -> str:
    return endpoint.path.split("/")[1]
