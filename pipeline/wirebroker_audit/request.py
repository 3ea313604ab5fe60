"""The input of an audit, which is checked before Spark starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker.client.settings import Access, BadConfig
from wirebroker_audit.checks.against_table import BadTable, Description, is_description, read_description
from wirebroker_audit.checks.pipeline import Pipeline
from wirebroker_audit.folding.since import BadReport, ReportState, read_state
from wirebroker_audit.inputs.journal import BadJournal, check_journal
from wirebroker_audit.inputs.pipelines import BadPipeline, read_pipelines
from wirebroker_audit.inputs.policy import BadPolicy, Policies, read_policies
from wirebroker_audit.inputs.trace import BadTrace
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions
from wirebroker_audit.logs.places import is_elsewhere
from wirebroker_audit.logs.planning import SMALL_BYTES, is_small
from wirebroker_audit.logs.tiered import check_store
from wirebroker_audit.reading.folders import PartitionFolder
from wirebroker_audit.report.folder import SUMMARY, CannotWrite, is_ours
from wirebroker_audit.wire import PLAINTEXT, BrokerError, ask

RECORDS_LIMIT = 1_000_000
"""A topic with more records than this is compared batch by batch, unless a journal names records."""
REFUSALS = (
    NotALogDirectory,
    BrokerError,
    BadConfig,
    BadReport,
    BadJournal,
    BadPipeline,
    BadPolicy,
    BadTable,
    BadTrace,
    CannotWrite,
)
"""Errors in the input; their texts are for the user."""


class CannotAudit(Exception):
    """Raised if the audit cannot be carried out. The message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Request:
    """The input of an audit, and the place of its report."""

    out: Path
    path: Path | None = None
    remote_store: Path | None = None
    """where the brokers of `path` keep the segments of tiered topics"""
    bootstrap: str | None = None
    topics: tuple[str, ...] = ()
    trace: str | None = None
    intended: str | None = None
    """a journal, or a TOML file that describes the application's table"""
    expiration_ms: int = EXPIRATION_MS
    records_limit: int = RECORDS_LIMIT
    policy: str | None = None
    """a TOML file with policies for topics"""
    together: bool = True
    """whether the driver may read a small log"""
    fail_on: str | None = None
    """the lowest severity that makes the audit fail; None: the severity in the policy, by default likely"""

    since: Path | None = None
    """an earlier report that this audit continues"""
    access: Access = PLAINTEXT
    """how to reach the cluster of `bootstrap`"""
    pipeline: tuple[str, ...] = ()
    """pipelines, or TOML files that describe pipelines"""
    match: str | None = None
    """how records are matched in pipelines without a `match` of their own"""

    @property
    def policies(self) -> Policies:
        """The policies for topics. Raises BadPolicy."""
        return read_policies(self.policy, self.fail_on)

    @property
    def table(self) -> Description | None:
        """The application's table, if the journal is a table. Raises BadTable."""
        return read_description(self.intended) if self.intended is not None and is_description(self.intended) else None

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """The pipelines to follow. Raises BadPipeline, BadTable."""
        return read_pipelines(self.pipeline, self.match)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings that a session on this machine needs to read the tables. Raises BadPipeline, BadTable."""
        tables = [table for table in (self.table, *(each.table for each in self.pipelines)) if table is not None]
        names = {name for each in tables for name in each.settings}
        return {name: ",".join(each.settings[name] for each in tables if name in each.settings) for name in names}

    def with_expiration(self, expiration_ms: int) -> Request:
        """Returns the same request with another producer.id.expiration.ms."""
        return replace(self, expiration_ms=expiration_ms)

    def earlier_state(self) -> ReportState | None:
        """Returns how far the earlier report has read, or None without an earlier report. Raises BadReport."""
        if self.since is None:
            return None
        return read_state(
            self.since, is_cluster=self.bootstrap is not None, expiration_ms=self.expiration_ms,
            with_remote=self.remote_store is not None,
        )  # fmt: skip

    def looks_small(self) -> bool:
        """Tells whether the sizes of the files show that the log and the other inputs are small. Raises NotALogDirectory."""
        if self.path is None or self.remote_store is not None:
            return False
        return self.inputs_are_small() and is_small(find_partitions(self.path, self.topics))

    def inputs_are_small(self) -> bool:
        """Tells whether the driver can read the trace and the journal too."""
        paths = [path for path in (self.trace, self.intended) if path is not None]
        return all(not is_elsewhere(path) and _bytes_of(Path(path)) <= SMALL_BYTES for path in paths)

    @property
    def journal_bytes(self) -> int:
        """The size of the journal; 0 without a journal, or if it is not in the file system."""
        return 0 if self.intended is None or is_elsewhere(self.intended) else _bytes_of(Path(self.intended))

    def check(self, own: str = SUMMARY) -> None:
        """Check the input before Spark starts. `out` may be replaced only if it has the file `own`. Raises CannotAudit."""
        try:
            for name, path in (("--trace", self.trace), ("--intended", self.intended), ("--policy", self.policy)):
                if path is not None and not is_elsewhere(path) and not Path(path).exists():
                    raise CannotAudit(f"{name} {path}: there is no such file")
            read_policies(self.policy, self.fail_on)
            _ = self.pipelines
            self.earlier_state()
            if self.table is None and self.intended is not None and not is_elsewhere(self.intended):
                check_journal(self.intended)
            partitions = find_partitions(self.path, self.topics) if self.path is not None else []
            if self.remote_store is not None:
                check_store(self.remote_store)
            if self.bootstrap is not None:
                ask(self.bootstrap, self.topics, self.access)
        except REFUSALS as refused:
            raise CannotAudit(str(refused)) from refused
        if (log_dir := _log_dir_above(self.out, partitions)) is not None:
            raise CannotAudit(
                f"--out {self.out} lies in the log directory {log_dir}, and a broker refuses to start if it finds other "
                "folders there; choose another place with --out"
            )
        if self.out.exists() and not is_ours(self.out, own):
            raise CannotAudit(f"{self.out} exists and is not a report of an audit; choose another place with --out")


def _log_dir_above(out: Path, partitions: Sequence[PartitionFolder]) -> Path | None:
    """Returns the log directory that contains `out`, or None. The function looks for the parent folders of the partitions,
    because the audit may have been given only a partition's folder."""
    log_dirs = {each.path.resolve().parent for each in partitions}
    return next((folder for folder in (out.resolve(), *out.resolve().parents) if folder in log_dirs), None)


def _bytes_of(path: Path) -> int:
    """Returns the size of a file, or of all files in a folder."""
    return sum(each.stat().st_size for each in path.rglob("*")) if path.is_dir() else path.stat().st_size
