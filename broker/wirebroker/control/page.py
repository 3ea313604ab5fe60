"""The table as a page for people, at the control's root."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from wirebroker.common.version import __version__
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.fields import fields_of
from wirebroker.tools import installed_tools

TITLES = {
    "running": "The broker", "cluster": "The cluster", "faults": "Faults", "topics": "Topics", "records": "Records",
    "verdicts": "Verdicts", "events": "The trace", "audit": "Audit", "state": "Producers, transactions, groups",
    "report": "Tests and their reports", "quotas": "Quotas", "acls": "ACLs", "telemetry": "Metrics of clients",
    "metrics": "Metrics for Prometheus",
}  # fmt: skip
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
table { border-collapse: collapse; width: 100% }
td { padding: .35rem .8rem .35rem 0; vertical-align: top; border-top: 1px solid #8884 }
td:nth-child(-n+2) { white-space: nowrap; font-family: ui-monospace, monospace }
small { opacity: .75 }
"""


FIRST = ("/health", "/report", "/topics", "/faults", "/verdicts", "/groups")


def page(endpoints: Sequence[Endpoint]) -> str:
    """Returns the whole page, which loads no other files."""
    paths = {each.shown_path for each in endpoints if each.method == "GET"}
    first = ", ".join(f'<a href="{path[1:]}">{path[1:]}</a>' for path in FIRST if path in paths)
    titles = {**TITLES, **(tools.titles() if (tools := installed_tools()) is not None else {})}
    by_area = groupby(sorted(endpoints, key=lambda each: list(titles).index(each.area)), key=lambda each: each.area)
    areas = "".join(f"<h2>{titles[area]}</h2>\n<table>\n{''.join(map(_row, rows))}</table>\n" for area, rows in by_area)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>wirebroker control</title><style>{STYLE}</style></head><body>
<h1>wirebroker {__version__}</h1>
<p><a href="live/">The live page</a> shows requests and verdicts as they happen.</p>
<p>The control of a Kafka test double: {first}.
Bodies and responses are JSON; errors are problem details (RFC 9457).
Every form is in <a href="openapi.json">openapi.json</a>.</p>
{areas}</body></html>
"""


def _row(endpoint: Endpoint) -> str:
    takes = "".join(
        f"<br><small>{where} <b>{escape(name)}</b> {escape(about)}</small>" for where, name, about in fields_of(endpoint)
    )
    return (
        f"<tr><td>{endpoint.method}</td><td>{escape(endpoint.shown_path)}</td><td>{escape(endpoint.summary)}{takes}</td></tr>\n"
    )
