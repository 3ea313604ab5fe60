"""A proxy's metrics about the requests and responses that it forwards, in Prometheus' text format."""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise

import pytest

from controlkit import ControlClient
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.registry import FETCH, PRODUCE
from requesting import fetch
from test_proxy import relays
from wirebroker import MockKafka, ProxyKafka
from wirebroker.client.wire import Connection, address_of
from wirebroker.common.exposition import Family, Sample, exposition
from wirebroker.proxy import metrics as module
from wirebroker.proxy.metrics import Metrics
from wirebroker.proxy.proxy import MEASURED_MS, Proxy
from wirebroker.trace.recorder import UNMEASURED
from wirekit import RawProducer

SAMPLE = re.compile(r'(\w+)(?:{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)})? (\S+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Returns the value of each sample. The key is the sample's name and labels. Checks that each line has Prometheus'
    format.
    """
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .+|TYPE \w+ (counter|gauge|histogram))", line)
            continue
        match = SAMPLE.fullmatch(line)
        assert match is not None, line
        assert (match[1], match[2] or "") not in found, "each sample once"
        found[match[1], match[2] or ""] = float(match[3])
    return found


def test_requests_errors_and_times_by_api_client_and_principal() -> None:
    with (
        MockKafka(topics={"orders": 1}) as kafka,
        ProxyKafka(upstream=kafka.bootstrap_servers, control=True) as proxy,
    ):
        control = ControlClient(proxy.control_url)
        assert not any("requests_total" in name for name, _ in samples(control.send("GET", "/metrics").body))
        with closing(Connection(address_of(proxy.bootstrap_servers), client_id="till")) as till:
            for version in (9, 12):
                till.request(MetadataRequest(topics=[]), version)
            till.request(fetch(0, topic="nothing"), 12)
        found = samples(control.send("GET", "/metrics").body)
        till_ = 'api="{}",client_id="till",principal="User:ANONYMOUS"'
        assert found["wirebroker_proxy_requests_total", till_.format("Metadata")] == 2
        assert found["wirebroker_proxy_requests_total", till_.format("Fetch")] == 1
        error = till_.format("Fetch") + ',error="UNKNOWN_TOPIC_OR_PARTITION"'
        assert found["wirebroker_proxy_errors_total", error] == 1
        parts = [found["wirebroker_proxy_seconds_total", till_.format("Metadata") + f',part="{part}"'] for part in module.PARTS]
        assert 0 < parts[0] < parts[1] + parts[0] < 10
        buckets = [
            n for (name, labels), n in found.items()
            if name == "wirebroker_proxy_part_seconds_bucket" and 'api="Metadata",part="upstream"' in labels
        ]  # fmt: skip
        assert len(buckets) == len(module.BUCKETS_S) + 1
        assert all(one <= other for one, other in pairwise(buckets))
        assert buckets[-1] == found["wirebroker_proxy_part_seconds_count", 'api="Metadata",part="upstream"'] == 2
        assert found["wirebroker_connections", ""] >= 0
        assert found["wirebroker_cluster_reachable", ""] == 1


def test_a_request_without_a_response_counts_as_an_error() -> None:
    with MockKafka(topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, control=True) as proxy:
        control = ControlClient(proxy.control_url)
        control.send("GET", "/metrics")
        with closing(Connection(address_of(proxy.bootstrap_servers), client_id="reader")) as reader:
            reader.send(fetch(0, wait_ms=60_000), 12)
            proxy.wait_until(lambda: any(relay._awaited for relay in relays(proxy)))
        proxy.wait_until(lambda: not proxy.connection_count())
        found = samples(control.send("GET", "/metrics").body)
        labels = 'api="Fetch",client_id="reader",principal="User:ANONYMOUS",error="NO_RESPONSE"'
        assert found["wirebroker_proxy_errors_total", labels] == 1


def test_nothing_more_is_decoded_once_nobody_reads_metrics() -> None:
    proxy = Proxy(0, lambda host, port, node_id: (host, port))
    assert not proxy.looks_at(FETCH, 12)
    proxy.measure()
    assert proxy.looks_at(FETCH, 12)
    proxy.set_time(MEASURED_MS - 1)
    proxy.measure()
    proxy.tick(MEASURED_MS)
    assert proxy.looks_at(FETCH, 12), "requests are measured, because the metrics were read a short time ago"
    proxy.tick(2 * MEASURED_MS)
    assert not proxy.looks_at(FETCH, 12)
    assert proxy.metrics is None
    proxy.measure()
    assert proxy.looks_at(PRODUCE, 12)


def test_clients_that_invent_names_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 10)
    made = Metrics()
    for number in range(1000):
        made.passed("Produce", f"client {number}" + "x" * 10_000, "User:x", [f"UNKNOWN({number})"], (1, 2, 3))
    found = samples(exposition(made.families()))
    requests = {labels: n for (name, labels), n in found.items() if name == "wirebroker_proxy_requests_total"}
    errors = {labels: n for (name, labels), n in found.items() if name == "wirebroker_proxy_errors_total"}
    assert requests['api="Produce",client_id="(others)",principal="(others)"'] == 990
    assert sum(errors.values()) == sum(requests.values()) == 1000
    assert len(requests) == len(errors) == 11
    assert max(map(len, requests)) < 200


def test_names_cannot_break_the_text() -> None:
    made = Metrics()
    for name in ('"} 1\nevil_total 9', "back\\slash", "\ud800", "\x1b[2J", "", None):
        made.passed("Fetch", name, "User:a", (), UNMEASURED)
    text = exposition(made.families())
    text.encode()
    found = {name: labels for name, labels in samples(text) if labels}
    assert set(found) == {"wirebroker_proxy_requests_total", "wirebroker_proxy_seconds_total"}
    assert exposition([Family("a", "gauge", "b", [Sample({}, 0.1)])]) == "# HELP a b\n# TYPE a gauge\na 0.1\n"


def test_a_broker_has_its_connections() -> None:
    with MockKafka(control=True, topics={"orders": 1}) as kafka, closing(RawProducer(kafka).wire):
        found = samples(ControlClient(kafka.control_url).send("GET", "/metrics").body)
    assert found["wirebroker_connections", ""] == 1
    assert not any("proxy" in name for name, _ in found)
