"""The checks and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CHECKS = {
    "produce": "produce idempotently, read back",
    "commit": "commit, read_committed sees it",
    "abort": "abort, read_committed does not",
    "fence": "a zombie is fenced",
    "offsets-in-transaction": "consume, transform, produce",
    "rebalance": "two members share (classic)",
    "rebalance-848": "two members share (KIP-848)",
    "share-group": "share, release, deliver again (KIP-932)",
    "streams": "count words exactly once (KIP-1071)",
    "topics": "create, grow, describe, delete",
    "configs": "alter and describe configs",
    "list-offsets": "list offsets",
    "delete-records": "delete records",
    "groups": "list, describe, delete groups",
    "transactions": "list and describe transactions",
    "tls": "produce and consume over TLS",
    "mtls": "produce and consume over TLS with a client's certificate",
    "sasl-plain": "log in by SASL PLAIN",
    "scram-sha-256": "log in by SCRAM, over TLS",
    "scram-sha-512": "log in by SCRAM",
    "oauthbearer": "log in by a token, over TLS",
    "acl": "the client names the refused topic, and goes on",
    "quota": "a quota slows it down",
}
"""Each check's id and purpose; programs/ has the code for each client."""

PASS, FAIL, NOT_OFFERED, NOT_RUN = "pass", "fail", "not offered", "not run"


@dataclass(slots=True)
class Result:
    """The result of one check of one client. `detail` says why the check failed, or is a remark."""

    result: str
    detail: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Outcome:
    """The results of one client. `missing` is the reason why the client did not run, or ""."""

    client: str
    version: str = ""
    missing: str = ""
    results: dict[str, Result] = field(default_factory=dict)

    @property
    def passed(self) -> list[str]:
        """The ids of the checks that passed."""
        return [check for check, found in self.results.items() if found.result == PASS]

    @property
    def failed(self) -> list[str]:
        """The ids of the checks that failed."""
        return [check for check, found in self.results.items() if found.result == FAIL]

    def result(self, check: str) -> str:
        """Returns PASS, FAIL, NOT_OFFERED or NOT_RUN for this check."""
        return NOT_RUN if self.missing else self.results[check].result if check in self.results else NOT_RUN

    def as_json(self) -> dict[str, Any]:
        """Returns the outcome as plain data that can be written as JSON."""
        results = {
            check: {"result": found.result, "detail": found.detail, "seconds": found.seconds}
            for check, found in self.results.items()
        }
        return {"client": self.client, "version": self.version, "missing": self.missing, "results": results}
