"""Misfortune on demand: rules that strike the exact request.

    lost = kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=4))
    ...
    lost.assert_fired()

Every function here makes a rule. What it is for is said by `api`, `version` (one, or from–to), `topic`, `partition`,
`client_id`, `node`, `producer_id`, `producer_epoch`, `sequence` (one, or from–to), `transactional_id`, `group`; which of
those it strikes by `nth` (one or several, from 1), `every`, `probability`, and at most `times`. For Produce batches are
counted, for everything else requests. Whatever is not said matches everything. FaultError, a ValueError that knows the word,
for what can never match.
"""

from __future__ import annotations

from typing import Any, Literal

from wirebroker.faults.rules import Answerer, FaultError, NotFired, Rule, error_code, make
from wirebroker.requests.facts import Batch, Facts

Then = Literal["disconnect", "silence"]

__all__ = [
    "Batch", "Facts", "FaultError", "NotFired", "Rule", "answer", "bandwidth", "close", "corrupt",
    "crash_after_write", "cut", "delay", "disconnect", "disk_full", "error", "expire_producer",
    "expire_transactional_id", "fail_write", "fence", "lose_ack", "lose_coordinator", "lose_request", "refuse",
    "reorder", "reset", "restart", "slice", "slow_write", "throttle", "truncate",
]  # fmt: skip


def lose_request(*, then: Then = "disconnect", **words: Any) -> Rule:
    """The request never arrives. Then the connection closes, or goes silent: no further answer comes on it."""
    return make("lose_request", words, {"then": _then(then)})


def lose_ack(*, then: Then = "disconnect", **words: Any) -> Rule:
    """The request is handled, and its answer never arrives. Then the connection closes, or goes silent.

    Where it goes silent, requests that are in the pipe already are handled all the same, and their answers lost with this one.
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
        raise FaultError("ms", f"a delay of {ms} ms is none")
    return make("delay", words, {"ms": ms, "after": after})


def disconnect(*, after: bool = False, **words: Any) -> Rule:
    """Close the connection before the request is handled, or with `after` once it is, without an answer."""
    return make("disconnect", words, {"after": after})


def throttle(ms: int, **words: Any) -> Rule:
    """Tell the client in the answer to hold back for `ms` (throttle_time_ms)."""
    if not 0 < ms < 2**31:
        raise FaultError("ms", f"an answer can tell a client to hold back for 1 to {2**31 - 1} ms, not {ms}")
    return make("throttle", words, {"ms": ms})


def reorder(others: int = 1, **words: Any) -> Rule:
    """Hold the request back until so many requests of other connections have been handled."""
    if others < 1:
        raise FaultError("others", f"a request that waits for {others} others does not wait")
    return make("reorder", words, {"others": others})


def answer(answerer: Answerer, **words: Any) -> Rule:
    """Let a function see the request's facts and the request; if it returns a response, that is the answer."""
    return make("answer", words, {}, answerer)


# The wire


def cut(bytes: int, *, request: bool = False, **words: Any) -> Rule:
    """Only so many bytes of the answer arrive, its size among them; then the connection closes.

    With `request` it closes when so many bytes of the request have arrived, which is then not handled. What such a rule
    is for can be said by `api`, `version`, `client_id` and `node` alone.
    """
    return make("cut", words, {"bytes": _at_least(bytes, 8 if request else 0, "bytes"), "request": request})


def slice(bytes: int, *, ms: int = 1, **words: Any) -> Rule:
    """The answer comes in pieces of so many bytes, `ms` apart by the machine's time."""
    return make("slice", words, {"bytes": _at_least(bytes, 1, "bytes"), "ms": _at_least(ms, 0, "ms")})


def bandwidth(rate: int, **words: Any) -> Rule:
    """The answer comes at `rate` bytes per second, by the machine's time."""
    return make("bandwidth", words, {"rate": _at_least(rate, 1, "rate")})


def corrupt(bytes: int = 1, *, at: int | None = None, **words: Any) -> Rule:
    """So many bytes of the answer arrive with their bits turned: from `at` on, or anywhere behind its size by the seed.

    `at` counts from the first byte of the answer's size, or from its end if it is negative.
    """
    return make("corrupt", words, {"bytes": _at_least(bytes, 1, "bytes")} | ({} if at is None else {"at": at}))


def reset(*, after: bool = False, **words: Any) -> Rule:
    """Reset the connection (RST) before the request is handled, or with `after` instead of the answer."""
    return make("reset", words, {"after": after})


def refuse(**words: Any) -> Rule:
    """Reset a new connection of a broker (`node`) as soon as it is made, before anything is read of it."""
    return make("refuse", words, {})


def close(*, ms: int = 0, **words: Any) -> Rule:
    """Close the connection after the request was answered, or `ms` later by the broker's clock."""
    return make("close", words, {"ms": _at_least(ms, 0, "ms")})


# Storage


def fail_write(**words: Any) -> Rule:
    """The batch cannot be written: KAFKA_STORAGE_ERROR, and neither the log nor the producer's state changes."""
    return make("fail_write", words, {})


def slow_write(ms: int, **words: Any) -> Rule:
    """Writing takes `ms` by the broker's clock; whoever writes to the same partition waits behind."""
    return make("slow_write", words, {"ms": _at_least(ms, 1, "ms")})


def disk_full(**words: Any) -> Rule:
    """From the struck batch on the directory is offline: what the broker leads answers KAFKA_STORAGE_ERROR to everybody.

    These are the partitions that the rule names by `topic` and `partition`, or all but the internal ones; until another
    broker leads, or the rule is unloaded.
    """
    return make("disk_full", words, {})


def crash_after_write(**words: Any) -> Rule:
    """The broker is killed after the batch was written and before it is acknowledged, and starts again; others lead then."""
    return make("crash_after_write", words, {})


# State, changed before the request is handled


def expire_producer(**words: Any) -> Rule:
    """Partitions forget the producers of the struck batches or request, as after producer.id.expiration.ms."""
    return make("expire_producer", words, {})


def expire_transactional_id(transactional_id: str, **words: Any) -> Rule:
    """The coordinator forgets the transactional id, as transactional.id.expiration.ms would, unless a transaction is open."""
    return make("expire_transactional_id", {"transactional_id": transactional_id} | words, {})


def fence(transactional_id: str, **words: Any) -> Rule:
    """Another producer begins with the transactional id: the epoch rises, and what was open is aborted."""
    return make("fence", {"transactional_id": transactional_id} | words, {})


def restart(*, mode: Literal["clean", "kill"] = "clean", **words: Any) -> Rule:
    """The brokers stop, "clean" or by a "kill", and start again; the request is not handled."""
    if mode not in ("clean", "kill"):
        raise FaultError("mode", f"a restart is 'clean' or 'kill', not {mode!r}")
    return make("restart", words, {"mode": mode})


def truncate(offset: int, *, topic: str, partition: int, **words: Any) -> Rule:
    """The partition loses everything from this offset on, and its producers' state with it."""
    return make("truncate", {"topic": topic, "partition": partition} | words, {"offset": _at_least(offset, 0, "offset")})


def lose_coordinator(**words: Any) -> Rule:
    """COORDINATOR_NOT_AVAILABLE to whoever looks for the coordinator, NOT_COORDINATOR to whoever asks it."""
    return make("lose_coordinator", words, {})


def _at_least(value: int, least: int, word: str) -> int:
    if value < least:
        raise FaultError(word, f"{word} is at least {least}, not {value}")
    return value


def _then(then: str) -> str:
    if then not in ("disconnect", "silence"):
        raise FaultError("then", f"then is 'disconnect' or 'silence', not {then!r}")
    return then
