"""The findings in the trace, as `wirebroker explain` prints them."""

from __future__ import annotations

from typing import Annotated, Any

from wirebroker.control.controlled import Readable
from wirebroker.control.forms import Form, about
from wirebroker_tools.live.watched import explained


class Finding(Form):
    """Something that went wrong, with the rows that prove it."""

    kind: Annotated[str, about("one of the kinds in docs/how-to/debugging.md")]
    sentence: Annotated[str, about("what happened, to which client, how often and when")]
    cause: Annotated[str, about("the usual cause")]
    look_at: Annotated[str, about("the setting or the code to look at")]
    where: Annotated[str, about("the filter that shows more rows")]
    about: Annotated[dict[str, Any], about("the names in `rows`, as a list for each kind: client, principal, host, group …")]
    since: Annotated[int, about("a time before the problem began, in ms since the epoch")]
    until: Annotated[int, about("a time after the latest row of the problem")]
    picture: Annotated[str, about("the flags with which `trace show` draws the problem")]
    count: Annotated[int, about("the number of rows that show the problem")]
    first: Annotated[int, about("the time of the first row, in ms since the epoch")]
    last: Annotated[int, about("the time of the latest row")]
    numbers: Annotated[list[int], about("the numbers of `rows`, as /events has them")]
    rows: Annotated[list[dict[str, Any]], about("the first and the latest of the rows, as /trace.jsonl has them")]


class Findings(Form):
    """The findings, the most important first."""

    findings: list[Finding]
    rows: Annotated[int, about("the number of rows that were read")]
    blind: Annotated[str, about("a sentence about what cannot be found at this level of the trace")]


async def explain(controlled: Readable) -> Findings:
    """Returns the findings in the rows of the trace.

    The first request makes the control read the rows that the trace still keeps. From then on the control reads every new row.
    A file is read step by step: `rows` says how many rows of the file have been read, and grows from one request to the next.
    """
    found, explanation = await explained(controlled)
    return Findings([Finding(**each.as_json()) for each in found], explanation.rows, explanation.blind)
