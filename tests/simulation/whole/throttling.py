"""Checks that a client is throttled if one of its requests exceeds its quota, and that a client without a quota is not
throttled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding

if TYPE_CHECKING:
    from simulation.whole.world import Link, Sent, World

CLIENT_ID = "c"
"""The client id of all requests."""
BYTE_RATES = {"Produce": "producer_byte_rate", "Fetch": "consumer_byte_rate"}
KEYS = (*BYTE_RATES.values(), "request_percentage", "controller_mutation_rate")
LONGEST_S, ABOVE = 11, 1.01
"""A rate is measured over at most this many seconds (quota.window.num × quota.window.size.seconds)."""
Limits = dict[str, float | None]
"""The client's limit for each key, or None if it has no limit."""


def limits(world: World, link: Link) -> Limits | None:
    """Returns the limits of a client, or None if no client has any limit."""
    held = world.engine.cluster.quotas.limits
    if not held:
        return None
    user = link.connection.session.principal.name
    return {key: next((held[each][key] for each in _places(user) if key in held.get(each, {})), None) for key in KEYS}


def _places(user: str) -> Iterator[Any]:
    """Yields the entities whose limits apply to a client, in Kafka's order: the first limit counts."""
    for name in (user, None):
        yield from ((("client-id", client), ("user", name)) for client in (CLIENT_ID, None))
        yield (("user", name),)
    yield from ((("client-id", client),) for client in (CLIENT_ID, None))


def throttled(world: World, link: Link, sent: Sent, size: int) -> None:
    """Checks the throttle time in a response of `size` bytes. As in Kafka, the throttle time that follows from a limit below 1
    may overflow. Raises Finding."""
    ms = getattr(sent.response, "throttle_time_ms", 0)
    if sent.limits != limits(world, link):  # a quota has changed since the request was sent
        return
    held = sent.limits or {}
    if ms and not any(limit is not None for limit in held.values()):
        raise Finding("a client without a quota is throttled", f"{sent}: {ms} ms")
    limit, used = held.get(BYTE_RATES.get(sent.api, "")), sent.size if sent.api == "Produce" else size
    if limit is not None and limit >= 1 and not ms and sent.version > 0 and used > ABOVE * LONGEST_S * limit:
        raise Finding("a client exceeds its quota and is not throttled", f"{sent}: {used} bytes, {limit} bytes/s")
