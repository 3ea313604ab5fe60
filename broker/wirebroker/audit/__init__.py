"""The audit in the small: was delivery exactly once? Pure Python over what is stored; the Spark audit finds the same kinds.

findings        the kinds, and the rows that the checks read
checks          batches of one partition → findings
reconcile       records by their content, and against a journal → findings
journal         what an application meant to send
content         the hashes by which records are known again
stored          what a broker, or a segment, holds → rows
replay          arrivals judged again under other rules
report          all of it together
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirebroker.audit.findings import Finding
    from wirebroker.audit.journal import Intended, Journal
    from wirebroker.audit.replay import what_if
    from wirebroker.audit.report import AuditReport

__all__ = ["AuditReport", "Finding", "Intended", "Journal", "what_if"]
_HOMES = {
    "AuditReport": "report", "Finding": "findings", "Intended": "journal", "Journal": "journal", "what_if": "replay",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import on first use: an application that only keeps a journal needs nothing of a broker."""
    if name in _HOMES:
        return getattr(import_module(f"wirebroker.audit.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'wirebroker.audit' has no attribute {name!r}")
