"""Prints the outcomes as a table on the console, and formats them as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ecosystem.interop.checks import CHECKS, FAIL, NOT_OFFERED, NOT_RUN, PASS, Outcome

SIGNS = {
    PASS: "[green]pass[/]", FAIL: "[bold red]FAIL[/]", NOT_OFFERED: "[dim]–[/]", NOT_RUN: "[yellow]not run[/]",
}  # fmt: skip
MARKS = {PASS: "✓", FAIL: "✗", NOT_OFFERED: "–", NOT_RUN: ""}


def show(console: Console, outcomes: Sequence[Outcome], checks: Sequence[str]) -> None:
    """Print a table with a row for each check and a column for each client. Then print every failure with its reason."""
    table = Table(header_style="bold")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(f"{outcome.client}\n[dim]{outcome.version.replace(' (', chr(10) + '(')}[/]", justify="center")
    for check in checks:
        table.add_row(check, *[SIGNS[outcome.result(check)] for outcome in outcomes])
    console.print(table)
    for outcome in outcomes:
        if outcome.missing:
            console.print(f"[yellow]{outcome.client} was not run[/]: {outcome.missing}", highlight=False)
        for check in outcome.failed:
            console.print(f"[red]{outcome.client} {check}[/]:", end=" ")
            console.print(outcome.results[check].detail, markup=False, highlight=False)


def markdown(outcomes: Sequence[Outcome], checks: Sequence[str]) -> str:
    """Returns a table with a row for each client that ran, and a line that explains the table's headings and marks."""
    lines = [
        "| client | version | " + " | ".join(check.replace("-", " ") for check in checks) + " |",
        "|---|---|" + ":-:|" * len(checks),
    ]
    for outcome in outcomes:
        if not outcome.missing:
            marks = " | ".join(MARKS[outcome.result(check)] for check in checks)
            lines.append(f"| {outcome.client} | {outcome.version} | {marks} |")
    headings = {check.replace("-", " "): CHECKS[check] for check in checks}
    told = "; ".join(f"{heading}: {text}" for heading, text in headings.items() if heading != text)
    explained = textwrap.fill(f"✓ passes, ✗ fails, – is not offered by the client. The checks: {told}.", 120)
    return "\n".join(lines) + f"\n\n{explained}\n"
