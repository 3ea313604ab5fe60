"""The order of an exploration's cases: the first 60 runs meet each planted bug.

The programs in tests/explored/planted.py have sent these requests in a run without faults. The programs do not run here.
Instead, a function for each bug tells which faults reveal the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.errors import ErrorCode
from wirebroker.faults.files import read_rule
from wirebroker_tools.campaign.application import Application, Run
from wirebroker_tools.campaign.cases import Case, Result, Results
from wirebroker_tools.campaign.exploration import Exploration
from wirebroker_tools.campaign.findings import (
    NOT_ACKNOWLEDGED,
    NOT_IDEMPOTENT,
    OUTSIDE,
    SKIPPED,
    UNREAD_OR_COMMITTED,
    findings,
)
from wirebroker_tools.campaign.misfortunes import BUSY_MS, Asked, Choice, Place, cases, is_slow, matched
from wirebroker_tools.campaign.order import FINAL, LOST_RESPONSE, RECOVERED, SORTS, Queue, in_order, sort_of
from wirebroker_tools.campaign.workers import workers

WITHIN = 60
TIMEOUT_S = 1.0

Requests = dict[Place, list[Asked]]


def requests(client_id: str, *words: str, **facts: Any) -> Iterator[tuple[Place, list[Asked]]]:
    """Yields classes of requests: `API:topic`, the version, and the number of requests."""
    for word in words:
        name, version, count = word.split()
        api, _, topic = name.partition(":")
        yield Place(api, client_id, topic or None), [Asked(int(version), 50, **facts) for _ in range(int(count))]


READER = dict(requests(
    "reader", "ApiVersions 3 3", "Metadata 13 6", "FindCoordinator 2 3", "JoinGroup 5 2", "SyncGroup 3 1", "Heartbeat 3 1",
    "OffsetFetch 9 1", "ListOffsets 7 1", "Fetch 16 5", "LeaveGroup 1 1",
))  # fmt: skip
COMMITS = dict(requests("reader", "OffsetCommit 9 4"))
CONNECTS = "ApiVersions 3 2", "Metadata 13 3"


def writer(client_id: str, *topics: str, idempotent: bool = True) -> Requests:
    begins = dict(requests(client_id, *CONNECTS, *["InitProducerId 4 1"] * idempotent))
    return begins | dict(requests(client_id, *(f"Produce:{topic} 10 4" for topic in topics), acks=-1, idempotent=idempotent))


WRITER = READER | writer("writer", "audit", "invoices") | COMMITS
CARELESS = READER | writer("writer", "audit") | writer("careless", "invoices", idempotent=False) | COMMITS
TRANSACTIONS = READER | dict(requests("writer", *CONNECTS)) | dict(requests(
    "writer", "FindCoordinator 2 2", "InitProducerId 4 1", "AddOffsetsToTxn 0 4", "AddPartitionsToTxn 0 4",
    "TxnOffsetCommit 3 4", "EndTxn 1 4", transactional_ids=("billing",),
)) | dict(requests(
    "writer", "Produce:audit 10 4", "Produce:invoices 10 4", acks=-1, idempotent=True, transactional_ids=("billing",),
))  # fmt: skip


def is_at(case: Case, api: str, topic: str | None = None) -> bool:
    return case["api"] == api and case["fault"].get("topic") == topic


def needs_abort(case: Case) -> bool:
    refused = sort_of(case["fault"]) == FINAL and case["api"] == "Produce"
    return refused or case["fault"].get("code") == "TRANSACTION_ABORTABLE"


BUGS: dict[str, tuple[Requests, Callable[[Case], bool]]] = {
    "one error ignored": (
        WRITER, lambda case: is_at(case, "Produce", "invoices") and case["fault"].get("code") == "TOPIC_AUTHORIZATION_FAILED",
    ),
    "too large, so skipped": (
        WRITER, lambda case: is_at(case, "Produce", "invoices") and case["fault"].get("code") == "MESSAGE_TOO_LARGE",
    ),
    "second topic unread": (WRITER, lambda case: is_at(case, "Produce", "invoices") and sort_of(case["fault"]) == FINAL),
    "only the last result read": (
        WRITER, lambda case: is_at(case, "Produce", "invoices") and sort_of(case["fault"]) == FINAL and case["nth"] < 4,
    ),
    "last result unread": (
        WRITER, lambda case: is_at(case, "Produce", "audit") and sort_of(case["fault"]) == FINAL and case["nth"] == 4,
    ),
    "retries without idempotence": (
        CARELESS, lambda case: is_at(case, "Produce", "invoices") and case["fault"]["kind"] in ("lose_ack", "cut"),
    ),
    "sent again after a timeout": (WRITER, lambda case: is_at(case, "Produce", "invoices") and "times" in case["fault"]),
    "sent again after a timeout of its own": (
        WRITER, lambda case: is_at(case, "Produce", "invoices") and case["fault"].get("ms") == BUSY_MS,
    ),
    "stops after an error of the coordinator": (
        WRITER, lambda case: is_at(case, "OffsetCommit") and sort_of(case["fault"]) == RECOVERED,
    ),
    "never joins again": (WRITER, lambda case: is_at(case, "Heartbeat") and sort_of(case["fault"]) == RECOVERED),
    "read twice after an expired session": (WRITER, lambda case: case["fault"]["kind"] == "expire_member"),
    "fatal error ignored": (
        TRANSACTIONS, lambda case: case["fault"].get("code") == "PRODUCER_FENCED" or case["fault"]["kind"] == "fence",
    ),
    "abort forgotten": (TRANSACTIONS, needs_abort),
    "commit of a transaction sent twice": (
        TRANSACTIONS, lambda case: is_at(case, "EndTxn") and sort_of(case["fault"]) == LOST_RESPONSE,
    ),
}  # fmt: skip


class Fake(Exploration):
    """An exploration in which no command runs. A client waits for `TIMEOUT_S` if a connection goes silent."""

    reveals: Callable[[Case], bool]

    def case(self, case: Case) -> Result:
        seconds = TIMEOUT_S if is_slow(case) else 0.1
        outcomes = ["lost" if self.reveals(case) else "as_before"]
        return {**case, "outcomes": outcomes, "exit": 0, "seconds": seconds, "fired": 1, "missing": ["x"], "sentence": "exit 0"}


def explored(plain: Requests, reveals: Callable[[Case], bool], folder: Path, jobs: int = 1) -> list[Result]:
    """Plays all cases with a simulated application. It loses a record in each case for which `reveals` returns true."""
    fake = Fake(Application((), thread=None), places=plain, plain=Run(0, 0.1))
    fake.reveals, fake.table = reveals, in_order(cases(plain, Choice()))
    results = Results(folder / "runs.jsonl")
    with workers(jobs=jobs) as players:
        found = list(fake.play(results, players))
    results.close()
    return found


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_met_early(bug: str, tmp_path: Path) -> None:
    found = explored(*BUGS[bug], tmp_path)
    first = min(result["order"] for result in found if result["outcomes"] == ["lost"])
    assert len(found) > 5 * WITHIN
    assert first <= WITHIN, first


@pytest.mark.parametrize("sort", SORTS)
def test_at_each_request_another_fault_comes_first(sort: str) -> None:
    table = in_order(case for case in cases(TRANSACTIONS, Choice()) if sort_of(case["fault"]) == sort)
    for place in {matched(case) for case in table}:
        here = [case for case in table if matched(case) == place]
        codes, positions = {case["fault"].get("code") for case in here}, {case["nth"] for case in here}
        first = [next(case["fault"].get("code") for case in here if case["nth"] == nth) for nth in positions]
        assert len({*first}) == min(len(codes), len(positions)), place


@pytest.mark.parametrize("plain", [WRITER, CARELESS, TRANSACTIONS], ids=["writer", "careless", "transactions"])
def test_each_write_begins_with_one_fault_of_each_sort(plain: Requests) -> None:
    """A write first gets one fault of each sort. Only then does it get a second fault of any sort."""
    table = in_order(cases(plain, Choice()))
    assert sorted(case["id"] for case in table) == sorted(case["id"] for case in cases(plain, Choice()))
    for api in ("Produce", "OffsetCommit", "EndTxn"):
        for topic in {place.topic for place in plain if place.api == api}:
            tried = [sort_of(case["fault"]) for case in table[:WITHIN] if is_at(case, api, topic)]
            possible = {sort_of(case["fault"]) for case in table if is_at(case, api, topic)} & set(SORTS)
            repeated = next((number for number, sort in enumerate(tried) if sort in tried[:number]), None)
            assert possible <= set(tried[:repeated])


def test_runs_that_wait_for_the_client_leave_room_for_others() -> None:
    slow, quick = (
        {"id": name, "fault": {"kind": "lose_ack", "then": then}} for name, then in (("s", "silence"), ("q", "disconnect"))
    )
    queue = Queue([{**slow, "id": f"s{number}"} for number in range(3)] + [quick], slow_at_once=1)
    assert [(case["id"], case["order"]) for case in (next(queue), next(queue))] == [("s0", 1), ("q", 2)]
    assert next(queue)["id"] == "s1"  # no other cases are left
    queue.add_next([{**quick, "id": "q2"}])
    assert [case["id"] for case in queue] == ["q2", "s2"]


def test_a_client_that_gives_up_is_the_next_case(tmp_path: Path) -> None:
    found = explored(WRITER, lambda case: False, tmp_path)
    order = {result["id"]: result["order"] for result in found}
    given_up = {name: place for name, place in order.items() if name.endswith("silence-4")}
    assert len(given_up) == 3  # a case for each of the two topics, and for the commit
    assert all(place == order[name.removesuffix("-4")] + 1 for name, place in given_up.items())
    assert sorted(order.values()) == list(range(1, len(found) + 1))
    for result in found:
        read_rule(result["fault"])  # a broker can load the fault of every case


def test_a_plain_run_that_also_compiles_is_not_the_measure_of_time() -> None:
    for seconds in ((140.0, 3.0), (3.0, 140.0)):
        exploration = Exploration(Application((), thread=None))
        exploration.compare(*(Run(0, each) for each in seconds))
        assert exploration.plain.seconds == 3.0


def test_one_cause_is_one_finding(tmp_path: Path) -> None:
    found = explored(*BUGS["second topic unread"], tmp_path)
    (finding,) = findings(found, WRITER)
    assert (finding.cause, finding.look_at) == UNREAD_OR_COMMITTED
    assert finding.what == f"every fatal error of Produce to invoices ({len(finding.ways)})"
    assert len(finding.ways) == 7
    unseen = explored(WRITER, lambda case: case["api"] in ("Metadata", "Fetch") and sort_of(case["fault"]) == FINAL, tmp_path)
    assert [(each.cause, {case["fault"]["client_id"] for case in each.results}) for each in findings(unseen, WRITER)] == [
        (SKIPPED[0], {"reader"}), (UNREAD_OR_COMMITTED[0], {"writer"}),
    ]  # fmt: skip
    both = [{**each, "outcomes": ["lost", "doubled", "check_failed"]} for each in finding.results]
    assert [(each.outcome, each.results) for each in findings(both, CARELESS)] == [("lost", both)]
    outside = {place: asked for place, asked in TRANSACTIONS.items() if place.api != "TxnOffsetCommit"} | COMMITS
    (finding,) = findings(explored(outside, lambda case: case["nth"] == 4, tmp_path), outside)
    assert (finding.cause, finding.look_at) == OUTSIDE
    unconfirmed = dict(requests("writer", "Produce:invoices 10 4", acks=0))
    (finding,) = findings(explored(unconfirmed, lambda case: case["fault"]["kind"] == "lose_request", tmp_path), unconfirmed)
    assert (finding.cause, finding.look_at) == NOT_ACKNOWLEDGED
    (finding,) = findings(explored(*BUGS["retries without idempotence"], tmp_path), CARELESS)
    assert finding.outcome == "lost"
    doubled = [{**each, "outcomes": ["doubled"]} for each in finding.results]
    (finding,) = findings(doubled, CARELESS)
    assert (finding.cause, finding.look_at) == NOT_IDEMPOTENT


def test_every_code_of_a_case_exists() -> None:
    codes = {case["fault"].get("code", "NONE") for case in cases(TRANSACTIONS, Choice())}
    assert codes <= {code.name for code in ErrorCode}
