"""Audit a log directory every night; each audit continues where the previous report ended. Put this file into Airflow's DAGs
folder.

The task fails without a retry if the audit has findings, and is retried if the audit could not read everything. The extra
`audit` and Java must be installed where the tasks run.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from wirebroker.commands.cli import main

try:
    from airflow.exceptions import AirflowFailException
    from airflow.sdk import dag, task
except ImportError:  # a test of `audit_log` needs no Airflow
    dag = None

LOGS = os.environ.get("AUDIT_LOGS", "/var/lib/kafka/data")
REPORT = Path(os.environ.get("AUDIT_REPORT", "/var/lib/audit/report"))


def audit_log(logs: str, report: Path) -> int:
    """Audit the part of the log after the end of the last report, and replace the report. Returns the exit code of `wirebroker
    audit`.
    """
    arguments = ["audit", "--path", logs, "--out", str(report)]
    summary = report / "summary.json"
    if summary.exists() and json.loads(summary.read_text())["complete"]:
        arguments += ["--since", str(report)]
    return main(arguments)


if dag is not None:

    @dag(schedule="0 3 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
    def nightly_audit() -> None:
        @task(retries=2)
        def audit() -> None:
            code = audit_log(LOGS, REPORT)
            if code == 1:
                raise AirflowFailException(f"the audit has findings: {REPORT / 'report.html'}")
            if code:
                raise RuntimeError(f"the audit ended with exit code {code}; its log has the reason")

        audit()

    nightly_audit()
