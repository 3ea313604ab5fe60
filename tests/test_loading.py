"""A broker loads all its modules soon after its start. So it responds even if all its descriptors are in use, and it could not
open the file of a module.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.batches import Record, build_batch
from kafkawire.compression import NAMES
from kafkawire.registry import KEYS, versions
from requesting import plain
from responses import only
from wirebroker.apis import SERVED, TELEMETRY
from wirebroker.apis.loading import imports_of_broker
from wirebroker.client.wire import Connection, ConnectionClosed, address_of
from wirebroker.commands.serve import load_between_requests

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process cannot be set here")


class Serving:
    """Runs `wirebroker serve` in its own process. After `full`, the process cannot open another file or socket."""

    def __init__(self, *flags: str) -> None:
        command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", "--control", "127.0.0.1:0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(3)]
        assert lines[-1] == "ready\n", lines
        self.address = address_of(lines[0].split()[2])
        self.control = http.client.HTTPConnection(lines[1].split()[2].removeprefix("http://").rstrip("/"))

    def full(self) -> None:
        used = {int(name) for name in os.listdir(f"/proc/{self.process.pid}/fd")}
        first = next(number for number in range(len(used) + 1) if number not in used)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (first, first))

    def get(self, path: str, method: str = "GET") -> int:
        self.control.request(method, path, body="{}" if method == "POST" else None)
        response = self.control.getresponse()
        response.read()
        return response.status


@pytest.fixture
def served() -> Iterator[Serving]:
    made = Serving("--topic", "orders", "--telemetry")
    yield made
    made.process.kill()
    made.process.communicate()


def asked(connection: Connection, api: str, version: int | None = None, **fields: Any) -> Any:
    newest = versions(KEYS[api])[1] if version is None else version
    return connection.request(plain(api, **fields), newest)


NEEDED: dict[str, dict[str, Any]] = {
    "Produce": {"acks": -1, "topic_data": [], "timeout_ms": 1},
    "DescribeAcls": {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
}
"""For some APIs: fields that a request must have, because the broker would otherwise close the connection."""


def fails(connection: Connection, api: str) -> bool:
    """Sends the simplest request of an API. Returns true if the broker closes the connection."""
    try:
        asked(connection, api, **NEEDED.get(api, {}))
    except ConnectionClosed:
        return True
    return False


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_every_api_is_answered_with_all_descriptors_in_use(served: Serving) -> None:
    apis = [api for api in (*SERVED, *TELEMETRY) if versions(KEYS[api])[1] >= 0]  # not APIs of later releases
    connections = {api: Connection(served.address) for api in apis}
    for each in connections.values():
        asked(each, "ApiVersions", 0)  # after this response, the broker has accepted the connection
    assert served.get("/topics") == 200
    for _ in imports_of_broker():
        asked(connections["Metadata"], "ApiVersions", 0)  # before each request, the broker does at least one import
    served.full()
    assert {api for api in apis if fails(connections[api], api)} == set()
    assert [served.get(path) for path in ("/", "/live/", "/live/app.js", "/openapi.json", "/topcis")] == [200] * 4 + [404]
    assert (served.get("/faults"), served.get("/audit", "POST")) == (200, 200)
    wire = connections["Metadata"]
    for codec in range(len(NAMES)):
        data = [{"index": 0, "records": build_batch([Record(0, 0, None, b"v" * 50)], compression=codec)}]
        response = asked(wire, "Produce", 9, acks=-1, timeout_ms=1000, topic_data=[{"name": "orders", "partition_data": data}])
        assert only(response).error_code == 0, NAMES[codec]
    for kind, key in ((0, "g"), (1, "x")):
        while only(asked(wire, "FindCoordinator", 4, key_type=kind, coordinator_keys=[key])).error_code:
            pass
    while asked(wire, "InitProducerId", 4, transactional_id="x", transaction_timeout_ms=1000).error_code:
        pass
    served.process.terminate()
    assert served.process.communicate()[1] == ""


def test_no_import_begins_after_the_stop() -> None:
    done: list[int] = []

    async def load() -> None:
        stop = asyncio.Event()
        await load_between_requests([lambda: done.append(1), stop.set, lambda: done.append(2)], stop)

    asyncio.run(load())
    assert done == [1]
