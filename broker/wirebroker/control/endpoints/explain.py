"""The findings in the trace, as `wirebroker explain` prints them."""

from __future__ import annotations

from typing import Annotated, Any

from wirebroker.control.controlled import Readable
from wirebroker.control.forms import Form, about


class Finding(Form):
    """Something that went wrong, with the rows that prove it."""

    kind: Annotated[str, about("as docs/how-to/debugging.md lists them")]
    sentence: Annotated[str, about("what happened, to which client, how often and when")]
    cause: Annotated[str, about("the usual cause")]
    look_at: Annotated[str, about("the setting or the code to look at")]
    where: Annotated[str, about("the filter that shows more rows")]
    about: Annotated[dict[str, Any], about("lists of the names in `rows`, by kind: client, principal, host, group …")]
    since: Annotated[int, about("a moment before it began, in ms since the epoch")]
    until: Annotated[int, about("a moment after its latest row")]
    picture: Annotated[str, about("the flags of `trace show` that draw it")]
    count: Annotated[int, about("the number of rows that show it")]
    first: Annotated[int, about("the time of the first row, in ms since the epoch")]
    last: Annotated[int, about("the time of the latest row")]
    numbers: Annotated[list[int], about("the numbers of `rows`, as /events has them")]
    rows: Annotated[list[dict[str, Any]], about("the first and the latest of the rows, as /trace.jsonl has them")]


class Findings(Form):
    """The findings, the most important first."""

    findings: list[Finding]
    rows: Annotated[int, about("the number of rows that were read")]
    blind: Annotated[str, about("what the level of the trace hides, as a sentence")]


async def explain(controlled: Readable) -> Findings:
    """Returns what is wrong in the rows of the trace: first in the rows that it keeps, and from the first call on
    in all rows. Of a file, in the rows that have been read; `rows` grows from one request to the next.
    """
    found, explanation = await controlled.explained()
    return Findings([Finding(**each.as_json()) for each in found], explanation.rows, explanation.blind)
