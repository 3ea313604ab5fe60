"""An exploration on the terminal: the plain run, a bar, and each way in which the application broke."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from kafkawire.printable import printable
from wirebroker.audit.findings import plural
from wirebroker.campaign.cases import Result
from wirebroker.campaign.exploration import Exploration
from wirebroker.campaign.outcomes import SILENT_OUTCOMES

WIDTH = 128
"""Columns, where there is no terminal that has its own."""
NAMES = {
    "lost": "LOST", "doubled": "DOUBLED", "reordered": "REORDERED", "open_transaction": "OPEN TRANSACTION", "hung": "HANGS",
    "storm": "RETRY STORM", "check_failed": "CHECK FAILED",
}  # fmt: skip
SHOWN_APIS = 6
MOST_WAYS = 12
"""Ways to one outcome that are shown; explore.json has all."""
WORDS = {
    ("lose_request", "disconnect"): "the connection closes before the broker has the request",
    ("lose_request", "silence"): "the request is lost, and the connection goes silent",
    ("lose_ack", "disconnect"): "the response is lost, and the connection closes",
    ("lose_ack", "silence"): "the response is lost, and the connection goes silent",
}
PLAIN_WORDS = {
    "cut": "the connection closes inside the response", "restart": "the broker is killed and starts again",
    "throttle": "the client has to wait", "crash_after_write": "the broker is killed after the write",
    "expire_producer": "the partition forgets the producer", "delay": "the request is handled after the client's timeout",
    "fence": "another producer begins with the transactional id",
    "expire_transactional_id": "the coordinator forgets the transactional id",
    "truncate": "the log loses its end", "corrupt": "a record is damaged",
}  # fmt: skip


class Screen:
    """Prints an exploration."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        if console is None and not self.console.is_terminal:
            self.console.width = WIDTH

    def _say(self, *parts: str | tuple[str, str]) -> None:
        text = Text("  ")
        for part in parts:
            text.append(printable(part if isinstance(part, str) else part[0]), "" if isinstance(part, str) else part[1])
        self.console.print(text, soft_wrap=True)

    def plain(self, exploration: Exploration) -> None:
        """The run without faults, and what does not repeat."""
        run = exploration.plain
        stored = sum(map(len, run.stored.values()))
        shown = [f"{count} {api}" for api, count in run.requests.most_common(SHOWN_APIS)]
        more = " …" if len(run.requests) > SHOWN_APIS else ""
        self._say(f"plain run   {', '.join(shown)}{more}   {run.seconds:.1f} s   stored {stored}, exit {run.exit}")
        for notice in exploration.expected.notices:
            self._say(("note", "yellow"), f": {notice}")

    @contextmanager
    def progress(self, exploration: Exploration) -> Iterator[Progress]:
        """A bar while the cases are played; nothing where no one watches."""
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        requests = sum(exploration.requests.values())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            progress.add_task(f"trying faults at {requests} requests", total=len(exploration.table))
            yield progress

    def results(self, summary: Mapping[str, Any], results: Sequence[Result], seconds: float, requests: int) -> None:
        """Everything that was found."""
        counts = summary["summary"]
        self._say(f"tried {plural(counts['runs'], 'fault')} at {plural(requests, 'request')} in {_time(seconds)}")
        for outcome in SILENT_OUTCOMES:
            ways = list(_ways(outcome, results))
            count = plural(len(ways), "way")
            if len(ways) > MOST_WAYS:
                ways[MOST_WAYS:] = [f"… and {len(ways) - MOST_WAYS} more"]
            for number, way in enumerate(ways):
                heading = f"{NAMES[outcome]:<12}" if not number else " " * 12
                self._say((heading, "bold red"), f"{count if not number else '':<9}{way}")
        self._say(f"fails, and says so   {counts['failed']}      as before   {counts['as_before']}")
        if counts["kafka_defect"]:
            why = "Kafka 4.3.1 itself loses the first batch on a partition if it refuses it while others are in flight"
            self._say(f"by KAFKA-15591   {counts['kafka_defect']}: {why}")
        if counts["not_fired"]:
            self._say(f"{plural(counts['not_fired'], 'run')} ended before the fault could strike")
        slower = [result for result in results if result.get("slower")]
        if slower:
            worst = max(slower, key=lambda each: each["slower"])
            what = f"{place_of(worst)}: {fault_in_words(worst['fault'])}"
            self._say(f"slower   {len(slower)}, at worst ×{worst['slower']:g}: {what}")
        if counts["not_tried"]:
            self._say(("not tried", "yellow"), f"   {counts['not_tried']}: the budget was used up (--resume goes on)")

    def say(self, sentence: str) -> None:
        """A line."""
        self._say(sentence)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _ways(outcome: str, results: Iterable[Result]) -> Iterator[str]:
    """Each kind of fault that led to an outcome, at the requests where it did."""
    alike: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if outcome in result["outcomes"]:
            alike.setdefault((place_of(result), fault_in_words(result["fault"])), []).append(result)
    for (place, words), same in alike.items():
        nth = ", ".join(str(each["nth"]) for each in sorted(same, key=lambda each: each["nth"]))
        how_often = f"; {same[0]['again']}" if same[0].get("again") else ""
        yield f"{place}: {words} (nth {nth}) … {same[0]['sentence']}{how_often}"


def place_of(result: Result) -> str:
    """Which requests a case strikes, in words."""
    fault = result["fault"]
    return f"{result['api']} to {fault['topic']}" if fault.get("topic") else str(result["api"])


def fault_in_words(fault: Mapping[str, Any]) -> str:
    """What happens, in words."""
    kind = fault["kind"]
    if kind == "error":
        return f"{fault['code']}{', and the request has taken effect' if fault.get('after') else ''}"
    return WORDS.get((kind, fault.get("then", ""))) or PLAIN_WORDS.get(kind, kind)
