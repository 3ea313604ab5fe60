"""Fetch requests for a topic that is deleted, or deleted and made again. This happens before the request, or while the request
waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from requesting import Plain, plain
from situations.side import WAIT_MS, Side, fetched, partitions_of

KINDS = (
    "full", "full beside", "new session", "new session beside", "session", "session beside", "session named",
    "session forgets beside",
)  # fmt: skip
"""Kinds of Fetch. With `beside`, the request also has a partition of a topic that exists. `named` requests name the topic,
although their session already has it."""
BY_NAME, BY_ID = 12, 17
MADE = 2
"""The number of records in the topic that is made again."""


def play(side: Side) -> dict[str, str]:
    """Plays all situations, and returns the responses in each situation as one text."""
    return {
        f"v{version} {kind}, {event} {when}": "; ".join(_play(side, version, kind, event == "made again", when == "meanwhile"))
        for version, kind, event, when in product((BY_NAME, BY_ID), KINDS, ("deleted", "made again"), ("before", "meanwhile"))
    }


def _play(side: Side, version: int, kind: str, again: bool, meanwhile: bool) -> Iterable[str]:
    gone, other = side.new_name("gone"), side.new_name("other")
    ids = {side.create(gone): "gone", side.create(other): "other"}
    old_id, other_id = ids
    side.put(gone)
    side.put(other)
    at_end = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
    named = [(gone, old_id, [at_end])] + ([(other, other_id, [at_end])] if "beside" in kind else [])
    forgotten = [{"topic": gone, "topic_id": old_id, "partitions": [0]}]

    def make() -> None:
        ids[side.create(gone)] = "new"
        side.put(gone, MADE)

    def happen() -> None:
        side.delete(gone)
        if again:
            make()

    session_id = 0
    with side.link() as wire:
        if kind.startswith("session"):
            session_id = side.ask(wire, _fetch(named, epoch=0, wait_ms=0), version)[1].session_id
        requests = {
            "full": _fetch(named), "new": _fetch(named, epoch=0), "session": _fetch((), session_id, 1),
            "session named": _fetch(named, session_id, 1), "session forgets beside": _fetch((), session_id, 1, forgotten),
        }  # fmt: skip
        request = requests[kind if kind in requests else kind.split()[0]]
        if meanwhile:
            wire.send(request, version)
            side.settle()
            happen()
            how, response = side.take(wire)
        else:
            happen()
            how, response = side.ask(wire, request, version)
        yield fetched(how, response, ids)
        if kind.startswith("full"):
            return
        session_id, epoch = response.session_id, request.session_epoch + 1
        yield fetched(*side.ask(wire, _fetch((), session_id, epoch), version), ids)
        if not again:
            make()
            yield "made again: " + fetched(*side.ask(wire, _fetch((), session_id, epoch + 1), version), ids)


def _fetch(topics: Any, session_id: int = 0, epoch: int = -1, forgotten: Iterable[Plain] = (), wait_ms: int = WAIT_MS) -> Any:
    return plain(
        "Fetch", max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch,
        topics=partitions_of(topics), forgotten_topics_data=list(forgotten),
    )  # fmt: skip
