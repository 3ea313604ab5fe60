"""Misfortune on demand: rules that strike the exact request.

    lost = kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=4))
    ...
    lost.assert_fired()

Every function here makes a rule. What it is for is said by `api`, `version` (one, or from–to), `topic`, `partition`,
`client_id`, `node`, `producer_id`, `producer_epoch`, `sequence` (one, or from–to), `transactional_id`, `group`; which of
those it strikes by `nth` (one or several, from 1), `every`, `probability`, and at most `times`. For Produce batches are
counted, for everything else requests. Whatever is not said matches everything. ValueError for what can never match.
"""

from __future__ import annotations

from typing import Any, Literal

from wirebroker.faults.facts import Batch, Facts
from wirebroker.faults.rules import Answerer, NotFired, Rule, error_code, make

Then = Literal["disconnect", "silence"]

__all__ = [
    "Batch", "Facts", "NotFired", "Rule", "answer", "delay", "disconnect", "error", "lose_ack", "lose_request", "reorder",
    "throttle",
]  # fmt: skip


def lose_request(*, then: Then = "disconnect", **words: Any) -> Rule:
    """The request never arrives. Then the connection closes, or goes silent: no further answer comes on it."""
    return make("lose_request", words, {"then": _then(then)})


def lose_ack(*, then: Then = "disconnect", **words: Any) -> Rule:
    """The request is handled, and its answer never arrives. Then the connection closes, or goes silent.

    Requests that are in the pipe already are handled all the same; their answers are lost with this one.
    """
    return make("lose_ack", words, {"then": _then(then)})


def error(code: int | str, *, after: bool = False, **words: Any) -> Rule:
    """Answer with this error (number or name) instead of handling; with `after` it is handled all the same.

    A rule that names a topic or partition strikes these alone where the API answers by partition.
    """
    return make("error", words, {"code": error_code(code), "after": after})


def delay(ms: int, *, after: bool = False, **words: Any) -> Rule:
    """Handle the request `ms` later, or with `after` answer it later; what follows on the connection waits."""
    if ms <= 0:
        raise ValueError(f"a delay of {ms} ms is none")
    return make("delay", words, {"ms": ms, "after": after})


def disconnect(*, after: bool = False, **words: Any) -> Rule:
    """Close the connection before the request is handled, or with `after` once it is, without an answer."""
    return make("disconnect", words, {"after": after})


def throttle(ms: int, **words: Any) -> Rule:
    """Tell the client in the answer to hold back for `ms` (throttle_time_ms)."""
    return make("throttle", words, {"ms": ms})


def reorder(others: int = 1, **words: Any) -> Rule:
    """Hold the request back until so many requests of other connections have been handled."""
    if others < 1:
        raise ValueError(f"a request that waits for {others} others does not wait")
    return make("reorder", words, {"others": others})


def answer(answerer: Answerer, **words: Any) -> Rule:
    """Let a function see the request's facts and the request; if it returns a response, that is the answer."""
    return make("answer", words, {}, answerer)


def _then(then: str) -> str:
    if then not in ("disconnect", "silence"):
        raise ValueError(f"then is 'disconnect' or 'silence', not {then!r}")
    return then
