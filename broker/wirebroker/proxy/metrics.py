"""Counts and times of forwarded exchanges, by API, client id and principal. The number of series is limited."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from wirebroker.common.exposition import Family, Sample
from wirebroker.trace.recorder import UNMEASURED, Stages

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of a histogram, in seconds."""
MOST_SERIES = 2_000
"""At most this many combinations of an API, a client id and a principal get their own series. The same limit applies to
combinations with an error."""
LONGEST_LABEL = 100
"""A label has at most this many characters of a client id or a principal."""
OTHERS = "(others)"
"""The label for the client ids and principals beyond `MOST_SERIES`. The number of labels is limited because clients choose
their ids.
"""
NO_RESPONSE = "NO_RESPONSE"
"""The error label for a request whose connection was closed before the response."""
PARTS = ("proxy", "upstream", "transfer")
"""The parts of an exchange's time: in the proxy, waiting until the broker's response begins, and receiving this response.
"""
US = 1_000_000

Who = tuple[str, str, str]
"""An API, a client id and a principal."""


class Metrics:
    """Counts and times of the exchanges since the metrics were first read."""

    def __init__(self) -> None:
        self._requests: dict[Who, list[int]] = {}
        """For each API, client id and principal: the number of exchanges, and the total µs of each part."""
        self._errors: dict[tuple[Who, str], int] = {}
        self._buckets: dict[tuple[str, str], list[int]] = {}
        """The number of exchanges in each bucket, by API and part. A bucket begins after the bound of the previous bucket, and
        includes its own bound.
        """
        self._sums: dict[tuple[str, str], int] = {}

    def passed(self, api: str, client_id: str | None, principal: str, errors: Iterable[str], stages: Stages) -> None:
        """Count an exchange that has ended. `stages` are the µs of the exchange's three parts, or UNMEASURED."""
        who = api, (client_id or "")[:LONGEST_LABEL], principal[:LONGEST_LABEL]
        if who not in self._requests and len(self._requests) >= MOST_SERIES:
            who = api, OTHERS, OTHERS
        counts = self._requests.setdefault(who, [0, 0, 0, 0])
        counts[0] += 1
        for error in errors:
            found = who, error
            if found not in self._errors and len(self._errors) >= MOST_SERIES:
                found = (api, OTHERS, OTHERS), OTHERS
            self._errors[found] = self._errors.get(found, 0) + 1
        if stages is UNMEASURED:
            return
        for index, (part, us) in enumerate(zip(PARTS, stages, strict=True), 1):
            counts[index] += us
            where = api, part
            self._buckets.setdefault(where, [0] * (len(BUCKETS_S) + 1))[bisect_left(BUCKETS_S, us / US)] += 1
            self._sums[where] = self._sums.get(where, 0) + us

    def families(self) -> Iterable[Family]:
        """Returns the metrics in the format of Prometheus."""
        labels = "api", "client_id", "principal"
        requests = [(dict(zip(labels, who, strict=True)), counts) for who, counts in self._requests.items()]
        yield Family(
            "wirebroker_proxy_requests_total", "counter", "Requests that got a response, or that get none (acks=0).",
            [Sample(of, counts[0]) for of, counts in requests],
        )  # fmt: skip
        yield Family(
            "wirebroker_proxy_errors_total", "counter",
            "Errors in responses, and requests whose connection ended before the response.",
            [Sample(dict(zip(labels, who, strict=True)) | {"error": error}, n) for (who, error), n in self._errors.items()],
        )  # fmt: skip
        yield Family(
            "wirebroker_proxy_seconds_total", "counter",
            "The time of exchanges by part: in the proxy, until the broker's response began, until its last byte arrived.",
            [Sample(of | {"part": part}, counts[at] / US) for of, counts in requests for at, part in enumerate(PARTS, 1)],
        )  # fmt: skip
        yield Family(
            "wirebroker_proxy_part_seconds", "histogram", "The time of each part of exchanges.", list(self._histograms())
        )

    def _histograms(self) -> Iterable[Sample]:
        for (api, part), counts in self._buckets.items():
            of = {"api": api, "part": part}
            below = 0
            for end, n in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
                below += n
                yield Sample(of | {"le": end}, below, "_bucket")
            yield Sample(of, self._sums[api, part] / US, "_sum")
            yield Sample(of, below, "_count")
