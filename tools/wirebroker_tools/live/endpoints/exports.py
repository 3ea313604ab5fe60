"""Exports chosen rows of the trace as files: a capture, or a scenario that the mock plays."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from wirebroker.control.controlled import Controlled
from wirebroker.control.forms import Form, Natural, about
from wirebroker.control.problems import Problem
from wirebroker.trace.rows import row_from_json
from wirebroker_tools.capture.exchanges import captured
from wirebroker_tools.live.endpoints.exchanges import OfRun, kept_exchange
from wirebroker_tools.traces.scenario import scenario_of


class Remarked(Form):
    """An exchange."""

    number: Annotated[Natural, about("the number of the exchange's `reply` row")]
    remarks: Annotated[list[str], about("remarks on the exchange, such as its verdicts")] = []


class Chosen(OfRun, kw_only=True):
    """Exchanges of one run."""

    exchanges: Annotated[list[Remarked], about("the exchanges, in the order of their numbers")]


class Rows(Form):
    """A list of rows of the trace."""

    rows: Annotated[list[dict[str, Any]], about("as in /trace.jsonl")]


def capture(controlled: Controlled, body: Chosen) -> bytes:
    """Returns exchanges as a pcapng file, for Wireshark and `wirebroker trace show`, if their bytes are still kept.

    Times are exact to the millisecond, and clients' ports are made up. The file contains no secrets, as with `--capture`.
    """
    found = [(kept_exchange(controlled, each.number, body.run), each.remarks) for each in body.exchanges]
    kept = [(exchange, remarks) for exchange, remarks in found if exchange is not None]
    if not kept:
        raise Problem(404, "the control keeps no bytes of these exchanges", "exchanges")
    return captured(kept)


def scenario(controlled: Controlled, body: Rows) -> str:
    """Makes a scenario from the batches, errors and faults of the rows in the body, and returns it. `scenario run FILE.toml`
    plays the scenario.
    """
    rules = {str(rule): rule.described() for rule in controlled.machine.plan.rules if rule.in_files}
    try:
        return scenario_of([row_from_json(row) for row in body.rows], rules)
    except (ValueError, msgspec.ValidationError) as wrong:
        raise Problem(422, str(wrong), "rows") from None
