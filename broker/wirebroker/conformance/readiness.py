"""Waiting for what a broker does beside its answers, so that a replay sees what the recording saw.

A coordinator is found at once and loaded later; EndTxn is answered before its markers are written. The recordings
were made on a broker that was given the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkawire.errors import ProtocolError
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from wirebroker.wire_client import WireClient

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
    groups = sorted({"g"} | set(_values(steps, "group")))
    transactional_ids = sorted({"a"} | set(_values(steps, "txid")))
    with _asking(run) as client:
        coordinators_loaded(client, map(run.name, groups), map(run.name, transactional_ids))


def coordinators_loaded(client: WireClient, groups: Iterable[str], transactional_ids: Iterable[str]) -> None:
    """Wait until the coordinators of all of them are found and loaded, which makes the internal topics.

    Raises ConnectionClosed, NoAnswer and ProtocolError where the broker does not serve one of the requests.
    """
    for name in groups:
        until(partial(_found, client, _GROUP, name))
        until(partial(_group_loaded, client, name))
    for name in transactional_ids:
        until(partial(_found, client, _TRANSACTION, name))
        until(partial(_transaction_loaded, client, name))


def markers_written(run: Run, transactional_id: str) -> None:
    """Wait until an ended transaction is complete, that is, its markers stand in every partition."""
    with _asking(run) as client:
        transactions_complete(client, [transactional_id])


def transactions_complete(client: WireClient, transactional_ids: list[str]) -> bool:
    """Wait until no transaction of these is about to end; False if one still is after the time."""
    return until(lambda: not any(state.transaction_state.startswith("Prepare") for state in _states(client, transactional_ids)))


@contextmanager
def _asking(run: Run) -> Iterator[WireClient]:
    """A client of its own, so that a broker without these requests does not spoil the scenario's connections."""
    client = WireClient(*run.broker.address)
    with closing(client), suppress(OSError, ProtocolError):
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


def until(reached: Callable[[], bool]) -> bool:
    """Ask until it is so; False if it never was within the time."""
    deadline = time.monotonic() + WITHIN
    while not (done := reached()) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return done


def _found(client: WireClient, kind: int, key: str) -> bool:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return client.request(request, 4).coordinators[0].error_code not in COORDINATOR_CODES


def _group_loaded(client: WireClient, group: str) -> bool:
    return client.request(OffsetFetchRequest(group_id=group, topics=None), 7).error_code not in COORDINATOR_CODES


def _transaction_loaded(client: WireClient, transactional_id: str) -> bool:
    return _states(client, [transactional_id])[0].error_code not in COORDINATOR_CODES


def _states(client: WireClient, transactional_ids: list[str]) -> list[Any]:
    answer = client.request(DescribeTransactionsRequest(transactional_ids=transactional_ids), 0)
    return list(answer.transaction_states)
