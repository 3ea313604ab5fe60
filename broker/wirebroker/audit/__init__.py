"""The audit without Spark: was delivery exactly once?

The audit reads the stored batches in pure Python. Its findings have the same sentences as the findings of the audit on Spark.

findings        the vocabulary of both audits: kinds, severities, rows
wording         the sentences of both audits
rules           the rule of each check, for both audits
checks          batches of one partition → findings
reconcile       records by their content, and against a journal → findings
matching        which stored copy is the original, for both audits
copies          which batches repeat earlier batches, for both audits
journal         the records that an application meant to send
content         the hashes that identify records
stored          the rows, from a broker's partitions or a segment's bytes
validator       a partition's arrivals judged under other rules, for both audits
other_rules     `what_if`: a whole trace judged under other rules
report          the findings and counts, as a table and as an assertion
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirebroker.audit.findings import Finding
    from wirebroker.audit.journal import Intended, Journal
    from wirebroker.audit.other_rules import what_if
    from wirebroker.audit.report import AuditReport

__all__ = ["AuditReport", "Finding", "Intended", "Journal", "what_if"]
_HOMES = {
    "AuditReport": "report", "Finding": "findings", "Intended": "journal", "Journal": "journal", "what_if": "other_rules",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import names on first use, because an application that only writes a journal needs no modules of the broker."""
    if name in _HOMES:
        return getattr(import_module(f"wirebroker.audit.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'wirebroker.audit' has no attribute {name!r}")
