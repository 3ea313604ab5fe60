"""Prints the demo: one line of a hundred columns for each batch, with colours on a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from rich.text import Text

from kafkawire.extras import how_to_install
from wirebroker.audit.report import AuditReport
from wirebroker.common.console import Output
from wirebroker.common.version import __version__
from wirebroker.core.releases import DEFAULT, release
from wirebroker_tools.commands.demo.clients import RECORDS, ClientResult
from wirebroker_tools.scenarios.play import Result
from wirebroker_tools.scenarios.show import VERDICTS
from wirebroker_tools.scenarios.show import Screen as Runs

WIDTH = 100
COLUMNS = {"sent": 6, "stored": 8, "twice": 7, "accepted": 10, "duplicate": 11, "rejected": 10}
"""The summary's columns, and their widths."""
STYLES = {"twice": "yellow"} | VERDICTS


class Screen:
    """Writes the demo to standard output, or to `stream`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Output(file=stream, highlight=False)
        self._console.width = min(WIDTH, self._console.width) if self._console.is_terminal else WIDTH
        self._runs = Runs(self._console)

    def begin(self, address: str) -> None:
        """Print the address of the broker, and what the clients will do."""
        self._console.print(
            f"[bold]wirebroker {__version__}[/] listens on {address} and responds as Apache Kafka {release(DEFAULT).version}"
        )
        self._heading("Clients", f"{RECORDS} records each, idempotence on, read back by a consumer group")

    def client(self, result: ClientResult) -> None:
        """Print one line for a client library."""
        line = Text("  ").append(f"{result.name:<24}")
        if result.skipped:
            line.append(f"skipped, {result.skipped}", "yellow")
        else:
            good = not result.differences
            line.append("ok  " if good else "DIFFERENT  ", "green" if good else "bold red")
            line.append(f"{result.acknowledged} acknowledged, {result.stored} stored, {result.read} read")
            line.append(f"  {len(result.rows)} batches", "dim")
        self._console.print(line)
        self._differences(result.differences)

    def flow(self, result: Result) -> None:
        """Print a heading, a line for each batch, and the outcome."""
        self._runs.result(result)
        if result.met:
            self._wrapped(Text("  "), result.scenario.good_client, "italic")

    def audit(self, clients: AuditReport, flows: Sequence[Result]) -> None:
        """Print the audits of the clients' broker and of each flow's broker."""
        self._heading("Audit", "was it exactly once? the stored records, compared with the records sent")
        for name, report in [("clients", clients), *((flow.scenario.name, flow.audit) for flow in flows)]:
            counts = report.summary()
            line = Text(f"  {name:<24}").append(f"{counts['batches']:>4} batches {counts['records']:>5} records   ")
            said = ", ".join(f"{kind} {count}" for kind, count in counts["findings"].items())
            self._console.print(line.append(said or "no finding", "yellow" if said else "green"))
        big = "`wirebroker audit` does the same on Spark, for logs of any size and for real clusters"
        missing = f"; to get it, {how_to_install('audit')}" if find_spec("pyspark") is None else ""
        self._wrapped(Text("  "), f"{big}{missing}.", "dim")

    def end(self, results: Sequence[ClientResult | Result], seconds: float) -> None:
        """Print the counts, a complete verdict, and the next steps."""
        self._heading("Summary", "records, and the verdicts on their batches")
        names = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
        self._console.print(Text(f"  {'':<24}{names}", "dim"))
        for result in results:
            self._console.print(_summary(result))
        self._in_full(results)
        wrong = sum(bool(result.differences) for result in results)
        self._console.print()
        if wrong:
            self._console.print(Text(f"{wrong} of {len(results)} parts did not go as expected.", "bold red"))
        else:
            skipped = sum(isinstance(result, ClientResult) and bool(result.skipped) for result in results)
            rest = f", {skipped} skipped" if skipped else ""
            self._console.print(Text(f"Everything went as expected{rest}, in {seconds:.1f} s.", "bold green"))
        self._console.print(f"Next: [bold]{_program()} serve --topic orders:3 --trace console[/], then your own client")

    def _in_full(self, results: Sequence[ClientResult | Result]) -> None:
        rejected = [row for result in results for row in result.rows if row.verdict == "rejected"]
        if rejected:
            self._heading("A verdict in full", "as `kafka.trace` and `--trace` have it for every batch")
            self._wrapped(Text("  "), rejected[0].explain)

    def _wrapped(self, line: Text, text: str, style: str = "") -> None:
        """Print `text` after `line`; wrapped lines are indented to the column where `text` begins."""
        indent = len(line)
        parts = textwrap.wrap(text, self._console.width - indent)
        self._console.print(line.append(f"\n{'':<{indent}}".join(parts), style))

    def _heading(self, name: str, title: str) -> None:
        self._console.print(Text("\n").append(name, "bold cyan").append(f"  {title}", "bold"))

    def _differences(self, differences: list[str]) -> None:
        for difference in differences:
            self._wrapped(Text("  "), f"DIFFERENT: {difference}", "bold red")


def _program() -> str:
    """Returns the command that starts wirebroker: `scripts/run` in a fresh clone, else `wirebroker`."""
    return "scripts/run" if shutil.which("wirebroker") is None and Path("scripts/run").exists() else "wirebroker"


def _summary(result: ClientResult | Result) -> Text:
    name = result.scenario.name if isinstance(result, Result) else result.name
    line = Text(f"  {name:<24}")
    if isinstance(result, ClientResult) and result.skipped:
        return line.append(f"{'skipped':>14}", "yellow")
    for column, width in COLUMNS.items():
        count = _count(result, column)
        line.append(f"{count:>{width}}", STYLES.get(column, "") if count else "dim")
    return line.append("  DIFFERENT" if result.differences else "", "bold red")


def _count(result: ClientResult | Result, column: str) -> int:
    if column in VERDICTS:
        return sum(row.verdict == column for row in result.rows)
    if isinstance(result, Result):
        counts = result.outcome.counts
        return {"sent": counts.sent, "stored": counts.stored, "twice": counts.doubled}[column]
    count: int = getattr(result, column)
    return count
