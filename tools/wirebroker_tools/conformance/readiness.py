"""Waiting until a broker is ready, so that a replay meets the same state as the recording.

Kafka announces a coordinator before the coordinator is loaded, and responds to EndTxn before the markers are written. During
the recording, the client waited until the coordinators were loaded and the markers were written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

from kafkawire.batches import iter_batches, iter_records
from kafkawire.errors import ProtocolError
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.end_txn import EndTxnRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from wirebroker.client.wire import WireClient
from wirebroker_tools.conformance.run import Run
from wirebroker_tools.conformance.versions import Announced

PAUSE, WITHIN = 0.02, 10.0
"""The replay asks for the state at intervals of PAUSE seconds, and waits for at most WITHIN seconds."""
COORDINATOR_CODES = (14, 15, 16)
"""The errors for a loading, unavailable or wrong coordinator. If a request gets one of these errors, the client repeats it."""
DESCRIBING = "DescribeTransactions"
"""This API shows more about the state of a transaction than any other API. Releases before 3.0 do not have it."""
_GROUP, _TRANSACTION = 0, 1
_ENDING = (2, 3)
"""The numbers of the states PrepareCommit and PrepareAbort in the transaction log."""
_STATE_AT = 16
"""The position of the state in a record of the transaction log, after version, producer id, epoch and timeout."""
_NOBODY = 2**62
"""A producer id that no broker hands out."""


def prepare(run: Run) -> None:
    """Make the broker create its internal topics and load the coordinators of the scenario's groups and transactional ids. The
    recorded broker was prepared in the same way.

    The coordinators of groups whose names begin with "cold" are not loaded. If the broker does not serve a request of this
    function, no error is raised here: the scenario's own steps then fail.
    """
    if run.scenario.ran_on.startswith("cold"):
        return
    steps = [row["step"] for row in run.scenario.steps]
    groups = sorted({"g"} | set(_values(steps, "group")))
    transactional_ids = sorted({"a"} | set(_values(steps, "txid")))
    with _asking(run) as client:
        coordinators_loaded(client, map(run.name, groups), map(run.name, transactional_ids))


def coordinators_loaded(client: WireClient, groups: Iterable[str], transactional_ids: Iterable[str]) -> None:
    """Wait until the coordinators of these groups and transactional ids are loaded.

    The requests that this function sends also create the internal topics.

    Raises ConnectionClosed, NoResponse or ProtocolError if the broker does not serve one of the requests.
    """
    announced = Announced.by(client)
    for name in groups:
        until(partial(_found, client, announced, _GROUP, name))
        until(partial(_group_loaded, client, announced, name))
    for name in transactional_ids:
        until(partial(_found, client, announced, _TRANSACTION, name))
        until(partial(_transaction_loaded, client, announced, name))


def markers_written(run: Run, transactional_id: str) -> None:
    """Wait until an ended transaction is complete, with its markers in every partition."""
    with _asking(run) as client:
        transactions_complete(client, [transactional_id], run.announced)


def transactions_complete(client: WireClient, transactional_ids: list[str], announced: Announced) -> bool:
    """Wait until none of these transactions is ending. Returns False if a transaction is still ending after WITHIN seconds."""
    if announced.lacks(DESCRIBING):
        return until(lambda: not any(_last_state(client, each) in _ENDING for each in transactional_ids))
    return until(lambda: not any(state.transaction_state.startswith("Prepare") for state in _states(client, transactional_ids)))


def transaction_records(client: WireClient, transactional_id: str) -> list[tuple[int, int]]:
    """Reads the transaction log, which has four partitions. Returns the version and the state in each record of this id."""
    found, wanted = [], transactional_id.encode()
    for index in range(4):
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 24)
        topic = FetchTopic(topic="__transaction_state", partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, session_epoch=-1, topics=[topic])
        response = client.request(request, 4).responses[0].partitions[0]
        for batch in iter_batches(memoryview(response.records or b"")):
            for record in iter_records(batch):
                if wanted in bytes(record.key or b"") and record.value is not None:
                    found.append((int.from_bytes(record.value[:2]), record.value[_STATE_AT]))
    return found


def _last_state(client: WireClient, transactional_id: str) -> int:
    records = transaction_records(client, transactional_id)
    return records[-1][1] if records else 0


@contextmanager
def _asking(run: Run) -> Iterator[WireClient]:
    """Opens a separate connection: a broker that does not serve these requests closes only this connection, not the scenario's
    connection."""
    client = WireClient(*run.broker.address)
    with closing(client), suppress(OSError, ProtocolError):
        yield client


def _values(steps: Any, key: str) -> Iterator[str]:
    """Yields every non-empty text that a dict in the steps has under this key, at any depth."""
    if isinstance(steps, dict):
        if isinstance(steps.get(key), str) and steps[key]:
            yield steps[key]
        steps = list(steps.values())
    if isinstance(steps, list):
        for item in steps:
            yield from _values(item, key)


def until(reached: Callable[[], bool]) -> bool:
    """Repeat until `reached` returns True. Returns False if `reached` returns False for WITHIN seconds."""
    deadline = time.monotonic() + WITHIN
    while not (done := reached()) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return done


def _found(client: WireClient, announced: Announced, kind: int, key: str) -> bool:
    request = FindCoordinatorRequest(key_type=kind, key=key, coordinator_keys=[key])
    response = client.request(request, announced.lowered("FindCoordinator", 4))
    return (response.coordinators or [response])[0].error_code not in COORDINATOR_CODES


def _group_loaded(client: WireClient, announced: Announced, group: str) -> bool:
    request = OffsetFetchRequest(group_id=group, topics=None)
    return client.request(request, announced.lowered("OffsetFetch", 7)).error_code not in COORDINATOR_CODES


def _transaction_loaded(client: WireClient, announced: Announced, transactional_id: str) -> bool:
    if announced.lacks(DESCRIBING):
        request = EndTxnRequest(transactional_id=transactional_id, producer_id=_NOBODY, producer_epoch=0, committed=True)
        return client.request(request, 0).error_code not in COORDINATOR_CODES
    return _states(client, [transactional_id])[0].error_code not in COORDINATOR_CODES


def _states(client: WireClient, transactional_ids: list[str]) -> list[Any]:
    response = client.request(DescribeTransactionsRequest(transactional_ids=transactional_ids), 0)
    return list(response.transaction_states)
