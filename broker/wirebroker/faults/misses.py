"""Remembers the requests that a rule did not match, in order to explain why it never fired.

The requests of the rule's APIs are remembered until the rule matches its first request. For these requests, the module
remembers the words that did not fit, and the requests' values for these words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

from wirebroker.common.suggestions import did_you_mean

MOST_REASONS = 50
"""Requests are counted for each combination of an API and the words that did not fit. There are at most this many
combinations."""
MOST_VALUES = 20
"""At most this many of the requests' values are remembered for each word."""
SHOWN_VALUES, SHOWN_APIS = 3, 6

Misfit = tuple[str, tuple[object, ...]]
"""A rule's word whose value does not fit a request, and the request's own values for this word."""


class _Reason(Struct):
    """The requests that differ from the rule in exactly the same words: the number of these requests, and their values for
    these words."""

    count: int = 0
    found: dict[str, dict[object, None]] = {}


class Misses:
    """Remembers the requests that a rule did not match. `arrived` has the number of requests of each API, which the
    plan counts for all rules together."""

    def __init__(self, arrived: Counter[str]) -> None:
        self._arrived = arrived
        self._before = arrived.copy()
        self._until: Counter[str] | None = None
        self._reasons: dict[tuple[str, tuple[str, ...]], _Reason] = {}

    def end(self) -> None:
        """Remember that the rule was unloaded. Requests that arrive later do not count."""
        self._until = self._arrived.copy()

    def add(self, api: str, misfits: Iterable[Misfit]) -> None:
        """Remember that a request, or a batch in a Produce request, did not fit the rule."""
        found = dict(misfits)
        key = api, tuple(found)
        if key not in self._reasons and len(self._reasons) >= MOST_REASONS:
            return
        reason = self._reasons.setdefault(key, _Reason())
        reason.count += 1
        for word, values in found.items():
            kept = reason.found.setdefault(word, {})
            kept |= dict.fromkeys(islice(values, max(MOST_VALUES - len(kept), 0)))

    def sentence(self, wanted: Mapping[str, object]) -> str:
        """Describes the requests that differed least from the rule, and the number of requests of each API that have
        arrived."""
        parts = [*self._nearest(wanted), self._arrivals()]
        return "; ".join(parts)

    def _nearest(self, wanted: Mapping[str, object]) -> Iterable[str]:
        """Describes the requests that came closest to the rule: those with the smallest number of words that did not fit."""
        fewest = min((len(words) for _, words in self._reasons), default=0)
        nearest = {key: reason for key, reason in self._reasons.items() if len(key[1]) == fewest}
        for (api, words), reason in sorted(nearest.items(), key=lambda each: -each[1].count)[:2]:
            instead = " and ".join(_listed(reason.found[word]) for word in words)
            verb = "was" if len(words) == 1 else "were"
            differ = f"{reason.count} {api} differed only in {' and '.join(words)}"
            yield f"{differ}, which {verb} {instead}{_advice(wanted, reason)}"

    def _arrivals(self) -> str:
        until = self._arrived if self._until is None else self._until
        counts = (until - self._before).most_common()
        if not counts:
            return "no request has arrived since the rule was loaded"
        total = sum(count for _, count in counts)
        shown = [f"{count} {api}" for api, count in sorted(counts, key=lambda each: (-each[1], each[0]))]
        more = [f"{len(shown) - SHOWN_APIS} more APIs"] if len(shown) > SHOWN_APIS else []
        plural = "request" if total == 1 else "requests"
        return f"since the rule was loaded, {total} {plural} arrived: {', '.join(shown[:SHOWN_APIS] + more)}"


def _listed(values: Iterable[object]) -> str:
    """Returns a list such as `'orders', 'payments' and others`, or "none" if there are no values."""
    names = [repr(each) for each in values]
    return ", ".join(names[:SHOWN_VALUES]) + (" and others" if len(names) > SHOWN_VALUES else "") or "none"


def _advice(wanted: Mapping[str, object], reason: _Reason) -> str:
    """Returns advice if a request's value is similar to the rule's value ("did you mean"), else ""."""
    for word, values in reason.found.items():
        asked = wanted.get(word)
        if isinstance(asked, str) and (advice := did_you_mean(asked, [each for each in values if isinstance(each, str)])):
            return advice
    return ""
