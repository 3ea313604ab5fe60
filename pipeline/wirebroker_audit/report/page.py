"""One self-contained HTML page: no scripts, no fonts, nothing from elsewhere; for wide screens and phones, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from kafkawire.printable import printable_lines
from wirebroker.audit.findings import KINDS, plural
from wirebroker_audit.checks.against_table import sentence
from wirebroker_audit.report import plots
from wirebroker_audit.report.colours import variables
from wirebroker_audit.report.gather import Row, first_findings, heat_map, timelines
from wirebroker_audit.report.lateness import rows_over_time

PAGE = "report.html"
PHONE = "@media(max-width:40rem)"
STYLE = f"""
:root{{color-scheme:light dark;{variables(dark=False)}}}
@media(prefers-color-scheme:dark){{:root{{{variables(dark=True)}}}}}
body{{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:0 1rem 3rem;color:var(--ink);
background:var(--paper);overflow-wrap:anywhere}}
h1{{font-size:1.5rem;margin-bottom:.2rem}}h2{{font-size:1.2rem;margin-top:2.2rem}}h3{{font-size:1rem;margin:1.4rem 0 0}}
p{{margin:.4rem 0}}.about{{color:var(--faint);font-size:.9rem}}
.certain{{color:var(--certain)}}.likely{{color:var(--likely)}}.info{{color:var(--faint)}}
.verdict,.problem{{padding:.7rem 1rem;margin:1rem 0;border-left:.4rem solid var(--good);background:var(--good-tint);
color:var(--ink)}}
.verdict{{font-size:1.1rem}}.verdict.certain,.problem{{border-color:var(--certain);background:var(--certain-tint)}}
.verdict.likely{{border-color:var(--likely);background:var(--likely-tint)}}
details{{margin:.3rem 0}}summary{{cursor:pointer}}pre{{white-space:pre-wrap;margin:.3rem 0 .3rem 1rem;color:var(--faint)}}
code{{font-size:.85em}}svg{{width:100%;height:auto;display:block}}svg text{{fill:var(--ink)}}.narrow{{display:none}}
table{{border-collapse:collapse;font-size:.9rem;width:100%}}th,td{{text-align:right;padding:.3rem .5rem;
border-bottom:1px solid var(--rule);vertical-align:top;overflow-wrap:normal}}
th:first-child,td:first-child{{text-align:left;overflow-wrap:anywhere}}
{PHONE}{{.narrow{{display:block}}.wide,thead{{display:none}}table,tbody,tr,td,td:first-child{{display:block;text-align:left}}
tr{{border-bottom:1px solid var(--rule);padding:.4rem 0}}td{{display:inline-block;border:0;padding:0 .8rem 0 0}}
td:first-child{{font-weight:600}}td+td::before{{content:attr(title)' ';color:var(--faint)}}}}
"""
"""On a phone each picture is drawn narrower, and each row of a table becomes a paragraph: nothing is cut off."""
OPEN = 5
"""The number of visible findings of each kind; the reader unfolds the others."""
CHOICES = 50
"""The largest number of partitions for which the page shows the replica that was read."""
DRAWN = 5
"""The number of topics of the application's table that are drawn: those with the most missing rows."""
EARLIER = 10
"""The number of audits in the table of earlier audits."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page shows names and contents of records from any source; the browser neither runs nor fetches any of this text."""


def write_report(
    folder: Path, summary: Mapping[str, Any], batches: DataFrame, folded: DataFrame, findings: DataFrame,
    outcomes: Sequence[Row], history: Sequence[Row] = (),
) -> list[Row]:  # fmt: skip
    """Write the page into the folder. Returns the first findings of each kind and severity, which it shows."""
    shown = first_findings(findings) if summary["kinds"] else []
    parts = [_head(summary), *_verdict(summary), *_findings(shown, summary["kinds"])]
    if summary["kinds"]:
        parts += ["<h2>Findings by kind</h2>", plots.findings_by_kind(summary["kinds"])]
    parts += _against_table(summary.get("table"))
    for line in timelines(batches, shown):
        parts += [f"<h2>Producer {line.producer_id} on {_text(line.topic)}-{line.partition}</h2>", plots.timeline(line)]
    if len(cells := heat_map(folded, findings if shown else None)) > 1:  # one cell shows nothing new
        parts += ["<h2>Partitions and producers</h2>", plots.heat_map(cells)]
    if outcomes:
        parts += ["<h2>What if the broker had other rules?</h2>", plots.what_if(outcomes), _outcomes(outcomes)]
    if len(history) > 1:
        parts += ["<h2>Earlier audits</h2>", plots.trend(history), _history(history)]
    parts += [_topics(summary["topics"]), *_replicas(summary["ranges"]), "</body></html>\n"]
    (folder / PAGE).write_text("\n".join(parts), encoding="utf-8")
    return shown


def _head(summary: Mapping[str, Any]) -> str:
    origin = _text(str(summary["origin"]))
    about = f"{summary['audited_at']}, on {_text(summary['host'])}, with wirebroker {summary['version']}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>Audit of {origin}</title><style>{STYLE}</style></head><body><h1>Was delivery exactly once?</h1>"
        f"<p class='about'>The audit of <code>{origin}</code>, {about}</p>"
    )


def _verdict(summary: Mapping[str, Any]) -> Iterable[str]:
    if not summary["complete"]:
        yield "<div class='problem'><p><b>This audit is not complete.</b> Not everything could be read:</p>"
        yield from (f"<p>{_text(each)}</p>" for each in summary["problems"])
        yield "</div>"
    worst, sentence = verdict(summary["severities"])
    yield f"<p class='verdict {worst}'>{sentence}</p>"
    yield from (f"<p class='info'>{_text(each)}</p>" for each in summary["notices"])


def verdict(counts: Mapping[str, int]) -> tuple[str, str]:
    """The gravest severity, "" if no finding is certain or likely; and the answer to the page's question."""
    certain, likely = (counts.get(severity, 0) for severity in ("certain", "likely"))
    if certain:
        return "certain", f"No: {_are(certain, 'finding')} certain" + (f", {_are(likely)} likely." if likely else ".")
    if likely:
        return "likely", f"Probably not: {_are(likely, 'finding')} likely."
    return "", "Yes, as far as the batches that were read show: no finding is certain or likely."


def _are(count: int, what: str = "") -> str:
    """`1 finding is`, `2 findings are`."""
    return f"{plural(count, what) if what else f'{count:,}'} {'is' if count == 1 else 'are'}"


def _against_table(table: Mapping[str, Any] | None) -> Iterable[str]:
    """Rows and records over time, if the journal is a table."""
    if table is None:
        return
    yield f"<h2>The application's table</h2><p class='about'>as <code>{_text(table['description'])}</code> describes it</p>"
    topics = sorted(table["topics"].items(), key=lambda each: (-each[1]["missing"], each[0]))
    for topic, sums in topics[:DRAWN]:
        yield f"<p>{_text(topic)}: {_text(sentence(sums))}</p>"
        if sums["buckets"]:
            yield rows_over_time(topic, table)
    if len(topics) > DRAWN:
        yield f"<p class='about'>{len(topics) - DRAWN:,} more topics are in <code>summary.json</code></p>"


def _topics(topics: Mapping[str, Mapping[str, int]]) -> str:
    names = ("partitions", "batches", "records", "bytes", "producers", "committed", "aborted")
    rows = [[_text(topic), *(f"{counts[name]:,}" for name in names)] for topic, counts in topics.items()]
    return "<h2>What was read</h2>" + _table(["topic", *names], rows)


def _replicas(ranges: Sequence[Row]) -> Iterable[str]:
    """Which replica was read, where there are several."""
    chosen = [each for each in ranges if "why" in each]
    if chosen:
        rows = [
            [f"{_text(each['topic'])}-{each['partition']}", _text(each["read"]), _text(each["why"]),
             "<br>".join(map(_text, each["others"]))]
            for each in chosen[:CHOICES]
        ]  # fmt: skip
        yield "<h2>Which replica was read</h2>" + _table(["partition", "read", "because", "compared with it"], rows)
    if len(chosen) > CHOICES:
        yield f"<p class='about'>{len(chosen) - CHOICES:,} more are in <code>summary.json</code></p>"


def _history(history: Sequence[Row]) -> str:
    rows = []
    for each in reversed(history[-EARLIER:]):
        counts = [f"{each['severities'].get(severity, 0):,}" for severity in ("certain", "likely")]
        began = _text(each["time"][:16].replace("T", " "))
        rows.append(
            [began, *counts, f"{each['records']:,}", "yes" if each.get("complete") else "no", _text(str(each["version"]))]
        )
    return _table(["began (UTC)", "certain", "likely", "records", "complete", "version"], rows)


def _outcomes(outcomes: Sequence[Row]) -> str:
    names = ("accepted", "recognised", "rejected", "saved", "lost", "doubled", "beyond", "records", "state_bytes")
    rows = [[_text(each["variant"]), *(f"{each[name]:,}" for name in names)] for each in outcomes]
    words = (
        "<p>Numbers of batches under these rules. <i>saved</i>: retries that are recognised and were not; <i>lost</i>: batches "
        "that are rejected and were accepted; <i>doubled</i>: retries that are stored again and were recognised; "
        "<i>beyond</i>: arrivals after the first different answer, where the client would have sent other batches.</p>"
    )
    return words + _table(["rules", *names], rows)


def _findings(shown: Sequence[Row], kinds: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Shows the gravest findings first, a few of each kind; each unfolds to its evidence."""
    if kinds:
        yield "<h2>Findings</h2>"
    for group in kinds:
        kind, severity, count = group["kind"], group["severity"], group["count"]
        alike = [each for each in shown if (each["kind"], each["severity"]) == (kind, severity)]
        yield f"<h3 class='{severity}'>{kind}: {count:,} {severity}</h3><p class='about'>{_text(KINDS[kind])}</p>"
        yield from map(_finding, alike[:OPEN])
        if alike[OPEN:]:
            yield f"<details><summary class='about'>{len(alike) - OPEN:,} more</summary>"
            yield from map(_finding, alike[OPEN:])
            yield "</details>"
        if count > len(alike):
            yield f"<p class='about'>{count - len(alike):,} more are in <code>findings/</code></p>"


def _finding(found: Row) -> str:
    evidence = json.dumps(json.loads(found["evidence"]), indent=1, ensure_ascii=False)
    return f"<details><summary>{_text(found['explanation'])}</summary><pre><code>{_text(evidence)}</code></pre></details>"


def _text(text: str) -> str:
    """The text as HTML; no topic's name and no record's key in it changes the direction of the text after it."""
    return escape(printable_lines(text))


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heading)
    body = "".join(
        "<tr>" + "".join(f"<td title='{name}'>{cell}</td>" for name, cell in zip(heading, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
