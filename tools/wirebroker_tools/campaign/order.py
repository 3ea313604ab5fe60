"""The order in which cases are tried: within a time budget, the likely culprits come first.

The requests of one client, API and topic have a queue of cases. A queue begins with one fault of each of these sorts: an error
that is final, a lost response for which the client waits until its timeout, a retriable error, and an error from which clients
recover. The queues take turns. The more a lost request of an API matters, the more turns the API's queues get.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wirebroker.requests.errors import READING
from wirebroker_tools.campaign.cases import Case
from wirebroker_tools.campaign.misfortunes import HANDSHAKES, SILENT, is_slow
from wirebroker_tools.explain.error_codes import WRITES, is_final, is_retriable

LOST_RESPONSE, RETRIABLE, FINAL, RECOVERED = "lost response", "retriable error", "fatal error", "recoverable error"
SORTS = (FINAL, LOST_RESPONSE, RETRIABLE, RECOVERED)
"""The sorts that each contain several faults."""
RANKS = (
    FINAL, LOST_RESPONSE, "fence", "expire_member", RETRIABLE, RECOVERED, "delay", "crash_after_write", "expire_producer",
    "lost response, closed", "error after effect", "move_coordinator", "move_leader", "lost request", "late error",
)  # fmt: skip
"""The order of the sorts in a queue: the most likely culprits come first. Sorts that are not in this tuple come last."""
ANOTHER, LATER = 9, 6.5
"""A further fault of the same sort comes ANOTHER ranks later. A fault at a later request comes LATER ranks later."""
WRITE, OTHER, QUESTION, HANDSHAKE = 1.0, 1.5, 3.0, 6.0
"""The distance between two turns of a queue, by kind of API. A queue with a smaller distance gets more turns."""
QUESTIONS = READING - {"Fetch"} | {"InitProducerId", "LeaveGroup"}
"""APIs whose errors rarely make an application lose records."""


def sort_of(fault: Mapping[str, Any], second: Mapping[str, Any] | None = None) -> str:
    """Returns the sort of a case's fault. Faults of one sort have the same effect on most applications."""
    kind = fault["kind"]
    if kind == "lose_ack":
        return LOST_RESPONSE if fault.get("then") == SILENT else "lost response, closed"
    if kind == "lose_request":
        return "lost request"
    if kind == "delay" and second is not None:
        return "late error"
    if kind != "error":
        return str(kind)
    if fault.get("after"):
        return "error after effect"
    api, code = fault["api"], fault["code"]
    return RETRIABLE if is_retriable(code) else FINAL if is_final(api, code) else RECOVERED


def in_order(table: Iterable[Case]) -> list[Case]:
    """Returns the cases in the order in which they are tried. The order depends on nothing but the cases."""
    queues: dict[tuple[str, Any, Any], list[Case]] = defaultdict(list)
    for case in table:
        fault = case["fault"]
        queues[fault["api"], fault.get("topic"), fault.get("client_id")].append(case)
    clients: Counter[tuple[str, Any]] = Counter()
    turns: list[tuple[float, int, Case]] = []
    for place, ((api, topic, _), queue) in enumerate(queues.items()):
        clients[api, topic] += 1  # the requests of several clients often come from the same code
        distance = _distance(api) * clients[api, topic]
        turns += [(turn * distance, place, case) for turn, case in enumerate(_queue(queue), 1)]
    turns.sort(key=lambda each: each[:2])
    return [case for *_, case in turns]


def _queue(cases: Sequence[Case]) -> list[Case]:
    """Returns the cases of one class of requests, the likely culprits first.

    At each request, a different fault of the same sort comes first, because some applications handle only one error badly.
    """
    positions = sorted({case["nth"] for case in cases})
    positions = [*positions[:1], *positions[-1:], *positions[1:-1]]  # the order: first request, last request, the others
    of_sort: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in cases:
        of_sort[sort_of(case["fault"], case.get("second")), case["nth"]].append(case)
    ranks: dict[str, tuple[float, int]] = {}
    for (sort, nth), alike in of_sort.items():
        place = positions.index(nth)
        rank = (RANKS.index(sort) if sort in RANKS else len(RANKS)) + (LATER if place else 0)
        for number, case in enumerate(alike):
            ranks[case["id"]] = rank + ANOTHER * ((number - place) % len(alike)), place
    return sorted(cases, key=lambda case: ranks[case["id"]])


def _distance(api: str) -> float:
    if api in HANDSHAKES:
        return HANDSHAKE
    if api in QUESTIONS:
        return QUESTION
    return WRITE if api in WRITES or api == "OffsetCommit" else OTHER


class Queue(Iterator[Case]):
    """The cases that are still to be tried. When a case is taken, it gets a field `order`: its place in the order.

    A case that waits for a client's own timeout occupies a worker, but no processor. At most `slow_at_once` of these cases run
    at the same time.
    """

    def __init__(self, table: Iterable[Case], slow_at_once: int) -> None:
        self._cases = deque(table)
        self._slow_at_once = max(slow_at_once, 1)
        self._slow: set[str] = set()
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._cases)

    def __next__(self) -> Case:
        if not self._cases:
            raise StopIteration
        full = len(self._slow) >= self._slow_at_once
        at = next((at for at, case in enumerate(self._cases) if not (full and is_slow(case))), 0)
        case = self._cases[at]
        del self._cases[at]
        if is_slow(case):
            self._slow.add(case["id"])
        self._taken += 1
        return {**case, "order": self._taken}

    def ended(self, case_id: str) -> None:
        """Remember that a case has ended."""
        self._slow.discard(case_id)

    def add(self, cases: Iterable[Case]) -> None:
        """Add cases at the end."""
        self._cases.extend(cases)

    def add_next(self, cases: Sequence[Case]) -> None:
        """Add cases that come before all others."""
        self._cases.extendleft(reversed(cases))
