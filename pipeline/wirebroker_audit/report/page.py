"""One self-contained HTML page: no scripts, no fonts, nothing from elsewhere; it reads on a phone as well."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from wirebroker.audit.findings import KINDS
from wirebroker_audit.report import plots
from wirebroker_audit.report.gather import Row, first_findings, heat_map, timelines

PAGE = "report.html"
STYLE = """
:root{color-scheme:light}body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:0 1rem 3rem;
color:#1b2631;background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}svg{width:100%;height:auto}
.scroll{overflow-x:auto}.scroll svg{min-width:36rem}
table{border-collapse:collapse;font-size:.9rem;width:100%}th,td{text-align:left;padding:.3rem .6rem;
border-bottom:1px solid #d5d8dc;vertical-align:top}td.n,th.n{text-align:right}.certain{color:#c0392b}.likely{color:#b9770e}
.info{color:#5d6d7e}.verdict{font-size:1.1rem;padding:.8rem 1rem;border-left:.4rem solid #1e8449;background:#eafaf1}
.verdict.certain{border-color:#c0392b;background:#fdedec;color:inherit}
.verdict.likely{border-color:#d68910;background:#fef5e7;color:inherit}
.problem{padding:.5rem 1rem;border-left:.4rem solid #c0392b;background:#fdedec}code{font-size:.85em;overflow-wrap:anywhere}
details summary{cursor:pointer}
"""


def write_report(
    folder: Path, summary: Mapping[str, Any], batches: DataFrame, folded: DataFrame, findings: DataFrame,
    outcomes: Sequence[Row],
) -> list[Row]:  # fmt: skip
    """Write the page into the folder; the first findings of each kind, which it shows."""
    shown = first_findings(findings)
    parts = [_head(summary), *_verdict(summary)]
    if summary["findings"]:
        parts += ["<h2>Findings by kind</h2>", _picture(plots.findings_by_kind(summary["findings"]))]
    for line in timelines(batches, shown):
        parts += [
            f"<h2>Producer {line.producer_id} on {escape(line.topic)}-{line.partition}</h2>",
            _picture(plots.timeline(line)),
        ]
    if cells := heat_map(folded, findings):
        parts += ["<h2>Partitions and producers</h2>", _picture(plots.heat_map(cells))]
    if outcomes:
        pictures = [_picture(plots.what_if(outcomes)), _outcomes(outcomes)]
        parts += ["<h2>What if the broker had other rules?</h2>", *pictures]
    parts += [_topics(summary["topics"]), *_findings(shown, summary["findings"]), "</body></html>\n"]
    (folder / PAGE).write_text("\n".join(parts), encoding="utf-8")
    return shown


def _head(summary: Mapping[str, Any]) -> str:
    origin = escape(str(summary["origin"]))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Audit of {origin}</title><style>{STYLE}</style></head><body><h1>Was delivery exactly once?</h1>"
        f"<p>The audit of <code>{origin}</code></p>"
    )


def _verdict(summary: Mapping[str, Any]) -> Iterable[str]:
    counts = summary["severities"]
    if not summary["complete"]:
        yield "<div class='problem'><p><b>This audit is not complete.</b> Not everything could be read:</p>"
        yield from (f"<p>{escape(each)}</p>" for each in summary["problems"])
        yield "</div>"
    worst = next((each for each in ("certain", "likely") if counts.get(each)), "")
    sentence = {
        "certain": f"No: {counts.get('certain', 0):,} findings are certain, {counts.get('likely', 0):,} are likely.",
        "likely": f"Probably not: {counts.get('likely', 0):,} findings are likely; none is certain.",
        "": "Yes, as far as the batches that were read show: there is no such finding.",
    }[worst]
    yield f"<p class='verdict {worst}'>{sentence}</p>"
    yield from (f"<p class='info'>{escape(each)}</p>" for each in summary["notices"])


def _picture(svg: str) -> str:
    """The picture scrolls on a phone: made to fit, it would be too small to read."""
    return f"<div class='scroll'>{svg}</div>"


def _topics(topics: Mapping[str, Mapping[str, int]]) -> str:
    names = ("partitions", "batches", "records", "bytes", "producers", "committed", "aborted")
    rows = [[escape(topic), *(f"{counts[name]:,}" for name in names)] for topic, counts in topics.items()]
    return "<h2>What was read</h2>" + _table(["topic", *names], rows)


def _outcomes(outcomes: Sequence[Row]) -> str:
    names = ("accepted", "recognised", "rejected", "saved", "lost", "doubled", "beyond", "records", "state_bytes")
    rows = [[escape(each["variant"]), *(f"{each[name]:,}" for name in names)] for each in outcomes]
    words = (
        "<p>Numbers of batches under these rules. <i>saved</i>: retries that are recognised and were not; <i>lost</i>: batches "
        "that are rejected and were accepted; <i>doubled</i>: retries that are stored again and were recognised; "
        "<i>beyond</i>: arrivals after the first different answer, where the client would have sent other batches.</p>"
    )
    return words + _table(["rules", *names], rows)


def _findings(shown: Sequence[Row], counts: Mapping[str, int]) -> Iterable[str]:
    for kind, count in counts.items():
        of_kind = [each for each in shown if each["kind"] == kind]
        yield f"<h2 class='{of_kind[0]['severity']}'>{kind}: {count:,}</h2><p>{escape(KINDS[kind])}</p>"
        for each in of_kind:
            evidence = escape(json.dumps(json.loads(each["evidence"]), indent=1, ensure_ascii=False))
            yield (
                f"<details><summary class='{each['severity']}'>{escape(each['explanation'])}</summary>"
                f"<pre class='scroll'><code>{evidence}</code></pre></details>"
            )
        if count > len(of_kind):
            yield f"<p>… and {count - len(of_kind):,} more, in <code>findings/</code></p>"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th class='{'n' if index else ''}'>{name}</th>" for index, name in enumerate(heading))
    body = "".join(
        "<tr>" + "".join(f"<td class='{'n' if index else ''}'>{cell}</td>" for index, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<div class='scroll'><table><tr>{head}</tr>{body}</table></div>"
