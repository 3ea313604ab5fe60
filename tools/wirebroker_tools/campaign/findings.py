"""Findings: all runs that broke an application for the same reason, with the usual cause and where to look.

`explain` finds the reasons for which a broker refuses requests. The causes in this module are mistakes of applications that
handle such refusals badly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wirebroker.audit.findings import plural
from wirebroker_tools.campaign.cases import Result
from wirebroker_tools.campaign.misfortunes import Asked, Place, matched
from wirebroker_tools.campaign.order import SORTS, sort_of
from wirebroker_tools.campaign.outcomes import SILENT_OUTCOMES
from wirebroker_tools.campaign.words import fault_in_words, place_of, ways
from wirebroker_tools.explain.error_codes import REPEATED
from wirebroker_tools.explain.transactions import WITHOUT_ABORT

NAMED = 3
"""A sentence names at most this many faults or sorts of fault."""
Cause = tuple[str, str]
"""The usual cause, and the code or the setting to look at."""
OF_SENDING = frozenset({"Produce", "InitProducerId", "Metadata", "ApiVersions", "CreateTopics"})
OF_TRANSACTIONS = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"})
UNREAD: Cause = (
    "the result of send is never read, or its error is ignored",
    "the future, promise or callback that send has for each record; flush() does not report records that failed",
)
UNREAD_OR_COMMITTED: Cause = (
    "the result of send is never read, or only after the offset was committed",
    "the order of send, its result and the commit; a cache of processed records; enable.auto.commit; flush() does not report "
    "records that failed",
)
NOT_WRITTEN_AGAIN: Cause = (
    "the records of a transaction that was aborted or could not be committed are not written again",
    "the handling of exceptions: abortTransaction(), and seek() back to the committed offsets; an end after a fatal error",
)
OUTSIDE: Cause = (
    "the offsets are committed outside of the transaction, so the offsets or the transaction can fail alone",
    "sendOffsetsToTransaction() in place of a commit by the consumer, enable.auto.commit; then the handling of exceptions: "
    "abortTransaction(), and seek() back to the committed offsets",
)
SKIPPED: Cause = (
    "the application skips records that it has not processed, or ends before it has read them",
    "the offset from which the application reads after a failed commit or a rebalance: seek(), auto.offset.reset, the "
    "handling of revoked partitions; the condition that ends the application, such as a time without records",
)
NOT_REPLICATED: Cause = ("the leader acknowledges a batch before other brokers have it", "acks=all in place of acks=1")
NOT_ACKNOWLEDGED: Cause = ("with acks=0 the broker confirms no record, so the client does not notice a loss", "acks=all")
NOT_IDEMPOTENT: Cause = (
    "the client repeats a batch that is stored already, and its producer is not idempotent",
    "enable.idempotence=true and acks=all",
)
SENT_AGAIN: Cause = (
    "the application sends a record again that may be stored already",
    "the code that handles a timeout of send; delivery.timeout.ms, so that the client itself goes on trying",
)
PROCESSED_AGAIN: Cause = (
    "records are processed again, because their offset was not committed",
    "a transaction that has the offsets (sendOffsetsToTransaction), or an output that may get a record twice",
)
OVERTAKEN: Cause = (
    "a batch that was refused is sent again after later batches",
    "enable.idempotence=true, or max.in.flight.requests.per.connection=1",
)
WAITS: Cause = (
    "the application waits without a limit, or repeats a call that cannot succeed",
    "calls without a timeout, the loops around them, and clients that are not closed after an error",
)
OTHER: Cause = ("the check or the test compares more than the records", "what the check or the test says")


class Finding(NamedTuple):
    """The runs that broke for one reason, the earliest first."""

    outcome: str
    cause: str
    look_at: str
    what: str
    """the faults after which the application broke"""
    results: list[Result]

    @property
    def ways(self) -> list[tuple[str, list[Result]]]:
        """Each fault in words, with the results of its cases."""
        return list(ways(self.outcome, self.results))

    @property
    def sentence(self) -> str:
        """The faults, and the outcome of the first run."""
        first = self.results[0]
        return f"{self.what} … {first['sentence']}{f'; {again}' if (again := first.get('again')) else ''}"

    def as_json(self) -> dict[str, Any]:
        """Returns the finding in the form that explore.json has."""
        return {
            "outcome": self.outcome, "sentence": self.sentence, "cause": self.cause, "look_at": self.look_at,
            "runs": [each["id"] for each in self.results],
        }  # fmt: skip


def findings(results: Sequence[Result], found: Mapping[Place, Sequence[Asked]]) -> list[Finding]:
    """Returns the findings of an exploration, by outcome. `found` has the requests of the run without faults.

    A run with several outcomes has one cause. So it belongs to only one finding: the finding of its first outcome.
    """
    made = []
    for outcome in SILENT_OUTCOMES:
        by_cause: dict[Cause, list[Result]] = {}
        for result in results:
            if outcome == next((name for name in SILENT_OUTCOMES if name in result["outcomes"]), None):
                by_cause.setdefault(_cause(outcome, result, found), []).append(result)
        for cause, same in by_cause.items():
            same.sort(key=lambda each: each.get("order", 0))
            made.append(Finding(outcome, *cause, _faults(outcome, same, results), same))
    return made


def _cause(outcome: str, result: Result, found: Mapping[Place, Sequence[Asked]]) -> Cause:
    """Returns the usual cause of an outcome. The cause depends on the fault in the result."""
    if outcome == "check_failed":  # a check finds lost records and records that are stored twice
        outcome = next((name for name, word in (("lost", "missing"), ("doubled", "doubled")) if result.get(word)), outcome)
    if "open_transaction" in result["outcomes"]:
        return WITHOUT_ABORT
    apis = {place.api for place in found}
    if outcome in ("lost", "doubled") and {"EndTxn", "OffsetCommit"} <= apis and "TxnOffsetCommit" not in apis:
        return OUTSIDE
    if outcome == "lost" and "doubled" in result["outcomes"]:  # the application ended after its usual number of records
        outcome = "doubled"
    if outcome == "lost":
        return _of_loss(result, found)
    if outcome == "doubled":
        asked = next(iter(found.get(matched(result), ())), None)
        if result["api"] not in OF_SENDING | OF_TRANSACTIONS:
            return PROCESSED_AGAIN
        return NOT_IDEMPOTENT if result["api"] == "Produce" and asked is not None and not asked.idempotent else SENT_AGAIN
    causes = {"reordered": OVERTAKEN, "hung": WAITS, "storm": REPEATED}
    return causes.get(outcome, OTHER)


def _of_loss(result: Result, found: Mapping[Place, Sequence[Asked]]) -> Cause:
    if result["fault"]["kind"] == "truncate":
        return NOT_REPLICATED
    asked = next(iter(found.get(matched(result), ())), None)
    if asked is not None and asked.acks == 0:
        return NOT_ACKNOWLEDGED
    if result["api"] in OF_TRANSACTIONS or (asked is not None and asked.transactional_ids):
        return NOT_WRITTEN_AGAIN
    senders = {place.client_id for place in found if place.api == "Produce"}
    if result["api"] not in OF_SENDING or matched(result).client_id not in senders:
        return SKIPPED
    return UNREAD_OR_COMMITTED if any(place.api == "OffsetCommit" for place in found) else UNREAD


def _faults(outcome: str, same: Iterable[Result], results: Iterable[Result]) -> str:
    """Describes the faults of a finding in words. If several faults of one sort broke the application, the sort is named."""
    tried: dict[tuple[str, str], dict[str, bool]] = {}
    for result in results:
        where = sort_of(result["fault"], result.get("second")), place_of(result)
        broke = tried.setdefault(where, {})
        words = fault_in_words(result)
        broke[words] = broke.get(words, False) or outcome in result["outcomes"]
    parts: dict[str, None] = {}
    for result in same:
        sort, place = sort_of(result["fault"], result.get("second")), place_of(result)
        broke = tried[sort, place]
        if sort not in SORTS or sum(broke.values()) == 1:
            parts[f"{place}: {fault_in_words(result)}"] = None
        elif all(broke.values()):
            parts[f"every {sort} of {place} ({len(broke)})"] = None
        else:
            parts[f"{sum(broke.values())} of {len(broke)} {sort}s of {place}"] = None
    named, others = list(parts)[:NAMED], len(parts) - NAMED
    return "; ".join(named) + (f"; and {plural(others, 'other fault')}" if others > 0 else "")
