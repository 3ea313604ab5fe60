"""The folder of a report: its files, and how a new report replaces the earlier one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wirebroker_audit.folding.since import BATCHES, COVERED, RUNS
from wirebroker_audit.report.history import HISTORY

SUMMARY = "summary.json"
SIGNED = ("SHA256SUMS", "SHA256SUMS.minisig", "SHA256SUMS.asc", "SHA256SUMS.sigstore.json")
"""The digests of a report's files, and signatures that other programs have added."""
LIVE = "live"
"""The folder with the state of the live audit (`--follow`)."""
CURRENT = "findings.json"
"""The current findings of the live audit: `{"micro": 7, "counts": {…}, "severities": {…}, "findings": […]}`; replaced whole."""
WRITTEN = {
    SUMMARY: {SUMMARY, HISTORY, COVERED, "report.html", BATCHES, RUNS, "findings", "what_if", "table", *SIGNED},
    LIVE: {LIVE, CURRENT},
}
"""The files of a report and of the live audit. A folder with any other file is not replaced."""


def is_ours(out: Path, own: str) -> bool:
    """Tells whether the folder has no files except an audit's files."""
    if not out.is_dir():
        return False
    names = {each.name for each in out.iterdir()}
    return not names or (own in names and names <= WRITTEN[own])


class CannotWrite(Exception):
    """Raised if a report cannot be written. The message gives the reason."""


def partial_of(out: Path) -> Path:
    """Returns the folder in which a report is written before it is moved to its place."""
    return out.with_name(f".{out.name}.partial")


@contextmanager
def whole_or_nothing(out: Path) -> Iterator[Path]:
    """Makes a temporary folder next to `out`. When the report is complete, this folder replaces `out`.

    The earlier report is first renamed and then removed. So `out` is a whole report or absent, no matter when the process ends.
    """
    partial, earlier = partial_of(out), out.with_name(f".{out.name}.earlier")
    shutil.rmtree(partial, ignore_errors=True)
    _put_back(earlier, out)
    try:
        partial.mkdir(parents=True)
        yield partial
        shutil.rmtree(earlier, ignore_errors=True)
        if out.exists():
            out.rename(earlier)
        partial.rename(out)
        shutil.rmtree(earlier, ignore_errors=True)
    except OSError as refused:
        raise CannotWrite(
            f"the report cannot be written: {refused.filename or out}: {refused.strerror or refused}"
        ) from refused
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _put_back(earlier, out)


def _put_back(earlier: Path, out: Path) -> None:
    if earlier.exists() and not out.exists():
        earlier.rename(out)
