"""The checks on made-up histories: every planted fault is found and nothing else, and innocence is not suspected."""

from __future__ import annotations

import random

import pytest

from audit_histories import ALONE, EXPIRATION, FAULTS, Expected, History
from wirebroker.audit.checks import Bounds, check_partition
from wirebroker.audit.findings import Finding

SEEDS = range(120)


def found(history: History) -> list[Finding]:
    return check_partition(history.entries, Bounds(history.log_start, history.cleaned_to, EXPIRATION))


def brief(finding: Finding) -> Expected:
    return Expected(finding.kind, *finding[4:10])


def hold(history: History, seed: int) -> None:
    findings = found(history)
    assert sorted(map(brief, findings)) == sorted(history.expected), (
        f"seed {seed}, log start {history.log_start}, cleaned to {history.cleaned_to}\n"
        + "\n".join(map(str, history.entries))
    )


def test_innocent_histories_give_no_finding() -> None:
    for seed in SEEDS:
        hold(History(seed), seed)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_found_and_nothing_else(fault: str) -> None:
    for seed in SEEDS:
        hold(History(seed, (fault,)), seed)


def test_several_faults_at_once() -> None:
    together = [*ALONE, "crc", "bad_batch", "unreadable", "torn_tail"]
    for seed in SEEDS:
        hold(History(seed, tuple(random.Random(seed).sample(together, 4))), seed)
