"""The report: findings and batches on one HTML page that needs no other file."""

from wirebroker_audit.report.page import write_report

__all__ = ["write_report"]
