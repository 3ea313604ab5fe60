"""One self-contained HTML page: no scripts, no fonts, nothing from elsewhere; for wide screens and phones, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from wirebroker.audit.findings import KINDS, plural
from wirebroker.common.page import head, table, text
from wirebroker_audit.checks.against_table import sentence
from wirebroker_audit.report import groups, plots
from wirebroker_audit.report.changes import STATES, new_ones
from wirebroker_audit.report.coverage import REMOTE
from wirebroker_audit.report.gather import Row, first_findings, heat_map, ribbons, timelines
from wirebroker_audit.report.lateness import rows_over_time
from wirebroker_tools.pictures.marks import STYLE as PICTURE_STYLE

PAGE = "report.html"
OPEN = 5
"""This many findings of each kind are visible; the reader can unfold further findings."""
CHOICES = 50
"""The page shows which replica was read for at most this many partitions."""
DRAWN = 5
"""At most this many topics of the application's table are drawn, the topics with the most missing rows first."""
REMOTE_HEADS = ("remote segments", "remote offsets not read")
EARLIER = 10
"""The table of earlier audits has this many audits."""


def write_report(
    folder: Path, summary: Mapping[str, Any], batches: DataFrame, folded: DataFrame, findings: DataFrame,
    outcomes: Sequence[Row], history: Sequence[Row], before: Path,
) -> list[Row]:  # fmt: skip
    """Write the page into the folder. Returns the findings that the page shows: the first of each kind and severity.

    `summary["changes"]` may compare the findings with an earlier report; `before` is the place of that report."""
    shown = first_findings(findings) if summary["kinds"] else []
    fresh = new_ones(shown, before) if summary["changes"] is not None else frozenset()
    parts = [_head(summary), *_verdict(summary), *_changes(summary["changes"]), *_findings(shown, summary["kinds"], fresh)]
    if summary["kinds"]:
        parts += ["<h2>Findings by kind</h2>", plots.findings_by_kind(summary["kinds"])]
    parts += [*_against_table(summary.get("table")), *groups.section(summary, shown)]
    logs = ribbons(batches, shown)
    parts += [f"<style>{PICTURE_STYLE}</style>"] if logs else []
    for log in logs:
        parts += [f"<h2>The log of {text(log.topic)}-{log.partition}</h2>", plots.ribbon(log)]
    for line in timelines(batches, shown):
        parts += [f"<h2>Producer {line.producer_id} on {text(line.topic)}-{line.partition}</h2>", plots.timeline(line)]
    if len(cells := heat_map(folded, findings if shown else None)) > 1:  # a picture with a single cell shows nothing new
        parts += ["<h2>Partitions and producers</h2>", plots.heat_map(cells)]
    if outcomes:
        parts += ["<h2>What if the broker had other rules?</h2>", plots.what_if(outcomes), _outcomes(outcomes)]
    if len(history) > 1:
        parts += ["<h2>Earlier audits</h2>", plots.trend(history), _history(history)]
    parts += [*_coverage(summary["coverage"]), _topics(summary["topics"]), *_replicas(summary["ranges"]), "</body></html>\n"]
    (folder / PAGE).write_text("\n".join(parts), encoding="utf-8")
    return shown


def _head(summary: Mapping[str, Any]) -> str:
    origin = text(str(summary["origin"]))
    about = f"{summary['audited_at']}, on {text(summary['host'])}, with wirebroker {summary['version']}"
    title = f"Audit of {summary['origin']}"
    return head(title, "Was delivery exactly once?", f"The audit of <code>{origin}</code>, {about}")


def _verdict(summary: Mapping[str, Any]) -> Iterable[str]:
    if not summary["complete"]:
        yield "<div class='problem'><p><b>This audit is not complete.</b> Not everything could be read:</p>"
        yield from (f"<p>{text(each)}</p>" for each in summary["problems"])
        yield "</div>"
    worst, sentence = verdict(summary["severities"])
    yield f"<p class='verdict {worst}'>{sentence}</p>"
    yield from (f"<p class='info'>{text(each)}</p>" for each in summary["notices"])


def _changes(changed: Mapping[str, Any] | None) -> Iterable[str]:
    """Yields the numbers of `new`, `still` present and `gone` findings since the earlier report, then the `gone` ones."""
    if changed is None or not any(changed[state] for state in STATES):
        return
    new, still, gone = (changed[state] for state in STATES)
    began = text(changed["time"][:16].replace("T", " "))
    yield f"<p class='about'>Since the audit of {began} UTC: {new:,} new, {still:,} still there, {gone:,} gone.</p>"
    if listed := changed["gone_findings"]:
        yield f"<details><summary class='about'>{plural(gone, 'finding')} gone</summary>"
        yield from (f"<p>{text(each['kind'])}: {text(each['explanation'])}</p>" for each in listed)
        if gone > len(listed):
            yield f"<p class='about'>and {gone - len(listed):,} more</p>"
        yield "</details>"


def verdict(counts: Mapping[str, int]) -> tuple[str, str]:
    """Returns the gravest severity ("" if no finding is certain or likely), and the answer to the page's question."""
    certain, likely = (counts.get(severity, 0) for severity in ("certain", "likely"))
    if certain:
        return "certain", f"No: {_are(certain, 'finding')} certain" + (f", {_are(likely)} likely." if likely else ".")
    if likely:
        return "likely", f"Probably not: {_are(likely, 'finding')} likely."
    return "", "Yes, as far as the batches that were read show: no finding is certain or likely."


def _are(count: int, what: str = "") -> str:
    """Returns `1 finding is` or `2 findings are`."""
    return f"{plural(count, what) if what else f'{count:,}'} {'is' if count == 1 else 'are'}"


def _against_table(table: Mapping[str, Any] | None) -> Iterable[str]:
    """Yields the section about rows and records over time, if the journal is a table."""
    if table is None:
        return
    yield f"<h2>The application's table</h2><p class='about'>as <code>{text(table['description'])}</code> describes it</p>"
    topics = sorted(table["topics"].items(), key=lambda each: (-each[1]["missing"], each[0]))
    for topic, sums in topics[:DRAWN]:
        yield f"<p>{text(topic)}: {text(sentence(sums))}</p>"
        if sums["buckets"]:
            yield rows_over_time(topic, table)
    if len(topics) > DRAWN:
        yield f"<p class='about'>{len(topics) - DRAWN:,} more topics are in <code>summary.json</code></p>"


def _coverage(coverage: Mapping[str, Any]) -> Iterable[str]:
    """Yields the proven facts about each topic, and the digest of all read batches."""
    yield "<h2>What was proven</h2>"
    rows = []
    tiered = any(each[name] for each in coverage["topics"].values() for name in REMOTE.values())
    for topic, each in coverage["topics"].items():
        times = " to ".join(_minute(each[name]) for name in ("from_ms", "to_ms")) if each["to_ms"] >= 0 else "-"
        checked = "with epochs and transactions" if each["sequences"] else "not meaningful here"
        against = text(each["journal"]) if each["journal"] else "nothing"
        numbers = [f"{each[name]:,}" for name in ("partitions", "replicas", "offsets", *(REMOTE.values() if tiered else ()))]
        rows.append([text(topic), *numbers, times, checked, each["contents"], against])
    names = ["topic", "partitions", "replicas", "offsets", *(REMOTE_HEADS if tiered else ())]
    yield table([*names, "times (UTC)", "sequences", "contents", "compared with"], rows)
    since = coverage["elections_from_ms"]
    known = f"known since {_minute(since)} UTC" if since >= 0 else "not known: no metadata of the cluster was read"
    yield f"<p class='about'>Unclean elections are {known}.</p>"
    yield f"<p class='about'>SHA-256 of the batches that were read: <code>{coverage['digest']}</code></p>"


def _minute(ms: int) -> str:
    """Formats the time of a batch. A producer may set any number as the time."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def _topics(topics: Mapping[str, Mapping[str, int]]) -> str:
    names = ("partitions", "batches", "records", "bytes", "producers")
    rows = [
        [text(topic), *(f"{counts[name]:,}" for name in (*names, "committed", "aborted"))] for topic, counts in topics.items()
    ]
    words = "<p class='about'>A transaction has a marker in each of its partitions.</p>"
    return "<h2>What was read</h2>" + table(["topic", *names, "commit markers", "abort markers"], rows) + words


def _replicas(ranges: Sequence[Row]) -> Iterable[str]:
    """Yields a table of the replicas that were read, for partitions with several replicas."""
    chosen = [each for each in ranges if "why" in each]
    if chosen:
        rows = [
            [f"{text(each['topic'])}-{each['partition']}", _path(each["read"]), text(each["why"]),
             "<br>".join(map(_path, each["others"]))]
            for each in chosen[:CHOICES]
        ]  # fmt: skip
        yield "<h2>Which replica was read</h2>" + table(["partition", "read", "because", "compared with it"], rows)
    if len(chosen) > CHOICES:
        yield f"<p class='about'>{len(chosen) - CHOICES:,} more are in <code>summary.json</code></p>"


def _path(path: str) -> str:
    """Returns the path as HTML. A line may break after each slash."""
    return text(path).replace("/", "/<wbr>")


def _history(history: Sequence[Row]) -> str:
    rows = []
    for each in reversed(history[-EARLIER:]):
        counts = [f"{each['severities'].get(severity, 0):,}" for severity in ("certain", "likely")]
        began = text(each["time"][:16].replace("T", " "))
        rows.append(
            [began, *counts, f"{each['records']:,}", "yes" if each.get("complete") else "no", text(str(each["version"]))]
        )
    return table(["began (UTC)", "certain", "likely", "records", "complete", "version"], rows)


def _outcomes(outcomes: Sequence[Row]) -> str:
    names = ("accepted", "recognised", "rejected", "saved", "lost", "doubled", "beyond", "records", "state_bytes")
    rows = [[text(each["variant"]), *(f"{each[name]:,}" for name in names)] for each in outcomes]
    words = (
        "<p>Numbers of batches under these rules. <i>saved</i>: retries that these rules recognise and the broker did not; "
        "<i>lost</i>: batches that the broker stored or recognised and these rules reject; "
        "<i>doubled</i>: retries that the broker recognised and these rules store again; "
        "<i>beyond</i>: arrivals after the first response that is different under these rules; "
        "from there on, the client would have sent other batches.</p>"
    )
    return words + table(["rules", *names], rows)


def _findings(shown: Sequence[Row], kinds: Sequence[Mapping[str, Any]], fresh: frozenset[str]) -> Iterable[str]:
    """Shows the gravest findings first, a few of each kind. A reader can unfold a finding to see its evidence."""
    if kinds:
        yield "<h2>Findings</h2>"
    for group in kinds:
        kind, severity, count = group["kind"], group["severity"], group["count"]
        alike = [each for each in shown if (each["kind"], each["severity"]) == (kind, severity)]
        yield f"<h3 class='{severity}'>{kind}: {count:,} {severity}</h3><p class='about'>{text(KINDS[kind])}</p>"
        yield from (_finding(each, fresh) for each in alike[:OPEN])
        if alike[OPEN:]:
            yield f"<details><summary class='about'>{len(alike) - OPEN:,} more</summary>"
            yield from (_finding(each, fresh) for each in alike[OPEN:])
            yield "</details>"
        if count > len(alike):
            yield f"<p class='about'>{count - len(alike):,} more are in <code>findings/</code></p>"


def _finding(found: Row, fresh: frozenset[str]) -> str:
    new = "<b>new</b> " if found["id"] in fresh else ""
    evidence = json.dumps(json.loads(found["evidence"]), indent=1, ensure_ascii=False)
    about = f"<p class='about'>finding {text(found['id'])}</p>"
    words = f"<summary>{new}{text(found['explanation'])}</summary>"
    return f"<details>{words}{about}<pre><code>{text(evidence)}</code></pre></details>"
