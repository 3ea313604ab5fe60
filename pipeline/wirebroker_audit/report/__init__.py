"""The report: what is shown of findings and batches, as one HTML page that needs nothing else."""

from wirebroker_audit.report.page import write_report

__all__ = ["write_report"]
