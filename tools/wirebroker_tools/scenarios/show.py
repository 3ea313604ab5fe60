"""Prints a run as text: the requests and their verdicts, the client's reports, and the log."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wirebroker.common.console import Output
from wirebroker.mock import StoredRecord
from wirebroker.testing.operations import commits
from wirebroker.trace.rows import ProduceRow
from wirebroker_tools.drivers import CLIENTS
from wirebroker_tools.scenarios.outcome import Counts
from wirebroker_tools.scenarios.play import Result
from wirebroker_tools.scenarios.scenario import RESULTS, TOPIC, Part, Scenario
from wirebroker_tools.scenarios.watch import Event, named

VERDICTS = {"accepted": "green", "duplicate": "yellow", "rejected": "red"}
WIDTH = 110
"""The number of columns if there is no terminal."""
LINES = 40
"""The output for one run has at most this many lines. If lines are left out, the last line has their number."""
AUDITED = 6
"""The output for one run shows at most this many audit findings."""
MARKS = {"recovers": "green", "fails cleanly": "cyan", "refuses": "cyan", "duplicates": "yellow", "reorders": "yellow",
         "loses": "bold red", "hangs": "bold red"}  # fmt: skip
COUNTED = {"sent": "sent", "stored": "stored", "lost": "lost", "doubled": "doubled", "displaced": "out of order",
           "failed": "failed"}  # fmt: skip
"""The counts that are shown, with their headings."""


class Screen:
    """Prints scenarios and their results."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Output(highlight=False)
        if console is None and not self.console.is_terminal:
            self.console.width = WIDTH

    # Scenarios

    def catalogue(self, scenarios: Iterable[Scenario]) -> None:
        """Print a table of the scenarios."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("name", "what happens", "clients"):
            table.add_column(heading, no_wrap=heading == "name", style="cyan" if heading == "name" else "")
        for each in scenarios:
            table.add_row(each.name, each.title, "all" if each.clients == list(CLIENTS) else ", ".join(each.clients))
        self.console.print(table)

    def describe(self, scenario: Scenario) -> None:
        """Print everything that a scenario's file contains."""
        self.console.print(Text(scenario.name, "bold cyan").append(f"  {scenario.title}", "bold"))
        self._field("broker", scenario.broker_does)
        self._field("good client", scenario.good_client)
        self._field("source", ", ".join(scenario.sources))
        if scenario.others:
            self._field("clients", f"{', '.join(scenario.clients)}: {scenario.others}")
        for part in scenario.parts:
            if part.name:
                self.console.print(Text(f"\n  {part.name}", "bold"))
            for rule in part.rules():
                self._field("fault", str(rule))
            for step in part.steps:
                self._field("step", ", ".join(f"{word} {_plain(value)}" for word, value in step.items()))
            self._field("expected", expectation(part))

    # Results

    def result(self, result: Result) -> None:
        scenario, part = result.scenario, result.part
        heading = Text("\n").append(scenario.name, "bold cyan").append(f"  {part.name or scenario.title}", "bold")
        self.console.print(heading.append(f"  {who(result)}", "dim"))
        if result.refusal:
            self._line(Text("  refused  "), result.refusal, "cyan")
        lines = list(_collapsed(result.events))
        for event, times in lines[:LINES]:
            self._event(event, times)
        if len(lines) > LINES:
            self.console.print(Text(f"  … {len(lines) - LINES} more", "dim"))
        self._told(result)
        self._stored(result)
        for found in result.audit.findings[:AUDITED]:
            self._line(Text("  the audit     "), f"{found.kind}: {found.explanation}", "yellow")
        self.verdict(result)

    def verdict(self, result: Result) -> None:
        """Print the outcome, and the differences from the expectation."""
        name = result.outcome.name
        line = Text("  ").append(name, MARKS[name]).append(f"  {summary(result.outcome.counts)}", "dim")
        self.console.print(line)
        for difference in result.outcome.differences:
            self._line(Text("  FINDING: ", "bold red"), difference, "bold red")

    def comparison(self, results: Sequence[Result]) -> None:
        """Print the counts of a scenario's parts, one row for each part."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("")
        for heading in COUNTED.values():
            table.add_column(heading, justify="right")
        table.add_column("outcome")
        for result in results:
            counts = [str(getattr(result.outcome.counts, name)) for name in COUNTED]
            table.add_row(Text(result.part.name), *counts, Text(result.outcome.name, MARKS[result.outcome.name]))
        self.console.print()
        self.console.print(table)

    def summary(self, results: Sequence[Result], skipped: dict[str, str]) -> None:
        """Print one line for each part of many scenarios."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("scenario", "part", "outcome", "finding"):
            table.add_column(heading)
        for result in results:
            ended = result.outcome.name
            table.add_row(
                Text(result.scenario.name, "cyan"), Text(result.part.name), Text(ended, MARKS[ended]),
                Text("; ".join(result.outcome.differences), "red"),
            )  # fmt: skip
        self.console.print(table)
        for name, why in skipped.items():
            self.console.print(Text(f"{name} was not run: {why}", "dim"))
        met = sum(result.met for result in results)
        self.console.print(f"{met} of {len(results)} parts ended as with a good client")

    def _event(self, event: Event, times: int) -> None:
        again = f"  × {times}" if times > 1 else ""
        if event.row is not None:
            line = Text(f"  {event.what:<7}  {sequences(event.row):<9}  ")
            line.append(f"{event.row.verdict:<9}", VERDICTS[event.row.verdict])
            line.append(f"  {response_text(event.row, event.unanswered):<9}  ", "magenta" if event.unanswered else "")
            self._line(line, reason(event.row) + again, "dim")
        elif event.mark:
            self.console.print(Text(f"  — {event.what} —", "bold blue"))
        elif event.fault is not None:
            line = Text(f"  {event.what:<7}  ").append("fault      ", "magenta")
            self._line(line, event.fault.rule.replace(", after=False", "") + again, "magenta")
        else:
            answered = event.errors or ("unheard" if event.unanswered else "")
            line = Text(f"  {event.what:<20}", "dim").append(answered, "magenta" if event.unanswered else "red")
            self.console.print(line.append(again, "dim") if answered or again else Text(f"  {event.what}", "dim"))

    def _told(self, result: Result) -> None:
        told = [(named([each.value]), each.offset, each.error) for each in result.journal.told]
        good = [(value, offset) for value, offset, error in told if not error]
        if good:
            self._line(Text("  acknowledged  "), _short(good))
        for error, same in groupby([each for each in told if each[2]], key=lambda each: each[2]):
            self._line(Text("  failed        "), f"{_short((value, -1) for value, *_ in same)}: {_cut(error)}", "red")
        for note in result.journal.notes:
            self._line(Text("  the client    "), f"{note.what}: {_cut(note.error)}", "red")

    def _stored(self, result: Result) -> None:
        for (topic, partition), records in groupby(result.log, key=lambda record: (record.topic, record.partition)):
            if topic == TOPIC and any(record.topic == RESULTS for record in result.log):
                continue
            values = [(_stored_as(record), -1) for record in records]
            self._line(Text(f"  the log       {topic}-{partition}: "), _short(values), "bold")

    def _field(self, name: str, text: str) -> None:
        self._line(Text(f"  {name:<13}", "dim"), text)

    def _line(self, line: Text, text: str, style: str = "") -> None:
        """Print `text` after `line`; wrapped lines are indented to the column where `text` begins."""
        indent = len(line)
        parts = textwrap.wrap(text, max(self.console.width - indent, 20)) or [""]
        self.console.print(line.append(f"\n{'':<{indent}}".join(parts), style))


def _collapsed(events: Sequence[Event]) -> Iterable[tuple[Event, int]]:
    """For each group of equal consecutive events, yields one event and the size of the group."""

    def same(event: Event) -> object:
        if event.row is not None:
            row = event.row
            return event.what, row.verdict, row.code, row.producer_epoch, row.base_offset, row.connection
        return event.what, event.fault and event.fault.rule, event.errors, event.unanswered

    for _, alike in groupby(events, key=same):
        found = list(alike)
        yield found[0], len(found)


def _short(words: Iterable[tuple[str, int]], limit: int = 24) -> str:
    """Returns a list of record values as text. A value is followed by its offset, if the offset is known. Consecutive records
    of one batch (A0, A1 …) appear as the batch's letter.
    """
    runs: list[list[tuple[str, int]]] = []
    for word in words:
        if runs and _follows(runs[-1][-1][0], word[0]):
            runs[-1].append(word)
        else:
            runs.append([word])
    shown = [_run(run) for run in runs[:limit]]
    return "  ".join(shown) + (f"  … {len(runs) - limit} more" if len(runs) > limit else "")


def _run(words: Sequence[tuple[str, int]]) -> str:
    (value, first), (_, last) = words[0], words[-1]
    offsets = "" if first < 0 else f" @{first}" if first == last else f" @{first}–{last}"
    return (_letters(value) or value) + offsets


def _follows(before: str, value: str) -> bool:
    """Tells whether the record `value` directly follows the record `before` in the same batch."""
    letters = _letters(value)
    return letters != "" and before == f"{letters}{int(value.removeprefix(letters)) - 1}"


def _letters(value: str) -> str:
    """If the value is from a batch with several records, returns its letters, such as "A" for A0. Otherwise returns ""."""
    found = re.fullmatch(r"([A-Z]+)\d+", value)
    return found[1] if found else ""


def _stored_as(record: StoredRecord) -> str:
    if record.control:
        return "| commit |" if commits(record) else "| abort |"
    return named([(record.value or b"").decode()])


def _cut(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def who(result: Result) -> str:
    """Returns the client and its version."""
    return _with_version(result.client, result.version)


def _with_version(client: str, version: str) -> str:
    return client if client == "wire" else f"{client} {version}"


def summary(counts: Counts) -> str:
    """Returns the counts as one line of text."""
    shown = [f"{getattr(counts, field)} {name}" for field, name in COUNTED.items() if getattr(counts, field)]
    if counts.failed_stored:
        shown.append(f"{counts.failed_stored} failed but stored")
    if counts.untold:
        shown.append(f"{counts.untold} without a report of the client")
    return ", ".join(shown)


def expectation(part: Part) -> str:
    """Returns a part's expectation in words."""
    texts = [_expected(part.expect)]
    texts += [f"{client}: {_expected(own)}" for client, own in part.expect.clients.items()]
    return "; ".join(texts)


def _expected(expect: Any) -> str:
    counts = {word: getattr(expect, word) for word in ("stored", "doubled", "lost", "failed")}
    said = [f"{count} {word}" for word, count in counts.items() if count is not None]
    return ", ".join([" or ".join(expect.outcome), *said])


def sequences(row: ProduceRow) -> str:
    """Returns first and last sequence, with the epoch if it is not 0."""
    if row.producer_id < 0:
        return "none"
    first, last = row.first_sequence, row.last_sequence
    pair = f"{first}" if first == last else f"{first}–{last}"
    return f"{pair} e{row.producer_epoch}" if row.producer_epoch else pair


def response_text(row: ProduceRow, unanswered: bool = False) -> str:
    """Returns a short text for the response."""
    if row.acks == 0 or unanswered:
        return "unheard" if row.acks else "no response"
    return f"error {row.code}" if row.code else f"offset {row.base_offset}"


def reason(row: ProduceRow) -> str:
    """Returns the explanation in the row, but leaves out the producer, the sequences and the verdict, because the printed line
    shows them already.
    """
    who = f"producer {row.producer_id} epoch {row.producer_epoch} on {row.topic}-{row.partition}"
    text = row.explain.partition(": ")[2].partition("; batches in the window")[0]
    text = re.sub(r"^sequences? \S+ (of (?=producer.*\b(is|are) batch))?", "", text.replace(who, "this producer"))
    text = re.sub(r"^(of this producer )?(is|are) ", "", text)
    for said in (", counted from the newest", " for this producer", ": this producer", ", which has no state here"):
        text = text.replace(said, "")
    return re.sub(r"sequences? (?=\d)", "", text)


def as_json(result: Result) -> dict[str, Any]:
    """Returns a run as JSON values, for scripts."""
    counts = result.outcome.counts
    return {
        "scenario": result.scenario.name, "part": result.part.name, "client": result.client, "version": result.version,
        "outcome": result.outcome.name, "met": result.met, "findings": result.outcome.differences,
        "counts": {name: getattr(counts, name) for name in counts.__slots__}, "refusal": result.refusal,
        "acknowledged": [[each.value, each.offset] for each in result.journal.told if not each.error],
        "failed": [[each.value, each.error] for each in result.journal.told if each.error],
        "calls": [[note.what, note.error] for note in result.journal.notes],
        "log": [
            [record.topic, record.partition, record.offset, None if record.control else (record.value or b"").decode()]
            for record in result.log
        ],
        "audit": [[found.kind, found.severity, found.explanation] for found in result.audit.findings],
        "requests": result.requests, "seconds": round(result.seconds, 2),
    }  # fmt: skip


def catalogue(scenarios: Iterable[Scenario]) -> str:
    """Returns the scenarios as a table in Markdown."""
    lines = ["| name | what the broker does | what a good client does | source |", "|---|---|---|---|"]
    for each in scenarios:
        sources = ", ".join(_linked(source) for source in each.sources)
        lines.append(f"| `{each.name}` | {each.broker_does} | {each.good_client} | {sources} |")
    return "\n".join(lines) + "\n"


def _linked(source: str) -> str:
    """Returns a source as a Markdown link if it has a URL."""
    if "#" in source:
        repository, _, number = source.partition("#")
        return f"[{source}](https://github.com/{repository}/issues/{number})"
    if source.endswith(": CHANGELOG.md"):
        return f"[{source}](https://github.com/{source.partition(':')[0]}/blob/master/CHANGELOG.md)"
    if source.startswith("KAFKA-"):
        return f"[{source}](https://issues.apache.org/jira/browse/{source})"
    return source


def outcomes(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns the outcomes of many runs of several clients (`as_json`), as tables in Markdown."""
    heads = list(dict.fromkeys(map(_head, results)))
    lines = [f"| scenario | part | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for (name, part), runs in groupby(results, key=lambda each: (each["scenario"], each["part"])):
        found = {_head(each): each for each in runs}
        cells = [_cell(found.get(head)) for head in heads]
        lines.append(f"| `{name}` | {part} | {' | '.join(cells)} |")
    lines += ["", "## Findings", ""]
    for each in results:
        if not each["met"]:
            where = f"`{each['scenario']}`" + (f", {each['part']}" if each["part"] else "")
            lines.append(f"* **{_head(each)}** in {where}: {'; '.join(each['findings'])}.")
            lines += [f"  {what}: {_cut(error)}" for what, error in each["calls"][:2]]
    return "\n".join(lines) + "\n"


def _head(result: Mapping[str, Any]) -> str:
    return _with_version(result["client"], result["version"])


def _cell(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "–"
    return str(result["outcome"]) if result["met"] else f"**{result['outcome']}**"
