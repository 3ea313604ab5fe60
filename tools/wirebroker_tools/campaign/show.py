"""An exploration on the terminal: the plain run, a bar, and each way in which the application broke."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from kafkawire.printable import printable
from wirebroker.audit.findings import plural
from wirebroker.common.console import Output
from wirebroker_tools.campaign.cases import Case, Result
from wirebroker_tools.campaign.exploration import Exploration
from wirebroker_tools.campaign.findings import Finding
from wirebroker_tools.campaign.misfortunes import is_slow
from wirebroker_tools.campaign.words import NAMES, fault_in_words, place_of

WIDTH = 128
"""The width in columns, if the output is not a terminal."""
BAR = 19
"""The width of the progress bar in columns."""
SHOWN_APIS = 6


def bar(console: Console) -> Progress:
    """Shows the progress of a campaign on a terminal, and nothing elsewhere."""
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class Screen:
    """Prints an exploration."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Output(highlight=False)
        if console is None and not self.console.is_terminal:
            self.console.width = WIDTH

    def _say(self, *parts: str | tuple[str, str]) -> None:
        text = Text("  ")
        for part in parts:
            text.append(printable(part if isinstance(part, str) else part[0]), "" if isinstance(part, str) else part[1])
        try:
            self.console.print(text, soft_wrap=True)
        except OSError:  # a full disk does not end the exploration, whose report is in files; `main` reports the error
            self.console.quiet = True

    def plain(self, exploration: Exploration) -> None:
        """Shows the run without faults, and the differences between the plain runs."""
        run = exploration.plain
        stored = sum(map(len, run.stored.values()))
        shown = [f"{count} {api}" for api, count in run.requests.most_common(SHOWN_APIS)]
        more = " …" if len(run.requests) > SHOWN_APIS else ""
        self._say(f"plain run   {', '.join(shown)}{more}   {run.seconds:.1f} s   stored {stored}, exit {run.exit}")
        for notice in exploration.expected.notices:
            self._say(("note", "yellow"), f": {notice}")

    def plan(self, exploration: Exploration, at_once: int) -> None:
        """Before the cases are played, shows their number and their estimated time."""
        self._say(f"to try      {plan(exploration, exploration.table, at_once)}")

    @contextmanager
    def progress(self, exploration: Exploration) -> Iterator[Progress]:
        """Shows a bar on a terminal while the cases are played, and nothing elsewhere."""
        requests = sum(map(len, exploration.places.values()))
        with bar(self.console) as progress:
            progress.add_task(f"trying faults at {requests} requests", total=len(exploration.table))
            yield progress

    def results(
        self, summary: Mapping[str, Any], results: Sequence[Result], findings: Sequence[Finding], seconds: float, requests: int
    ) -> None:  # fmt: skip
        """Shows all outcomes."""
        counts = summary["summary"]
        tried = f"tried {plural(counts['runs'], 'fault')} at {plural(requests, 'request')}"
        if self.console.is_terminal:
            count = counts["runs"] + counts["not_tried"]
            done = BAR if not count else BAR * counts["runs"] // count
            bar = ("█" * done, "green"), ("█" * (BAR - done), "dim")
            self._say(f"{tried}  ", *bar, f"  {counts['runs']}/{count}  {_time(seconds)}")
        else:
            self._say(f"{tried} in {_time(seconds)}")
        for found in findings:
            name = NAMES[found.outcome]
            self._say((f"{name:<12}", "bold red"), f"{plural(len(found.ways), 'way'):<9}{found.sentence}")
            self._say(" " * 21, f"usual cause: {found.cause}")
            self._say(" " * 21, f"look at: {found.look_at}")
        self._say(f"fails, and says so   {counts['failed']}      as before   {counts['as_before']}")
        if counts["kafka_defect"]:
            why = "Kafka 4.3.1 itself loses the first batch on a partition if it refuses this batch while others are in flight"
            self._say(f"by KAFKA-15591   {counts['kafka_defect']}: {why}")
        if counts["not_fired"]:
            self._say(f"{plural(counts['not_fired'], 'run')} ended before the fault could strike")
        slower = [result for result in results if result.get("slower")]
        if slower:
            worst = max(slower, key=lambda each: each["slower"])
            what = f"{place_of(worst)}: {fault_in_words(worst)}"
            self._say(f"slower   {len(slower)}, at worst ×{worst['slower']:g}: {what}")
        if counts["not_tried"]:
            self._say(("not tried", "yellow"), f"   {counts['not_tried']}: the budget was used up; --resume tries the rest")

    def say(self, sentence: str) -> None:
        self._say(sentence)


def plan(exploration: Exploration, table: Sequence[Case], at_once: int = 1) -> str:
    """Returns the number of cases and their estimated time, in words."""
    slow = sum(map(is_slow, table))
    about = f"about {_time(exploration.plain.seconds * (len(table) - slow) / max(at_once, 1))}"
    waiting = f", and {slow} that wait for the client's own timeout" if slow else ""
    budget = "" if exploration.budget is None else f"; the budget of {_time(exploration.budget)} buys the likely culprits first"
    return f"{plural(len(table), 'fault')}: {about}{waiting}{budget}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
