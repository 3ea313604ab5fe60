"""Metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from wirebroker.common.exposition import Family, Sample, exposition
from wirebroker.control.controlled import Controlled

MOST_GROUPS = 1_000
"""The largest number of groups that have metrics."""
LONGEST = 249
"""A label shows at most this many characters of a group's id. A topic's name is never longer than this."""


def metrics(controlled: Controlled) -> str:
    """Returns metrics for Prometheus.

    A broker and a proxy report connections, open transactions and the lag of groups. A proxy also reports requests, errors and
    times by API, client id and principal. The proxy begins to count at the first scrape, and stops 10 minutes after the last
    scrape. While the proxy counts, it decodes every request and response, as for the trace's level `exchanges`. The time of a
    Fetch includes its wait at the broker. After 2,000 combinations of API, client id and principal, further clients are counted
    as `(others)`.
    """
    families = [
        Family("wirebroker_connections", "gauge", "Connections of clients.", [Sample({}, controlled.connections)]),
        Family(
            "wirebroker_cluster_reachable", "gauge", "0 if a broker of the cluster cannot be reached, else 1.",
            [Sample({}, int(not controlled.problem))],
        ),
    ]  # fmt: skip
    return exposition([*families, *_transactions(controlled), *_groups(controlled), *controlled.families()])


def _transactions(controlled: Controlled) -> Iterable[Family]:
    started = [each.started for each in controlled.transactions().values() if each.state == "Ongoing"]
    oldest = max((controlled.now - min(started)) / 1000, 0) if started else 0
    yield Family("wirebroker_open_transactions", "gauge", "Transactions that are open.", [Sample({}, len(started))])
    yield Family(
        "wirebroker_oldest_open_transaction_seconds", "gauge", "The age of the oldest open transaction.", [Sample({}, oldest)]
    )


def _groups(controlled: Controlled) -> Iterable[Family]:
    groups = islice(controlled.groups().values(), MOST_GROUPS)
    members, lags = [], []
    for group in groups:
        of = {"group": group.group_id[:LONGEST]}
        members.append(Sample(of, len(group.members)))
        by_topic: dict[str, int] = {}
        for each in group.offsets:
            if each.lag >= 0 and not each.pending:
                by_topic[each.topic] = by_topic.get(each.topic, 0) + each.lag
        lags += [Sample(of | {"topic": topic}, lag) for topic, lag in by_topic.items()]
    yield Family("wirebroker_group_members", "gauge", "Members of a group.", members)
    yield Family("wirebroker_group_lag", "gauge", "Offsets between commits and high watermarks, where both are known.", lags)
