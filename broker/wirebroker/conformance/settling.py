"""Waiting for what a broker does beside its answers, so that a replay sees what the recording saw.

A coordinator is found at once and loaded later; EndTxn is answered before its markers are written. The recordings
were made on a broker that was given the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkawire.errors import ProtocolError
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from wirebroker.conformance.client import ConnectionClosed, NoAnswer, WireClient

if TYPE_CHECKING:
    from wirebroker.conformance.recording import Json
    from wirebroker.conformance.replay import Run

PAUSE, WITHIN = 0.02, 10.0
"""Seconds between two questions, and after how many the broker is taken as it is."""
COORDINATOR_CODES = (14, 15, 16)
"""Not loaded, not available, not this broker: all of them "ask again"."""
_GROUP, _TRANSACTION = 0, 1


def prepare(run: Run, steps: list[Json]) -> None:
    """Have the internal topics created and the coordinators of this scenario's names loaded.

    A broker that does not serve one of these requests is left as it is: the scenario's own steps will show it.
    """
    with _asking(run) as client:
        for name in sorted({"g"} | set(_values(steps, "group"))):
            _until(partial(_found, client, _GROUP, run.name(name)))
            _until(partial(_group_loaded, client, run.name(name)))
        for name in sorted({"a"} | set(_values(steps, "txid"))):
            _until(partial(_found, client, _TRANSACTION, run.name(name)))
            _until(partial(_transaction_loaded, client, run.name(name)))


def markers_written(run: Run, transactional_id: str) -> None:
    """Wait until an ended transaction is complete, that is, its markers stand in every partition."""
    with _asking(run) as client:
        _until(lambda: not _state(client, transactional_id).transaction_state.startswith("Prepare"))


@contextmanager
def _asking(run: Run) -> Iterator[WireClient]:
    """A client of its own, so that a broker without these requests does not spoil the scenario's connections."""
    client = WireClient(*run.broker.address)
    with closing(client), suppress(ConnectionClosed, NoAnswer, ProtocolError):
        yield client


def _values(steps: Any, key: str) -> Iterator[str]:
    """Every non-empty text under this key, at any depth."""
    if isinstance(steps, dict):
        if isinstance(steps.get(key), str) and steps[key]:
            yield steps[key]
        steps = list(steps.values())
    if isinstance(steps, list):
        for item in steps:
            yield from _values(item, key)


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not reached() and time.monotonic() < deadline:
        time.sleep(PAUSE)


def _found(client: WireClient, kind: int, key: str) -> bool:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return client.request(request, 4).coordinators[0].error_code not in COORDINATOR_CODES


def _group_loaded(client: WireClient, group: str) -> bool:
    return client.request(OffsetFetchRequest(group_id=group, topics=None), 7).error_code not in COORDINATOR_CODES


def _transaction_loaded(client: WireClient, transactional_id: str) -> bool:
    return _state(client, transactional_id).error_code not in COORDINATOR_CODES


def _state(client: WireClient, transactional_id: str) -> Any:
    return client.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states[0]
